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
	ErrNoReplica    = errors.New("no replica is on an active broker")
	ErrUnknownNode  = errors.New("no such broker")
	ErrStaleBroker  = errors.New("the broker has started again since")
	ErrInUse        = errors.New("the broker is in use")
	ErrNodeID       = errors.New("node id is or was in use")
)

// Topic is one topic. It is immutable.
type Topic struct {
	ID         ID
	Name       string
	Partitions []Partition
	Configs    map[string]string // only what was set; defaults are the broker's
}

// Image is the metadata at one point of the log. Its zero value isn't usable: NewImage. It has no lock.
type Image struct {
	clusterID      string
	brokers        map[int32]Broker
	byName         map[string]*Topic
	byID           map[ID]*Topic
	partitions     int
	nextProducerID int64
	nextNodeID     int32 // above every id that was ever registered or given

	loading *Image // of the snapshot whose parts are being applied, else nil
	loaded  int    // parts

	faults Faults
}

// NewImage is the metadata before the first command.
func NewImage() *Image {
	return &Image{brokers: make(map[int32]Broker), byName: make(map[string]*Topic), byID: make(map[ID]*Topic), nextNodeID: 1}
}

// Result is what applying a command gave.
type Result struct {
	Topic           *Topic   // CreateTopic: the new one; AddPartitions: the changed one; DeleteTopic: the one that is gone; AlterTopicConfigs: the changed one
	Changed         []*Topic // all other commands: topics with partitions that have changed, by name
	FirstProducerID int64    // AllocateProducerIDs
	NodeID          int32    // AllocateNodeID
	Generation      int64    // RegisterBroker
	Refused         []error  // AlterPartitions, ElectLeaders, AssignReplicas: for each change named, nil or why it was not made
	Snapshot        bool     // Snapshot: it was the last part, and all were there
	IsOwn           bool     // this start of this node proposed it
	Jumped          bool     // with Snapshot: the image was older than the log's start, and anything may have changed
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
	case c.RegisterBroker != nil:
		return m.registerBroker(c.RegisterBroker), nil
	case c.ChangeBroker != nil:
		return m.changeBroker(c.ChangeBroker)
	case c.UnregisterBroker != nil:
		return m.unregisterBroker(c.UnregisterBroker)
	case c.AllocateNodeID != nil:
		return m.allocateNodeID(c.AllocateNodeID)
	case c.AlterPartitions != nil:
		return m.alterPartitions(c.AlterPartitions)
	case c.ElectLeaders != nil:
		return m.electLeaders(c.ElectLeaders), nil
	case c.AssignReplicas != nil:
		return m.assignReplicas(c.AssignReplicas), nil
	}
	return Result{}, fmt.Errorf("%w: empty", ErrVersion)
}

func (m *Image) createTopic(c *CreateTopic) (Result, error) {
	if m.byName[c.Name] != nil {
		return Result{}, fmt.Errorf("create topic %q: %w", c.Name, ErrTopicExists)
	}
	if m.byID[c.ID] != nil {
		return Result{}, fmt.Errorf("create topic %q: its id is taken: %w", c.Name, ErrTopicExists)
	}
	partitions, err := m.placed(nil, c.Replicas)
	if err != nil {
		return Result{}, fmt.Errorf("create topic %q: %w", c.Name, err)
	}
	t := &Topic{ID: c.ID, Name: c.Name, Partitions: partitions, Configs: maps.Clone(c.Configs)}
	m.put(t)
	m.partitions += len(t.Partitions)
	return Result{Topic: t}, nil
}

// placed is partitions with new ones behind them, each in sync on those of its replicas that are active.
func (m *Image) placed(partitions []Partition, replicas [][]int32) ([]Partition, error) {
	all := make([]Partition, len(partitions), len(partitions)+len(replicas))
	copy(all, partitions)
	for _, r := range replicas {
		isr := r
		if slices.ContainsFunc(r, func(id int32) bool { return !m.isActive(id) }) {
			isr = slices.DeleteFunc(slices.Clone(r), func(id int32) bool { return !m.isActive(id) })
		}
		if len(isr) == 0 {
			return nil, fmt.Errorf("partition %d on %v: %w", len(all), r, ErrNoReplica)
		}
		all = append(all, Partition{Leader: isr[0], Replicas: r, ISR: isr})
	}
	return all, nil
}

func (m *Image) addPartitions(c *AddPartitions) (Result, error) {
	t := m.byID[c.ID]
	if t == nil {
		return Result{}, fmt.Errorf("add partitions to topic %x: %w", c.ID[:], ErrUnknownTopic)
	}
	if len(t.Partitions) != c.From {
		return Result{}, fmt.Errorf("add partitions to topic %q: %w: %d", t.Name, ErrPartitions, len(t.Partitions))
	}
	partitions, err := m.placed(t.Partitions, c.Replicas)
	if err != nil {
		return Result{}, fmt.Errorf("add partitions to topic %q: %w", t.Name, err)
	}
	next := *t
	next.Partitions = partitions
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

// interrupt is what an entry without a command does: a snapshot whose parts it comes between means nothing.
func (m *Image) interrupt() { m.loading = nil }

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

// TopicCount is the number of topics.
func (m *Image) TopicCount() int { return len(m.byName) }

// PartitionCount is the number of partitions of all topics.
func (m *Image) PartitionCount() int { return m.partitions }

// NextProducerID is the first producer id that nobody has been given.
func (m *Image) NextProducerID() int64 { return m.nextProducerID }
