package core

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// answerOrWait answers a fetch for which there is something, or that begins the session; others wait.
func (s *followerSession) answerOrWait(f *fetch, r *kmsg.FetchRequest, now time.Time) {
	wait := min(time.Duration(r.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	s.mu.Lock()
	isNow := r.SessionEpoch == sessionInitial || wait <= 0 || s.parts == nil || s.hasNews(f)
	if isNow {
		s.unread++
	} else {
		s.waiting = f
		f.timer = s.b.after(now, wait, func(time.Time) { s.expire(f) })
	}
	s.mu.Unlock()
	if isNow {
		f.done(f)
	}
}

// next is the waiting fetch, if it has something to be answered with. Called with mu held; whoever gets it completes it.
func (s *followerSession) next() *fetch {
	if s.waiting == nil || !s.hasNews(s.waiting) {
		return nil
	}
	f := s.waiting
	s.waiting = nil
	s.unread++
	return f
}

// hasNews says that there is something to answer a fetch with that the answers before it don't take. Called with mu held.
func (s *followerSession) hasNews(f *fetch) bool {
	switch {
	case s.unread > 0:
		return false
	case f.maxBytes > 0:
		return len(s.ready) > 0
	}
	return slices.ContainsFunc(s.ready, (*copied).isTrouble)
}

// isTrouble says that there is something else to tell than records.
func (c *copied) isTrouble() bool { return c.err != nil || c.diverging != nil }

// expire answers a fetch that has waited long enough.
func (s *followerSession) expire(f *fetch) {
	s.mu.Lock()
	isWaiting := s.waiting == f
	if isWaiting {
		s.waiting = nil
		s.unread++
	}
	s.mu.Unlock()
	if isWaiting {
		f.complete()
	}
}

// complete answers a fetch that waited; it was taken from its session.
func (f *fetch) complete() {
	f.b.timers.stop(f.timer)
	f.done(f)
}

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
