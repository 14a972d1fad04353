package connect

import "context"

// SourceTask reads a foreign system. Poll and Commit may overlap; no call overlaps itself. Close follows the last Poll
// and Commit.
type SourceTask interface {
	// Poll returns what has come, at the latest when ctx ends (then an empty batch and no error). It either returns
	// records or marks, or has consumed nothing; a batch beside an error is taken first. The batch's memory is the
	// worker's until the next Poll.
	Poll(ctx context.Context) (Batch, error)
	// Commit tells what is durable: the newest durable offset of each source partition that moved, and with
	// [Connector.Acks] each record's fate. If it fails its content is merged into the next. It may overlap Poll.
	Commit(ctx context.Context, acked Acked) error
	// Signal hands over a signal that was sent to the connector through the worker.
	Signal(ctx context.Context, s Signal) error
	// Stats may be called at any time, beside any other call, and returns at once.
	Stats() Stats
	// Close frees everything. It returns in the time that ctx gives it.
	Close(ctx context.Context) error
}

// Batch is what one Poll returns.
type Batch struct {
	Seq     uint64      // 1, 2, 3 … by the task; 0 for an empty batch
	Sources []OffsetMap // the source partitions that Records and Marks point to
	Records []Record
	Marks   []Mark // ordered by After
}

// Mark is a resume point: valid once those of the first After records that belong to Source are done (written, filtered,
// skipped or dead-lettered). A mark without records is legal: a position moves when nothing matches.
type Mark struct {
	After   int // number of records of the batch before the mark: 0 … len(Records)
	Source  int // index into Batch.Sources
	Offset  OffsetMap
	EndsTxn bool // a transaction of the source ends here
}

// SourceOffset is a source partition with an offset.
type SourceOffset struct {
	Partition OffsetMap
	Offset    OffsetMap // nil: none
}

// Acked is what a Commit tells.
type Acked struct {
	Offsets []SourceOffset
	Acks    []Ack // only with Connector.Acks, in no order
}

// Ack is the fate of one record.
type Ack struct {
	Seq       uint64 // of its batch
	Index     int    // in its batch
	Outcome   Outcome
	Topic     string // where it was written
	Partition int32
	Offset    int64
}

// Outcome is how a record ended.
type Outcome uint8

// The outcomes.
const (
	Written      Outcome = 1
	Filtered     Outcome = 2
	DeadLettered Outcome = 3
	Skipped      Outcome = 4
)

// Signal is an instruction to a running source: in Debezium's words a type ("execute-snapshot") and JSON data.
type Signal struct {
	ID   string
	Type string
	Data []byte
}
