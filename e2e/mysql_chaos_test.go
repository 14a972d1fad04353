package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sqlServer is one of the two servers that speak MySQL's protocol.
type sqlServer struct {
	name    string // the connector's short class
	address string // host:port; user weir, password weir
}

// eachSQLServer runs a scenario on MySQL and on MariaDB.
func eachSQLServer(t *testing.T, scenario func(t *testing.T, s services, m sqlServer)) {
	s := shared(t)
	for name, address := range map[string]string{"mysql": os.Getenv("WEIR_E2E_MYSQL"), "mariadb": os.Getenv("WEIR_E2E_MARIADB")} {
		t.Run(name, func(t *testing.T) {
			if address == "" {
				t.Skipf("NOT RUN: no %s server is named by WEIR_E2E_MYSQL, _MARIADB; use `make test`", name)
			}
			scenario(t, s, sqlServer{name: name, address: address})
		})
	}
}

// arguments are those of the command line client.
func (m sqlServer) arguments(database string) []string {
	host, port, _ := net.SplitHostPort(m.address)
	return []string{"-h", host, "-P", port, "-u", "weir", "-pweir", "--batch", "--skip-column-names", database}
}

// sql runs statements and returns rows of tab-separated columns.
func (m sqlServer) sql(t *testing.T, database, statements string) string {
	t.Helper()
	out, err := command(t, statements, "mariadb", m.arguments(database)...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", m.name, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// newDatabase makes a database anew.
func (m sqlServer) newDatabase(t *testing.T, name string) {
	t.Helper()
	m.sql(t, "", "DROP DATABASE IF EXISTS "+name+"; CREATE DATABASE "+name)
}

// config is a source on a database of the server.
func (m sqlServer) config(database string) map[string]string {
	host, port, _ := net.SplitHostPort(m.address)
	return map[string]string{
		"connector.class": m.name, "database.hostname": host, "database.port": port, "database.user": "weir", "database.password": "weir",
		"topic.prefix": database, "database.include.list": database, "schema.history.internal.store.only.captured.databases.ddl": "true",
	}
}

// passed writes a row into the database's table "passed" and waits until it is in the log: all that was committed before
// it is, too.
func (n *node) passed(m sqlServer, database string) {
	n.t.Helper()
	mark := fmt.Sprint(time.Now().UnixNano())
	m.sql(n.t, database, "CREATE TABLE IF NOT EXISTS passed (id bigint PRIMARY KEY); INSERT INTO passed VALUES ("+mark+")")
	eventually(n.t, 90*time.Second, func() (bool, string) {
		out, _ := command(n.t, "", "kcat", "-b", n.kafka(), "-q", "-C", "-t", database+"."+database+".passed", "-o", "beginning", "-e", "-f", "%k\n")
		return strings.Contains(out, mark), fmt.Sprintf("%d rows passed, %+v", strings.Count(out, "\n"), n.status(database))
	})
}

// kills tells how often weir is to be killed: WEIR_E2E_KILLS, else a few.
func kills(few int) int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_E2E_KILLS")); err == nil {
		return n
	}
	return few
}

// digest sorts lines and gives their number and hash.
func digest(lines []string) string {
	slices.Sort(lines)
	return fmt.Sprintf("%d rows %x", len(lines), sha256.Sum256([]byte(strings.Join(lines, "\n"))))
}

// load is what changes rows while weir is killed: sysbench on two tables, and a procedure that knows what a connector can get
// wrong: keys that change, rows that are deleted and come again, transactions and savepoints that are rolled back, one of
// thousands of rows now and then, and a sequence of steps, one for each transaction.
const loadTables = `CREATE TABLE item (a int, b varchar(20), v int, PRIMARY KEY (a, b)); CREATE TABLE step (id bigint PRIMARY KEY);
CREATE TABLE bulk (id int AUTO_INCREMENT PRIMARY KEY, n int, t varchar(100), u int NOT NULL DEFAULT 5);
INSERT INTO item WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 1000) SELECT n, 'k', 0 FROM r;
DELIMITER $$
CREATE PROCEDURE work(seconds int)
BEGIN
  DECLARE until_ datetime(6) DEFAULT sysdate(6) + INTERVAL seconds SECOND;
  DECLARE n, x int DEFAULT 0;
  WHILE sysdate(6) < until_ DO
    SET n = n + 1, x = 1 + floor(rand() * 1000);
    START TRANSACTION;
    INSERT INTO step VALUES (n);
    UPDATE item SET v = v + 1 WHERE a = x;
    IF n % 3 = 0 THEN DELETE FROM item WHERE a = x; END IF;
    IF n % 4 = 0 THEN INSERT IGNORE INTO item (a, b, v) VALUES (x, 'k', n); END IF;
    IF n % 5 = 0 THEN UPDATE item SET b = concat('moved', n) WHERE a = x AND b = 'k'; END IF;
    IF n % 7 = 0 THEN SAVEPOINT s; INSERT INTO step VALUES (-n); UPDATE item SET v = -1 WHERE a = x; ROLLBACK TO s; END IF;
    IF n % 300 = 0 THEN INSERT INTO bulk (n, t) SELECT n, repeat('x', 100) FROM item CROSS JOIN (SELECT 1 UNION SELECT 2 UNION SELECT 3) m; END IF;
    IF n % 301 = 0 THEN DELETE FROM bulk WHERE id % 2 = 0; END IF;
    COMMIT;
    START TRANSACTION;
    INSERT INTO step VALUES (-n);
    ROLLBACK;
    DO sleep(0.002);
  END WHILE;
END $$
DELIMITER ;
`

// reshapes change the tables of the load. The columns that are added have their number as default.
func reshapes(i int) []string {
	return []string{
		fmt.Sprintf("ALTER TABLE sbtest1 ADD COLUMN x%d int NOT NULL DEFAULT %d", i, i),
		fmt.Sprintf("ALTER TABLE item ADD COLUMN x%d int NOT NULL DEFAULT %d FIRST", i, i),
		"ALTER TABLE sbtest1 MODIFY c char(120) NOT NULL DEFAULT '' AFTER pad",
		"ALTER TABLE sbtest1 CHANGE pad filling char(60) NOT NULL DEFAULT ''; ALTER TABLE sbtest1 CHANGE filling pad char(60) NOT NULL DEFAULT ''",
		"ALTER TABLE item MODIFY v bigint AFTER a; ALTER TABLE bulk RENAME COLUMN u TO u2; ALTER TABLE bulk RENAME COLUMN u2 TO u",
		"CREATE TABLE sbtest2_new LIKE sbtest2; DROP TABLE sbtest2_new",
		fmt.Sprintf("ALTER TABLE sbtest1 DROP COLUMN x%d", max(0, i-1)),
		fmt.Sprintf("ALTER TABLE item DROP COLUMN x%d", max(0, i-2)),
	}
}

// reshape runs some of them, each statement until the load lets it through.
func (m sqlServer) reshape(t *testing.T, database string, statements []string) {
	t.Helper()
	for _, statement := range strings.Split(strings.Join(statements, "; "), "; ") {
		for tries := 1; ; tries++ {
			out, err := command(t, statement, "mariadb", m.arguments(database)...)
			if err == nil || strings.Contains(out, "ERROR 1091") || strings.Contains(out, "ERROR 1060") { // there is no such column, or it is there
				break
			}
			held := strings.Contains(out, "ERROR 1213") || strings.Contains(out, "ERROR 1205") // deadlock, lock wait timeout
			if !held || tries == 20 {
				t.Fatalf("%s: %v %s", statement, err, out)
			}
		}
	}
}

// sysbench runs one of its verbs.
func (m sqlServer) sysbench(t *testing.T, database string, seconds int, verb string) error {
	host, port, _ := net.SplitHostPort(m.address)
	out, err := exec.CommandContext(t.Context(), "sysbench", "oltp_write_only", "--db-driver=mysql", "--mysql-host="+host, "--mysql-port="+port, "--mysql-user=weir",
		"--mysql-password=weir", "--mysql-db="+database, "--tables=2", "--table-size=10000", "--threads=2", "--rate=60", "--mysql-ignore-errors=all",
		"--time="+strconv.Itoa(seconds), verb).CombinedOutput()
	if err != nil {
		return fmt.Errorf("sysbench %s: %w\n%s", verb, err, out)
	}
	return nil
}

// TestMySQLSurvivesKills: rows change and tables change their shape while weir is killed at random moments, in its snapshot
// too. What the log leaves of each key is the table, by number and hash, and the sequence of steps is complete and in order.
// `make chaos-mysql` kills twenty times.
func TestMySQLSurvivesKills(t *testing.T) {
	if _, err := exec.LookPath("sysbench"); err != nil {
		t.Skip("NOT RUN: sysbench is not installed; use `make test`")
	}
	eachSQLServer(t, func(t *testing.T, s services, m sqlServer) {
		const db = "kills"
		rng := chaosSeed(t)
		m.newDatabase(t, db)
		m.sql(t, db, loadTables)
		if err := m.sysbench(t, db, 1, "prepare"); err != nil {
			t.Fatal(err)
		}
		n := startNode(t, s)
		worked := make(chan error, 2)
		count := kills(3)
		seconds := 3 * count
		go func() { worked <- m.sysbench(t, db, seconds, "run") }()
		go func() {
			out, err := exec.CommandContext(t.Context(), "mariadb", append(m.arguments(db), "-e", fmt.Sprintf("CALL work(%d)", seconds))...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("work: %w\n%s", err, out)
			}
			worked <- err
		}()
		if code, body := n.put(db, m.config(db)); code/100 != 2 {
			t.Fatalf("%d %s", code, body)
		}
		for i := range count {
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // the moment of the fault
			statements := reshapes(i)
			rng.Shuffle(len(statements), func(a, b int) { statements[a], statements[b] = statements[b], statements[a] })
			while := rng.IntN(4) // so many while it runs, the others while it doesn't
			m.reshape(t, db, statements[:while])
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			n.kill()
			m.reshape(t, db, statements[while:while+rng.IntN(len(statements)-while)])
			n.start()
		}
		for range 2 {
			if err := <-worked; err != nil {
				t.Fatal(err)
			}
		}
		n.passed(m, db)
		for _, table := range []string{"sbtest1", "sbtest2", "item", "bulk"} {
			m.sameAsLog(t, n, db, table)
		}
		steps := checkSteps(t, n, db+"."+db+".step", m.sql(t, db, "SELECT count(*) FROM step"))
		if steps < 100*count {
			t.Errorf("only %d transactions in %d s", steps, seconds)
		}
	})
}

// sameAsLog compares a table with what the log leaves of each of its keys. A row that wasn't touched since a column was added
// has the column's default in the table, and nothing in the log.
func (m sqlServer) sameAsLog(t *testing.T, n *node, database, table string) {
	t.Helper()
	columns := strings.Split(m.sql(t, database, "SELECT column_name FROM information_schema.columns WHERE table_schema = '"+database+"' AND table_name = '"+table+"' ORDER BY ordinal_position"), "\n")
	want := strings.Split(m.sql(t, database, "SELECT "+strings.Join(columns, ", ")+" FROM "+table), "\n")
	var got []string
	for _, row := range n.replayed(database + "." + database + "." + table) {
		fields := make([]string, len(columns))
		for i, column := range columns {
			v, known := row[column]
			if !known {
				v = row[map[string]string{"pad": "filling", "u": "u2"}[column]] // its name for a moment
			}
			switch v := v.(type) {
			case nil:
				fields[i] = strings.TrimPrefix(column, "x") // the default of a column that was added
			case float64:
				fields[i] = strconv.FormatInt(int64(v), 10)
			default:
				fields[i] = fmt.Sprint(v)
			}
		}
		got = append(got, strings.Join(fields, "\t"))
	}
	if g, w := digest(got), digest(want); g != w {
		t.Errorf("%s: the log leaves %s, the table has %s; only in the log: %.500q, only in the table: %.500q", table, g, w, without(got, want), without(want, got))
	}
}

// without gives the lines of a that b does not have; both are sorted.
func without(a, b []string) []string {
	var out []string
	for _, line := range a {
		if _, there := slices.BinarySearch(b, line); !there {
			out = append(out, line)
		}
	}
	return out
}

// TestMySQLTablesChangeWhileNobodyLooks: columns come, go, move and change while weir is down, a tool exchanges the table for
// a copy of it, and each event has the columns that its row had.
func TestMySQLTablesChangeWhileNobodyLooks(t *testing.T) {
	eachSQLServer(t, func(t *testing.T, s services, m sqlServer) {
		const db = "myreshaped"
		m.newDatabase(t, db)
		m.sql(t, db, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
		n := startNode(t, s)
		n.apply(db, m.config(db))
		n.passed(m, db)
		eventually(t, 30*time.Second, func() (bool, string) {
			_, offsets := n.rest(http.MethodGet, "/connectors/"+db+"/offsets", "")
			return strings.Contains(offsets, `"pos"`) && !strings.Contains(offsets, `"snapshot"`), offsets
		})
		n.kill()
		m.sql(t, db, `UPDATE t SET a = 10 WHERE id = 1; ALTER TABLE t ADD COLUMN b varchar(9) DEFAULT 'x' FIRST; UPDATE t SET a = 20 WHERE id = 2;
			ALTER TABLE t DROP COLUMN a; UPDATE t SET b = 'y' WHERE id = 3; ALTER TABLE t CHANGE b c varchar(20) AFTER id; UPDATE t SET c = 'z' WHERE id = 4;
			CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho ADD COLUMN e int; INSERT INTO _t_gho (id, c) SELECT id, c FROM t; RENAME TABLE t TO _t_del, _t_gho TO t;
			UPDATE t SET e = 50 WHERE id = 5; DROP TABLE _t_del`)
		n.start()
		n.passed(m, db)
		got, err := json.Marshal(n.replayed(db + "." + db + ".t"))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"{\"id\":1}":{"a":10,"id":1},"{\"id\":2}":{"a":20,"b":"x","id":2},"{\"id\":3}":{"b":"y","id":3},` +
			`"{\"id\":4}":{"c":"z","id":4},"{\"id\":5}":{"c":"x","e":50,"id":5}}`
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
