package worker

import (
	"context"
	"maps"
	"sort"
	"strings"
	"time"
	"unicode"
)

// Every method that names a connector answers an [*Error] of status 404 when there is none. Methods that change something
// answer an [*Elsewhere] where another worker does it.

// writeLimit bounds one change through the API.
const writeLimit = 60 * time.Second

func (w *Worker) started() error {
	if !w.ready.Load() {
		return &Error{503, "The worker is starting or shutting down, please try again later." + w.waitsFor()}
	}
	return nil
}

// Server tells what this worker is.
func (w *Worker) Server() ServerInfo {
	s := ServerInfo{Version: w.deps.Version, Commit: w.deps.Commit}
	if id := w.cluster.Load(); id != nil {
		s.ClusterID = *id
	}
	return s
}

// Health tells whether the worker has started and its loops live.
func (w *Worker) Health() Health {
	if w.ready.Load() {
		return Health{"healthy", "Worker has completed startup and is ready to handle requests."}
	}
	return Health{"starting", "Worker is still starting up." + w.waitsFor()}
}

// waitsFor tells why the group of workers is not held yet.
func (w *Worker) waitsFor() string {
	if why := w.group.why(); why != "" {
		return " It waits for its group: " + why
	}
	return ""
}

// Connectors lists the connectors' names, sorted.
func (w *Worker) Connectors() []string {
	out := []string{}
	for name := range *w.snap.Load() {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// existing finds a connector or says that there is none.
func (w *Worker) existing(name string) (configEntry, error) {
	e, ok := w.lookup(name)
	if !ok {
		return e, notFound("Connector %s not found", name)
	}
	return e, nil
}

// Info describes a connector.
func (w *Worker) Info(name string) (Info, error) {
	e, err := w.existing(name)
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: name, Config: w.masked(e.config, e.config), Tasks: []TaskID{},
		Type: connectorType(w.connector(e.config["connector.class"]))}
	for i := range e.tasks {
		info.Tasks = append(info.Tasks, TaskID{name, i})
	}
	return info, nil
}

// Status tells the state of a connector and its tasks.
func (w *Worker) Status(name string) (Status, error) {
	s, ok := w.statuses.of(name)
	e, exists := w.lookup(name)
	if !ok || !exists {
		return Status{}, notFound("No status found for connector %s", name)
	}
	s.Type = connectorType(w.connector(e.config["connector.class"]))
	return s, nil
}

// TaskStatus tells the state of one task.
func (w *Worker) TaskStatus(name string, task int) (TaskState, error) {
	if s, ok := w.statuses.of(name); ok {
		for _, t := range s.Tasks {
			if t.ID == task {
				return t, nil
			}
		}
	}
	return TaskState{}, notFound("No status found for task %s", TaskID{name, task})
}

// Tasks lists a connector's tasks with their configurations.
func (w *Worker) Tasks(name string) ([]TaskInfo, error) {
	e, err := w.existing(name)
	if err != nil {
		return nil, err
	}
	out := []TaskInfo{}
	for i, t := range e.tasks {
		out = append(out, TaskInfo{TaskID{name, i}, w.masked(e.config, t)})
	}
	return out, nil
}

// Topics lists the topics that a connector has used since it was made or reset, sorted.
func (w *Worker) Topics(name string) ([]string, error) {
	if !w.cfg.TopicTracking {
		return nil, &Error{403, "Topic tracking is disabled."}
	}
	return w.statuses.topicsOf(name), nil // of one that does not exist, Java answers an empty list too
}

// ResetTopics empties that list.
func (w *Worker) ResetTopics(_ context.Context, name string) error {
	if !w.cfg.TopicTracking {
		return &Error{403, "Topic tracking is disabled."}
	}
	if !w.cfg.TopicReset {
		return &Error{403, "Topic tracking reset is disabled."}
	}
	if _, err := w.existing(name); err != nil {
		return err
	}
	if err := w.started(); err != nil {
		return err
	}
	w.statuses.resetTopics(w.bound, name)
	return nil
}

// change runs a change of the config topic alone, and waits until the worker has read it back.
func (w *Worker) change(ctx context.Context, f func(ctx context.Context) ([]entry, error)) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	unlock, err := w.lockWrites(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := f(ctx)
	if err != nil || len(entries) == 0 {
		return err
	}
	return w.configs.putRead(ctx, entries...)
}

// Create makes a connector; target is its first target state, "" for STARTED. Conflict (409) when it exists, 400 for an
// invalid configuration.
func (w *Worker) Create(ctx context.Context, name string, config map[string]string, target Target) (Info, error) {
	if err := w.leading(); err != nil {
		return Info{}, err
	}
	name, config, err := w.incoming(name, config, nil)
	if err != nil {
		return Info{}, err
	}
	if _, ok := w.lookup(name); ok {
		return Info{}, conflict("Connector %s already exists", name)
	}
	if err := w.checkNew(ctx, config); err != nil {
		return Info{}, err
	}
	err = w.change(ctx, func(context.Context) ([]entry, error) {
		if _, ok := w.lookup(name); ok {
			return nil, conflict("Connector %s already exists", name)
		}
		if target == "" {
			target = TargetStarted // a target state may be left of an older connector of this name
		}
		return []entry{targetRecord(name, target), connectorRecord(name, config)}, nil
	})
	if err != nil {
		return Info{}, err
	}
	return w.Info(name)
}

func (w *Worker) checkNew(ctx context.Context, config map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	return w.checkConfig(ctx, config)
}

// incoming checks a name and makes the configuration to be stored: named, inline texts resolved.
func (w *Worker) incoming(name string, config, stored map[string]string) (string, map[string]string, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return "", nil, badRequest("Invalid connector name: must not be empty")
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "", nil, badRequest("Invalid connector name %q: must not contain control characters", name)
	}
	config, err := unmasked(config, stored)
	if err != nil {
		return "", nil, err
	}
	if given, ok := config["name"]; ok && given != name {
		return "", nil, badRequest("Connector name configuration (%s) doesn't match connector name in the URL (%s)", given, name)
	}
	config["name"] = name
	return name, config, nil
}

// PutConfig makes or changes a connector.
func (w *Worker) PutConfig(ctx context.Context, name string, config map[string]string) (info Info, created bool, err error) {
	if err := w.leading(); err != nil {
		return Info{}, false, err
	}
	old, _ := w.lookup(strings.TrimSpace(name))
	name, config, err = w.incoming(name, config, old.config)
	if err != nil {
		return Info{}, false, err
	}
	if err := w.checkNew(ctx, config); err != nil {
		return Info{}, false, err
	}
	err = w.change(ctx, func(context.Context) ([]entry, error) {
		_, exists := w.lookup(name)
		created = !exists
		if created {
			return []entry{targetRecord(name, TargetStarted), connectorRecord(name, config)}, nil
		}
		return []entry{connectorRecord(name, config)}, nil
	})
	if err != nil {
		return Info{}, false, err
	}
	info, err = w.Info(name)
	return info, created, err
}

// PatchConfig changes some keys of a connector's configuration; nil removes a key.
func (w *Worker) PatchConfig(ctx context.Context, name string, patch map[string]*string) (Info, error) {
	if err := w.leading(); err != nil {
		return Info{}, err
	}
	e, err := w.existing(name)
	if err != nil {
		return Info{}, err
	}
	config := maps.Clone(e.config)
	for k, v := range patch {
		switch {
		case v == nil:
			delete(config, k)
		case *v == inlineText(k):
			if _, ok := config[k]; !ok {
				return Info{}, badRequest("%s is %s, which stands for a stored value, but none is stored", k, *v)
			}
		default:
			config[k] = *v
		}
	}
	name, config, err = w.incoming(name, config, e.config)
	if err != nil {
		return Info{}, err
	}
	if err := w.checkNew(ctx, config); err != nil {
		return Info{}, err
	}
	err = w.change(ctx, func(context.Context) ([]entry, error) {
		now, err := w.existing(name)
		if err == nil && now.revision != e.revision {
			err = conflict("Connector %s was changed meanwhile, please try again", name)
		}
		if err != nil {
			return nil, err
		}
		return []entry{connectorRecord(name, config)}, nil
	})
	if err != nil {
		return Info{}, err
	}
	return w.Info(name)
}

// Delete removes a connector. Its offsets stay.
func (w *Worker) Delete(ctx context.Context, name string) error {
	if err := w.leading(); err != nil {
		return err
	}
	if _, err := w.existing(name); err != nil {
		return err
	}
	return w.change(ctx, func(context.Context) ([]entry, error) {
		if _, err := w.existing(name); err != nil {
			return nil, err
		}
		return []entry{{key: []byte(targetPrefix + name)}, {key: []byte(connectorPrefix + name)}}, nil
	})
}

// SetTarget pauses, resumes or stops a connector.
func (w *Worker) SetTarget(ctx context.Context, name string, target Target) error {
	if err := w.leading(); err != nil {
		return err
	}
	if _, ok := w.lookup(name); !ok {
		return notFound("Unknown connector %s", name)
	}
	return w.change(ctx, func(ctx context.Context) ([]entry, error) {
		if _, err := w.existing(name); err != nil {
			return nil, err
		}
		if target != TargetStopped {
			return []entry{targetRecord(name, target)}, nil
		}
		round := w.configs.positions()[0]
		return []entry{commitRecord(name, 0, round), targetRecord(name, target)}, nil
	})
}

// Restart restarts a connector's own life and, with includeTasks, its tasks; with onlyFailed only what is FAILED. When
// either is set the status is returned in which what is restarted reads RESTARTING; otherwise it is nil.
func (w *Worker) Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) (*Status, error) {
	if err := w.leading(); err != nil {
		return nil, err
	}
	if _, ok := w.lookup(name); !ok {
		return nil, notFound("Unknown connector: %s", name)
	}
	before, err := w.Status(name)
	if err != nil && (includeTasks || onlyFailed) {
		return nil, notFound("Status for connector %s not found", name)
	}
	err = w.change(ctx, func(context.Context) ([]entry, error) {
		return []entry{restartRecord(name, includeTasks, onlyFailed)}, nil
	})
	if err != nil || !includeTasks && !onlyFailed {
		return nil, err
	}
	if !onlyFailed || before.Connector.State == Failed {
		before.Connector.State, before.Connector.Trace = Restarting, ""
	}
	for i := range before.Tasks {
		if includeTasks && (!onlyFailed || before.Tasks[i].State == Failed) {
			before.Tasks[i].State, before.Tasks[i].Trace = Restarting, ""
		}
	}
	return &before, nil
}

// RestartTask restarts one task.
func (w *Worker) RestartTask(_ context.Context, name string, task int) error {
	e, ok := w.lookup(name)
	if !ok {
		return notFound("Unknown connector: %s", name)
	}
	if task < 0 || task >= len(e.tasks) {
		return notFound("Unknown task: %s", TaskID{name, task})
	}
	if s := w.slot(TaskID{name, task}); s != nil {
		s.restart()
		return nil
	}
	return w.elsewhere(TaskID{name, task})
}
