package replica

import (
	"slices"
	"sort"
	"time"

	"github.com/weirlog/weir/storage"
)

// follower is what the leader knows of another replica, in this epoch.
type follower struct {
	end, durableEnd int64 // of its log, as it said; both may only be trusted up to where the logs agree, which is checked first
	generation      int64 // of its broker
	hasAsked        bool
	leaderEnd       int64     // of the leader's log, once: what it has to reach next to be in time
	endedAt         time.Time // when that was the end
	caughtUp        time.Time // the newest time known of which all that the leader had then is durable there
}

// keepUp notes when the follower was in time. Records come all the while, so it is measured by an end that stands until it is reached.
func (f *follower) keepUp(end int64, now time.Time) {
	switch {
	case f.durableEnd >= end:
		f.caughtUp = now
	case !f.hasAsked:
	case f.durableEnd < f.leaderEnd:
		return
	case f.endedAt.After(f.caughtUp):
		f.caughtUp = f.endedAt
	}
	f.leaderEnd, f.endedAt = end, now
}

// Diverging tells a follower that its log isn't the leader's: Epoch is the newest epoch that the leader has, at most the follower's newest,
// and End where it ends; both -1 if the leader has none.
type Diverging struct {
	Epoch int32
	End   int64
}

// Fetched takes what a follower asks for, at the leader. If its log agrees with this one, its ends count, and move the high watermark. Else
// nothing counts, and the follower is told where they part. Errors: CheckEpoch's, ErrNotReplica, and
// storage.ErrOffsetOutOfRange when the log begins behind what it asks for.
func (p *Partition) Fetched(node int32, generation int64, ask FetchAsk, now time.Time) (*Diverging, error) {
	var e effects
	p.mu.Lock()
	d, err := p.fetched(node, generation, ask, now)
	if err == nil && d == nil {
		p.raise(&e)
	}
	p.mu.Unlock()
	e.run()
	return d, err
}

func (p *Partition) fetched(node int32, generation int64, ask FetchAsk, now time.Time) (*Diverging, error) {
	if err := p.checkEpoch(ask.LeaderEpoch); err != nil {
		return nil, err
	}
	f := p.followers[node]
	if f == nil {
		return nil, ErrNotReplica
	}
	if ask.Next < p.log.StartOffset() {
		return nil, storage.ErrOffsetOutOfRange
	}
	if ask.LastEpoch >= 0 && !p.faults.SkipDivergence {
		if epoch, end := p.log.EndOfEpoch(ask.LastEpoch); epoch != ask.LastEpoch || end < ask.Next {
			return &Diverging{Epoch: epoch, End: end}, nil
		}
	}
	end := p.log.EndOffset()
	if ask.Next > end {
		return &Diverging{Epoch: p.log.LeaderEpoch(), End: end}, nil
	}
	f.end, f.durableEnd, f.generation = ask.Next, min(ask.DurableEnd, ask.Next), generation
	if p.faults.CountEnds {
		f.durableEnd = f.end
	}
	f.keepUp(end, now)
	f.hasAsked = true
	return nil, nil
}

// Unchanged says that a follower was heard at the time given and still wanted then what it asked for last.
func (p *Partition) Unchanged(node int32, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.followers[node]; f != nil && f.hasAsked && at.After(f.caughtUp) {
		f.keepUp(p.log.EndOffset(), at)
	}
}

// WantsReview says that a replica that isn't in the in-sync set could be.
func (p *Partition) WantsReview() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil || !p.isLeading() || p.wish != nil || len(p.assigned.ISR) == len(p.assigned.Replicas) {
		return false
	}
	return slices.ContainsFunc(p.assigned.Replicas, func(id int32) bool {
		return id != p.self && !slices.Contains(p.assigned.ISR, id) && p.isInSync(p.followers[id])
	})
}

// raise moves the high watermark to the least durable end of the in-sync set, those counted whom a wish would add. It never goes back, nor
// moves while a member has not said where it is. Called with mu held.
func (p *Partition) raise(e *effects) {
	if p.closed != nil || !p.isLeading() {
		return
	}
	end := p.log.DurableEnd()
	if p.faults.AckAtEnd {
		end = p.log.EndOffset()
	}
	for _, id := range p.assigned.ISR {
		end = p.lower(end, id)
	}
	if p.wish != nil && !p.faults.TrustOldISR {
		for _, id := range p.wish.ISR {
			end = p.lower(end, id)
		}
	}
	if end <= p.hw {
		return
	}
	before := p.totalAt(p.hw)
	p.hw = end
	p.log.SetStableEnd(end)
	grown := p.totalAt(p.hw) - before
	if grown <= 0 { // they came to this node before it led
		grown = manyBytes
	}
	e.tails, e.news = p.tails, TailMoved
	n := sort.Search(len(p.acks), func(i int) bool { return p.acks[i].end > end })
	for _, a := range p.acks[:n] {
		var err error
		if len(p.assigned.ISR) < a.minISR {
			err = ErrNotEnoughLate
		}
		e.answer(a, err)
	}
	p.acks = append(p.acks[:0], p.acks[n:]...)
	for _, w := range p.watchers {
		if w.add(grown) {
			e.fire = append(e.fire, w)
		}
	}
	p.trimMarks()
}

// lower is the lesser of end and the durable end of a member.
func (p *Partition) lower(end int64, id int32) int64 {
	if id == p.self {
		return end
	}
	f := p.followers[id]
	if f == nil || !f.hasAsked {
		return min(end, p.hw)
	}
	return min(end, f.durableEnd)
}

// IsSettled says that this node leads, and that all from before its epoch is on the whole in-sync set: only then is the high
// watermark not below one that was known before (KIP-207).
func (p *Partition) IsSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed == nil && p.isLeading() && p.hw >= p.epochStart
}

// Review is the in-sync set that the leader wants, if it is another than it has and no wish is under way: without followers that have been behind for
// longer than lag, with those that have caught up with the high watermark and the epoch's start and that may join says are welcome (active, in that
// generation). From then on those to be added count for the high watermark, until Assign or Withdraw.
func (p *Partition) Review(now time.Time, lag time.Duration, mayJoin func(node int32, generation int64) bool) (ISRWish, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil || !p.isLeading() || p.wish != nil {
		return ISRWish{}, false
	}
	w := ISRWish{LeaderEpoch: p.assigned.LeaderEpoch, PartitionEpoch: p.assigned.PartitionEpoch}
	for _, id := range p.assigned.Replicas {
		f := p.followers[id]
		isMember := slices.Contains(p.assigned.ISR, id)
		switch {
		case id == p.self:
		case isMember && now.Sub(f.caughtUp) <= lag:
		case !isMember && p.isInSync(f) && mayJoin(id, f.generation):
		default:
			continue
		}
		w.ISR = append(w.ISR, id)
		w.Generations = append(w.Generations, 0)
		if f != nil {
			w.Generations[len(w.ISR)-1] = f.generation
		}
	}
	if len(w.ISR) == len(p.assigned.ISR) && !slices.ContainsFunc(w.ISR, func(id int32) bool { return !slices.Contains(p.assigned.ISR, id) }) {
		return ISRWish{}, false
	}
	p.wish = &w
	return w, true
}

// isInSync says that a follower has what it must have to be in the set: all that was acknowledged by it.
func (p *Partition) isInSync(f *follower) bool {
	if p.faults.JoinEarly {
		return f.hasAsked
	}
	return f.hasAsked && f.durableEnd >= p.hw && f.durableEnd >= p.epochStart
}

// Wish is the one under way, if any: what has to be asked for again when its fate is unknown.
func (p *Partition) Wish() (ISRWish, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wish == nil {
		return ISRWish{}, false
	}
	return *p.wish, true
}

// Withdraw gives up a wish that was refused, after every Assign that the metadata had before the refusal. Never one whose fate is unknown: it may have
// been granted, and then whom it added may lead next.
func (p *Partition) Withdraw(w ISRWish) {
	var e effects
	p.mu.Lock()
	if p.wish != nil && p.wish.LeaderEpoch == w.LeaderEpoch && p.wish.PartitionEpoch == w.PartitionEpoch {
		p.wish = nil
		p.raise(&e)
	}
	p.mu.Unlock()
	e.run()
}

// Status is one replica as the leader knows it.
type Status struct {
	Node            int32
	End, DurableEnd int64 // -1: it has said nothing yet
	IsInSync        bool
	CaughtUp        time.Time // zero for this node itself
}

// Replicas is every replica, in the assignment's order; nil where this node doesn't lead.
func (p *Partition) Replicas() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isLeading() {
		return nil
	}
	var all []Status
	for _, id := range p.assigned.Replicas {
		s := Status{Node: id, End: -1, DurableEnd: -1, IsInSync: slices.Contains(p.assigned.ISR, id)}
		if f := p.followers[id]; f != nil {
			s.CaughtUp = f.caughtUp
			if f.hasAsked {
				s.End, s.DurableEnd = f.end, f.durableEnd
			}
		} else if id == p.self {
			s.End, s.DurableEnd = p.log.EndOffset(), p.log.DurableEnd()
		}
		all = append(all, s)
	}
	return all
}
