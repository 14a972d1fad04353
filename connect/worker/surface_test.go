package worker

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// TestKeysAreAppendOnly: a configuration key that was once offered stays, with its default. New ones are added to the
// golden file by hand, which is the moment to think about their names.
func TestKeysAreAppendOnly(t *testing.T) {
	var have []string
	add := func(kind string, fields []connect.Field) {
		for _, f := range fields {
			line := kind + " " + f.Name
			switch {
			case f.Prefix:
				line += " prefix"
			case f.Required:
				line += " required"
			case f.NoDefault:
				line += " null"
			default:
				line += " =" + f.Default
			}
			have = append(have, line)
		}
	}
	add("worker", workerFields())
	add("source", connectorFields(false))
	add("sink", connectorFields(true))
	golden, err := os.ReadFile("testdata/keys.golden")
	if err != nil {
		t.Fatalf("%v\nit should hold:\n%s", err, strings.Join(have, "\n"))
	}
	want := strings.Split(strings.TrimRight(string(golden), "\n"), "\n")
	for _, line := range want {
		if !slices.Contains(have, line) {
			t.Errorf("gone or changed: %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			t.Errorf("new, to be added to testdata/keys.golden: %s", line)
		}
	}
}

func TestToleranceRepeatsForItsTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		retryFor time.Duration
		fails    int
		kind     error
		want     bool
	}{
		{"no time", 0, 1, connect.Retry(0, errors.New("x")), false},
		{"for ever", -1, 4, connect.Retry(0, errors.New("x")), true},
		{"another kind", -1, 1, errors.New("x"), false},
		{"time runs out", 20 * time.Millisecond, 1 << 30, connect.Retry(0, errors.New("x")), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tol := &tolerance{retryFor: c.retryFor, delayMax: time.Millisecond, count: &counters{}}
			calls := 0
			err := tol.attempt(context.Background(), func() error {
				if calls++; calls <= c.fails {
					return c.kind
				}
				return nil
			})
			if (err == nil) != c.want {
				t.Errorf("after %d calls: %v", calls, err)
			}
		})
	}
}

// FuzzInternalTopics: whatever lies in the internal topics, reading it never ends the worker.
func FuzzInternalTopics(f *testing.F) {
	for _, s := range [][2]string{{"connector-a", `{"properties":{"a":"b"}}`}, {"task-a-0", `{"properties":{}}`}, {"commit-a", `{"tasks":1}`},
		{"target-state-a", `{"state":"PAUSED"}`}, {"restart-connector-a", `{"include-tasks":true}`}, {"status-task-a-0", `{"state":"RUNNING"}`},
		{"status-topic-t:connector-a", `{"topic":{}}`}, {"status-connector-a", `{"state":"FAILED","trace":null}`}, {`["a",{"p":1}]`, `{"o":2}`}, {`["a",null]`, ``}} {
		f.Add(s[0], []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		log := newConfigLog(func(string, error) {})
		log.apply("connector-a", []byte(`{"properties":{"a":"b"}}`), 0, true)
		log.apply(key, value, 1, true)
		log.apply("commit-a", []byte(`{"tasks":1}`), 2, true)
		log.snapshot()
		st := newStatuses("w", time.Now, quiet(), func(TaskID) bool { return false }, func() {})
		r := &kgo.Record{Key: []byte(key), Value: value}
		st.apply(r)
		st.of("a")
		st.ids()
		offsets := newSourceOffsets(quiet())
		offsets.apply(r)
		for _, so := range offsets.of("a") {
			again := offsetKey("a", so.Partition)
			name, partition, err := parseOffsetKey(again)
			if err != nil || name != "a" || !partition.Equal(so.Partition) {
				t.Errorf("key %s read again gives %s %v, %v", again, name, partition, err)
			}
		}
	})
}
