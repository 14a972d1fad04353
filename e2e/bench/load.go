package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

const (
	topicName   = "bench"
	mostValues  = 1 << 16 // distinct values of all partitions together, about
	batchBytes  = 1 << 20
	lingerTime  = 5 * time.Millisecond
	bufferBytes = 64 << 20

	manyPartitions = 5000
)

// load is a topic's content by construction: record i of partition p holds values[p][i % len(values[p])], so that what
// must have arrived can be told from counts alone.
type load struct {
	values  [][][]byte
	acked   []int64 // per partition
	stretch int     // records for one partition before the next has its turn
	buffer  int     // bytes that the client may hold
}

// value is record i of a partition.
func (l *load) value(p int, i int64) []byte { return l.values[p][i%int64(len(l.values[p]))] }

// newLoad makes printable values of a size. Those of different partitions and positions differ.
func newLoad(partitions, sizeBytes int) *load {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(1, uint64(sizeBytes)))
	l := &load{acked: make([]int64, partitions), stretch: 16, buffer: bufferBytes}
	if partitions > manyPartitions { // else the first ones alone would fill a short run
		l.stretch, l.buffer = 1, bufferBytes/8
	}
	pattern := min(1024, max(8, mostValues/partitions))
	body := make([]byte, sizeBytes+pattern)
	for i := range body {
		body[i] = letters[random.IntN(len(letters))]
	}
	for p := range partitions {
		one := make([][]byte, pattern)
		for i := range one {
			head := fmt.Sprintf("%d.%d:", p, i)
			one[i] = append([]byte(head), body[i:i+sizeBytes-len(head)]...)
		}
		l.values = append(l.values, one)
	}
	return l
}

func (l *load) records() (n int64) {
	for _, a := range l.acked {
		n += a
	}
	return n
}

// producer is the client that all sides are loaded by: acks of all replicas, idempotent, no compression.
func producer(addr string, linger time.Duration, bufferBytes int) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(linger), kgo.ProducerBatchMaxBytes(batchBytes), kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(bufferBytes),
		kgo.RequiredAcks(kgo.AllISRAcks()))
}

// createTopic makes the topic and answers when every partition has a leader.
func createTopic(ctx context.Context, addr string, partitions, replicas int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	// As wide as the load's largest batch on every side.
	limit := fmt.Sprint(2 * batchBytes)
	admin := kadm.NewClient(cl)
	first := min(partitions, manyPartitions) // Kafka refuses to make 10,000 at once
	configs := map[string]*string{"max.message.bytes": &limit}
	if two := "2"; replicas > 1 {
		configs["min.insync.replicas"] = &two
	}
	resp, err := admin.CreateTopic(ctx, int32(first), int16(replicas), configs, topicName)
	if err = errors.Join(err, resp.Err); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	if first < partitions {
		more, err := admin.UpdatePartitions(ctx, partitions, topicName)
		if err = errors.Join(err, more.Error()); err != nil {
			return fmt.Errorf("create more partitions: %w", err)
		}
	}
	return until(ctx, "every partition has a leader", func() (bool, error) {
		topics, err := admin.ListTopics(ctx, topicName)
		if err != nil {
			return false, err
		}
		led := 0
		for _, p := range topics[topicName].Partitions {
			if p.Err == nil && p.Leader >= 0 {
				led++
			}
		}
		return led == partitions, nil
	})
}

// flood writes as fast as the server takes it, for a time or a number of records, whichever comes first, and answers how
// long it took until all of it was acknowledged.
func (l *load) flood(ctx context.Context, addr string, limit time.Duration, mostRecords int) (time.Duration, error) {
	cl, err := producer(addr, lingerTime, l.buffer)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var fault atomic.Pointer[error]
	acked := make([]atomic.Int64, len(l.values))
	done := func(r *kgo.Record, err error) {
		if err != nil {
			fault.CompareAndSwap(nil, &err)
			return
		}
		acked[r.Partition].Add(1)
	}
	// Where each partition goes on: a load may be written in several floods.
	next := slices.Clone(l.acked)
	began := time.Now()
	for turn := 0; turn < mostRecords && fault.Load() == nil && ctx.Err() == nil; turn++ {
		if turn%64 == 0 && time.Since(began) > limit {
			break
		}
		// A stretch for one partition after the other, as the clients' sticky partitioners write.
		p := turn / l.stretch % len(next)
		cl.Produce(ctx, &kgo.Record{Topic: topicName, Partition: int32(p), Value: l.value(p, next[p])}, done)
		next[p]++
	}
	err = cl.Flush(ctx)
	took := time.Since(began)
	for p := range acked {
		l.acked[p] += acked[p].Load()
	}
	if f := fault.Load(); f != nil {
		return took, fmt.Errorf("produce: %w", *f)
	}
	return took, err
}

// drain reads the topic from its start until the end or the limit, and answers how much came in what time.
func (l *load) drain(ctx context.Context, addr string, limit time.Duration) (gotBytes, gotRecords int64, took time.Duration, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topicName), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(32<<20), kgo.FetchMaxPartitionBytes(4<<20))
	if err != nil {
		return 0, 0, 0, err
	}
	defer cl.Close()
	all := l.records()
	began := time.Now()
	for gotRecords < all && time.Since(began) < limit {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return gotBytes, gotRecords, 0, fmt.Errorf("consume: %w", err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			gotRecords += int64(len(p.Records))
			for _, r := range p.Records {
				gotBytes += int64(len(r.Value))
			}
		})
	}
	return gotBytes, gotRecords, time.Since(began), nil
}

// openLoop writes at a fixed rate whatever the server does, and answers the time from when each record was due to its
// acknowledgement: a stall is felt by every record that was due in it.
func (l *load) openLoop(ctx context.Context, addr string, perSecond int, limit time.Duration) ([]time.Duration, error) {
	cl, err := producer(addr, 0, l.buffer)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	const warm = 4 // the first part in warm is not counted: connections, metadata
	n := int(float64(perSecond) * limit.Seconds())
	clock, err := newAlarm()
	if err != nil {
		return nil, err
	}
	defer clock.file.Close()
	took := make([]atomic.Int64, n)
	acked := make([]atomic.Int64, len(l.values))
	var fault atomic.Pointer[error]
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(float64(i) / float64(perSecond) * float64(time.Second)))
		if err := clock.wait(due); err != nil {
			return nil, err
		}
		p := i % len(l.values)
		value := l.value(p, l.acked[p]+int64(i/len(l.values)))
		cl.Produce(ctx, &kgo.Record{Topic: topicName, Partition: int32(p), Value: value}, func(r *kgo.Record, err error) {
			if err != nil {
				fault.CompareAndSwap(nil, &err)
				return
			}
			took[i].Store(int64(time.Since(due)))
			acked[r.Partition].Add(1)
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, err
	}
	for p := range acked {
		l.acked[p] += acked[p].Load()
	}
	if f := fault.Load(); f != nil {
		return nil, fmt.Errorf("produce at a fixed rate: %w", *f)
	}
	counted := make([]time.Duration, 0, n)
	for i := n / warm; i < n; i++ {
		counted = append(counted, time.Duration(took[i].Load()))
	}
	slices.Sort(counted)
	return counted, nil
}

// alarm is a clock of the kernel's: Go's own timers are late by up to a millisecond, which would count as latency.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timerfd"), fd}, nil
}

// wait returns when the moment has come.
func (a *alarm) wait(until time.Time) error {
	for left := time.Until(until); left > 0; left = time.Until(until) {
		if err := unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}, nil); err != nil {
			return fmt.Errorf("set a timer: %w", err)
		}
		if _, err := a.file.Read(make([]byte, 8)); err != nil {
			return fmt.Errorf("wait for a timer: %w", err)
		}
	}
	return nil
}

// oneByOne writes records each after the last was acknowledged, for a time, and answers their sorted latencies.
func (l *load) oneByOne(ctx context.Context, addr string, limit time.Duration) ([]time.Duration, error) {
	cl, err := producer(addr, 0, l.buffer)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var took []time.Duration
	for began := time.Now(); time.Since(began) < limit; {
		one := time.Now()
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topicName, Value: l.value(0, l.acked[0])}).FirstErr(); err != nil {
			return nil, fmt.Errorf("produce one by one: %w", err)
		}
		took = append(took, time.Since(one))
		l.acked[0]++
	}
	slices.Sort(took)
	return took, nil
}

// percentile of sorted durations, in milliseconds.
func percentile(sorted []time.Duration, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
}

// latencyFigures are the three percentiles that every latency is told by.
func latencyFigures(key, what string, sorted []time.Duration) []figure {
	return []figure{
		lower(key+"_p50", what+", p50", "ms", percentile(sorted, 0.50)),
		lower(key+"_p99", what+", p99", "ms", percentile(sorted, 0.99)),
		lower(key+"_p999", what+", p99.9", "ms", percentile(sorted, 0.999)),
	}
}
