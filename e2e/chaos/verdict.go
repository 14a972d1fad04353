package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// drain waits until the consumers have everything and the group has committed it.
func (l *lab) drain(ctx context.Context) error {
	at, err := ends(ctx, l.c.net.bootstrap())
	if err != nil {
		return err
	}
	return until(ctx, wholeLimit, "consumers have read everything", func(context.Context) (string, bool) {
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		for p, end := range at {
			if end == 0 {
				continue
			}
			if _, ok := l.h.seen[p][end-1]; !ok || l.h.commits[p] < end {
				return fmt.Sprintf("partition %d ends at %d, %d are committed, %d were seen", p, end, l.h.commits[p], len(l.h.seen[p])), false
			}
		}
		return "", true
	})
}

// verdict reads everything by kgo, then by kcat with each node gone in turn, so that each partition is read from two replicas at least.
func (l *lab) verdict(ctx context.Context) ([]string, error) {
	log, err := readAll(ctx, l.c.net.bootstrap())
	if err != nil {
		return l.h.faults, err
	}
	faults := judge(l.h, log)
	want := log.digest()
	for _, gone := range all() {
		if err := l.c.kill(gone); err != nil {
			return faults, err
		}
		if err := l.led(ctx, gone); err != nil {
			return faults, err
		}
		other, err := readByKcat(ctx, slices.Delete(l.c.net.bootstrap(), gone-1, gone))
		if err != nil {
			return faults, err
		}
		for p, sum := range other.digest() {
			if sum != want[p] {
				faults = append(faults, fmt.Sprintf("partition %d: kcat reads %s without node %d, kgo read %s with it", p, sum, gone, want[p]))
			}
		}
		if err := l.c.start(gone); err != nil {
			return faults, err
		}
		if err := l.whole(ctx); err != nil {
			return faults, err
		}
	}
	l.say("kcat reads the same with each node gone in turn: %s ...", want[0])
	return faults, nil
}

// report prints what happened.
func (l *lab) report() {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	one, any := time.Duration(0), time.Duration(0)
	names := make([]string, 0, len(l.sums))
	for name, s := range l.sums {
		names = append(names, name)
		if any = max(any, s.gap); s.isSingle {
			one = max(one, s.gap)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s := l.sums[name]
		l.say("%3d x %-44s longest gap %6.2f s, whole after %5.1f s at most", s.times, name, s.gap.Seconds(), s.whole.Seconds())
	}
	var refusals []string
	for what, n := range l.h.errs {
		refusals = append(refusals, fmt.Sprintf("%d x %s", n, what))
	}
	slices.Sort(refusals)
	l.say("%d records acknowledged (%d refused %s), %d group commits, %d crashes, %d elections; longest gap %.2f s with one node concerned, %.2f s with several",
		l.h.acks, sum(l.h.errs), strings.Join(refusals, "; "), l.h.committed, l.crashes, l.h.elections, one.Seconds(), any.Seconds())
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
