package core

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

const (
	// reviewPause is how often in-sync sets that lack a replica are looked at, besides when it is told of one that could join.
	reviewPause = 100 * time.Millisecond
	// sweepPause is the most between two looks at all that is led.
	sweepPause = time.Second
	// maxISRChanges bounds one proposal; the rest waits for the next.
	maxISRChanges = 1000
)

// isr is what a replicator knows of the partitions that this node leads and others copy. Guarded by the replicator's lock.
type isr struct {
	led     map[*replica.Partition]bool // true: its in-sync set lacks a replica
	short   int                         // so many do
	timer   *timer                      // of the next review
	when    time.Time                   // its time
	swept   time.Time                   // when all were looked at
	isAsked bool                        // a proposal is under way
	isDue   bool                        // a review was wanted meanwhile
	doubts  map[*replica.Partition]doubt
}

// doubt is a wish, by its epochs, of which a proposal's fate is unknown. It may come into the log even after it was proposed again and refused then: so
// it isn't given up before the partition has another epoch.
type doubt struct {
	leaderEpoch, partitionEpoch int32
	isRefused                   bool
}

func (s *isr) init() {
	s.led, s.doubts = make(map[*replica.Partition]bool), make(map[*replica.Partition]doubt)
}

// keep notes whether a partition is led, with others to look after, and whether one is missing.
func (s *isr) keep(p *replica.Partition, isLed, isShort bool) {
	if s.led[p] {
		s.short--
	}
	if isLed && isShort {
		s.short++
	}
	if isLed {
		s.led[p] = isShort
	} else {
		delete(s.led, p)
		delete(s.doubts, p)
	}
}

// doubtOf is the doubt about a wish; false if there is none.
func (s *isr) doubtOf(p *replica.Partition, w *replica.ISRWish) (doubt, bool) {
	d, ok := s.doubts[p]
	return d, ok && d.leaderEpoch == w.LeaderEpoch && d.partitionEpoch == w.PartitionEpoch
}

// isrWish is a partition with the in-sync set that is wanted.
type isrWish struct {
	p *replica.Partition
	w replica.ISRWish
}

// scheduleReview has the clock review: soon after something is known that changes a set, else after reviewPause, if there is a set that
// may grow or a wish of unknown fate, or when all are to be looked at.
func (r *replicator) scheduleReview(now time.Time, soon bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.isr
	if len(s.led) == 0 {
		return
	}
	if s.isAsked {
		s.isDue = s.isDue || soon
		return
	}
	at := now
	switch {
	case soon:
	case s.short+len(s.doubts) > 0:
		at = now.Add(reviewPause)
	default:
		at = now.Add(r.sweepEvery())
	}
	if s.timer != nil {
		if !s.when.After(at) || !r.b.timers.stop(s.timer) {
			return
		}
	}
	s.when = at
	s.timer = r.b.timers.at(at, r.review)
}

// review asks for in-sync sets other than those that there are. One proposal is under way at a time, so that a cluster that
// can't agree isn't asked for ever more.
func (r *replicator) review(now time.Time) {
	wishes := r.wishes(now)
	if len(wishes) == 0 {
		r.scheduleReview(now, false)
		return
	}
	c := &meta.AlterPartitions{Broker: r.b.cfg.NodeID, Generation: r.b.generation.Load()}
	for i := range wishes {
		c.Changes = append(c.Changes, r.change(&wishes[i]))
	}
	r.b.propose(meta.Command{AlterPartitions: c}, now, func(result meta.Result, err error) { r.decided(wishes, result, err) })
}

// change is what is proposed for a wish. For one that was refused, but may come into the log by an earlier proposal, it is the present in-sync set:
// that gives the partition another epoch, or finds that it has one.
func (r *replicator) change(wish *isrWish) meta.ISRChange {
	id, w := wish.p.Log().ID(), wish.w
	r.mu.Lock()
	d, ok := r.isr.doubtOf(wish.p, &w)
	r.mu.Unlock()
	if a, _ := wish.p.Assigned(); ok && d.isRefused && a.PartitionEpoch == w.PartitionEpoch {
		w.ISR, w.Generations = a.ISR, make([]int64, len(a.ISR))
	}
	return meta.ISRChange{ID: id.Topic, Partition: id.Partition, LeaderEpoch: w.LeaderEpoch, PartitionEpoch: w.PartitionEpoch, ISR: w.ISR, Generations: w.Generations}
}

// wishes is what is wanted now; isAsked is set if that is anything.
func (r *replicator) wishes(now time.Time) []isrWish {
	r.mu.Lock()
	s := &r.isr
	s.timer = nil
	isSweep := now.Sub(s.swept) >= r.sweepEvery() || now.Before(s.swept)
	if isSweep {
		s.swept = now
	}
	parts := make([]*replica.Partition, 0, len(s.led))
	for p, isShort := range s.led {
		if _, isDoubtful := s.doubts[p]; isSweep || isShort || isDoubtful {
			parts = append(parts, p)
		}
	}
	r.mu.Unlock()
	if r.b.generation.Load() == 0 {
		return nil
	}
	slices.SortFunc(parts, byTopicAndIndex)
	if isSweep {
		r.b.followers.sweep(now)
	}
	active := r.activeOthers()
	mayJoin := func(node int32, generation int64) bool { return generation > 0 && active[node] == generation }
	var wishes []isrWish
	var settled []*replica.Partition
	for _, p := range parts {
		w, ok := p.Wish() // one whose fate is unknown
		if !ok {
			settled = append(settled, p)
			w, ok = p.Review(now, r.b.cfg.ReplicaLag, mayJoin)
		}
		if ok {
			wishes = append(wishes, isrWish{p, w})
		}
		if len(wishes) == maxISRChanges {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.isAsked = len(wishes) > 0
	for _, p := range settled {
		delete(s.doubts, p)
	}
	return wishes
}

// sweepEvery is how often all that is led is looked at: often enough for the lag.
func (r *replicator) sweepEvery() time.Duration {
	return min(sweepPause, max(reviewPause, r.b.cfg.ReplicaLag/10))
}

func byTopicAndIndex(a, b *replica.Partition) int {
	if a.Topic != b.Topic {
		return strings.Compare(a.Topic, b.Topic)
	}
	return int(a.Index - b.Index)
}

// activeOthers is the generations of the brokers that may be in sync.
func (r *replicator) activeOthers() map[int32]int64 {
	active := make(map[int32]int64)
	r.b.meta.View(func(img *meta.Image) {
		for _, n := range img.Brokers() {
			if n.State == meta.BrokerActive {
				active[n.ID] = n.Generation
			}
		}
	})
	return active
}

// decided takes what has become of a proposal. What was granted has been assigned by now; what was refused is given up; and what nobody knows the fate of
// stays a wish, so that it is asked for again.
func (r *replicator) decided(wishes []isrWish, result meta.Result, err error) {
	for i := range wishes {
		isRefused := isRefusal(err) || err == nil && i < len(result.Refused) && result.Refused[i] != nil
		if r.settle(&wishes[i], isRefused, err) {
			wishes[i].p.Withdraw(wishes[i].w)
		}
	}
	now := r.b.cfg.Now()
	r.mu.Lock()
	isDue := r.isr.isDue && err == nil || len(wishes) == maxISRChanges && err == nil
	r.isr.isAsked, r.isr.isDue = false, false
	r.mu.Unlock()
	r.scheduleReview(now, isDue)
}

// settle notes what is known of a wish now. true: it is to be given up.
func (r *replicator) settle(wish *isrWish, isRefused bool, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, isDoubtful := r.isr.doubtOf(wish.p, &wish.w)
	switch {
	case isRefused && !isDoubtful:
		return true
	case isRefused:
		d.isRefused = true
		r.isr.doubts[wish.p] = d
	case err != nil && !isDoubtful:
		r.isr.doubts[wish.p] = doubt{wish.w.LeaderEpoch, wish.w.PartitionEpoch, false}
	}
	return false
}

// isRefusal says that a proposal was surely not made, rather than that its fate is unknown.
func isRefusal(err error) bool {
	for _, sure := range []error{meta.ErrStaleBroker, meta.ErrUnknownNode, meta.ErrTooLarge, storage.ErrDiskFull, storage.ErrBusy} {
		if errors.Is(err, sure) {
			return true
		}
	}
	return false
}
