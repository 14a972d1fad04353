package core

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// topic is a topic with its open partitions. It is immutable: a change of configs puts a new one in its place, over
// the same partitions.
type topic struct {
	*meta.Topic
	parts   []*replica.Partition
	configs topicConfigs
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

// counts is how many topics and partitions there are.
func (ts *topics) counts() (topics, partitions int) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for _, t := range ts.names {
		partitions += len(t.parts)
	}
	return len(ts.names), partitions
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
		for _, p := range t.parts {
			p.Close(err)
		}
	}
}

// partition finds a partition by its topic's name.
func (b *Broker) partition(name string, index int32) (*topic, *replica.Partition, error) {
	return b.topics.byName(name).partition(index, errUnknownTopic)
}

// partitionByID finds a partition by its topic's id.
func (b *Broker) partitionByID(id meta.ID, index int32) (*topic, *replica.Partition, error) {
	return b.topics.byID(id).partition(index, errUnknownTopicID)
}

func (t *topic) partition(index int32, missing error) (*topic, *replica.Partition, error) {
	if t == nil {
		return nil, nil, missing
	}
	if index < 0 || int(index) >= len(t.parts) {
		return nil, nil, errUnknownTopic
	}
	return t, t.parts[index], nil
}

func errOf(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// applied makes what the image says true here. It is called in the order of the commands, under meta's lock.
func (b *Broker) applied(_ *meta.Image, c meta.Command, r meta.Result) {
	switch {
	case c.CreateTopic != nil:
		if err := b.openTopic(r.Topic); err != nil {
			// The topic exists and its partitions answer KAFKA_STORAGE_ERROR until the next start opens them.
			b.log.Error("topic was created, but its logs can't be opened", "topic", r.Topic.Name, "error", err)
		}
	case c.AddPartitions != nil:
		if err := b.growTopic(r.Topic); err != nil {
			b.log.Error("topic was grown, but its logs can't be opened; the next start tries again", "topic", r.Topic.Name, "error", err)
		}
	case c.DeleteTopic != nil:
		b.dropTopic(r.Topic)
	case c.AlterTopicConfigs != nil:
		b.configureTopic(r.Topic)
	default:
		for _, t := range r.Changed {
			b.assignAll(t)
		}
	}
}

func logID(id meta.ID, index int32) storage.LogID {
	return storage.LogID{Topic: id, Partition: index}
}

func (b *Broker) openTopic(mt *meta.Topic) error {
	t := &topic{Topic: mt, configs: b.cfg.Topic.with(mt.Configs)}
	return b.openParts(t)
}

// growTopic opens the partitions that a topic has got.
func (b *Broker) growTopic(mt *meta.Topic) error {
	old := b.topics.byID(mt.ID)
	if old == nil {
		return b.openTopic(mt)
	}
	return b.openParts(&topic{Topic: mt, configs: old.configs, parts: slices.Clip(old.parts)})
}

// openParts opens the partitions that t lacks, and serves it.
func (b *Broker) openParts(t *topic) error {
	logConfig := t.configs.log()
	for i := len(t.parts); i < len(t.Partitions); i++ {
		name := t.Name + "-" + strconv.Itoa(i)
		log, err := b.store.OpenLog(logID(t.ID, int32(i)), name, logConfig)
		if err != nil {
			return fmt.Errorf("open partition %s: %w", name, err)
		}
		p := replica.New(b.store, log, t.Name, int32(i), b.cfg.NodeID)
		p.Assign(assignment(&t.Partitions[i]), b.cfg.Now())
		t.parts = append(t.parts, p)
	}
	b.topics.put(t)
	return nil
}

func (b *Broker) dropTopic(mt *meta.Topic) {
	t := b.topics.remove(mt.ID)
	if t == nil {
		return
	}
	for i, p := range t.parts {
		p.Close(errUnknownTopic)
		if _, err := b.store.Drop(logID(mt.ID, int32(i))); err != nil {
			b.log.Error("log of a deleted topic can't be dropped; the next start tries again", "topic", mt.Name, "partition", i, "error", err)
		}
	}
	b.timers.at(b.cfg.Now(), func(now time.Time) { b.groups.topicDeleted(mt.Name, now) }) // not under meta's lock
}

func (b *Broker) configureTopic(mt *meta.Topic) {
	old := b.topics.byID(mt.ID)
	if old == nil {
		return
	}
	t := &topic{Topic: mt, configs: b.cfg.Topic.with(mt.Configs), parts: old.parts}
	logConfig := t.configs.log()
	for _, p := range t.parts {
		p.Log().SetConfig(logConfig)
	}
	b.topics.put(t)
}

func assignment(p *meta.Partition) replica.Assignment {
	return replica.Assignment{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Replicas: p.Replicas, ISR: p.ISR}
}

func (b *Broker) assignAll(mt *meta.Topic) {
	old := b.topics.byID(mt.ID)
	if old == nil {
		return
	}
	for i := range mt.Partitions {
		old.parts[i].Assign(assignment(&mt.Partitions[i]), b.cfg.Now())
	}
	b.topics.put(&topic{Topic: mt, configs: old.configs, parts: old.parts})
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
