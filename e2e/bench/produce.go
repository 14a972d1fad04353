package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	producers   = 64
	recordBytes = 1024
)

// produce measures 64 producers, each with one record in flight, all acknowledged from disk; before and after it the
// disk's own rate of 4 KiB writes with fdatasync into a preallocated file.
func (b *bench) produce(ctx context.Context) error {
	before, err := diskSyncs(b.dir)
	if err != nil {
		return err
	}
	s, err := b.startWeir(ctx, allCores())
	if err != nil {
		return err
	}
	rate, latencies, err := b.synchronous(ctx, s)
	used := s.usage()
	if err := errors.Join(err, s.stop()); err != nil {
		return err
	}
	after, err := diskSyncs(b.dir)
	if err != nil {
		return err
	}
	disk := (before.perSecond + after.perSecond) / 2
	b.say("disk: %.0f fdatasync/s of 4 KiB (before %.0f, after %.0f), p50 %v, p99 %v", disk, before.perSecond, after.perSecond,
		after.p50.Round(time.Microsecond), after.p99.Round(time.Microsecond))
	b.say("64 synchronous producers, 1 KiB, acks=all, synced: %.0f records/s = %.1f per fdatasync of the disk; p50 %v, p99 %v; %.2f CPU s, peak %.0f MiB",
		rate, rate/disk, latencies[len(latencies)/2].Round(time.Microsecond), latencies[len(latencies)*99/100].Round(time.Microsecond), used.cpuSeconds, used.peakMiB)
	return nil
}

func (b *bench) synchronous(ctx context.Context, s *server) (rate float64, latencies []time.Duration, err error) {
	first, err := kgo.NewClient(kgo.SeedBrokers(s.kafka))
	if err != nil {
		return 0, nil, err
	}
	defer first.Close()
	if _, err := kadm.NewClient(first).CreateTopic(ctx, 6, 1, nil, "bench"); err != nil {
		return 0, nil, err
	}
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		fault error
		value = make([]byte, recordBytes)
		each  = b.records / producers
	)
	began := time.Now()
	for i := range producers {
		group.Go(func() {
			took, err := oneProducer(ctx, s.kafka, int32(i%6), each, value)
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, took...)
			fault = errors.Join(fault, err)
		})
	}
	group.Wait()
	took := time.Since(began)
	slices.Sort(latencies)
	return float64(len(latencies)) / took.Seconds(), latencies, fault
}

// oneProducer writes records one at a time, each after the last was acknowledged.
func oneProducer(ctx context.Context, addr string, partition int32, n int, value []byte) ([]time.Duration, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	took := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "bench", Partition: partition, Value: value}).FirstErr(); err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
