package core

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// CreatePartitions, key 37, versions 0-3.
//
// A topic grows to the count asked; the new partitions are empty, and have as many replicas as the others, or as there are nodes.
// Deviations: the group offsets topic can't grow, since a group's partition is found by their number; the timeout is
// not used.
func handleCreatePartitions(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.CreatePartitionsRequest)
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.SetVersion(req.Version)
	resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, len(r.Topics))
	set := func(i int, err error) {
		resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = code(err), message(err)
	}
	var names []string
	index := make(map[string]int)
	plans := make(map[string]*meta.AddPartitions)
	for i := range r.Topics {
		ask := &r.Topics[i]
		resp.Topics[i].Default()
		resp.Topics[i].Topic = ask.Topic
		plan, err := b.planGrowth(ask)
		if _, twice := index[ask.Topic]; err == nil && twice {
			err = fmt.Errorf("topic %q is named twice: %w", ask.Topic, kerr.InvalidRequest)
		}
		if err != nil || r.ValidateOnly {
			set(i, err)
			continue
		}
		names, index[ask.Topic], plans[ask.Topic] = append(names, ask.Topic), i, plan
	}
	start := func(name string, each func(error)) {
		b.propose(meta.Command{AddPartitions: plans[name]}, req.Now, func(_ meta.Result, err error) { each(err) })
	}
	forAll(names, start, func(name string, err error) { set(index[name], err) }, func() { done(resp) })
}

// planGrowth checks one topic's growth.
func (b *Broker) planGrowth(ask *kmsg.CreatePartitionsRequestTopic) (*meta.AddPartitions, error) {
	t := b.topics.byName(ask.Topic)
	if t == nil {
		return nil, b.unknown(errUnknownTopic)
	}
	if isInternal(t.Name) {
		return nil, fmt.Errorf("topic %q can't grow: %w", t.Name, errInternalTopic)
	}
	more := int(ask.Count) - len(t.Partitions)
	if more <= 0 {
		return nil, fmt.Errorf("topic %q has %d partitions already, asked are %d: %w", t.Name, len(t.Partitions), ask.Count, kerr.InvalidPartitions)
	}
	width := len(t.Partitions[0].Replicas) - len(t.Partitions[0].Adding)
	plan := &meta.AddPartitions{ID: t.ID, From: len(t.Partitions)}
	if len(ask.Assignment) == 0 {
		var err error
		plan.Replicas, err = b.placed(t.Name, more, int16(width))
		return plan, err
	}
	if n := len(ask.Assignment); n != more {
		return nil, fmt.Errorf("%d partitions are added, %d are assigned: %w", more, n, kerr.InvalidReplicaAssignment)
	}
	for i := range ask.Assignment {
		plan.Replicas = append(plan.Replicas, slices.Clone(ask.Assignment[i].Replicas))
	}
	if err := b.checkCount(more, width, len(b.nodes())); err != nil {
		return nil, err
	}
	return plan, b.checkAsked(plan.Replicas, width)
}
