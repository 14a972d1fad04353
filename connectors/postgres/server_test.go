package postgres

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// server is the PostgreSQL that all tests of the package share; each test has a database of its own.
var server struct {
	port      int
	rootCert  string
	err       error
	databases atomic.Int32
}

const serverPassword = "weir"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.fuzzworker"); f != nil && f.Value.String() == "true" {
		os.Exit(m.Run()) // the fuzz targets need no server
	}
	runtime.LockOSThread() // the server ends with the thread that started it
	stop, err := startServer()
	server.err = err
	code := m.Run()
	if stop != nil {
		stop()
	}
	os.Exit(code)
}

// programs gives the folder of the server's programs: WEIR_POSTGRES_BIN for another version, else the newest that is
// installed.
func programs() (string, error) {
	if bin := os.Getenv("WEIR_POSTGRES_BIN"); bin != "" {
		return bin, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("no PostgreSQL server found; install one: apt-get install -y postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// startServer makes a cluster in a temporary folder and starts it; the error tells what to install.
func startServer() (stop func(), err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-postgres-test-")
	if err != nil {
		return nil, err
	}
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		if os.Geteuid() == 0 { // the server refuses to run as root
			if u, err := user.Lookup("postgres"); err == nil {
				uid, _ := strconv.Atoi(u.Uid)
				gid, _ := strconv.Atoi(u.Gid)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
				_ = filepath.Walk(dir, func(p string, _ os.FileInfo, _ error) error { return os.Chown(p, uid, gid) })
			}
		}
		return cmd
	}
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(serverPassword), 0o600); err != nil {
		return nil, err
	}
	if out, err := run("initdb", "-D", dir+"/data", "-U", "postgres", "--pwfile="+dir+"/password", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "-N").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := writeCertificate(dir + "/data"); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server.port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := run("postgres", "-D", dir+"/data", "-p", strconv.Itoa(server.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "ssl=on", "-c", "wal_level=logical", "-c", "max_replication_slots=60", "-c", "max_wal_senders=60", "-c", "fsync=off", "-c", "shared_buffers=64MB", "-c", "max_wal_size=4GB")
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT // a test that runs into its time limit must not leave the server behind
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Wait()
		_ = log.Close()
		_ = os.RemoveAll(dir)
	}
	for start := time.Now(); ; {
		conn, err := dial("postgres", "")
		if err == nil {
			_ = conn.Close(context.Background())
			return stop, nil
		}
		if time.Since(start) > 30*time.Second {
			text, _ := os.ReadFile(log.Name())
			return stop, fmt.Errorf("the server did not start: %w: %s", err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// writeCertificate makes the server's own certificate.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	server.rootCert = dir + "/server.crt"
	if err := os.WriteFile(server.rootCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(dir+"/server.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}

func dial(database, options string) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return pgconn.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=postgres password=%s dbname=%s sslmode=disable %s", server.port, serverPassword, database, options))
}

// db is a test's own database.
type db struct {
	t    testing.TB
	name string
	conn *pgconn.PgConn
}

var notName = regexp.MustCompile(`[^a-z0-9_]+`)

func newDB(t testing.TB) *db {
	t.Helper()
	if server.err != nil {
		t.Fatal(server.err)
	}
	name := fmt.Sprintf("%s_%d", notName.ReplaceAllString(strings.ToLower(t.Name()), "_"), server.databases.Add(1))
	if len(name) > 60 {
		name = name[len(name)-60:]
	}
	admin, err := dial("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	d := &db{t: t, name: name, conn: admin}
	d.exec("CREATE DATABASE " + quoteIdent(name))
	_ = admin.Close(context.Background())
	if d.conn, err = dial(name, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.dropSlots()
		_ = d.conn.Close(context.Background())
	})
	return d
}

// dropSlots frees the server's slots, which are few.
func (d *db) dropSlots() {
	ctx := context.Background()
	rows, _ := rowsOf(ctx, d.conn, "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = current_database()")
	for _, r := range rows {
		if r[1] != "" {
			_, _ = rowsOf(ctx, d.conn, "SELECT pg_terminate_backend($1::int)", r[1])
		}
		for range 200 {
			if _, err := rowsOf(ctx, d.conn, "SELECT pg_drop_replication_slot($1)", r[0]); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (d *db) exec(sql string) {
	d.t.Helper()
	if err := execute(context.Background(), d.conn, sql); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
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

// other opens one more session.
func (d *db) other() *db {
	d.t.Helper()
	conn, err := dial(d.name, "")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &db{t: d.t, name: d.name, conn: conn}
}
