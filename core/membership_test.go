package core

import (
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
)

// TestClusterForms: three founders elect a leader, register and are active; who is silent is fenced, and what it led is led by another; when it
// is heard again it is active again.
func TestClusterForms(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	took := c.until("three active brokers", c.areActive(1, 2, 3))
	t.Logf("formed after %v", took)
	for _, n := range c.up() {
		if n.ClusterID() != "the-cluster" || n.ID() != n.id || !n.isServing() || len(n.known) != 2 {
			t.Errorf("node %d: cluster %q, id %d, serves %t, knows %v", n.id, n.ClusterID(), n.ID(), n.isServing(), n.known)
		}
	}
	lead := c.controllerNode()
	victim := lead.id%3 + 1
	other := victim%3 + 1
	c.newTopic("t", victim, other, lead.id)
	c.nodes[victim].isCut = true
	took = c.until("fencing", func() bool { return lead.brokers()[victim] == meta.BrokerFenced })
	if took > 2*time.Second {
		t.Errorf("a silent broker was fenced after %v", took)
	}
	if got := lead.leads("t"); got != other {
		t.Errorf("node %d leads, want %d", got, other)
	}
	c.nodes[victim].isCut = false
	c.until("the return of the fenced", c.areActive(1, 2, 3))
}
