package core

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// liveCluster is three brokers that run and reach each other over TCP, by id. Their disks are in memory.
type liveCluster struct {
	t     *testing.T
	nodes map[int32]*running
	cfgs  map[int32]Config
}

// startLive founds a cluster and waits until all its nodes are active.
func startLive(t *testing.T) *liveCluster {
	t.Helper()
	c := &liveCluster{t: t, nodes: make(map[int32]*running), cfgs: make(map[int32]Config)}
	voters := []int32{1, 2, 3}
	for _, id := range voters {
		cfg := testConfig(t)
		cfg.FS, cfg.Dir, cfg.WALFileBytes = vfs.NewMem(), "data", 1<<20
		cfg.NodeID, cfg.ClusterSecret, cfg.OffsetsTopicPartitions = id, "a secret of this test", 3
		cfg.Advertise = freeAddress(t)
		c.cfgs[id] = cfg
		c.identify(cfg, meta.Identity{Node: id, ClusterID: "live", Voters: voters})
	}
	for _, id := range voters {
		c.start(id)
	}
	c.settle()
	return c
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func (c *liveCluster) identify(cfg Config, identity meta.Identity) {
	c.t.Helper()
	s, err := storage.Open(storage.Options{FS: cfg.FS, Dir: cfg.Dir, WALFileBytes: cfg.WALFileBytes})
	if err == nil {
		_, err = meta.WriteIdentity(s, identity)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *liveCluster) start(id int32) {
	c.t.Helper()
	n := start(c.t, c.cfgs[id])
	c.nodes[id] = n
	for other, cfg := range c.cfgs {
		if other != id {
			n.tcp.seen(other, cfg.Advertise)
		}
	}
}

// stop ends a node. Others take over when they miss it.
func (c *liveCluster) stop(id int32) {
	c.t.Helper()
	c.nodes[id].stop()
	delete(c.nodes, id)
}

// leave has others take over, and ends a node.
func (c *liveCluster) leave(id int32) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	c.nodes[id].Leave(ctx)
	c.stop(id)
}

// settle waits until all nodes are active, as each of them sees it.
func (c *liveCluster) settle() {
	c.t.Helper()
	for _, n := range c.nodes {
		waitFor(c.t, "active nodes", func() bool { return n.registered.Load() && len(n.activeNodes()) == len(c.cfgs) })
	}
}

// waitFor polls until ok, which is asked for while other goroutines work.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("it never came: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// client knows all nodes.
func (c *liveCluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, cfg := range c.cfgs {
		seeds = append(seeds, cfg.Advertise)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.AllowAutoTopicCreation(), kgo.RetryTimeout(30 * time.Second), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// TestClientsOfThreeNodes has kgo produce to and consume from partitions of all nodes, in a group, while the group's coordinator stops, and each other
// node leaves and comes back: every record is read, in order, and committed.
func TestClientsOfThreeNodes(t *testing.T) {
	c := startLive(t)
	ctx := wait(t)
	cl := c.client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(cl)
	if r, err := adm.CreateTopic(ctx, 6, -1, nil, "t"); err != nil || r.ReplicationFactor != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	sent := 0
	put := func(n int) {
		t.Helper()
		for range n {
			if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(sent))).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", sent, err)
			}
			sent++
		}
	}
	reader := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.FetchMaxWait(250*time.Millisecond), kgo.HeartbeatInterval(100*time.Millisecond))
	seen, ends := make(map[string]bool), make(map[int32]int64)
	read := func() {
		t.Helper()
		for len(seen) < sent {
			fs := reader.PollRecords(ctx, 50)
			if ctx.Err() != nil {
				t.Fatalf("%d records of %d were read: %v", len(seen), sent, fs.Err())
			}
			fs.EachRecord(func(r *kgo.Record) {
				if r.Offset > ends[r.Partition] {
					t.Errorf("partition %d: %d was read before %d", r.Partition, r.Offset, ends[r.Partition])
				}
				ends[r.Partition] = max(ends[r.Partition], r.Offset+1)
				seen[string(r.Value)] = true
			})
			if err := reader.CommitUncommittedOffsets(ctx); err != nil {
				t.Logf("commit: %v", err)
			}
		}
	}
	put(100)
	read()
	coordinator := adm.FindGroupCoordinators(ctx, "g")["g"]
	if coordinator.Err != nil {
		t.Fatal(coordinator.Err)
	}
	for _, id := range []int32{1, 2, 3} {
		if id == coordinator.NodeID {
			c.stop(id)
		} else {
			c.leave(id)
		}
		put(30)
		read()
		c.start(id)
		c.settle()
		put(30)
	}
	read()
	offsets, err := adm.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	for partition, end := range ends {
		if o, _ := offsets.Lookup("t", partition); o.At != end {
			t.Errorf("partition %d: %d is committed, %d was read", partition, o.At, end)
		}
	}
}
