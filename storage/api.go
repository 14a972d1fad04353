package storage

import (
	"context"
	"time"
)

// API skeleton, filled in within the hour: names and contracts are firm.

// Store is one data folder.
type Store struct{}

// Open replays the folder and serves it; nothing unsynced is served. It fails with vfs.ErrLocked
// when another process has the folder, and with a CorruptError when synced bytes are damaged.
func Open(opts Options) (*Store, error) { panic("storage: being written") }

// Run is the commit loop and the flush loop. It returns when both are gone: after ctx ended (nil),
// or the store failed (the reason). Call Close afterwards.
func (s *Store) Run(ctx context.Context) error { panic("storage: being written") }

// Commit writes and syncs one round, if anything waits, and returns the completions that are due, to be run
// by the caller, who holds no lock that they take. The error is the store's failure; the completions
// are returned beside it. May overlap anything.
func (s *Store) Commit(now time.Time) ([]func(), error) { panic("storage: being written") }

// Flush writes tails to segments, syncs the file system, writes the checkpoint, recycles write-ahead files and
// applies retention. A full disk is ErrDiskFull and leaves the store working; other errors end it.
func (s *Store) Flush(now time.Time) error { panic("storage: being written") }

// Close commits, flushes, and releases the folder. Run must have returned. Idempotent.
func (s *Store) Close() error { panic("storage: being written") }

// Failed is closed when the store ended by itself; Err says why.
func (s *Store) Failed() <-chan struct{} { panic("storage: being written") }

// Err is nil while the store works; else an error that wraps ErrStoreFailed (or ErrStoreClosed).
func (s *Store) Err() error { panic("storage: being written") }

// Room returns a channel that is closed when there is room for appends (closed already, as a rule).
// A connection waits on it before it reads on. Never nil; closed too when the store ends.
func (s *Store) Room() <-chan struct{} { panic("storage: being written") }

// OpenLog returns the log with the id, made if absent (durable before anything appended to it), with cfg set.
// name ("orders-0") is for people and counts only at creation. Never touches the disk.
func (s *Store) OpenLog(id LogID, name string, cfg LogConfig) (*Log, error) {
	panic("storage: being written")
}

// Log returns an existing log, or nil.
func (s *Store) Log(id LogID) *Log { panic("storage: being written") }

// Logs lists the logs there are, in no order.
func (s *Store) Logs() []LogID { panic("storage: being written") }

// Drop removes a log: at once for callers, on disk after the ticket. ErrDropped when there is none.
func (s *Store) Drop(id LogID) (Ticket, error) { panic("storage: being written") }

// Notify arranges that done runs once: with nil when t is durable, or with the store's failure. It runs at once,
// on this goroutine, if that is known already; else among a Commit's completions. done must not block; it may append.
func (s *Store) Notify(t Ticket, done func(error)) { panic("storage: being written") }

// SetHardState puts raft's hard state (opaque, at most 4 KiB) into the write-ahead log.
func (s *Store) SetHardState(state []byte) (Ticket, error) { panic("storage: being written") }

// HardState returns the newest hard state put (nil if none); after Open, the newest durable one.
func (s *Store) HardState() []byte { panic("storage: being written") }

// Stats is a snapshot for metrics.
type Stats struct {
	Rounds, Syncs, Flushes  uint64 // since Open
	AppendedBytes, WALBytes uint64 // batches taken; bytes written to the write-ahead log (with padding)
	TailBytes               int64  // in memory, not yet in a segment
	Logs, WALFiles, WALFree int
	SyncNanos, FlushNanos   uint64 // sums
	DiskFull                bool
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats { panic("storage: being written") }

// Log is one partition. All methods may be called from any goroutine.
type Log struct{}

// Appended says where a batch went.
type Appended struct {
	BaseOffset, LastOffset int64
	Ticket                 Ticket // durable here when it completes (Store.Notify); for a duplicate, the first one's
	Duplicate              bool   // one of the producer's last five batches: nothing was appended
	LogAppendTime          int64  // ms since the epoch for a LogAppendTime log, else -1
}

// Append takes one whole v2 batch of a client: checks header, CRC and the log's rules, recognizes duplicates, assigns
// offsets and the leader epoch, and copies it: batch is the caller's again on return and is not written to. Errors: the sentinels.
func (l *Log) Append(batch []byte, leaderEpoch int32, now time.Time) (Appended, error) {
	panic("storage: being written")
}

// AppendAt takes one whole v2 batch that has its offset and leader epoch already (followers, mirror, control batches).
// The base may lie above the end (a gap), not below (ErrOffsetOutOfRange). No client rules are applied.
func (l *Log) AppendAt(batch []byte, now time.Time) (Appended, error) {
	panic("storage: being written")
}

// ID, Name, Config, SetConfig.
func (l *Log) ID() LogID               { panic("storage: being written") }
func (l *Log) Name() string            { panic("storage: being written") }
func (l *Log) Config() LogConfig       { panic("storage: being written") }
func (l *Log) SetConfig(cfg LogConfig) { panic("storage: being written") }

// StartOffset is the first offset that may be read; EndOffset the one that the next record gets (exclusive);
// DurableEnd the end of what is durable here (≤ EndOffset); LeaderEpoch the newest epoch in the log, or -1; SizeBytes the sum of its segments.
func (l *Log) StartOffset() int64 { panic("storage: being written") }
func (l *Log) EndOffset() int64   { panic("storage: being written") }
func (l *Log) DurableEnd() int64  { panic("storage: being written") }
func (l *Log) LeaderEpoch() int32 { panic("storage: being written") }
func (l *Log) SizeBytes() int64   { panic("storage: being written") }

// Read appends to dst slices of one or more whole batches each: from the one that holds next (or the first after a gap), below end, up
// to maxBytes but at least one batch. They are immutable and stay valid; nothing to release. May read the disk.
// next = end of log gives nothing; outside [start, end of log] is ErrOffsetOutOfRange. The first batch may begin below next.
func (l *Log) Read(next, end int64, maxBytes int, dst [][]byte) ([][]byte, error) {
	panic("storage: being written")
}

// ReadTail is Read from memory only: ok is false when the disk would be needed.
func (l *Log) ReadTail(next, end int64, maxBytes int, dst [][]byte) (batches [][]byte, ok bool, err error) {
	panic("storage: being written")
}

// OffsetForTime returns the first record with a timestamp ≥ ts (ms) below the end, or offset -1. May read the disk.
func (l *Log) OffsetForTime(ts int64) (offset, timestamp int64, err error) {
	panic("storage: being written")
}

// MaxTimestamp returns the record with the largest timestamp, or offset -1. May read the disk.
func (l *Log) MaxTimestamp() (offset, timestamp int64, err error) { panic("storage: being written") }

// Truncate removes every batch that reaches to end or beyond it; the new end is end, or the base of a batch that straddled it.
// Nothing to do: a completed ticket. May read the disk.
func (l *Log) Truncate(end int64) (Ticket, error) { panic("storage: being written") }

// AdvanceStart raises the start offset; segments wholly below it go. Lower or equal: nothing to do. Beyond the end: ErrOffsetOutOfRange.
func (l *Log) AdvanceStart(start int64) (Ticket, error) { panic("storage: being written") }

// EndOfEpoch returns the largest epoch ≤ epoch that the log holds and the offset where it ends (KIP-101); (-1, -1) if none.
func (l *Log) EndOfEpoch(epoch int32) (epochFound int32, end int64) { panic("storage: being written") }
