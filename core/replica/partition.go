package replica

import (
	"sort"
	"sync"
	"time"

	"github.com/weirlog/weir/storage"
)

// Acks says when an append is answered.
type Acks int16

// The kinds of acks, as the produce request numbers them.
const (
	AcksNone   Acks = 0  // when it is appended
	AcksLeader Acks = 1  // when it is durable here
	AcksAll    Acks = -1 // when the high watermark has passed it
)

// marksKept is how many durable batches a partition remembers the size of, for the min bytes of a long poll.
const marksKept = 32

// manyBytes stands for "more than any fetch waits for".
const manyBytes = int64(1) << 40

// Partition is one partition led by this node. All methods may overlap.
type Partition struct {
	Topic string
	Index int32

	store *storage.Store
	log   *storage.Log

	mu       sync.Mutex
	epoch    int32
	hw       int64
	closed   error
	acks     []ackWaiter // by ascending end
	watchers []*Watcher
	marks    []mark // by ascending end; sizes of recent appends
	total    int64  // bytes appended since the partition was opened
}

type ackWaiter struct {
	end  int64
	done func(error)
}

// Done takes an append's fate: where the batch is, and nil when it is as safe as its acks asked.
type Done func(app storage.Appended, err error)

// mark says that the log's first total bytes (counted since opening) end at end (exclusive).
type mark struct{ end, total int64 }

// New makes the partition of log. Everything in the log counts as durable up to its DurableEnd.
func New(store *storage.Store, log *storage.Log, topic string, index, leaderEpoch int32) *Partition {
	return &Partition{Topic: topic, Index: index, store: store, log: log, epoch: leaderEpoch, hw: log.DurableEnd()}
}

// Log is the partition's log, for reading, configuration and offsets by time.
func (p *Partition) Log() *storage.Log { return p.log }

// LeaderEpoch is the epoch in which this node leads the partition.
func (p *Partition) LeaderEpoch() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// SetLeaderEpoch begins a new epoch of leadership.
func (p *Partition) SetLeaderEpoch(epoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = max(p.epoch, epoch)
}

// HighWatermark is the end (exclusive) of what consumers may see.
func (p *Partition) HighWatermark() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hw
}

// Err is the error that the partition was closed with, nil while it is open.
func (p *Partition) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Append adds one whole record batch, which it copies. done, unless Append itself returns an error, is called once,
// perhaps before Append returns.
func (p *Partition) Append(batch []byte, acks Acks, now time.Time, done Done) error {
	p.mu.Lock()
	epoch, err := p.epoch, p.closed
	p.mu.Unlock()
	if err != nil {
		return err
	}
	app, err := p.log.Append(batch, epoch, now)
	if err != nil {
		return err
	}
	end := app.LastOffset + 1
	if !app.Duplicate {
		p.record(end, int64(len(batch)))
	}
	switch acks {
	case AcksNone:
		done(app, nil)
	case AcksAll:
		p.await(end, func(err error) { done(app, err) })
	}
	p.store.Notify(app.Ticket, func(err error) {
		p.advance(err)
		if acks == AcksLeader {
			done(app, err)
		}
	})
	return nil
}

// record remembers how many bytes end at end.
func (p *Partition) record(end, sizeBytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.marks) == 0 {
		p.marks = append(p.marks, mark{end: p.hw}) // what was there when the partition was opened
	}
	p.total += sizeBytes
	n := len(p.marks)
	if n > 0 && p.marks[n-1].end >= end { // a later append recorded itself first
		for i := n - 1; i >= 0 && p.marks[i].end >= end; i-- {
			p.marks[i].total += sizeBytes
		}
		return
	}
	p.marks = append(p.marks, mark{end: end, total: p.total})
}

// await calls done when the high watermark reaches end.
func (p *Partition) await(end int64, done func(error)) {
	p.mu.Lock()
	if p.hw >= end || p.closed != nil {
		err := p.closed
		p.mu.Unlock()
		done(err)
		return
	}
	i := sort.Search(len(p.acks), func(i int) bool { return p.acks[i].end > end })
	p.acks = append(p.acks, ackWaiter{})
	copy(p.acks[i+1:], p.acks[i:])
	p.acks[i] = ackWaiter{end: end, done: done}
	p.mu.Unlock()
}

// advance moves the high watermark to the durable end, or fails everyone when the store failed.
func (p *Partition) advance(failed error) {
	if failed != nil {
		p.Close(failed)
		return
	}
	end := p.log.DurableEnd()
	p.mu.Lock()
	if end <= p.hw || p.closed != nil {
		p.mu.Unlock()
		return
	}
	before := p.totalAt(p.hw)
	p.hw = end
	grown := p.totalAt(p.hw) - before
	n := sort.Search(len(p.acks), func(i int) bool { return p.acks[i].end > end })
	ready := append([]ackWaiter(nil), p.acks[:n]...)
	p.acks = append(p.acks[:0], p.acks[n:]...)
	var fire []*Watcher
	for _, w := range p.watchers {
		if w.add(grown) {
			fire = append(fire, w)
		}
	}
	p.trimMarks()
	p.mu.Unlock()
	for _, a := range ready {
		a.done(nil)
	}
	for _, w := range fire {
		w.fire()
	}
}

// totalAt is how many of the bytes counted since opening lie below end; 0 for an end older than what is remembered.
func (p *Partition) totalAt(end int64) int64 {
	i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].end > end })
	if i == 0 {
		return 0
	}
	return p.marks[i-1].total
}

// trimMarks forgets all but the newest marksKept marks at or below the high watermark.
func (p *Partition) trimMarks() {
	n := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].end > p.hw })
	if drop := n - marksKept; drop > marksKept {
		p.marks = append(p.marks[:0], p.marks[drop:]...)
	}
}

// Close ends the partition: appends are refused with err, and everyone who waits is answered with it.
// The log itself is the caller's to drop.
func (p *Partition) Close(err error) {
	p.mu.Lock()
	if p.closed != nil {
		p.mu.Unlock()
		return
	}
	p.closed = err
	acks, watchers := p.acks, p.watchers
	p.acks, p.watchers = nil, nil
	p.mu.Unlock()
	for _, a := range acks {
		a.done(err)
	}
	for _, w := range watchers {
		w.cancel()
	}
}
