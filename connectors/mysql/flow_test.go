package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// TestChanges: each kind of change becomes Debezium's records, a change of key a delete and a create.
func TestChanges(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", "INSERT INTO t VALUES (1, 'a')")
		r := newRunner(d, d.config()).open()
		defer r.Close()
		if got := debeziumtest.Describe(r.Records(1)); got != `r[1]` {
			t.Fatalf("snapshot: %s", got)
		}
		d.exec("INSERT INTO t VALUES (2, 'b'), (3, 'c')", "UPDATE t SET v = 'B' WHERE id = 2", "UPDATE t SET id = 4 WHERE id = 3", "DELETE FROM t WHERE id = 1")
		log := r.Records(9)
		if got, want := debeziumtest.Describe(log[1:]), `c[2] c[3] u[2] d[3] tombstone[3] c[4] d[1] tombstone[1]`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		u := log[3]
		if u.Before("v").Str() != "b" || u.After("v").Str() != "B" {
			t.Errorf("update %s", u.Value)
		}
		for name, want := range map[string]string{"db": d.name, "table": "t", "connector": d.server.dialect.String(), "name": "srv", "snapshot": "false"} {
			if got := u.Source(name).Str(); got != want {
				t.Errorf("source.%s is %q, not %q", name, got, want)
			}
		}
		if u.Source("gtid").Str() == "" || u.Source("file").Str() == "" || u.Source("pos").Int() == 0 || u.Source("server_id").Int() != 1 {
			t.Errorf("source %s", u.Value)
		}
		if log[1].Source("row").Int() != 0 || log[2].Source("row").Int() != 1 {
			t.Errorf("rows %s and %s", log[1].Source("row"), log[2].Source("row"))
		}
		if log[1].Topic != "srv."+d.name+".t" {
			t.Errorf("topic %s", log[1].Topic)
		}
	})
}

// TestRestartAnywhere: whichever mark is the last durable one, what follows it comes and nothing before it.
func TestRestartAnywhere(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
		r := newRunner(d, d.config("snapshot.mode", "no_data", "max.batch.size", "7")).open()
		r.Until("the snapshot is marked", func() bool { return r.Stored != nil && !snapshotUnderWay(r.Stored) })
		start := r.Stored
		d.exec("BEGIN")
		for i := range 10 {
			var rows []string
			for k := range 10 {
				rows = append(rows, fmt.Sprintf("(%d, 'x')", i*10+k))
			}
			d.exec("INSERT INTO t VALUES " + strings.Join(rows, ","))
		}
		d.exec("COMMIT", "INSERT INTO t VALUES (100, 'y')", "DELETE FROM t WHERE id = 100")
		type at struct {
			n      int
			offset connect.OffsetMap
		}
		var marks []at
		for len(r.Log) < 103 {
			if o := r.Poll(); o != nil {
				marks = append(marks, at{len(r.Log), o})
			}
		}
		r.Close()
		whole := debeziumtest.Describe(r.Log)
		if len(marks) < 10 {
			t.Fatalf("only %d marks", len(marks))
		}
		for _, m := range append(marks, at{0, start}) {
			again := newRunner(d, r.Config)
			again.Log, again.Stored = append([]debeziumtest.Entry(nil), r.Log[:m.n]...), m.offset
			again.open().Records(103)
			again.Close()
			if got := debeziumtest.Describe(again.Log); got != whole {
				t.Fatalf("from %s after %d records:\ngot  %s\nwant %s", m.offset, m.n, got, whole)
			}
		}
	})
}

// TestStructuresOfTheirTime: columns come, go, move and change their names while nobody looks, and each row has the columns
// that it had; after a restart too.
func TestStructuresOfTheirTime(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1)")
		r := newRunner(d, d.config()).open()
		r.Records(1)
		r.Close()
		d.exec("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD COLUMN b varchar(9) FIRST", "INSERT INTO t VALUES ('x', 3, 3)", "ALTER TABLE t DROP COLUMN a",
			"INSERT INTO t VALUES ('y', 4)", "ALTER TABLE t CHANGE b c varchar(9) AFTER id", "INSERT INTO t VALUES (5, 'z')",
			"RENAME TABLE t TO old", "CREATE TABLE t (id int PRIMARY KEY, d int)", "INSERT INTO t VALUES (6, 6)", "DROP TABLE old, t")
		r.open()
		r.Records(6)
		var got []string
		for _, e := range r.Log {
			var names []string
			for _, f := range e.Schema.Fields[1].Schema.Fields {
				names = append(names, f.Name+"="+e.After(f.Name).String())
			}
			got = append(got, strings.Join(names, " "))
		}
		r.Close()
		want := `id=1 a=1|id=2 a=2|b="x" id=3 a=3|b="y" id=4|id=5 c="z"|id=6 d=6`
		if strings.Join(got, "|") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
		}
	})
}
