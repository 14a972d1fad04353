package e2e

import (
	"context"
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

// TestSysbenchSurvivesKills: sysbench changes rows and statements change the table while weir is killed at random moments,
// in its snapshot too. What the log leaves of each key is the table.
func TestSysbenchSurvivesKills(t *testing.T) {
	if _, err := exec.LookPath("sysbench"); err != nil {
		t.Skip("NOT RUN: sysbench is not installed; use `make test`")
	}
	eachSQLServer(t, func(t *testing.T, s services, m sqlServer) {
		const db = "sbkills"
		rng := chaosSeed(t)
		m.newDatabase(t, db)
		count := kills(6)
		seconds := 2 * count
		host, port, _ := net.SplitHostPort(m.address)
		bench := func(ctx context.Context, verb string) error {
			out, err := exec.CommandContext(ctx, "sysbench", "oltp_write_only", "--db-driver=mysql", "--mysql-host="+host, "--mysql-port="+port, "--mysql-user=weir", "--mysql-password=weir",
				"--mysql-db="+db, "--tables=1", "--table-size=20000", "--threads=2", "--rate=60", "--mysql-ignore-errors=all", "--time="+fmt.Sprint(seconds), verb).CombinedOutput()
			if err != nil {
				return fmt.Errorf("sysbench %s: %w\n%s", verb, err, out)
			}
			return nil
		}
		if err := bench(t.Context(), "prepare"); err != nil {
			t.Fatal(err)
		}
		n := startNode(t, s)
		if code, body := n.put(db, m.config(db)); code/100 != 2 {
			t.Fatalf("%d %s", code, body)
		}
		worked := make(chan error, 1)
		go func() { worked <- bench(t.Context(), "run") }()
		for i := range count {
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // the moment of the fault
			n.kill()
			for _, statement := range []string{
				fmt.Sprintf("ALTER TABLE sbtest1 ADD COLUMN x%d int NOT NULL DEFAULT %d", i, i), "ALTER TABLE sbtest1 MODIFY c char(120) NOT NULL DEFAULT '' AFTER pad",
				fmt.Sprintf("ALTER TABLE sbtest1 DROP COLUMN x%d", max(0, i-1)), "ALTER TABLE sbtest1 CHANGE pad filling char(60) NOT NULL DEFAULT ''; ALTER TABLE sbtest1 CHANGE filling pad char(60) NOT NULL DEFAULT ''",
			}[:1+rng.IntN(4)] {
				out, err := command(t, statement, "mariadb", m.arguments(db)...)
				if err != nil && !strings.Contains(out, "1091") { // there is no such column
					t.Fatalf("%s: %v %s", statement, err, out)
				}
			}
			n.start()
		}
		if err := <-worked; err != nil {
			t.Fatal(err)
		}
		n.passed(m, db)
		want := strings.Split(m.sql(t, db, "SELECT id, k, c, pad FROM sbtest1"), "\n")
		var got []string
		for _, row := range n.replayed(db + "." + db + ".sbtest1") {
			pad := row["pad"]
			if pad == nil {
				pad = row["filling"]
			}
			got = append(got, fmt.Sprintf("%v\t%v\t%v\t%v", asInteger(row["id"]), asInteger(row["k"]), row["c"], pad))
		}
		if g, w := digest(got), digest(want); g != w {
			t.Errorf("the log leaves %s, the table has %s; only in the log: %.500q, only in the table: %.500q", g, w, without(got, want), without(want, got))
		}
	})
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

func asInteger(v any) string {
	f, _ := v.(float64)
	return strconv.FormatInt(int64(f), 10)
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
