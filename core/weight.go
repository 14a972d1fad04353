package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// What a request makes the broker hold can be far more than its frame: a short fetch of a session with a hundred
// thousand partitions, the metadata of all topics. So such requests are weighed when they have been decoded. The weight is
// charged to Broker.heavy or light before they are handled, and given back when the answer is written. A fetch that waits holds its
// weight of Broker.waits instead; one that finds none there is answered at once.

const (
	heavyShare = 4 // of Config.MemoryBytes, an nth is for heavy requests that are being served
	lightShare = 8 // likewise for others: they don't wait for heavy ones
	waitsShare = 4 // likewise for fetches that wait

	heavyBytes = 64 << 10 // a request as heavy as this is served when all before it on its connection are answered

	requestWeight        = 1 << 10
	fetchPartWeight      = 256 // a partition's fetchPart, its places in lists, its watcher's, and its part of the answer
	metadataTopicWeight  = 512
	metadataPartWeight   = 240 // kmsg's struct, and its part of the answer
	describeConfigWeight = 16 << 10
	placeWeight          = 64  // a partition of an answer with few fields
	unknownWeight        = 256 // of what isn't there, and is answered with an error
)

// weigh is about how many bytes a request holds from its handling until its answer is written, its frame apart; 0 if that is
// no more than its frame is charged.
func (b *Broker) weigh(req *Request) int64 {
	switch r := req.Body.(type) {
	case *kmsg.FetchRequest:
		parts := fetchPartitions(r)
		if r.SessionEpoch > sessionInitial {
			parts += b.sessions.size(r.SessionID)
		}
		return requestWeight + int64(parts)*fetchPartWeight
	case *kmsg.MetadataRequest:
		if asksAllTopics(r) {
			topics, parts := b.sizes()
			return requestWeight + topics*metadataTopicWeight + parts*metadataPartWeight
		}
		weight := int64(requestWeight)
		for i := range r.Topics {
			if t := b.topicAsked(&r.Topics[i]); t != nil {
				weight += metadataTopicWeight + int64(len(t.parts))*metadataPartWeight
			} else {
				weight += unknownWeight
			}
		}
		return weight
	case *kmsg.DescribeTopicPartitionsRequest:
		return requestWeight + int64(describedLimit(r))*metadataPartWeight + int64(len(r.Topics))*unknownWeight
	case *kmsg.DescribeLogDirsRequest, *kmsg.ElectLeadersRequest, *kmsg.ListPartitionReassignmentsRequest:
		topics, parts := b.sizes()
		return requestWeight + topics*metadataTopicWeight + parts*placeWeight
	case *kmsg.DescribeConfigsRequest:
		return requestWeight + int64(len(r.Resources))*describeConfigWeight
	}
	return 0
}

// sizes is how many topics and partitions the cluster has.
func (b *Broker) sizes() (topics, partitions int64) {
	b.meta.View(func(img *meta.Image) { topics, partitions = int64(img.TopicCount()), int64(img.PartitionCount()) })
	return topics, partitions
}

// asksAllTopics says that a Metadata request names no topics and wants every one.
func asksAllTopics(r *kmsg.MetadataRequest) bool {
	return r.Topics == nil || r.Version == 0 && len(r.Topics) == 0
}

// topicAsked is the topic that a Metadata request names, nil if there is none.
func (b *Broker) topicAsked(ask *kmsg.MetadataRequestTopic) *topic {
	if ask.Topic != nil {
		return b.topics.byName(*ask.Topic)
	}
	return b.topics.byID(meta.ID(ask.TopicID))
}

// dropRepeated leaves the first of those that name the same thing.
func dropRepeated[T any, K comparable](list []T, key func(*T) K) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[K]struct{}, len(list))
	kept := list[:0]
	for i := range list {
		k := key(&list[i])
		if _, again := seen[k]; !again {
			seen[k] = struct{}{}
			kept = append(kept, list[i])
		}
	}
	return kept
}

// dropRepeats takes out what a request asks for twice and whose answer is much larger than the asking.
func dropRepeats(req *Request) {
	switch r := req.Body.(type) {
	case *kmsg.MetadataRequest:
		type name struct {
			topic string
			id    [16]byte
		}
		r.Topics = dropRepeated(r.Topics, func(t *kmsg.MetadataRequestTopic) name {
			if t.Topic != nil {
				return name{topic: *t.Topic}
			}
			return name{id: t.TopicID}
		})
	case *kmsg.DescribeConfigsRequest:
		type name struct {
			kind kmsg.ConfigResourceType
			name string
		}
		r.Resources = dropRepeated(r.Resources, func(c *kmsg.DescribeConfigsRequestResource) name { return name{c.ResourceType, c.ResourceName} })
	}
}
