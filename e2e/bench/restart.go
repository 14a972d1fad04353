package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// revival is how soon a server is of use again, from its process's start.
type revival struct {
	answer time.Duration // its first answer
	ack    time.Duration // the first record acknowledged
}

func (r revival) figures(key, what string) []figure {
	return []figure{
		lower(key+"_answer", what+" to first answer", "ms", float64(r.answer.Microseconds())/1000),
		lower(key+"_ack", what+" to first acknowledged record", "ms", float64(r.ack.Microseconds())/1000),
	}
}

// revive starts a server that is down while a producer tries all the time to write the load's next record.
func (l *load) revive(ctx context.Context, s *server) (revival, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return revival{}, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type outcome struct {
		at  time.Time
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		err := cl.ProduceSync(ctx, &kgo.Record{Topic: topicName, Value: l.value(0, l.acked[0])}).FirstErr()
		done <- outcome{time.Now(), err}
	}()
	if err := s.again(ctx); err != nil {
		cancel()
		<-done
		return revival{}, fmt.Errorf("start again: %w", err)
	}
	got := <-done
	if got.err != nil {
		return revival{}, fmt.Errorf("produce to the server that is back: %w", got.err)
	}
	l.acked[0]++
	return revival{s.ready, got.at.Sub(s.began)}, nil
}
