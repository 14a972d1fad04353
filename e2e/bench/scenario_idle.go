package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const idleConnectors = 50

// idleScenario measures what it costs to do nothing: a node, then a node and a worker with connectors that wait.
func idleScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "idle",
		title: fmt.Sprintf("idle: cold start, a node without work, a worker with %d idle connectors", idleConnectors),
		settings: []string{
			fmt.Sprintf("heaps of Kafka's own scripts: broker %d MiB, Connect 256 MiB to 2 GiB", brokerHeapMiB),
			"broker start: from the process's start (its data folder is formatted before, for Kafka) to its first ApiVersions answer",
			fmt.Sprintf("%d file sources at the end of an empty file; with connectors, the broker's and the worker's process count together", idleConnectors),
		},
		sides: sides, pairs: pairs, measure: measureIdle,
	}
}

func measureIdle(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	broker, err := restingUsage(ctx, s, b.seconds)
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	if err := b.withConnect(ctx, s, allCores()); err != nil {
		return sample{}, err
	}
	worker := time.Since(began)
	profiled := b.profileOf(ctx, "idle", sd, s, part(b.seconds, 0.8))
	began = time.Now()
	if err := idleFiles(ctx, s); err != nil {
		return sample{}, err
	}
	all := time.Since(began)
	full, err := restingUsage(ctx, s, b.seconds)
	if err != nil {
		return sample{}, err
	}
	if err := profiled(); err != nil {
		return sample{}, err
	}
	got.Figures = []figure{
		lower("start", "broker start to first answer", "ms", float64(s.ready.Milliseconds())),
		lower("rss", "broker RSS, idle", "MiB", broker.rssMiB),
		lower("cpu", "broker CPU, idle", "% of a core", broker.cpuSeconds),
		lower("worker", "worker start to first answer (in weir it is up with the node)", "ms", float64(worker.Milliseconds())),
		lower("connectors", fmt.Sprintf("%d connectors made and running", idleConnectors), "ms", float64(all.Milliseconds())),
		lower("connect_rss", fmt.Sprintf("RSS with %d idle connectors", idleConnectors), "MiB", full.rssMiB),
		lower("connect_cpu", fmt.Sprintf("CPU with %d idle connectors", idleConnectors), "% of a core", full.cpuSeconds),
	}
	seen, err := shell(ctx, `curl -fsS "$1/connectors?expand=status" | jq '[.[].status.tasks[] | select(.state == "RUNNING")] | length'`, s.connect)
	if err == nil && seen != fmt.Sprint(idleConnectors) {
		err = fmt.Errorf("%w: %s tasks run, not %d", errWrong, seen, idleConnectors)
	}
	got.Verified = fmt.Sprintf("curl and jq counted %s running tasks", seen)
	return got, err
}

// restingUsage lets a server come to rest, then answers its memory and, in cpuSeconds, per cent of a core.
func restingUsage(ctx context.Context, s *server, seconds int) (usage, error) {
	rest := part(seconds, 0.25)
	if err := sleep(ctx, rest); err != nil {
		return usage{}, err
	}
	before, began := s.usage(), time.Now()
	if err := sleep(ctx, rest); err != nil {
		return usage{}, err
	}
	after := s.usage()
	after.cpuSeconds = 100 * (after.cpuSeconds - before.cpuSeconds) / time.Since(began).Seconds()
	return after, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// idleFiles makes the connectors and waits until each one's task runs.
func idleFiles(ctx context.Context, s *server) error {
	file := filepath.Join(s.dir, "empty")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return err
	}
	for i := range idleConnectors {
		err := put(ctx, s, fmt.Sprintf("idle-%d", i), map[string]string{
			"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "file": file, "topic": "idle",
		})
		if err != nil {
			return err
		}
	}
	for i := range idleConnectors {
		name := fmt.Sprintf("idle-%d", i)
		if err := until(ctx, name, func() (bool, error) { return running(ctx, s, name) }); err != nil {
			return err
		}
	}
	return nil
}
