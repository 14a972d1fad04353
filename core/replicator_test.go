package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
)

// produced is a batch that was sent to a leader, and what came of it.
type produced struct {
	isDone bool
	code   int16
	offset int64
}

// produce sends a batch of one record to a node and doesn't wait.
func (c *cluster) produce(id int32, topic, value string, acks int16) *produced {
	r := &kmsg.ProduceRequest{Version: 12, Acks: acks, TimeoutMillis: 30_000}
	batch := record.AppendBatch(nil, []record.Record{{Value: []byte(value)}}, c.now)
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	p := &produced{}
	c.nodes[id].Handle(&Request{Key: keyProduce, Version: r.Version, Body: r, Now: c.now}, func(resp kmsg.Response) {
		answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		p.isDone, p.code, p.offset = true, answer.ErrorCode, answer.BaseOffset
	})
	return p
}

// values is what a node's log has in [from, to).
func (n *node) values(topic string, from, to int64) (values []string) {
	n.c.t.Helper()
	err := record.Scan(n.Replica(topic, 0).Log().Read, from, to, func(_ int64, _, value []byte) error {
		values = append(values, string(value))
		return nil
	})
	if err != nil {
		n.c.t.Fatalf("node %d: %v", n.id, err)
	}
	return values
}

// areSame says that the logs of all nodes that are up are alike, and their high watermarks at their ends.
func (c *cluster) areSame(topic string) func() bool {
	return func() bool {
		var want []string
		for i, n := range c.up() {
			p := n.Replica(topic, 0)
			start, end := p.Log().StartOffset(), p.Log().EndOffset()
			got := append(n.values(topic, start, end), fmt.Sprintf("[%d, %d)", start, end))
			if i == 0 {
				want = got
			}
			if !slices.Equal(got, want) || p.HighWatermark() != end {
				return false
			}
		}
		return true
	}
}

// flush makes room in all stores.
func (c *cluster) flush() {
	c.t.Helper()
	for _, n := range c.up() {
		if err := n.Store().Flush(c.now); err != nil {
			c.t.Fatal(err)
		}
	}
}

// inSync says that a topic's in-sync set is this, as the nodes that are up and reachable know it.
func (c *cluster) inSync(topic string, ids ...int32) func() bool {
	return func() bool {
		for _, n := range c.up() {
			isr := slices.Sorted(slices.Values(n.topics.byName(topic).Partitions[0].ISR))
			if !n.isCut && !slices.Equal(isr, ids) {
				return false
			}
		}
		return true
	}
}

// trio is three active nodes, and a topic that node 1 leads.
func trio(t *testing.T, tune func(*Config)) *cluster {
	t.Helper()
	c := newCluster(t, tune, 1, 2, 3)
	c.until("three active brokers", c.areActive(1, 2, 3))
	c.newTopic("t", 1, 2, 3)
	c.until("three in sync", c.inSync("t", 1, 2, 3))
	return c
}

// acked produces with acks=all and waits for it.
func (c *cluster) acked(id int32, value string) int64 {
	c.t.Helper()
	p := c.produce(id, "t", value, -1)
	c.until(value+" is acknowledged", func() bool { return p.isDone })
	if p.code != 0 {
		c.t.Fatalf("%s: %v", value, kerr.ErrorForCode(p.code))
	}
	return p.offset
}

func TestFollowersHaveWhatIsAcknowledged(t *testing.T) {
	c := trio(t, nil)
	for i := range 20 {
		if at := c.acked(1, fmt.Sprint("v", i)); at != int64(i) {
			t.Fatalf("record %d is at %d", i, at)
		}
		for _, id := range []int32{2, 3} {
			if end := c.nodes[id].Replica("t", 0).Log().DurableEnd(); end < int64(i+1) {
				t.Fatalf("record %d is acknowledged, node %d has %d durable", i, id, end)
			}
		}
	}
	c.until("the logs are the same", c.areSame("t"))
	// One disk that hangs holds back what all must have, and nothing else.
	c.nodes[3].hangs = true
	leader := c.produce(1, "t", "of the leader", 1)
	all := c.produce(1, "t", "of all", -1)
	c.run(100 * time.Millisecond)
	if !leader.isDone || all.isDone {
		t.Errorf("acks=1 answered: %t, acks=all: %t", leader.isDone, all.isDone)
	}
	c.nodes[3].hangs = false
	c.until("acks=all", func() bool { return all.isDone && all.code == 0 })
}

// A follower that lives, but doesn't fetch, leaves the in-sync set after the lag, and comes back when it has caught up.
func TestInSyncSetFollowsTheFetches(t *testing.T) {
	c := trio(t, func(cfg *Config) { cfg.ReplicaLag = 2 * time.Second })
	c.acked(1, "a")
	c.run(10 * time.Second) // idle followers are in sync
	if !c.inSync("t", 1, 2, 3)() {
		t.Fatal("a follower that had nothing to fetch has left the in-sync set")
	}
	c.isLost = func(p packet) bool { return p.lane == LaneData && p.from == 3 }
	b := c.produce(1, "t", "b", -1)
	c.run(time.Second)
	if b.isDone {
		t.Fatal("acknowledged without a member of the in-sync set")
	}
	took := c.until("the follower is out", c.inSync("t", 1, 2)) + time.Second
	c.until("b is acknowledged", func() bool { return b.isDone && b.code == 0 })
	if took < time.Second || took > 4*time.Second {
		t.Errorf("it left after %v, the lag is 2 s", took)
	}
	for i := range 50 {
		c.acked(1, fmt.Sprint("while it is out ", i))
	}
	c.isLost = nil
	c.until("the follower is back", c.inSync("t", 1, 2, 3))
	c.acked(1, "c")
	c.until("the logs are the same", c.areSame("t"))
}

// A follower that takes records as they come is in time, though it never has all that there is.
func TestConstantLoadKeepsTheInSyncSet(t *testing.T) {
	c := trio(t, func(cfg *Config) { cfg.ReplicaLag = time.Second })
	for i := range int(4 * time.Second / clusterStep) {
		c.produce(1, "t", "v", 1)
		c.step()
		if i%50 == 0 {
			c.flush()
		}
		if !c.inSync("t", 1, 2, 3)() {
			t.Fatal("a follower has left")
		}
	}
}

// What a leader took and nobody else has is cut off when it comes back, and what was acknowledged stays.
func TestLogsPartAndMeetAgain(t *testing.T) {
	c := trio(t, nil)
	c.acked(1, "a")
	c.acked(1, "b")
	c.nodes[1].isCut = true
	for i := range 5 {
		c.produce(1, "t", fmt.Sprint("nobody else has ", i), 1)
	}
	c.until("another leads", func() bool { return c.nodes[2].leads("t") == 2 && c.nodes[3].leads("t") == 2 })
	c.acked(2, "c")
	c.acked(2, "d")
	c.nodes[1].isCut = false
	c.until("all are in sync", c.inSync("t", 1, 2, 3))
	c.acked(2, "e")
	c.until("the logs are the same", c.areSame("t"))
	if got, want := c.nodes[1].values("t", 0, 5), []string{"a", "b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
	if n := c.nodes[1].Replica("t", 0).Log().EndOffset(); n != 5 {
		t.Errorf("it ends at %d", n)
	}
}

// Power is cut everywhere, and nodes come back one after another, with logs of different lengths.
func TestPowerCutEverywhere(t *testing.T) {
	c := trio(t, nil)
	for i := range 10 {
		c.acked(1, fmt.Sprint("v", i))
	}
	want := c.nodes[1].values("t", 0, 10)
	for range 3 {
		for i := range 5 {
			c.produce(c.nodes[2].leads("t"), "t", fmt.Sprint("on its way ", i), 1)
		}
		c.run(clusterStep)
		for _, id := range c.ids() {
			c.kill(id)
		}
		for _, id := range []int32{3, 1, 2} {
			c.start(id)
			c.run(700 * time.Millisecond)
		}
		c.until("three active brokers", c.areActive(1, 2, 3))
		c.until("all are in sync", c.inSync("t", 1, 2, 3))
		c.acked(c.nodes[2].leads("t"), "after it")
		c.until("the logs are the same", c.areSame("t"))
		if got := c.nodes[3].values("t", 0, 10); !slices.Equal(got, want) {
			t.Fatalf("the log is %q, acknowledged was %q", got, want)
		}
	}
}

// Power is cut everywhere, and one node, which nobody knows yet to be gone, never comes back: the others have all that was acknowledged, and go on.
func TestPowerCutEverywhereAndOneIsGone(t *testing.T) {
	for gone := int32(1); gone <= 3; gone++ {
		c := trio(t, nil)
		c.acked(1, "before")
		for _, id := range c.ids() {
			c.kill(id)
		}
		rest := slices.DeleteFunc(c.ids(), func(id int32) bool { return id == gone })
		for _, id := range rest {
			c.start(id)
		}
		c.until("two active brokers", c.areActive(rest...))
		c.until("a leader", func() bool { return slices.Contains(rest, c.nodes[rest[0]].leads("t")) })
		lead := c.nodes[c.nodes[rest[0]].leads("t")]
		c.until("its word", func() bool { return lead.registered.Load() && lead.leads("t") == lead.id })
		c.acked(lead.id, "after")
		if got := lead.values("t", 0, 2); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("without node %d the log is %q", gone, got)
		}
		c.close()
	}
}

// The leader's log begins behind a follower's end: the follower begins anew there. And an idle follower's start follows too.
func TestFollowersStartFollows(t *testing.T) {
	c := trio(t, nil)
	for i := range 10 {
		c.acked(1, fmt.Sprint("v", i))
	}
	start := func(id int32) int64 { return c.nodes[id].Replica("t", 0).Log().StartOffset() }
	if _, err := c.nodes[1].Replica("t", 0).Log().AdvanceStart(4); err != nil {
		t.Fatal(err)
	}
	c.until("starts follow", func() bool { return start(2) == 4 && start(3) == 4 })
	c.kill(3)
	c.until("the dead one is out", c.inSync("t", 1, 2))
	for i := range 10 {
		c.acked(1, fmt.Sprint("w", i))
	}
	if _, err := c.nodes[1].Replica("t", 0).Log().AdvanceStart(18); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.until("all are in sync", c.inSync("t", 1, 2, 3))
	c.until("the logs are the same", c.areSame("t"))
	if start(3) != 18 {
		t.Errorf("it begins at %d", start(3))
	}
}

// Partitions come and go, and move between leaders, while sessions stand.
func TestSessionsFollowTheTopics(t *testing.T) {
	c := trio(t, nil)
	for i := range 6 {
		name := fmt.Sprint("more-", i)
		replicas := [][]int32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}[i%3]
		c.newTopic(name, replicas...)
		p := c.produce(replicas[0], name, name, -1)
		c.until(name, func() bool { return p.isDone && p.code == 0 })
	}
	for i := range 3 {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TopicNames = 5, []string{fmt.Sprint("more-", i)}
		c.ask(1, r)
	}
	c.until("topics are gone", func() bool {
		return c.nodes[2].topics.byName("more-2") == nil && c.nodes[3].topics.byName("more-2") == nil
	})
	c.kill(2)
	c.until("another leads", func() bool { return c.nodes[1].leads("more-4") == 3 })
	p := c.produce(3, "more-4", "x", -1)
	c.until("x", func() bool { return p.isDone && p.code == 0 })
	c.start(2)
	c.until("all are in sync", c.inSync("more-4", 1, 2, 3))
	for i := 3; i < 6; i++ {
		name := fmt.Sprint("more-", i)
		p := c.produce(c.nodes[1].leads(name), name, "y", -1)
		c.until(name, func() bool { return p.isDone && p.code == 0 })
		c.until("the logs are the same", c.areSame(name))
	}
}

// A lost connection at any place of the exchange costs time, and nothing else.
func TestLostConnections(t *testing.T) {
	c := trio(t, nil)
	n := 0
	c.isLost = func(p packet) bool {
		if p.lane != LaneData {
			return false
		}
		n++
		return n%7 == 0
	}
	for i := range 30 {
		c.acked(1, fmt.Sprint("v", i))
	}
	c.isLost = nil
	c.until("the logs are the same", c.areSame("t"))
	if n < 100 {
		t.Errorf("%d packets in all", n)
	}
}

func TestClientsFetchFromLeadersOnly(t *testing.T) {
	c := trio(t, nil)
	c.acked(1, "a")
	fetch := func(version int16, change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
		r := kmsg.NewPtrFetchRequest()
		r.Version, r.MaxBytes, r.SessionEpoch = version, 1<<20, sessionFinal
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1 << 20
		r.Topics = []kmsg.FetchRequestTopic{{Topic: "t", TopicID: c.nodes[2].topics.byName("t").ID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		if change != nil {
			change(r)
		}
		resp, _ := c.ask(2, r).(*kmsg.FetchResponse)
		return resp
	}
	for _, version := range []int16{4, 11, 12, 15, 16, 18} {
		resp := fetch(version, nil)
		p := &resp.Topics[0].Partitions[0]
		if p.ErrorCode != kerr.NotLeaderForPartition.Code || len(p.RecordBatches) > 0 {
			t.Errorf("version %d: %+v", version, p)
		}
		isTold := p.CurrentLeader.LeaderID == 1 && len(resp.Brokers) == 1 && resp.Brokers[0].NodeID == 1 && resp.Brokers[0].Host == "10.0.0.1" && resp.Brokers[0].Port == 9092
		if isTold != (version >= 16) {
			t.Errorf("version %d: leader %+v, nodes %+v", version, p.CurrentLeader, resp.Brokers)
		}
	}
	resp := fetch(18, func(r *kmsg.FetchRequest) { r.ReplicaState.ID, r.ReplicaState.Epoch = 3, 1 })
	if resp.ErrorCode != kerr.ClusterAuthorizationFailed.Code || len(resp.Topics) > 0 {
		t.Errorf("a client that says it is node 3: %+v", resp)
	}
	if resp := fetch(4, func(r *kmsg.FetchRequest) { r.ReplicaID = 3 }); resp != nil {
		t.Errorf("a client that says it is node 3, in version 4: %+v", resp)
	}
}

// A follower whose disk takes nothing for a while pauses, and goes on when it does.
func TestFollowerWithoutRoom(t *testing.T) {
	c := trio(t, func(cfg *Config) { cfg.TailBytes = 64 << 10; cfg.ReplicaLag = time.Second })
	value := string(make([]byte, 8<<10))
	var last *produced
	for i := 0; i < 60; i++ { // far more than a store keeps that isn't flushed
		last = c.produce(1, "t", value, -1)
		c.run(20 * time.Millisecond)
		if i%8 == 7 { // of the leader, and of one follower
			for _, id := range []int32{1, 2} {
				if err := c.nodes[id].Store().Flush(c.now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c.until("the last is acknowledged", func() bool { return last.isDone })
	c.until("the full one is out", c.inSync("t", 1, 2))
	for range 20 {
		if err := c.nodes[3].Store().Flush(c.now); err != nil {
			t.Fatal(err)
		}
		c.run(300 * time.Millisecond)
	}
	c.until("all are in sync", c.inSync("t", 1, 2, 3))
	c.until("the logs are the same", c.areSame("t"))
}

func FuzzDurableEnd(f *testing.F) {
	f.Add(uint32(replica.DurableEndTag), []byte{0, 0, 0, 0, 0, 0, 0, 5})
	f.Add(uint32(replica.DurableEndTag), []byte{0xff, 0, 0, 0, 0, 0, 0, 5})
	f.Add(uint32(1), []byte{})
	f.Fuzz(func(t *testing.T, tag uint32, value []byte) {
		var tags kmsg.Tags
		tags.Set(tag, value)
		end, ok := durableEndOf(&tags)
		if ok && (end < 0 || tag != replica.DurableEndTag || len(value) != 8) {
			t.Fatalf("tag %d, %x: %d", tag, value, end)
		}
	})
}
