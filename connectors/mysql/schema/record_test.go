//go:build record

package schema

// Records what the real servers and the real Debezium make of the statements in
// testdata/ddl: run by e2e/interop/debezium/ddl.sh, which starts them.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/twmb/franz-go/pkg/kgo"
)

type recorder struct {
	t       *testing.T
	db      *client.Conn
	dialect string
	seen    map[string]string
}

func TestRecord(t *testing.T) {
	for _, dialect := range []string{"mysql", "mariadb"} {
		t.Run(dialect, func(t *testing.T) { record(t, dialect) })
	}
}

func record(t *testing.T, dialect string) {
	address := os.Getenv("RECORD_" + strings.ToUpper(dialect))
	db, err := client.Connect(address, "weir", "weir", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := &recorder{t: t, db: db, dialect: dialect, seen: map[string]string{}}
	for _, s := range []string{"drop database if exists ddl", "drop database if exists ddl_other", "create database ddl character set utf8mb4", "use ddl", "create table a_first_table (a int)"} {
		r.query(s)
	}
	topic := fmt.Sprintf("record-%s-%d", dialect, time.Now().UnixNano())
	r.startDebezium(topic, address)
	r.await(topic, "USE `ddl`")
	var steps []step
	for _, name := range []string{"shared", dialect} {
		for _, sql := range statements(t, name) {
			steps = append(steps, r.run(sql))
		}
	}
	steps = append(steps, r.run("create table end_of_statements (a int)"))
	records := r.await(topic, "end_of_statements")
	r.stopDebezium(topic)
	for _, sql := range statements(t, "beyond") {
		s := r.run(sql)
		s.Beyond = true
		steps = append(steps, s)
	}
	for _, raw := range records {
		assign(t, steps, raw, dialect)
	}
	write(t, "testdata/ddl/"+dialect+".json", steps)
	if dialect == "mysql" {
		raw := records[:min(len(records), 60)]
		if err := os.WriteFile("testdata/history.txt", append(bytes.Join(raw, []byte("\n")), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// statements reads a file of statements.
func statements(t *testing.T, name string) []string {
	text, err := os.ReadFile("testdata/ddl/" + name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if b.Len() == 0 && (strings.HasPrefix(line, "--") || strings.TrimSpace(line) == "") {
			continue
		}
		b.WriteString(line)
		if sql, ends := strings.CutSuffix(strings.TrimRight(b.String(), " \n"), ";"); ends {
			out = append(out, sql)
			b.Reset()
		}
	}
	if b.Len() > 0 {
		t.Fatalf("%s: the last statement has no end: %s", name, b.String())
	}
	return out
}

// query runs a statement and gives its rows as text, NULL as "\x00".
func (r *recorder) query(sql string) [][]string {
	rows, err := r.try(sql)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func (r *recorder) try(sql string) ([][]string, error) {
	result, err := r.db.Execute(sql)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	if result.Resultset == nil {
		return nil, nil
	}
	for i := range result.RowNumber() {
		var row []string
		for j := range result.ColumnNumber() {
			text := "\x00"
			if null, _ := result.IsNull(i, j); !null {
				text, _ = result.GetString(i, j)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *recorder) end() (file, pos string) {
	sql := "show binary log status"
	if r.dialect == "mariadb" {
		sql = "show master status"
	}
	row := r.query(sql)[0]
	return row[0], row[1]
}

var xid = regexp.MustCompile(` /\* xid=\d+ \*/$`)

func (r *recorder) run(sql string) step {
	file, from := r.end()
	s := step{SQL: sql, File: file}
	fmt.Sscan(from, &s.From)
	if _, err := r.try(sql); err != nil {
		s.Error = err.Error()
	}
	_, to := r.end()
	fmt.Sscan(to, &s.To)
	s.AnsiQuotes = strings.Contains(r.query("select @@sql_mode")[0][0], "ANSI_QUOTES")
	r.query("set @mode = @@sql_mode, session sql_mode = ''") // what is shown depends on it
	if s.To > s.From {
		for _, row := range r.query(fmt.Sprintf("show binlog events in '%s' from %d", file, s.From)) {
			if row[2] != "Query" || row[5] == "BEGIN" || row[5] == "COMMIT" {
				continue
			}
			q := queryEvent{Text: xid.ReplaceAllString(row[5], "")}
			if rest, ok := strings.CutPrefix(q.Text, "use `"); ok {
				q.Database, q.Text, _ = strings.Cut(rest, "`; ")
			}
			if !utf8.ValidString(q.Text) { // MariaDB shows it in another charset
				q.Text = sql
			}
			s.Queries = append(s.Queries, q)
		}
	}
	s.Tables = r.changed()
	r.query("set session sql_mode = @mode")
	return s
}

// changed gives the tables that are not as they were at the last call.
func (r *recorder) changed() map[string]*tableFacts {
	out := map[string]*tableFacts{}
	now := map[string]string{}
	for _, row := range r.query("select table_schema, table_name from information_schema.tables where table_schema in ('ddl', 'ddl_other') and table_type not in ('VIEW', 'SEQUENCE')") {
		id := TableID{row[0], row[1]}
		create, err := r.try("show create table " + quoteID(id))
		if err != nil {
			continue // an engine that can't open it
		}
		now[id.String()] = create[0][1]
		if r.seen[id.String()] != create[0][1] {
			out[id.String()] = &tableFacts{Create: create[0][1], Columns: r.query(fmt.Sprintf("select column_name, column_type, is_nullable, character_set_name, column_key, extra, column_default from information_schema.columns where table_schema = '%s' and table_name = '%s' order by ordinal_position", row[0], strings.ReplaceAll(row[1], "'", "''")))}
		}
	}
	for id := range r.seen {
		if _, there := now[id]; !there {
			out[id] = nil
		}
	}
	r.seen = now
	return out
}

func (r *recorder) startDebezium(topic, address string) {
	host, port, _ := strings.Cut(address, ":")
	class := map[string]string{"mysql": "io.debezium.connector.mysql.MySqlConnector", "mariadb": "io.debezium.connector.mariadb.MariaDbConnector"}[r.dialect]
	config := map[string]string{
		"connector.class": class, "tasks.max": "1", "database.hostname": host, "database.port": port, "database.user": "weir",
		"database.password": "weir", "database.server.id": fmt.Sprint(time.Now().Unix() % 100000), "topic.prefix": topic,
		"database.include.list": "ddl,ddl_other", "schema.history.internal.kafka.bootstrap.servers": os.Getenv("RECORD_KAFKA"),
		"schema.history.internal.kafka.topic": "history." + topic, "schema.history.internal.skip.unparseable.ddl": "true",
		"snapshot.mode": "no_data", "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
		"schema.history.internal.store.only.captured.databases.ddl": "true",
	}
	body, _ := json.Marshal(config)
	request, _ := http.NewRequest("PUT", os.Getenv("RECORD_CONNECT")+"/connectors/"+topic+"/config", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode > 299 {
		r.t.Fatalf("%s: %s", answer.Status, text)
	}
}

func (r *recorder) stopDebezium(topic string) {
	request, _ := http.NewRequest("DELETE", os.Getenv("RECORD_CONNECT")+"/connectors/"+topic, nil)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	answer.Body.Close()
}

// await reads the history topic until a record's statement contains the text.
func (r *recorder) await(topic, text string) [][]byte {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("RECORD_KAFKA")), kgo.ConsumeTopics("history."+topic))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	var all [][]byte
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			r.t.Fatalf("no record with %q after %d records", text, len(all))
		}
		done := false
		fetches.EachRecord(func(k *kgo.Record) {
			all = append(all, k.Value)
			done = done || bytes.Contains(k.Value, []byte(text))
		})
		if done {
			return all
		}
	}
}

// assign gives a record to the step whose part of the binlog its position is in: of
// MySQL's the end of the statement's event, of MariaDB's the beginning of its GTID's.
func assign(t *testing.T, steps []step, raw []byte, dialect string) {
	var in struct {
		Position struct {
			File     string `json:"file"`
			Pos      int    `json:"pos"`
			Snapshot any    `json:"snapshot"`
		} `json:"position"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatal(err)
	}
	if in.Position.Snapshot != nil {
		return
	}
	i := slices.IndexFunc(steps, func(s step) bool {
		if s.File != in.Position.File {
			return false
		}
		if dialect == "mariadb" {
			return s.From <= in.Position.Pos && in.Position.Pos < s.To
		}
		return s.From < in.Position.Pos && in.Position.Pos <= s.To
	})
	if i < 0 {
		t.Logf("a record of no step: %s", raw)
		return
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		t.Fatal(err)
	}
	steps[i].Records = append(steps[i].Records, out.Bytes())
}

func write(t *testing.T, name string, steps []step) {
	var out bytes.Buffer
	for i := range steps {
		line, err := json.Marshal(&steps[i])
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
