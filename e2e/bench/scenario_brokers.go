package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

const (
	brokers   = 3
	weirAlone = "weir, one node"
)

// brokersScenario is the flood on three brokers, each record on all of them before it is acknowledged, beside one weir alone.
func brokersScenario(sides []side, pairs []pair) scenario {
	run := flood{name: "three-brokers", partitions: producePartitions, replicas: brokers, sizeBytes: 1024, perSecond: 2000}
	return scenario{
		name:  run.name,
		title: "three brokers on one machine, replication 3, records of 1024 bytes",
		settings: []string{
			"servers and client share all cores and one disk; " + clientTold,
			fmt.Sprintf("%d partitions, replication 3, min.insync.replicas=2; the three brokers count together; %q has replication 1", producePartitions, weirAlone),
			fmt.Sprintf("latency: open loop, %d records/s, linger 0", run.perSecond),
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache of three, each by default; " + heapsTold,
		},
		sides: sides, pairs: pairs, limit: logLimits, absent: lacksReplication,
		measure: func(ctx context.Context, b *bench, sd side) (sample, error) {
			run := run
			if sd.Name == weirAlone {
				run.replicas = 1
			}
			return run.measure(ctx, b, sd)
		},
	}
}

// lacksReplication asks whether a node can join another.
func lacksReplication(ctx context.Context, b *bench) (string, error) {
	out, err := shell(ctx, `"$1" start --data "$2" --join 127.0.0.1:1 --help 2>&1 || true`, b.weir, filepath.Join(b.dir, "run-probe"))
	if err != nil {
		return "", err
	}
	if strings.Contains(out, "unknown flag: --join") {
		return "not run: this weir has no replication (weir start --join: unknown flag)", nil
	}
	return "", nil
}
