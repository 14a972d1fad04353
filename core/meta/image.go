package meta

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Errors of commands that can't be applied.
var (
	ErrTopicExists  = errors.New("topic exists already")
	ErrUnknownTopic = errors.New("no such topic")
	ErrPartitions   = errors.New("topic has another number of partitions by now")
	ErrExhausted    = errors.New("producer ids are used up")
)

// Topic is one topic. It is immutable.
type Topic struct {
	ID         ID
	Name       string
	Partitions []Partition
	Configs    map[string]string // only what was set; defaults are the broker's
}

// Partition is where a partition lives.
type Partition struct {
	Leader      int32
	LeaderEpoch int32
	Replicas    []int32
	ISR         []int32
}

// Broker is a node as it registered last.
type Broker struct {
	ID         int32
	Host       string
	Port       int32
	Rack       string
	Generation int64 // how often it has registered
}

// Image is the metadata at one point of the log. Its zero value isn't usable: NewImage. It has no lock.
type Image struct {
	clusterID      string
	brokers        map[int32]Broker
	byName         map[string]*Topic
	byID           map[ID]*Topic
	partitions     int
	nextProducerID int64

	loading *Image // of the snapshot whose parts are being applied, else nil
	loaded  int    // parts
}

// NewImage is the metadata before the first command.
func NewImage() *Image {
	return &Image{brokers: make(map[int32]Broker), byName: make(map[string]*Topic), byID: make(map[ID]*Topic)}
}

// Result is what applying a command gave.
type Result struct {
	Topic           *Topic // CreateTopic: the new one; AddPartitions: the changed one; DeleteTopic: the one that is gone; AlterTopicConfigs: the changed one
	FirstProducerID int64  // AllocateProducerIDs
	Raised          bool   // RegisterBroker: leader epochs have changed
	Snapshot        bool   // Snapshot: it was the last part, and all were there
}

// Apply changes the image by one command. With an error, nothing has changed.
func (m *Image) Apply(c Command) (Result, error) {
	if c.Snapshot != nil {
		return m.applySnapshot(c.Snapshot), nil
	}
	m.loading = nil
	switch {
	case c.InitCluster != nil:
		if m.clusterID == "" {
			m.clusterID = c.InitCluster.ClusterID
		}
		return Result{}, nil
	case c.RegisterBroker != nil:
		return m.registerBroker(c.RegisterBroker), nil
	case c.CreateTopic != nil:
		return m.createTopic(c.CreateTopic)
	case c.AddPartitions != nil:
		return m.addPartitions(c.AddPartitions)
	case c.DeleteTopic != nil:
		return m.deleteTopic(c.DeleteTopic)
	case c.AlterTopicConfigs != nil:
		return m.alterTopicConfigs(c.AlterTopicConfigs)
	case c.AllocateProducerIDs != nil:
		return m.allocateProducerIDs(c.AllocateProducerIDs)
	}
	return Result{}, fmt.Errorf("%w: empty", ErrVersion)
}

func (m *Image) registerBroker(r *RegisterBroker) Result {
	b := m.brokers[r.ID]
	m.brokers[r.ID] = Broker{ID: r.ID, Host: r.Host, Port: r.Port, Rack: r.Rack, Generation: b.Generation + 1}
	raised := false
	for _, t := range m.byName {
		if next := t.withEpochsRaised(r.ID); next != t {
			m.put(next)
			raised = true
		}
	}
	return Result{Raised: raised}
}

// withEpochsRaised is t with a new leader epoch wherever leader leads, or t itself.
func (t *Topic) withEpochsRaised(leader int32) *Topic {
	next := t
	for i, p := range t.Partitions {
		if p.Leader != leader {
			continue
		}
		if next == t {
			clone := *t
			clone.Partitions = slices.Clone(t.Partitions)
			next = &clone
		}
		next.Partitions[i].LeaderEpoch = p.LeaderEpoch + 1
	}
	return next
}

func (m *Image) createTopic(c *CreateTopic) (Result, error) {
	if m.byName[c.Name] != nil {
		return Result{}, fmt.Errorf("create topic %q: %w", c.Name, ErrTopicExists)
	}
	if m.byID[c.ID] != nil {
		return Result{}, fmt.Errorf("create topic %q: its id is taken: %w", c.Name, ErrTopicExists)
	}
	t := &Topic{ID: c.ID, Name: c.Name, Partitions: placed(nil, c.Replicas), Configs: maps.Clone(c.Configs)}
	m.put(t)
	m.partitions += len(t.Partitions)
	return Result{Topic: t}, nil
}

// placed is partitions with new ones behind them.
func placed(partitions []Partition, replicas [][]int32) []Partition {
	all := make([]Partition, len(partitions), len(partitions)+len(replicas))
	copy(all, partitions)
	for _, r := range replicas {
		all = append(all, Partition{Leader: r[0], Replicas: r, ISR: r})
	}
	return all
}

func (m *Image) addPartitions(c *AddPartitions) (Result, error) {
	t := m.byID[c.ID]
	if t == nil {
		return Result{}, fmt.Errorf("add partitions to topic %x: %w", c.ID[:], ErrUnknownTopic)
	}
	if len(t.Partitions) != c.From {
		return Result{}, fmt.Errorf("add partitions to topic %q: %w: %d", t.Name, ErrPartitions, len(t.Partitions))
	}
	next := *t
	next.Partitions = placed(t.Partitions, c.Replicas)
	m.put(&next)
	m.partitions += len(c.Replicas)
	return Result{Topic: &next}, nil
}

func (m *Image) deleteTopic(c *DeleteTopic) (Result, error) {
	t := m.byID[c.ID]
	if t == nil {
		return Result{}, fmt.Errorf("delete topic %x: %w", c.ID[:], ErrUnknownTopic)
	}
	delete(m.byID, t.ID)
	delete(m.byName, t.Name)
	m.partitions -= len(t.Partitions)
	return Result{Topic: t}, nil
}

func (m *Image) alterTopicConfigs(c *AlterTopicConfigs) (Result, error) {
	t := m.byID[c.ID]
	if t == nil {
		return Result{}, fmt.Errorf("configure topic %x: %w", c.ID[:], ErrUnknownTopic)
	}
	next := *t
	next.Configs = make(map[string]string, len(t.Configs)+len(c.Set))
	if !c.Clear {
		maps.Copy(next.Configs, t.Configs)
	}
	for _, name := range c.Remove {
		delete(next.Configs, name)
	}
	maps.Copy(next.Configs, c.Set)
	m.put(&next)
	return Result{Topic: &next}, nil
}

func (m *Image) allocateProducerIDs(c *AllocateProducerIDs) (Result, error) {
	if m.nextProducerID > int64(1)<<62-c.Count {
		return Result{}, ErrExhausted
	}
	first := m.nextProducerID
	m.nextProducerID += c.Count
	return Result{FirstProducerID: first}, nil
}

func (m *Image) put(t *Topic) {
	m.byName[t.Name] = t
	m.byID[t.ID] = t
}

// ClusterID is empty before InitCluster.
func (m *Image) ClusterID() string { return m.clusterID }

// Topic is the topic of that name, nil if there is none.
func (m *Image) Topic(name string) *Topic { return m.byName[name] }

// TopicByID is the topic with that id, nil if there is none.
func (m *Image) TopicByID(id ID) *Topic { return m.byID[id] }

// Topics is every topic, by name.
func (m *Image) Topics() []*Topic {
	topics := make([]*Topic, 0, len(m.byName))
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		topics = append(topics, m.byName[name])
	}
	return topics
}

// PartitionCount is the number of partitions of all topics.
func (m *Image) PartitionCount() int { return m.partitions }

// Broker is a broker that has registered.
func (m *Image) Broker(id int32) (Broker, bool) {
	b, ok := m.brokers[id]
	return b, ok
}

// Brokers is every broker that has registered, by id.
func (m *Image) Brokers() []Broker {
	brokers := make([]Broker, 0, len(m.brokers))
	for _, id := range slices.Sorted(maps.Keys(m.brokers)) {
		brokers = append(brokers, m.brokers[id])
	}
	return brokers
}

// NextProducerID is the first producer id that nobody has been given.
func (m *Image) NextProducerID() int64 { return m.nextProducerID }
