//go:build record

package worker

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRecordGroup writes testdata/group.json anew: what Java's workers send to their coordinator while one, two and three
// of them run, connectors are made and one of them leaves. RECORD_CONNECT is the script that starts and stops
// a Java worker, RECORD_DIR where they may write, RECORD_PORT the first of three ports.
func TestRecordGroup(t *testing.T) {
	script, dir := os.Getenv("RECORD_CONNECT"), os.Getenv("RECORD_DIR")
	var port int
	if _, err := fmt.Sscan(os.Getenv("RECORD_PORT"), &port); err != nil || script == "" {
		t.Skip("RECORD_CONNECT, RECORD_DIR and RECORD_PORT are not set")
	}
	c := newCluster(t)
	for topic, partitions := range map[string]int32{"cfg": 1, "off": 3, "sta": 2} { // Java's client can't read how this cluster tells that it has made one
		if _, err := admin(c.client()).CreateTopic(context.Background(), partitions, 1, map[string]*string{"cleanup.policy": ptr("compact")}, topic); err != nil {
			t.Fatal(err)
		}
	}
	r := &groupRecorder{t: t}
	c.fake.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) { c.fake.KeepControl(); return r.note(req) })
	c.fake.ControlKey(int16(kmsg.SyncGroup), func(req kmsg.Request) (kmsg.Response, error, bool) { c.fake.KeepControl(); return r.note(req) })
	worker := func(i int) string { return filepath.Join(dir, fmt.Sprintf("worker-%d", i)) }
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(script, args...)
		cmd.Env = append(os.Environ(), "HEAP=192")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	start := func(i int) {
		t.Helper()
		run("start", fmt.Sprint(port+i-1), worker(i), c.addrs, "group.id=g", "scheduled.rebalance.max.delay.ms=3000",
			"config.storage.topic=cfg", "offset.storage.topic=off", "status.storage.topic=sta", "offset.storage.partitions=3")
		t.Cleanup(func() { run("stop", worker(i)) })
	}
	put := func(name string, config map[string]string) {
		t.Helper()
		body, _ := json.Marshal(config)
		for limit := time.Now().Add(waitLimit); ; {
			req, _ := http.NewRequest(http.MethodPut, fmt.Sprintf("http://127.0.0.1:%d/connectors/%s/config", port, name), bytes.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				answer, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode < 300 {
					return
				}
				err = fmt.Errorf("%s: %s", resp.Status, answer)
			}
			if time.Now().After(limit) {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // a peer that is not ready yet is asked again
		}
	}
	settle := func() { // the peers tell of no end; a group that says nothing for a while has settled
		for last, since := -1, time.Now(); time.Since(since) < 6*time.Second; time.Sleep(100 * time.Millisecond) {
			if n := r.count(); n != last {
				last, since = n, time.Now()
			}
		}
	}
	sink := map[string]string{"connector.class": "FileStreamSink", "topics": "x", "tasks.max": "5", "file": filepath.Join(worker(1), "out")}
	r.begin("one worker")
	start(1)
	settle()
	r.begin("a connector with five tasks")
	put("sink", sink)
	settle()
	r.begin("a second worker")
	start(2)
	settle()
	r.begin("a second connector")
	put("more", sink)
	settle()
	r.begin("a third worker")
	start(3)
	settle()
	r.begin("the second one leaves")
	run("stop", worker(2))
	settle()
	out, err := json.MarshalIndent(r.frames, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/group.json", append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// groupRecorder keeps what members send.
type groupRecorder struct {
	t      *testing.T
	mu     sync.Mutex
	step   string
	frames []groupFrame
}

func (r *groupRecorder) begin(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = step
	r.t.Log(step)
}

func (r *groupRecorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames)
}

func (r *groupRecorder) note(req kmsg.Request) (kmsg.Response, error, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		if !strings.HasPrefix(req.ProtocolType, groupProtocolType) {
			break
		}
		for _, p := range req.Protocols {
			r.frames = append(r.frames, groupFrame{Step: r.step, Kind: "join", Member: req.MemberID, Protocol: p.Name, Bytes: hex.EncodeToString(p.Metadata)})
		}
	case *kmsg.SyncGroupRequest:
		if req.ProtocolType == nil || *req.ProtocolType != groupProtocolType {
			break
		}
		for _, a := range req.GroupAssignment {
			r.frames = append(r.frames, groupFrame{Step: r.step, Kind: "sync", Member: a.MemberID, Protocol: *req.Protocol, Bytes: hex.EncodeToString(a.MemberAssignment)})
		}
	}
	return nil, nil, false
}
