package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// partitionsScenario is the flood over many partitions, nothing pinned, with what their number costs: to make them, to
// hold them in memory, to start with them.
func partitionsScenario(partitions int, sides []side, pairs []pair) scenario {
	run := flood{name: fmt.Sprintf("partitions-%d", partitions), partitions: partitions, replicas: 1, sizeBytes: 1024, perSecond: 2000}
	return scenario{
		name:  run.name,
		title: fmt.Sprintf("one topic of %d partitions, records of 1024 bytes", partitions),
		settings: []string{
			"server and client share all cores; " + clientTold,
			"created: until every partition has a leader; started: stopped in order and started again, from the process's start",
			"every partition is counted, the first few are hashed",
			fmt.Sprintf("latency: open loop, %d records/s, linger 0", run.perSecond),
			heapsTold,
		},
		sides: sides, pairs: pairs, limit: logLimits, measure: run.measureMany,
	}
}

func (f flood) measureMany(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	began := time.Now()
	if err := createTopic(ctx, s.kafka, f.partitions, f.replicas); err != nil {
		return sample{}, err
	}
	created := time.Since(began)
	if err := sleep(ctx, time.Second); err != nil { // garbage of making them is not theirs
		return sample{}, err
	}
	got.Figures = append(got.Figures,
		lower("create", "topic created", "ms", float64(created.Microseconds())/1000),
		lower("empty_rss", "RSS with empty partitions", "MiB", s.usage().rssMiB))
	l := newLoad(f.partitions, f.sizeBytes)
	if err := f.load(ctx, b, sd, s, l, &got); err != nil {
		return sample{}, err
	}
	if err := s.down(ctx, false); err != nil {
		return sample{}, err
	}
	back, err := l.revive(ctx, s)
	if err != nil {
		return sample{}, err
	}
	got.Figures = append(got.Figures, back.figures("start", "start")...)
	got.Figures = append(got.Figures, lower("start_rss", "RSS after that start", "MiB", s.usage().rssMiB))
	got.Verified, err = l.verify(ctx, s.kafka)
	return got, err
}
