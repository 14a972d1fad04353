package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/core/coord"
	"github.com/weirlog/weir/core/meta"
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

// groups is the broker's side of core/coord: one shard for each partition of __consumer_offsets that this node leads, which feeds its
// coordinator requests, time and durability, and performs what it asks for. A shard's life is one leader epoch: it waits until all that
// leaders before it acknowledged is on the whole in-sync set, reads it, serves, and ends when another epoch begins or another node leads.
type groups struct {
	b        *Broker
	absent   *shard        // answers NOT_COORDINATOR for groups that are coordinated elsewhere
	wake     chan struct{} // capacity 1: there is something to load
	isDriven atomic.Bool   // Run loads; else Step does

	mu     sync.Mutex
	shards []*shard // by partition, nil where this node doesn't lead; empty until the topic is there
	loads  []*shard // those that wait to be read: at most one for each partition

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

func (g *groups) init(b *Broker) {
	g.b, g.wake = b, make(chan struct{}, 1)
	g.absent = b.newShard(nil, -1)
	g.absent.coord.Close(kerr.NotCoordinator.Code)
}

// openGroups loads groups before anything is served, but what would take long. It is called at the end of Open.
func (b *Broker) openGroups() {
	var left int64 = loadAtOpen
	for s := b.groups.nextLoad(); s != nil; s = b.groups.nextLoad() {
		if left -= s.part.HighWatermark() - s.part.Log().StartOffset(); left < 0 {
			b.groups.loadLater(s)
			return
		}
		s.load(func() error { return nil })
	}
}

// loadGroups loads the shards that Open has left, and those that this node comes to lead, until ctx ends.
func (b *Broker) loadGroups(ctx context.Context) error {
	for {
		b.groups.loadAll(ctx.Err)
		select {
		case <-ctx.Done():
			return nil
		case <-b.groups.wake:
		}
	}
}

// closeGroups answers every request that waits in a group.
func (b *Broker) closeGroups() {
	for _, s := range b.groups.all() {
		s.end(func() {})
	}
}

// ensureGroups calls done when the group offsets topic is there.
func (b *Broker) ensureGroups(now time.Time, done func(error)) {
	configs := map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "104857600", "max.message.bytes": offsetsMaxMessageBytes,
	}
	b.ensureTopic(offsetsTopic, b.cfg.OffsetsTopicPartitions, b.cfg.OffsetsReplicationFactor, configs, now, func(_ *topic, err error) { done(err) })
}

// coordinator is the broker that coordinates a group.
func (b *Broker) coordinator(group string) (meta.Broker, error) {
	t := b.topics.byName(offsetsTopic)
	if t == nil {
		return meta.Broker{}, fmt.Errorf("there is no topic %s: %w", offsetsTopic, kerr.CoordinatorNotAvailable)
	}
	index := coord.Partition(group, int32(len(t.Partitions)))
	leader, _ := t.currentLeader(index)
	n, ok := b.endpoint(leader)
	if !ok {
		return n, fmt.Errorf("nobody leads %s-%d: %w", offsetsTopic, index, kerr.CoordinatorNotAvailable)
	}
	return n, nil
}

// assigned begins and ends coordinators as the offsets topic's partitions are led here or not. It is called for each change of the topic, in
// order, after its partitions' Assign.
func (g *groups) assigned(t *topic) {
	for i, p := range t.parts {
		var a replica.Assignment
		if p != nil {
			a, _ = p.Assigned()
		}
		if p == nil || a.Leader != t.node {
			g.put(i, nil)
		} else if s := g.at(i); s == nil || s.epoch != a.LeaderEpoch {
			g.put(i, g.b.newShard(p, a.LeaderEpoch))
		}
	}
}

func (g *groups) at(i int) *shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i >= len(g.shards) {
		return nil
	}
	return g.shards[i]
}

// put makes next the shard of a partition. It begins when the one before it has ended: what that one appends last must not be left out.
func (g *groups) put(i int, next *shard) {
	g.mu.Lock()
	for len(g.shards) <= i {
		g.shards = append(g.shards, nil)
	}
	before := g.shards[i]
	g.shards[i] = next
	g.loads = slices.DeleteFunc(g.loads, func(s *shard) bool { return s == before })
	g.mu.Unlock()
	begin := func() {
		if next != nil {
			next.begin()
		}
	}
	if before == nil {
		begin()
		return
	}
	before.end(begin)
}

// all is every shard that there is.
func (g *groups) all() []*shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.shards), func(s *shard) bool { return s == nil })
}

// of is the shard that coordinates the group.
func (g *groups) of(group string) *shard {
	if g.b.refusal() != nil {
		return g.absent
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.shards) == 0 {
		return g.absent
	}
	if s := g.shards[coord.Partition(group, int32(len(g.shards)))]; s != nil && g.b.outOfTouch(s.part) == nil {
		return s
	}
	return g.absent
}

// topicDeleted forgets the offsets of a topic that is gone.
func (g *groups) topicDeleted(name string, now time.Time) {
	for _, s := range g.all() {
		s.post(func(c *coord.Coordinator) coord.Effects { return c.TopicDeleted(name, now) })
	}
}

// deletedOf is which of these topics have been deleted: nobody coordinated their groups then. Whoever leads by the image has applied all that the leader
// before it had when it took a commit, so it knows every topic of one.
func (b *Broker) deletedOf(names []string) []string {
	if len(names) == 0 || !b.meta.IsCurrent() {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return b.topics.byName(name) != nil })
}

// loadLater has a shard loaded where that may block: by Run, or, for those who step a broker themselves, by Step.
func (g *groups) loadLater(s *shard) {
	g.mu.Lock()
	if !slices.Contains(g.shards, s) {
		g.mu.Unlock()
		return // it has ended meanwhile
	}
	g.loads = append(g.loads, s)
	g.mu.Unlock()
	if g.isDriven.Load() {
		g.wakeLoader()
		return
	}
	g.b.timers.at(g.b.cfg.Now(), func(time.Time) {
		if g.isDriven.Load() {
			g.wakeLoader()
		} else {
			g.loadAll(func() error { return nil })
		}
	})
}

func (g *groups) wakeLoader() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// nextLoad takes the next shard to load, nil if there is none.
func (g *groups) nextLoad() *shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.loads) == 0 {
		return nil
	}
	s := g.loads[0]
	g.loads = slices.Delete(g.loads, 0, 1)
	return s
}

func (g *groups) loadAll(stop func() error) {
	for stop() == nil {
		s := g.nextLoad()
		if s == nil {
			return
		}
		s.load(stop)
	}
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

// groupCode is what a client of a group is told when its record can't be stored: to try again, here or after looking
// for the coordinator anew, or that it never will be.
func groupCode(err error) int16 {
	switch c := code(err); c {
	case 0:
		return 0
	case kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code:
		return kerr.NotCoordinator.Code
	case kerr.MessageTooLarge.Code:
		return c
	case kerr.CorruptMessage.Code, kerr.InvalidRecord.Code:
		return kerr.UnknownServerError.Code
	default:
		return kerr.CoordinatorNotAvailable.Code
	}
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
