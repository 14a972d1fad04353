package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	wholeLimit = time.Minute // from the end of the faults until everything is well again
	offsets    = "__consumer_offsets"
)

// until asks again and again until it is so; else the error has the last answer.
func until(ctx context.Context, limit time.Duration, what string, ask func(ctx context.Context) (seen string, ok bool)) error {
	whole, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen := "nothing"
	for whole.Err() == nil {
		once, stop := context.WithTimeout(whole, askLimit)
		said, ok := ask(once)
		stop()
		if ok {
			return nil
		}
		if whole.Err() == nil || seen == "nothing" {
			seen = said
		}
		pause(whole, 50*time.Millisecond)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("after %v it is not so that %s: %s", limit, what, seen)
}

// createTopic makes the topic of the load as soon as there are brokers who can.
func (l *lab) createTopic(ctx context.Context) error {
	cl, err := kgo.NewClient(append(patient(l.c.net.bootstrap()), hasty()...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	two := "2"
	admin := kadm.NewClient(cl)
	return until(ctx, wholeLimit, "a topic can be made on three nodes", func(ctx context.Context) (string, bool) {
		if _, err := l.c.ended(); err != nil {
			return err.Error(), false
		}
		brokers, err := admin.ListBrokers(ctx)
		if err != nil || len(brokers) < nodes {
			return fmt.Sprintf("%d brokers: %v", len(brokers), err), false
		}
		resp, err := admin.CreateTopic(ctx, partitions, nodes, map[string]*string{"min.insync.replicas": &two}, topicName)
		if err == nil {
			err = resp.Err
		}
		return fmt.Sprint(err), err == nil || errors.Is(resp.Err, kerr.TopicAlreadyExists)
	})
}

// whole waits until each of the nodes says that all nodes are there and every replica is in sync. That it takes too long is a fault, and so is a node that has ended.
func (l *lab) whole(ctx context.Context) error {
	var clients []*kadm.Client
	defer func() {
		for _, cl := range clients {
			cl.Close()
		}
	}()
	for _, addr := range l.c.net.bootstrap() {
		cl, err := kgo.NewClient(append(append(patient([]string{addr}), hasty()...), kgo.RetryTimeout(time.Second))...)
		if err != nil {
			return err
		}
		clients = append(clients, kadm.NewClient(cl))
	}
	return until(ctx, wholeLimit, "the cluster is whole", func(ctx context.Context) (string, bool) {
		if id, err := l.c.ended(); err != nil {
			l.h.failf("%v", err)
			if err := l.c.start(id); err != nil {
				return err.Error(), false
			}
		}
		for i, admin := range clients {
			if what := wholeBy(ctx, admin); what != "" {
				return fmt.Sprintf("node %d: %s", i+1, what), false
			}
		}
		return "", true
	})
}

// wholeBy is what one node says is missing; empty: nothing.
func wholeBy(ctx context.Context, admin *kadm.Client) string {
	meta, err := admin.Metadata(ctx, topicName, offsets)
	if err != nil {
		return err.Error()
	}
	if len(meta.Brokers) < nodes {
		return fmt.Sprintf("%d brokers", len(meta.Brokers))
	}
	for _, name := range []string{topicName, offsets} {
		t := meta.Topics[name]
		if t.Err != nil && name == topicName {
			return fmt.Sprintf("%s: %v", name, t.Err)
		}
		for _, p := range t.Partitions.Sorted() {
			switch {
			case p.Err != nil:
				return fmt.Sprintf("%s-%d: %v", name, p.Partition, p.Err)
			case p.Leader < 0 || !slices.Contains(p.ISR, p.Leader):
				return fmt.Sprintf("%s-%d: led by %d, in sync %v", name, p.Partition, p.Leader, p.ISR)
			case len(p.ISR) < len(p.Replicas) || len(p.Replicas) < nodes:
				return fmt.Sprintf("%s-%d: in sync %v of %v", name, p.Partition, p.ISR, p.Replicas)
			}
		}
	}
	return ""
}

// strict sees that, now that the cluster is whole, the group's offsets are what was acknowledged.
func (l *lab) strict(ctx context.Context) error {
	cl, err := kgo.NewClient(append(append(patient(l.c.net.bootstrap()), hasty()...), kgo.ClientID("strict"))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return until(ctx, wholeLimit, "the group's offsets can be asked for", func(ctx context.Context) (string, bool) {
		return "no answer", l.h.checkCommits(ctx, cl, 0)
	})
}

// led waits until the nodes that live say that one of them leads each partition.
func (l *lab) led(ctx context.Context, gone int) error {
	addrs := slices.Delete(l.c.net.bootstrap(), gone-1, gone)
	cl, err := kgo.NewClient(append(patient(addrs), hasty()...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return until(ctx, wholeLimit, "every partition is led by a node that lives", func(ctx context.Context) (string, bool) {
		meta, err := kadm.NewClient(cl).Metadata(ctx, topicName)
		if err != nil {
			return err.Error(), false
		}
		for _, p := range meta.Topics[topicName].Partitions.Sorted() {
			if p.Err != nil || p.Leader < 0 || int(p.Leader) == gone {
				return fmt.Sprintf("partition %d is led by %d: %v", p.Partition, p.Leader, p.Err), false
			}
		}
		return "", true
	})
}
