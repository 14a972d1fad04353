package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// TestDecide: how a task starts, from the mode, the stored offset and whether there is a history.
func TestDecide(t *testing.T) {
	at := binlog.Offset{File: "binlog.000003", Pos: 154, GTIDs: "u:1-5"}
	whole := at.Append(nil)
	cut := append(at.Append(nil), connect.OffsetEntry{Name: keySnapshot, Value: connect.StringValue("INITIAL")})
	old := append(at.Append(nil), connect.OffsetEntry{Name: keySnapshot, Value: connect.BoolValue(true)}) // as Debezium before 2.0 wrote it
	done := append(cut[:len(cut):len(cut)], connect.OffsetEntry{Name: keySnapshotCompleted, Value: connect.BoolValue(true)})
	for _, c := range []struct {
		mode    string
		offset  connect.OffsetMap
		history bool
		want    string
	}{
		{"initial", nil, false, "snapshot rows"}, {"initial", nil, true, "snapshot rows"},
		{"initial", whole, true, "recover"}, {"initial", done, true, "recover"},
		{"initial", cut, true, "snapshot rows resumed"}, {"initial", old, false, "snapshot rows resumed"},
		{"initial", whole, false, "snapshot.mode=recovery"},
		{"initial_only", nil, false, "snapshot rows"}, {"initial_only", whole, true, "finished"}, {"initial_only", cut, true, "snapshot rows resumed"},
		{"no_data", nil, false, "snapshot"}, {"no_data", whole, true, "recover"}, {"never", nil, false, "snapshot"},
		{"always", whole, true, "snapshot rows resumed"}, {"always", whole, false, "snapshot rows"}, {"always", cut, true, "snapshot rows resumed"}, {"always", nil, false, "snapshot rows"},
		{"when_needed", whole, true, "recover"}, {"when_needed", whole, false, "snapshot rows"},
		{"recovery", whole, false, "snapshot"}, {"recovery", whole, true, "snapshot"}, {"recovery", nil, false, "none is stored"},
	} {
		s, err := parseSettings(binlog.MySQL, connect.Config{"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "snapshot.mode": c.mode}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var given *stored
		if c.offset != nil {
			got, err := readStored(c.offset)
			if err != nil {
				t.Fatal(err)
			}
			given = &got
		}
		how, err := s.decide(given, c.history)
		got := how.phase.String()
		if how.rows {
			got += " rows"
		}
		if how.progress != nil {
			got += " resumed"
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s, offset %s, history %v: %s, want %s", c.mode, c.offset, c.history, got, c.want)
		}
	}
}

// killSessions ends the connections of the task's user other than the test's own.
func (d *db) killSessions(user string) {
	for _, r := range d.rows("SELECT id FROM information_schema.processlist WHERE user = '" + user + "'") {
		_, _ = d.conn.Execute("KILL " + r[0]) // it may have gone
	}
}

// TestCutConnections: whenever the server ends the connections, all changes come, in order, none twice.
func TestCutConnections(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		user := fmt.Sprintf("cut%d", databases.Add(1))
		d.exec("CREATE USER "+user+"@'%' IDENTIFIED BY 'weir'", "GRANT ALL ON *.* TO "+user+"@'%'", "CREATE TABLE t (id int PRIMARY KEY)")
		t.Cleanup(func() { d.exec("DROP USER " + user + "@'%'") })
		r := d.streaming("database.user", user, "max.batch.size", "7")
		next := 0
		for round := range 20 {
			d.exec("BEGIN")
			for range 5 {
				d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d), (%d)", next, next+1))
				next += 2
			}
			d.exec("COMMIT")
			if round%2 == 0 {
				r.Commit(r.Poll())
			}
			d.killSessions(user)
		}
		log := r.Records(next)
		for i := range log {
			if log[i].Key.Items()[0].Int() != int64(i) {
				t.Fatalf("record %d is %s", i, log[i].Key)
			}
		}
	})
}

// TestHeartbeats: a record comes into the heartbeat topic, with the position, while tables that are not captured change.
func TestHeartbeats(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE beats (at bigint)")
		other := newDB(t, d.server.dialect)
		other.exec("CREATE TABLE o (id int PRIMARY KEY)")
		r := d.streaming("heartbeat.interval.ms", "50", "heartbeat.action.query", "INSERT INTO "+d.name+".beats VALUES (1)", "table.include.list", d.name+"\\.t")
		before := r.Stored.String()
		other.exec("INSERT INTO o VALUES (1)")
		r.Until("beats have come and the position has moved", func() bool { return len(r.Log) >= 3 && r.Stored.String() != before })
		for _, e := range r.Log {
			if e.Topic != "__debezium-heartbeat.srv" || e.Key.Items()[0].Str() != "srv" || time.Since(time.UnixMilli(e.Value.Items()[0].Int())) > time.Minute {
				t.Errorf("%s: %s %s", e.Topic, e.Key, e.Value)
			}
		}
		if len(d.rows("SELECT 1 FROM beats")) == 0 {
			t.Error("heartbeat.action.query has not run")
		}
	})
}

// TestColumnsAndKeys: columns that are left out are in no row, also where they are the key; other keys are taken where
// they are ruled.
func TestColumnsAndKeys(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, secret varchar(20), v int)", "INSERT INTO t VALUES (1, 'x', 1)")
		r := newRunner(d, d.config("column.exclude.list", d.name+"\\.t\\.(secret|id)", "message.key.columns", d.name+"\\.u:b,a")).open()
		defer r.Close()
		r.Records(1)
		d.exec("INSERT INTO t VALUES (2, 'y', 2)", "CREATE TABLE u (a int, b int)", "INSERT INTO u VALUES (1, 2)", "UPDATE u SET b = 3")
		log := r.Records(6)
		if got := debeziumtest.Describe(log); got != "r[1] c[2] c[2 1] d[2 1] tombstone[2 1] c[3 1]" {
			t.Errorf("records %s", got)
		}
		for _, e := range log[:2] {
			if fields := e.Schema.Fields[debezium.EnvelopeAfter].Schema.Fields; len(fields) != 1 || fields[0].Name != "v" {
				t.Errorf("fields %v", fields)
			}
		}
		if log[1].After("v").Int() != 2 {
			t.Errorf("row %s", log[1].Value)
		}
	})
}

// TestQueriesOfChanges: include.query gives the statement that made a change.
func TestQueriesOfChanges(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)")
		r := d.streaming("include.query", "true")
		if d.server.dialect == binlog.MySQL {
			d.exec("SET SESSION binlog_rows_query_log_events = ON")
		}
		d.exec("INSERT INTO t VALUES (1), (2)", "DELETE FROM t WHERE id = 2")
		log := r.Records(3)
		for i, want := range []string{"INSERT INTO t VALUES (1), (2)", "INSERT INTO t VALUES (1), (2)", "DELETE FROM t WHERE id = 2"} {
			if got := log[i].Source("query").Str(); got != want {
				t.Errorf("record %d: query %q", i, got)
			}
		}
	})
}

// TestMinimalMetadata: without the server's own description rows are read by the history; a statement that isn't understood
// stops the rows of its table, loudly, and no others'.
func TestMinimalMetadata(t *testing.T) {
	d := newDB(t, binlog.MySQL)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a varchar(9))", "CREATE TABLE u (id int PRIMARY KEY)")
	r := d.streaming()
	d.exec("SET GLOBAL binlog_row_metadata = MINIMAL")
	defer d.exec("SET GLOBAL binlog_row_metadata = FULL")
	d.exec("INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t ADD COLUMN b int FIRST, DROP COLUMN a", "INSERT INTO t VALUES (2, 2)")
	log := r.Records(2)
	if log[0].After("a").Str() != "a" || log[1].After("b").Int() != 2 {
		t.Errorf("rows %s, %s", log[0].Value, log[1].Value)
	}
	r.task.catalog.Drop(r.task.tables[r.task.rows.table.id].id) // as if a statement had not been understood
	clear(r.task.mapped)
	d.exec("INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (3, 3)")
	if err := r.loud(); !strings.Contains(err.Error(), d.name+".t") || !strings.Contains(err.Error(), "binlog_row_metadata = FULL") {
		t.Errorf("error %v", err)
	}
	if got := debeziumtest.Describe(r.Log[2:]); got != "c[1]" {
		t.Errorf("before it: %s", got)
	}
}

// TestTruncate: a truncate gives a record where truncates are not skipped.
func TestTruncate(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)")
		r := d.streaming("skipped.operations", "none")
		d.exec("INSERT INTO t VALUES (1)", "TRUNCATE TABLE t", "INSERT INTO t VALUES (1)")
		if got := debeziumtest.Describe(r.Records(3)); got != "c[1] tnull c[1]" {
			t.Errorf("records %s", got)
		}
	})
}

// TestSnapshotBeforeAnyOffset: rows that a snapshot gave before its offset was stored, and that were deleted before the task
// starts again, are deleted in the log too.
func TestSnapshotBeforeAnyOffset(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)")
		r := newRunner(d, d.config()).open()
		for len(r.Log) < 3 {
			r.Poll() // nothing becomes durable but the records
		}
		r.kill()
		d.exec("ALTER TABLE t ADD COLUMN v int")
		r.open()
		for len(r.Log) < 6 || r.task.stream == nil {
			r.Poll()
		}
		d.exec("ALTER TABLE t ADD COLUMN w int", "INSERT INTO t (id) VALUES (9)", "DELETE FROM t WHERE id = 9")
		for len(r.Log) < 9 {
			r.Poll() // statements of the stream are in the history, and still no offset is
		}
		r.kill()
		d.exec("DELETE FROM t WHERE id = 2", "INSERT INTO t (id) VALUES (4)")
		r.open()
		r.Until("the delete has come", func() bool { return len(debeziumtest.State(r.Log, "srv."+d.name+".t")) == 3 && len(r.Log) >= 12 })
		if got := debeziumtest.State(r.Log, "srv."+d.name+".t"); got["[2]"] != "" || got["[4]"] == "" {
			t.Errorf("left in the log: %v", got)
		}
		r.Until("the snapshot is noted as complete", func() bool { return r.task.history.cut == nil })
		r.Close()
		r.Stored = nil // somebody has deleted the offset: a snapshot of now, and no old changes
		before := len(r.Log)
		r.open()
		if got := debeziumtest.Describe(r.Records(before + 3)[before:]); got != "r[1] r[3] r[4]" {
			t.Errorf("a new snapshot: %s", got)
		}
		d.exec("INSERT INTO t (id) VALUES (5)")
		if got := debeziumtest.Describe(r.Records(before + 4)[before+3:]); got != "c[5]" {
			t.Errorf("behind it: %s", got)
		}
		r.Close()
	})
}
