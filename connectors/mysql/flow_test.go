package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

// TestChanges: each kind of change becomes Debezium's records, a change of key a delete and a create.
func TestChanges(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", "INSERT INTO t VALUES (1, 'a')")
		r := newRunner(d, d.config()).open()
		defer r.close()
		if got := describe(r.records(1)); got != `r[1]` {
			t.Fatalf("snapshot: %s", got)
		}
		d.exec("INSERT INTO t VALUES (2, 'b'), (3, 'c')", "UPDATE t SET v = 'B' WHERE id = 2", "UPDATE t SET id = 4 WHERE id = 3", "DELETE FROM t WHERE id = 1")
		log := r.records(9)
		if got, want := describe(log[1:]), `c[2] c[3] u[2] d[3] tombstone[3] c[4] d[1] tombstone[1]`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		u := log[3]
		if u.before("v").Str() != "b" || u.after("v").Str() != "B" {
			t.Errorf("update %s", u.value)
		}
		for name, want := range map[string]string{"db": d.name, "table": "t", "connector": d.server.dialect.String(), "name": "srv", "snapshot": "false"} {
			if got := u.source(name).Str(); got != want {
				t.Errorf("source.%s is %q, not %q", name, got, want)
			}
		}
		if u.source("gtid").Str() == "" || u.source("file").Str() == "" || u.source("pos").Int() == 0 || u.source("server_id").Int() != 1 {
			t.Errorf("source %s", u.value)
		}
		if log[1].source("row").Int() != 0 || log[2].source("row").Int() != 1 {
			t.Errorf("rows %s and %s", log[1].source("row"), log[2].source("row"))
		}
		if log[1].topic != "srv."+d.name+".t" {
			t.Errorf("topic %s", log[1].topic)
		}
	})
}

// TestRestartAnywhere: whichever mark is the last durable one, what follows it comes and nothing before it.
func TestRestartAnywhere(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
		r := newRunner(d, d.config("snapshot.mode", "no_data", "max.batch.size", "7")).open()
		r.until("the snapshot is marked", func() bool { return r.stored != nil && !snapshotUnderWay(r.stored) })
		start := r.stored
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
		for len(r.log) < 103 {
			if o := r.poll(); o != nil {
				marks = append(marks, at{len(r.log), o})
			}
		}
		r.close()
		whole := describe(r.log)
		if len(marks) < 10 {
			t.Fatalf("only %d marks", len(marks))
		}
		for _, m := range append(marks, at{0, start}) {
			again := newRunner(d, r.config)
			again.log, again.stored = append([]entry(nil), r.log[:m.n]...), m.offset
			again.open().records(103)
			again.close()
			if got := describe(again.log); got != whole {
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
		r.records(1)
		r.close()
		d.exec("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD COLUMN b varchar(9) FIRST", "INSERT INTO t VALUES ('x', 3, 3)", "ALTER TABLE t DROP COLUMN a",
			"INSERT INTO t VALUES ('y', 4)", "ALTER TABLE t CHANGE b c varchar(9) AFTER id", "INSERT INTO t VALUES (5, 'z')",
			"RENAME TABLE t TO old", "CREATE TABLE t (id int PRIMARY KEY, d int)", "INSERT INTO t VALUES (6, 6)", "DROP TABLE old, t")
		r.open()
		r.records(6)
		var got []string
		for _, e := range r.log {
			var names []string
			for _, f := range e.schema.Fields[1].Schema.Fields {
				names = append(names, f.Name+"="+e.after(f.Name).String())
			}
			got = append(got, strings.Join(names, " "))
		}
		r.close()
		want := `id=1 a=1|id=2 a=2|b="x" id=3 a=3|b="y" id=4|id=5 c="z"|id=6 d=6`
		if strings.Join(got, "|") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
		}
	})
}
