package core

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkProduce is kgo writing 1 KiB records, acks=all and synced.
func BenchmarkProduce(b *testing.B) {
	for _, way := range []string{"tcp", "pipe"} {
		b.Run(way, func(b *testing.B) {
			broker := start(b, testConfig(b))
			opts := []kgo.Opt{kgo.DefaultProduceTopic("bench"), kgo.ProducerBatchCompression(kgo.NoCompression())}
			if way == "pipe" {
				opts = append(opts, kgo.Dialer(broker.Dial))
			}
			cl := client(b, broker, opts...)
			value := bytes.Repeat([]byte("x"), 1024)
			b.SetBytes(1024)
			b.ReportAllocs()
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

// BenchmarkFetch is a client that drops what it fetches: 1 MiB batches from the tail or the disk.
func BenchmarkFetch(b *testing.B) {
	broker := start(b, testConfig(b))
	w := dialWire(b, broker)
	w.createTopic("bench")
	one := batch(string(bytes.Repeat([]byte("x"), 1_000_000)))
	const batches = 32
	for range batches {
		if p := w.produce("bench", -1, one); p.ErrorCode != 0 {
			b.Fatalf("error %d", p.ErrorCode)
		}
	}
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		_ = w.nc.SetDeadline(time.Now().Add(time.Minute))
		w.send(fetchRequest("bench", i%batches, 1, 1000), 11, 1)
		if p, _ := w.fetched(11); len(p.RecordBatches) != len(one) {
			b.Fatalf("%d bytes", len(p.RecordBatches))
		}
		i++
	}
}

// BenchmarkDurableProducers is many connections that each wait for one small synced batch before the next.
func BenchmarkDurableProducers(b *testing.B) {
	for _, producers := range []int{1, 64} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			broker := start(b, testConfig(b))
			first := dialWire(b, broker)
			first.createTopic("bench")
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var all sync.WaitGroup
			for range producers {
				w := dialWire(b, broker)
				_ = w.nc.SetDeadline(time.Time{})
				all.Go(func() {
					one := batch("0123456789")
					for left.Add(-1) >= 0 {
						w.produce("bench", -1, one)
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
		})
	}
}

// BenchmarkMetadata is the answer for 10,000 partitions.
func BenchmarkMetadata(b *testing.B) {
	broker := start(b, testConfig(b))
	done := make(chan error, 1)
	broker.createTopic("wide", 10_000, defaultFactor, nil, time.Now(), func(err error) { done <- err })
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(12)
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		broker.Handle(&Request{Key: 3, Version: 12, Body: req, Now: time.Now()}, func(resp kmsg.Response) { buf = resp.AppendTo(buf[:0]) })
	}
}
