package core

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

// liveCluster is three brokers that run and reach each other over TCP, by id.
type liveCluster struct {
	t     *testing.T
	nodes map[int32]*running
	cfgs  map[int32]Config
}

// startLive founds a cluster and waits until all its nodes are active.
func startLive(t *testing.T, tune func(*Config)) *liveCluster {
	t.Helper()
	c := &liveCluster{t: t, nodes: make(map[int32]*running), cfgs: make(map[int32]Config)}
	voters := []int32{1, 2, 3}
	for _, id := range voters {
		cfg := testConfig(t)
		cfg.NodeID, cfg.ClusterSecret = id, "a secret of this test"
		cfg.Advertise = freeAddress(t)
		if tune != nil {
			tune(&cfg)
		}
		s, err := storage.Open(storage.Options{FS: cfg.FS, Dir: cfg.Dir, WALFileBytes: cfg.WALFileBytes})
		if err == nil {
			_, err = meta.WriteIdentity(s, meta.Identity{Node: id, ClusterID: "live", Voters: voters})
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		c.cfgs[id] = cfg
	}
	for _, id := range voters {
		c.start(id)
	}
	until(t, "three active nodes", func() bool {
		for _, n := range c.nodes {
			if len(n.activeNodes()) != len(voters) {
				return false
			}
		}
		return true
	})
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

func (c *liveCluster) start(id int32) *running {
	c.t.Helper()
	n := start(c.t, c.cfgs[id])
	c.nodes[id] = n
	for other, cfg := range c.cfgs {
		if other != id {
			n.tcp.seen(other, cfg.Advertise)
		}
	}
	return n
}

func (c *liveCluster) stop(id int32) {
	c.t.Helper()
	c.nodes[id].stop()
	delete(c.nodes, id)
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

// TestClientsOfThreeNodes has kgo produce to and consume from partitions of all nodes, in a group, with a node that stops meanwhile.
func TestClientsOfThreeNodes(t *testing.T) {
	c := startLive(t, nil)
	ctx := wait(t)
	cl := c.client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(cl)
	if r, err := adm.CreateTopic(ctx, 6, -1, nil, "t"); err != nil || r.ReplicationFactor != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	const n = 600
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
	}
	put(0, n/3)
	reader := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.FetchMaxWait(250*time.Millisecond), kgo.HeartbeatInterval(100*time.Millisecond))
	seen := make(map[string]int)
	read := func(want int) {
		t.Helper()
		for len(seen) < want {
			fs := reader.PollRecords(ctx, 50)
			if ctx.Err() != nil {
				t.Fatalf("%d records of %d were read: %v", len(seen), want, fs.Err())
			}
			fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
			if err := reader.CommitUncommittedOffsets(ctx); err != nil {
				t.Logf("commit: %v", err)
			}
		}
	}
	read(n / 3)
	coordinator := adm.FindGroupCoordinators(ctx, "g")["g"]
	if coordinator.Err != nil {
		t.Fatal(coordinator.Err)
	}
	gone := coordinator.NodeID
	t.Logf("coordinator is node %d", gone)
	c.stop(gone)
	put(n/3, 2*n/3)
	read(2 * n / 3)
	c.start(gone)
	put(2*n/3, n)
	read(n)
	for value, times := range seen {
		if times > 1 {
			t.Logf("%s was read %d times", value, times)
		}
	}
	offsets, err := adm.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	if sum != n {
		t.Errorf("%d records are committed, of %d", sum, n)
	}
}
