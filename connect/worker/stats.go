package worker

import (
	"time"

	"github.com/weirlog/weir/connect"
)

// Stats is a snapshot of a worker's figures. Counters begin at 0 when the task is first run by this process and go on
// through its restarts.
type Stats struct {
	HoldsGroup bool // connectors run here; always true of a standalone worker
	Connectors []ConnectorStats
	Tasks      []TaskStats
}

// ConnectorStats are the figures of a connector itself.
type ConnectorStats struct {
	Name, Class, Type, Version string
	State                      State
}

// TaskStats are the figures of one task. In = Out + Filtered + DeadLettered + Skipped once nothing is in flight; while it
// runs InFlight is the difference.
type TaskStats struct {
	ID    TaskID
	Class string
	Type  string // source, sink
	State State

	In, Out, Filtered, DeadLettered, Skipped uint64 // records
	InFlight                                 int64  // records taken from the source or the log and not yet ended
	BytesOut                                 uint64 // encoded bytes of keys and values: a source's written, a sink's read
	Batches                                  uint64 // non-empty polls (source) or puts (sink)
	BatchRecordsMax                          int64

	Commits, CommitFailures uint64
	CommitLast, CommitMax   time.Duration // latency of the durable part of a commit
	CommitLastAt            time.Time     // zero for never
	Errors                  uint64        // records that failed at some stage, tolerated or not
	Retries                 uint64        // calls repeated at a connector's request, records retried
	Restarts                uint64        // automatic restarts
	RetryReason             string        // what is being retried now, "" for nothing
	RetryAttempt            int

	Lag    []PartitionLag  // of a sink, per assigned partition
	Gauges []connect.Gauge // the connector's own
}

// PartitionLag is how far a sink is behind in one partition, in records; -1 where it is not known yet.
type PartitionLag struct {
	Topic     string
	Partition int32
	Position  int64 // next offset to be read
	Committed int64 // committed offset, -1 for none
	Lag       int64 // end of the log minus committed
}
