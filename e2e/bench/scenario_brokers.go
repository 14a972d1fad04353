package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const brokers = 3

// brokersScenario is the flood on three brokers, each record on all of them before it is acknowledged.
func brokersScenario(sides []side, pairs []pair) scenario {
	run := flood{name: "three-brokers", partitions: producePartitions, replicas: brokers, sizeBytes: 1024, perSecond: 2000}
	return scenario{
		name:  run.name,
		title: "three brokers on one machine, replication 3, records of 1024 bytes",
		settings: []string{
			"servers and client share all cores and one disk; " + clientTold,
			fmt.Sprintf("%d partitions, replication 3, min.insync.replicas=2; the three brokers count together", producePartitions),
			fmt.Sprintf("latency: open loop, %d records/s, linger 0", run.perSecond),
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache of three, each by default; " + heapsTold,
		},
		sides: sides, pairs: pairs, limit: logLimits, absent: lacksReplication, measure: run.measure,
	}
}

// lacksReplication tries to start a node that joins another.
func lacksReplication(ctx context.Context, b *bench) (string, error) {
	out, err := shell(ctx, `"$1" start --data "$2" --join 127.0.0.1:1 --help 2>&1 || true`, b.weir, filepath.Join(b.dir, "run-probe"))
	if err != nil {
		return "", err
	}
	if strings.Contains(out, "unknown flag: --join") {
		return "not run: replication is not built yet (weir start --join: unknown flag)", nil
	}
	return "", nil
}

// startBrokers starts as many brokers as there are replicas; of weir's the others join the first.
func (b *bench) startBrokers(ctx context.Context, sd side, cores string, nodes int) (*server, error) {
	if nodes > 1 && sd.Kind == kindKafka {
		return b.startKafka(ctx, cores, nodes, sd.Settings...)
	}
	first, err := b.start(ctx, sd, cores)
	if err != nil {
		return nil, err
	}
	for node := 2; node <= nodes; node++ {
		other, err := b.startJoined(ctx, node, first.kafka, sd.Settings...)
		if err != nil {
			return nil, errors.Join(err, first.stop())
		}
		first.pids = append(first.pids, other.pids...)
		first.ends = append(first.ends, other.stop)
	}
	return first, nil
}

func (b *bench) startJoined(ctx context.Context, node int, kafka string, settings ...string) (*server, error) {
	base, err := freeBase(4)
	if err != nil {
		return nil, err
	}
	s, err := b.newServer(base)
	if err != nil {
		return nil, err
	}
	s.console = fmt.Sprintf("http://127.0.0.1:%d", base+3)
	args := []string{"start", "--data", filepath.Join(s.dir, "data"), "--port-base", strconv.Itoa(base), "--join", kafka,
		"--set", "node.log.level=WARN", "--set", "node.id=" + strconv.Itoa(node)}
	for _, kv := range settings {
		args = append(args, "--set", kv)
	}
	return s, s.launch(ctx, allCores(), b.weir, args, func() bool { return httpOK(s.console + "/readyz") })
}
