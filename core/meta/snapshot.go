package meta

import (
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// Snapshot is one part of the whole image as of its place in the log. Parts 0 to Of-1 follow each other without any other command
// between; after the last, the image is what they say, whatever was before, so the log may begin at part 0. Parts that
// another command follows too early (a crash cut the rest short) mean nothing.
//
// The first part has all but the topics. A topic with many partitions goes on in the next part, under the same id.
type Snapshot struct {
	Part           int              `json:"part"`
	Of             int              `json:"of"`
	ClusterID      string           `json:"cluster_id,omitempty"`
	Brokers        []SnapshotBroker `json:"brokers,omitempty"`
	NextProducerID int64            `json:"next_producer_id,omitempty"`
	NextNodeID     int32            `json:"next_node_id,omitempty"`
	Topics         []SnapshotTopic  `json:"topics,omitempty"`
}

// SnapshotBroker is a Broker.
type SnapshotBroker struct {
	ID         int32  `json:"id"`
	Host       string `json:"host,omitempty"`
	Port       int32  `json:"port,omitempty"`
	Rack       string `json:"rack,omitempty"`
	Generation int64  `json:"generation"`

	State BrokerState `json:"state,omitempty"`
}

// SnapshotTopic is a Topic, or the next partitions of one.
type SnapshotTopic struct {
	ID         ID                  `json:"id"`
	Name       string              `json:"name,omitempty"`
	Configs    map[string]string   `json:"configs,omitempty"`
	Partitions []SnapshotPartition `json:"partitions"`
}

// SnapshotPartition is a Partition.
type SnapshotPartition struct {
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch,omitempty"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`

	PartitionEpoch int32   `json:"partition_epoch,omitempty"`
	Adding         []int32 `json:"adding,omitempty"`
	Removing       []int32 `json:"removing,omitempty"`
}

// defaultPerPart is how many partitions one part has at most.
const defaultPerPart = 2000

// snapshot is the image as commands, with at most perPart partitions in each; a topic without any counts as one.
func (m *Image) snapshot(perPart int) []Command {
	first := &Snapshot{ClusterID: m.clusterID, NextProducerID: m.nextProducerID, NextNodeID: m.nextNodeID}
	for _, b := range m.Brokers() {
		first.Brokers = append(first.Brokers, SnapshotBroker(b))
	}
	parts, part, left := []*Snapshot{first}, first, perPart
	for _, t := range m.Topics() {
		rest := t.Partitions
		for isFirst := true; isFirst || len(rest) > 0; isFirst = false {
			if left == 0 {
				part, left = &Snapshot{}, perPart
				parts = append(parts, part)
			}
			n := min(left, len(rest))
			s := SnapshotTopic{ID: t.ID, Partitions: make([]SnapshotPartition, n)}
			for i, p := range rest[:n] {
				s.Partitions[i] = SnapshotPartition(p)
			}
			if isFirst {
				s.Name, s.Configs = t.Name, t.Configs
			}
			part.Topics = append(part.Topics, s)
			rest, left = rest[n:], left-max(n, 1)
		}
	}
	commands := make([]Command, len(parts))
	for i, p := range parts {
		p.Part, p.Of = i, len(parts)
		commands[i].Snapshot = p
	}
	return commands
}

// applySnapshot takes one part, and replaces the image after the last.
func (m *Image) applySnapshot(s *Snapshot) Result {
	if s.Part == 0 {
		m.loading, m.loaded = NewImage(), 0
	}
	if m.loading == nil || s.Part != m.loaded {
		m.loading = nil
		return Result{}
	}
	next := m.loading
	m.loaded++
	if s.Part == 0 {
		next.clusterID, next.nextProducerID = s.ClusterID, s.NextProducerID
		next.nextNodeID = max(1, s.NextNodeID)
		for _, b := range s.Brokers {
			next.brokers[b.ID] = Broker(b)
			next.nextNodeID = max(next.nextNodeID, b.ID+1) // snapshots before there were several nodes don't say it
		}
	}
	for i := range s.Topics {
		next.loadTopic(&s.Topics[i])
	}
	if m.loaded < s.Of {
		return Result{}
	}
	next.faults = m.faults
	*m = *next
	return Result{Snapshot: true}
}

func (m *Image) loadTopic(s *SnapshotTopic) {
	t := m.byID[s.ID]
	if t == nil {
		t = &Topic{ID: s.ID, Name: s.Name, Configs: maps.Clone(s.Configs)}
		m.put(t)
	}
	for _, p := range s.Partitions { // nobody has seen t yet
		t.Partitions = append(t.Partitions, Partition(p))
	}
	m.partitions += len(s.Partitions)
}

// clone is a copy that can be changed apart; topics are shared, being immutable.
func (m *Image) clone() *Image {
	c := *m
	c.brokers, c.byName, c.byID = maps.Clone(m.brokers), maps.Clone(m.byName), maps.Clone(m.byID)
	c.loading = nil
	return &c
}

// check reports parts that can't be.
func (s *Snapshot) check() error {
	if s.Part < 0 || s.Of < 1 || s.Part >= s.Of {
		return fmt.Errorf("%w: part %d of a snapshot of %d", ErrVersion, s.Part, s.Of)
	}
	if slices.ContainsFunc(s.Brokers, func(b SnapshotBroker) bool { return b.Generation < 0 }) {
		return fmt.Errorf("%w: a broker's negative generation", ErrVersion)
	}
	return nil
}

// isDue says that this node leads, that enough commands have gathered since the last snapshot, and that the image isn't amid the parts of one.
func (q *Quorum) isDue() bool {
	every := uint64(max(q.snapshotEvery, q.image.PartitionCount()/10))
	isAmid := q.isBehind || q.image.loading != nil
	return q.leader.id == q.id && !isAmid && len(q.writes) == 0 && q.log.lastIndex()-max(q.snapshotEnd, q.proposedEnd) > every
}

// proposeSnapshot proposes the image as of the log's end, with all that isn't committed yet, since that lies before it. All parts are one
// proposal, so nothing comes between them. If there is no room, the next attempt comes after as many commands again.
func (q *Quorum) proposeSnapshot() {
	q.proposedEnd = q.log.lastIndex()
	q.view.RLock()
	whole := q.image.clone()
	q.view.RUnlock()
	for _, e := range q.log.entries[q.appliedIndex-q.log.base().Index:] {
		if c, _, err := decodeEntry(e); err == nil && c != nil {
			_, _ = whole.Apply(*c)
		}
	}
	m := &raftpb.Message{Type: raftpb.MsgProp.Enum(), From: new(uint64(q.id))}
	for _, c := range whole.snapshot(q.perPart) {
		b, err := c.Encode()
		if err == nil {
			err = q.admits(len(b)+batchBytes, true)
		}
		if err != nil {
			q.logger.Warn("no snapshot of the metadata can be made now", "error", err)
			return
		}
		m.Entries = append(m.Entries, &raftpb.Entry{Data: b})
	}
	if q.node.Step(m) == nil {
		q.proposedEnd += uint64(len(m.Entries))
	}
}

// begin notes that a whole snapshot of so many parts ends with the entry at last: the log may begin at its first part.
func (q *Quorum) begin(last uint64, parts int) {
	b := base{Index: last - uint64(parts), members: q.members} // between the parts no members change
	if q.faults.SkipMembers {
		b.members = q.log.base().members
	}
	b.Term, _ = q.log.Term(b.Index)
	q.wantedBase, q.snapshotEnd = b, last
}

// trim lets the log begin at the newest snapshot that was applied. What fails is tried again with the next change.
func (q *Quorum) trim() {
	if q.failed != nil {
		return
	}
	if len(q.writes) == 0 && q.wantedBase.Index > q.log.base().Index {
		_ = q.log.begin(q.wantedBase)
	}
	q.log.trim()
}
