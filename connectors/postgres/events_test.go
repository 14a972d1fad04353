package postgres

import (
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// streaming opens a task that only streams and waits for its slot.
func streaming(t *testing.T, d *db, more ...string) *runner {
	t.Helper()
	r := newRunner(t, d.config(append([]string{"snapshot.mode", "no_data"}, more...)...)).open()
	r.Until("the slot is there", func() bool { return r.Stored != nil })
	t.Cleanup(func() {
		if r.task != nil {
			r.Close()
		}
	})
	return r
}

func TestReplicaIdentity(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE def (id int PRIMARY KEY, n int NOT NULL, v text);
CREATE TABLE ful (id int PRIMARY KEY, n int NOT NULL, v text); ALTER TABLE ful REPLICA IDENTITY FULL;
CREATE TABLE idx (id int, u text NOT NULL, v text, CONSTRAINT idx_u UNIQUE (u)); ALTER TABLE idx REPLICA IDENTITY USING INDEX idx_u;
CREATE TABLE nokey (v text); ALTER TABLE nokey REPLICA IDENTITY FULL`)
	r := streaming(t, d)
	d.exec(`INSERT INTO def VALUES (1, 5, 'a'); UPDATE def SET v = 'b'; DELETE FROM def`)
	log := r.Records(4)
	if !log[1].Value.Items()[debezium.EnvelopeBefore].IsNull() {
		t.Error("DEFAULT: an update has a before")
	}
	if got := log[2].Value.Items()[debezium.EnvelopeBefore].String(); got != "[1 0 null]" {
		t.Errorf("DEFAULT: a delete's before is %s, want the key, zero for what is required, null else", got)
	}
	r.Log = nil
	d.exec(`INSERT INTO ful VALUES (1, 5, 'a'); UPDATE ful SET v = 'b'; UPDATE ful SET id = 2; DELETE FROM ful`)
	log = r.Records(7)
	if got := debeziumtest.Describe(log); got != "c[1] u[1] d[1] tombstone[1] c[2] d[2] tombstone[2]" {
		t.Errorf("FULL: %s", got)
	}
	if got := log[1].Value.Items()[debezium.EnvelopeBefore].String(); got != `[1 5 "a"]` {
		t.Errorf("FULL: an update's before is %s", got)
	}
	if got := log[5].Value.Items()[debezium.EnvelopeBefore].String(); got != `[2 5 "b"]` {
		t.Errorf("FULL: a delete's before is %s", got)
	}
	r.Log = nil
	d.exec(`INSERT INTO idx VALUES (1, 'k', 'a'); UPDATE idx SET u = 'k2'`)
	if got := debeziumtest.Describe(r.Records(4)); got != `c["k"] d["k"] tombstone["k"] c["k2"]` {
		t.Errorf("INDEX: %s", got)
	}
	r.Log = nil
	d.exec(`INSERT INTO nokey VALUES ('a'); UPDATE nokey SET v = 'b'; DELETE FROM nokey; INSERT INTO def VALUES (9, 9, '9')`)
	if got := debeziumtest.Describe(r.Records(4)); got != "cnull unull dnull c[9]" {
		t.Errorf("no key: %s", got)
	}
}

func TestUnchangedLongValues(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE def (id int PRIMARY KEY, n int, v text, b bytea, j jsonb, ta text[], ia int[], r text NOT NULL);
ALTER TABLE def ALTER v SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL, ALTER j SET STORAGE EXTERNAL, ALTER ta SET STORAGE EXTERNAL, ALTER ia SET STORAGE EXTERNAL, ALTER r SET STORAGE EXTERNAL;
CREATE TABLE ful (LIKE def INCLUDING ALL); ALTER TABLE ful REPLICA IDENTITY FULL`)
	r := streaming(t, d, "unavailable.value.placeholder", "gone")
	for _, table := range []string{"def", "ful"} {
		d.exec(`INSERT INTO ` + table + ` SELECT 1, 1, repeat('x', 9000), decode(repeat('ab', 9000), 'hex'), to_jsonb(repeat('j', 9000)), ARRAY[repeat('t', 9000)],
(SELECT array_agg(i) FROM generate_series(1, 9000) i), repeat('r', 9000); UPDATE ` + table + ` SET n = 2`)
	}
	log := r.Records(4)
	row := log[1].Value.Items()[debezium.EnvelopeAfter].Items()
	schema := log[1].Schema.Fields[debezium.EnvelopeAfter].Schema
	var got []string
	for i := range row {
		got = append(got, show(schema.Fields[i].Schema, row[i]))
	}
	if want := "1|2|gone|hex 676f6e65|gone|[gone]|[103 111 110 101]|gone"; strings.Join(got, "|") != want {
		t.Errorf("DEFAULT: %s, want %s", strings.Join(got, "|"), want)
	}
	full := log[3].Value.Items()[debezium.EnvelopeAfter].Items()
	inserted := log[2].Value.Items()[debezium.EnvelopeAfter].Items()
	for i := range full {
		if i != 1 && !full[i].Equal(inserted[i]) {
			t.Errorf("FULL: column %d is not what was inserted", i)
		}
	}
	if full[1].Int() != 2 {
		t.Errorf("FULL: n is %d, want 2", full[1].Int())
	}
}

func TestOperationsAndFilters(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE SCHEMA s; CREATE TABLE s.in1 (id int PRIMARY KEY, a text, secret text); CREATE TABLE s.out1 (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)`)
	r := streaming(t, d, "table.include.list", `S\.in.*`, "column.exclude.list", `s\.in1\.secret`, "skipped.operations", "d", "tombstones.on.delete", "false", "extended.headers.enabled", "false")
	d.exec(`INSERT INTO s.out1 VALUES (1); INSERT INTO other VALUES (1); INSERT INTO s.in1 VALUES (1, 'a', 'x'); DELETE FROM s.in1; TRUNCATE s.in1; INSERT INTO s.in1 VALUES (2, 'b', 'x')`)
	log := r.Records(3)
	if got := debeziumtest.Describe(log); got != "c[1] tnull c[2]" {
		t.Errorf("operations: %s", got)
	}
	if got := log[0].Value.Items()[debezium.EnvelopeAfter].String(); got != `[1 "a"]` || log[0].Schema.Fields[debezium.EnvelopeAfter].Schema.Field("secret") >= 0 {
		t.Errorf("columns: %s", got)
	}
	if log[1].Topic != "srv.s.in1" || len(log[1].Headers) != 0 {
		t.Errorf("truncate: topic %s, headers %v", log[1].Topic, log[1].Headers)
	}
}

func TestMessageKeyColumns(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text NOT NULL); ALTER TABLE t REPLICA IDENTITY FULL`)
	r := streaming(t, d, "message.key.columns", `public\.t:b,a`, "tombstones.on.delete", "false")
	d.exec(`INSERT INTO t VALUES (1, 2, 'x'); UPDATE t SET id = 7; UPDATE t SET a = 3`)
	if got := debeziumtest.Describe(r.Records(4)); got != `c["x" 2] u["x" 2] d["x" 2] c["x" 3]` {
		t.Error(got)
	}
}

func TestSchemaChangesAndDefaults(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TYPE "My Enum" AS ENUM ('a', 'b'); CREATE TABLE t (id serial PRIMARY KEY, "Name" text DEFAULT 'it''s', name text NOT NULL DEFAULT '',
n int NOT NULL DEFAULT (-5), e "My Enum" DEFAULT 'b', ok bool NOT NULL DEFAULT true, d numeric(10,2) DEFAULT 1.5, ts timestamp NOT NULL DEFAULT now(),
day date DEFAULT '2020-01-02', arr text[] DEFAULT '{}', g int GENERATED ALWAYS AS (n * 2) STORED)`)
	r := streaming(t, d)
	d.exec(`INSERT INTO t (id) VALUES (1); INSERT INTO t (id) VALUES (2)`)
	log := r.Records(2)
	if log[0].Schema != log[1].Schema || log[0].KeySchema != log[1].KeySchema {
		t.Error("two rows of one shape have different schema pointers")
	}
	row := log[0].Schema.Fields[debezium.EnvelopeAfter].Schema
	var got []string
	for _, f := range row.Fields {
		def := "-"
		if f.Schema.Default != nil {
			def = show(f.Schema, *f.Schema.Default)
		}
		opt := ""
		if f.Schema.Optional {
			opt = "?"
		}
		got = append(got, f.Name+opt+"="+def)
	}
	if want := "id=- Name?=it's name= n=-5 e?=b ok=true d?=dec 1.5 ts=- day?=18263 arr?=[]"; strings.Join(got, " ") != strings.ReplaceAll(want, "dec 1.5 ", "dec 1.50 ") {
		t.Errorf("fields: %s", strings.Join(got, " "))
	}
	before := log[0].Schema
	d.exec(`ANALYZE t; INSERT INTO t (id) VALUES (3)`)
	if r.Records(3)[2].Schema != before {
		t.Error("ANALYZE changed the schema's pointer")
	}
	d.exec(`ALTER TABLE t ADD COLUMN extra text; ALTER TABLE t DROP COLUMN arr; INSERT INTO t (id, extra) VALUES (4, 'e')`)
	if e := r.Records(4)[3]; e.After("extra").Str() != "e" || e.Schema.Fields[debezium.EnvelopeAfter].Schema.Field("arr") >= 0 {
		t.Errorf("after ALTER TABLE: %v", e.Value)
	}
	d.exec(`ALTER TYPE "My Enum" ADD VALUE 'c'`)
	d.exec(`ALTER TABLE t DROP g; ALTER TABLE t ALTER n TYPE bigint; INSERT INTO t (id, e) VALUES (5, 'c')`)
	e := r.Records(5)[4]
	changed := e.Schema.Fields[debezium.EnvelopeAfter].Schema
	if got := changed.Fields[changed.Field("e")].Schema.Param("allowed"); got != "a,b,c" || changed.Fields[changed.Field("n")].Schema.Type != connect.Int64 {
		t.Errorf("after ALTER TYPE: allowed %s, n %s", got, changed.Fields[changed.Field("n")].Schema.Type)
	}
}

func TestOddNames(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE SCHEMA test_; CREATE SCHEMA test1; CREATE TABLE test_.t (id int PRIMARY KEY, a int); CREATE TABLE test1.t (id int PRIMARY KEY, b int);
CREATE TABLE "表" (id int PRIMARY KEY, "金额" int, "a""b" int, "'q'" int); INSERT INTO "表" VALUES (1, 2, 3, 4); INSERT INTO test_.t VALUES (1, 1); INSERT INTO test1.t VALUES (1, 1)`)
	r := newRunner(t, d.config()).open()
	defer r.Close()
	r.Records(3)
	d.exec(`INSERT INTO "表" VALUES (2, 2, 3, 4)`)
	log := r.Records(4)
	if e := log[3]; e.Topic != "srv.public._" || e.Source("table").Str() != "表" || e.After("金额").Int() != 2 || e.After(`a"b`).Int() != 3 || e.After("'q'").Int() != 4 {
		t.Errorf("odd names: %s %v", e.Topic, e.Value)
	}
	if log[0].Schema != log[3].Schema && log[0].Topic == log[3].Topic {
		t.Error("snapshot and stream have different schemas")
	}
}

func TestPartitions(t *testing.T) {
	for _, root := range []string{"false", "true"} {
		d := newDB(t)
		d.exec(`CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); INSERT INTO p VALUES (1, 'a')`)
		r := newRunner(t, d.config("publish.via.partition.root", root)).open()
		r.Records(1)
		d.exec(`INSERT INTO p VALUES (2, 'b')`)
		want := map[string]string{"false": "srv.public.p1", "true": "srv.public.p"}[root]
		for _, e := range r.Records(2) {
			if e.Topic != want {
				t.Errorf("publish.via.partition.root=%s: topic %s, want %s", root, e.Topic, want)
			}
		}
		r.Close()
	}
}

func TestEnvelopeForm(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	r := streaming(t, d)
	d.exec(`INSERT INTO t VALUES (1)`)
	e := r.Records(1)[0]
	var names []string
	for _, f := range e.Schema.Fields {
		names = append(names, f.Name)
	}
	for _, f := range e.Schema.Fields[debezium.EnvelopeSource].Schema.Fields {
		names = append(names, f.Name)
	}
	want := "before after source transaction op ts_ms ts_us ts_ns version connector name ts_ms snapshot db sequence ts_us ts_ns schema table txId lsn xmin origin origin_lsn"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("fields: %s", got)
	}
	seq, lsn, ts := e.Source("sequence").Str(), e.Source("lsn").Int(), e.Source("ts_ms").Int()
	if !strings.HasPrefix(seq, `["`) || !strings.HasSuffix(seq, `"]`) || lsn == 0 || e.Source("ts_us").Int()/1000 != ts || e.Source("db").Str() != d.name {
		t.Errorf("source: %v", e.Value.Items()[debezium.EnvelopeSource])
	}
	var headers []string
	for _, h := range e.Headers {
		headers = append(headers, strings.TrimPrefix(h.Key, "__debezium.context.")+"="+h.Value.Value().Str())
	}
	if got := strings.Join(headers, " "); !strings.HasPrefix(got, "connectorLogicalName=srv taskId=0 connectorName=postgresql runId=") {
		t.Errorf("headers: %s", got)
	}
}
