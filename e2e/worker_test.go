package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newWorker makes a `weir connect` on the log of another node, with a Java worker's file; it is not started yet.
func newWorker(t *testing.T, kafka *node, group string, args ...string) *node {
	t.Helper()
	n := &node{t: t, bin: kafka.bin, dir: t.TempDir(), base: freePorts(t, 4), verb: "connect", args: args}
	n.file = filepath.Join(n.dir, "connect-distributed.properties")
	const converter = "org.apache.kafka.connect.storage.StringConverter"
	text := fmt.Sprintf("bootstrap.servers=%s\ngroup.id=%s\nkey.converter=%s\nvalue.converter=%s\n"+
		"config.storage.topic=%[2]s-configs\noffset.storage.topic=%[2]s-offsets\nstatus.storage.topic=%[2]s-status\n"+
		"config.storage.replication.factor=3\noffset.storage.replication.factor=3\nstatus.storage.replication.factor=3\n"+
		"offset.flush.interval.ms=200\nplugin.path=/usr/share/java\noffset.storage.file.filename=%[5]s\n",
		kafka.kafka(), group, converter, converter, filepath.Join(n.dir, "offsets"))
	if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("the worker's log:\n%s", n.log())
		}
	})
	return n
}

// appendLines writes lines FROM to TO, the last excluded, to the end of a file.
func appendLines(t *testing.T, path string, from, to int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := from; i < to; i++ {
		if _, err := fmt.Fprintf(f, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
}

// distinctLines waits until a file holds lines 0 to count, each at least once and no other.
func distinctLines(t *testing.T, path string, count int) {
	t.Helper()
	eventually(t, 60*time.Second, func() (bool, string) {
		seen := map[string]bool{}
		for _, line := range linesOf(path) {
			seen[line] = true
		}
		for i := range count {
			if !seen[fmt.Sprintf("line %d", i)] {
				return false, fmt.Sprintf("%d of %d lines, line %d is missing", len(seen), count, i)
			}
		}
		if len(seen) != count {
			t.Fatalf("%d distinct lines of %d: some that nobody wrote", len(seen), count)
		}
		return true, ""
	})
}

// TestWorkerOnAnotherKafka runs weir's worker on a log elsewhere, with kills of both: no line is lost, and a worker that
// was killed is back at once, without waiting for the session of its earlier life.
func TestWorkerOnAnotherKafka(t *testing.T) {
	kafka := startNode(t, shared(t))
	w := newWorker(t, kafka, "workers")
	w.start()
	in, out := filepath.Join(w.dir, "in.txt"), filepath.Join(w.dir, "out.txt")
	appendLines(t, in, 0, 1000)
	w.apply("in", map[string]string{"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": in, "topic": "lines"})
	w.apply("out", map[string]string{"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "file": out, "topics": "lines"})
	distinctLines(t, out, 1000)
	if code, body := kafka.get(kafka.connect() + "/connectors"); code != http.StatusOK || strings.TrimSpace(body) != "[]" {
		t.Errorf("the node's own worker tells of %d %s", code, body)
	}
	for round := 1; round < 4; round++ {
		appendLines(t, in, round*1000, (round+1)*1000)
		w.kill()
		began := time.Now()
		w.start()
		if took := time.Since(began); took > 5*time.Second { // a session lasts six
			t.Errorf("ready %v after a kill", took)
		}
	}
	kafka.kill()
	appendLines(t, in, 4000, 5000)
	kafka.start()
	distinctLines(t, out, 5000)
	w.stop(15 * time.Second)
	said, err := kafka.weir("group", "describe", "workers", "-o", "json")
	if err != nil || !strings.Contains(said, "Empty") && !strings.Contains(said, `"members": []`) {
		t.Errorf("the group after the worker's end: %v %s", err, said)
	}
}

// TestWorkersOfOneGroup: two workers share a connector and its task, and each serves requests. What one has that is frozen for
// longer than its session, or killed, the other has within 15 seconds; the frozen one writes nothing when it wakes up, but
// comes in again. No line is lost or comes twice.
func TestWorkersOfOneGroup(t *testing.T) {
	kafka := startNode(t, shared(t))
	workers := []*node{newWorker(t, kafka, "workers"), newWorker(t, kafka, "workers")}
	for _, w := range workers {
		w.start()
	}
	in := filepath.Join(t.TempDir(), "in.txt")
	lines := 0
	feed := func() { // what is not stored is read again by who takes over
		appendLines(t, in, lines, lines+100)
		lines += 100
		info, err := os.Stat(in)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, func() (bool, string) {
			said := ""
			for _, w := range workers {
				if w.cmd != nil {
					_, said = w.rest(http.MethodGet, "/connectors/in/offsets", "")
				}
			}
			return strings.Contains(said, fmt.Sprintf(`"position":%d}`, info.Size())), said
		})
	}
	config := map[string]string{"connector.class": "file-source", "file": in, "topic": "lines"}
	workers[1].apply("in", config)
	feed()
	if code, body := workers[0].put("in", config); code != http.StatusOK {
		t.Errorf("one of the two workers refuses a configuration: %d %s", code, body)
	}
	// owner is the number of the worker that has the task.
	owner := func(asked *node) int {
		at := -1
		eventually(t, 20*time.Second, func() (bool, string) {
			got := asked.status("in")
			for i, w := range workers {
				if got.running(1) && "http://"+got.Tasks[0].Worker == w.connect() {
					at = i
				}
			}
			return at >= 0, fmt.Sprintf("%+v", got)
		})
		return at
	}
	taken := func(from int, other *node, began time.Time) {
		eventually(t, 30*time.Second, func() (bool, string) {
			got := other.status("in")
			ok := got.running(1) && "http://"+got.Tasks[0].Worker == other.connect() && "http://"+got.Connector.Worker == other.connect()
			return ok, fmt.Sprintf("%+v", got)
		})
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("what worker %d had ran at the other after %v", from, took)
		}
	}
	has := owner(workers[0])
	frozen, other := workers[has], workers[1-has]
	began := time.Now()
	if err := frozen.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	taken(has, other, began)
	if err := frozen.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		said, err := kafka.weir("group", "describe", "workers", "-o", "json")
		return err == nil && strings.Count(said, `"client_id"`) == 2, said
	})
	feed()
	has = owner(other)
	began = time.Now()
	workers[has].kill()
	taken(has, workers[1-has], began)
	feed()
	workers[has].start()
	feed()
	if n := strings.Count(kafka.kcat("", "-q", "-C", "-t", "lines", "-o", "beginning", "-e"), "\n"); n != lines {
		t.Errorf("%d lines came, want %d: each once", n, lines)
	}
	for _, w := range workers {
		w.stop(15 * time.Second)
	}
}

// TestInternalTopicsAreChecked: a config topic of two partitions, or one that is not compacted, is refused as Java does.
func TestInternalTopicsAreChecked(t *testing.T) {
	kafka := startNode(t, shared(t))
	for group, create := range map[string][]string{
		"wide":  {"--partitions", "2", "--config", "cleanup.policy=compact"},
		"short": {"--partitions", "1", "--config", "cleanup.policy=delete"},
	} {
		if said, err := kafka.weir(append([]string{"topic", "create", group + "-configs"}, create...)...); err != nil {
			t.Fatal(said)
		}
		w := newWorker(t, kafka, group)
		w.launch()
		select {
		case err := <-w.done:
			w.cmd = nil
			if log := w.log(); err == nil || !strings.Contains(log, group+"-configs") || !strings.Contains(log, "1 partition") && !strings.Contains(log, "set it to compact") {
				t.Errorf("%s: ended with %v\n%s", group, err, log)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the worker runs", group)
			w.kill()
		}
	}
}

// TestStandaloneWorkerSurvivesKills runs `weir run`: connectors from a file in Java's form, offsets in a file. Killed and
// started again it goes on; a second one on the same offsets, and a connector that is refused, end it with the reason.
func TestStandaloneWorkerSurvivesKills(t *testing.T) {
	kafka := startNode(t, shared(t))
	w := newWorker(t, kafka, "unused")
	w.verb = "run"
	in, out := filepath.Join(w.dir, "in.txt"), filepath.Join(w.dir, "out.txt")
	for name, text := range map[string]string{
		"source.properties": "name=in\nconnector.class=FileStreamSource\nfile=" + in + "\ntopic=lines\n",
		"sink.json":         `{"name": "out", "config": {"connector.class": "FileStreamSink", "file": "` + out + `", "topics": "lines"}}`,
		"bad.json":          `{"name": "bad", "connector.class": "NoSuchClass"}`,
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.args = []string{filepath.Join(w.dir, "source.properties"), filepath.Join(w.dir, "sink.json")}
	appendLines(t, in, 0, 1000)
	w.start()
	distinctLines(t, out, 1000)

	second := newWorker(t, kafka, "unused", w.args...)
	second.verb, second.file = "run", w.file
	second.launch()
	if err := <-second.done; err == nil || !strings.Contains(second.log(), "offset.storage.file.filename") {
		t.Errorf("a second worker on the same offsets ended with %v\n%s", err, second.log())
	}
	second.cmd = nil

	for round := 1; round < 4; round++ {
		appendLines(t, in, round*1000, (round+1)*1000)
		w.kill()
		w.start()
	}
	distinctLines(t, out, 4000)
	w.stop(15 * time.Second)
	before := strings.Count(kafka.kcat("", "-q", "-C", "-t", "lines", "-o", "beginning", "-e"), "\n")
	appendLines(t, in, 4000, 4100)
	w.start()
	distinctLines(t, out, 4100)
	if after := strings.Count(kafka.kcat("", "-q", "-C", "-t", "lines", "-o", "beginning", "-e"), "\n"); after != before+100 {
		t.Errorf("%d records after an end in order, want %d: it did not go on where it was", after, before+100)
	}
	w.stop(15 * time.Second)

	w.args = []string{filepath.Join(w.dir, "bad.json")}
	w.launch()
	if err := <-w.done; err == nil || !strings.Contains(w.log(), "NoSuchClass") {
		t.Errorf("a connector of an unknown class: %v\n%s", err, w.log())
	}
	w.cmd = nil
}
