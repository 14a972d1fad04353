package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
)

const (
	// loadAtOpen is how many records of the group offsets topic are read before anything is served. What is beyond
	// is read by Run, and its groups answer COORDINATOR_LOAD_IN_PROGRESS meanwhile.
	loadAtOpen = 100_000
	// offsetsMaxMessageBytes lets the record of a group with thousands of members fit in a batch.
	offsetsMaxMessageBytes = "16777216"
	// connectGroups starts the names of the groups of sink connectors, whose offsets don't expire: a connector that
	// was stopped for a holiday goes on where it was.
	connectGroups = "connect-"
)

// groups is the broker's side of core/coord: one shard for each partition of __consumer_offsets, which feeds its
// coordinator requests, time and durability, and performs what it asks for.
type groups struct {
	mu     sync.Mutex
	shards []*shard // empty until the topic is there; then fixed
	absent *shard   // answers NOT_COORDINATOR for as long as there are no shards

	snapshotRecords int // coord.Config's; 0 = its default, tests make it small
}

// groupAPIs lists the group keys that are served.
func groupAPIs() []api {
	return []api{
		{key: 8, min: 2, max: 10, oldest: 2, handle: handleOffsetCommit},
		{key: 9, min: 1, max: 10, oldest: 1, handle: handleOffsetFetch},
		{key: 10, min: 0, max: 6, oldest: 0, handle: handleFindCoordinator},
		{key: 11, min: 0, max: 9, oldest: 0, handle: handleJoinGroup},
		{key: 12, min: 0, max: 4, oldest: 0, handle: handleHeartbeat},
		{key: 13, min: 0, max: 5, oldest: 0, handle: handleLeaveGroup},
		{key: 14, min: 0, max: 5, oldest: 0, handle: handleSyncGroup},
		{key: 15, min: 0, max: 6, oldest: 0, handle: handleDescribeGroups},
		{key: 16, min: 0, max: 5, oldest: 0, handle: handleListGroups},
		{key: 42, min: 0, max: 3, oldest: 0, handle: handleDeleteGroups},
		{key: 47, min: 0, max: 0, oldest: 0, handle: handleOffsetDelete},
	}
}

// openGroups is called at the end of Open, when the partitions are there and nothing is served yet.
func (b *Broker) openGroups() error {
	b.groups.absent = b.newShard(nil)
	b.groups.absent.coord.Close(kerr.NotCoordinator.Code)
	if t := b.topics.byName(offsetsTopic); t != nil {
		b.groups.attach(b, t)
	}
	var left int64 = loadAtOpen
	for _, s := range b.groups.all() {
		left -= s.part.HighWatermark() - s.part.Log().StartOffset()
		if left < 0 {
			return nil
		}
		s.load(func() error { return nil })
	}
	return nil
}

// loadGroups loads the shards that Open has left.
func (b *Broker) loadGroups(ctx context.Context) error {
	for _, s := range b.groups.all() {
		s.load(ctx.Err)
	}
	return nil
}

// closeGroups answers every request that waits in a group.
func (b *Broker) closeGroups() {
	for _, s := range b.groups.all() {
		s.post(func(c *coord.Coordinator) coord.Effects { return c.Close(kerr.NotCoordinator.Code) })
	}
}

// ensureGroups calls done when the group offsets topic is there and its shards serve.
func (b *Broker) ensureGroups(now time.Time, done func(error)) {
	if len(b.groups.all()) > 0 {
		done(nil)
		return
	}
	configs := map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "104857600", "max.message.bytes": offsetsMaxMessageBytes,
	}
	b.ensureTopic(offsetsTopic, b.cfg.OffsetsTopicPartitions, configs, now, func(t *topic, err error) {
		if err == nil {
			b.groups.attach(b, t)
		}
		done(err)
	})
}

// attach makes the shards of the topic, once. Those without records serve at once.
func (g *groups) attach(b *Broker, t *topic) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.shards) > 0 {
		return
	}
	for _, p := range t.local() {
		s := b.newShard(p)
		if p.HighWatermark() == p.Log().StartOffset() {
			s.load(func() error { return nil })
		}
		g.shards = append(g.shards, s)
	}
}

func (g *groups) all() []*shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shards
}

// of is the shard that coordinates the group.
func (g *groups) of(group string) *shard {
	shards := g.all()
	if len(shards) == 0 {
		return g.absent
	}
	return shards[coord.Partition(group, int32(len(shards)))]
}

// topicDeleted forgets the offsets of a topic that is gone.
func (g *groups) topicDeleted(name string, now time.Time) {
	for _, s := range g.all() {
		s.post(func(c *coord.Coordinator) coord.Effects { return c.TopicDeleted(name, now) })
	}
}

// shard drives one coordinator. Whoever posts a step while none runs becomes the runner and performs all steps until
// none is left: steps and effects never overlap, no lock is held while they run, and nobody waits for another.
type shard struct {
	b    *Broker
	part *replica.Partition

	mu    sync.Mutex
	queue []step // bounded by the requests in flight and the batches that they append
	busy  bool

	loading atomic.Bool // set by the one who loads

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

func (b *Broker) newShard(p *replica.Partition) *shard {
	return &shard{b: b, part: p, coord: coord.New(b.coordConfig()), waiting: make(map[uint64]func(kmsg.Response))}
}

func (b *Broker) coordConfig() coord.Config {
	return coord.Config{
		MinSession:       b.cfg.GroupMinSession,
		MaxSession:       b.cfg.GroupMaxSession,
		InitialDelay:     b.cfg.GroupInitialRebalanceDelay,
		MaxSize:          b.cfg.GroupMaxSize,
		MaxMetadataBytes: b.cfg.OffsetMetadataMaxBytes,
		OffsetRetention:  b.cfg.OffsetsRetention,
		SnapshotRecords:  b.groups.snapshotRecords,
		Keep:             func(group string) bool { return strings.HasPrefix(group, connectGroups) },
	}
}

// load reads the partition and lets the coordinator serve; only the first call does. It blocks on the disk. A record
// that can't be read is logged and left out, a partition that can't be read leaves its groups without coordinator.
func (s *shard) load(stop func() error) {
	if !s.loading.CompareAndSwap(false, true) {
		return
	}
	fresh := coord.New(s.b.coordConfig())
	bad := 0
	err := s.b.scanRecords(s.part, func(at int64, key, value []byte) error {
		if err := fresh.Replay(key, value); err != nil {
			if bad++; bad == 1 {
				s.b.log.Warn("unreadable record of a group is left out", "partition", s.part.Index, "offset", at, "error", err)
			}
		}
		return stop()
	})
	if stop() != nil {
		return
	}
	if err != nil {
		s.b.log.Error("groups can't be loaded; their clients wait until the next start", "partition", s.part.Index, "error", err)
		s.post(func(c *coord.Coordinator) coord.Effects { return c.Close(kerr.CoordinatorNotAvailable.Code) })
		return
	}
	if bad > 1 {
		s.b.log.Warn("unreadable records of groups were left out", "partition", s.part.Index, "count", bad)
	}
	s.post(func(*coord.Coordinator) coord.Effects {
		s.coord = fresh
		return fresh.Loaded(s.b.cfg.Now())
	})
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
		s.b.appendRecords(s.part, records, s.b.cfg.Now(), func(base int64, err error) { s.appended(batch, base, err) })
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
	if err != nil && !errors.Is(err, errClosing) {
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

// groupCode is what a client of a group is told when its record can't be stored: to try again, here or after looking
// for the coordinator anew, or that it never will be.
func groupCode(err error) int16 {
	switch c := code(err); c {
	case 0:
		return 0
	case kerr.NotLeaderForPartition.Code:
		return kerr.NotCoordinator.Code
	case kerr.MessageTooLarge.Code:
		return c
	case kerr.CorruptMessage.Code, kerr.InvalidRecord.Code:
		return kerr.UnknownServerError.Code
	default:
		return kerr.CoordinatorNotAvailable.Code
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

// gather returns a func that calls done when it has been called n times; with n 0, done is called at once.
func gather(n int, done func()) (one func()) {
	if n == 0 {
		done()
		return func() {}
	}
	var left atomic.Int64
	left.Store(int64(n))
	return func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
}

// memberSuffix is what makes a new member's id unique: a random UUID.
func (b *Broker) memberSuffix() (string, error) {
	id, err := randomID(b.cfg.Rand)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}
