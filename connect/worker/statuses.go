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
// are old news, and so are those of others that are of an earlier generation of the group than what this worker has written.
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
	before     map[TaskID]string          // what is away from a worker: see awayFrom
	generation int                        // of the group
	here       func(TaskID) bool          // whether something runs at this worker
	leaves     func()                     // told when another worker has stopped something
	may        func() error               // if not nil, says whether this worker may write: another may run it by now
}

func newStatuses(workerID string, now func() time.Time, log *slog.Logger, here func(TaskID) bool, leaves func()) *statuses {
	return &statuses{workerID: workerID, now: now, log: log, here: here, leaves: leaves, connectors: map[string]statusValue{},
		tasks: map[string]map[int]statusValue{}, topics: map[string]map[string]bool{}, before: map[TaskID]string{}}
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
	id, ok := statusID(key)
	if !ok {
		return
	}
	runsHere := r.Value == nil && s.here(id) // not under the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live && (runsHere || r.Value != nil && s.oldNews(id, &v)) {
		return // it was removed before it began to run here
	}
	s.set(key, v, r.Value == nil)
	if s.live && v.State == Unassigned {
		s.leaves()
	}
}

// oldNews says that a record is older than what is known here.
func (s *statuses) oldNews(id TaskID, v *statusValue) bool {
	now, known := s.get(id)
	if !known || v.WorkerID == s.workerID {
		return known
	}
	if now.Generation > s.generation || v.Generation > now.Generation { // a group that is made anew counts anew
		return false
	}
	return now.WorkerID == s.workerID && v.Generation < now.Generation ||
		v.State == Unassigned && now.State == Running && v.WorkerID != now.WorkerID
}

func (s *statuses) get(id TaskID) (v statusValue, known bool) {
	if id.Task == connectorTask {
		v, known = s.connectors[id.Connector]
	} else {
		v, known = s.tasks[id.Connector][id.Task]
	}
	return v, known
}

// awayFrom tells from which worker something is away that goes from one to another: from where it was, or from none if it has
// come back.
func awayFrom(before, from, to string) string {
	if before == to {
		return ""
	}
	return from
}

// places tells where everything was last.
func (s *statuses) places() map[TaskID]place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[TaskID]place{}
	add := func(id TaskID, v statusValue) {
		out[id] = place{last: v.WorkerID, before: s.before[id], since: v.Generation}
	}
	for name, v := range s.connectors {
		add(TaskID{name, connectorTask}, v)
	}
	for name, tasks := range s.tasks {
		for task, v := range tasks {
			add(TaskID{name, task}, v)
		}
	}
	return out
}

// statusID reads the key of a connector's or a task's status.
func statusID(key string) (TaskID, bool) {
	if name, ok := strings.CutPrefix(key, statusConnectorPrefix); ok {
		return TaskID{name, connectorTask}, true
	}
	rest, ok := strings.CutPrefix(key, statusTaskPrefix)
	dash := strings.LastIndexByte(rest, '-')
	if !ok || dash < 0 {
		return TaskID{}, false
	}
	task, err := strconv.Atoi(rest[dash+1:])
	return TaskID{rest[:dash], task}, err == nil && task >= 0
}

// during tells the group's generation: statuses are written with it.
func (s *statuses) during(generation int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = int(generation)
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
	id, ok := statusID(key)
	if old, known := s.get(id); gone {
		delete(s.before, id)
	} else if known && old.WorkerID != v.WorkerID {
		s.before[id] = awayFrom(s.before[id], old.WorkerID, v.WorkerID)
	}
	switch {
	case !ok:
	case id.Task == connectorTask && gone:
		delete(s.connectors, id.Connector)
	case id.Task == connectorTask:
		s.connectors[id.Connector] = v
	case gone:
		delete(s.tasks[id.Connector], id.Task)
	default:
		if s.tasks[id.Connector] == nil {
			s.tasks[id.Connector] = map[int]statusValue{}
		}
		s.tasks[id.Connector][id.Task] = v
	}
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
	if s.may != nil {
		if err := s.may(); err != nil { // what the topic says of it stands
			s.log.Debug("status is not told", "key", key, "state", state, "why", err)
			return
		}
	}
	s.mu.Lock()
	v.Generation = s.generation
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

// remove forgets the status of what is gone: a task, or a connector with the topics it used.
func (s *statuses) remove(ctx context.Context, id TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := taskStatusKey(id)
	if id.Task == connectorTask {
		key = connectorStatusKey(id.Connector)
		for topic := range s.topics[id.Connector] {
			topicKey := statusTopicPrefix + topic + statusTopicOf + id.Connector
			s.table.putAsync(ctx, entry{key: []byte(topicKey)}, s.lost(topicKey))
		}
		delete(s.topics, id.Connector)
	}
	s.set(key, statusValue{}, true)
	s.table.putAsync(ctx, entry{key: []byte(key)}, s.lost(key))
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

// ids lists what has a status; a connector of which only topics are known is among it too.
func (s *statuses) ids() []TaskID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set := workSet{}
	for name := range s.connectors {
		set[TaskID{name, connectorTask}] = true
	}
	for name, tasks := range s.tasks {
		for task := range tasks {
			set[TaskID{name, task}] = true
		}
	}
	for name, topics := range s.topics {
		if len(topics) > 0 {
			set[TaskID{name, connectorTask}] = true
		}
	}
	return set.sorted()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// traceOf prints an error as a status shows it.
func traceOf(err error) string { return fmt.Sprint(err) }
