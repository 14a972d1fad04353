package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// lab is one run.
type lab struct {
	c       *cluster
	h       *history
	rng     *rand.Rand
	out     io.Writer
	began   time.Time
	crashes int
	sums    map[string]*summary // by the step's name
}

// summary is what came of the steps of a name.
type summary struct {
	times    int
	isSingle bool
	gap      time.Duration // longest without an acknowledgement
	whole    time.Duration // longest until the cluster was whole again
}

func main() {
	dir := flag.String("dir", "", "folder with node-1 to node-3")
	prefix := flag.String("net", "", "prefix of the namespaces' names")
	subnet := flag.String("subnet", "", "first three numbers of the addresses")
	plan := flag.String("plan", "random", "random or kill-each")
	seconds := flag.Int("seconds", 20, "how long faults go on, at least")
	seed := flag.Uint64("seed", 0, "of the plan; 0: another each time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	l := &lab{c: newCluster(&network{*prefix, *subnet, map[link]int{}}, *dir), h: newHistory(), rng: rand.New(rand.NewPCG(*seed, 7)), out: os.Stdout, began: time.Now(), sums: map[string]*summary{}}
	l.say("seed %d", *seed)
	faults, err := l.run(ctx, *plan, time.Duration(*seconds)*time.Second)
	err = errors.Join(err, l.c.close(ctx))
	for _, f := range append(faults, l.complaints()...) {
		l.say("FAULT %s", f)
	}
	if err != nil {
		l.say("%v", err)
	}
	if err != nil || len(faults) > 0 {
		l.say("FAILED, seed %d; logs and data are in %s", *seed, *dir)
		os.Exit(1)
	}
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.out, "%6.1f  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

// run is the whole of it: a cluster, its load, the plan, the verdict. An error means that it could not be judged.
func (l *lab) run(ctx context.Context, plan string, length time.Duration) (faults []string, err error) {
	for _, id := range all() {
		if err := l.c.start(id); err != nil {
			return nil, err
		}
	}
	if err := l.createTopic(ctx); err != nil {
		return nil, err
	}
	if err := l.whole(ctx); err != nil {
		return nil, err
	}
	l.say("three nodes are one cluster")
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	senders, readers := l.load(sending, reading)
	l.h.markGap(time.Now())
	switch plan {
	case "random":
		err = l.random(ctx, length)
	case "kill-each":
		err = l.killEach(ctx)
	default:
		err = fmt.Errorf("unknown plan %q", plan)
	}
	stopSending()
	err = errors.Join(err, senders.Wait())
	if err == nil {
		err = l.drain(ctx)
	}
	stopReading()
	if err = errors.Join(err, readers.Wait()); err != nil {
		return l.h.faults, err
	}
	faults, err = l.verdict(ctx)
	l.report()
	return faults, err
}

// load starts producers, and those who read. Both end with their contexts.
func (l *lab) load(sending, reading context.Context) (senders, readers *errgroup.Group) {
	senders, readers = &errgroup.Group{}, &errgroup.Group{}
	bootstrap := l.c.net.bootstrap()
	for p := range producers {
		senders.Go(func() error { return produce(sending, l.h, bootstrap, p) })
	}
	senders.Go(func() error { return produceByKcat(sending, l.h, bootstrap) })
	readers.Go(func() error { return consume(reading, l.h, bootstrap) })
	for range members {
		readers.Go(func() error { return member(reading, l.h, bootstrap) })
	}
	readers.Go(func() error { return watch(reading, l.h, bootstrap) })
	return senders, readers
}

// random has one step after the other until the time is over.
func (l *lab) random(ctx context.Context, length time.Duration) error {
	for began := time.Now(); time.Since(began) < length; {
		if err := l.take(ctx, nextStep(l.rng)); err != nil {
			return err
		}
	}
	return nil
}

// killEach kills each node in turn.
func (l *lab) killEach(ctx context.Context) error {
	for _, id := range all() {
		kill := catalog()[0]
		s := step{name: "kill", nodes: []int{id}, faults: []fault{kill}, order: []int{0}, hold: time.Duration(l.rng.IntN(3000)) * time.Millisecond,
			calm: 500*time.Millisecond + time.Duration(l.rng.IntN(1000))*time.Millisecond}
		if err := l.take(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// take takes a step: calm, fault, mending, and the cluster is whole again.
func (l *lab) take(ctx context.Context, s step) error {
	pause(ctx, s.calm)
	l.h.markGap(time.Now())
	before := l.h.acknowledged()
	if err := s.begin(ctx, l.c); err != nil {
		return err
	}
	l.crashes += s.crashes()
	pause(ctx, s.hold)
	if err := s.end(ctx, l.c); err != nil {
		return err
	}
	mended := time.Now()
	err := l.whole(ctx)
	whole := time.Since(mended)
	if err == nil {
		err = l.strict(ctx)
	}
	sum := l.sums[s.name]
	if sum == nil {
		sum = &summary{isSingle: s.isSingle()}
		l.sums[s.name] = sum
	}
	gap := l.h.gapSince(time.Now())
	sum.times++
	sum.gap, sum.whole = max(sum.gap, gap), max(sum.whole, whole)
	l.say("%s %v for %.1f s: %d acknowledged, longest gap %.2f s, whole after %.1f s", s.name, s.nodes, s.hold.Seconds(), l.h.acknowledged()-before, gap.Seconds(), whole.Seconds())
	return err
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// complaints are what nodes' logs should not say.
func (l *lab) complaints() (said []string) {
	for _, n := range l.c.nodes {
		log, err := os.ReadFile(filepath.Join(n.dir, "log"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(log)) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
				said = append(said, fmt.Sprintf("node %d: %s", n.id, strings.TrimSpace(line)))
			}
		}
	}
	return said
}
