package storage

import (
	"fmt"
	"time"
)

// windowBatches is how many batches of a producer are remembered: as many as clients keep in flight.
const windowBatches = 5

// producerBatch is one remembered batch.
type producerBatch struct {
	firstSeq, lastSeq int32
	base, last        int64  // offsets
	timestamp         int64  // the batch's largest, for LogAppendTime answers
	ticket            Ticket // in memory only; 0 is durable
}

// producer is the idempotence state of one producer id in one log.
type producer struct {
	epoch      int16
	count      uint8 // of window, oldest first
	nextSeq    int32
	lastSeenMs int64 // clock of the store, for expiry
	window     [windowBatches]producerBatch
}

// producerTable maps producer ids to their state. It is advanced by apply, which never refuses: check decides
// beforehand, and replay only repeats what was decided.
type producerTable map[int64]*producer

// check decides on a client's batch. A duplicate answers the remembered batch; an unknown producer may begin anywhere,
// since its state may have expired.
func (t producerTable) check(b Batch) (*producerBatch, error) {
	p := t[b.ProducerID()]
	if p == nil {
		return nil, nil
	}
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	switch {
	case epoch < p.epoch:
		return nil, fmt.Errorf("%w: producer %d has epoch %d, batch %d", ErrProducerFenced, b.ProducerID(), p.epoch, epoch)
	case epoch > p.epoch && first != 0:
		return nil, fmt.Errorf("%w: producer %d begins epoch %d with %d", ErrOutOfOrderSequence, b.ProducerID(), epoch, first)
	case epoch > p.epoch:
		return nil, nil
	}
	last := addSequence(first, b.LastOffsetDelta())
	for i := range p.window[:p.count] {
		if w := &p.window[i]; w.firstSeq == first && w.lastSeq == last {
			return w, nil
		}
	}
	if first != p.nextSeq {
		return nil, fmt.Errorf("%w: producer %d, epoch %d: sequence %d, want %d", ErrOutOfOrderSequence, b.ProducerID(), epoch, first, p.nextSeq)
	}
	return nil, nil
}

// apply records an appended batch.
func (t producerTable) apply(b Batch, nowMs int64, ticket Ticket) {
	id, first := b.ProducerID(), b.BaseSequence()
	p := t[id]
	if p == nil {
		p = &producer{nextSeq: first, epoch: b.ProducerEpoch()}
		t[id] = p
	}
	if p.epoch != b.ProducerEpoch() || p.nextSeq != first {
		p.epoch, p.count = b.ProducerEpoch(), 0
	}
	if p.count == windowBatches {
		copy(p.window[:], p.window[1:])
		p.count--
	}
	last := addSequence(first, b.LastOffsetDelta())
	p.window[p.count] = producerBatch{firstSeq: first, lastSeq: last, base: b.BaseOffset(), last: b.LastOffset(), timestamp: b.MaxTimestamp(), ticket: ticket}
	p.count++
	p.nextSeq = addSequence(last, 1)
	p.lastSeenMs = nowMs
}

// truncate forgets batches that reach to end or beyond: the next sequence is again that of the first one forgotten.
// Batches that the window had already let go don't come back, so fewer than five duplicates are known for a while.
func (t producerTable) truncate(end int64) {
	for _, p := range t {
		for p.count > 0 && p.window[p.count-1].last >= end {
			p.count--
			p.nextSeq = p.window[p.count].firstSeq
		}
	}
}

// expire forgets producers that were idle for the duration.
func (t producerTable) expire(now time.Time, idle time.Duration) {
	limit := now.Add(-idle).UnixMilli()
	for id, p := range t {
		if p.lastSeenMs < limit {
			delete(t, id)
		}
	}
}

// addSequence wraps from 2^31-1 to 0.
func addSequence(seq, n int32) int32 { return int32((int64(seq) + int64(n)) & (1<<31 - 1)) }
