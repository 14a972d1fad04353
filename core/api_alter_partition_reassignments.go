package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// AlterPartitionReassignments, key 45, versions 0-1.
//
// A partition moves to other replicas, its preferred leader first: the new ones are added, and when all of them are in sync, the others go. Without
// replicas a move under way ends where it began. The answer comes when the move has begun. A replication factor that must stay what it is
// (version 1) does.
// Deviations: the timeout is not used; replicas on fenced brokers are waited for.
func handleAlterPartitionReassignments(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.SetVersion(req.Version)
	var changes []meta.Assignment
	var places []place
	set := func(at place, err error) {
		if errors.Is(err, meta.ErrUnknownNode) || errors.Is(err, meta.ErrUnelectable) {
			err = fmt.Errorf("%w: %w", kerr.InvalidReplicaAssignment, err)
		}
		to := &resp.Topics[at.topic].Partitions[at.partition]
		to.ErrorCode, to.ErrorMessage = code(err), message(err)
	}
	for i := range r.Topics {
		from := &r.Topics[i]
		to := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		to.Topic, to.Partitions = from.Topic, make([]kmsg.AlterPartitionAssignmentsResponseTopicPartition, len(from.Partitions))
		resp.Topics = append(resp.Topics, to)
		for j := range from.Partitions {
			to.Partitions[j].Default()
			to.Partitions[j].Partition = from.Partitions[j].Partition
			change, err := b.planMove(from.Topic, &from.Partitions[j], r.Version < 1 || r.AllowReplicationFactorChange)
			if err != nil {
				set(place{topic: i, partition: j}, err)
				continue
			}
			changes, places = append(changes, change), append(places, place{topic: i, partition: j})
		}
	}
	b.proposeEach(len(changes), func(from, to int) meta.Command {
		return meta.Command{AssignReplicas: &meta.AssignReplicas{Changes: changes[from:to]}}
	}, req, func(i int, err error) { set(places[i], err) }, func() { done(resp) })
}

// planMove checks one partition's move.
func (b *Broker) planMove(topic string, ask *kmsg.AlterPartitionAssignmentsRequestTopicPartition, mayResize bool) (meta.Assignment, error) {
	t := b.topics.byName(topic)
	if err := t.has(ask.Partition, b.unknown(errUnknownTopic)); err != nil {
		return meta.Assignment{}, err
	}
	change := meta.Assignment{ID: t.ID, Partition: ask.Partition}
	if ask.Replicas == nil {
		return change, nil
	}
	if err := checkReplicas(ask.Replicas, b.nodes()); err != nil {
		return change, err
	}
	p := &t.Partitions[ask.Partition]
	if width := len(p.Replicas) - len(p.Adding); !mayResize && len(ask.Replicas) != width {
		return change, fmt.Errorf("replicas %v: the partition has %d: %w", ask.Replicas, width, kerr.InvalidReplicationFactor)
	}
	change.Replicas = slices.Clone(ask.Replicas)
	return change, nil
}
