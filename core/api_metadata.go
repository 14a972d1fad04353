package core

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// Metadata, key 3, versions 0-13.
//
// A topic that doesn't exist is created when client and broker allow it, and the answer waits until it is there: the
// client gets its leader at once instead of LEADER_NOT_AVAILABLE.
// Deviations: authorized operations are never computed (there are no ACLs yet); no replica is ever offline.
func handleMetadata(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.MetadataRequest)
	missing := b.missingTopics(r)
	if len(missing) == 0 {
		done(b.metadata(r, nil))
		return
	}
	failed := make(map[string]error)
	names := make([]string, 0, len(missing))
	for name := range missing {
		names = append(names, name)
	}
	create := func(name string, each func(error)) { b.createTopic(name, b.cfg.NumPartitions, nil, req.Now, each) }
	forAll(names, create, func(name string, err error) {
		if err != nil && !errors.Is(err, meta.ErrTopicExists) {
			failed[name] = err
		}
	}, func() { done(b.metadata(r, failed)) })
}

// missingTopics is the names to create before answering: valid, unknown, not internal, and nobody forbids it.
func (b *Broker) missingTopics(r *kmsg.MetadataRequest) map[string]struct{} {
	if !b.cfg.AutoCreateTopics || r.Version >= 4 && !r.AllowAutoTopicCreation {
		return nil
	}
	var missing map[string]struct{}
	for _, t := range r.Topics {
		if t.Topic == nil || checkTopicName(*t.Topic) != nil || isInternal(*t.Topic) || b.topics.byName(*t.Topic) != nil {
			continue
		}
		if missing == nil {
			missing = make(map[string]struct{})
		}
		missing[*t.Topic] = struct{}{}
	}
	return missing
}

func (b *Broker) metadata(r *kmsg.MetadataRequest, failed map[string]error) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(r.Version)
	resp.ControllerID = b.cfg.NodeID
	id := b.ClusterID()
	resp.ClusterID = &id
	me := kmsg.NewMetadataResponseBroker()
	me.NodeID = b.cfg.NodeID
	me.Host, me.Port = b.address()
	if b.cfg.Rack != "" {
		me.Rack = &b.cfg.Rack
	}
	resp.Brokers = append(resp.Brokers, me)
	if asksAllTopics(r) {
		for _, t := range b.topics.all() {
			resp.Topics = append(resp.Topics, t.metadata())
		}
		return resp
	}
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(r.Topics))
	for i := range r.Topics {
		resp.Topics = append(resp.Topics, b.topicMetadata(&r.Topics[i], failed))
	}
	return resp
}

// address is the advertised host and port; empty and 0 while nothing is served.
func (b *Broker) address() (string, int32) {
	host, port, err := splitHostPort(b.Advertised())
	if err != nil {
		return "", 0
	}
	return host, port
}

func (b *Broker) topicMetadata(ask *kmsg.MetadataRequestTopic, failed map[string]error) kmsg.MetadataResponseTopic {
	var t *topic
	err := errUnknownTopic
	if ask.Topic != nil {
		if t = b.topics.byName(*ask.Topic); t == nil {
			err = errOf(checkTopicName(*ask.Topic), errOf(failed[*ask.Topic], err))
		}
	} else if t = b.topics.byID(meta.ID(ask.TopicID)); t == nil {
		err = errUnknownTopicID
	}
	if t != nil {
		return t.metadata()
	}
	mt := kmsg.NewMetadataResponseTopic()
	mt.ErrorCode, mt.Topic, mt.TopicID = code(err), ask.Topic, ask.TopicID
	return mt
}

func (t *topic) metadata() kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID, mt.IsInternal = &t.Name, t.ID, isInternal(t.Name)
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		from, to := &t.Partitions[i], &mt.Partitions[i]
		to.Default()
		to.Partition, to.Leader, to.LeaderEpoch = int32(i), from.Leader, from.LeaderEpoch
		to.Replicas, to.ISR = from.Replicas, from.ISR
		if p := t.parts[i]; from.Leader == t.node && (p == nil || p.Err() != nil) {
			to.ErrorCode = kerr.LeaderNotAvailable.Code
		}
	}
	return mt
}
