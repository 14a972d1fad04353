package core

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
)

// TestInternalTopicsGrow: the group offsets topic of a node that was alone gets replicas on those that join it, led by all; other topics stay as
// they were made.
func TestInternalTopicsGrow(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.BalanceInterval = time.Second }, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	alone := []int32{1}
	for i, name := range []string{offsetsTopic, "t"} {
		create := &meta.CreateTopic{ID: meta.ID{byte(i + 1)}, Name: name, Replicas: [][]int32{alone, alone, alone}}
		if _, err := c.propose(lead, meta.Command{CreateTopic: create}); err != nil {
			t.Fatal(err)
		}
	}
	took := c.until("three replicas in sync, each led by another", func() bool {
		leaders := make(map[int32]bool)
		isGrown := true
		lead.meta.View(func(img *meta.Image) {
			for _, p := range img.Topic(offsetsTopic).Partitions {
				leaders[p.Leader] = true
				isGrown = isGrown && len(p.ISR) == 3 && len(p.Replicas) == 3 && len(p.Adding) == 0
			}
		})
		return isGrown && len(leaders) == 3
	})
	t.Logf("after %v", took)
	if p := lead.partitionOf("t"); !slices.Equal(p.Replicas, alone) {
		t.Errorf("a client's topic has moved to %v", p.Replicas)
	}
}

// TestPreferredLeaders: a broker that is back, and in sync, leads again what it is the first replica of, after a while; not where that is off.
func TestPreferredLeaders(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		c := newCluster(t, func(cfg *Config) { cfg.KeepLeaders = keeps }, 1, 2, 3)
		c.until("three active brokers", c.areActive(1, 2, 3))
		lead := c.controllerNode()
		first := lead.id%3 + 1
		second := first%3 + 1
		c.newTopic("t", first, second)
		c.kill(first)
		c.until("the other to lead", func() bool { return lead.leads("t") == second })
		c.start(first)
		c.until("the first to be in sync", func() bool { return c.areActive(1, 2, 3)() && len(lead.partitionOf("t").ISR) == 2 })
		c.run(11 * time.Second)
		want := map[bool]int32{false: first, true: second}[keeps]
		if got := lead.leads("t"); got != want {
			t.Errorf("auto.leader.rebalance.enable=%t: node %d leads, want %d", !keeps, got, want)
		}
		c.close()
		clear(c.nodes)
	}
}

// TestOneSurvives: without a majority nobody is fenced, and nothing is changed; when it is back, all goes on.
func TestOneSurvives(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	n := c.nodes[1]
	c.kill(2)
	c.kill(3)
	c.run(5 * time.Second)
	if n.leader.Load() != 0 || len(n.others()) != 2 {
		t.Errorf("node 1 believes in leader %d, and that %v are active", n.leader.Load(), n.others())
	}
	c.start(2)
	c.until("two active brokers", c.areActive(1, 2))
	c.start(3)
	c.until("three active brokers", c.areActive(1, 2, 3))
}
