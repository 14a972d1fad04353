package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Keys of the status topic.
const (
	statusConnectorPrefix = "status-connector-"
	statusTaskPrefix      = "status-task-"
	statusTopicPrefix     = "status-topic-"
	statusTopicOf         = ":connector-"
)

// statusValue is the value of a connector's or task's status record.
type statusValue struct {
	State      State   `json:"state"`
	Trace      *string `json:"trace"`
	WorkerID   string  `json:"worker_id"`
	Generation int     `json:"generation"`
	Version    string  `json:"version,omitempty"`
}

// topicValue is the value of a record that says which connector used which topic.
type topicValue struct {
	Topic struct {
		Name      string `json:"name"`
		Connector string `json:"connector"`
		Task      int    `json:"task"`
		At        int64  `json:"discoverTimestamp"`
	} `json:"topic"`
}

// statuses is the status topic as a map. What this worker writes it believes at once; records of its own that come back
// are old news.
type statuses struct {
	table    store
	workerID string
	now      func() time.Time
	log      *slog.Logger

	mu         sync.RWMutex
	connectors map[string]statusValue
	tasks      map[string]map[int]statusValue
	topics     map[string]map[string]bool // connector -> topics
	live       bool                       // the replay at the start is over
}

func newStatuses(workerID string, now func() time.Time, log *slog.Logger) *statuses {
	return &statuses{workerID: workerID, now: now, log: log, connectors: map[string]statusValue{},
		tasks: map[string]map[int]statusValue{}, topics: map[string]map[string]bool{}}
}

// apply takes a record of the topic.
func (s *statuses) apply(r *kgo.Record) {
	key := string(r.Key)
	if topic, name, ok := topicKey(key); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.setTopic(name, topic, r.Value != nil)
		return
	}
	var v statusValue
	if r.Value != nil {
		if err := json.Unmarshal(r.Value, &v); err != nil {
			s.log.Warn("status record is not understood", "key", key, "error", err)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live && (r.Value == nil || v.WorkerID == s.workerID) {
		return
	}
	s.set(key, v, r.Value == nil)
}

func topicKey(key string) (topic, connector string, ok bool) {
	rest, ok := strings.CutPrefix(key, statusTopicPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, statusTopicOf)
}

func (s *statuses) setTopic(name, topic string, used bool) {
	if !used {
		delete(s.topics[name], topic)
		return
	}
	if s.topics[name] == nil {
		s.topics[name] = map[string]bool{}
	}
	s.topics[name][topic] = true
}

func (s *statuses) set(key string, v statusValue, gone bool) {
	if name, ok := strings.CutPrefix(key, statusConnectorPrefix); ok {
		if gone {
			delete(s.connectors, name)
		} else {
			s.connectors[name] = v
		}
		return
	}
	rest, ok := strings.CutPrefix(key, statusTaskPrefix)
	dash := strings.LastIndexByte(rest, '-')
	if !ok || dash < 0 {
		return
	}
	task, err := strconv.Atoi(rest[dash+1:])
	if err != nil {
		return
	}
	name := rest[:dash]
	if gone {
		delete(s.tasks[name], task)
		return
	}
	if s.tasks[name] == nil {
		s.tasks[name] = map[int]statusValue{}
	}
	s.tasks[name][task] = v
}

// replayed ends the replay.
func (s *statuses) replayed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = true
}

// maxTraceBytes bounds what a status says of a fault.
const maxTraceBytes = 16 << 10

// write sets a status here and in the topic. It doesn't wait for the topic: a status that is lost is written again by the
// next change.
func (s *statuses) write(ctx context.Context, key string, state State, trace, version string) {
	v := statusValue{State: state, WorkerID: s.workerID, Version: version}
	if len(trace) > maxTraceBytes {
		trace = strings.ToValidUTF8(trace[:maxTraceBytes], "") + "…"
	}
	if trace != "" {
		v.Trace = &trace
	}
	s.mu.Lock()
	s.set(key, v, false)
	// Under the lock, so that the topic sees the writes of a key in the order in which they took effect here.
	s.table.putAsync(ctx, entry{[]byte(key), mustJSON(v)}, s.lost(key))
	s.mu.Unlock()
}

func (s *statuses) lost(key string) func(error) {
	return func(err error) { s.log.Warn("status was not written", "key", key, "error", err) }
}

func connectorStatusKey(name string) string { return statusConnectorPrefix + name }
func taskStatusKey(id TaskID) string        { return statusTaskPrefix + id.String() }

// remove forgets the statuses of a connector that is gone and of its tasks from the given number on; all of them with
// the connector's own and its topics if from is -1.
func (s *statuses) remove(ctx context.Context, name string, from int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for task := range s.tasks[name] {
		if task >= from {
			keys = append(keys, taskStatusKey(TaskID{name, task}))
		}
	}
	if from < 0 {
		if _, ok := s.connectors[name]; ok {
			keys = append(keys, connectorStatusKey(name))
		}
		for topic := range s.topics[name] {
			keys = append(keys, statusTopicPrefix+topic+statusTopicOf+name)
		}
		delete(s.topics, name)
	}
	for _, key := range keys {
		s.set(key, statusValue{}, true)
		s.table.putAsync(ctx, entry{key: []byte(key)}, s.lost(key))
	}
}

// used notes that a connector's task uses a topic.
func (s *statuses) used(ctx context.Context, id TaskID, topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[id.Connector][topic] {
		return
	}
	s.setTopic(id.Connector, topic, true)
	var v topicValue
	v.Topic.Name, v.Topic.Connector, v.Topic.Task, v.Topic.At = topic, id.Connector, id.Task, s.now().UnixMilli()
	key := statusTopicPrefix + topic + statusTopicOf + id.Connector
	s.table.putAsync(ctx, entry{[]byte(key), mustJSON(v)}, s.lost(key))
}

// resetTopics forgets the topics of a connector.
func (s *statuses) resetTopics(ctx context.Context, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic := range s.topics[name] {
		key := statusTopicPrefix + topic + statusTopicOf + name
		s.table.putAsync(ctx, entry{key: []byte(key)}, s.lost(key))
	}
	delete(s.topics, name)
}

// of gives a connector's status; false when none is known.
func (s *statuses) of(name string) (Status, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.connectors[name]
	if !ok {
		return Status{}, false
	}
	st := Status{Name: name, Tasks: []TaskState{},
		Connector: ConnectorState{State: c.State, WorkerID: c.WorkerID, Trace: deref(c.Trace), Version: c.Version}}
	for id, t := range s.tasks[name] {
		st.Tasks = append(st.Tasks, TaskState{ID: id, State: t.State, WorkerID: t.WorkerID, Trace: deref(t.Trace), Version: t.Version})
	}
	slices.SortFunc(st.Tasks, func(a, b TaskState) int { return a.ID - b.ID })
	return st, true
}

func (s *statuses) topicsOf(name string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []string{}
	for topic := range s.topics[name] {
		out = append(out, topic)
	}
	sort.Strings(out)
	return out
}

// names lists every connector that has a status or topics.
func (s *statuses) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set := map[string]bool{}
	for n := range s.connectors {
		set[n] = true
	}
	for n, t := range s.tasks {
		if len(t) > 0 {
			set[n] = true
		}
	}
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// traceOf prints an error as a status shows it.
func traceOf(err error) string { return fmt.Sprint(err) }
