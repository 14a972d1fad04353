package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	failoverLeast = 4 // kills of one run
	steadyRecords = 20
)

// failoverScenario kills the leader of a partition again and again, and times the next acknowledged write.
func failoverScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "three-brokers-failover",
		title: "kill -9 of a leader to the next acknowledged write, three brokers at their default settings",
		settings: []string{
			"replication 3, min.insync.replicas=2, one partition written to, another leader killed each time the cluster is whole again; a kill for each two seconds of the run",
			"franz-go, idempotent, acks=all, asks for new metadata each 10 ms and tries again each 10 ms, so that the time is the brokers'",
			"the killed broker may lead the metadata too; " + heapsTold,
		},
		sides: sides, pairs: pairs, absent: lacksReplication, measure: measureFailover,
	}
}

func measureFailover(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.startBrokers(ctx, sd, allCores(), brokers)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, 1, brokers); err != nil {
		return sample{}, err
	}
	l := newLoad(1, 100)
	cl, err := s.hastyClient()
	if err != nil {
		return sample{}, err
	}
	defer cl.Close()
	var ack, whole []time.Duration
	for range max(failoverLeast, b.seconds/2) {
		a, w, err := l.failOver(ctx, s, cl)
		if err != nil {
			return sample{}, err
		}
		ack, whole = append(ack, a), append(whole, w)
	}
	slices.Sort(ack)
	slices.Sort(whole)
	got.Figures = []figure{
		lower("ack_p50", "kill to acknowledged, p50", "ms", percentile(ack, 0.50)),
		lower("ack_p99", "kill to acknowledged, p99", "ms", percentile(ack, 0.99)),
		lower("whole_p50", "killed broker's start to all in sync, p50", "ms", percentile(whole, 0.50)),
		higher("kills", "kills", "", float64(len(ack))),
	}
	got.Verified, err = l.verify(ctx, s.kafka)
	return got, err
}

// hastyClient finds a new leader as soon as there is one.
func (s *server) hastyClient() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(s.seeds()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.DialTimeout(time.Second), kgo.UnknownTopicRetries(-1))
}

// failOver writes a few records to the leader, kills it, and times the next record and the return of the broker.
func (l *load) failOver(ctx context.Context, s *server, cl *kgo.Client) (ack, whole time.Duration, err error) {
	write := func() error {
		limit, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := cl.ProduceSync(limit, &kgo.Record{Topic: topicName, Value: l.value(0, l.acked[0])}).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		l.acked[0]++
		return nil
	}
	for range steadyRecords {
		if err := write(); err != nil {
			return 0, 0, err
		}
	}
	led, err := s.leaders(ctx, topicName)
	if err != nil {
		return 0, 0, err
	}
	leader, err := s.at(led[0])
	if err != nil {
		return 0, 0, err
	}
	pid, at, err := leader.signal(syscall.SIGKILL)
	if err != nil {
		return 0, 0, err
	}
	if err := write(); err != nil {
		return 0, 0, err
	}
	ack = time.Since(at)
	if err := errors.Join(awaitEnd(ctx, pid), leader.reap(ctx)); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := leader.again(ctx); err != nil {
		return 0, 0, err
	}
	err = s.whole(ctx, topicName)
	return ack, time.Since(began), err
}
