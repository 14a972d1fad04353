package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// ListPartitionReassignments, key 46, version 0.
//
// The partitions asked for, or all, that are being moved, with the replicas that come and go. What isn't there is left out.
// Deviations: none known.
func handleListPartitionReassignments(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.ListPartitionReassignmentsRequest)
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	resp.SetVersion(req.Version)
	add := func(t *topic, indexes []int32) {
		to := kmsg.NewListPartitionReassignmentsResponseTopic()
		to.Topic = t.Name
		for _, i := range indexes {
			if i < 0 || int(i) >= len(t.Partitions) || !isMoving(&t.Partitions[i]) {
				continue
			}
			p := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			from := &t.Partitions[i]
			p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas = i, from.Replicas, from.Adding, from.Removing
			to.Partitions = append(to.Partitions, p)
		}
		if len(to.Partitions) > 0 {
			resp.Topics = append(resp.Topics, to)
		}
	}
	if r.Topics == nil {
		for _, t := range b.topics.all() {
			all := make([]int32, len(t.Partitions))
			for i := range all {
				all[i] = int32(i)
			}
			add(t, all)
		}
	}
	for i := range r.Topics {
		if t := b.topics.byName(r.Topics[i].Topic); t != nil {
			add(t, r.Topics[i].Partitions)
		}
	}
	done(resp)
}

func isMoving(p *meta.Partition) bool { return len(p.Adding)+len(p.Removing) > 0 }
