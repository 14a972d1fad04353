package core

import (
	"sync/atomic"
	"time"
)

// lostElections is how many election timeouts a node may be without leader of the metadata's group until it takes itself for cut off: some elections
// are split.
const lostElections = 2

// pace is when what Step does is due, besides timers.
type pace struct {
	hasNews atomic.Bool // something has changed that Step looks at

	// What follows is the stepping goroutine's.
	touched   time.Time // when there was a leader of the metadata's group last, as far as this node can know
	releaseAt time.Time // while it is cut off: who waits in vain is answered
	tickAt    time.Time // the metadata's group is told the time; zero: not before there are news
	lookAt    time.Time // likewise this node's way into the cluster and out of it is looked at, and what the group's leader has to see to
}

// Step does all that is due at now: the time of the metadata's group, this node's way into its cluster and out of it, what the group's leader has to
// see to, and timers. It returns the next deadline, zero if there is none. It is the broker's one entry for time; Run calls it, and so do tests and
// simulations that step a broker themselves: when it is due, and when the broker IsWoken.
func (b *Broker) Step(now time.Time) time.Time {
	p := &b.pace
	hasNews := p.hasNews.Swap(false)
	isTick := isDue(p.tickAt, now)
	if hasNews || isTick {
		p.tickAt = b.stepMeta(now)
	}
	if hasNews || isTick || isDue(p.lookAt, now) {
		p.lookAt = earliest(b.stepLogs(now), b.stepMember(now), b.stepDuty(now), b.stepLeaving(now))
	}
	return earliest(p.tickAt, p.lookAt, b.timers.step(now))
}

// news has Step look at everything, soon. It may be called under any lock.
func (b *Broker) news() {
	b.pace.hasNews.Store(true)
	b.timers.poke()
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest is the first of some times, zero ones apart.
func earliest(times ...time.Time) (first time.Time) {
	for _, at := range times {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// stepMeta gives the metadata's group its time, and notes who leads it. It returns when it is due again.
func (b *Broker) stepMeta(now time.Time) time.Time {
	next := b.meta.Tick(now)
	b.isClocked.Store(!next.IsZero())
	b.noteLeader()
	if err := b.meta.Err(); err != nil {
		b.end(err)
	}
	b.isSilent.Store(b.meta.IsSilent() || b.Err() != nil)
	b.noteTouch(now)
	return next
}

// noteTouch sees whether this node has lost the group's leader for longer than it takes to elect another.
func (b *Broker) noteTouch(now time.Time) {
	p := &b.pace
	switch leader := b.leader.Load(); {
	case p.touched.IsZero(), b.peers == nil:
		p.touched = now
	case leader == b.cfg.NodeID: // a majority has answered it since
		p.touched = later(p.touched, now.Add(-b.cfg.ElectionTimeout))
	case leader != 0:
		p.touched = later(p.touched, b.meta.Heard(leader))
	}
	isCutOff := now.Sub(p.touched) > b.cfg.Session+lostElections*b.cfg.ElectionTimeout
	if b.isCutOff.Swap(isCutOff) != isCutOff {
		b.log.Info("contact with the metadata's leader", "lost", isCutOff)
		p.releaseAt = now
	}
	if isCutOff && !now.Before(p.releaseAt) {
		p.releaseAt = now.Add(b.cfg.Session)
		b.release()
	}
}

// release answers those who wait at partitions that are out of touch: they may have better luck elsewhere.
func (b *Broker) release() {
	for _, t := range b.topics.all() {
		for _, p := range t.local() {
			if err := b.outOfTouch(p); err != nil {
				p.Release(err)
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// noteLeader keeps who leads the group where it can be looked at under any lock. It says whether that has changed.
func (b *Broker) noteLeader() bool {
	leader, _ := b.meta.Leader()
	return b.leader.Swap(leader) != leader
}

// Err is why the broker must end, nil if it need not: the metadata's group can't go on here, or there is another node with the same id.
func (b *Broker) Err() error {
	if err := b.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// end has the broker end with this error, unless there is one already.
func (b *Broker) end(err error) {
	if b.fault.CompareAndSwap(nil, &err) {
		b.news()
	}
}
