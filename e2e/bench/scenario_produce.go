package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// How a run's time is shared out.
const (
	floodPart    = 0.5
	drainPart    = 0.3
	openLoopPart = 0.2
)

const producePartitions = 6

// produceScenario floods a topic, reads it back, then writes at a fixed rate; server and client on a core each.
func produceScenario(name string, sizeBytes, perSecond int, sides []side, pairs []pair) scenario {
	run := flood{name: name, partitions: producePartitions, replicas: 1, sizeBytes: sizeBytes, perSecond: perSecond, pinned: true}
	return scenario{
		name:  name,
		title: fmt.Sprintf("produce and consume, records of %d bytes", sizeBytes),
		settings: []string{
			"the broker has core 0, the client (" + clientTold + ") has core 1",
			fmt.Sprintf("%d partitions, replication 1; reading follows writing and a sync of the disk, so from the page cache", producePartitions),
			fmt.Sprintf("latency: open loop, %d records/s, linger 0, from the moment each record is due; the first quarter left out", perSecond),
			"the rates are of a server that has just been started, on both sides; " + heapsTold,
		},
		sides: sides, pairs: pairs, pinned: true,
		limit: logLimits, measure: run.measure,
	}
}

// flood is a run of writing, reading and writing at a fixed rate.
type flood struct {
	name       string
	partitions int
	replicas   int
	sizeBytes  int
	perSecond  int  // of the open loop
	pinned     bool // server and client on a core each
}

func (f flood) measure(ctx context.Context, b *bench, sd side) (got sample, err error) {
	cores := allCores()
	if f.pinned {
		cores = "0"
	}
	s, err := b.startBrokers(ctx, sd, cores, f.replicas)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, f.partitions, f.replicas); err != nil {
		return sample{}, err
	}
	l := newLoad(f.partitions, f.sizeBytes)
	if err := f.load(ctx, b, sd, s, l, &got); err != nil {
		return sample{}, err
	}
	got.Verified, err = l.verify(ctx, s.kafka)
	return got, err
}

// load does the three parts and notes their figures.
func (f flood) load(ctx context.Context, b *bench, sd side, s *server, l *load, got *sample) error {
	profiled := b.profileOf(ctx, f.name, sd, s, part(b.seconds, floodPart))
	figures, err := f.figures(ctx, b, s, l)
	got.Figures = append(got.Figures, figures...)
	return errors.Join(err, profiled())
}

func (f flood) figures(ctx context.Context, b *bench, s *server, l *load) ([]figure, error) {
	disk := deviceOf(s.dir)
	idle, diskBefore := s.usage(), disk.writtenBytes()
	wrote, err := l.flood(ctx, s.kafka, part(b.seconds, floodPart), math.MaxInt)
	if err != nil {
		return nil, err
	}
	afterWrite, inBytes, inRecords := s.usage(), float64(l.records()*int64(f.sizeBytes)), float64(l.records())
	diskBytes := disk.writtenBytes() - diskBefore
	beforeRead := s.usage()
	gotBytes, gotRecords, read, err := l.drain(ctx, s.kafka, part(b.seconds, drainPart))
	if err != nil {
		return nil, err
	}
	afterRead := s.usage()
	due, err := l.openLoop(ctx, s.kafka, f.perSecond, part(b.seconds, openLoopPart))
	if err != nil {
		return nil, err
	}
	end := s.usage()
	figures := []figure{
		higher("produce", "produce", "MB/s", inBytes/1e6/wrote.Seconds()),
		higher("produce_records", "produce", "records/s", inRecords/wrote.Seconds()),
		lower("produce_cpu", "server CPU, produce", "s/GB", (afterWrite.cpuSeconds-idle.cpuSeconds)/inBytes*1e9),
		higher("consume", "consume", "MB/s", float64(gotBytes)/1e6/read.Seconds()),
		higher("consume_records", "consume", "records/s", float64(gotRecords)/read.Seconds()),
		lower("consume_cpu", "server CPU, consume", "s/GB", (afterRead.cpuSeconds-beforeRead.cpuSeconds)/float64(max(gotBytes, 1))*1e9),
	}
	figures = append(figures, latencyFigures("open", fmt.Sprintf("acknowledged, %d/s", f.perSecond), due)...)
	figures = append(figures, lower("peak", "peak RSS", "MiB", end.peakMiB))
	return append(figures, writeFigures(diskBytes, beforeRead.writtenBytes-idle.writtenBytes, inBytes)...), nil
}

// part of a run's seconds.
func part(seconds int, share float64) time.Duration {
	return time.Duration(float64(seconds) * share * float64(time.Second))
}
