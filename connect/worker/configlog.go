package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Keys of the config topic, in the order in which Kafka Connect tests their prefixes.
const (
	targetPrefix    = "target-state-"
	connectorPrefix = "connector-"
	taskPrefix      = "task-"
	commitPrefix    = "commit-"
	restartPrefix   = "restart-connector-"
	fencingPrefix   = "tasks-fencing-"
	sessionKey      = "session-key"
	loggerPrefix    = "logger-cluster-"
)

// configLog is the meaning of the config topic: a pure fold over its records. It is not for concurrent use; snapshot
// copies what others may read.
type configLog struct {
	entries map[string]*configEntry
	skipped func(key string, reason error) // told of records that mean nothing
	next    int64                          // after the last record, nothingRead for none
	changed int64                          // after the last record that changed which connectors and tasks there are
	session *session                       // the newest; nil: none
}

// configEntry is what the topic says of one connector name. It outlives its connector: a target state may come first.
type configEntry struct {
	config       map[string]string // nil: no such connector; never changed in place
	revision     int64             // offset of the config record
	target       Target            // "" for none written
	targetOffset int64

	tasks        []map[string]string // committed task configs, never changed in place
	generation   int64               // offset of the commit that made tasks live, 0 for none
	inconsistent bool                // a commit whose task configs are not all there: nothing runs until they are planned anew

	deferred map[int]taskRecord // task configs not committed yet
	restart  restartRequest     // the newest live restart request
}

// taskRecord is a task config as read. round ties the task configs of one planning to their commit: our own extra field,
// which Java ignores; -1 for a record without it.
type taskRecord struct {
	config map[string]string
	round  int64
}

// restartRequest is a restart-connector- record.
type restartRequest struct {
	offset                   int64
	includeTasks, onlyFailed bool
}

func newConfigLog(skipped func(string, error)) *configLog {
	return &configLog{entries: map[string]*configEntry{}, skipped: skipped, next: nothingRead, changed: nothingRead}
}

func (l *configLog) entry(name string) *configEntry {
	e := l.entries[name]
	if e == nil {
		e = &configEntry{deferred: map[int]taskRecord{}}
		l.entries[name] = e
	}
	return e
}

// apply takes the next record. live is false while the topic is replayed at the start: requests to restart are then old
// news. It names the connector that the record was about, "" for none.
func (l *configLog) apply(key string, value []byte, offset int64, live bool) (name string) {
	l.next = offset + 1
	var err error
	switch {
	case strings.HasPrefix(key, targetPrefix):
		name = key[len(targetPrefix):]
		err = l.applyTarget(name, value, offset)
	case strings.HasPrefix(key, connectorPrefix):
		name = key[len(connectorPrefix):]
		before := l.size(name)
		err = l.applyConnector(name, value, offset)
		l.resized(name, before)
	case strings.HasPrefix(key, taskPrefix):
		err = l.applyTask(key[len(taskPrefix):], value)
	case strings.HasPrefix(key, commitPrefix):
		name = key[len(commitPrefix):]
		before := l.size(name)
		err = l.applyCommit(name, value, offset)
		l.resized(name, before)
	case strings.HasPrefix(key, restartPrefix):
		if !live {
			return ""
		}
		name = key[len(restartPrefix):]
		err = l.applyRestart(name, value, offset)
	case key == sessionKey:
		err = l.applySession(value)
	case strings.HasPrefix(key, fencingPrefix), strings.HasPrefix(key, loggerPrefix):
		return "" // of exactly-once sources, and not supported yet
	default:
		err = fmt.Errorf("unknown kind of record")
	}
	if err != nil {
		l.skipped(key, err)
		return ""
	}
	if e := l.entries[name]; e != nil && e.config == nil && e.target == "" && len(e.deferred) == 0 {
		delete(l.entries, name)
	}
	return name
}

// size is how much of a connector there is to run: nothing, or itself and its tasks.
func (l *configLog) size(name string) int {
	if e := l.entries[name]; e != nil && e.config != nil {
		return 1 + len(e.tasks)
	}
	return 0
}

func (l *configLog) resized(name string, before int) {
	if l.size(name) != before {
		l.changed = l.next
	}
}

// work is all there is to run.
func (l *configLog) work() workSet {
	s := workSet{}
	for name := range l.entries {
		for task := range l.size(name) {
			s[TaskID{name, task + connectorTask}] = true
		}
	}
	return s
}

func (l *configLog) applySession(value []byte) error {
	if value == nil {
		return nil
	}
	s, err := parseSession(value)
	if err == nil {
		l.session = s
	}
	return err
}

func (l *configLog) applyTarget(name string, value []byte, offset int64) error {
	e := l.entry(name)
	if value == nil {
		e.target = ""
		return nil
	}
	var v struct {
		State Target `json:"state"`
		V2    Target `json:"state.v2"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	if v.V2 != "" {
		v.State = v.V2
	}
	switch v.State {
	case TargetStarted, TargetPaused, TargetStopped:
		e.target, e.targetOffset = v.State, offset
		return nil
	}
	return fmt.Errorf("unknown target state %q", v.State)
}

func (l *configLog) applyConnector(name string, value []byte, offset int64) error {
	e := l.entry(name)
	if value == nil {
		delete(l.entries, name)
		return nil
	}
	config, _, err := properties(value)
	if err != nil {
		return err
	}
	e.config, e.revision = config, offset
	return nil
}

func (l *configLog) applyTask(id string, value []byte) error {
	dash := strings.LastIndexByte(id, '-')
	if dash < 0 {
		return fmt.Errorf("no task number")
	}
	n, err := strconv.Atoi(id[dash+1:])
	if err != nil || n < 0 {
		return fmt.Errorf("bad task number %q", id[dash+1:])
	}
	e := l.entry(id[:dash])
	if value == nil {
		delete(e.deferred, n)
		return nil
	}
	config, round, err := properties(value)
	if err != nil {
		return err
	}
	e.deferred[n] = taskRecord{config, round}
	return nil
}

// applyCommit makes deferred task configs live if all that the commit speaks of are there and from its own round.
// Compaction may have kept a commit and removed a task config before it (a newer one follows): then what is there is not
// what was committed, and the connector is inconsistent until it is planned anew.
func (l *configLog) applyCommit(name string, value []byte, offset int64) error {
	e := l.entry(name)
	if value == nil {
		return nil
	}
	v := struct {
		Tasks int   `json:"tasks"`
		Round int64 `json:"weir.round"`
	}{Round: -1}
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	if e.config == nil { // a leftover of a connector that is gone, or its config was compacted to a later place
		clear(e.deferred)
		return nil
	}
	if v.Tasks < 0 || v.Tasks > maxTasks {
		return fmt.Errorf("bad number of tasks %d", v.Tasks)
	}
	tasks := make([]map[string]string, v.Tasks)
	e.inconsistent = false
	for i := range tasks {
		t, ok := e.deferred[i]
		if !ok || v.Round >= 0 && t.round != v.Round {
			e.inconsistent = true
			break
		}
		tasks[i] = t.config
	}
	if e.inconsistent {
		tasks = nil
	}
	clear(e.deferred)
	e.tasks, e.generation = tasks, offset+1
	return nil
}

func (l *configLog) applyRestart(name string, value []byte, offset int64) error {
	e := l.entries[name]
	if e == nil || e.config == nil || value == nil {
		return nil
	}
	v := struct {
		IncludeTasks bool `json:"include-tasks"`
		OnlyFailed   bool `json:"only-failed"`
	}{}
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	e.restart = restartRequest{offset: offset + 1, includeTasks: v.IncludeTasks, onlyFailed: v.OnlyFailed}
	return nil
}

// maxTasks bounds the tasks of one connector.
const maxTasks = 10000

// properties reads {"properties": {k: v}}; Java may have written numbers and booleans, and nulls, which are left out.
func properties(value []byte) (map[string]string, int64, error) {
	v := struct {
		Properties map[string]any `json:"properties"`
		Round      int64          `json:"weir.round"`
	}{Round: -1}
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, 0, err
	}
	if v.Properties == nil {
		return nil, 0, fmt.Errorf("no properties")
	}
	out := make(map[string]string, len(v.Properties))
	for k, p := range v.Properties {
		switch p := p.(type) {
		case string:
			out[k] = p
		case nil:
		default:
			out[k] = string(mustJSON(p))
		}
	}
	return out, v.Round, nil
}

// wanted gives the target state, STARTED where none was written.
func (e *configEntry) wanted() Target {
	if e.target == "" {
		return TargetStarted
	}
	return e.target
}

// planned reports whether the live tasks were planned from the connector's present configuration. Where they were not,
// compaction may have removed the deletion that lies between the two: such tasks are never begun, only those that run
// already go on until the new plan.
func (e *configEntry) planned() bool { return !e.inconsistent && e.generation > e.revision }

// snapshot copies the connectors that exist.
func (l *configLog) snapshot() map[string]configEntry {
	out := make(map[string]configEntry, len(l.entries))
	for name, e := range l.entries {
		if e.config != nil {
			c := *e
			c.deferred = nil
			out[name] = c
		}
	}
	return out
}

// Records that the worker writes.

func connectorRecord(name string, config map[string]string) entry {
	return entry{[]byte(connectorPrefix + name), mustJSON(map[string]any{"properties": config})}
}

func taskConfigRecord(name string, task int, config map[string]string, round int64) entry {
	return entry{[]byte(fmt.Sprintf("%s%s-%d", taskPrefix, name, task)),
		mustJSON(map[string]any{"properties": config, "weir.round": round})}
}

func commitRecord(name string, tasks int, round int64) entry {
	return entry{[]byte(commitPrefix + name), mustJSON(map[string]any{"tasks": tasks, "weir.round": round})}
}

// targetRecord writes both forms: an old Java worker reads a stopped connector as paused.
func targetRecord(name string, target Target) entry {
	old := target
	if old == TargetStopped {
		old = TargetPaused
	}
	return entry{[]byte(targetPrefix + name), mustJSON(map[string]any{"state": old, "state.v2": target})}
}

func restartRecord(name string, includeTasks, onlyFailed bool) entry {
	return entry{[]byte(restartPrefix + name), mustJSON(map[string]any{"include-tasks": includeTasks, "only-failed": onlyFailed})}
}

func sameConfigs(a, b []map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !maps.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
