package main

import (
	"context"
	"errors"
	"fmt"
)

const (
	durableBytes     = 1024
	durablePerSecond = 200
)

// durableScenario writes one record at a time, each acknowledged before the next, then at a fixed low rate.
func durableScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "durable-latency",
		title: "one record at a time, acknowledged from disk",
		settings: []string{
			"one producer, one record of 1024 bytes in flight, acks=all, linger 0; then open loop at a fixed rate from the moment each is due",
			"synced: weir's default (a round of its write-ahead log is synced before the answer) beside Kafka with log.flush.interval.messages=1; page cache: Kafka's default, for information",
		},
		sides: sides, pairs: pairs, limit: syncLimits, measure: measureDurable,
	}
}

func measureDurable(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, 1, 1); err != nil {
		return sample{}, err
	}
	l := newLoad(1, durableBytes)
	if _, err := l.oneByOne(ctx, s.kafka, part(b.seconds, 0.1)); err != nil { // warm
		return sample{}, err
	}
	profiled := b.profileOf(ctx, "durable-latency", sd, s, part(b.seconds, 0.5))
	disk := deviceOf(s.dir)
	before, first, diskBefore := s.usage(), l.records(), disk.writtenBytes()
	took, err := l.oneByOne(ctx, s.kafka, part(b.seconds, 0.5))
	if err != nil {
		return sample{}, err
	}
	after, n, diskBytes := s.usage(), float64(l.records()-first), disk.writtenBytes()-diskBefore
	due, err := l.openLoop(ctx, s.kafka, durablePerSecond, part(b.seconds, 0.4))
	if err != nil {
		return sample{}, err
	}
	got.Figures = append(got.Figures, higher("rate", "one at a time", "records/s", n/part(b.seconds, 0.5).Seconds()))
	got.Figures = append(got.Figures, latencyFigures("one", "one at a time", took)...)
	got.Figures = append(got.Figures, latencyFigures("open", fmt.Sprintf("open loop, %d/s", durablePerSecond), due)...)
	got.Figures = append(got.Figures,
		lower("cpu", "server CPU", "s per million", (after.cpuSeconds-before.cpuSeconds)/n*1e6),
		lower("peak", "peak RSS", "MiB", s.usage().peakMiB))
	got.Figures = append(got.Figures, writeFigures(diskBytes, after.writtenBytes-before.writtenBytes, n*durableBytes)...)
	if err := profiled(); err != nil {
		return sample{}, err
	}
	got.Verified, err = l.verify(ctx, s.kafka)
	return got, err
}
