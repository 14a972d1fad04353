package core

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// read makes the answer to a follower's fetch: what is wrong, records in the order in which they came up, and what has moved. It may block on the disk.
func (s *followerSession) read(f *fetch) {
	s.reading.Lock()
	defer s.reading.Unlock()
	ready, moved := s.pick(f)
	left, found := int(f.maxBytes), false
	for i := range ready {
		p := &ready[i]
		s.readPart(p, left, found)
		found = found || p.size > 0
		left = max(0, left-p.size)
	}
	s.told(f, ready, moved)
}

// picked is a partition as it stands when an answer is made, and what the answer says of it.
type picked struct {
	fetchPart
	c      *copied
	ask    replica.FetchAsk
	isLate bool // there was no room
}

// pick takes what is to be answered. What only a newer fetch asks for is that one's: its follower wouldn't know what the answer is about.
func (s *followerSession) pick(f *fetch) (ready, moved []picked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = slices.DeleteFunc(s.ready, func(c *copied) bool {
		if c.askedIn > f.number || f.maxBytes <= 0 && !c.isTrouble() {
			return false
		}
		if c.isReady = false; c.sentIn == 0 || c.isTrouble() { // else its records are on their way
			ready = append(ready, c.pick())
		}
		return true
	})
	s.moved = slices.DeleteFunc(s.moved, func(c *copied) bool {
		if c.askedIn > f.number {
			return false
		}
		c.isMoved = false
		moved = append(moved, c.pick())
		return true
	})
	return ready, moved
}

func (c *copied) pick() picked {
	p := picked{c: c, ask: c.ask}
	p.id, p.index, p.next, p.maxBytes, p.epoch = c.id.Topic, c.id.Partition, c.ask.Next, c.maxBytes, c.ask.LeaderEpoch
	p.part, p.hw, p.start, p.errorCode, p.diverging = c.part, -1, -1, code(c.err), c.diverging
	return p
}

// readPart reads at most leftBytes of a partition, or, if nothing was found yet, at least one batch.
func (s *followerSession) readPart(p *picked, leftBytes int, found bool) {
	if p.part != nil {
		p.hw, p.start = p.part.HighWatermark(), p.part.Log().StartOffset()
	}
	if p.errorCode != 0 || p.diverging != nil || p.part == nil {
		return
	}
	if found && leftBytes == 0 {
		p.isLate = true
		return
	}
	log := p.part.Log()
	pieces, err := log.Read(p.next, log.EndOffset(), min(leftBytes, int(max(0, p.maxBytes))), nil)
	if refused := p.part.CheckEpoch(p.epoch); refused != nil { // what was read may be another leader's
		err = refused
	}
	if err != nil {
		if p.errorCode = code(err); errors.Is(err, storage.ErrCorrupt) {
			s.b.failures.say(s.b.log, slog.LevelError, s.b.cfg.Now(), "a follower's fetch failed", "topic", p.part.Topic, "partition", p.part.Index, "next", p.next,
				"follower", s.node, "error", err)
		}
		return
	}
	n := 0
	for _, piece := range pieces {
		n += len(piece)
	}
	if found && n > leftBytes {
		p.isLate = true
		return
	}
	p.pieces, p.size = pieces, n
}

// told brings the session up to date with an answer, and fills that.
func (s *followerSession) told(f *fetch, ready, moved []picked) {
	s.mu.Lock()
	isTold := make(map[*copied]bool, len(ready))
	var late []*copied
	for i := range ready {
		p := &ready[i]
		if p.isLate {
			if !p.c.isGone && !p.c.isReady {
				p.c.isReady = true
				late = append(late, p.c)
			}
			continue
		}
		if p.errorCode != 0 || p.diverging != nil || p.size > 0 {
			f.all = append(f.all, p.fetchPart)
			isTold[p.c] = true
			p.c.answered(p, f.number)
		}
	}
	s.ready = append(late, s.ready...)
	for i := range moved {
		if p := &moved[i]; !isTold[p.c] && p.errorCode == 0 && p.diverging == nil && p.part != nil {
			p.hw, p.start = p.part.HighWatermark(), p.part.Log().StartOffset()
			if p.hw != p.c.hw || p.start != p.c.start {
				f.all = append(f.all, p.fetchPart)
				p.c.hw, p.c.start = p.hw, p.start
			}
		}
	}
	s.unread--
	next := s.next()
	s.mu.Unlock()
	if next != nil {
		next.complete()
	}
}

// answered notes what was said of a partition. Called with mu held.
func (c *copied) answered(p *picked, number int64) {
	c.hw, c.start = p.hw, p.start
	switch {
	case p.errorCode != 0:
		c.hw, c.start = -1, -1
	case p.size > 0 && isSamePlace(&c.ask, &p.ask) && !c.isGone:
		if c.sentIn == 0 {
			c.s.sent = append(c.s.sent, c)
		}
		c.sentIn = number
	}
}
