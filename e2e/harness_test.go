package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// services are the addresses of what all scenarios share.
type services struct {
	bin      string // the weir binary
	postgres string // host:port; user postgres, password weir
	s3       string // URL; key weir, secret weir-secret
	s3Dir    string // bucket B is the folder s3Dir/B
	search   string // URL
}

// shared gives the services, or skips the test where the environment names none.
func shared(t *testing.T) services {
	t.Helper()
	s := services{
		bin:      os.Getenv("WEIR_E2E_BIN"),
		postgres: os.Getenv("WEIR_E2E_POSTGRES"),
		s3:       os.Getenv("WEIR_E2E_S3"),
		s3Dir:    os.Getenv("WEIR_E2E_S3_DIR"),
		search:   os.Getenv("WEIR_E2E_SEARCH"),
	}
	if s.bin == "" || s.postgres == "" || s.s3 == "" || s.s3Dir == "" || s.search == "" {
		t.Skip("NOT RUN: no services named by WEIR_E2E_BIN, _POSTGRES, _S3, _S3_DIR, _SEARCH; use `make test`")
	}
	return s
}

// node is one `weir start` in a process of its own, or one `weir connect` or `weir run`.
type node struct {
	t    *testing.T
	bin  string
	dir  string // holds data/ and log
	base int    // first of its four ports
	args []string
	verb string // connect or run; "": start
	file string // the configuration of connect and run
	cmd  *exec.Cmd
	done chan error // gives the process's end, once
}

// startNode runs weir in a fresh folder and waits until it is ready. The test's end
// ends it; its log is printed when the test has failed.
func startNode(t *testing.T, s services, args ...string) *node {
	t.Helper()
	n := &node{t: t, bin: s.bin, dir: t.TempDir(), base: freePorts(t, 4), args: args}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("weir's log:\n%s", n.log())
		}
	})
	n.start()
	return n
}

// start runs the process on the folder as it is and waits until it is ready.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	n.awaitReady()
}

// awaitReady waits until the process is ready.
func (n *node) awaitReady() {
	n.t.Helper()
	eventually(n.t, 30*time.Second, func() (bool, string) {
		select {
		case err := <-n.done:
			n.done <- err
			n.t.Fatalf("weir ended while starting: %v\n%s", err, n.log())
		default:
		}
		status, body := n.get(n.console() + "/readyz")
		return status == http.StatusOK, fmt.Sprintf("readyz: %d %s", status, body)
	})
}

// launch runs the process and does not wait.
func (n *node) launch() {
	n.t.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	args := []string{"start", "--data", filepath.Join(n.dir, "data"), "--port-base", fmt.Sprint(n.base)}
	if n.verb != "" {
		args = []string{n.verb, "--config", n.file, "--connect", strings.TrimPrefix(n.connect(), "http://"), "--console", strings.TrimPrefix(n.console(), "http://")}
	}
	n.cmd = exec.Command(n.bin, append(args, n.args...)...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan<- error) { done <- cmd.Wait() }(n.cmd, n.done)
}

// kill ends the process by SIGKILL and waits for its end. One that has ended is none.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Errorf("kill weir: %v", err)
	}
	n.t.Logf("weir has ended: %v", <-n.done)
	n.cmd = nil
}

// stop asks the process to end by SIGTERM; it fails the test when that takes longer
// than the limit or the process says that it failed.
func (n *node) stop(limit time.Duration) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	select {
	case err := <-n.done:
		n.cmd = nil
		if err != nil {
			n.t.Fatalf("weir ended with %v after SIGTERM", err)
		}
	case <-time.After(limit):
		n.t.Fatalf("weir still runs %v after SIGTERM", limit)
	}
}

func (n *node) kafka() string   { return fmt.Sprintf("127.0.0.1:%d", n.base) }
func (n *node) connect() string { return fmt.Sprintf("http://127.0.0.1:%d", n.base+1) }
func (n *node) console() string { return fmt.Sprintf("http://127.0.0.1:%d", n.base+3) }

func (n *node) log() string {
	text, err := os.ReadFile(filepath.Join(n.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// get reads a page; status 0 when nothing answered.
func (n *node) get(url string) (int, string) {
	status, body, err := request(n.t.Context(), http.MethodGet, url, "")
	if err != nil {
		return 0, err.Error()
	}
	return status, body
}

// rest calls Kafka Connect's REST interface; path starts with a slash.
func (n *node) rest(method, path, body string) (int, string) {
	n.t.Helper()
	status, answer, err := request(n.t.Context(), method, n.connect()+path, body)
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, answer
}

// weir runs another command of the binary against the node and returns what it printed.
func (n *node) weir(args ...string) (string, error) {
	return command(n.t, "", n.bin, append(args, "--bootstrap", n.kafka(), "--url", n.connect())...)
}

// kcat runs kcat against the node; args as kcat's own but for -b.
func (n *node) kcat(stdin string, args ...string) string {
	n.t.Helper()
	out, err := command(n.t, stdin, "kcat", append([]string{"-b", n.kafka()}, args...)...)
	if err != nil {
		n.t.Fatalf("kcat %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// psql runs statements in a database of the shared PostgreSQL and returns unaligned rows.
func (s services) psql(t *testing.T, database, sql string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(s.postgres)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("postgres://postgres:weir@%s/%s", net.JoinHostPort(host, port), database)
	out, err := command(t, sql, "psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", url)
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// command runs a program to its end, at most a minute, and returns what it printed;
// what it said on standard error comes first where it failed.
func command(t *testing.T, stdin, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return said.String() + out.String(), err
	}
	return out.String(), nil
}

func request(ctx context.Context, method, url, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// eventually repeats look until it says that it has seen what it waits for; the test
// fails with the last thing seen when the limit is over.
func eventually(t *testing.T, limit time.Duration, look func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		ok, seen := look()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v still: %s", limit, seen)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// freePorts finds count ports in a row that nothing listens on.
func freePorts(t *testing.T, count int) int {
	t.Helper()
	for range 50 {
		base, ok := tryPorts(count)
		if ok {
			return base
		}
	}
	t.Fatalf("found no %d free ports in a row", count)
	return 0
}

func tryPorts(count int) (int, bool) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	base := 0
	for i := range count {
		port := 0
		if i > 0 {
			port = base + i
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return 0, false
		}
		held = append(held, l)
		if i == 0 {
			base = l.Addr().(*net.TCPAddr).Port
		}
	}
	return base, base >= 20000
}
