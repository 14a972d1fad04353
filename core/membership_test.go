package core

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
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
	if generation := c.nodes[victim].generation.Load(); generation != 1 {
		t.Errorf("generation %d: it need not have registered again", generation)
	}
}

// TestControllerDies: the group elects another leader, which fences the one before; when that is back it registers again.
func TestControllerDies(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	old := c.controllerNode()
	others := slices.DeleteFunc(c.ids(), func(id int32) bool { return id == old.id })
	c.newTopic("t", old.id, others[0], others[1])
	c.kill(old.id)
	took := c.until("fencing of the dead leader", c.areActive(others...))
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if lead := c.nodes[others[0]].leads("t"); lead != others[0] {
		t.Errorf("node %d leads, want %d", lead, others[0])
	}
	c.start(old.id)
	c.until("its return", c.areActive(1, 2, 3))
	if generation := old.generation.Load(); generation != 2 {
		t.Errorf("generation %d after a second start", generation)
	}
	if p := old.topics.byName("t").parts[0]; p == nil {
		t.Error("its replica isn't open")
	} else if a, _ := p.Assigned(); a.Leader != others[0] {
		t.Errorf("its replica is assigned %+v", a)
	}
}

// TestRestartWithinASession: a node that is back before anyone missed it leads nothing in the epochs of its earlier life: it has forgotten what it
// had not synced, which others may have.
func TestRestartWithinASession(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	victim := c.nodes[lead.id%3+1]
	c.newTopic("t", victim.id, lead.id)
	before := lead.partitionOf("t")
	c.kill(victim.id)
	c.start(victim.id)
	if _, _, err := victim.partition("t", 0); !errors.Is(err, replica.ErrNotLeader) && !errors.Is(err, errUnknownTopic) || victim.isServing() {
		t.Errorf("before it has registered: %v, serves %t", err, victim.isServing())
	}
	c.until("its registration", func() bool { return victim.registered.Load() })
	after := victim.partitionOf("t")
	if after.Leader != lead.id || after.LeaderEpoch <= before.LeaderEpoch {
		t.Errorf("led by %+v after %+v", after, before)
	}
	c.until("its return", c.areActive(1, 2, 3))

	stale := meta.Command{ChangeBroker: &meta.ChangeBroker{ID: victim.id, Generation: 1, To: meta.BrokerFenced}}
	if _, err := c.propose(lead, stale); !errors.Is(err, meta.ErrStaleBroker) {
		t.Errorf("what is said of its earlier life: %v", err)
	}
}

// TestOldImageDropsNothing: a node may start with an image that is older than its logs, for what it knew to be agreed on need not be on its disk. What
// that image lacks isn't dropped; what the group has deleted meanwhile is, when the node is registered.
func TestOldImageDropsNothing(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	n := c.nodes[lead.id%3+1]
	c.newTopic("goes", lead.id, n.id)
	c.kill(n.id)
	c.newTopic("forgotten", lead.id, n.id)
	goes, forgotten := lead.topics.byName("goes").ID, lead.topics.byName("forgotten").ID
	if _, err := c.propose(lead, meta.Command{DeleteTopic: &meta.DeleteTopic{ID: goes}}); err != nil {
		t.Fatal(err)
	}

	s, err := storage.Open(storage.Options{FS: n.mem, Dir: "data", WALFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.OpenLog(logID(forgotten, 0), "forgotten-0", storage.LogConfig{MaxMessageBytes: 1 << 20})
	if err == nil {
		_, err = log.Append(batch("x"), 0, c.now)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.start(n.id)
	if log := n.Store().Log(logID(forgotten, 0)); log == nil || log.EndOffset() != 1 || n.Store().Log(logID(goes, 0)) == nil {
		t.Errorf("logs after the start: %x", n.Store().Logs())
	}
	c.until("its registration", func() bool { return n.registered.Load() })
	if n.Store().Log(logID(forgotten, 0)) == nil || n.Store().Log(logID(goes, 0)) != nil {
		t.Errorf("logs after the return: %x", n.Store().Logs())
	}
}

// TestFarBehind: a node that slept through a snapshot of the metadata opens what it was given meanwhile, and drops what it has lost.
func TestFarBehind(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.SnapshotEvery = 5 }, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	n := c.nodes[lead.id%3+1]
	c.newTopic("goes", lead.id, n.id)
	c.newTopic("stays", lead.id, n.id)
	n.isCut = true
	c.until("fencing", func() bool { return lead.brokers()[n.id] == meta.BrokerFenced })
	goes := lead.topics.byName("goes").Topic
	if _, err := c.propose(lead, meta.Command{DeleteTopic: &meta.DeleteTopic{ID: goes.ID}}); err != nil {
		t.Fatal(err)
	}
	c.newTopic("comes", lead.id, n.id)
	for range 20 {
		if _, err := c.propose(lead, meta.Command{AllocateProducerIDs: &meta.AllocateProducerIDs{Broker: 1, Count: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	n.isCut = false
	c.until("its return", c.areActive(1, 2, 3))
	if n.topics.byName("goes") != nil || n.Store().Log(logID(goes.ID, 0)) != nil {
		t.Error("a deleted topic is there")
	}
	for _, name := range []string{"stays", "comes"} {
		if _, p, err := n.partition(name, 0); err != nil || p == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSilentDisk: a node whose disk hangs serves nobody, and others take over; when the disk goes on it is back.
func TestSilentDisk(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	n := c.controllerNode() // the worst case
	others := slices.DeleteFunc(c.ids(), func(id int32) bool { return id == n.id })
	c.newTopic("t", n.id, others[0], others[1])
	n.hangDisk()
	n.meta.Propose(meta.Command{AllocateProducerIDs: &meta.AllocateProducerIDs{Broker: 1, Count: 1}}, c.now, func(meta.Result, error) {})
	took := c.until("silence", func() bool { return !n.isServing() })
	if took < 400*time.Millisecond || took > 800*time.Millisecond {
		t.Errorf("silent after %v, half a session is 500 ms", took)
	}
	c.until("others to take over", func() bool {
		return c.nodes[others[0]].brokers()[n.id] == meta.BrokerFenced && c.nodes[others[0]].leads("t") == others[0]
	})
	if n.Err() != nil {
		t.Errorf("a disk that hangs ends the node: %v", n.Err())
	}
	n.goesOn()
	c.until("its return", c.areActive(1, 2, 3))
	if !n.isServing() {
		t.Error("it doesn't serve")
	}
}

// TestGrow: a node that was alone takes in two more, which become voters with it, all at once.
func TestGrow(t *testing.T) {
	c := newCluster(t, nil)
	c.found(1, meta.Identity{})
	first := c.start(1)
	if !first.registered.Load() || !first.isAlone() {
		t.Fatal("a node that is alone is up when Open returns")
	}
	first.Step(c.now)
	c.newTopic("t", 1)
	for id := int32(2); id <= 3; id++ {
		r, err := c.propose(first, meta.Command{AllocateNodeID: &meta.AllocateNodeID{}})
		if err != nil || r.NodeID != id {
			t.Fatalf("%+v, %v", r, err)
		}
		c.found(id, meta.Identity{Node: id, ClusterID: first.ClusterID()})
		c.start(id)
		isIn := false
		first.admit(id, c.now, func(err error) {
			if err != nil {
				t.Error(err)
			}
			isIn = true
		})
		c.until("a new member", func() bool { return isIn })
	}
	c.until("three active brokers", c.areActive(1, 2, 3))
	c.until("three voters", func() bool {
		return !slices.ContainsFunc(c.up(), func(n *node) bool {
			voters := 0
			for _, m := range n.meta.Status().Members {
				if m.IsVoter && !m.IsLeaving {
					voters++
				}
			}
			return voters != 3
		})
	})
	if first.generation.Load() != 1 || first.leads("t") != 1 {
		t.Errorf("generation %d, t is led by %d", first.generation.Load(), first.leads("t"))
	}
	c.kill(1)
	c.until("the first to be missed", c.areActive(2, 3))
	c.start(1)
	c.until("its return", c.areActive(1, 2, 3))
}

// TestAdmitElsewhere: only the group's leader lets nodes in.
func TestAdmitElsewhere(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	n := c.nodes[c.controllerNode().id%3+1]
	var got error
	n.admit(4, c.now, func(err error) { got = err })
	if !errors.Is(got, meta.ErrNotLeading) {
		t.Errorf("admitted: %v", got)
	}
}

// TestTwoNodesWithOneID: a second node with the first one's folder registers as often as that; one of them ends, and says why.
func TestTwoNodesWithOneID(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	n := c.nodes[lead.id%3+1]
	for range strangersMost + 1 { // as the other does, whenever it has lost its registration
		if n.Err() != nil {
			t.Fatalf("ended too early: %v", n.Err())
		}
		stranger := meta.Command{RegisterBroker: &meta.RegisterBroker{ID: n.id, Host: "10.0.0.9", Port: 1}}
		if _, err := c.propose(lead, stranger); err != nil {
			t.Fatal(err)
		}
		c.run(200 * time.Millisecond)
	}
	if !errors.Is(n.Err(), errSameID) {
		t.Errorf("it goes on: %v", n.Err())
	}
}

// TestAnotherAddress: a node that is reached elsewhere than it registered, among others, registers again.
func TestAnotherAddress(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	n := c.nodes[2]
	n.cfg.Advertise = "10.0.7.7:9"
	c.until("the new address everywhere", func() bool { return c.nodes[1].known[2] == "10.0.7.7:9" && c.nodes[3].known[2] == "10.0.7.7:9" })
	c.until("three active brokers", c.areActive(1, 2, 3))
	if n.generation.Load() != 2 {
		t.Errorf("generation %d", n.generation.Load())
	}
}

// TestWrongFolder: what a node can't start with says how to mend it.
func TestWrongFolder(t *testing.T) {
	folder := func(identity meta.Identity) Config {
		c := &cluster{t: t, nodes: make(map[int32]*node)}
		cfg := Default("data")
		cfg.FS, cfg.WALFileBytes = c.found(identity.Node, identity).mem, 1<<20
		return cfg
	}
	three := meta.Identity{Node: 2, ClusterID: "x", Voters: []int32{1, 2, 3}}
	for _, row := range []struct {
		name     string
		identity meta.Identity
		tune     func(*Config)
		want     string
	}{
		{"another id", three, func(cfg *Config) { cfg.NodeID, cfg.Peers = 3, &node{} }, "leave node.id out"},
		{"no secret", three, func(*Config) {}, "cluster.secret is not given"},
	} {
		cfg := folder(row.identity)
		row.tune(&cfg)
		b, err := Open(cfg)
		if err == nil {
			t.Errorf("%s: it starts", row.name)
			_ = b.Close()
		} else if !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestFolderKeepsItsID: a node's id is its folder's, whatever the default is.
func TestFolderKeepsItsID(t *testing.T) {
	cfg := Default("data")
	cfg.FS, cfg.WALFileBytes, cfg.NodeID = vfs.NewMem(), 1<<20, 7
	for range 2 {
		b, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if b.ID() != 7 {
			t.Errorf("node %d", b.ID())
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.NodeID = 0
	}
}

// TestGhost: all lose their power, and one never returns. Those that do don't leave the in-sync sets to it, which the image still believes to be active.
func TestGhost(t *testing.T) {
	for ghost := int32(1); ghost <= 3; ghost++ {
		c := newCluster(t, nil, 1, 2, 3)
		c.until("three active brokers", c.areActive(1, 2, 3))
		c.newTopic("t", 1, 2, 3)
		for _, id := range c.ids() {
			c.kill(id)
		}
		back := slices.DeleteFunc(c.ids(), func(id int32) bool { return id == ghost })
		for _, id := range back {
			c.start(id)
		}
		c.until("two active brokers", c.areActive(back...))
		c.until("a leader", func() bool { return slices.Contains(back, c.nodes[back[0]].leads("t")) })
		c.close()
		clear(c.nodes)
	}
}

// TestGhostOfOne: likewise where one is killed for good, and another only for a moment, before anyone has missed the first.
func TestGhostOfOne(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	ghost, n := c.nodes[lead.id%3+1], c.nodes[(lead.id+1)%3+1]
	c.newTopic("t", n.id, ghost.id)
	c.kill(ghost.id)
	c.kill(n.id)
	c.start(n.id)
	c.until("two active brokers", c.areActive(slices.Sorted(slices.Values([]int32{lead.id, n.id}))...))
	c.until("a leader", func() bool { return lead.leads("t") == n.id })
}

// TestQuickRestart: a node that is back at once, among others that are there, waits for nobody.
func TestQuickRestart(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	lead := c.controllerNode()
	n := c.nodes[lead.id%3+1]
	c.kill(n.id)
	c.start(n.id)
	if took := c.until("its registration", func() bool { return n.registered.Load() }); took > 300*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

// TestCutOff: a node that is cut off from the others, but not from clients, stops taking records that nobody will have, and waiting for such that it won't
// get. What it has can be read, and where it is alone in sync it goes on.
func TestCutOff(t *testing.T) {
	for _, isController := range []bool{false, true} {
		c := newCluster(t, nil, 1, 2, 3)
		c.until("three active brokers", c.areActive(1, 2, 3))
		lead := c.controllerNode()
		n := lead
		if !isController {
			n = c.nodes[lead.id%3+1]
		}
		other := n.id%3 + 1
		c.newTopic("t", n.id, other)
		c.newTopic("mine", n.id)
		if c.acked(n.id, "x") != 0 {
			t.Fatal("the log isn't new")
		}
		n.isCut = true
		waits := c.produce(n.id, "t", "waits", -1)
		took := c.until("a refusal", func() bool { return waits.isDone })
		if want := kerr.NotLeaderForPartition.Code; waits.code != want || !n.isCutOff.Load() {
			t.Errorf("a write that waited: %v", kerr.ErrorForCode(waits.code))
		}
		if took < 2*time.Second || took > 6*time.Second {
			t.Errorf("cut off after %v", took)
		}
		notLeader := kerr.NotLeaderForPartition.Code
		for topic, want := range map[string]int16{"t": notLeader, "mine": 0} {
			p := c.produce(n.id, topic, "late", 1)
			c.until("an answer", func() bool { return p.isDone })
			if p.code != want {
				t.Errorf("%s takes a record: %v", topic, kerr.ErrorForCode(p.code))
			}
		}
		for next, want := range map[int64]int16{0: 0, 1: notLeader} {
			req := fetchRequest("t", next, 1, 500)
			req.SetVersion(11)
			if got := c.ask(n.id, req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; got.ErrorCode != want || (want == 0) != (len(got.RecordBatches) > 0) {
				t.Errorf("fetch from %d: %v", next, kerr.ErrorForCode(got.ErrorCode))
			}
		}
		n.isCut = false
		c.until("the end of it", func() bool { return !n.isCutOff.Load() && c.areActive(1, 2, 3)() })
		c.close()
		clear(c.nodes)
	}
}

// TestCutOffFromMetadataOnly: nodes without a leader of the metadata, as while one is elected or when most voters are gone, serve those partitions of which
// the others in sync are still there.
func TestCutOffFromMetadataOnly(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	c.newTopic("t", 1, 2)
	c.newTopic("lonely", 1, 3)
	c.until("all in sync", func() bool { return c.inSync("t", 1, 2)() && c.inSync("lonely", 1, 3)() })
	c.isLost = func(p packet) bool { // nobody hears of anybody, and node 3 fetches nothing
		return p.resp == nil && p.err == nil && (p.lane == LaneControl || p.from == 3)
	}
	n := c.nodes[1]
	c.until("the loss of the metadata", func() bool { return n.isCutOff.Load() })
	for topic, want := range map[string]error{"t": nil, "lonely": replica.ErrNotLeader} {
		_, p, err := n.partition(topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.outOfTouch(p); !errors.Is(err, want) {
			t.Errorf("%s: %v", topic, err)
		}
	}
	c.acked(1, "x")
}
