package connect

import (
	"context"
	"log/slog"
)

// Connector is one kind of source or sink. It is a value: making one touches nothing. A nil function means that the
// connector does not have it; exactly one of Source and Sink is set.
//
// Functions may be called from many goroutines at a time, for many instances.
type Connector struct {
	Name    string   // the short class: "postgres"
	Aliases []string // Java classes it answers to, as people have them in their JSON
	Version string
	Doc     string // one line
	Fields  []Field

	// Acks: Commit wants an [Ack] per record.
	Acks bool
	// Lazy: the sink decodes records itself (see [Data.Decode]) and answers a failure with [BadRecord]. Other sinks are
	// given decoded records.
	Lazy bool

	// Validate checks what fields alone can't say. The worker has checked Fields already and merges the results by name.
	Validate func(context.Context, Config) []FieldResult
	// Check looks at the live system with the instance's rights: each fault with the statement that mends it.
	// The error is for a system that can't be reached or asked.
	Check func(context.Context, Instance) ([]Finding, error)
	// Plan gives the configurations of at most maxTasks tasks. Nil: one task with the connector's own configuration for
	// a source, maxTasks equal ones for a sink.
	Plan func(ctx context.Context, in Instance, maxTasks int) ([]Config, error)
	// Watch is the connector's own life beside its tasks; it returns when ctx ends.
	Watch func(context.Context, Instance, Host) error
	// AlterOffsets is asked before offsets are changed by hand; an error refuses the change.
	AlterOffsets func(context.Context, Instance, []SourceOffset) error
	// ExactlyOnce tells whether this configuration supports exactly-once delivery and sets its own transaction bounds.
	ExactlyOnce func(Config) (supported, ownBoundaries bool)

	// Source and Sink open a task: what they return is configured and connected.
	Source func(context.Context, Task) (SourceTask, error)
	Sink   func(context.Context, Task) (SinkTask, error)
}

// Finding is one fault of a foreign system that keeps, or will keep, the connector from working.
type Finding struct {
	Field string // the configuration key that it is about, "" for none
	Fault string // what is wrong
	Mend  string // the statement or setting that mends it, "" if there is none
	Fatal bool   // the connector can't start with it
}

// Host is what a connector may ask of the worker that watches it.
type Host struct {
	Replan func()      // call Plan again: tables or topics have appeared or gone
	Fail   func(error) // the connector is FAILED
}

// Instance is one configured connector.
type Instance struct {
	Name    string
	Config  Config            // secrets resolved: never logged, never stored
	Kafka   map[string]string // Java client properties that reach the worker's cluster, secrets resolved
	Offsets []SourceOffset    // of a source: what is stored for it, in no order
	Log     *slog.Logger
}

// Task is one task of an instance.
type Task struct {
	Instance
	ID          int
	Config      Config // the task's own, as Plan gave it
	ScratchDir  string // an own folder, "" if the worker has none to give; emptied when the task is planned anew
	ScratchMax  int64  // bytes that the folder may hold
	MemoryBytes int64  // what the task may hold in its own buffers
}

// Offset gives the stored offset of a source partition, compared by meaning, or nil.
func (in *Instance) Offset(partition OffsetMap) OffsetMap {
	for i := range in.Offsets {
		if in.Offsets[i].Partition.Equal(partition) {
			return in.Offsets[i].Offset
		}
	}
	return nil
}

// Stats are a task's own figures. Progress grows whenever the task gets on with something, also while it is busy for
// long; the worker takes a task whose Progress stands still during a call for hung.
type Stats struct {
	Progress uint64
	Gauges   []Gauge
}

// Gauge is one figure: a Prometheus name without prefix ("lag_bytes") and its value.
type Gauge struct {
	Name  string
	Value float64
}
