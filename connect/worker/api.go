package worker

import (
	"context"
)

// Every method that names a connector answers an [*Error] of status 404 when there is none.

// Server tells what this worker is.
func (w *Worker) Server() ServerInfo { return ServerInfo{} }

// Health tells whether the worker has started and its loops live.
func (w *Worker) Health() Health { return Health{} }

// Connectors lists the connectors' names, sorted.
func (w *Worker) Connectors() []string { return nil }

// Info describes a connector.
func (w *Worker) Info(name string) (Info, error) { return Info{}, nil }

// Status tells the state of a connector and its tasks.
func (w *Worker) Status(name string) (Status, error) { return Status{}, nil }

// TaskStatus tells the state of one task.
func (w *Worker) TaskStatus(name string, task int) (TaskState, error) { return TaskState{}, nil }

// Tasks lists a connector's tasks with their configurations.
func (w *Worker) Tasks(name string) ([]TaskInfo, error) { return nil, nil }

// Topics lists the topics that a connector has used since it was made or reset, sorted.
func (w *Worker) Topics(name string) ([]string, error) { return nil, nil }

// ResetTopics empties that list.
func (w *Worker) ResetTopics(ctx context.Context, name string) error { return nil }

// Create makes a connector; target is its first target state, "" for STARTED. Conflict (409) when it exists, 400 for an
// invalid configuration.
func (w *Worker) Create(ctx context.Context, name string, config map[string]string, target Target) (Info, error) {
	return Info{}, nil
}

// PutConfig makes or changes a connector.
func (w *Worker) PutConfig(ctx context.Context, name string, config map[string]string) (info Info, created bool, err error) {
	return Info{}, false, nil
}

// PatchConfig changes some keys of a connector's configuration; nil removes a key.
func (w *Worker) PatchConfig(ctx context.Context, name string, patch map[string]*string) (Info, error) {
	return Info{}, nil
}

// Delete removes a connector. Its offsets stay.
func (w *Worker) Delete(ctx context.Context, name string) error { return nil }

// SetTarget pauses, resumes or stops a connector.
func (w *Worker) SetTarget(ctx context.Context, name string, target Target) error { return nil }

// Restart restarts a connector's own life and, with includeTasks, its tasks; with onlyFailed only what is FAILED. When
// either is set the status is returned in which what is restarted reads RESTARTING; otherwise it is nil.
func (w *Worker) Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) (*Status, error) {
	return nil, nil
}

// RestartTask restarts one task.
func (w *Worker) RestartTask(ctx context.Context, name string, task int) error { return nil }

// Offsets reads a connector's offsets: of a source from the offsets topic, of a sink from its consumer group.
func (w *Worker) Offsets(ctx context.Context, name string) (Offsets, error) { return Offsets{}, nil }

// AlterOffsets changes offsets of a stopped connector and returns Kafka Connect's message. No entries at all
// (nil) reset them all.
func (w *Worker) AlterOffsets(ctx context.Context, name string, entries []OffsetEntry) (string, error) {
	return "", nil
}

// Plugins lists the classes that the worker knows, connectors only or all.
func (w *Worker) Plugins(connectorsOnly bool) []Plugin { return nil }

// PluginConfig lists a class's configuration keys.
func (w *Worker) PluginConfig(class string) ([]Definition, error) { return nil, nil }

// Validate checks a connector configuration; faults are in the answer, the error is for a request that can't be
// answered.
func (w *Worker) Validate(ctx context.Context, class string, config map[string]string) (Validation, error) {
	return Validation{}, nil
}

// Logger is a logger's level: "level" in Log4j's words, and when it was last changed in milliseconds, nil for never.
type Logger struct {
	Level        *string `json:"level"`
	LastModified *int64  `json:"last_modified"`
}

// Loggers lists the loggers: weir has one, named root.
func (w *Worker) Loggers() map[string]Logger { return nil }

// SetLogLevel changes a logger's level and lists the loggers that changed.
func (w *Worker) SetLogLevel(logger, level string) ([]string, error) { return nil, nil }

// Stats gives the worker's figures.
func (w *Worker) Stats() Stats { return Stats{} }
