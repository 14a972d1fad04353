package binlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"go.uber.org/goleak"
)

// server is a real MySQL or MariaDB that a test talks to.
type server struct {
	dialect Dialect
	dir     string
	port    int
	options []string
}

// shared holds the servers that tests share, one for each dialect. Each test has a database of its own.
var shared struct {
	sync.Mutex
	servers [2]*server
	errs    [2]error
	folder  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range shared.servers {
		if s != nil {
			s.stop()
		}
	}
	if shared.folder != "" {
		_ = os.RemoveAll(shared.folder)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// both runs a test against both servers.
func both(t *testing.T, f func(t *testing.T, s *server)) {
	for _, d := range []Dialect{MySQL, MariaDB} {
		t.Run(d.String(), func(t *testing.T) { f(t, sharedServer(t, d)) })
	}
}

// sharedServer gives the running server of a dialect.
func sharedServer(t *testing.T, d Dialect) *server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.servers[d] == nil && shared.errs[d] == nil {
		s, err := makeServer(d)
		if err == nil {
			shared.servers[d] = s
			err = s.start()
		}
		shared.errs[d] = err
	}
	if err := shared.errs[d]; err != nil {
		t.Fatal(err)
	}
	return shared.servers[d]
}

// ownServer starts a server that one test may stop, kill or reconfigure.
func ownServer(t *testing.T, d Dialect, options ...string) *server {
	t.Helper()
	shared.Lock()
	s, err := makeServer(d, options...)
	shared.Unlock()
	if err == nil {
		err = s.start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func makeServer(d Dialect, options ...string) (*server, error) {
	if shared.folder == "" {
		folder, err := os.MkdirTemp("", "weir-binlog-")
		if err != nil {
			return nil, err
		}
		shared.folder = folder
		if err := os.Chmod(folder, 0o755); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	s := &server{dialect: d, dir: filepath.Join(shared.folder, strconv.Itoa(port)), port: port, options: options}
	template := filepath.Join(shared.folder, d.String())
	if _, err := os.Stat(template); err != nil { // the first server's data, before it had any, are everyone's
		first := &server{dialect: d, dir: template, port: port}
		if err := first.start(); err != nil {
			return nil, err
		}
		first.stop()
		_ = os.Remove(template + "/data/auto.cnf") // a MySQL server's own name
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o777); err != nil { // for the server's own user
		return nil, err
	}
	if out, err := exec.Command("cp", "-a", template+"/data", s.dir+"/data").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy a server's data: %w: %s", err, out)
	}
	return s, nil
}

// script runs the service script of the server's kind.
func (s *server) script(args ...string) error {
	out, err := exec.Command("../../../e2e/services/"+s.dialect.String()+".sh", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s.sh %s: %w: %s", s.dialect, strings.Join(args, " "), err, out)
	}
	return nil
}

func (s *server) start() error {
	return s.script(append([]string{"start", strconv.Itoa(s.port), s.dir}, s.options...)...)
}

func (s *server) stop() { _ = s.script("stop", s.dir) }

// kill ends the server as a power failure would, and waits for its end.
func (s *server) kill(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(s.dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); s.script("status", s.dir) == nil; {
		if time.Now().After(deadline) {
			t.Fatal("the server outlives SIGKILL")
		}
	}
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) connect(ctx context.Context) (*client.Conn, error) { return dialAt(ctx, s.address()) }

func dialAt(ctx context.Context, address string) (*client.Conn, error) {
	dialer := &net.Dialer{}
	return client.ConnectWithDialer(ctx, "tcp", address, "weir", "weir", "", dialer.DialContext)
}

// exec runs statements in one session.
func (s *server) exec(t testing.TB, statements ...string) {
	t.Helper()
	conn, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range statements {
		if _, err := conn.Execute(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// set sets a global variable until the test's end.
func (s *server) set(t *testing.T, variable, value string) {
	t.Helper()
	before := s.ask(t, "SELECT @@global."+variable)
	s.exec(t, "SET GLOBAL "+variable+" = "+value)
	t.Cleanup(func() {
		conn, err := s.connect(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := conn.Execute("SET GLOBAL " + variable + " = " + before); err != nil {
			t.Error(err)
		}
	})
}

// ask gives the first column of a query's first row.
func (s *server) ask(t testing.TB, sql string) string {
	t.Helper()
	conn, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	result, err := conn.Execute(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer result.Close()
	text, err := result.GetString(0, 0)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Clone(text)
}

// database makes an empty database of the test's own.
func (s *server) database(t testing.TB) string {
	t.Helper()
	name := "t_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, t.Name())
	name = strings.ToLower(name[:min(len(name), 60)])
	s.exec(t, "DROP DATABASE IF EXISTS "+name, "CREATE DATABASE "+name)
	return name
}

// here is where the server's binlog ends.
func (s *server) here(t testing.TB) Offset {
	t.Helper()
	conn, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	query := "SHOW BINARY LOG STATUS"
	if s.dialect == MariaDB {
		query = "SHOW MASTER STATUS"
	}
	result, err := conn.Execute(query)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	name, _ := result.GetString(0, 0)
	file := strings.Clone(name) // the library uses its memory again
	pos, _ := result.GetUint(0, 1)
	set := "SELECT @@global.gtid_executed"
	if s.dialect == MariaDB {
		set = "SELECT @@global.gtid_binlog_pos"
	}
	return Offset{File: file, Pos: pos, GTIDs: strings.ReplaceAll(s.ask(t, set), "\n", "")}
}

func (s *server) config(database string) Config {
	return Config{Dialect: s.dialect, Connect: s.connect, ServerID: 7700 + uint32(s.port), Heartbeat: time.Second,
		Wanted: func(db, _ string) bool { return db == database }}
}

// open begins to read; the stream is closed with the test.
func open(t testing.TB, cfg Config, start Offset) *Stream {
	t.Helper()
	s, err := Open(t.Context(), cfg, start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// next gives the next event but heartbeats.
func next(t testing.TB, s *Stream) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		e, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, beat := e.(*Heartbeat); !beat {
			return e
		}
	}
}

// script gives a line for each event up to and including the last-th transaction, without what differs between runs.
func story(t testing.TB, s *Stream, transactions int) []string {
	t.Helper()
	var out []string
	for transactions > 0 {
		e := next(t, s)
		switch e := e.(type) {
		case *Commit:
			transactions--
		case *Query:
			if !e.InTransaction {
				transactions--
			}
		}
		out = append(out, tell(e))
	}
	return out
}

func tell(e Event) string {
	switch e := e.(type) {
	case *Begin:
		if e.XA {
			return "begin xa"
		}
		return "begin"
	case *Rows:
		text := [...]string{"insert", "update", "delete"}[e.Kind] + " " + e.Table.Table
		if e.Partial {
			text += " partial"
		}
		if e.Skip > 0 {
			text += fmt.Sprintf(" skip %d", e.Skip)
		}
		if e.Query != "" {
			text += " by " + e.Query
		}
		return text
	case *Query:
		kind := [...]string{"statement", "change", "savepoint", "rollback to", "xa commit", "xa rollback"}[e.Kind]
		if e.InTransaction {
			kind += " inside"
		}
		return kind + " " + e.SQL
	case *Commit:
		return [...]string{"commit", "prepared", "rolled back"}[e.Kind]
	case *Rotate:
		return "rotate"
	}
	return fmt.Sprintf("%T", e)
}

func expect(t testing.TB, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// class wants an error of a class.
func class(t testing.TB, err error, want Class) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error came, want class %s", want)
	}
	if got := Classify(err); got != want {
		t.Errorf("class %s, want %s: %v", got, want, err)
	}
	var own *Error
	if want != Other && !errors.As(err, &own) {
		t.Errorf("%v is not an *Error", err)
	}
}
