package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is one way to break a node, and what mends it.
type fault struct {
	name   string
	weight int
	hold   time.Duration // at most until it is mended
	do     func(ctx context.Context, c *cluster, node int) error
	undo   func(ctx context.Context, c *cluster, node int) error
}

// catalog is what happens to one node at a time. A bool parameter's worth of it is told by the network's functions.
func catalog() []fault {
	start := func(_ context.Context, c *cluster, node int) error { return c.start(node) }
	return []fault{
		{"kill", 4, 6 * time.Second, func(_ context.Context, c *cluster, node int) error { return c.kill(node) }, start},
		{"kill and start at once", 2, 0, func(_ context.Context, c *cluster, node int) error { return c.kill(node) }, start},
		{"stop", 2, 3 * time.Second, func(_ context.Context, c *cluster, node int) error { return c.stop(node) }, start},
		{"pause", 3, 8 * time.Second,
			func(_ context.Context, c *cluster, node int) error { return c.signal(node, syscall.SIGSTOP) },
			func(_ context.Context, c *cluster, node int) error { return c.signal(node, syscall.SIGCONT) }},
		{"off the network", 2, 8 * time.Second,
			func(ctx context.Context, c *cluster, node int) error { return c.net.isolate(ctx, node) },
			func(ctx context.Context, c *cluster, node int) error { return c.net.rejoin(ctx, node) }},
		{"cut off from the others", 2, 8 * time.Second,
			func(ctx context.Context, c *cluster, node int) error {
				return errors.Join(outward(ctx, node, c.net.cut), inward(ctx, node, c.net.cut))
			},
			func(ctx context.Context, c *cluster, node int) error {
				return errors.Join(outward(ctx, node, c.net.mend), inward(ctx, node, c.net.mend))
			}},
		{"cut off from one other", 2, 8 * time.Second,
			func(ctx context.Context, c *cluster, node int) error { return c.net.cut(ctx, node, node%nodes+1) },
			func(ctx context.Context, c *cluster, node int) error { return c.net.mend(ctx, node, node%nodes+1) }},
		{"unheard by the others", 2, 8 * time.Second,
			func(ctx context.Context, c *cluster, node int) error { return outward(ctx, node, c.net.cut) },
			func(ctx context.Context, c *cluster, node int) error { return outward(ctx, node, c.net.mend) }},
		{"deaf to the others", 2, 8 * time.Second,
			func(ctx context.Context, c *cluster, node int) error { return inward(ctx, node, c.net.cut) },
			func(ctx context.Context, c *cluster, node int) error { return inward(ctx, node, c.net.mend) }},
		{"slow", 1, 8 * time.Second,
			func(ctx context.Context, c *cluster, node int) error { return c.net.slow(ctx, node) },
			func(ctx context.Context, c *cluster, node int) error { return c.net.quicken(ctx, node) }},
	}
}

// outward does something to each link from a node to another, inward to each link from another.
func outward(ctx context.Context, node int, do func(ctx context.Context, from, to int) error) (err error) {
	for _, other := range all() {
		if other != node {
			err = errors.Join(err, do(ctx, node, other))
		}
	}
	return err
}

func inward(ctx context.Context, node int, do func(ctx context.Context, from, to int) error) error {
	return outward(ctx, node, func(ctx context.Context, from, to int) error { return do(ctx, to, from) })
}

// pick draws a fault by weight.
func pick(rng *rand.Rand, from []fault) fault {
	sum := 0
	for _, f := range from {
		sum += f.weight
	}
	for n := rng.IntN(sum); ; {
		for _, f := range from {
			if n -= f.weight; n < 0 {
				return f
			}
		}
	}
}

// step is what happens at once: one fault, or two of two nodes, or the end of all.
type step struct {
	name   string
	nodes  []int
	faults []fault // of nodes, or none: all are killed
	hold   time.Duration
	order  []int // of mending
	calm   time.Duration
}

// isSingle says that only one node is concerned: then the others go on.
func (s step) isSingle() bool { return len(s.faults) == 1 }

// nextStep draws a step. It reads nothing but rng, so a seed gives a plan.
func nextStep(rng *rand.Rand) step {
	s := step{calm: time.Duration(rng.IntN(1500)) * time.Millisecond, nodes: rng.Perm(nodes)}
	for i := range s.nodes {
		s.nodes[i]++
	}
	count := 1
	switch rng.IntN(12) {
	case 0:
		s.name, s.order, s.hold = "kill all", rng.Perm(nodes), time.Duration(rng.IntN(1000))*time.Millisecond
		return s
	case 1, 2:
		count = 2
	}
	s.nodes, s.order = s.nodes[:count], rng.Perm(count)
	for i := range count {
		f := pick(rng, catalog())
		s.faults = append(s.faults, f)
		if i > 0 {
			s.name += " + "
		}
		s.name += f.name
		if f.hold > 0 {
			s.hold = max(s.hold, time.Duration(rng.Int64N(int64(f.hold))))
		}
	}
	return s
}

// begin does what the step says, end mends it.
func (s step) begin(ctx context.Context, c *cluster) error {
	if len(s.faults) == 0 {
		return c.kill(s.nodes...)
	}
	for i, f := range s.faults {
		if err := f.do(ctx, c, s.nodes[i]); err != nil {
			return fmt.Errorf("%s, node %d: %w", f.name, s.nodes[i], err)
		}
	}
	return nil
}

func (s step) end(ctx context.Context, c *cluster) error {
	for _, i := range s.order {
		var err error
		if len(s.faults) == 0 {
			err = c.start(s.nodes[i])
		} else {
			err = s.faults[i].undo(ctx, c, s.nodes[i])
		}
		if err != nil {
			return fmt.Errorf("mend %s, node %d: %w", s.name, s.nodes[i], err)
		}
	}
	return nil
}

// crashes is how many processes the step kills.
func (s step) crashes() (n int) {
	if len(s.faults) == 0 {
		return len(s.nodes)
	}
	for _, f := range s.faults {
		if f.name == "kill" || f.name == "kill and start at once" {
			n++
		}
	}
	return n
}
