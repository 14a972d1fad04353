package mysql

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// historyOf opens a history in a place of the given kind, anew each time.
func historyOf(t *testing.T, kind string) (open func() *history, poke func(record string), file string) {
	s := &settings{Common: debezium.Common{Prefix: "a"}, dialect: binlog.MySQL}
	s.history.kind, s.history.topic = kind, "h"
	switch kind {
	case "file":
		s.history.file = filepath.Join(t.TempDir(), "deep", "history")
		poke = func(record string) {
			if err := appendLines(s.history.file, [][]byte{[]byte(record)}); err != nil {
				t.Fatal(err)
			}
		}
	case "kafka":
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		s.history.kafka = map[string]string{"bootstrap.servers": strings.Join(cluster.ListenAddrs(), ",")}
		poke = func(record string) {
			cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			r := &kgo.Record{Topic: "h", Value: []byte(record)}
			if record == "" {
				r.Value = nil
			}
			if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	open = func() *history {
		h, err := openHistory(t.Context(), s, connect.Task{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.close(context.Background()) })
		return h
	}
	return open, poke, s.history.file
}

// tablesAt recovers a catalog and lists its tables with their columns.
func tablesAt(t *testing.T, h *history, upTo binlog.Offset) string {
	t.Helper()
	c := schema.NewCatalog(schema.MySQL, false, "utf8mb4")
	told := 0
	if err := h.recover(t.Context(), c, upTo, func() { told++ }); err != nil {
		t.Fatal(err)
	}
	if told == 0 {
		t.Error("nobody was told that it goes on")
	}
	var names []string
	for _, table := range c.Tables() {
		name := table.ID.Name
		for _, column := range table.Columns {
			name += " " + column.Name
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// statementsAt gives the records of statements that ended at positions 100, 200, …
func statementsAt(t *testing.T, source string, statements ...string) []schema.HistoryRecord {
	c := schema.NewCatalog(schema.MySQL, false, "utf8mb4")
	var records []schema.HistoryRecord
	for i, sql := range statements {
		changes, err := c.Apply(schema.Statement{Database: "d", Text: sql})
		if err != nil {
			t.Fatal(err)
		}
		position := binlog.Offset{File: "b.000001", Pos: uint64(100 * (i + 1)), ServerID: 1, Seconds: 5}.Append(nil)
		for j := range changes {
			records = append(records, changes[j].Record(debezium.Partition(source), position, 7))
		}
	}
	return records
}

func TestHistory(t *testing.T) {
	for _, kind := range []string{"kafka", "file"} {
		t.Run(kind, func(t *testing.T) {
			open, poke, _ := historyOf(t, kind)
			h := open()
			if there, err := h.exists(t.Context()); err != nil || there {
				t.Fatalf("a new history exists: %v, %v", there, err)
			}
			records := statementsAt(t, "a", "create table t (id int)", "alter table t add name varchar(9)", "create table u (x int)", "rename table t to v")
			if err := h.write(t.Context(), records[:3]); err != nil {
				t.Fatal(err)
			}
			if err := h.write(t.Context(), records[3:]); err != nil {
				t.Fatal(err)
			}
			if err := h.write(t.Context(), statementsAt(t, "another source", "create table w (id int)")); err != nil {
				t.Fatal(err)
			}
			poke(`{"source":{"server":"a"},"position":{"file":`)
			poke("")
			poke(`{"source":{"server":"a"},"position":{"file":"b.000001","pos":450},"databaseName":"d","ddl":"create table z (by_text int)"}`)
			poke(`{"source":{"server":"a"},"position":{"file":"b.000001","pos":450},"databaseName":"d","ddl":"create table nothing to read"}`)
			if err := h.write(t.Context(), records[3:]); err != nil { // as after a restart before it
				t.Fatal(err)
			}
			h = open()
			if there, err := h.exists(t.Context()); err != nil || !there {
				t.Fatalf("exists: %v, %v", there, err)
			}
			for pos, want := range map[uint64]string{99: "", 100: "t id", 250: "t id name", 300: "t id name, u x", 500: "u x, v id name, z by_text"} {
				if got := tablesAt(t, h, binlog.Offset{File: "b.000001", Pos: pos, ServerID: 1}); got != want {
					t.Errorf("at %d: %s, not %s", pos, got, want)
				}
			}
		})
	}
}

// A structure whose record is larger than the cluster's usual limit is kept too.
func TestHistoryOfManyColumns(t *testing.T) {
	open, _, _ := historyOf(t, "kafka")
	h := open()
	var sql strings.Builder
	sql.WriteString("create table t (")
	for i := range 4000 {
		fmt.Fprintf(&sql, "c%d varchar(20) default '%s', ", i, strings.Repeat("x", 500))
	}
	sql.WriteString("id int primary key)")
	records := statementsAt(t, "a", sql.String())
	if n := len(h.format.Append(nil, &records[0])); n < 4<<20 {
		t.Fatalf("a record of %d bytes only", n)
	}
	if err := h.write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if got := tablesAt(t, open(), binlog.Offset{File: "b.000001", Pos: 100}); len(got) < 4000 {
		t.Errorf("recovered: %.100s", got)
	}
}

// A line that was cut off is no record, and what is written behind it is one.
func TestTornHistoryFile(t *testing.T) {
	open, _, s := historyOf(t, "file")
	h := open()
	records := statementsAt(t, "a", "create table t (id int)", "create table u (id int)")
	if err := h.write(t.Context(), records[:1]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s, append(mustRead(t, s), `{"source":{"ser`...), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := tablesAt(t, h, binlog.Offset{File: "b.000001", Pos: 900}); got != "t id" {
		t.Errorf("with a torn line: %s", got)
	}
	if err := h.write(t.Context(), records[1:]); err != nil {
		t.Fatal(err)
	}
	if got := tablesAt(t, h, binlog.Offset{File: "b.000001", Pos: 900}); got != "t id, u id" {
		t.Errorf("behind a torn line: %s", got)
	}
	for line := range strings.Lines(string(mustRead(t, s))) {
		if !strings.HasPrefix(line, `{"source":{`) {
			t.Errorf("a line that isn't compact: %s", line)
		}
	}
}

func mustRead(t *testing.T, name string) []byte {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
