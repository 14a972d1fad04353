package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// streaming opens a task that has no rows to read first.
func (d *db) streaming(more ...string) *runner {
	d.t.Helper()
	r := newRunner(d, d.config(append([]string{"snapshot.mode", "no_data"}, more...)...)).open()
	r.Until("the snapshot is marked", func() bool { return r.Stored != nil && !snapshotUnderWay(r.Stored) })
	d.t.Cleanup(func() {
		if r.task != nil {
			r.Close()
		}
	})
	return r
}

func rowsOfLog(log []debeziumtest.Entry, names ...string) string {
	var out []string
	for i := range log {
		e := &log[i]
		if e.Fault != nil {
			out = append(out, "FAULT "+e.Fault.Reason)
			continue
		}
		if e.Value.IsNull() {
			out = append(out, "-"+e.Key.String())
			continue
		}
		var fields []string
		for _, n := range names {
			fields = append(fields, e.Before(n).String()+">"+e.After(n).String())
		}
		out = append(out, e.Op()+e.Key.String()+" "+strings.Join(fields, " "))
	}
	return strings.Join(out, "\n")
}

// TestRowImages: MINIMAL and NOBLOB leave columns out. What an update left out is what it was, where that is known, else
// the placeholder; what an insert left out is the default.
func TestRowImages(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(9) NOT NULL DEFAULT 'def', c text)")
		for image, want := range map[string]string{
			"FULL": `c[1] null>1 null>"def" null>"long"
u[1] 1>2 "def">"def" "long">"long"
d[1] 2>null "def">null "long">null
-[1]`,
			"NOBLOB": `c[1] null>1 null>"def" null>"long"
u[1] 1>2 "def">"def" "__debezium_unavailable_value">"__debezium_unavailable_value"
d[1] 2>null "def">null "__debezium_unavailable_value">null
-[1]`,
			"MINIMAL": `c[1] null>1 null>"def" null>"long"
u[1] null>2 null>"__debezium_unavailable_value" null>"__debezium_unavailable_value"
d[1] null>null "def">null "__debezium_unavailable_value">null
-[1]`,
		} {
			r := d.streaming()
			d.exec("SET SESSION binlog_row_image = '"+image+"'", "INSERT INTO t (id, a, c) VALUES (1, 1, 'long')", "UPDATE t SET a = 2 WHERE id = 1", "DELETE FROM t WHERE id = 1")
			if got := rowsOfLog(r.Records(4), "a", "b", "c"); got != want {
				t.Errorf("%s:\n%s\nwant\n%s", image, got, want)
			}
		}
	})
}

// TestPartialJSON: documents of which only the changes are logged come whole.
func TestPartialJSON(t *testing.T) {
	d := newDB(t, binlog.MySQL)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, j json, n int)", `INSERT INTO t VALUES (1, '{"a": 1, "b": [1, 2, 3], "c": {"d": "x"}}', 1)`)
	r := d.streaming()
	d.exec("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'", "UPDATE t SET j = JSON_SET(j, '$.a', 2, '$.b[1]', 20), n = 5",
		"UPDATE t SET j = JSON_REMOVE(j, '$.c.d', '$.b[0]')", "UPDATE t SET n = 6")
	log := r.Records(3)
	want := []string{`{"a": 2, "b": [1, 20, 3], "c": {"d": "x"}}`, `{"a": 2, "b": [20, 3], "c": {}}`, `{"a": 2, "b": [20, 3], "c": {}}`}
	for i, w := range want {
		if got := log[i].After("j").Str(); got != w {
			t.Errorf("update %d: %s, want %s", i, got, w)
		}
	}
	if log[0].After("n").Int() != 5 {
		t.Errorf("n is %s", log[0].After("n"))
	}
}

// TestCompressedTransactions: a transaction that the server has compressed, and the same after a restart in the middle.
func TestCompressedTransactions(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v varchar(200))")
		r := d.streaming("max.batch.size", "100")
		if d.server.dialect == binlog.MariaDB {
			d.exec("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
			defer d.exec("SET GLOBAL log_bin_compress = OFF")
			d = d.other()
		} else {
			d.exec("SET SESSION binlog_transaction_compression = ON")
		}
		d.exec("BEGIN")
		for i := range 10 {
			var rows []string
			for k := range 100 {
				rows = append(rows, fmt.Sprintf("(%d, '%s')", i*100+k, strings.Repeat("v", 150)))
			}
			d.exec("INSERT INTO t VALUES " + strings.Join(rows, ","))
		}
		d.exec("COMMIT")
		for len(r.Log) < 450 {
			r.Commit(r.Poll())
		}
		r.Close()
		r.open()
		log := r.Records(1000)
		for i := range log {
			if log[i].Key.Items()[0].Int() != int64(i) {
				t.Fatalf("record %d is %s", i, log[i].Key)
			}
		}
	})
}

// TestOtherTransactions: tables without transactions, savepoints and transactions in two phases.
func TestOtherTransactions(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE m (id int PRIMARY KEY, v int) ENGINE=MyISAM")
		r := d.streaming()
		d.exec("INSERT INTO m VALUES (1, 1), (2, 2)", "UPDATE m SET v = 3 WHERE id = 2",
			"BEGIN", "INSERT INTO t VALUES (1, 1)", "SAVEPOINT a", "INSERT INTO t VALUES (2, 2)", "ROLLBACK TO SAVEPOINT a", "INSERT INTO t VALUES (3, 3)", "COMMIT",
			"BEGIN", "INSERT INTO t VALUES (4, 4)", "ROLLBACK",
			"XA START 'x"+d.name[:5]+"'", "INSERT INTO t VALUES (5, 5)", "XA END 'x"+d.name[:5]+"'", "XA PREPARE 'x"+d.name[:5]+"'", "XA COMMIT 'x"+d.name[:5]+"'",
			"INSERT INTO t VALUES (6, 6)")
		if got, want := debeziumtest.Describe(r.Records(7)), "c[1] c[2] u[2] c[1] c[3] c[5] c[6]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		r.Close()
		before := len(r.Log)
		r.open()
		d.exec("INSERT INTO t VALUES (7, 7)")
		if got := debeziumtest.Describe(r.Records(before + 1)[before:]); got != "c[7]" {
			t.Errorf("after a restart: %s", got)
		}
	})
}

// loud polls until the task gives an error that isn't tried again.
func (r *runner) loud() error {
	r.T.Helper()
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		b, err := r.task.Poll(ctx)
		cancel()
		r.Commit(r.Keep(b))
		if err != nil && connect.KindOf(context.Background(), err) != connect.KindRetry {
			return err
		}
		if err != nil {
			r.T.Logf("poll: %v", err)
			time.Sleep(50 * time.Millisecond) // as the worker does
		}
	}
	r.T.Fatal("no error came")
	return nil
}

// TestStatementsAreLoud: rows that were changed by a statement's text stop the task, with the way out; those of other
// databases don't.
func TestStatementsAreLoud(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "SET SESSION binlog_format = 'STATEMENT'")
		other := newDB(t, d.server.dialect)
		other.exec("CREATE TABLE o (id int PRIMARY KEY)", "SET SESSION binlog_format = 'STATEMENT'")
		r := d.streaming()
		other.exec("INSERT INTO o VALUES (1)")
		d.exec("SET SESSION binlog_format = 'ROW'", "INSERT INTO t VALUES (1)")
		r.Records(1)
		d.exec("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (2)")
		err := r.loud()
		if !strings.Contains(err.Error(), "binlog_format = ROW") || !strings.Contains(err.Error(), "INSERT INTO t VALUES (2)") {
			t.Errorf("error %v", err)
		}
		d.exec("SET SESSION binlog_format = 'ROW'")
	})
}

// TestLostPositions: a position that the server does not have any more is told with what is missing, and read again where
// that is asked for.
func TestLostPositions(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		r := newRunner(d, d.config()).open()
		r.Records(1)
		r.Close()
		d.exec("INSERT INTO t VALUES (2)")
		file := r.Stored.Get("file").Str()
		r.Stored = binlog.Offset{File: file[:len(file)-6] + "000000", Pos: 4}.Append(nil) // as if the server had deleted it
		r.open()
		if err := r.loud(); !strings.Contains(err.Error(), "when_needed") {
			t.Errorf("error %v", err)
		}
		r.Close()
		r.Config["snapshot.mode"] = "when_needed"
		r.open()
		if got := debeziumtest.Describe(r.Records(3)[1:]); got != "r[1] r[2]" {
			t.Errorf("read again: %s", got)
		}
		r.Close()
	})
}

// TestServerIDIsTaken: two readers of one number throw each other out; that is told.
func TestServerIDIsTaken(t *testing.T) {
	d := newDB(t, binlog.MySQL)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	a := d.streaming("database.server.id", "4711")
	d.exec("INSERT INTO t VALUES (1)")
	a.Records(1)
	b := d.streaming("database.server.id", "4711")
	d.exec("INSERT INTO t VALUES (2)")
	b.Records(1)
	if err := a.loud(); !strings.Contains(err.Error(), "database.server.id") {
		t.Errorf("error %v", err)
	}
}
