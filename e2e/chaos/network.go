package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// network is what chaos.sh has made: namespaces PREFIX-1 to PREFIX-3 with eth0 each, joined by a bridge in PREFIX-hub, whose ports are port1 to port3.
type network struct {
	prefix string
	subnet string // first three numbers of the addresses; node i has the i-th address
	cuts   map[link]int
}

// link is one direction between two nodes; two faults may cut it at once.
type link struct{ from, to int }

// nobody is a MAC address that no interface has: what is sent there is lost without a word.
const nobody = "02:de:ad:00:00:01"

func (n *network) namespace(node int) string { return fmt.Sprintf("%s-%d", n.prefix, node) }
func (n *network) address(node int) string   { return fmt.Sprintf("%s.%d", n.subnet, node) }

// bootstrap is the brokers' addresses.
func (n *network) bootstrap() []string {
	var all []string
	for node := 1; node <= nodes; node++ {
		all = append(all, n.address(node)+":9092")
	}
	return all
}

// isolate takes a node off the network, off clients too.
func (n *network) isolate(ctx context.Context, node int) error {
	return run(ctx, "ip", "-n", n.prefix+"-hub", "link", "set", fmt.Sprint("port", node), "down")
}

func (n *network) rejoin(ctx context.Context, node int) error {
	return run(ctx, "ip", "-n", n.prefix+"-hub", "link", "set", fmt.Sprint("port", node), "up")
}

// cut loses what a node sends to another; the other way stays open.
func (n *network) cut(ctx context.Context, from, to int) error {
	if n.cuts[link{from, to}]++; n.cuts[link{from, to}] > 1 {
		return nil
	}
	return run(ctx, "ip", "-n", n.namespace(from), "neigh", "replace", n.address(to), "lladdr", nobody, "dev", "eth0", "nud", "permanent")
}

func (n *network) mend(ctx context.Context, from, to int) error {
	if n.cuts[link{from, to}]--; n.cuts[link{from, to}] > 0 {
		return nil
	}
	return run(ctx, "ip", "-n", n.namespace(from), "neigh", "del", n.address(to), "dev", "eth0")
}

// slow lets a node send 64 KiB a second, with a queue of a second, and loses the rest.
func (n *network) slow(ctx context.Context, node int) error {
	return run(ctx, "tc", "-n", n.namespace(node), "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "512kbit", "burst", "32kb", "latency", "1s")
}

func (n *network) quicken(ctx context.Context, node int) error {
	return run(ctx, "tc", "-n", n.namespace(node), "qdisc", "del", "dev", "eth0", "root")
}

// run runs a program to its end; what it said is the error's text.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
