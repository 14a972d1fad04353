package main

import (
	"context"
	"errors"
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

// peerScenarios are those that make bench-peers runs, within the hour. Each compares like with like, and holds an A/A control.
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
		postgresScenario(usual, usualPairs),
		mysqlDialect().scenario(usual, usualPairs),
		mariadbDialect().scenario(usual, usualPairs),
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

// longScenarios are those that SCENARIO=all adds.
func longScenarios() []scenario {
	alone := []side{weirSynced("weir"), weirSynced("weir again")}
	alonePairs := []pair{{"weir", "weir again"}}
	usual := []side{weirSynced("weir"), {"kafka", kindKafka, nil}, weirSynced("weir again")}
	usualPairs := []pair{{"weir", "kafka"}, {"weir", "weir again"}}
	return []scenario{
		partitionsScenario(10_000, []side{weirOS("weir, page cache"), kafkaOS(), weirOS("weir again")},
			[]pair{{"weir, page cache", "kafka, page cache"}, {"weir, page cache", "weir again"}}),
		restartScenario(usual, usualPairs),
		s3Scenario(alone, alonePairs),
		opensearchScenario(alone, alonePairs),
		brokersScenario(append(usual, weirSynced(weirAlone)), append(usualPairs, pair{"weir", weirAlone})),
		failoverScenario(usual, usualPairs),
		shutdownScenario(usual, usualPairs),
	}
}

// measurements are the smaller ones of make bench: lines, no table.
func (b *bench) measurements() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"idle": b.idle, "produce": b.produce, "postgres": b.changes}
}

// limitNames are in the order of the reports.
func limitNames() []string { return []string{"idle", "produce", "postgres", "produce-1k"} }

func namesOf(catalog []scenario) (names []string) {
	for _, sc := range catalog {
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

// runPeers does the named scenarios, those of the hour where none is named, every one for "all".
func (b *bench) runPeers(ctx context.Context, names []string) error {
	catalog := append(peerScenarios(), longScenarios()...)
	switch {
	case len(names) == 0:
		names = namesOf(peerScenarios())
	case slices.Contains(names, "all"):
		names = namesOf(catalog)
	}
	return b.compareAll(ctx, catalog, names)
}

// compareAll runs scenarios one after the other. One that fails does not keep the next from its turn: the run is long, and
// what failed is gone on with by another one.
func (b *bench) compareAll(ctx context.Context, catalog []scenario, names []string) error {
	var faults []error
	for _, name := range names {
		if err := b.compareNamed(ctx, setPeers, catalog, name, namesOf(catalog)); err != nil {
			fmt.Fprintln(b.out, "FAILED:", err)
			faults = append(faults, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
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
