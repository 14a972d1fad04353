package core

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// leaves has a node leave, and says how long that took.
func (c *cluster) leaves(n *node) time.Duration {
	c.t.Helper()
	hasLeft := false
	n.StartLeaving(func() { hasLeft = true })
	took := c.until("leaving", func() bool { return hasLeft })
	isCalled := false
	n.StartLeaving(func() { isCalled = true })
	if !isCalled {
		c.t.Error("a node that has left can't leave again")
	}
	return took
}

// TestLeaving: a node that ends hands over first what it leads, the metadata's group too, and is fenced before it is gone.
func TestLeaving(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	n := c.controllerNode()
	others := slices.DeleteFunc(c.ids(), func(id int32) bool { return id == n.id })
	c.newTopic("t", n.id, others[0], others[1])
	c.newTopic("mine", n.id)
	took := c.leaves(n)
	if took > time.Second {
		t.Errorf("leaving took %v", took)
	}
	other := c.nodes[others[0]]
	c.until("the others to know", func() bool { return other.brokers()[n.id] == meta.BrokerFenced })
	if n.leader.Load() == n.id || other.leads("t") != others[0] || other.leads("mine") != meta.NoLeader {
		t.Errorf("the group is led by %d, t by %d, mine by %d", n.leader.Load(), other.leads("t"), other.leads("mine"))
	}
	c.run(2 * time.Second)
	if other.brokers()[n.id] != meta.BrokerFenced {
		t.Error("a node that has left comes back by itself")
	}
	c.stop(n.id)
	c.start(n.id)
	c.until("its return", c.areActive(1, 2, 3))
	if other.leads("mine") != n.id {
		t.Errorf("mine is led by %d", other.leads("mine"))
	}
}

// TestLeavingInTurn: a rolling restart has a leader all the time.
func TestLeavingInTurn(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	c.newTopic("t", 1, 2, 3)
	for _, id := range c.ids() {
		c.leaves(c.nodes[id])
		c.stop(id)
		for _, n := range c.up() {
			if leader := n.leads("t"); leader == id || leader == meta.NoLeader {
				t.Errorf("without node %d, node %d believes that %d leads", id, n.id, leader)
			}
		}
		c.start(id)
		c.until("its return", c.areActive(1, 2, 3))
	}
}

// TestLeavingWaits: a node is not left waiting for by those who have less than it; but not for ever.
func TestLeavingWaits(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	n := c.nodes[1]
	c.newTopic("t", 1, 2)
	c.isLost = func(p packet) bool { return p.from == 2 && p.lane == LaneData } // it is there, and gets no records
	p := n.topics.byName("t").parts[0]
	if err := p.Append(record.AppendBatch(nil, []record.Record{{Value: []byte("x")}}, c.now), replica.AcksNone, 1, c.now, func(storage.Appended, error) {}); err != nil {
		t.Fatal(err)
	}
	a, _ := p.Assigned()
	shrink := meta.Command{AlterPartitions: &meta.AlterPartitions{Broker: 1, Generation: n.generation.Load(), Changes: []meta.ISRChange{{
		ID: n.topics.byName("t").ID, LeaderEpoch: a.LeaderEpoch, PartitionEpoch: a.PartitionEpoch, ISR: []int32{1}, Generations: []int64{n.generation.Load()},
	}}}}
	if r, err := c.propose(n, shrink); err != nil || r.Refused[0] != nil {
		t.Fatal(r, err)
	}
	if took := c.leaves(n); took < 4900*time.Millisecond || took > 5100*time.Millisecond {
		t.Errorf("it waited for %v, allowed are 5 s", took)
	}
	if n.leads("t") != 1 {
		t.Errorf("node %d leads, and hasn't got all records", n.leads("t"))
	}
}

// TestLeavingAlone: who is alone, or has no majority, need not wait.
func TestLeavingAlone(t *testing.T) {
	c := newCluster(t, nil)
	c.found(1, meta.Identity{})
	n := c.start(1)
	if took := c.leaves(n); took > clusterStep {
		t.Errorf("a node that is alone took %v to leave", took)
	}
}
