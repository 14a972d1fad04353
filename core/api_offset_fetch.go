package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
	"github.com/weirlog/weir/core/meta"
)

// OffsetFetch, key 9, versions 1-10.
//
// One group until version 7, many from version 8; no topics (version 2) means all; topics are named by id from
// version 10. What is answered is durable. A partition without a commit is answered -1, without an error.
// Deviations: require stable (version 7) finds nothing unstable, as there are no transactions; member id and epoch
// (version 9) are not looked at, as in groups of the classic protocol.
func handleOffsetFetch(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.OffsetFetchRequest)
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.SetVersion(req.Version)
	if req.Version < 8 {
		group := oldOffsetFetch(r)
		b.fetchOffsets(req.Version, group, func(got kmsg.OffsetFetchResponseGroup) {
			oldOffsetAnswer(resp, got)
			done(resp)
		})
		return
	}
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(r.Groups))
	one := gather(len(r.Groups), func() { done(resp) })
	for i := range r.Groups {
		b.fetchOffsets(req.Version, &r.Groups[i], func(got kmsg.OffsetFetchResponseGroup) {
			resp.Groups[i] = got
			one()
		})
	}
}

// oldOffsetFetch is a request before version 8 in the form of a later one.
func oldOffsetFetch(r *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = r.Group
	if r.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range r.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	return &g
}

// oldOffsetAnswer puts a group's answer in the form before version 8. Version 1 has no error for the whole, so it
// stands at each partition too.
func oldOffsetAnswer(resp *kmsg.OffsetFetchResponse, got kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = got.ErrorCode
	for _, t := range got.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata
			rp.ErrorCode = p.ErrorCode
			if got.ErrorCode != 0 {
				rp.ErrorCode = got.ErrorCode
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

// fetchOffsets answers for one group.
func (b *Broker) fetchOffsets(version int16, ask *kmsg.OffsetFetchRequestGroup, done func(kmsg.OffsetFetchResponseGroup)) {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = ask.Group
	b.groups.of(ask.Group).ask(func(c *coord.Coordinator) {
		if ask.Topics == nil {
			b.allOffsets(c, version, &out)
		} else {
			b.someOffsets(c, version, ask.Topics, &out)
		}
		done(out)
	})
}

func (b *Broker) allOffsets(c *coord.Coordinator, version int16, out *kmsg.OffsetFetchResponseGroup) {
	all, errorCode := c.Offsets(out.Group)
	out.ErrorCode = errorCode
	for _, o := range all {
		n := len(out.Topics)
		if n == 0 || out.Topics[n-1].Topic != o.Topic {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = o.Topic
			if version >= 10 {
				known := b.topics.byName(o.Topic)
				if known == nil {
					continue // can't be named by an id
				}
				t.TopicID = known.ID
			}
			out.Topics = append(out.Topics, t)
			n++
		}
		t := &out.Topics[n-1]
		t.Partitions = append(t.Partitions, fetchedOffset(o))
	}
}

func (b *Broker) someOffsets(c *coord.Coordinator, version int16, topics []kmsg.OffsetFetchRequestGroupTopic, out *kmsg.OffsetFetchResponseGroup) {
	for _, ask := range topics {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic, t.TopicID = ask.Topic, ask.TopicID
		name, known := ask.Topic, true
		if version >= 10 {
			var found *topic
			if found = b.topics.byID(meta.ID(ask.TopicID)); found != nil {
				name = found.Name
			}
			known = found != nil
		}
		for _, index := range ask.Partitions {
			o := coord.Committed{Partition: index, Next: -1, LeaderEpoch: -1}
			if known {
				o, out.ErrorCode = c.Offset(out.Group, name, index)
			}
			p := fetchedOffset(o)
			if !known {
				p.ErrorCode = code(errUnknownTopicID)
			}
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	if len(topics) == 0 {
		_, out.ErrorCode = c.Offset(out.Group, "", 0)
	}
}

func fetchedOffset(o coord.Committed) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.Next, o.LeaderEpoch, &o.Metadata
	return p
}
