package core

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// The leader's side of replication. A follower has one fetch session, in which each partition that it copies from here is named once, and again when
// what is asked of it has changed. The session doesn't look at its partitions, they tell it (replica.Tail): so a fetch costs what has happened, not what
// there is. A fetch is answered when there are records for it, when something is wrong, when a newer one comes, or after its max wait.
//
// Differences from a client's session: two fetches may be under way; one that begins a session is answered at once; errors and divergences are told once;
// a partition that is forgotten and named in one request is named anew; one of max bytes 0 is answered with no records.

// followerSessions is the session of each follower, by node.
type followerSessions struct {
	mu     sync.Mutex
	byNode map[int32]*followerSession
}

// longestSilence is how long a session is kept whose follower says nothing.
const longestSilence = time.Minute

// followerSession is one follower's.
//
// Lock order: reading and taking, then mu, then a log's. No partition is called under mu but for its log's end.
type followerSession struct {
	b    *Broker
	node int32
	id   int32

	taking  sync.Mutex // one fetch at a time is taken in,
	reading sync.Mutex // and one answer made

	mu      sync.Mutex
	broker  int64 // its generation, as the newest fetch says
	epoch   int32 // that the next fetch must have
	number  int64 // of the newest fetch
	asked   time.Time
	parts   map[storage.LogID]*copied
	order   []*copied // in which they were named first
	ready   []*copied // that there is something to answer about, in the order in which it came up
	moved   []*copied // whose high watermark or start isn't what was told; said with the next answer
	sent    []*copied // whose records are on their way
	waiting *fetch
	unread  int // answers that were completed and whose records aren't read yet
}

// handleFollowerFetch is Fetch from a node of the cluster that copies partitions.
func handleFollowerFetch(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.FetchRequest)
	f := &fetch{FetchResponse: kmsg.NewPtrFetchResponse(), b: b, maxBytes: min(r.MaxBytes, b.cfg.ReplicaFetchBytes), done: done}
	f.SetVersion(req.Version)
	s, err := b.followers.find(b, req.Peer, r)
	if err == nil {
		err = s.take(f, r, req.Now)
	}
	if err != nil {
		f.ErrorCode = code(err)
		done(f)
	}
}

// find is the session that a fetch belongs to, a new one if it begins one.
func (fs *followerSessions) find(b *Broker, node int32, r *kmsg.FetchRequest) (*followerSession, error) {
	fs.mu.Lock()
	old := fs.byNode[node]
	if r.SessionEpoch != sessionInitial {
		fs.mu.Unlock()
		if old == nil || old.id != r.SessionID {
			return nil, kerr.FetchSessionIDNotFound
		}
		return old, nil
	}
	var id [4]byte
	if _, err := io.ReadFull(b.cfg.Rand, id[:]); err != nil {
		fs.mu.Unlock()
		return nil, fmt.Errorf("draw session id: %w", err)
	}
	s := &followerSession{b: b, node: node, id: int32(binary.BigEndian.Uint32(id[:])>>1) | 1, parts: make(map[storage.LogID]*copied)}
	if fs.byNode == nil {
		fs.byNode = make(map[int32]*followerSession)
	}
	fs.byNode[node] = s
	fs.mu.Unlock()
	if old != nil {
		old.end()
	}
	return s, nil
}

// asked is when a node has fetched from here last, in whatever session it has now; zero: it has none.
func (fs *followerSessions) asked(node int32) time.Time {
	fs.mu.Lock()
	s := fs.byNode[node]
	fs.mu.Unlock()
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// end takes the session off its partitions, and answers what waits.
func (s *followerSession) end() {
	s.mu.Lock()
	order, waiting := s.order, s.waiting
	s.order, s.parts, s.ready, s.moved, s.sent, s.waiting = nil, nil, nil, nil, nil, nil
	for _, c := range order {
		c.isGone = true
	}
	s.mu.Unlock()
	unwatch(order)
	if waiting != nil {
		waiting.complete()
	}
}

func unwatch(gone []*copied) {
	for _, c := range gone {
		c.s.mu.Lock()
		part, tail := c.part, c.tail
		c.tail = nil
		c.s.mu.Unlock()
		if tail != nil {
			part.UnwatchEnd(tail)
		}
	}
}

// take takes in one fetch, and answers it or lets it wait. The error is for the whole fetch.
func (s *followerSession) take(f *fetch, r *kmsg.FetchRequest, now time.Time) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	named, gone, before, err := s.note(f, r, now)
	if err != nil {
		return err
	}
	unwatch(gone)
	mayJoin := false
	for _, c := range named {
		if part := s.look(c, r.ReplicaState.Epoch, now); part != nil && part.WantsReview() {
			mayJoin = true
		}
	}
	if mayJoin {
		s.b.replicator.scheduleReview(now, true)
	}
	if before != nil {
		before.complete()
	}
	s.answerOrWait(f, r, now)
	return nil
}

// note writes down what a fetch asks for. It returns the partitions that are named, those that are forgotten, and the fetch that waited so far.
func (s *followerSession) note(f *fetch, r *kmsg.FetchRequest, now time.Time) (named, gone []*copied, before *fetch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		return nil, nil, nil, kerr.FetchSessionIDNotFound // it has ended meanwhile
	}
	if r.SessionEpoch != s.epoch {
		return nil, nil, nil, kerr.InvalidFetchSessionEpoch
	}
	s.epoch = nextSessionEpoch(s.epoch)
	s.number++
	s.asked = now
	f.follower, f.number, f.SessionID = s, s.number, s.id
	before, s.waiting = s.waiting, nil
	if before != nil {
		s.unread++
	}
	gone = s.forget(r)
	if s.broker != r.ReplicaState.Epoch { // it has registered again: what it has said of partitions is said again in the new generation
		s.broker = r.ReplicaState.Epoch
		named = append(named, s.order...)
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			named = append(named, s.name(storage.LogID{Topic: t.TopicID, Partition: t.Partitions[j].Partition}, &t.Partitions[j]))
		}
	}
	s.expireSent()
	return named, gone, before, nil
}

func (s *followerSession) forget(r *kmsg.FetchRequest) (gone []*copied) {
	for i := range r.ForgottenTopics {
		t := &r.ForgottenTopics[i]
		for _, index := range t.Partitions {
			id := storage.LogID{Topic: t.TopicID, Partition: index}
			if c := s.parts[id]; c != nil {
				delete(s.parts, id)
				c.isGone = true
				gone = append(gone, c)
			}
		}
	}
	if len(gone) > 0 {
		isGone := func(c *copied) bool { return c.isGone }
		s.order, s.ready, s.moved, s.sent = slices.DeleteFunc(s.order, isGone), slices.DeleteFunc(s.ready, isGone), slices.DeleteFunc(s.moved, isGone), slices.DeleteFunc(s.sent, isGone)
	}
	return gone
}

// name notes what is asked of a partition. Called with mu held.
func (s *followerSession) name(id storage.LogID, p *kmsg.FetchRequestTopicPartition) *copied {
	c := s.parts[id]
	if c == nil {
		c = &copied{s: s, id: id, hw: -1, start: -1}
		s.parts[id] = c
		s.order = append(s.order, c)
	}
	ask := replica.FetchAsk{LeaderEpoch: p.CurrentLeaderEpoch, Next: p.FetchOffset, LastEpoch: p.LastFetchedEpoch}
	var ok bool
	if ask.DurableEnd, ok = durableEndOf(&p.UnknownTags); !ok {
		c.err = kerr.InvalidRequest
	} else {
		c.err = nil
	}
	isSame := c.askedIn > 0 && isSamePlace(&ask, &c.ask)
	c.ask, c.maxBytes, c.diverging = ask, p.PartitionMaxBytes, nil
	if !isSame {
		c.askedIn = s.number
	}
	if !isSame || c.sentIn != s.number-1 {
		c.sentIn = 0
	} // else this fetch has left before that answer came: the records aren't sent twice
	return c
}

// isSamePlace says that two asks differ at most in the durable end.
func isSamePlace(a, b *replica.FetchAsk) bool {
	return a.LeaderEpoch == b.LeaderEpoch && a.Next == b.Next && a.LastEpoch == b.LastEpoch
}

// durableEndOf is what a follower says that it has on its disk.
func durableEndOf(tags *kmsg.Tags) (end int64, ok bool) {
	tags.Each(func(tag uint32, value []byte) {
		if tag == replica.DurableEndTag && len(value) == 8 {
			end, ok = int64(binary.BigEndian.Uint64(value)), true
		}
	})
	return end, ok && end >= 0
}

// expireSent takes for lost what two fetches have come after, since the second has left after the answer came. Called with mu held.
func (s *followerSession) expireSent() {
	s.sent = slices.DeleteFunc(s.sent, func(c *copied) bool {
		if c.sentIn > 0 && c.sentIn < s.number-1 {
			c.sentIn = 0
			c.offer()
		}
		return c.sentIn == 0
	})
}

// sweep says of each follower that it still wants what it asked for last, for those partitions that it hasn't named since, and looks for starts that have
// moved. A session that was silent for long is ended.
func (fs *followerSessions) sweep(now time.Time) {
	fs.mu.Lock()
	var all, silent []*followerSession
	for node, s := range fs.byNode {
		s.mu.Lock()
		isSilent := now.Sub(s.asked) > max(longestSilence, 2*s.b.cfg.ReplicaLag)
		s.mu.Unlock()
		if isSilent {
			silent = append(silent, s)
			delete(fs.byNode, node)
		} else {
			all = append(all, s)
		}
	}
	fs.mu.Unlock()
	for _, s := range silent {
		s.end()
	}
	for _, s := range all {
		s.sweep()
	}
}

func (s *followerSession) sweep() {
	s.mu.Lock()
	asked := s.asked
	parts := make([]*replica.Partition, 0, len(s.order))
	for _, c := range s.order {
		if c.part == nil || c.isTrouble() {
			continue
		}
		parts = append(parts, c.part)
		if c.part.Log().StartOffset() != c.start {
			c.pushMoved()
		}
	}
	s.mu.Unlock()
	for _, p := range parts {
		p.Unchanged(s.node, asked)
	}
}
