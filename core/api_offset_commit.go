package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// OffsetCommit, key 8, versions 2-10.
//
// Answered when the offsets are durable. Topics are named by id from version 10. Partitions that don't exist are
// answered with an error each; the others are committed.
// Deviations: none.
func handleOffsetCommit(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.OffsetCommitRequest)
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(req.Version)
	valid := *r // what is left after those that don't exist
	valid.Topics = nil
	var places [][]place // where the answers of valid's partitions go
	for i := range r.Topics {
		from := &r.Topics[i]
		to := kmsg.NewOffsetCommitResponseTopic()
		to.Topic, to.TopicID = from.Topic, from.TopicID
		t, missing := b.committable(req.Version, from)
		good := kmsg.NewOffsetCommitRequestTopic()
		var at []place
		for j, p := range from.Partitions {
			answer := kmsg.NewOffsetCommitResponseTopicPartition()
			answer.Partition = p.Partition
			if err := t.has(p.Partition, missing); err != nil {
				answer.ErrorCode = code(err)
			} else {
				good.Topic = t.Name
				good.Partitions = append(good.Partitions, p)
				at = append(at, place{topic: i, partition: j})
			}
			to.Partitions = append(to.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, to)
		if len(at) > 0 {
			valid.Topics = append(valid.Topics, good)
			places = append(places, at)
		}
	}
	if len(valid.Topics) == 0 && len(r.Topics) > 0 {
		done(resp)
		return
	}
	b.groups.of(r.Group).handle(req, &valid, "", func(answer kmsg.Response) {
		for i, t := range answer.(*kmsg.OffsetCommitResponse).Topics {
			for j, p := range t.Partitions {
				to := places[i][j]
				resp.Topics[to.topic].Partitions[to.partition].ErrorCode = p.ErrorCode
			}
		}
		done(resp)
	})
}

// place is where a partition stands in a request and in its answer.
type place struct{ topic, partition int }

// committable finds the topic of a commit; missing is what its partitions are answered if it isn't there.
func (b *Broker) committable(version int16, ask *kmsg.OffsetCommitRequestTopic) (t *topic, missing error) {
	if t, missing = b.topics.byName(ask.Topic), errUnknownTopic; version >= 10 {
		t, missing = b.topics.byID(meta.ID(ask.TopicID)), errUnknownTopicID
	}
	if b.refusal() != nil { // it may not have heard of the topic yet
		missing = kerr.NotCoordinator
	}
	return t, missing
}
