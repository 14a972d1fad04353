package worker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestStatusThatMayNotBeTold: a worker that is no member any more changes nothing of what it shows: others tell it.
func TestStatusThatMayNotBeTold(t *testing.T) {
	s := newStatuses("w", time.Now, quiet(), func(TaskID) bool { return false }, func() {})
	s.table = &localStore{now: time.Now}
	s.replayed()
	s.may = func() error { return errNotOwner }
	s.apply(&kgo.Record{Key: []byte("status-connector-c"), Value: []byte(`{"state":"RUNNING","worker_id":"other","generation":7}`)})
	s.write(t.Context(), "status-connector-c", Unassigned, "", "")
	if got, _ := s.of("c"); got.Connector.State != Running || got.Connector.WorkerID != "other" {
		t.Errorf("it shows %+v", got.Connector)
	}
}

// TestStatusesOfOthers: records of other workers are believed, but not what is older than what is known: by the group's
// generation, as far as that still counts.
func TestStatusesOfOthers(t *testing.T) {
	const key = "status-task-c-0"
	rec := func(value string) *kgo.Record {
		r := &kgo.Record{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	const ours, running, unassigned = "w", `{"state":"RUNNING","trace":null,"worker_id":"other","generation":%}`, `{"state":"UNASSIGNED","trace":null,"worker_id":"other","generation":%}`
	at := func(value string, generation byte) string {
		for i := range value {
			if value[i] == '%' {
				return value[:i] + string('0'+generation) + value[i+1:]
			}
		}
		return value
	}
	type step struct {
		write  State // here, or
		record string
		want   State
		by     string
	}
	for name, steps := range map[string][]step{
		"another's record is believed":                   {{"", at(running, 5), Running, "other"}, {"", at(unassigned, 6), Unassigned, "other"}},
		"what was written here is newer than an old one": {{Running, "", Running, ours}, {"", at(unassigned, 4), Running, ours}, {"", at(running, 4), Running, ours}},
		"what comes later replaces what was here":        {{Running, "", Running, ours}, {"", at(running, 6), Running, "other"}},
		"a late end of another's":                        {{"", at(running, 5), Running, "other"}, {"", `{"state":"UNASSIGNED","worker_id":"third","generation":5}`, Running, "other"}},
		"its own record comes back":                      {{Running, "", Running, ours}, {Failed, "", Failed, ours}, {"", `{"state":"RUNNING","worker_id":"w","generation":5}`, Failed, ours}},
		"its own record, after a tombstone took it":      {{Running, "", Running, ours}, {"", "", "", ""}, {"", `{"state":"RUNNING","worker_id":"w","generation":5}`, Running, ours}},
		"a group that was made anew":                     {{"", at(running, 9), Running, "other"}, {"", `{"state":"UNASSIGNED","worker_id":"third","generation":1}`, Unassigned, "third"}},
	} {
		t.Run(name, func(t *testing.T) {
			runs, left := false, 0
			s := newStatuses(ours, time.Now, quiet(), func(TaskID) bool { return runs }, func() { left++ })
			s.table = &localStore{now: time.Now}
			s.apply(&kgo.Record{Key: []byte("status-connector-c"), Value: []byte(`{"state":"RUNNING","worker_id":"x"}`)})
			s.replayed()
			s.during(5)
			for i, st := range steps {
				if st.write != "" {
					s.write(t.Context(), key, st.write, "", "")
				} else {
					s.apply(rec(st.record))
				}
				got, _ := s.of("c")
				if st.want == "" && len(got.Tasks) == 0 {
					continue
				}
				if len(got.Tasks) != 1 || got.Tasks[0].State != st.want || got.Tasks[0].WorkerID != st.by {
					t.Errorf("step %d: %+v, want %s by %q", i, got.Tasks, st.want, st.by)
				}
			}
			runs = true
			s.write(t.Context(), key, Running, "", "")
			s.apply(rec("")) // of before it began to run here
			if got, _ := s.of("c"); len(got.Tasks) != 1 {
				t.Error("a tombstone has removed what runs here")
			}
			if name == "another's record is believed" && left != 1 {
				t.Errorf("another's end was told %d times", left)
			}
		})
	}
}
