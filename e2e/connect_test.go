package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// status is the answer of /connectors/NAME/status.
type status struct {
	Connector struct {
		State, Trace string
		Worker       string `json:"worker_id"`
	}
	Tasks []struct {
		ID           int
		State, Trace string
		Worker       string `json:"worker_id"`
	}
}

func (n *node) status(name string) status {
	n.t.Helper()
	var s status
	code, body := n.rest(http.MethodGet, "/connectors/"+name+"/status", "")
	if code == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			n.t.Fatalf("status of %s: %v in %s", name, err, body)
		}
	}
	return s
}

// faults are all the reasons that a status tells.
func (s status) faults() string {
	text := s.Connector.Trace
	for _, task := range s.Tasks {
		text += "\n" + task.Trace
	}
	return text
}

// failed says whether the connector or one of its tasks has.
func (s status) failed() bool {
	failed := s.Connector.State == "FAILED"
	for _, task := range s.Tasks {
		failed = failed || task.State == "FAILED"
	}
	return failed
}

// running says whether the connector and count tasks run.
func (s status) running(count int) bool {
	for _, task := range s.Tasks {
		if task.State != "RUNNING" {
			return false
		}
	}
	return s.Connector.State == "RUNNING" && len(s.Tasks) == count
}

// put creates or changes a connector.
func (n *node) put(name string, config map[string]string) (int, string) {
	n.t.Helper()
	body, err := json.Marshal(config)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.rest(http.MethodPut, "/connectors/"+name+"/config", string(body))
}

// apply is put for a configuration that must be taken; it waits until one task runs.
func (n *node) apply(name string, config map[string]string) {
	n.t.Helper()
	if code, body := n.put(name, config); code != http.StatusOK && code != http.StatusCreated {
		n.t.Fatalf("connector %s: %d %s", name, code, body)
	}
	eventually(n.t, 30*time.Second, func() (bool, string) {
		s := n.status(name)
		return s.running(1), fmt.Sprintf("%s: %+v", name, s)
	})
}

// TestFileToFileSurvivesKills sends lines from a file through the log to a file, with
// kills meanwhile: none is lost, none is invented.
func TestFileToFileSurvivesKills(t *testing.T) {
	n := startNode(t, shared(t))
	in, out := filepath.Join(n.dir, "in.txt"), filepath.Join(n.dir, "out.txt")
	if err := os.WriteFile(in, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	text := "org.apache.kafka.connect.storage.StringConverter"
	n.apply("in", map[string]string{"connector.class": "file-source", "file": in, "topic": "lines", "value.converter": text})
	n.apply("out", map[string]string{"connector.class": "file-sink", "file": out, "topics": "lines", "value.converter": text})
	want := map[string]bool{}
	for round := range 4 {
		f, err := os.OpenFile(in, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			line := fmt.Sprintf("round %d line %d", round, i)
			want[line] = true
			if _, err := fmt.Fprintln(f, line); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		n.kill()
		n.start()
	}
	eventually(t, 60*time.Second, func() (bool, string) {
		got, err := os.ReadFile(out)
		if err != nil {
			return false, err.Error()
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(got)) {
			if !strings.HasSuffix(line, "\n") {
				continue // still being written
			}
			line = strings.TrimSuffix(line, "\n")
			if !want[line] {
				t.Fatalf("a line that nobody wrote: %q", line)
			}
			seen[line] = true
		}
		return len(seen) == len(want), fmt.Sprintf("%d of %d lines", len(seen), len(want))
	})
}

// postgresConfig is a source on a database of the shared server.
func postgresConfig(s services, database, tables string) map[string]string {
	host, port, _ := net.SplitHostPort(s.postgres)
	return map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": host, "database.port": port,
		"database.user": "postgres", "database.password": "weir", "database.dbname": database, "topic.prefix": database,
		"table.include.list": tables, "slot.name": database, "publication.name": database, "publication.autocreate.mode": "filtered",
	}
}

// newDatabase makes a database and, at the test's end, drops it with its slots.
func newDatabase(t *testing.T, s services, name string) {
	t.Helper()
	s.psql(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	s.psql(t, "postgres", "CREATE DATABASE "+name)
}

// dropSlots frees what a killed source has left on the server.
func dropSlots(t *testing.T, s services, database string) {
	t.Helper()
	s.psql(t, "postgres", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = '"+database+"'")
	eventually(t, 20*time.Second, func() (bool, string) {
		s.psql(t, "postgres", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = '"+database+"'")
		left := s.psql(t, "postgres", "SELECT count(*) FROM pg_replication_slots WHERE database = '"+database+"'")
		return left == "0", left + " slots of " + database
	})
}

// TestBadConfigurationsSayWhatToDo: each mistake is told in words that name it, at once
// or in the connector's status, and disturbs nothing else.
func TestBadConfigurationsSayWhatToDo(t *testing.T) {
	s := shared(t)
	newDatabase(t, s, "badconfig")
	s.psql(t, "badconfig", "CREATE TABLE things (id int PRIMARY KEY)")
	n := startNode(t, s)
	cases := []struct {
		name   string
		change map[string]string
		want   string // in the fault, lower case
	}{
		{"wrong-password", map[string]string{"database.password": "wrong"}, "password"},
		{"missing-table", map[string]string{"table.include.list": "public.nosuchtable"}, "nosuchtable"},
		{"missing-database", map[string]string{"database.dbname": "nosuchdatabase"}, "nosuchdatabase"},
		{"unknown-class", map[string]string{"connector.class": "io.debezium.connector.postgresql.PostgresConector"}, "postgresconector"},
		{"no-prefix", map[string]string{"topic.prefix": ""}, "topic.prefix"},
		{"bad-number", map[string]string{"database.port": "many"}, "database.port"},
		{"bad-slot", map[string]string{"slot.name": "Not-A-Slot"}, "slot"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config := postgresConfig(s, "badconfig", "public.things")
			for key, value := range c.change {
				config[key] = value
			}
			code, body := n.put(c.name, config)
			if code >= 400 {
				if !strings.Contains(strings.ToLower(body), c.want) {
					t.Errorf("refused without naming %q: %d %s", c.want, code, body)
				}
				return
			}
			eventually(t, 30*time.Second, func() (bool, string) {
				got := n.status(c.name)
				return got.failed() && strings.Contains(strings.ToLower(got.faults()), c.want), fmt.Sprintf("%+v", got)
			})
		})
	}
	config := postgresConfig(s, "badconfig", "public.things")
	n.apply("good", config)
	n.kill()
	dropSlots(t, s, "badconfig")
}

// TestDeadTargetIsWaitedFor: a sink whose target does not answer keeps its task and its
// records, says why, and delivers when the target is back.
func TestDeadTargetIsWaitedFor(t *testing.T) {
	s := shared(t)
	n := startNode(t, s)
	base := freePorts(t, 1)
	addr := fmt.Sprintf("127.0.0.1:%d", base)
	index := fmt.Sprintf("waited-%d", base)
	n.kcat("{\"id\":1}\t{\"text\":\"one\"}\n{\"id\":2}\t{\"text\":\"two\"}\n", "-P", "-t", index, "-K", "\t")
	code, body := n.put("waits", map[string]string{
		"connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector", "topics": index,
		"connection.url": "http://" + addr, "key.ignore": "true", "schema.ignore": "true",
	})
	if code >= 400 {
		t.Fatalf("refused while the target is down: %d %s", code, body)
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		got := n.status("waits")
		if got.failed() {
			t.Fatalf("failed instead of waiting: %+v", got)
		}
		return strings.Contains(got.faults(), "refused"), fmt.Sprintf("no reason yet: %+v", got)
	})
	serveProxy(t, addr, s.search)
	eventually(t, 60*time.Second, func() (bool, string) {
		_, _, _ = request(t.Context(), http.MethodPost, s.search+"/"+index+"/_refresh", "")
		_, answer, err := request(t.Context(), http.MethodGet, s.search+"/"+index+"/_count", "")
		return err == nil && strings.Contains(answer, `"count":2`), answer
	})
}

// serveProxy makes addr answer as target does, until the test ends.
func serveProxy(t *testing.T, addr, target string) {
	t.Helper()
	parsed, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(parsed), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
}

// TestFullDisk fills the data folder's file system: produce is refused with a clear
// error, what was acknowledged stays, and work goes on when there is room again.
func TestFullDisk(t *testing.T) {
	s := shared(t)
	dir := t.TempDir()
	if out, err := command(t, "", "mount", "-t", "tmpfs", "-o", "size=192m", "weir-full", dir); err != nil {
		t.Skipf("NOT RUN: a small file system can't be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		// Not by command: the test's context has ended by now.
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	n := startNode(t, s, "--data", dir)
	n.kcat("first\n", "-P", "-t", "small")
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	refused := false
	payload := strings.Repeat(strings.Repeat("x", 1000)+"\n", 4000)
	for range 40 {
		if _, err := command(t, payload, "kcat", "-b", n.kafka(), "-P", "-t", "large", "-X", "message.timeout.ms=5000"); err != nil {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("a full disk took 160 MB")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-n.done:
		n.done <- err
		t.Logf("weir ended on the full disk: %v; it must start again", err)
		n.kill()
		n.start()
	default:
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		out, err := command(t, "second\n", "kcat", "-b", n.kafka(), "-P", "-t", "small", "-X", "message.timeout.ms=5000")
		return err == nil, out
	})
	if got := n.kcat("", "-q", "-C", "-t", "small", "-o", "beginning", "-e"); !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "second\n") {
		t.Errorf("after the full disk: %q", got)
	}
	if log := n.log(); !strings.Contains(log, "no space left") {
		t.Error("the log does not say that the disk is full")
	}
}

// fill writes a file until its file system is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _ = io.Copy(f, zeros{})
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
