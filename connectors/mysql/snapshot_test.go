package mysql

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// keyedTables are tables whose rows can be read piece by piece, and, behind them, some whose rows can't.
var keyedTables = []string{
	"CREATE TABLE a_int (id int PRIMARY KEY, v int)", "INSERT INTO a_int VALUES (-3, 1), (0, 2), (7, 3), (8, NULL), (2147483647, 5), (100, 6)",
	"CREATE TABLE b_pair (t varchar(10) COLLATE utf8mb4_general_ci, n int, PRIMARY KEY (t, n))", "INSERT INTO b_pair VALUES ('b', 1), ('A', 2), ('a', 1), ('B', 0), ('ä', 3), ('z''\\\\', 1), ('日', 5), ('', 9), (' x', 1)",
	"CREATE TABLE c_old (k varchar(10) CHARACTER SET latin1, b varbinary(5), PRIMARY KEY (b, k))", "INSERT INTO c_old VALUES ('é', x'00'), ('x', x'00'), ('€', x'FF27'), ('f', x'80'), ('g', ''), ('É', x'5C')",
	"CREATE TABLE d_when (d datetime(3), n decimal(10,2), y year, PRIMARY KEY (d, n, y))", "INSERT INTO d_when VALUES ('2024-01-01 00:00:00.001', -1.5, 2000), ('2024-01-01 00:00:00.001', 1.5, 2000), ('2024-01-01', 0, 2155), ('1000-01-01', 9, 1901), ('1000-01-01', 9, 1902)",
	"CREATE TABLE `e ``quoted` (`order` bigint unsigned PRIMARY KEY, `a``b` int)", "INSERT INTO `e ``quoted` VALUES (0, 1), (9223372036854775808, 2), (18446744073709551615, 3), (5, 4), (6, 5)",
	"CREATE TABLE f_unique (a int NOT NULL UNIQUE, b int)", "INSERT INTO f_unique VALUES (3, 1), (1, 2), (2, 3), (9, 4)",
	"CREATE TABLE g_empty (id int PRIMARY KEY)",
	"CREATE TABLE h_binary (id binary(4) PRIMARY KEY)", "INSERT INTO h_binary VALUES (x'00'), (x'01000001'), (x'FFFFFFFF'), (x'20'), (x'7F')",
}

// TestSnapshotGoesOn kills a snapshot behind each of its marks. What was given before is not given again, and all the rest is.
func TestSnapshotGoesOn(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("SET NAMES utf8mb4", "SET sql_mode = ''")
		d.exec(keyedTables...)
		config := d.config("max.batch.size", "4", "snapshot.mode", "initial_only")
		whole := newRunner(d, config).open()
		marks := map[int]connect.OffsetMap{}
		whole.Until("the snapshot is complete", func() bool {
			if o := whole.Poll(); o != nil {
				whole.Commit(o)
				marks[len(whole.Log)] = o
			}
			return whole.Stored != nil && !snapshotUnderWay(whole.Stored)
		})
		whole.Close()
		want := debeziumtest.Describe(whole.Log)
		if n := strings.Count(want, "r["); n != 40 || len(marks) < 10 {
			t.Fatalf("%d rows, %d marks: %s", n, len(marks), want)
		}
		for n, offset := range marks {
			again := newRunner(d, config)
			again.Log, again.Stored = slices.Clone(whole.Log[:n]), offset
			again.open()
			again.Until("the snapshot is complete", func() bool { return !snapshotUnderWay(again.Stored) })
			again.Close()
			if got := debeziumtest.Describe(again.Log); got != want {
				t.Errorf("from %s after %d rows:\ngot  %s\nwant %s", offset, n, got, want)
			}
		}
	})
}

// TestSnapshotGoesOnAfterChanges kills a snapshot and changes what it has read and what it has not, then looks at what a
// reader of the topics ends up with.
func TestSnapshotGoesOnAfterChanges(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY, v int)", "CREATE TABLE k (v int, w int)")
		for _, name := range []string{"a", "b"} {
			var rows []string
			for i := range 100 {
				rows = append(rows, fmt.Sprintf("(%d, %d)", i*2, i))
			}
			d.exec("INSERT INTO " + name + " VALUES " + strings.Join(rows, ","))
		}
		r := newRunner(d, d.config("max.batch.size", "10")).open()
		for step := 0; ; step++ {
			r.Commit(r.Poll())
			if !snapshotUnderWay(r.Stored) {
				break
			}
			r.kill()
			at := 30 * step % 200
			d.exec(fmt.Sprintf("UPDATE a SET v = v + 1000 WHERE id BETWEEN %d AND %d", at, at+8), fmt.Sprintf("DELETE FROM a WHERE id = %d", at+4),
				fmt.Sprintf("INSERT IGNORE INTO a VALUES (%d, -1), (%d, -2), (%d, -3)", at+1, 2*step+1, 199-2*step), fmt.Sprintf("UPDATE a SET id = id + 1000 WHERE id = %d", 2*step),
				fmt.Sprintf("UPDATE b SET id = -id WHERE id = %d", 196-4*step))
			if step < 5 {
				d.exec(fmt.Sprintf("INSERT INTO k VALUES (%d, 1)", step)) // without a key: begun again and again if it were longer than a batch
			}
			if step == 5 {
				d.exec("ALTER TABLE b ADD COLUMN more varchar(5) DEFAULT 'x' FIRST", "INSERT INTO b VALUES ('new', 1001, 1)")
			}
			r.open()
			if step > 100 {
				t.Fatal("the snapshot does not end")
			}
		}
		d.exec("INSERT INTO b (id, v) VALUES (999999, 0)")
		topic := "srv." + d.name + "."
		r.Until("the last change is there", func() bool { _, ok := debeziumtest.State(r.Log, topic+"b")["[999999]"]; return ok })
		r.Close()
		for name, columns := range map[string]string{"a": "id, v", "b": "more, id, v"} {
			want := map[string]string{}
			for _, row := range d.rows("SELECT " + columns + " FROM " + name) {
				key, text := row[0], strings.Join(row, " ")
				if name == "b" {
					key, text = row[1], fmt.Sprintf("%q %s %s", row[0], row[1], row[2])
				}
				want["["+key+"]"] = "[" + text + "]"
			}
			got := debeziumtest.State(r.Log, topic+name)
			for k, v := range want {
				if got[k] != v && !(name == "b" && "["+strings.TrimPrefix(v, `["x" `) == got[k]) { // given before the column came
					t.Errorf("%s%s is %s, not %s", name, k, got[k], v)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s has %d rows, not %d", name, len(got), len(want))
			}
		}
	})
}

// TestSnapshotIsOfOneMoment moves amounts between rows and tables while they are read: the sum is that of one moment, and
// the stream goes on from exactly there.
func TestSnapshotIsOfOneMoment(t *testing.T) {
	for _, locking := range []string{"minimal", "extended", "none"} {
		t.Run(locking, func(t *testing.T) {
			eachServer(t, func(t *testing.T, d *db) {
				d.exec("CREATE TABLE a (id int PRIMARY KEY, amount int)", "CREATE TABLE b (id int PRIMARY KEY, amount int)")
				for _, name := range []string{"a", "b"} {
					d.exec("INSERT INTO " + name + " VALUES " + strings.TrimSuffix(strings.Repeat("(0, 100),", 1), ","))
					for i := 1; i < 512; i *= 2 {
						d.exec(fmt.Sprintf("INSERT INTO %s SELECT id + %d, 100 FROM %s", name, i, name))
					}
				}
				writer, stop := d.other(), make(chan struct{})
				var done sync.WaitGroup
				done.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						writer.exec("BEGIN", fmt.Sprintf("UPDATE a SET amount = amount - 7 WHERE id = %d", i*13%512), fmt.Sprintf("UPDATE b SET amount = amount + 7 WHERE id = %d", i*29%512), "COMMIT")
					}
				})
				r := newRunner(d, d.config("max.batch.size", "64", "snapshot.locking.mode", locking)).open()
				r.Until("the snapshot is complete", func() bool { return r.Stored != nil && !snapshotUnderWay(r.Stored) })
				sum, rows := int64(0), 0
				for i := range r.Log {
					if r.Log[i].Op() == "r" {
						sum, rows = sum+r.Log[i].After("amount").Int(), rows+1
					}
				}
				if rows != 1024 || sum != 102400 {
					t.Errorf("%d rows with the sum %d", rows, sum)
				}
				close(stop)
				done.Wait()
				d.exec("INSERT INTO b VALUES (9999, 0)")
				topic := "srv." + d.name + "."
				r.Until("the last change is there", func() bool { _, ok := debeziumtest.State(r.Log, topic+"b")["[9999]"]; return ok })
				r.Close()
				for _, name := range []string{"a", "b"} {
					got := debeziumtest.State(r.Log, topic+name)
					for _, row := range d.rows("SELECT id, amount FROM " + name) {
						if got["["+row[0]+"]"] != "["+row[0]+" "+row[1]+"]" {
							t.Errorf("%s: row %s is %s, not %s", name, row[0], got["["+row[0]+"]"], row[1])
						}
					}
				}
			})
		})
	}
}

// TestSnapshotMarkers: the first and last rows of all and of each table say so.
func TestSnapshotMarkers(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		for _, name := range []string{"a", "b", "c"} {
			d.exec("CREATE TABLE "+name+" (id int PRIMARY KEY)", "INSERT INTO "+name+" VALUES (1), (2), (3)")
		}
		d.exec("DELETE FROM b WHERE id > 1")
		r := newRunner(d, d.config("max.batch.size", "4")).open()
		defer r.Close()
		r.Records(7)
		var got []string
		for i := range r.Log {
			got = append(got, r.Log[i].Source("snapshot").Str())
			if s := &r.Log[i]; s.Source("file").Str() == "" || s.Source("pos").Int() == 0 || s.Source("server_id").Int() != 0 || !s.Source("gtid").IsNull() {
				t.Errorf("source %s", s.Value)
			}
		}
		if want := "first true last_in_data_collection last_in_data_collection first_in_data_collection true last"; strings.Join(got, " ") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
		}
	})
}

// TestSnapshotLocks: minimal lets writers in once the view is there, extended only in the end.
func TestSnapshotLocks(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
		for _, c := range []struct {
			locking string
			writes  bool
		}{{"minimal", true}, {"extended", false}} {
			r := newRunner(d, d.config("max.batch.size", "4", "snapshot.locking.mode", c.locking)).open()
			for len(r.Log) == 0 {
				r.Commit(r.Poll())
			}
			if !snapshotUnderWay(r.Stored) {
				t.Fatal("the snapshot is over already")
			}
			writer := d.other()
			writer.exec("SET SESSION lock_wait_timeout = 1")
			_, err := execute(context.Background(), writer.conn, "DELETE FROM t WHERE id = 8")
			if (err == nil) != c.writes || err != nil && codeOf(err) != errLockWaitTimeout {
				t.Errorf("%s: a writer during the snapshot: %v", c.locking, err)
			}
			r.Until("the snapshot is complete", func() bool { return !snapshotUnderWay(r.Stored) })
			writer.exec("DELETE FROM t WHERE id = 8")
			r.Close()
		}
		holder := d.other()
		holder.exec("LOCK TABLES t WRITE")
		r := newRunner(d, d.config("snapshot.lock.timeout.ms", "1000")).open()
		defer r.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := r.task.Poll(ctx); connect.KindOf(ctx, err) != connect.KindRetry || !strings.Contains(err.Error(), "snapshot.lock.timeout.ms=1000") {
			t.Errorf("with a lock of others: %v", err)
		}
		holder.exec("UNLOCK TABLES")
		r.Until("the snapshot is complete", func() bool { return r.Stored != nil && !snapshotUnderWay(r.Stored) })
	})
}

// TestSnapshotWithoutReload: a user who may not hold off all writers holds off those of the captured tables.
func TestSnapshotWithoutReload(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
		user := "u" + d.name[max(0, len(d.name)-20):]
		monitor := "REPLICATION CLIENT"
		if d.server.dialect == binlog.MariaDB {
			monitor = "BINLOG MONITOR"
		}
		d.exec("CREATE USER "+user+"@'%' IDENTIFIED BY 'weir'", "GRANT REPLICATION SLAVE, "+monitor+" ON *.* TO "+user+"@'%'", "GRANT SELECT ON "+d.name+".* TO "+user+"@'%'")
		t.Cleanup(func() { d.exec("DROP USER " + user + "@'%'") })
		config := d.config("database.user", user)
		r := newRunner(d, config).open()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := r.task.Poll(ctx); connect.KindOf(ctx, err) != connect.KindBadConfig || !strings.Contains(err.Error(), "GRANT RELOAD") {
			t.Errorf("without any right to lock: %v", err)
		}
		r.Close()
		d.exec("GRANT LOCK TABLES ON " + d.name + ".* TO " + user + "@'%'")
		r = newRunner(d, config).open()
		defer r.Close()
		if got := debeziumtest.Describe(r.Records(2)); got != "r[1] r[2]" {
			t.Errorf("got %s", got)
		}
		d.exec("INSERT INTO t VALUES (3)")
		if got := debeziumtest.Describe(r.Records(3)); got != "r[1] r[2] c[3]" {
			t.Errorf("got %s", got)
		}
	})
}

// TestSnapshotOfChangedStructure: a table that changes its structure before it is read, or goes, ends nothing.
func TestSnapshotOfChangedStructure(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		for _, name := range []string{"a", "b", "c"} {
			d.exec("CREATE TABLE "+name+" (id int PRIMARY KEY, v int)", "INSERT INTO "+name+" VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
		}
		r := newRunner(d, d.config("max.batch.size", "4")).open()
		for len(r.Log) == 0 {
			r.Commit(r.Poll())
		}
		d.exec("ALTER TABLE b DROP COLUMN v, ADD COLUMN w varchar(5) NOT NULL DEFAULT 'w'", "INSERT INTO b VALUES (6, 'six')", "DROP TABLE c")
		r.Until("the last change is there", func() bool {
			return len(debeziumtest.State(r.Log, "srv."+d.name+".b")) == 6 && !snapshotUnderWay(r.Stored)
		})
		r.Close()
		if got := debeziumtest.State(r.Log, "srv."+d.name+".b")["[6]"]; got != `[6 "six"]` {
			t.Errorf("b[6] is %s", got)
		}
		if n := len(debeziumtest.State(r.Log, "srv."+d.name+".a")); n != 5 {
			t.Errorf("a has %d rows", n)
		}
	})
}

// TestSnapshotHoldsARowBack kills a snapshot while the last row of a table waits for the first of the next.
func TestSnapshotHoldsARowBack(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO a VALUES (1), (2), (3), (4), (5), (6)", "INSERT INTO b VALUES (7), (8)")
		r := newRunner(d, d.config("max.batch.size", "4")).open()
		for len(r.Log) == 0 {
			r.Commit(r.Poll())
		}
		holder := d.other()
		holder.exec("LOCK TABLES b WRITE")
		for len(r.Log) < 5 {
			r.Commit(r.Poll())
		}
		r.Commit(r.Poll()) // waits for b
		if got := debeziumtest.Describe(r.Log); got != "r[1] r[2] r[3] r[4] r[5]" {
			t.Fatalf("got %s", got)
		}
		r.kill()
		holder.exec("UNLOCK TABLES")
		r.open()
		defer r.Close()
		if err := r.task.startSnapshot(context.Background()); err != nil || !r.task.run.progress().Equal(r.Stored) {
			t.Errorf("a snapshot that goes on from %s has come to %s, %v", r.Stored, r.task.run.progress(), err)
		}
		r.Until("the snapshot is complete", func() bool { return !snapshotUnderWay(r.Stored) })
		if got := debeziumtest.Describe(r.Log); got != "r[1] r[2] r[3] r[4] r[5] r[6] r[7] r[8]" {
			t.Errorf("got %s", got)
		}
	})
}

// TestSnapshotValuesAreTheStreams: a row says the same however it came, also where the server's text says less than it has.
func TestSnapshotValuesAreTheStreams(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("SET NAMES utf8mb4", "SET sql_mode = ''", `CREATE TABLE t (id int PRIMARY KEY, f float, g float(10,4), m double(12,5), h double, z int(8) zerofill, y year, d datetime(6), ts timestamp(6) NULL, ti time(2),
  l varchar(20) CHARACTER SET latin1, b binary(6), e enum('é','b') CHARACTER SET latin1, s set('x','y'), bi bit(9), j json, bl longblob, de decimal(20,5), p point, gen int AS (id + 1) VIRTUAL, inv int INVISIBLE DEFAULT 3)`,
			`INSERT INTO t (id, f, g, m, h, z, y, d, ts, ti, l, b, e, s, bi, j, bl, de, p) VALUES (1, 16777217, 3.14159, 0.000005, 1/3, 42, 0, '0000-00-00', '2024-05-06 07:08:09.000001', '-838:59:58.99', 'é€', x'AA00', 'é', 'x,y', 257, '{"b": 1.0, "a": [1e20, "é"]}', REPEAT('z', 70000), -1.5, ST_GeomFromText('POINT(1 2)')),
  (2, 0.1, 0.1, 1/3, 1e300, 0, 1999, '2024-02-29 01:02:03.000004', NULL, '25:00:00', '', '', 2, '', 0, 'null', '', 0, NULL), (3, 1e-38, -0.00005, -1, -0.0, 1, 2155, NULL, '1970-01-01 00:00:01', NULL, ' x ', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
		r := newRunner(d, d.config()).open()
		defer r.Close()
		r.Records(3)
		columns := "f, g, m, h, z, y, d, ts, ti, l, b, e, s, bi, j, bl, de, p"
		d.exec("INSERT INTO t (id, " + columns + ") SELECT id + 3, " + columns + " FROM t ORDER BY id")
		log := r.Records(6)
		slices.SortFunc(log, func(a, b debeziumtest.Entry) int { return int(a.After("id").Int() - b.After("id").Int()) }) // the server inserts in an order of its own
		for i := range 3 {
			if log[i].Schema != log[i+3].Schema {
				t.Error("the snapshot's schema is not the stream's")
			}
			names := strings.Split(columns+", inv", ", ")
			for _, name := range names {
				if before, after := log[i].After(name), log[i+3].After(name); !before.Equal(after) {
					t.Errorf("row %d: %s is %.80v in the snapshot, %.80v in the stream", i, name, before, after)
				}
			}
			if log[i+3].Op() != "c" || log[i].Op() != "r" || log[i+3].After("gen").Int() != log[i+3].After("id").Int()+1 {
				t.Errorf("row %d: %s", i, log[i+3].Value)
			}
		}
	})
}

// TestSnapshotLosesItsConnection: the server ends the session in the middle, again and again.
func TestSnapshotLosesItsConnection(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY, v varchar(200))")
		for i := range 10 {
			var rows []string
			for k := range 200 {
				rows = append(rows, fmt.Sprintf("(%d, '%s')", i*200+k, strings.Repeat("x", 200)))
			}
			d.exec("INSERT INTO t VALUES " + strings.Join(rows, ","))
		}
		proxy := newProxy(t, d.server.address)
		host, port, _ := net.SplitHostPort(proxy.address())
		r := newRunner(d, d.config("max.batch.size", "100", "database.hostname", host, "database.port", port)).open()
		defer r.Close()
		for cuts := 0; r.Stored == nil || snapshotUnderWay(r.Stored); cuts++ {
			if cuts%3 == 2 {
				proxy.cut()
			}
			r.Commit(r.Poll())
			if cuts > 1000 {
				t.Fatal("the snapshot does not end")
			}
		}
		if got := len(debeziumtest.State(r.Log, "srv."+d.name+".t")); got != 2000 || len(r.Log) != 2000 {
			t.Errorf("%d rows in %d records", got, len(r.Log))
		}
	})
}

// proxy is a connection to the server that can be cut.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	done     sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.done.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, in, out)
			p.mu.Unlock()
			p.done.Go(func() { copyBytes(in, out) })
			p.done.Go(func() { copyBytes(out, in) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.cut(); p.done.Wait() })
	return p
}

func copyBytes(to, from net.Conn) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}
