package core

import (
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// copied is one partition of a session.
type copied struct {
	s  *followerSession
	id storage.LogID

	// What follows is guarded by the session's mu.
	ask       replica.FetchAsk
	maxBytes  int32
	askedIn   int64              // number of the fetch that has asked for this, another durable end apart
	part      *replica.Partition // nil: there is none
	tail      *replica.Tail      // on part, nil: none
	err       error              // to be told
	diverging *replica.Diverging // likewise
	hw, start int64              // as told
	sentIn    int64              // number of the fetch that was answered with what it asks for; 0: none
	isReady   bool
	isMoved   bool
	isGone    bool
}

// look finds a partition that is named, and tells it what its follower has. It returns the partition if all is well.
func (s *followerSession) look(c *copied, generation int64, now time.Time) *replica.Partition {
	s.mu.Lock()
	ask, err := c.ask, c.err
	s.mu.Unlock()
	var part *replica.Partition
	if err == nil {
		_, part, err = s.b.partitionByID(meta.ID(c.id.Topic), c.id.Partition)
	}
	if err == nil {
		err = s.watch(c, part, ask.LeaderEpoch)
	}
	var diverging *replica.Diverging
	if err == nil {
		diverging, err = part.Fetched(s.node, generation, ask, now)
	}
	if diverging != nil && diverging.Epoch < 0 { // no epoch and no end is what an answer has that doesn't diverge
		diverging.End = max(0, part.Log().StartOffset())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.tail == nil && err == nil { // it stopped leading meanwhile
		err = replica.ErrNotLeader
	}
	c.err, c.diverging = err, diverging
	if err != nil || diverging != nil {
		c.push()
		return nil
	}
	c.offer()
	c.pushMoved()
	return part
}

// watch has a partition tell of itself, unless it does already.
func (s *followerSession) watch(c *copied, part *replica.Partition, epoch int32) error {
	s.mu.Lock()
	old, tail := c.part, c.tail
	if tail != nil && old == part {
		s.mu.Unlock()
		return nil
	}
	c.part, c.tail = part, c.newTail()
	fresh := c.tail
	s.mu.Unlock()
	if tail != nil {
		old.UnwatchEnd(tail)
	}
	err := part.WatchEnd(fresh)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	c.tail = nil
	s.mu.Unlock()
	return errOf(part.CheckEpoch(epoch), err) // that tells more
}

func (c *copied) newTail() *replica.Tail {
	var t *replica.Tail
	t = replica.NewTail(func(news replica.TailNews) { c.tell(t, news) })
	return t
}

// tell takes what has become of a partition.
func (c *copied) tell(from *replica.Tail, news replica.TailNews) {
	s := c.s
	s.mu.Lock()
	switch {
	case c.isGone:
	case news == replica.TailMoved:
		c.pushMoved()
	case news == replica.TailGrown:
		c.offer()
	case c.tail == from: // it is led here no more
		c.tail, c.err = nil, replica.ErrNotLeader
		c.push()
	}
	f := s.next()
	s.mu.Unlock()
	if f != nil {
		f.complete()
	}
}

// offer makes a partition ready whose log has what its follower lacks, unless that is on its way. Called with the session's mu held, as the next two.
func (c *copied) offer() {
	if c.part != nil && c.sentIn == 0 && c.part.Log().EndOffset() > c.ask.Next {
		c.push()
	}
}

func (c *copied) push() {
	if !c.isReady && !c.isGone {
		c.isReady = true
		c.s.ready = append(c.s.ready, c)
	}
}

func (c *copied) pushMoved() {
	if !c.isMoved && !c.isGone {
		c.isMoved = true
		c.s.moved = append(c.s.moved, c)
	}
}
