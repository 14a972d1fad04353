package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// linesOf are a file's complete lines; none when there is no file.
func linesOf(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

// TestTopicMadeAgainUnderASink: a sink whose topic is deleted says so without flooding the log, and reads the topic that
// gets its name.
func TestTopicMadeAgainUnderASink(t *testing.T) {
	n := startNode(t, shared(t))
	out := filepath.Join(n.dir, "out.txt")
	text := "org.apache.kafka.connect.storage.StringConverter"
	n.kcat("a\nb\n", "-P", "-t", "again")
	n.apply("again", map[string]string{"connector.class": "file-sink", "file": out, "topics": "again", "value.converter": text})
	eventually(t, 20*time.Second, func() (bool, string) {
		described, _ := n.weir("group", "describe", "connect-again", "-o", "json")
		return len(linesOf(out)) == 2 && strings.Contains(strings.ReplaceAll(described, " ", ""), `"committed_offset":2`), fmt.Sprint(linesOf(out), described)
	})
	if said, err := n.weir("topic", "delete", "again"); err != nil {
		t.Fatal(said)
	}
	n.kcat("c\n", "-P", "-t", "again")
	eventually(t, 25*time.Second, func() (bool, string) {
		lines := linesOf(out)
		return len(lines) == 3 && lines[2] == "c", fmt.Sprint(lines, n.status("again"))
	})
	if lines := strings.Count(n.log(), "\n"); lines > 200 {
		t.Errorf("%d lines in the log", lines)
	}
}

// TestDeadLettersSurviveKills: of good and broken records, each good one reaches the sink and each broken one the
// dead-letter topic, with kills meanwhile.
func TestDeadLettersSurviveKills(t *testing.T) {
	n := startNode(t, shared(t))
	rng := chaosSeed(t)
	out := filepath.Join(n.dir, "out.txt")
	var sent strings.Builder
	for i := range 6000 {
		if i%3 == 0 {
			fmt.Fprintf(&sent, "broken %d{\n", i)
		} else {
			fmt.Fprintf(&sent, "{\"n\":%d}\n", i)
		}
	}
	n.kcat("", "-P", "-t", "mixed")
	n.apply("dead", map[string]string{"connector.class": "file-sink", "file": out, "topics": "mixed", "errors.tolerance": "all",
		"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.topic.replication.factor": "1"})
	n.kcat(sent.String(), "-P", "-t", "mixed")
	for range 3 {
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond) // the moment of the kill
		n.kill()
		n.start()
	}
	distinct := func(lines []string) int {
		seen := map[string]bool{}
		for _, line := range lines {
			seen[line] = true
		}
		return len(seen)
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		letters := strings.Split(n.kcat("", "-q", "-C", "-t", "dead", "-o", "beginning", "-e"), "\n")
		good, bad := distinct(linesOf(out)), distinct(letters[:len(letters)-1])
		return good == 4000 && bad == 2000, fmt.Sprintf("%d of 4000 and %d of 2000; %+v", good, bad, n.status("dead"))
	})
}

// TestRequestStorm: many clients at once that create, change, pause, restart and delete one connector get answers that
// fit, never a 500, and the connector runs afterwards.
func TestRequestStorm(t *testing.T) {
	n := startNode(t, shared(t))
	in := filepath.Join(n.dir, "in.txt")
	if err := os.WriteFile(in, []byte("line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := map[string]string{"connector.class": "file-source", "file": in, "topic": "storm"}
	calls := [][2]string{{"PUT", "/pause"}, {"PUT", "/resume"}, {"PUT", "/stop"}, {"POST", "/restart?includeTasks=true"},
		{"POST", "/tasks/0/restart"}, {"DELETE", ""}, {"GET", "/status"}, {"PUT", "/config"}, {"PUT", "/config"}}
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for c := range uint64(6) {
		clients.Add(1)
		go func() {
			defer clients.Done()
			rng := rand.New(rand.NewPCG(c, 2))
			for range 40 {
				call, with := calls[rng.IntN(len(calls))], ""
				if call[1] == "/config" {
					with = string(body)
				}
				code, answer, err := request(t.Context(), call[0], n.connect()+"/connectors/storm"+call[1], with)
				if err != nil || code >= http.StatusInternalServerError {
					t.Errorf("%s %s: %d %s %v", call[0], call[1], code, answer, err)
				}
			}
		}()
	}
	clients.Wait()
	n.put("storm", config)
	n.rest(http.MethodPut, "/connectors/storm/resume", "")
	n.apply("storm", config)
	n.kill()
	n.start()
	eventually(t, 20*time.Second, func() (bool, string) {
		s := n.status("storm")
		return s.running(1), fmt.Sprintf("%+v", s)
	})
}
