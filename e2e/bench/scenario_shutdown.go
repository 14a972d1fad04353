package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	shutdownPartitions = 3000 // a thousand led by each of three
	watchedPartitions  = 8    // of those that the broker leads
	watchEvery         = 5 * time.Millisecond
	watchBefore        = time.Second
)

// shutdownScenario ends a broker that leads a thousand partitions, as it wishes, while some of them are written to.
func shutdownScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "three-brokers-shutdown",
		title: "controlled shutdown of a broker that leads 1,000 partitions",
		settings: []string{
			fmt.Sprintf("%d partitions, replication 3, min.insync.replicas=2; SIGTERM to the broker that leads most", shutdownPartitions),
			fmt.Sprintf("meanwhile a record each %v to %d of its partitions in turn, by a client that looks for a new leader each 10 ms", watchEvery, watchedPartitions),
			heapsTold,
		},
		sides: sides, pairs: pairs, absent: lacksReplication, measure: measureShutdown,
	}
}

func measureShutdown(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.startBrokers(ctx, sd, allCores(), brokers)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, shutdownPartitions, brokers); err != nil {
		return sample{}, err
	}
	if err := s.whole(ctx, topicName); err != nil {
		return sample{}, err
	}
	addr, led, err := s.busiest(ctx)
	if err != nil {
		return sample{}, err
	}
	m, err := s.at(addr)
	if err != nil {
		return sample{}, err
	}
	l := newLoad(shutdownPartitions, 100)
	took, gap, err := l.shutDown(ctx, s, m, led[:min(watchedPartitions, len(led))])
	if err != nil {
		return sample{}, err
	}
	if err := errors.Join(m.reap(ctx), m.again(ctx), s.whole(ctx, topicName)); err != nil {
		return sample{}, err
	}
	got.Figures = []figure{
		lower("shutdown", "SIGTERM to end", "ms", float64(took.Microseconds())/1000),
		lower("gap", "longest time from due to acknowledged", "ms", float64(gap.Microseconds())/1000),
		higher("led", "partitions led", "", float64(len(led))),
	}
	got.Verified, err = l.verify(ctx, s.kafka)
	return got, err
}

// busiest is the broker that leads most, and what it leads.
func (s *server) busiest(ctx context.Context) (addr string, led []int32, err error) {
	leaders, err := s.leaders(ctx, topicName)
	if err != nil {
		return "", nil, err
	}
	by := map[string][]int32{}
	for p, a := range leaders {
		by[a] = append(by[a], p)
	}
	for a, ps := range by {
		if len(ps) > len(led) {
			addr, led = a, ps
		}
	}
	slices.Sort(led)
	return addr, led, nil
}

// shutDown writes on time to some partitions while their broker ends, and answers how long the end took and how long a record had to wait.
func (l *load) shutDown(ctx context.Context, s *server, m member, some []int32) (took, gap time.Duration, err error) {
	cl, err := s.hastyClient()
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	var mu sync.Mutex
	var fault error
	next := map[int32]int64{}
	write := func(i int) {
		p, due := some[i%len(some)], time.Now()
		number := next[p]
		next[p]++
		cl.Produce(ctx, &kgo.Record{Topic: topicName, Partition: p, Value: l.value(int(p), number)}, func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			fault, gap = errors.Join(fault, err), max(gap, time.Since(due))
			l.acked[r.Partition]++
		})
	}
	pace := time.NewTicker(watchEvery)
	defer pace.Stop()
	i := 0
	for began := time.Now(); time.Since(began) < watchBefore; i++ {
		write(i)
		<-pace.C
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, 0, err
	}
	mu.Lock()
	gap = 0
	mu.Unlock()
	pid, at, err := m.signal(syscall.SIGTERM)
	if err != nil {
		return 0, 0, err
	}
	end := make(chan error, 1)
	go func() { end <- awaitEnd(ctx, pid) }()
	for ended := false; !ended; i++ {
		write(i)
		select {
		case err = <-end:
			ended, took = true, time.Since(at)
		case <-pace.C:
		}
	}
	err = errors.Join(err, cl.Flush(ctx))
	mu.Lock()
	defer mu.Unlock()
	return took, gap, errors.Join(err, fault)
}
