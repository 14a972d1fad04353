package replica

import (
	"slices"
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

// Partition is one replica of one partition, whatever its role. All methods may overlap.
//
// Lock order: role, mu, then the log's own.
type Partition struct {
	Topic string
	Index int32

	store  *storage.Store
	log    *storage.Log
	self   int32
	faults Faults

	role sync.RWMutex // held for reading by an append that has seen that this node leads, and for writing while that changes

	mu         sync.Mutex
	assigned   Assignment
	isAssigned bool
	tenure     int // counts the times that it stopped leading
	epochStart int64
	followers  map[int32]*follower // while it leads: every replica but this
	wish       *ISRWish
	hw         int64
	leaderHW   int64 // while it follows: as its leader said in this epoch
	closed     error
	acks       []ackWaiter // by ascending end
	watchers   []*Watcher
	tails      []*Tail // of followers; copied before each change
	marks      []mark  // by ascending end; sizes of recent appends
	total      int64   // bytes appended since the partition was opened
}

type ackWaiter struct {
	end    int64
	minISR int
	done   func(error)
}

// Faults are ways to break a replica, for tests that have to find what is broken. The zero value breaks nothing.
type Faults struct {
	AckEarly       bool // acks=all is answered as acks=1 is
	AckAtEnd       bool // the leader counts what its disk hasn't got
	CountEnds      bool // followers' ends count rather than their durable ends
	SkipDivergence bool // the leader doesn't look whether logs agree
	SkipCut        bool // the follower keeps what the leader doesn't have
	TrustLate      bool // the follower takes answers to what it asked of a log that is no more
	JoinEarly      bool // a follower is in sync that lacks what was acknowledged
	TrustOldISR    bool // those to be added don't count before they are
	ForgetEpoch    bool // the follower doesn't tell the epoch of what it has
}

// effects is what follows of a change and must be done under no lock.
type effects struct {
	answers []ackAnswer
	fire    []*Watcher
	tails   []*Tail // to be told
	news    TailNews
}

type ackAnswer struct {
	done func(error)
	err  error
}

func (e *effects) answer(a ackWaiter, err error) {
	e.answers = append(e.answers, ackAnswer{a.done, err})
}

// refuse answers everyone who waits on p. Called with its mu held.
func (e *effects) refuse(p *Partition, err error) {
	for _, a := range p.acks {
		e.answer(a, err)
	}
	e.fire = append(e.fire, p.watchers...)
	e.tails, e.news = p.tails, TailOver
	p.acks, p.watchers, p.tails = nil, nil, nil
	p.tenure++
}

func (e *effects) run() {
	for _, a := range e.answers {
		a.done(a.err)
	}
	for _, w := range e.fire {
		w.Fire()
	}
	for _, t := range e.tails {
		t.tell(e.news)
	}
}

// Done takes an append's fate: where the batch is, and nil when it is as safe as its acks asked.
type Done func(app storage.Appended, err error)

// mark says that the log's first total bytes (counted since opening) end at end (exclusive).
type mark struct{ end, total int64 }

// New makes the replica of log on the node self. It follows nobody, and its high watermark is the log's start, until Assign.
func New(store *storage.Store, log *storage.Log, topic string, index, self int32) *Partition {
	return &Partition{Topic: topic, Index: index, store: store, log: log, self: self, hw: log.StartOffset()}
}

// Break makes the replica faulty. Only before it is shared.
func (p *Partition) Break(f Faults) { p.faults = f }

// Log is the partition's log, for reading, configuration and offsets by time.
func (p *Partition) Log() *storage.Log { return p.log }

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

// Append adds one whole record batch, which it copies, where this node leads and, for AcksAll, at least minISR replicas are in sync
// (ErrNotLeader, ErrNotEnough). done, unless Append itself returns an error, is called once, perhaps before Append returns; with ErrNotLeader when
// the fate of the batch is the next leader's, with ErrNotEnoughLate when it is on all of a set that has become too small.
func (p *Partition) Append(batch []byte, acks Acks, minISR int, now time.Time, done Done) error {
	return p.AppendIn(-1, batch, acks, minISR, now, done)
}

// AppendIn is Append in one leader epoch only, -1 for any; else CheckEpoch's errors.
func (p *Partition) AppendIn(leaderEpoch int32, batch []byte, acks Acks, minISR int, now time.Time, done Done) error {
	app, minISR, tenure, err := p.appendAs(leaderEpoch, batch, acks, minISR, now)
	if err != nil {
		return err
	}
	if p.faults.AckEarly && acks == AcksAll {
		acks = AcksLeader
	}
	end := app.LastOffset + 1
	if !app.Duplicate {
		p.record(end, int64(len(batch)))
	}
	switch acks {
	case AcksNone:
		done(app, nil)
	case AcksAll:
		p.await(ackWaiter{end, minISR, func(err error) { done(app, err) }}, tenure)
	}
	p.store.Notify(app.Ticket, func(err error) {
		p.synced(err)
		if acks == AcksLeader {
			done(app, err)
		}
	})
	return nil
}

// appendAs appends as the leader that this node is, which it stays meanwhile: a follower's log takes nothing but what its leader has.
func (p *Partition) appendAs(leaderEpoch int32, batch []byte, acks Acks, minISR int, now time.Time) (app storage.Appended, wanted, tenure int, err error) {
	p.role.RLock()
	defer p.role.RUnlock()
	p.mu.Lock()
	epoch, tenure, err := p.assigned.LeaderEpoch, p.tenure, p.checkEpoch(leaderEpoch)
	wanted = min(minISR, len(p.assigned.Replicas)) // as Kafka does: a topic of one replica takes what it always took
	if err == nil && acks == AcksAll && len(p.assigned.ISR) < wanted {
		err = ErrNotEnough
	}
	p.mu.Unlock()
	if err == nil {
		app, err = p.log.Append(batch, epoch, now)
	}
	return app, wanted, tenure, err
}

// record remembers how many bytes end at end, and tells followers that wait for more.
func (p *Partition) record(end, sizeBytes int64) {
	p.mu.Lock()
	p.mark(end, sizeBytes)
	e := effects{tails: p.tails, news: TailGrown}
	p.mu.Unlock()
	e.run()
}

func (p *Partition) mark(end, sizeBytes int64) {
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

// await answers a when the high watermark reaches its end, unless this node has stopped leading since tenure.
func (p *Partition) await(a ackWaiter, tenure int) {
	p.mu.Lock()
	var err error
	switch {
	case p.closed != nil:
		err = p.closed
	case p.tenure != tenure:
		err = ErrNotLeader
	case p.hw >= a.end:
	default:
		i := sort.Search(len(p.acks), func(i int) bool { return p.acks[i].end > a.end })
		p.acks = slices.Insert(p.acks, i, a)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	a.done(err)
}

// synced takes the store's word that more of the log is durable, or that the store has failed.
func (p *Partition) synced(failed error) {
	if failed != nil {
		p.Close(failed)
		return
	}
	var e effects
	p.mu.Lock()
	p.raise(&e)
	p.mu.Unlock()
	e.run()
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

// Release answers everyone who waits with err; nothing else changes.
func (p *Partition) Release(err error) {
	var e effects
	p.mu.Lock()
	e.refuse(p, err)
	p.mu.Unlock()
	e.run()
}

// Close ends the partition: appends are refused with err, and everyone who waits is answered with it.
// The log itself is the caller's to drop.
func (p *Partition) Close(err error) {
	var e effects
	p.mu.Lock()
	if p.closed == nil {
		p.closed = err
		e.refuse(p, err)
	}
	p.mu.Unlock()
	e.run()
}
