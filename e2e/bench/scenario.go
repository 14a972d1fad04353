package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The kinds of servers that a side can run on.
const (
	kindWeir  = "weir"
	kindKafka = "kafka"
	kindKfake = "kfake"
)

// side is one competitor: a server with its settings. The word for it stands in tables.
type side struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`
	Settings []string `json:"settings,omitempty"` // KEY=VALUE of the server
}

// pair names two sides to compare. A pair of the same server is the A/A control: its ratio is the noise.
type pair struct {
	A string `json:"a"`
	B string `json:"b"`
}

// figure is one measured number. Of two, the higher or the lower is better.
type figure struct {
	Key    string  `json:"key"`
	Label  string  `json:"label"`
	Unit   string  `json:"unit"`
	Higher bool    `json:"higher"`
	Value  float64 `json:"value"`
}

func higher(key, label, unit string, value float64) figure {
	return figure{key, label, unit, true, value}
}
func lower(key, label, unit string, value float64) figure {
	return figure{key, label, unit, false, value}
}

// sample is one run of one side, its answer verified.
type sample struct {
	Side     string    `json:"side"`
	Round    int       `json:"round"`
	At       time.Time `json:"at"`
	Verified string    `json:"verified"` // by what tool, and what it saw
	Figures  []figure  `json:"figures"`
}

// scenario is one comparison. Every round measures each side once, in order, so that a change of the machine's mood
// meets all of them.
type scenario struct {
	name     string
	title    string
	settings []string // what all sides have in common
	sides    []side
	pairs    []pair
	services []string // started before the first round, ended after the last
	pinned   bool     // server and client keep to a core each

	// absent asks the binary itself whether weir can take part, and answers why not. The peers run all the same. Optional.
	absent func(ctx context.Context, b *bench) (why string, err error)
	// limit measures what the machine itself can do, once, before the first round. Optional.
	limit func(ctx context.Context, b *bench) ([]figure, error)
	// measure prepares the side's server, runs the load, verifies the answer by a foreign tool and reports. Nothing of
	// it is left running or on disk. A scenario without it waits for weir to have what its peers do.
	measure func(ctx context.Context, b *bench, sd side) (sample, error)
}

// compare runs a scenario, or what is left of it, and keeps every sample in its file as it comes.
func (b *bench) compare(ctx context.Context, set string, sc scenario) error {
	res := b.resultOf(set, sc)
	if err := b.excuse(ctx, sc, res); err != nil {
		return err
	}
	if b.done(sc, res) {
		return b.close(ctx, sc, res)
	}
	stop, err := b.serve(ctx, sc.services)
	if errors.Is(err, errNotRun) && ctx.Err() == nil {
		for _, sd := range sc.sides {
			res.NotRun[sd.Name] = err.Error()
		}
		return b.close(ctx, sc, res)
	}
	if err != nil {
		return err
	}
	return errors.Join(b.play(ctx, sc, res), stop())
}

// excuse notes why weir's sides can't run, where that is so.
func (b *bench) excuse(ctx context.Context, sc scenario, res *result) error {
	if sc.absent == nil {
		return nil
	}
	why, err := sc.absent(ctx, b)
	if err != nil {
		return fmt.Errorf("ask weir whether it can: %w", err)
	}
	for _, sd := range sc.sides {
		if sd.Kind == kindWeir && why != "" {
			res.NotRun[sd.Name] = why
		}
	}
	return nil
}

// done says that no side is left to run.
func (b *bench) done(sc scenario, res *result) bool {
	for _, sd := range sc.sides {
		for round := 1; round <= b.rounds; round++ {
			if sc.measure != nil && !res.has(sd.Name, round) && res.NotRun[sd.Name] == "" {
				return false
			}
		}
	}
	return true
}

// close keeps and prints what there is.
func (b *bench) close(ctx context.Context, sc scenario, res *result) error {
	// A side that did not run may run the next time: such a result is gone on with.
	res.Complete, res.Profile = len(res.NotRun) == 0, profileTop(ctx, b.store, sc.name)
	if err := b.save(res); err != nil {
		return err
	}
	fmt.Fprintln(b.out)
	writeScenario(b.out, res)
	return nil
}

// play runs what is left of the rounds.
func (b *bench) play(ctx context.Context, sc scenario, res *result) error {
	if sc.pinned {
		undo, err := pinClient(1)
		if err != nil {
			return err
		}
		defer undo()
	}
	if sc.limit != nil && len(res.Limits) == 0 {
		limits, err := sc.limit(ctx, b)
		if err != nil {
			return fmt.Errorf("measure the limits: %w", err)
		}
		res.Limits = limits
	}
	for round := 1; round <= b.rounds; round++ {
		for _, sd := range sc.sides {
			if res.has(sd.Name, round) || res.NotRun[sd.Name] != "" {
				continue
			}
			if err := b.once(ctx, sc, res, sd, round); err != nil {
				return err
			}
		}
	}
	return b.close(ctx, sc, res)
}

// once takes one sample. A weir that fails is an error; so is a wrong answer of anyone. A peer that can't be had is not.
func (b *bench) once(ctx context.Context, sc scenario, res *result, sd side, round int) error {
	began := time.Now()
	got, err := sc.measure(ctx, b, sd)
	switch {
	case errors.Is(err, errNotRun) && sd.Kind != kindWeir && ctx.Err() == nil:
		res.NotRun[sd.Name] = err.Error()
		fmt.Fprintf(b.out, "%s %d/%d %s: %v\n", sc.name, round, b.rounds, sd.Name, err)
		return b.save(res)
	case err != nil:
		return fmt.Errorf("round %d, %s: %w", round, sd.Name, err)
	}
	got.Side, got.Round, got.At = sd.Name, round, time.Now().UTC().Truncate(time.Second)
	res.Samples = append(res.Samples, got)
	fmt.Fprintf(b.out, "%s %d/%d %-24s", sc.name, round, b.rounds, sd.Name)
	for _, f := range got.Figures {
		fmt.Fprintf(b.out, "  %s %s", f.Key, number(f.Value))
	}
	fmt.Fprintf(b.out, "  (%.0f s)\n", time.Since(began).Seconds())
	return b.save(res)
}
