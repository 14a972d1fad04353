package core

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// topic is a topic as the image has it, with the replicas of this node. It is immutable: a change puts a new one in its place, over
// the same replicas.
type topic struct {
	*meta.Topic
	parts   []*replica.Partition // one for each of Partitions; nil where this node has no replica, or couldn't open its log
	configs topicConfigs
	node    int32 // this one
	isOpen  bool  // this node opens its replicas: it is registered, or alone
}

// local is this node's replicas, by index.
func (t *topic) local() iter.Seq2[int, *replica.Partition] {
	return func(yield func(int, *replica.Partition) bool) {
		for i, p := range t.parts {
			if p != nil && !yield(i, p) {
				return
			}
		}
	}
}

// topics is what the broker serves: the image's topics with their logs open.
type topics struct {
	mu    sync.RWMutex
	names map[string]*topic
	ids   map[meta.ID]*topic
}

func (ts *topics) init() {
	ts.names = make(map[string]*topic)
	ts.ids = make(map[meta.ID]*topic)
}

func (ts *topics) byName(name string) *topic {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.names[name]
}

func (ts *topics) byID(id meta.ID) *topic {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.ids[id]
}

// all is every topic, by name.
func (ts *topics) all() []*topic {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	list := make([]*topic, 0, len(ts.names))
	for _, name := range slices.Sorted(maps.Keys(ts.names)) {
		list = append(list, ts.names[name])
	}
	return list
}

func (ts *topics) put(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.names[t.Name] = t
	ts.ids[t.ID] = t
}

func (ts *topics) remove(id meta.ID) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.ids[id]
	if t != nil {
		delete(ts.names, t.Name)
		delete(ts.ids, id)
	}
	return t
}

// close answers everyone who waits on a partition.
func (ts *topics) close(err error) {
	for _, t := range ts.all() {
		for _, p := range t.local() {
			p.Close(err)
		}
	}
}

// unknown is why a topic isn't found: missing, or another error where this node may not have heard of it yet, so that no client takes it for gone.
func (b *Broker) unknown(missing error) error { return errOf(b.refusal(), missing) }

// partition finds this node's replica of a partition by its topic's name.
func (b *Broker) partition(name string, index int32) (*topic, *replica.Partition, error) {
	return b.topics.byName(name).partition(index, b.unknown(errUnknownTopic))
}

// partitionByID finds it by its topic's id.
func (b *Broker) partitionByID(id meta.ID, index int32) (*topic, *replica.Partition, error) {
	return b.topics.byID(id).partition(index, b.unknown(errUnknownTopicID))
}

func (t *topic) partition(index int32, missing error) (*topic, *replica.Partition, error) {
	if t == nil {
		return nil, nil, missing
	}
	if index < 0 || int(index) >= len(t.parts) {
		return nil, nil, errUnknownTopic
	}
	p := t.parts[index]
	if p != nil {
		return t, p, nil
	}
	if t.isOpen && slices.Contains(t.Partitions[index].Replicas, t.node) {
		return nil, nil, errNotOpen
	}
	return nil, nil, replica.ErrNotLeader
}

func errOf(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// applied makes what the image says true here. It is called in the order of the commands, under meta's lock.
func (b *Broker) applied(img *meta.Image, c meta.Command, r meta.Result) {
	if c.RegisterBroker != nil || c.ChangeBroker != nil || c.UnregisterBroker != nil || r.Jumped {
		b.duty.hasMoved.Store(true)
		defer b.nodesChanged()
	}
	b.duty.isStale.Store(true)
	if c.RegisterBroker != nil && c.RegisterBroker.ID == b.cfg.NodeID {
		b.registeredAs(r.Generation, r.IsOwn)
		if r.IsOwn {
			defer b.registered.Store(true)
		}
		if r.IsOwn && !b.isOpen.Swap(true) {
			b.noteOpened(b.openAssigned(img))
			return
		}
	}
	switch {
	case r.Jumped:
		b.noteOpened(b.syncAll(img))
	case c.DeleteTopic != nil:
		b.noteOpened(b.dropTopic(r.Topic))
	case r.Topic != nil:
		b.noteOpened(b.syncTopic(r.Topic))
	default:
		for _, t := range r.Changed {
			b.noteOpened(b.syncTopic(t))
		}
	}
}

// noteOpened has what couldn't be opened or dropped, on a full disk, tried again by Step. Partitions that aren't open answer KAFKA_STORAGE_ERROR
// until then.
func (b *Broker) noteOpened(err error) {
	if err == nil || b.isIncomplete.Swap(true) {
		return
	}
	b.log.Error("not all logs can be opened or dropped; it is tried again", "error", err)
	b.news()
}

// stepLogs opens and drops what couldn't be so far. It returns when it wants to be called again.
func (b *Broker) stepLogs(now time.Time) time.Time {
	switch {
	case !b.isIncomplete.Load() || !b.isOpen.Load() || b.Err() != nil:
		return time.Time{}
	case now.Before(b.openAt):
		return b.openAt
	}
	b.meta.Hold(func(img *meta.Image, isCurrent bool) {
		b.isIncomplete.Store(!isCurrent || b.openAssigned(img) != nil)
	})
	if b.isIncomplete.Load() {
		b.openAt = now.Add(registerPause)
		return b.openAt
	}
	b.log.Info("all logs are open")
	return time.Time{}
}

// openAssigned opens everything that the image gives this node, for the first time, and drops what it doesn't.
func (b *Broker) openAssigned(img *meta.Image) error {
	return errOf(b.syncAll(img), b.dropOrphans(img))
}

func logID(id meta.ID, index int32) storage.LogID {
	return storage.LogID{Topic: id, Partition: index}
}

// syncAll makes the served topics those of the image.
func (b *Broker) syncAll(img *meta.Image) error {
	var failed error
	for _, t := range img.Topics() {
		failed = errOf(failed, b.syncTopic(t))
	}
	for _, t := range b.topics.all() {
		if img.TopicByID(t.ID) == nil {
			failed = errOf(failed, b.dropTopic(t.Topic))
		}
	}
	return failed
}

// syncTopic makes a topic what the image says: it opens the replicas that this node has got, assigns those that it has, and drops those that
// have gone elsewhere. Whatever fails, the rest is done. Under meta's lock.
func (b *Broker) syncTopic(mt *meta.Topic) error {
	t := &topic{Topic: mt, configs: b.cfg.Topic.with(mt.Configs), parts: make([]*replica.Partition, len(mt.Partitions)), node: b.cfg.NodeID, isOpen: b.isOpen.Load()}
	if !t.isOpen { // the image may be older than what the logs say
		b.topics.put(t)
		return nil
	}
	var old []*replica.Partition
	if have := b.topics.byID(mt.ID); have != nil {
		old = have.parts
	}
	logConfig := t.configs.log()
	logConfig.HoldsCleanup = true
	var failed error
	for i := range mt.Partitions {
		var p *replica.Partition
		if i < len(old) {
			p = old[i]
		}
		isHere := slices.Contains(mt.Partitions[i].Replicas, b.cfg.NodeID)
		switch {
		case p == nil && isHere:
			opened, err := b.openReplica(mt, int32(i), logConfig)
			failed = errOf(failed, err)
			t.parts[i] = opened
		case p != nil && isHere:
			p.Log().SetConfig(logConfig)
			t.parts[i] = p
		case p != nil:
			failed = errOf(failed, b.dropReplica(mt, p))
		}
	}
	b.topics.put(t)
	now := b.cfg.Now()
	for i, p := range t.parts { // whoever is told by it finds the topic as it is now
		if p != nil {
			p.Assign(assignment(&mt.Partitions[i]), now)
			b.replicator.assigned(p)
		}
	}
	if mt.Name == offsetsTopic {
		b.groups.assigned(t)
	}
	return failed
}

func (b *Broker) openReplica(mt *meta.Topic, index int32, c storage.LogConfig) (*replica.Partition, error) {
	name := mt.Name + "-" + strconv.Itoa(int(index))
	log, err := b.store.OpenLog(logID(mt.ID, index), name, c)
	if err != nil {
		return nil, fmt.Errorf("open partition %s: %w", name, err)
	}
	p := replica.New(b.store, log, mt.Name, index, b.cfg.NodeID)
	p.Break(b.cfg.Faults.Replica)
	return p, nil
}

// dropReplica drops a log that others have now.
func (b *Broker) dropReplica(mt *meta.Topic, p *replica.Partition) error {
	p.Close(replica.ErrNotLeader)
	b.replicator.assigned(p)
	if _, err := b.store.Drop(logID(mt.ID, p.Index)); err != nil {
		return fmt.Errorf("drop partition %s-%d: %w", mt.Name, p.Index, err)
	}
	return nil
}

func (b *Broker) dropTopic(mt *meta.Topic) error {
	t := b.topics.remove(mt.ID)
	if t == nil || !t.isOpen {
		return nil
	}
	var failed error
	for i, p := range t.local() {
		p.Close(errUnknownTopic)
		b.replicator.assigned(p)
		if _, err := b.store.Drop(logID(mt.ID, int32(i))); err != nil {
			failed = errOf(failed, fmt.Errorf("drop partition %s-%d of a deleted topic: %w", mt.Name, i, err))
		}
	}
	b.timers.at(b.cfg.Now(), func(now time.Time) { b.groups.topicDeleted(mt.Name, now) }) // not under meta's lock
	return failed
}

func assignment(p *meta.Partition) replica.Assignment {
	return replica.Assignment{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Replicas: p.Replicas, ISR: p.ISR}
}

// randomID draws a topic id: a random (version 4) UUID.
func randomID(from io.Reader) (meta.ID, error) {
	var id meta.ID
	if _, err := io.ReadFull(from, id[:]); err != nil {
		return id, fmt.Errorf("draw random id: %w", err)
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id, nil
}
