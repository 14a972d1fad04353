package core

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// TestThreeBrokersOverTCP: three brokers that run, on sockets: a client's records are on a majority when it is answered, and go on when a node leaves and
// when it is back.
func TestThreeBrokersOverTCP(t *testing.T) {
	ids := []int32{1, 2, 3}
	var listeners [3]net.Listener
	var configs [3]Config
	for i, id := range ids {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = ln
		cfg := testConfig(t)
		cfg.FS, cfg.Dir, cfg.WALFileBytes = vfs.NewMem(), "data", 1<<20
		cfg.Advertise, cfg.ClusterSecret, cfg.OffsetsTopicPartitions = ln.Addr().String(), "a long secret", 3
		configs[i] = cfg
		writeIdentity(t, cfg, meta.Identity{Node: id, ClusterID: "the-cluster", Voters: ids})
	}
	var nodes [3]*running
	for i := range ids {
		nodes[i] = startOn(t, configs[i], listeners[i])
	}
	introduceAll := func() {
		for _, n := range nodes {
			for i, id := range ids {
				if n.ID() != id {
					n.tcp.seen(id, configs[i].Advertise)
				}
			}
		}
	}
	introduceAll()
	waitFor(t, "three active brokers", func() bool { return len(nodes[0].activeNodes()) == 3 && len(nodes[2].activeNodes()) == 3 })

	cl, err := kgo.NewClient(kgo.SeedBrokers(configs[0].Advertise, configs[1].Advertise, configs[2].Advertise), kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"), kgo.RetryTimeout(time.Minute), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	sent := 0
	produce := func(n int) {
		t.Helper()
		for range n {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(sent))).FirstErr(); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	produce(50)
	for i := range nodes {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		nodes[i].Leave(ctx)
		cancel()
		nodes[i].stop()
		produce(20)
		ln, err := net.Listen("tcp", configs[i].Advertise)
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = startOn(t, configs[i], ln)
		introduceAll()
		waitFor(t, "three active brokers", func() bool { return nodes[i].registered.Load() && len(nodes[i].activeNodes()) == 3 })
		produce(20)
	}
	for i, r := range consume(t, cl, sent) {
		if string(r.Value) != fmt.Sprint(i) {
			t.Fatalf("record %d is %q", i, r.Value)
		}
	}
}

func writeIdentity(t *testing.T, cfg Config, identity meta.Identity) {
	t.Helper()
	s, err := storage.Open(storage.Options{FS: cfg.FS, Dir: cfg.Dir, WALFileBytes: cfg.WALFileBytes})
	if err == nil {
		_, err = meta.WriteIdentity(s, identity)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// startOn is start on a listener that is there.
func startOn(t *testing.T, cfg Config, ln net.Listener) *running {
	t.Helper()
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	ended.Go(func() {
		if err := b.Serve(ln); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	r := &running{Broker: b, addr: ln.Addr().String()}
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			ended.Wait()
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
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
