package core

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxDescribedPartitions bounds the partitions of one answer, whatever the client asks for.
const maxDescribedPartitions = 2000

// DescribeTopicPartitions, key 75, version 0.
//
// The topics asked for, or all, by name, from the cursor on; an answer that is full says where the next begins. Topics that don't exist are answered
// with an error; internal ones are there.
// Deviations: there are no eligible leader replicas besides those in sync; authorized operations are never computed.
func handleDescribeTopicPartitions(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	resp.SetVersion(req.Version)
	isAlive := make(map[int32]bool)
	for _, n := range b.alive() {
		isAlive[n.ID] = true
	}
	var names []string
	for i := range r.Topics {
		names = append(names, r.Topics[i].Topic)
	}
	if len(names) == 0 {
		for _, t := range b.topics.all() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	left := describedLimit(r)
	for _, name := range slices.Compact(names) {
		from := 0
		if c := r.Cursor; c != nil {
			if name < c.Topic {
				continue
			}
			if name == c.Topic {
				from = int(max(0, c.Partition))
			}
		}
		if left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: int32(from)}
			break
		}
		t := b.topics.byName(name)
		to := t.described(name, b.unknown(errUnknownTopic), from, left, isAlive)
		resp.Topics = append(resp.Topics, to)
		left -= len(to.Partitions)
		if end := from + len(to.Partitions); t != nil && end < len(t.Partitions) {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: int32(end)}
			break
		}
	}
	done(resp)
}

// describedLimit is the most partitions of an answer.
func describedLimit(r *kmsg.DescribeTopicPartitionsRequest) int {
	return cmp.Or(int(min(max(r.ResponsePartitionLimit, 0), maxDescribedPartitions)), maxDescribedPartitions)
}

// described is at most count partitions of a topic, from one on.
func (t *topic) described(name string, missing error, from, count int, isAlive map[int32]bool) kmsg.DescribeTopicPartitionsResponseTopic {
	to := kmsg.NewDescribeTopicPartitionsResponseTopic()
	to.Topic = &name
	if t == nil {
		to.ErrorCode = code(errOf(checkTopicName(name), missing))
		return to
	}
	to.TopicID, to.IsInternal = t.ID, isInternal(name)
	for i := from; i < min(len(t.Partitions), from+count); i++ {
		at := &t.Partitions[i]
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderEpoch, p.Replicas, p.ISR = int32(i), at.LeaderEpoch, at.Replicas, at.ISR
		p.LeaderID, p.ErrorCode = t.leader(i, isAlive)
		p.OfflineReplicas, p.EligibleLeaderReplicas, p.LastKnownELR = offline(at.Replicas, isAlive), []int32{}, []int32{}
		to.Partitions = append(to.Partitions, p)
	}
	return to
}
