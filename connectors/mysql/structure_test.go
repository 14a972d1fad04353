package mysql

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirlog/weir/connectors/mysql/binlog"

	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// minimal lets the server tell as little of its tables as it can, for one test.
func (d *db) minimal() {
	d.exec("SET GLOBAL binlog_row_metadata = MINIMAL")
	d.t.Cleanup(func() { d.exec("SET GLOBAL binlog_row_metadata = FULL") })
}

// rowOf gives a row as its columns' names and values.
func rowOf(e *debeziumtest.Entry) string {
	var names []string
	for _, f := range e.Schema.Fields[1].Schema.Fields {
		names = append(names, f.Name+"="+strings.Trim(e.After(f.Name).String(), `"`))
	}
	return strings.Join(names, " ")
}

// A statement that is read again after a restart isn't applied twice, although it would
// do something else the second time: its record is in the history, the offset is not
// behind it.
func TestStatementsAreAppliedOnce(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.minimal()
		d.exec("CREATE TABLE a (id int PRIMARY KEY, of_a int)", "CREATE TABLE b (id int PRIMARY KEY, of_b int)", "CREATE TABLE c (x int PRIMARY KEY, y int)")
		r := d.streaming()
		d.exec("INSERT INTO a VALUES (1, 1)")
		r.Records(1)
		before := r.Stored
		d.exec("RENAME TABLE a TO between_, b TO a, between_ TO b", "ALTER TABLE c RENAME COLUMN x TO y, RENAME COLUMN y TO x")
		d.exec("INSERT INTO a VALUES (2, 2)")
		for len(r.Log) < 2 {
			r.Poll()
		}
		r.kill()
		r.Stored, r.Log = before, nil
		r.open()
		defer r.Close()
		d.exec("INSERT INTO b VALUES (3, 3)", "INSERT INTO c VALUES (4, 5)")
		log := r.Records(3)
		for i, want := range []string{"id=2 of_b=2", "id=3 of_a=3", "y=4 x=5"} {
			if got := rowOf(&log[i]); got != want {
				t.Errorf("row %d: %s, not %s", i, got, want)
			}
		}
	})
}

// A change of structure that never was in the binlog is seen where rows say the names
// of their columns.
func TestUnseenStatement(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("SET NAMES utf8mb4", "CREATE TABLE t (id int PRIMARY KEY, a varchar(9) NOT NULL, b int)")
		r := d.streaming()
		d.exec("INSERT INTO t VALUES (1, 'a', 5)", "SET SESSION sql_log_bin = 0",
			"ALTER TABLE t MODIFY b bigint unsigned FIRST, CHANGE a aa varchar(20) CHARACTER SET latin1, ADD e enum('x', 'y')", "SET SESSION sql_log_bin = 1",
			"INSERT INTO t VALUES (18446744073709551615, 2, 'é', 'y')", "ALTER TABLE t ADD COLUMN last int", "INSERT INTO t VALUES (6, 3, NULL, NULL, 9)")
		log := r.Records(3)
		for i, want := range []string{"id=1 a=a b=5", "b=-1 id=2 aa=é e=y", "b=6 id=3 aa=null e=null last=9"} {
			if got := rowOf(&log[i]); got != want {
				t.Errorf("row %d: %s, not %s", i, got, want)
			}
		}
		r.Close()
		r.open()
		defer r.Close()
		d.exec("INSERT INTO t VALUES (7, 4, 'ü', 'x', 10)")
		if got, want := rowOf(&r.Records(4)[3]), "b=7 id=4 aa=ü e=x last=10"; got != want {
			t.Errorf("after a restart: %s, not %s", got, want)
		}
	})
}

// A statement that isn't understood stops no rows; it is told in the history, and its
// table's rows without names stop, also after a restart.
func TestStatementNotUnderstood(t *testing.T) {
	d := newDB(t, binlog.MariaDB)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a int)", "CREATE TABLE u (id int PRIMARY KEY)")
	r := d.streaming()
	// What the parser can't take: two changes of columns that the server knows and it doesn't.
	d.exec("SET SESSION sql_log_bin = 0", "ALTER TABLE t ADD COLUMN unseen int", "SET SESSION sql_log_bin = 1", "ALTER TABLE t CHANGE unseen seen int FIRST")
	d.exec("INSERT INTO t VALUES (1, 2, 3)", "INSERT INTO u VALUES (1)")
	log := r.Records(2)
	if got, want := rowOf(&log[0]), "seen=1 id=2 a=3"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if history, err := os.ReadFile(r.Config["schema.history.internal.file.filename"]); err != nil || !strings.Contains(string(history), "ALTER TABLE t CHANGE unseen seen int FIRST") {
		t.Errorf("the statement is not in the history: %v", err)
	}
	r.Close()
	r.open()
	defer r.Close()
	d.minimal()
	d.exec("INSERT INTO u VALUES (2)", "INSERT INTO t VALUES (4, 5, 6)")
	if err := r.loud(); !strings.Contains(err.Error(), fmt.Sprint(d.name, ".t")) {
		t.Errorf("error %v", err)
	}
	if got := debeziumtest.Describe(r.Log[2:]); got != "c[2]" {
		t.Errorf("before it: %s", got)
	}
}
