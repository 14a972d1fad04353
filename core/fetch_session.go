package core

import (
	"encoding/binary"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch sessions (KIP-227): the broker remembers what a client fetches and what it was told last, so that a client with
// hundreds of partitions sends and gets only what has changed. The client numbers its fetches; a number out of order ends in
// an error that makes it begin anew, so a session can be dropped at any time.

const (
	maxFetchSessions     = 1000
	fetchSessionShare    = 16              // of Config.MemoryBytes, an nth is for sessions
	fetchSessionEviction = 2 * time.Minute // a session idle for longer goes for any new one; one this old for a larger one
	sessionBytes         = 512             // of memory, about, without partitions
	sessionPartBytes     = 320             // of one partition: the struct, its place in the order and in the map

	sessionInitial = 0  // epoch that asks for a new session
	sessionFinal   = -1 // epoch that wants none
)

// fetchKey names a partition as the client does: by its topic's name, or from version 13 on by its id.
type fetchKey struct {
	name  string
	id    [16]byte
	index int32
}

// fetchAsk is what a client asks of one partition.
type fetchAsk struct {
	fetchKey
	next     int64
	maxBytes int32
	epoch    int32 // the leader epoch that the client believes in; -1: none
}

// sessionPart is one partition of a session.
type sessionPart struct {
	fetchAsk
	hw, start int64 // as answered last; -1 after an error
	isGone    bool
}

// fetchSession is one client's. Its lock and that of fetchSessions are never held together.
type fetchSession struct {
	id      int32
	usesIDs bool      // topics are named by their ids
	created time.Time // these do not change

	lastUsed time.Time // guarded by fetchSessions.mu
	size     int       // likewise: partitions
	bytes    int64     // likewise

	mu    sync.Mutex
	epoch int32 // that the next fetch must have
	parts map[fetchKey]*sessionPart
	order []*sessionPart // those that had records last are at the end
}

// fetchSessions is all sessions, bounded in number and memory.
type fetchSessions struct {
	rand       io.Reader
	limitBytes int64

	mu      sync.Mutex
	byID    map[int32]*fetchSession
	bytes   int64
	parts   int
	evicted int64
}

func newFetchSessions(limitBytes int64, rand io.Reader) *fetchSessions {
	return &fetchSessions{rand: rand, limitBytes: limitBytes, byID: map[int32]*fetchSession{}}
}

func (c *fetchSessions) get(id int32) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// size is how many partitions a session has, 0 if there is none.
func (c *fetchSessions) size(id int32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[id]; s != nil {
		return s.size
	}
	return 0
}

// mayHold says that a session of so many partitions fits, were it the only one.
func (c *fetchSessions) mayHold(partitions int) bool {
	return sessionBytes+int64(partitions)*sessionPartBytes <= c.limitBytes
}

// counts is how many sessions and partitions there are now, and how many sessions had to go for others.
func (c *fetchSessions) counts() (sessions, partitions int, evicted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID), c.parts, c.evicted
}

// remove ends a session, if it is there.
func (c *fetchSessions) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.byID[id])
}

func (c *fetchSessions) drop(s *fetchSession) {
	if s != nil {
		delete(c.byID, s.id)
		c.bytes -= s.bytes
		c.parts -= s.size
	}
}

// create makes a session of what was asked and answered. nil: there is no room for it, and the client will ask for everything again.
func (c *fetchSessions) create(usesIDs bool, parts []*sessionPart, now time.Time) *fetchSession {
	s := &fetchSession{usesIDs: usesIDs, created: now, lastUsed: now, epoch: sessionInitial + 1, parts: make(map[fetchKey]*sessionPart, len(parts))}
	s.bytes = sessionBytes
	for _, p := range parts {
		s.put(p)
	}
	for _, p := range s.order {
		s.bytes += p.bytes()
	}
	s.size = len(s.order)
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.byID) >= maxFetchSessions || c.bytes+s.bytes > c.limitBytes {
		if !c.evict(s.size, now) {
			return nil
		}
	}
	for s.id == 0 || c.byID[s.id] != nil {
		var b [4]byte
		if _, err := io.ReadFull(c.rand, b[:]); err != nil {
			return nil
		}
		s.id = int32(binary.BigEndian.Uint32(b[:]) >> 1)
	}
	c.byID[s.id] = s
	c.bytes += s.bytes
	c.parts += s.size
	return s
}

// evict makes room for a session of size partitions: the one that was idle longest goes if that is long enough, else the smallest of
// those that have lived long enough, if it is smaller. It reports whether one went.
func (c *fetchSessions) evict(size int, now time.Time) bool {
	var idle, smallest *fetchSession
	for _, s := range c.byID {
		if idle == nil || s.lastUsed.Before(idle.lastUsed) {
			idle = s
		}
		isOld := now.Sub(s.created) > fetchSessionEviction
		if isOld && (smallest == nil || s.size < smallest.size || s.size == smallest.size && s.id < smallest.id) {
			smallest = s
		}
	}
	switch {
	case idle != nil && now.Sub(idle.lastUsed) > fetchSessionEviction:
		c.drop(idle)
	case smallest != nil && smallest.size < size:
		c.drop(smallest)
	default:
		return false
	}
	c.evicted++
	return true
}

// touch notes that s is in use and how large it is now. false: it was evicted meanwhile, or has outgrown the memory there is.
func (c *fetchSessions) touch(s *fetchSession, size int, bytes int64, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[s.id] != s {
		return false
	}
	c.bytes += bytes - s.bytes
	c.parts += size - s.size
	s.size, s.bytes, s.lastUsed = size, bytes, now
	return c.bytes <= c.limitBytes
}

// bytes is about what a partition takes.
func (p *sessionPart) bytes() int64 { return sessionPartBytes + int64(len(p.name)) }

// put adds a partition, or replaces what is asked of it.
func (s *fetchSession) put(p *sessionPart) {
	if old := s.parts[p.fetchKey]; old != nil {
		*old = *p
		return
	}
	s.parts[p.fetchKey] = p
	s.order = append(s.order, p)
}

// next takes an incremental fetch: it checks its number, applies its changes, and answers the partitions to serve, in order, and
// what the session weighs now. The error is for the whole fetch.
func (s *fetchSession) next(r *kmsg.FetchRequest) (parts []fetchPart, bytes int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if usesIDs := r.Version >= 13; usesIDs != s.usesIDs {
		return nil, 0, kerr.FetchSessionTopicIDError
	}
	if r.SessionEpoch != s.epoch {
		return nil, 0, kerr.InvalidFetchSessionEpoch
	}
	s.epoch = nextSessionEpoch(s.epoch)
	for a := range asksOf(r) {
		if old := s.parts[a.fetchKey]; old != nil {
			old.fetchAsk = a
		} else {
			s.put(&sessionPart{fetchAsk: a, hw: -1, start: -1})
		}
	}
	s.forget(r)
	bytes = sessionBytes
	parts = make([]fetchPart, len(s.order))
	for i, p := range s.order {
		bytes += p.bytes()
		parts[i].cached, parts[i].fetchAsk = p, p.fetchAsk
	}
	return parts, bytes, nil
}

// forget drops the partitions that a fetch no longer wants.
func (s *fetchSession) forget(r *kmsg.FetchRequest) {
	gone := 0
	for i := range r.ForgottenTopics {
		t := &r.ForgottenTopics[i]
		for _, index := range t.Partitions {
			key := fetchKey{name: t.Topic, id: t.TopicID, index: index}
			if p := s.parts[key]; p != nil {
				delete(s.parts, key)
				p.isGone = true
				gone++
			}
		}
	}
	if gone == 0 {
		return
	}
	kept := make([]*sessionPart, 0, len(s.order)-gone)
	for _, p := range s.order {
		if !p.isGone {
			kept = append(kept, p)
		}
	}
	s.order = kept
}

// answer notes what is answered and leaves out what the client knows. epoch is what next left: another one means that the client
// has asked twice at once. Partitions with records go to the end, so that each gets its turn at the head.
func (s *fetchSession) answer(epoch int32, parts []fetchPart) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		return kerr.InvalidFetchSessionEpoch
	}
	served := map[*sessionPart]bool{}
	for i := range parts {
		p := &parts[i]
		c := p.cached
		p.isKnown = p.errorCode == 0 && p.size == 0 && p.hw == c.hw && p.start == c.start
		c.hw, c.start = p.hw, p.start
		if p.errorCode != 0 {
			c.hw, c.start = -1, -1 // they are sent again when the error is gone
		}
		if p.size > 0 {
			served[c] = true
		}
	}
	if len(served) == 0 || len(served) == len(s.order) {
		return nil
	}
	order := make([]*sessionPart, 0, len(s.order))
	for _, isServed := range []bool{false, true} {
		for _, c := range s.order {
			if served[c] == isServed {
				order = append(order, c)
			}
		}
	}
	s.order = order
	return nil
}

// nextSessionEpoch follows epoch; it never gets to 0 or below again.
func nextSessionEpoch(epoch int32) int32 { return max(1, epoch+1) }

// asksOf is what a fetch asks for, in its order.
func asksOf(r *kmsg.FetchRequest) iter.Seq[fetchAsk] {
	return func(yield func(fetchAsk) bool) {
		for i := range r.Topics {
			t := &r.Topics[i]
			for j := range t.Partitions {
				p := &t.Partitions[j]
				if !yield(fetchAsk{fetchKey{t.Topic, t.TopicID, p.Partition}, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch}) {
					return
				}
			}
		}
	}
}
