package connect

import "context"

// SinkTask writes records into a foreign system. One call at a time, but for Stats.
type SinkTask interface {
	// Assign adds partitions, each with what was committed for it. It returns where to start for those partitions whose
	// offset the sink keeps itself; the others start at what was committed.
	Assign(ctx context.Context, added []Assigned) ([]Start, error)
	// Revoke takes partitions away; the rest stays as it is. The worker has called Flush before, unless they were lost.
	Revoke(ctx context.Context, gone []TopicPartition) error
	// Put takes records; they are valid until it returns. Records of one partition come in the order of their offsets,
	// also across calls, except that a call which failed with [Retry] or [BadRecord] is repeated.
	Put(ctx context.Context, records []Record) error
	// Flush is called on every commit tick, also when nothing was put, and before Revoke. It is told what was committed
	// since the last call, waits for what is in flight (closing nothing early) and answers what is durable now.
	Flush(ctx context.Context, committed []Committed) (Flushed, error)
	// Stats may be called at any time, beside any other call, and returns at once.
	Stats() Stats
	// Close frees everything. It returns in the time that ctx gives it.
	Close(ctx context.Context) error
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Assigned is a partition that the task now owns.
type Assigned struct {
	TopicPartition
	Offset   int64  // committed: the next offset to read; -1 for none
	Metadata string // committed beside it
	Begin    int64  // log start offset
	End      int64  // high watermark when the partition was assigned
}

// Start overrides where reading begins.
type Start struct {
	TopicPartition
	Offset int64 // the next offset to read
}

// Committed is what the worker committed for a partition.
type Committed struct {
	TopicPartition
	Offset   int64 // the next offset to read
	Metadata string
}

// Flushed answers a Flush.
type Flushed struct {
	// Durable: per partition, the offset after the last record of an unbroken run that is durable in the foreign system
	// or rejected, with metadata to be stored beside it. Partitions that did not move, in offset or metadata, are left out.
	Durable []Committed
	// Rejected: records of earlier Puts that turned out not to be writable. Each is told once; the worker commits past
	// them only after they are in the dead-letter topic.
	Rejected []Rejection
}

// Rejection is a record that was put and could not be written.
type Rejection struct {
	Origin Origin
	Reason string
}
