package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// LogID identifies a partition: topic id and partition index. A topic that is deleted and made
// again has a new id; the store also bears a LogID that is dropped and opened again.
type LogID struct {
	Topic     [16]byte
	Partition int32
}

// String is for messages.
func (id LogID) String() string {
	return fmt.Sprintf("%s-%d", hex.EncodeToString(id.Topic[:]), id.Partition)
}

// Ticket names a round. What was put under it is durable when the round is; rounds complete in order.
type Ticket uint64

// SyncMode says when a ticket completes.
type SyncMode uint8

const (
	// SyncGroup completes a ticket after the round's fdatasync (log.flush=group).
	SyncGroup SyncMode = iota
	// SyncOS completes a ticket after the write: safe against a killed process, not against power loss (log.flush=os).
	SyncOS
)

// Options of a Store. The zero value of a field means its default.
type Options struct {
	FS     vfs.FS       // default vfs.OS()
	Dir    string       // data folder; made if absent
	Logger *slog.Logger // default: discards
	Sync   SyncMode

	WALFileBytes int64 // size of a write-ahead file, default 32 MiB; a batch must fit one
	WALFiles     int   // most write-ahead files, default: enough for twice TailBytes
	RoundBytes   int   // a round is closed beyond this, default 16 MiB
	QueueBytes   int64 // while so much waits for the disk, Room holds large appends back, default 4 MiB
	TailBytes    int64 // batches kept in memory until flushed, over all logs, default 64 MiB; twice that is refused
	OpenFiles    int   // segment files kept open, default 512

	FlushInterval     time.Duration // Run flushes dirty logs at least this often, default 10 s
	RetentionInterval time.Duration // retention is looked at this often, in Flush, default 30 s; negative: each Flush
	ProducerExpiry    time.Duration // an idle producer's state is forgotten after this, default 24 h

	CompactionInterval       time.Duration // Run looks this often for a log to compact, default 15 s
	CompactionMapBytes       int64         // memory for keys of a compaction, default 64 MiB; more keys cost more passes
	CompactionBytesPerSecond int64         // a compaction reads no faster, default 64 MiB; negative: no limit

	directBytes int // a log with so much in a round is written directly
	directLogs  int // of so many logs a round, the largest
	fewFiles    int // a flush syncs up to so many files one by one, more by one syncfs
}

const (
	blockBytes          = 4096 // rounds start on such boundaries
	minAlignBytes       = 512  // or of this, under SyncOS
	minWALFileBytes     = 4 * blockBytes
	roundSpareBytes     = 2 * blockBytes // header, trailer and padding of a round, at most
	defaultWALFile      = 32 << 20
	defaultRound        = 16 << 20
	defaultTail         = 64 << 20
	defaultQueue        = 4 << 20
	defaultOpenFiles    = 512
	defaultFewFiles     = 32
	defaultDirect       = 256 << 10
	defaultDirectLogs   = 8
	defaultDirectOS     = 4 << 10
	defaultDirectLogsOS = 64
	reserveShare        = 8 // of a write-ahead file, an nth is left to what frees a full disk
)

// SetDefaults fills what is unset.
func (o *Options) SetDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.WALFileBytes, defaultWALFile)
	setDefault(&o.RoundBytes, defaultRound)
	setDefault(&o.TailBytes, defaultTail)
	setDefault(&o.QueueBytes, defaultQueue)
	setDefault(&o.WALFiles, int(2*o.TailBytes/max(o.WALFileBytes, 1))+4)
	setDefault(&o.OpenFiles, defaultOpenFiles)
	setDefault(&o.fewFiles, defaultFewFiles)
	if o.Sync == SyncOS { // no sync is to be saved
		setDefault(&o.directBytes, defaultDirectOS)
		setDefault(&o.directLogs, defaultDirectLogsOS)
	}
	setDefault(&o.directBytes, defaultDirect)
	setDefault(&o.directLogs, defaultDirectLogs)
	setDefault(&o.FlushInterval, 10*time.Second)
	setDefault(&o.RetentionInterval, 30*time.Second)
	setDefault(&o.ProducerExpiry, 24*time.Hour)
	setDefault(&o.CompactionInterval, 15*time.Second)
	setDefault(&o.CompactionMapBytes, 64<<20)
	setDefault(&o.CompactionBytesPerSecond, 64<<20)
	o.RoundBytes = min(o.RoundBytes, int(o.WALFileBytes)-roundSpareBytes)
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	if o.Dir == "" {
		faults = append(faults, errors.New("data folder is not set"))
	}
	if o.WALFileBytes < minWALFileBytes || o.WALFileBytes%blockBytes != 0 || o.WALFileBytes > 1<<30 {
		faults = append(faults, fmt.Errorf("write-ahead file size %d: want a multiple of %d between %d and 1 GiB", o.WALFileBytes, blockBytes, minWALFileBytes))
	}
	if o.WALFiles < 3 {
		faults = append(faults, fmt.Errorf("write-ahead files %d: want at least 3", o.WALFiles))
	}
	if o.TailBytes < 0 || o.RoundBytes < blockBytes {
		faults = append(faults, fmt.Errorf("tail bytes %d, round bytes %d: too small", o.TailBytes, o.RoundBytes))
	}
	if o.CompactionMapBytes < 0 {
		faults = append(faults, fmt.Errorf("compaction map of %d bytes", o.CompactionMapBytes))
	}
	if o.Sync > SyncOS {
		faults = append(faults, fmt.Errorf("sync mode %d is unknown", o.Sync))
	}
	return errors.Join(faults...)
}

// Cleanup says how a log loses old records.
type Cleanup uint8

const (
	// CleanupDelete removes old segments by size and time.
	CleanupDelete Cleanup = 1 << iota
	// CleanupCompact keeps the newest record of each key; every record must have one.
	CleanupCompact
)

// TimestampType says whose clock a batch's timestamps are.
type TimestampType uint8

const (
	// CreateTime keeps the producer's timestamps.
	CreateTime TimestampType = iota
	// LogAppendTime stamps each batch when it is appended.
	LogAppendTime
)

// LogConfig is what a partition's topic asks for. The zero value of a field means its default;
// retention and timestamp limits have "no limit" as theirs.
type LogConfig struct {
	SegmentBytes       int64         // a segment is closed beyond this, default 1 GiB
	Segment            time.Duration // or at this age, default 7 days
	RetentionBytes     int64         // ≤ 0: no limit
	Retention          time.Duration // ≤ 0: no limit
	IndexIntervalBytes int           // an index entry per so many bytes, default 4096; doubles as a segment grows
	MaxMessageBytes    int           // largest batch, default 1 MiB + 12
	Cleanup            Cleanup       // default CleanupDelete
	TimestampType      TimestampType
	UsesReserve        bool          // appends may use what others must leave for drops on a full disk: the metadata's log
	HoldsCleanup       bool          // retention and compaction touch nothing at or above SetStableEnd's offset: replicated logs
	TimestampBefore    time.Duration // most that a CreateTime may lie in the past; ≤ 0: no limit
	TimestampAfter     time.Duration // most that it may lie in the future; ≤ 0: no limit

	DeleteRetention  time.Duration // compaction keeps a tombstone this long after it first saw it, default 24 h; negative: not at all
	MinCompactionLag time.Duration // segments with a younger record are not compacted; ≤ 0: all are
	MaxCompactionLag time.Duration // a log with an older record not compacted is, whatever its share of such; ≤ 0: no limit
	MinDirtyRatio    float64       // share of bytes not compacted from which on a log is, default 0.5
}

// SetDefaults fills what is unset.
func (c *LogConfig) SetDefaults() {
	setDefault(&c.SegmentBytes, 1<<30)
	setDefault(&c.Segment, 7*24*time.Hour)
	setDefault(&c.IndexIntervalBytes, 4096)
	setDefault(&c.MaxMessageBytes, 1<<20+12)
	setDefault(&c.Cleanup, CleanupDelete)
	setDefault(&c.DeleteRetention, 24*time.Hour)
	setDefault(&c.MinDirtyRatio, 0.5)
}

// segmentAge is the age at which a segment is closed: one that must be compacted in time is closed in time.
func (c *LogConfig) segmentAge() time.Duration {
	if c.Cleanup&CleanupCompact != 0 && c.MaxCompactionLag > 0 {
		return min(c.Segment, c.MaxCompactionLag)
	}
	return c.Segment
}

// setDefault sets *v to def when it is zero.
func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
