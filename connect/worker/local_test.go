package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// TestJavaMap reads what a JDK has written, and writes what reads the same.
// testdata/offsets.java is ObjectOutputStream.writeObject of a HashMap of 24 entries: 20 offsets, two keys with one
// array as their value, a null value and a null key.
func TestJavaMap(t *testing.T) {
	b, err := os.ReadFile("testdata/offsets.java")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseJavaMap(b)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{`["d",{"p":1}]`: `{"same":1}`, `["d",{"p":2}]`: `{"same":1}`}
	for i := range 20 {
		want[fmt.Sprintf(`["c",{"filename":"/f%d"}]`, i)] = fmt.Sprintf(`{"position":%d}`, i)
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	for k, v := range want {
		if string(got[k]) != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
	again, err := parseJavaMap(appendJavaMap(nil, got))
	if err != nil || len(again) != len(got) {
		t.Errorf("what was written reads as %d entries: %v", len(again), err)
	}
	for n := range b[:len(b)-1] {
		if _, err := parseJavaMap(b[:n]); !errors.Is(err, errJavaMap) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// FuzzJavaMap: whatever lies in the file, reading ends with a map or a fault, and the map survives writing.
func FuzzJavaMap(f *testing.F) {
	b, err := os.ReadFile("testdata/offsets.java")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(appendJavaMap(nil, map[string][]byte{"k": []byte("v"), "": {}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseJavaMap(b)
		if err != nil {
			return
		}
		again, err := parseJavaMap(appendJavaMap(nil, m))
		if err != nil || len(again) != len(m) {
			t.Fatalf("%d entries become %d: %v", len(m), len(again), err)
		}
		for k, v := range m {
			if !bytes.Equal(again[k], v) {
				t.Errorf("%q: %q becomes %q", k, v, again[k])
			}
		}
	})
}

func openFile(t *testing.T, path string) (*localStore, map[string]string, error) {
	t.Helper()
	seen := map[string]string{}
	s := &localStore{path: path, now: time.Now, apply: func(r *kgo.Record) { seen[string(r.Key)] = string(r.Value) }}
	t.Cleanup(s.close)
	return s, seen, s.start(context.Background())
}

// TestOffsetsFile: what was put is there after a restart, a tombstone is not, and a second worker is kept out.
func TestOffsetsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	s, _, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := s.put(ctx, entry{[]byte("a"), []byte("1")}, entry{[]byte("b"), []byte("2")}); err != nil {
		t.Fatal(err)
	}
	if err := s.put(ctx, entry{[]byte("a"), []byte("3")}, entry{[]byte("b"), nil}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openFile(t, path); !errors.Is(err, ErrFileTaken) {
		t.Errorf("a second worker: %v", err)
	}
	s.close()
	// A crash while the file is replaced leaves the new one half written beside it.
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, seen, err := openFile(t, path)
	if err != nil || len(seen) != 1 || seen["a"] != "3" {
		t.Errorf("after a restart %v, %v", seen, err)
	}
	again.close()
	if err := os.WriteFile(path, []byte("not Java's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openFile(t, path); !errors.Is(err, errJavaMap) || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "not Java's" {
		t.Error("the broken file was written over")
	}
}

// TestStandaloneWorker runs a source without group and internal topics: a second start goes on at the file's offset.
func TestStandaloneWorker(t *testing.T) {
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "offsets")
	m := &memorySource{total: 5, batch: 1}
	run := func() *running {
		props := c.props()
		for _, k := range []string{"group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"} {
			delete(props, k)
		}
		props["offset.storage.file.filename"] = file
		cfg, warnings, err := ParseStandaloneConfig(props)
		if err != nil || len(warnings) > 0 || len(cfg.Notes) > 0 {
			t.Fatal(err, warnings, cfg.Notes)
		}
		return c.run(cfg, []connect.Connector{m.connector()})
	}
	w := run()
	w.create("src", map[string]string{"connector.class": "memory-source"})
	w.eventually("all to be committed", func() bool { return m.lastCommit() == 5 })
	w.eventually("the task to run", func() bool { return w.taskState("src", 0) == Running })
	w.stop()
	m.set(func() { m.total = 8 })
	w = run()
	if got := w.Connectors(); len(got) != 0 {
		t.Errorf("connectors %v are there after a restart", got)
	}
	w.create("src", map[string]string{"connector.class": "memory-source"})
	w.eventually("the rest to be committed", func() bool { return m.lastCommit() == 8 })
	values := map[string]bool{}
	for _, r := range c.read("out", 8) { // a record written twice would leave another out
		values[string(r.Value)] = true
	}
	if len(values) != 8 {
		t.Errorf("the first eight records are %v", values)
	}
	w.stop()
	if ids, _ := c.groupMembers("g"); len(ids) != 0 {
		t.Errorf("a standalone worker is a member: %v", ids)
	}
}
