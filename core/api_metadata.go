package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// Metadata, key 3, versions 0-13.
//
// A topic that doesn't exist is created when client and broker allow it, and the answer waits until it is there: the
// client gets its leader at once instead of LEADER_NOT_AVAILABLE. All is told as this node's image has it, perhaps late.
// The controller is this node, which can change the metadata as any other can.
// Deviations: authorized operations are never computed (there are no ACLs yet).
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
	slices.Sort(names)
	create := func(name string, each func(error)) {
		b.createTopic(name, b.cfg.NumPartitions, defaultFactor, nil, req.Now, each)
	}
	forAll(names, create, func(name string, err error) {
		switch {
		case errors.Is(err, meta.ErrNoLeader):
			failed[name] = fmt.Errorf("%w: %w", kerr.LeaderNotAvailable, err) // as clients expect it here
		case err != nil && !errors.Is(err, meta.ErrTopicExists):
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
	alive := b.alive()
	resp.ControllerID = b.controller(alive)
	id := b.ClusterID()
	resp.ClusterID = &id
	isAlive := make(map[int32]bool, len(alive))
	for _, n := range alive {
		to := kmsg.NewMetadataResponseBroker()
		to.NodeID, to.Host, to.Port, to.Rack = n.ID, n.Host, n.Port, optional(n.Rack)
		resp.Brokers = append(resp.Brokers, to)
		isAlive[n.ID] = true
	}
	if asksAllTopics(r) {
		for _, t := range b.topics.all() {
			resp.Topics = append(resp.Topics, t.metadata(isAlive))
		}
		return resp
	}
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(r.Topics))
	for i := range r.Topics {
		resp.Topics = append(resp.Topics, b.topicMetadata(&r.Topics[i], isAlive, failed))
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

func (b *Broker) topicMetadata(ask *kmsg.MetadataRequestTopic, isAlive map[int32]bool, failed map[string]error) kmsg.MetadataResponseTopic {
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
		return t.metadata(isAlive)
	}
	if b.refusal() != nil && (errors.Is(err, errUnknownTopic) || errors.Is(err, errUnknownTopicID)) {
		err = kerr.LeaderNotAvailable // this node may not have heard of it yet
	}
	mt := kmsg.NewMetadataResponseTopic()
	mt.ErrorCode, mt.Topic, mt.TopicID = code(err), ask.Topic, ask.TopicID
	return mt
}

func (t *topic) metadata(isAlive map[int32]bool) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID, mt.IsInternal = &t.Name, t.ID, isInternal(t.Name)
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		from, to := &t.Partitions[i], &mt.Partitions[i]
		to.Default()
		to.Partition, to.LeaderEpoch = int32(i), from.LeaderEpoch
		to.Replicas, to.ISR, to.OfflineReplicas = from.Replicas, from.ISR, offline(from.Replicas, isAlive)
		to.Leader, to.ErrorCode = t.leader(i, isAlive)
	}
	return mt
}

// leader is who clients are told to lead a partition, and what keeps them from it.
func (t *topic) leader(i int, isAlive map[int32]bool) (id int32, errorCode int16) {
	id = t.Partitions[i].Leader
	if !isAlive[id] {
		return meta.NoLeader, kerr.LeaderNotAvailable.Code
	}
	if p := t.parts[i]; id == t.node && (p == nil || p.Err() != nil) {
		return id, kerr.LeaderNotAvailable.Code
	}
	return id, 0
}

// offline is those replicas that are on no broker that is alive.
func offline(replicas []int32, isAlive map[int32]bool) []int32 {
	var ids []int32
	for _, id := range replicas {
		if !isAlive[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
