package worker

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// logRecord is one record of a config topic under test.
type logRecord struct {
	key    string
	value  []byte
	offset int64
}

func replay(t *testing.T, log []logRecord) map[string]configEntry {
	t.Helper()
	l := newConfigLog(func(key string, err error) { t.Errorf("%s: %v", key, err) })
	for _, r := range log {
		l.apply(r.key, r.value, r.offset, false)
	}
	return l.snapshot()
}

// history makes a random life of a cluster's config topic: connectors made, changed, planned, stopped and deleted, some
// plans cut short by a crash.
func history(r *rand.Rand) []logRecord {
	var log []logRecord
	put := func(e entry) {
		log = append(log, logRecord{string(e.key), e.value, int64(len(log))})
	}
	version := 0
	for range 5 + r.IntN(30) {
		version++
		name := fmt.Sprintf("c%d", r.IntN(2))
		plan := func() {
			n, round := r.IntN(4), int64(len(log))
			for i := range n {
				put(taskConfigRecord(name, i, map[string]string{"v": fmt.Sprint(version)}, round))
				if r.IntN(8) == 0 {
					return // the planner dies
				}
			}
			if r.IntN(8) != 0 {
				put(commitRecord(name, n, round))
			}
		}
		switch r.IntN(6) {
		case 0, 1:
			put(connectorRecord(name, map[string]string{"v": fmt.Sprint(version)}))
			plan()
		case 2:
			plan()
		case 3:
			put(targetRecord(name, []Target{TargetStarted, TargetPaused, TargetStopped}[r.IntN(3)]))
		case 4:
			put(commitRecord(name, 0, int64(len(log))))
			put(targetRecord(name, TargetStopped))
		case 5:
			put(entry{key: []byte(targetPrefix + name)})
			put(entry{key: []byte(connectorPrefix + name)})
		}
	}
	return log
}

// compact removes some records that a later one of the same key supersedes, and some tombstones that are the last of
// their key and whose older records are all removed: everything that a cleaner may ever do.
func compact(r *rand.Rand, log []logRecord) []logRecord {
	last := map[string]int{}
	for i, rec := range log {
		last[rec.key] = i
	}
	var out []logRecord
	kept := map[string]bool{}
	for i, rec := range log {
		switch {
		case i < last[rec.key] && r.IntN(2) == 0:
			continue
		case i == last[rec.key] && rec.value == nil && !kept[rec.key] && r.IntN(2) == 0:
			continue
		}
		kept[rec.key] = true
		out = append(out, rec)
	}
	return out
}

// TestConfigLogUnderCompaction: whatever compaction removed, a replay gives the same connectors and target states, and of
// each connector either the same tasks or none until it is planned anew: never a mixture, never older ones.
func TestConfigLogUnderCompaction(t *testing.T) {
	inconsistent := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		log := history(r)
		want, got := replay(t, log), replay(t, compact(r, log))
		if len(want) != len(got) {
			t.Fatalf("seed %d: connectors %v, uncompacted %v", seed, got, want)
		}
		for name, w := range want {
			g, ok := got[name]
			if !ok || !reflect.DeepEqual(g.config, w.config) || g.wanted() != w.wanted() {
				t.Fatalf("seed %d: connector %s is %+v, uncompacted %+v", seed, name, g, w)
			}
			safe := g.inconsistent && len(g.tasks) == 0 || !g.planned()
			if !sameConfigs(g.tasks, w.tasks) && !safe {
				t.Fatalf("seed %d: connector %s has tasks %v, uncompacted %v", seed, name, g.tasks, w.tasks)
			}
			if g.inconsistent {
				inconsistent++
			}
		}
	}
	if inconsistent == 0 {
		t.Error("no history made a connector inconsistent: the test is not looking where it should")
	}
}

func TestConfigLogReadsWhatJavaWrites(t *testing.T) {
	var skipped []string
	l := newConfigLog(func(key string, _ error) { skipped = append(skipped, key) })
	records := []struct{ key, value string }{
		{"session-key", `{"key":"eA==","algorithm":"HmacSHA256","creation-timestamp":1}`},
		{"target-state-a-b", `{"state":"PAUSED","state.v2":"STOPPED"}`},
		{"connector-a-b", `{"properties":{"name":"a-b","tasks.max":"2","n":3,"nothing":null},"future":true}`},
		{"task-a-b-0", `{"properties":{"task.class":"x.Task"}}`},
		{"task-a-b-1", `{"properties":{"task.class":"x.Task"}}`},
		{"commit-a-b", `{"tasks":2}`},
		{"tasks-fencing-a-b", `{"task-count":2}`},
		{"logger-cluster-org.x", `{"level":"DEBUG"}`},
		{"restart-connector-a-b", `{"include-tasks":true,"only-failed":false}`},
		{"something-else", `{}`},
		{"task-a-b-x", `{"properties":{}}`},
		{"connector-broken", `{"properties":`},
		{"commit-a-b", `nonsense`},
		{"task-huge-999999999999999999999", `{"properties":{}}`},
	}
	for i, r := range records {
		l.apply(r.key, []byte(r.value), int64(i), false)
	}
	e := l.snapshot()["a-b"]
	if e.wanted() != TargetStopped || len(e.tasks) != 2 || e.config["n"] != "3" || e.generation != 6 || e.restart.offset != 0 {
		t.Errorf("got %+v", e)
	}
	if fmt.Sprint(skipped) != "[something-else task-a-b-x connector-broken commit-a-b task-huge-999999999999999999999]" {
		t.Errorf("skipped %v", skipped)
	}
	l.apply("restart-connector-a-b", []byte(`{"include-tasks":true,"only-failed":false}`), 20, true)
	if e := l.snapshot()["a-b"]; e.restart != (restartRequest{21, true, false}) {
		t.Errorf("restart %+v", e.restart)
	}
	l.apply("connector-a-b", nil, 30, true)
	if len(l.snapshot()) != 0 || len(l.entries["a-b"].deferredOrNil()) != 0 {
		t.Error("a deleted connector is still there")
	}
}

func (e *configEntry) deferredOrNil() map[int]taskRecord {
	if e == nil {
		return nil
	}
	return e.deferred
}
