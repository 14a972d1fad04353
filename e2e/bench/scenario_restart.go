package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	restartBytes      = 1024
	restartPerRun     = 200 << 20 // bytes of log per second of a run
	restartLargest    = time.Minute
	reread            = 512 << 20
	restartPartitions = 6
)

// restartScenario kills a server in the moment after it has acknowledged gigabytes, and times its return.
func restartScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "restart-kill",
		title: "start after SIGKILL, with gigabytes of log",
		settings: []string{
			fmt.Sprintf("%d MiB of log for each second of the run in %d partitions, killed as soon as all of it is acknowledged; %s", restartPerRun>>20, restartPartitions, clientTold),
			"from the process's start; a producer tries all the time from before it",
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache, each by default: a power cut would cost Kafka alone what was not flushed",
			heapsTold,
		},
		sides: sides, pairs: pairs, limit: rereadLimit, measure: measureRestart,
	}
}

func measureRestart(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, restartPartitions, 1); err != nil {
		return sample{}, err
	}
	l := newLoad(restartPartitions, restartBytes)
	if _, err := l.flood(ctx, s.kafka, restartLargest, restartPerRun*b.seconds/restartBytes); err != nil {
		return sample{}, err
	}
	if err := s.down(ctx, true); err != nil {
		return sample{}, err
	}
	back, err := l.revive(ctx, s)
	if err != nil {
		return sample{}, err
	}
	used := s.usage()
	got.Figures = append(back.figures("start", "start"),
		lower("cpu", "CPU until then", "s", used.cpuSeconds),
		lower("peak", "peak RSS until then", "MiB", used.peakMiB),
		higher("log", "log", "GB", float64(l.records()*restartBytes)/1e9))
	got.Verified, err = l.verify(ctx, s.kafka)
	return got, err
}

// rereadLimit is how fast the log could be read at all.
func rereadLimit(ctx context.Context, b *bench) ([]figure, error) {
	f, err := os.Create(filepath.Join(b.dir, "weir-bench-reread"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, reread)); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, chunkBytes)); err != nil {
		return nil, err
	}
	return []figure{higher("reread", "sequential read, page cache", "MB/s", reread/1e6/time.Since(began).Seconds())}, ctx.Err()
}
