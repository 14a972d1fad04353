package mysql

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	"go.uber.org/goleak"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is one of the real servers that all tests of the package share; each test has a database of its own.
type testServer struct {
	dialect binlog.Dialect
	address string
}

var databases atomic.Int32

// servers gives those of the two that the environment names; the others are told as skipped.
func eachServer(t *testing.T, test func(t *testing.T, d *db)) {
	for _, s := range []struct {
		dialect  binlog.Dialect
		variable string
	}{{binlog.MySQL, "WEIR_TEST_MYSQL"}, {binlog.MariaDB, "WEIR_TEST_MARIADB"}} {
		t.Run(s.dialect.String(), func(t *testing.T) { test(t, newDB(t, s.dialect)) })
	}
}

func serverOf(t testing.TB, d binlog.Dialect) testServer {
	variable := map[binlog.Dialect]string{binlog.MySQL: "WEIR_TEST_MYSQL", binlog.MariaDB: "WEIR_TEST_MARIADB"}[d]
	address := os.Getenv(variable)
	if address == "" {
		t.Skipf("NOT RUN: no server is named by %s (host:port, user weir, password weir); use `make test`", variable)
	}
	return testServer{dialect: d, address: address}
}

// db is a test's own database.
type db struct {
	t      testing.TB
	server testServer
	name   string
	conn   *client.Conn
}

var notName = regexp.MustCompile(`[^a-z0-9_]+`)

func newDB(t testing.TB, d binlog.Dialect) *db {
	t.Helper()
	s := serverOf(t, d)
	name := fmt.Sprintf("t%d_%s_%d", os.Getpid()%10000, notName.ReplaceAllString(strings.ToLower(t.Name()), "_"), databases.Add(1))
	if len(name) > 60 {
		name = name[:40] + name[len(name)-20:]
	}
	out := &db{t: t, server: s, name: name, conn: s.session(t)}
	out.exec("CREATE DATABASE " + name)
	out.exec("USE " + name)
	t.Cleanup(func() { out.exec("DROP DATABASE " + name) })
	return out
}

func (s testServer) session(t testing.TB) *client.Conn {
	t.Helper()
	conn, err := client.Connect(s.address, "weir", "weir", "")
	if err != nil {
		t.Fatalf("connect to %s: %v", s.address, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// other opens one more session.
func (d *db) other() *db {
	out := &db{t: d.t, server: d.server, name: d.name, conn: d.server.session(d.t)}
	out.exec("USE " + d.name)
	return out
}

// exec runs statements, each on its own.
func (d *db) exec(statements ...string) {
	d.t.Helper()
	for _, sql := range statements {
		if _, err := execute(context.Background(), d.conn, sql); err != nil {
			d.t.Fatalf("%s: %v", sql, err)
		}
	}
}

func (d *db) rows(sql string) [][]string {
	d.t.Helper()
	rows, err := rowsOf(context.Background(), d.conn, sql)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func (d *db) config(more ...string) connect.Config {
	host, port, err := net.SplitHostPort(d.server.address)
	if err != nil {
		d.t.Fatal(err)
	}
	c := connect.Config{
		"topic.prefix": "srv", "database.hostname": host, "database.port": port, "database.user": "weir", "database.password": "weir",
		"database.include.list": d.name, "include.schema.changes": "false",
		"schema.history.internal":                                   "io.debezium.storage.file.history.FileSchemaHistory",
		"schema.history.internal.file.filename":                     d.t.TempDir() + "/history",
		"schema.history.internal.store.only.captured.databases.ddl": "true",
		"database.server.id":                                        strconv.Itoa(1000000 + int(databases.Add(1)) + os.Getpid()%10000*100),
	}
	for i := 0; i+1 < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}
