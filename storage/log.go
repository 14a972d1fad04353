package storage

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Log is one partition: its segments, the tail that is not in them yet, and what follows from the batches (leader epochs,
// producers). All methods may be called from any goroutine.
//
// Every change is a frame: it is put into the store's open round and applied to the fields below in one hold of mu, by the
// same apply functions that replay uses. So the fields are always a pure function of the checkpoint and the frames since.
type Log struct {
	store   *Store
	id      LogID
	name    string
	number  uint64
	created Ticket // round of its creation; 0 after replay

	mu       sync.Mutex // before Store.mu
	cfg      LogConfig
	dropped  bool
	seq      uint64 // of the last frame
	ticket   Ticket // its round; 0 after replay
	start    int64
	end      int64
	nextFile uint64
	closed   bool // the next batch opens a new file (invariant 6)
	segments []segment
	tail     []tailBatch // a suffix of the log, in order
	epochs   epochCache
	producer producerTable
	garbage  []garbageFile // to be cut once a checkpoint covers it (invariant 3)
	cuts     uint64        // counts truncations, start changes and compactions: a reader that failed looks again

	cleaned      int64     // closed segments up to here were compacted
	horizonMs    int64     // when the first tombstone of those may go; 0: none waits
	compactAfter time.Time // no compaction before

	undurable  []roundEnd // ends that wait for their round, rising
	durableEnd int64      // of all rounds before those

	writtenSeq uint64       // appends up to here are in segments by direct writes
	direct     []directFile // since the last checkpoint

	dirty      bool   // frames since the last capture; guarded by Store.mu
	inRound    Ticket // the last round with an append; likewise
	roundBytes int64  // its appends there; likewise

	stableEnd     atomic.Int64 // SetStableEnd
	syncedEntries uint64       // files up to this number have durable entries; guarded by Store.commitMu

	hasDir atomic.Bool
	saved  []byte // entry of the last checkpoint; guarded by Store.flushMu
}

// tailBatch is a batch in memory. Its segment already counts it.
type tailBatch struct {
	seq        uint64
	file       uint64
	place      int64
	base, last int64
	data       Batch // aliases a round's chunk; immutable
}

// roundEnd is the log's end after a round's frames.
type roundEnd struct {
	ticket Ticket
	end    int64
}

// garbageFile is a file to cut to size, or with size 0 to remove.
type garbageFile struct {
	seq  uint64 // of the frame that made it so
	name string
	key  segmentKey
	size int64
}

// ID is the log's identity.
func (l *Log) ID() LogID { return l.id }

// Name is the name given at creation, for people.
func (l *Log) Name() string { return l.name }

// Config returns the configuration set last.
func (l *Log) Config() LogConfig {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg
}

// SetConfig replaces the configuration; it holds from the next append and the next flush on.
func (l *Log) SetConfig(cfg LogConfig) {
	cfg.SetDefaults()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg = cfg
}

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start
}

// EndOffset is the offset that the next record gets.
func (l *Log) EndOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// DurableEnd is the end (exclusive) of what is durable here; at most EndOffset.
func (l *Log) DurableEnd() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	return l.durableEnd
}

// Ticket is that of what the log put last: with it all that the log has is durable.
func (l *Log) Ticket() Ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ticket
}

// LeaderEpoch is the newest leader epoch of a batch in the log, or -1.
func (l *Log) LeaderEpoch() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.latest()
}

// EndOfEpoch returns the largest epoch ≤ epoch that the log holds and the offset where it ends (exclusive); -1, -1 if there is none.
func (l *Log) EndOfEpoch(epoch int32) (found int32, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.endOf(epoch, l.end)
}

// EpochAt is the leader epoch of the batch that holds the offset (in a gap: of the one before it), or -1 outside [start, end).
func (l *Log) EpochAt(offset int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < l.start || offset >= l.end {
		return -1
	}
	return l.epochs.at(offset)
}

// SetStableEnd says how far (exclusive) a log with LogConfig.HoldsCleanup may be cleaned; a later call replaces it. It is kept in memory
// only, 0 after Open.
func (l *Log) SetStableEnd(end int64) {
	l.stableEnd.Store(end)
}

// isStable says that retention and compaction may touch a segment. Called with mu held.
func (l *Log) isStable(g *segment) bool {
	inTail := len(l.tail) > 0 && l.tail[0].file <= g.file
	return !inTail && (!l.isDirect(g.file) || l.store.hooks.cleanDirect) && (!l.cfg.HoldsCleanup || g.end <= l.stableEnd.Load())
}

// SizeBytes is the size of the log's batches, those still in memory included.
func (l *Log) SizeBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sizeBytes()
}

func (l *Log) sizeBytes() (sum int64) {
	for i := range l.segments {
		sum += l.segments[i].size
	}
	return sum
}

// settle moves durableEnd over the rounds that are durable by now.
func (l *Log) settle() {
	durable := l.store.durableTicket()
	n := 0
	for n < len(l.undurable) && l.undurable[n].ticket <= durable {
		l.durableEnd = l.undurable[n].end
		n++
	}
	if n == len(l.undurable) {
		l.undurable = nil
	} else {
		l.undurable = l.undurable[n:]
	}
}

// noteEnd remembers that the end becomes durable with the ticket.
func (l *Log) noteEnd(ticket Ticket) {
	if n := len(l.undurable); n > 0 && l.undurable[n-1].ticket == ticket {
		l.undurable[n-1].end = l.end
		return
	}
	l.settle()
	l.undurable = append(l.undurable, roundEnd{ticket, l.end})
}

// next builds a frame of the log. Called with mu held.
func (l *Log) next(kind frameKind, now time.Time) frame {
	return frame{kind: kind, id: l.id, number: l.number, seq: l.seq + 1, prevEnd: l.end, nowMs: now.UnixMilli()}
}

// applyAppend takes a batch that lies in a round under the frame. Called with mu held, like all apply functions.
func (l *Log) applyAppend(f *frame, b Batch, ticket Ticket) {
	l.extend(f, b)
	l.tail = append(l.tail, tailBatch{seq: f.seq, file: f.file, place: f.place, base: b.BaseOffset(), last: b.LastOffset(), data: b})
	l.store.tailBytes.Add(int64(len(b)))
	l.learn(b, f.nowMs, ticket)
	l.seq, l.ticket = f.seq, ticket
	l.noteEnd(ticket)
}

// extend makes the segment of the frame hold the batch.
func (l *Log) extend(f *frame, b Batch) {
	n := len(l.segments)
	if n == 0 || l.segments[n-1].file != f.file {
		l.segments = append(l.segments, segment{file: f.file, base: b.BaseOffset(), createdMs: f.nowMs, maxTimestamp: -1})
		l.nextFile, l.closed = f.file+1, false
		n++
	}
	g := &l.segments[n-1]
	g.size = max(g.size, f.place) + int64(len(b))
	g.end = b.LastOffset() + 1
	g.maxTimestamp = max(g.maxTimestamp, b.MaxTimestamp())
	l.end = g.end
}

// learn takes epoch and producer from a batch.
func (l *Log) learn(b Batch, nowMs int64, ticket Ticket) {
	l.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
	if b.ProducerID() >= 0 && b.BaseSequence() >= 0 && !b.IsControl() {
		if l.producer == nil {
			l.producer = producerTable{}
		}
		l.producer.apply(b, nowMs, ticket)
	}
}

// applyTruncate cuts file f.file to f.place and forgets the files after it; the log ends at f.end.
func (l *Log) applyTruncate(f *frame, ticket Ticket) {
	keep := len(l.segments)
	for keep > 0 && l.segments[keep-1].file > f.file {
		g := &l.segments[keep-1]
		l.garbage = append(l.garbage, garbageFile{f.seq, g.fileName(), g.key(), 0})
		keep--
	}
	l.segments = l.segments[:keep]
	if keep > 0 && l.segments[keep-1].file == f.file {
		g := &l.segments[keep-1]
		if f.place < g.size {
			l.garbage = append(l.garbage, garbageFile{f.seq, g.fileName(), g.key(), f.place})
			g.size = f.place
		}
		g.end = min(g.end, f.end)
	}
	n := len(l.tail)
	for n > 0 && l.tail[n-1].last >= f.end {
		n--
	}
	l.dropTail(n, len(l.tail))
	l.cleaned = min(l.cleaned, f.end)
	l.end, l.closed, l.nextFile = f.end, !l.store.hooks.keepFile, max(l.nextFile, f.nextFile)
	l.epochs.truncate(f.end)
	l.producer.truncate(f.end)
	l.seq, l.ticket = f.seq, ticket
	l.cuts++
	l.lowerDurable(ticket)
}

// lowerDurable makes durableEnd follow an end that was set back; the new one is durable with the ticket.
func (l *Log) lowerDurable(ticket Ticket) {
	l.settle()
	l.durableEnd = min(l.durableEnd, l.end)
	for i := range l.undurable {
		l.undurable[i].end = min(l.undurable[i].end, l.end)
	}
	l.noteEnd(ticket)
}

// applyStart raises the start offset and forgets the segments wholly below it.
func (l *Log) applyStart(f *frame, ticket Ticket) {
	l.start = max(l.start, f.end)
	n := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].end > l.start })
	for i := range l.segments[:n] {
		l.garbage = append(l.garbage, garbageFile{f.seq, l.segments[i].fileName(), l.segments[i].key(), 0})
	}
	if n > 0 {
		l.segments = append([]segment(nil), l.segments[n:]...)
		l.closed = l.closed || len(l.segments) == 0
		l.cuts++
	}
	gone := 0
	for gone < len(l.tail) && (len(l.segments) == 0 || l.tail[gone].file < l.segments[0].file) {
		gone++
	}
	l.dropTail(0, gone)
	l.epochs.advance(l.start)
	l.seq, l.ticket = f.seq, ticket
}

// dropTail removes tail[from:to], a prefix or a suffix, from memory.
func (l *Log) dropTail(from, to int) {
	var freed int64
	for i := from; i < to; i++ {
		freed += int64(len(l.tail[i].data))
	}
	l.store.tailBytes.Add(-freed)
	rest := append(l.tail[:from:from], l.tail[to:]...)
	if len(rest) == 0 {
		rest = nil
	}
	if from > 0 {
		clear(l.tail[from:to])
	}
	l.tail = rest
}
