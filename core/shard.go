package core

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
)

// shard drives one coordinator. Whoever posts a step while none runs becomes the runner and performs all steps until
// none is left: steps and effects never overlap, no lock is held while they run, and nobody waits for another.
type shard struct {
	b        *Broker
	part     *replica.Partition
	epoch    int32       // of the leader that it coordinates as
	hasEnded atomic.Bool // it says nothing any more
	from     int64       // end of what was there before it: set by begin

	mu    sync.Mutex
	queue []step // bounded by the requests in flight and the batches that they append
	busy  bool

	// What follows is the runner's.
	coord    *coord.Coordinator
	lastID   uint64
	waiting  map[uint64]func(kmsg.Response)
	timer    *timer
	deadline time.Time
	snapshot uint64 // the last snapshot that is durable, and where it begins
	begins   int64
}

// step is one call of the coordinator.
type step func(c *coord.Coordinator) coord.Effects

func (b *Broker) newShard(p *replica.Partition, epoch int32) *shard {
	return &shard{b: b, part: p, epoch: epoch, coord: coord.New(b.coordConfig()), waiting: make(map[uint64]func(kmsg.Response))}
}

// begin has the shard loaded when all that was acknowledged before it is on the whole in-sync set. It may be called under meta's lock.
func (s *shard) begin() {
	s.from = s.part.Log().EndOffset()
	s.await()
}

// await calls advance when the high watermark moves, or at once if it is where it must be, or can't get there.
func (s *shard) await() {
	var w *replica.Watcher
	w = replica.NewWatcher(0, func() {
		s.part.Unwatch(w)
		s.advance()
	})
	if err := s.part.Watch(w, s.part.HighWatermark()); err != nil || s.isSettled() {
		w.Fire()
	}
}

func (s *shard) advance() {
	switch {
	case s.hasEnded.Load():
	case s.isSettled():
		if s.part.HighWatermark() == s.part.Log().StartOffset() {
			s.load(func() error { return nil }) // there is nothing to read
		} else {
			s.b.groups.loadLater(s)
		}
	case s.part.CheckEpoch(-1) == nil:
		s.await()
	}
}

func (s *shard) isSettled() bool {
	return s.part.IsSettled() && s.part.HighWatermark() >= s.from
}

// end answers everything that waits, and all that still comes, with NOT_COORDINATOR; then is called when nothing more is appended. It may be
// called under meta's lock.
func (s *shard) end(then func()) {
	s.hasEnded.Store(true)
	s.post(func(c *coord.Coordinator) coord.Effects {
		then()
		return c.Close(kerr.NotCoordinator.Code)
	})
}

// load reads the partition and lets the coordinator serve. It blocks on the disk. A record that can't be read is logged and left out, a
// partition that can't be read leaves its groups without coordinator.
func (s *shard) load(stop func() error) {
	fresh := coord.New(s.b.coordConfig())
	bad := 0
	err := s.b.scanRecords(s.part, func(at int64, key, value []byte) error {
		if err := fresh.Replay(key, value); err != nil {
			if bad++; bad == 1 {
				s.b.log.Warn("unreadable record of a group is left out", "partition", s.part.Index, "offset", at, "error", err)
			}
		}
		if s.hasEnded.Load() {
			return errClosing
		}
		return stop()
	})
	if stop() != nil || s.hasEnded.Load() {
		return
	}
	if err != nil {
		s.b.log.Error("groups can't be loaded; their clients wait until another node leads, or the next start", "partition", s.part.Index, "error", err)
		s.post(func(c *coord.Coordinator) coord.Effects { return c.Close(kerr.CoordinatorNotAvailable.Code) })
		return
	}
	if bad > 1 {
		s.b.log.Warn("unreadable records of groups were left out", "partition", s.part.Index, "count", bad)
	}
	gone := s.b.deletedOf(fresh.Topics())
	s.post(func(*coord.Coordinator) coord.Effects {
		if s.hasEnded.Load() {
			return coord.Effects{}
		}
		s.coord = fresh
		return fresh.Loaded(s.b.cfg.Now())
	})
	for _, name := range gone {
		s.post(func(c *coord.Coordinator) coord.Effects { return c.TopicDeleted(name, s.b.cfg.Now()) })
	}
}

// handle gives the coordinator one request of one group.
func (s *shard) handle(req *Request, body kmsg.Request, random string, done func(kmsg.Response)) {
	s.post(func(c *coord.Coordinator) coord.Effects {
		return c.Handle(coord.Request{
			ID: s.wait(done), ClientID: req.ClientID, ClientHost: "/" + req.ClientHost, Random: random, Body: body,
		}, req.Now)
	})
}

// ask calls look with the coordinator, which it may read and not change.
func (s *shard) ask(look func(c *coord.Coordinator)) {
	s.post(func(c *coord.Coordinator) coord.Effects {
		look(c)
		return coord.Effects{}
	})
}

// wait keeps done until the coordinator answers the id.
func (s *shard) wait(done func(kmsg.Response)) uint64 {
	s.lastID++
	s.waiting[s.lastID] = done
	return s.lastID
}

// post queues a step and, if no one does so, runs the queue.
func (s *shard) post(next step) {
	s.mu.Lock()
	s.queue = append(s.queue, next)
	if s.busy {
		s.mu.Unlock()
		return
	}
	s.busy = true
	for len(s.queue) > 0 {
		next := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		s.perform(next(s.coord))
		s.mu.Lock()
	}
	s.queue, s.busy = nil, false
	s.mu.Unlock()
}

func (s *shard) perform(eff coord.Effects) {
	for _, batch := range eff.Batches {
		records := make([]record.Record, len(batch.Records))
		for i, r := range batch.Records {
			records[i] = record.Record{Key: r.Key, Value: r.Value}
		}
		s.b.appendRecords(s.part, s.epoch, records, s.b.cfg.Now(), func(base int64, err error) { s.appended(batch, base, err) })
	}
	for _, a := range eff.Answers {
		done := s.waiting[a.ID]
		delete(s.waiting, a.ID)
		done(a.Body)
	}
	s.trim(eff.Trim)
	s.arm(eff.Deadline)
}

// appended reports a batch's fate.
func (s *shard) appended(batch coord.Batch, base int64, err error) {
	if err != nil && !s.hasEnded.Load() && !errors.Is(err, errClosing) && groupCode(err) != kerr.NotCoordinator.Code {
		s.b.log.Warn("a group's change can't be stored", "partition", s.part.Index, "error", err)
	}
	s.post(func(c *coord.Coordinator) coord.Effects {
		if batch.Snapshot && err == nil {
			s.snapshot, s.begins = batch.ID, base
		}
		return c.Appended(batch.ID, groupCode(err), s.b.cfg.Now())
	})
}

// trim lets the log begin at a snapshot. What is before it says nothing that the snapshot doesn't, so a failure, or a
// crash before it is durable, costs space and time at the next start only.
func (s *shard) trim(snapshot uint64) {
	if snapshot == 0 || snapshot != s.snapshot {
		return
	}
	if _, err := s.part.Log().AdvanceStart(s.begins); err != nil {
		s.b.log.Warn("the log of groups can't be trimmed", "partition", s.part.Index, "error", err)
	}
}

// arm sees to it that Tick is called at the deadline. An earlier timer is left alone: its Tick finds nothing due and
// arms the next.
func (s *shard) arm(deadline time.Time) {
	if deadline.IsZero() || (s.timer != nil && !deadline.Before(s.deadline)) {
		return
	}
	if s.timer != nil {
		s.b.timers.stop(s.timer)
	}
	s.deadline = deadline
	var armed *timer
	armed = s.b.timers.at(deadline, func(now time.Time) {
		s.post(func(c *coord.Coordinator) coord.Effects {
			if s.timer == armed {
				s.timer = nil
			}
			return c.Tick(now)
		})
	})
	s.timer = armed
}
