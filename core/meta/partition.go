package meta

import (
	"errors"
	"fmt"
	"slices"
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// uncleanKey is the topic config that lets a replica lead that is not in sync.
const uncleanKey = "unclean.leader.election.enable"

// Errors of changes that are refused, each for itself.
var (
	ErrStaleEpoch   = errors.New("the partition has changed since")
	ErrNotLeader    = errors.New("another broker leads the partition")
	ErrIneligible   = errors.New("a new member of the in-sync set is not an active replica")
	ErrNoElection   = errors.New("the leader that is wanted leads already")
	ErrUnelectable  = errors.New("no replica may be elected")
	ErrNoAssignment = errors.New("no move is under way")
)

// Partition is where a partition lives. Its slices are immutable.
type Partition struct {
	Leader         int32 // NoLeader: nobody may lead
	LeaderEpoch    int32 // rises with each change of Leader, and with each start of a leader
	Replicas       []int32
	ISR            []int32 // in sync; never empty
	PartitionEpoch int32   // rises with each change
	Adding         []int32 // of Replicas, those that a move under way brings
	Removing       []int32 // of Replicas, those that go when all of Adding are in sync
}

// lead makes a broker, or nobody, lead. It reports true, the partition has changed.
func (p *Partition) lead(id int32) bool {
	p.Leader = id
	p.LeaderEpoch++
	p.PartitionEpoch++
	return true
}

// leadAgain begins a new epoch if id leads or may lead.
func (p *Partition) leadAgain(id int32) bool {
	if p.Leader == id || p.Leader == NoLeader && slices.Contains(p.ISR, id) {
		return p.lead(id)
	}
	return false
}

// hasOthers says that the in-sync set has an active member besides id.
func (m *Image) hasOthers(p *Partition, id int32) bool {
	return slices.ContainsFunc(p.ISR, func(other int32) bool { return other != id && m.isActive(other) })
}

// leave takes a broker that goes out off a partition. The set's last member stays in it, and leads no more.
func (m *Image) leave(t *Topic, p *Partition, id int32) bool {
	if !slices.Contains(p.ISR, id) {
		return false
	}
	switch {
	case p.Leader != id && p.Leader != NoLeader: // its leader stays in it, active or leaving
		p.ISR = without(p.ISR, id)
		p.PartitionEpoch++
		return true
	case p.Leader != id:
		return false
	case m.hasOthers(p, id):
		p.ISR = without(p.ISR, id)
		return p.lead(m.firstInSync(p))
	}
	if next := m.firstActive(p); next != NoLeader && t.Configs[uncleanKey] == "true" {
		p.ISR = []int32{next}
		return p.lead(next)
	}
	return p.lead(NoLeader)
}

// handOver lets another lead what a broker leads that has started anew. It stays in the in-sync set, since it has what was acknowledged: were it to leave, a
// whole cluster that starts together could end up with nobody in the set but one that never comes back.
func (m *Image) handOver(p *Partition, id int32) bool {
	return p.Leader == id && p.lead(m.firstInSync(p))
}

// come lets a broker that comes in lead what waits for it.
func (m *Image) come(t *Topic, p *Partition, id int32) bool {
	if p.Leader != NoLeader {
		return false
	}
	if slices.Contains(p.ISR, id) {
		return p.lead(id)
	}
	if slices.Contains(p.Replicas, id) && t.Configs[uncleanKey] == "true" {
		p.ISR = []int32{id}
		return p.lead(id)
	}
	return false
}

// firstInSync is the first replica that is active and in sync, NoLeader if there is none.
func (m *Image) firstInSync(p *Partition) int32 {
	for _, id := range p.Replicas {
		if m.isActive(id) && slices.Contains(p.ISR, id) {
			return id
		}
	}
	return NoLeader
}

// firstActive is the first replica that is active, NoLeader if there is none.
func (m *Image) firstActive(p *Partition) int32 {
	for _, id := range p.Replicas {
		if m.isActive(id) {
			return id
		}
	}
	return NoLeader
}

// without is ids without id, in a slice of its own.
func without(ids []int32, id int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(other int32) bool { return other == id })
}

// difference is what of a is not in b, in a slice of its own; nil if nothing is.
func difference(a, b []int32) []int32 {
	var rest []int32
	for _, id := range a {
		if !slices.Contains(b, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

// changeEach makes changes that are taken or refused each for itself.
func (m *Image) changeEach(n int, change func(i int) (PartitionRef, func(*Topic, *Partition) error)) Result {
	refused := make([]error, n)
	changed := make(map[ID]*Topic)
	for i := range n {
		ref, do := change(i)
		t := m.byID[ref.ID]
		if t == nil || ref.Partition < 0 || int(ref.Partition) >= len(t.Partitions) {
			refused[i] = fmt.Errorf("partition %d of topic %x: %w", ref.Partition, ref.ID[:], ErrUnknownTopic)
			continue
		}
		p := t.Partitions[ref.Partition]
		if err := do(t, &p); err != nil {
			refused[i] = fmt.Errorf("%s-%d: %w", t.Name, ref.Partition, err)
			continue
		}
		if changed[t.ID] == nil { // the first of this command: later ones may change the clone
			t = t.clone()
			m.put(t)
			changed[t.ID] = t
		}
		t.Partitions[ref.Partition] = p
	}
	r := Result{Refused: refused}
	for _, t := range changed {
		r.Changed = append(r.Changed, t)
	}
	slices.SortFunc(r.Changed, func(a, b *Topic) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return r
}

func (m *Image) alterPartitions(a *AlterPartitions) (Result, error) {
	b, ok := m.brokers[a.Broker]
	if !ok {
		return Result{}, fmt.Errorf("alter partitions of broker %d: %w", a.Broker, ErrUnknownNode)
	}
	if b.Generation != a.Generation {
		return Result{}, fmt.Errorf("alter partitions of broker %d in generation %d: %w", a.Broker, a.Generation, ErrStaleBroker)
	}
	return m.changeEach(len(a.Changes), func(i int) (PartitionRef, func(*Topic, *Partition) error) {
		c := &a.Changes[i]
		return PartitionRef{c.ID, c.Partition}, func(_ *Topic, p *Partition) error { return m.alterISR(p, a.Broker, c) }
	}), nil
}

func (m *Image) alterISR(p *Partition, leader int32, c *ISRChange) error {
	switch {
	case p.Leader != leader:
		return ErrNotLeader
	case (p.LeaderEpoch != c.LeaderEpoch || p.PartitionEpoch != c.PartitionEpoch) && !m.faults.IgnoreEpochs:
		return ErrStaleEpoch
	case !slices.Contains(c.ISR, leader):
		return fmt.Errorf("in-sync set %v without its leader: %w", c.ISR, ErrIneligible)
	}
	for i, id := range c.ISR {
		if slices.Contains(c.ISR[:i], id) || !slices.Contains(p.Replicas, id) {
			return fmt.Errorf("broker %d: %w", id, ErrIneligible)
		}
		if !slices.Contains(p.ISR, id) && (!m.isActive(id) || m.brokers[id].Generation != c.Generations[i]) {
			return fmt.Errorf("broker %d: %w", id, ErrIneligible)
		}
	}
	p.ISR = slices.Clone(c.ISR)
	p.PartitionEpoch++
	m.endMove(p)
	return nil
}

func (m *Image) electLeaders(e *ElectLeaders) Result {
	if len(e.Partitions) == 0 {
		return Result{Changed: m.eachPartition(func(_ *Topic, p *Partition) bool { return m.elect(p, e.How) == nil })}
	}
	return m.changeEach(len(e.Partitions), func(i int) (PartitionRef, func(*Topic, *Partition) error) {
		return e.Partitions[i], func(_ *Topic, p *Partition) error { return m.elect(p, e.How) }
	})
}

func (m *Image) elect(p *Partition, how Election) error {
	if how == ElectUnclean {
		next := m.firstActive(p)
		switch {
		case p.Leader != NoLeader:
			return ErrNoElection
		case next == NoLeader:
			return ErrUnelectable
		}
		p.ISR = []int32{next}
		p.lead(next)
		return nil
	}
	first := p.Replicas[0]
	switch {
	case p.Leader == first:
		return ErrNoElection
	case !m.isActive(first) || !slices.Contains(p.ISR, first):
		return ErrUnelectable
	}
	p.lead(first)
	return nil
}

func (m *Image) assignReplicas(a *AssignReplicas) Result {
	return m.changeEach(len(a.Changes), func(i int) (PartitionRef, func(*Topic, *Partition) error) {
		c := &a.Changes[i]
		return PartitionRef{c.ID, c.Partition}, func(_ *Topic, p *Partition) error { return m.assign(p, c.Replicas) }
	})
}

// assign begins a move to other replicas, or, without any, ends the one under way where it began.
func (m *Image) assign(p *Partition, to []int32) error {
	from := difference(p.Replicas, p.Adding)
	if len(to) == 0 {
		if len(p.Adding)+len(p.Removing) == 0 {
			return ErrNoAssignment
		}
		to = from
	}
	for i, id := range to {
		if _, ok := m.brokers[id]; !ok || slices.Contains(to[:i], id) {
			return fmt.Errorf("replicas %v: %w", to, ErrUnknownNode)
		}
	}
	next := *p
	next.Adding, next.Removing = difference(to, from), difference(from, to)
	next.Replicas = append(slices.Clone(to), next.Removing...)
	next.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(id int32) bool { return !slices.Contains(next.Replicas, id) })
	if len(next.ISR) == 0 {
		return fmt.Errorf("replicas %v: none is in sync: %w", to, ErrUnelectable)
	}
	next.PartitionEpoch++
	switch {
	case next.Leader != NoLeader && !slices.Contains(next.ISR, next.Leader):
		next.lead(m.firstInSync(&next))
	case len(difference(p.Replicas, next.Replicas)) > 0:
		next.lead(next.Leader) // as endMove does
	}
	m.endMove(&next)
	*p = next
	return nil
}

// endMove ends a move whose new replicas are all in sync, if an active one is among those that stay.
func (m *Image) endMove(p *Partition) {
	if len(p.Adding)+len(p.Removing) == 0 || len(difference(p.Adding, p.ISR)) > 0 {
		return
	}
	next := *p
	next.Replicas, next.ISR = difference(p.Replicas, p.Removing), difference(p.ISR, p.Removing)
	next.Adding, next.Removing = nil, nil
	leader := m.firstInSync(&next)
	if leader == NoLeader {
		return
	}
	switch {
	case !slices.Contains(next.ISR, next.Leader):
		next.lead(leader)
	case len(p.Removing) > 0:
		next.lead(next.Leader) // a new epoch: what who goes has said of its log isn't taken for what it has if it comes again, with an empty one
	default:
		next.PartitionEpoch++
	}
	*p = next
}
