package core

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/core/meta"
)

const (
	// defaultFactor stands for the broker's own replication factor.
	defaultFactor = -1
	// safeFactor is the replication factor where nobody has said one, as far as there are brokers.
	safeFactor = 3
)

// placed chooses replicas for new partitions, factor for each (defaultFactor: the broker's default), at most as many as there are brokers. Those that
// are active come first; the others, as in Kafka, where those are too few: they are in sync when they are back, and a topic that was made while a node
// was being restarted isn't short of a replica for ever.
func (b *Broker) placed(topic string, partitions int, factor int16) ([][]int32, error) {
	nodes := b.nodes()
	active := b.activeNodes()
	if len(active) == 0 {
		return nil, b.nowhere(topic)
	}
	n := int(factor)
	if factor == defaultFactor {
		if n = int(b.cfg.ReplicationFactor); n == 0 {
			n = min(safeFactor, len(nodes))
		}
	}
	if n > len(nodes) {
		b.log.Warn("replication factor is clamped to the nodes there are", "topic", topic, "asked", n, "nodes", len(nodes))
		n = len(nodes)
	}
	if err := b.checkCount(partitions, n, len(nodes)); err != nil {
		return nil, err
	}
	first := b.placements.Add(uint64(partitions)) - uint64(partitions) + uint64(b.cfg.NodeID)
	all := spread(active, partitions, min(n, len(active)), first)
	if missing := n - len(active); missing > 0 {
		others := spread(slices.DeleteFunc(nodes, func(n meta.Broker) bool { return n.State == meta.BrokerActive }), partitions, missing, first)
		for i := range all {
			all[i] = append(all[i], others[i]...)
		}
	}
	return all, nil
}

func (b *Broker) activeNodes() []meta.Broker {
	return slices.DeleteFunc(b.nodes(), func(n meta.Broker) bool { return n.State != meta.BrokerActive })
}

// nowhere is why a topic can't be placed on any broker.
func (b *Broker) nowhere(topic string) error {
	if !b.registered.Load() {
		return b.unregistered()
	}
	return fmt.Errorf("place topic %q: no broker is active: %w", topic, meta.ErrNoLeader)
}

// spread gives each of count partitions factor of the nodes, its preferred leader first, so that leaders and replicas go round from first on, the
// followers of one leader's partitions are not always the same, and a partition's replicas are on as many racks as there are (KIP-36).
func spread(nodes []meta.Broker, count, factor int, first uint64) [][]int32 {
	nodes = alternate(nodes)
	n := uint64(len(nodes))
	all := make([][]int32, count)
	order := make([]meta.Broker, len(nodes))
	for i := range all {
		turn, lead := (first+uint64(i))/n, (first+uint64(i))%n
		order[0] = nodes[lead]
		for j := uint64(1); j < n; j++ {
			order[j] = nodes[(lead+1+(turn+j-1)%(n-1))%n]
		}
		all[i] = pick(order, factor)
	}
	return all
}

// pick takes factor nodes in order, each the first of those whose rack was taken the least often.
func pick(order []meta.Broker, factor int) []int32 {
	ids := make([]int32, 0, factor)
	taken := make(map[string]int)
	for len(ids) < factor {
		best := -1
		for i := range order {
			if !slices.Contains(ids, order[i].ID) && (best < 0 || taken[order[i].Rack] < taken[order[best].Rack]) {
				best = i
			}
		}
		ids = append(ids, order[best].ID)
		taken[order[best].Rack]++
	}
	return ids
}

// alternate orders nodes so that those of one rack don't stand together as long as there are others: first one of each rack, by id, and so on.
// In what it returns every node has a rack: one without is a rack of its own.
func alternate(nodes []meta.Broker) []meta.Broker {
	sorted := slices.Clone(nodes)
	seen := make(map[string]int)
	round := make(map[int32]int, len(nodes))
	for i := range sorted {
		n := &sorted[i]
		if n.Rack == "" {
			n.Rack = fmt.Sprintf("\x00%d", n.ID)
		}
		round[n.ID] = seen[n.Rack]
		seen[n.Rack]++
	}
	slices.SortStableFunc(sorted, func(x, y meta.Broker) int { return round[x.ID] - round[y.ID] })
	return sorted
}

// checkAsked reports an assignment that a client asks for and that can't be. width is how many replicas each has to have, 0 for as many as the
// first.
func (b *Broker) checkAsked(replicas [][]int32, width int) error {
	nodes := b.nodes()
	for _, ids := range replicas {
		if width == 0 {
			width = len(ids)
		}
		if err := checkReplicas(ids, nodes); err != nil {
			return err
		}
		if len(ids) != width {
			return fmt.Errorf("replicas %v: others have %d replicas: %w", ids, width, kerr.InvalidReplicaAssignment)
		}
		if !slices.ContainsFunc(nodes, func(n meta.Broker) bool { return n.State == meta.BrokerActive && slices.Contains(ids, n.ID) }) {
			return fmt.Errorf("replicas %v: none of the nodes is active: %w", ids, kerr.InvalidReplicaAssignment)
		}
	}
	return nil
}

// checkReplicas reports replicas that no partition can have.
func checkReplicas(ids []int32, nodes []meta.Broker) error {
	if len(ids) == 0 {
		return fmt.Errorf("no replicas: %w", kerr.InvalidReplicaAssignment)
	}
	for i, id := range ids {
		if !slices.ContainsFunc(nodes, func(n meta.Broker) bool { return n.ID == id }) {
			return fmt.Errorf("replicas %v: there is no node %d: %w", ids, id, kerr.InvalidReplicaAssignment)
		}
		if slices.Contains(ids[:i], id) {
			return fmt.Errorf("replicas %v: node %d is there twice: %w", ids, id, kerr.InvalidReplicaAssignment)
		}
	}
	return nil
}

// checkCount reports a number of new partitions that isn't positive or that the nodes have no room for, taking what there is for replicated as
// the new ones are.
func (b *Broker) checkCount(partitions, factor, nodes int) error {
	if partitions < 1 {
		return fmt.Errorf("%d partitions: %w", partitions, kerr.InvalidPartitions)
	}
	var have int
	b.meta.View(func(img *meta.Image) { have = img.PartitionCount() })
	if room := b.cfg.MaxPartitions * max(1, nodes) / max(1, factor); partitions > room-have {
		return fmt.Errorf("%d partitions more than the %d there are: each node is configured for %d replicas: %w",
			partitions, have, b.cfg.MaxPartitions, kerr.PolicyViolation)
	}
	return nil
}
