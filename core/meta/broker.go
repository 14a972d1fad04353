package meta

import (
	"fmt"
	"maps"
	"slices"
)

// Broker is a node as it registered last.
type Broker struct {
	ID         int32
	Host       string
	Port       int32
	Rack       string
	Generation int64 // how often it has registered; Kafka's broker epoch
	State      BrokerState
}

// BrokerState says what a broker may be.
type BrokerState string

// The states of a broker.
const (
	BrokerActive  BrokerState = ""        // leads, and is in sync
	BrokerFenced  BrokerState = "fenced"  // does neither: it is silent, has just started, or has ended
	BrokerLeaving BrokerState = "leaving" // leads only what nobody else can
)

// MarshalText and UnmarshalText write the zero state as "active".
func (s BrokerState) MarshalText() ([]byte, error) {
	if s == BrokerActive {
		return []byte("active"), nil
	}
	return []byte(s), nil
}

// UnmarshalText reads what MarshalText writes.
func (s *BrokerState) UnmarshalText(text []byte) error {
	if *s = BrokerState(text); *s == "active" {
		*s = BrokerActive
	}
	return nil
}

// String is the state's name.
func (s BrokerState) String() string {
	if s == BrokerActive {
		return "active"
	}
	return string(s)
}

func (s BrokerState) known() bool {
	return s == BrokerActive || s == BrokerFenced || s == BrokerLeaving
}

// isActive says that a broker may lead and be in sync.
func (m *Image) isActive(id int32) bool {
	b, ok := m.brokers[id]
	return ok && b.State == BrokerActive
}

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

// registerBroker: the start before is over, whatever it was doing. A broker that is alone serves at once.
func (m *Image) registerBroker(r *RegisterBroker) Result {
	old, isKnown := m.brokers[r.ID]
	b := Broker{ID: r.ID, Host: r.Host, Port: r.Port, Rack: r.Rack, Generation: old.Generation + 1}
	isAlone := len(m.brokers) == 0 || isKnown && len(m.brokers) == 1
	if !isAlone {
		b.State = BrokerFenced
	}
	m.brokers[r.ID] = b
	m.nextNodeID = max(m.nextNodeID, r.ID+1)
	keeps := r.Keeps != 0 && r.Keeps == old.Generation
	changed := m.eachPartition(func(t *Topic, p *Partition) bool {
		switch {
		case isAlone:
			return p.leadAgain(r.ID)
		case keeps:
			return m.handOver(p, r.ID)
		}
		return m.leave(t, p, r.ID)
	})
	return Result{Changed: changed, Generation: b.Generation}
}

func (m *Image) changeBroker(c *ChangeBroker) (Result, error) {
	b, ok := m.brokers[c.ID]
	if !ok {
		return Result{}, fmt.Errorf("change broker %d: %w", c.ID, ErrUnknownNode)
	}
	if b.Generation != c.Generation {
		return Result{}, fmt.Errorf("change broker %d of generation %d: %w", c.ID, c.Generation, ErrStaleBroker)
	}
	if b.State == c.To {
		return Result{}, nil
	}
	b.State = c.To
	m.brokers[c.ID] = b
	return Result{Changed: m.eachPartition(func(t *Topic, p *Partition) bool {
		switch c.To {
		case BrokerActive:
			before := p.PartitionEpoch
			isChanged := m.come(t, p, c.ID)
			m.endMove(p) // it may have waited for somebody who stays
			return isChanged || p.PartitionEpoch != before
		case BrokerLeaving:
			return (p.Leader != c.ID || m.hasOthers(p, c.ID)) && m.leave(t, p, c.ID)
		default:
			return m.leave(t, p, c.ID)
		}
	})}, nil
}

func (m *Image) unregisterBroker(u *UnregisterBroker) (Result, error) {
	b, ok := m.brokers[u.ID]
	if !ok {
		return Result{}, fmt.Errorf("unregister broker %d: %w", u.ID, ErrUnknownNode)
	}
	if b.State == BrokerActive {
		return Result{}, fmt.Errorf("unregister broker %d: %w: it is active", u.ID, ErrInUse)
	}
	for _, t := range m.Topics() {
		for i := range t.Partitions {
			if slices.Contains(t.Partitions[i].Replicas, u.ID) {
				return Result{}, fmt.Errorf("unregister broker %d: %w: it has a replica of %s-%d", u.ID, ErrInUse, t.Name, i)
			}
		}
	}
	delete(m.brokers, u.ID)
	return Result{}, nil
}

func (m *Image) allocateNodeID(a *AllocateNodeID) (Result, error) {
	id := m.nextNodeID
	if a.Want != 0 {
		if a.Want < id {
			return Result{}, fmt.Errorf("node id %d: %w", a.Want, ErrNodeID)
		}
		id = a.Want
	}
	m.nextNodeID = id + 1
	return Result{NodeID: id}, nil
}

// eachPartition calls change with a copy of every partition and keeps those of which it says true; it returns the topics that
// have changed, by name.
func (m *Image) eachPartition(change func(*Topic, *Partition) bool) []*Topic {
	var changed []*Topic
	for _, t := range m.Topics() {
		next := t
		for i := range t.Partitions {
			p := t.Partitions[i]
			if !change(t, &p) {
				continue
			}
			if next == t {
				next = t.clone()
			}
			next.Partitions[i] = p
		}
		if next != t {
			m.put(next)
			changed = append(changed, next)
		}
	}
	return changed
}

// clone is a copy whose partitions may be replaced.
func (t *Topic) clone() *Topic {
	c := *t
	c.Partitions = slices.Clone(t.Partitions)
	return &c
}
