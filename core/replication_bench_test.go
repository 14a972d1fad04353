package core

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

// startCluster runs so many brokers over TCP, founded as one cluster, and waits until they are active.
func startCluster(t testing.TB, count int32) []*running {
	t.Helper()
	if count == 1 {
		return []*running{start(t, testConfig(t))}
	}
	var ids []int32
	for id := int32(1); id <= count; id++ {
		ids = append(ids, id)
	}
	var brokers []*running
	for _, id := range ids {
		cfg := testConfig(t)
		cfg.ClusterSecret = testSecret
		s, err := storage.Open(storage.Options{Dir: cfg.Dir})
		if err == nil {
			_, err = meta.WriteIdentity(s, meta.Identity{Node: id, ClusterID: "the-cluster", Voters: ids})
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		cfg.NodeID = id
		brokers = append(brokers, start(t, cfg))
	}
	for _, from := range brokers {
		for _, to := range brokers {
			if from != to {
				from.tcp.seen(to.ID(), to.addr)
			}
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		active := 0
		for _, b := range brokers {
			if len(b.alive()) == int(count) && b.refusal() == nil {
				active++
			}
		}
		if active == int(count) {
			return brokers
		}
		if time.Now().After(deadline) {
			t.Fatal("the brokers don't become a cluster")
		}
	}
}

// benchTopic makes a topic on all brokers.
func benchTopic(b *testing.B, brokers []*running, partitions int) {
	b.Helper()
	adm := kadm.NewClient(client(b, brokers[0]))
	if r, err := adm.CreateTopic(b.Context(), int32(partitions), int16(len(brokers)), nil, "bench"); err != nil || r.Err != nil {
		b.Fatal(err, r.Err)
	}
	for _, n := range brokers {
		for n.topics.byName("bench") == nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// BenchmarkReplicatedProduce is kgo writing 1 KiB records with acks=all, synced, to topics on one node and on three.
func BenchmarkReplicatedProduce(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, partitions := range []int{1, 12} {
			b.Run(fmt.Sprintf("nodes=%d/partitions=%d", nodes, partitions), func(b *testing.B) {
				brokers := startCluster(b, int32(nodes))
				benchTopic(b, brokers, partitions)
				cl := client(b, brokers[0], kgo.DefaultProduceTopic("bench"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
				value := bytes.Repeat([]byte("x"), 1024)
				b.SetBytes(1024)
				for b.Loop() {
					cl.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
						if err != nil {
							b.Error(err)
						}
					})
				}
				if err := cl.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkReplicatedProducers is many connections that each wait for one small batch, on the disks of all nodes, before the next.
func BenchmarkReplicatedProducers(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, producers := range []int{1, 64} {
			b.Run(fmt.Sprintf("nodes=%d/producers=%d", nodes, producers), func(b *testing.B) {
				brokers := startCluster(b, int32(nodes))
				benchTopic(b, brokers, 1)
				leader := brokers[0]
				for _, n := range brokers {
					if id, _ := brokers[0].topics.byName("bench").currentLeader(0); n.ID() == id {
						leader = n
					}
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var all sync.WaitGroup
				for range producers {
					w := dialWire(b, leader)
					_ = w.nc.SetDeadline(time.Time{})
					all.Go(func() {
						one := batch("0123456789")
						for left.Add(-1) >= 0 {
							if p := w.produce("bench", -1, one); p.ErrorCode != 0 {
								b.Errorf("error %d", p.ErrorCode)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
			})
		}
	}
}
