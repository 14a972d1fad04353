package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Sides by durability: log.flush=os is Kafka's own way, acknowledged from the page cache; weir's default is a synced round.
func weirOS(name string) side     { return side{name, kindWeir, []string{"broker.log.flush=os"}} }
func weirSynced(name string) side { return side{name, kindWeir, nil} }
func kafkaOS() side               { return side{"kafka, page cache", kindKafka, nil} }
func kafkaSynced() side {
	return side{"kafka, synced", kindKafka, []string{"log.flush.interval.messages=1"}}
}
func kfakeOS() side { return side{"kfake, page cache", kindKfake, nil} }

// peerScenarios are the eight that make bench-peers runs. Each compares like with like, and holds an A/A control.
func peerScenarios() []scenario {
	logSides := []side{weirOS("weir, page cache"), kafkaOS(), weirSynced("weir, synced"), kafkaSynced(), weirOS("weir again")}
	logPairs := []pair{{"weir, page cache", "kafka, page cache"}, {"weir, synced", "kafka, synced"}, {"weir, page cache", "weir again"}}
	plain := []side{weirOS("weir, page cache"), kafkaOS(), weirOS("weir again")}
	plainPairs := []pair{{"weir, page cache", "kafka, page cache"}, {"weir, page cache", "weir again"}}
	usual := []side{weirSynced("weir"), {"kafka", kindKafka, nil}, weirSynced("weir again")}
	usualPairs := []pair{{"weir", "kafka"}, {"weir", "weir again"}}
	return []scenario{
		produceScenario("produce-1k", 1024, 5000, logSides, logPairs),
		produceScenario("produce-100", 100, 10_000, plain, plainPairs),
		durableScenario([]side{weirSynced("weir, synced"), kafkaSynced(), weirSynced("weir again"), kafkaOS()},
			[]pair{{"weir, synced", "kafka, synced"}, {"weir, synced", "weir again"}, {"weir, synced", "kafka, page cache"}}),
		partitionsScenario(1000, plain, plainPairs),
		idleScenario(usual, usualPairs),
		captureScenario(usual, usualPairs),
		fileScenario(usual, usualPairs),
		mirrorScenario(weirSynced("weir"), "MirrorMaker 2"),
	}
}

// limitScenarios are those of make bench that have a table of their own.
func limitScenarios() []scenario {
	return []scenario{
		produceScenario("produce-1k", 1024, 5000, []side{weirOS("weir, page cache"), kfakeOS()}, []pair{{"weir, page cache", "kfake, page cache"}}),
	}
}

// later are scenarios that are wanted and not written yet; SCENARIO=all tells of them.
func later() map[string]string {
	const missing = "not run: no scenario yet"
	return map[string]string{
		"partitions-10000": missing, "start-after-kill": missing, "mysql": "not run: weir has no MySQL connector yet",
		"s3": missing, "opensearch": missing, "three-brokers": "not run: weir runs on one node yet",
	}
}

// measurements are the smaller ones of make bench: lines, no table.
func (b *bench) measurements() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"idle": b.idle, "produce": b.produce, "postgres": b.changes}
}

// limitNames and peerNames are in the order of the reports.
func limitNames() []string { return []string{"idle", "produce", "postgres", "produce-1k"} }

func peerNames() []string {
	var names []string
	for _, sc := range peerScenarios() {
		names = append(names, sc.name)
	}
	return names
}

// runLimits does the named measurements and scenarios, all of them where none is named.
func (b *bench) runLimits(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = limitNames()
	}
	for _, name := range names {
		if measure, ok := b.measurements()[name]; ok {
			if err := b.measureOne(ctx, name, measure); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		if err := b.compareNamed(ctx, setLimits, limitScenarios(), name, limitNames()); err != nil {
			return err
		}
	}
	return nil
}

// runPeers does the named scenarios, all eight where none is named; "all" adds those that are to come.
func (b *bench) runPeers(ctx context.Context, names []string) error {
	all := slices.Contains(names, "all")
	if len(names) == 0 || all {
		names = peerNames()
	}
	for _, name := range names {
		if err := b.compareNamed(ctx, setPeers, peerScenarios(), name, peerNames()); err != nil {
			return err
		}
	}
	if all {
		for name, why := range later() {
			r := &result{Set: setPeers, Name: name, Title: "wanted", Sides: []side{weirSynced("weir")}, NotRun: map[string]string{"weir": why}, Machine: b.machine()}
			if err := b.save(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) compareNamed(ctx context.Context, set string, catalog []scenario, name string, known []string) error {
	i := slices.IndexFunc(catalog, func(sc scenario) bool { return sc.name == name })
	if i < 0 {
		return fmt.Errorf("unknown scenario %q: there are %s", name, strings.Join(known, ", "))
	}
	if err := b.compare(ctx, set, catalog[i]); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// measureOne runs a measurement and keeps its lines.
func (b *bench) measureOne(ctx context.Context, name string, measure func(context.Context) error) error {
	r := &result{Set: setLimits, Name: name, Title: "weir beside the machine's own limit", Machine: b.machine(), Complete: true}
	b.lines = nil
	if err := measure(ctx); err != nil {
		return err
	}
	r.Lines = b.lines
	return b.save(r)
}
