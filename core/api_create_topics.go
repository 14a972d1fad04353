package core

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// CreateTopics, key 19, versions 2-7.
//
// Each topic is one metadata command; the answer comes when all are in this node's image. -1 partitions or replicas mean
// the broker's default. Any node takes it.
// Deviations: a replication factor larger than the number of nodes is clamped to it and the real one answered, so that
// a config written for three nodes works on one; the timeout is not used (without a leader of the metadata the answer is REQUEST_TIMED_OUT
// after a while); names that differ only in '.' and '_' may coexist.
func handleCreateTopics(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.CreateTopicsRequest)
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.SetVersion(req.Version)
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(r.Topics))
	index := make(map[string]int, len(r.Topics))
	twice := make(map[string]bool)
	for i := range r.Topics {
		if _, ok := index[r.Topics[i].Topic]; ok {
			twice[r.Topics[i].Topic] = true
		}
		index[r.Topics[i].Topic] = i
		resp.Topics[i].Default()
		resp.Topics[i].Topic = r.Topics[i].Topic
	}
	var names []string
	plans := make(map[string]*meta.CreateTopic, len(r.Topics))
	sum := 0
	for i := range r.Topics {
		plan, err := b.planTopic(&r.Topics[i])
		if err == nil && twice[r.Topics[i].Topic] {
			err = fmt.Errorf("topic %q is named twice: %w", r.Topics[i].Topic, kerr.InvalidRequest)
		}
		if err == nil {
			sum += len(plan.Replicas)
			err = b.checkCount(sum, len(plan.Replicas[0]), len(b.nodes()))
		}
		if err != nil {
			b.created(&resp.Topics[i], nil, err)
			continue
		}
		if r.ValidateOnly {
			b.created(&resp.Topics[i], plan, nil)
			continue
		}
		names = append(names, plan.Name)
		plans[plan.Name] = plan
	}
	start := func(name string, each func(error)) {
		c := meta.Command{CreateTopic: plans[name]}
		b.propose(c, req.Now, func(_ meta.Result, err error) { each(err) })
	}
	forAll(names, start, func(name string, err error) {
		b.created(&resp.Topics[index[name]], plans[name], err)
	}, func() { done(resp) })
}

// planTopic checks everything about a topic to create.
func (b *Broker) planTopic(ask *kmsg.CreateTopicsRequestTopic) (*meta.CreateTopic, error) {
	if err := checkTopicName(ask.Topic); err != nil {
		return nil, err
	}
	if b.topics.byName(ask.Topic) != nil {
		return nil, fmt.Errorf("topic %q: %w", ask.Topic, meta.ErrTopicExists)
	}
	if ask.Topic == meta.TopicName {
		return nil, fmt.Errorf("topic %q is the broker's own: %w", ask.Topic, kerr.InvalidTopicException)
	}
	plan := &meta.CreateTopic{Name: ask.Topic, Configs: make(map[string]string, len(ask.Configs))}
	var faults []error
	for _, c := range ask.Configs {
		if c.Value == nil {
			faults = append(faults, fmt.Errorf("%w %s: null", errConfigValue, c.Name))
			continue
		}
		if err := checkTopicConfig(c.Name, *c.Value); err != nil {
			faults = append(faults, err)
		}
		plan.Configs[c.Name] = *c.Value
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	var err error
	if plan.Replicas, err = b.assign(ask); err != nil {
		return nil, err
	}
	plan.ID, err = randomID(b.cfg.Rand)
	return plan, err
}

// assign places a topic's partitions: as the client says, or where there is room.
func (b *Broker) assign(ask *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	if len(ask.ReplicaAssignment) > 0 {
		return b.assignAsked(ask)
	}
	n := ask.NumPartitions
	if n == -1 {
		n = b.cfg.NumPartitions
	}
	if ask.ReplicationFactor < -1 || ask.ReplicationFactor == 0 {
		return nil, fmt.Errorf("replication factor %d: %w", ask.ReplicationFactor, kerr.InvalidReplicationFactor)
	}
	return b.placed(ask.Topic, int(n), ask.ReplicationFactor)
}

func (b *Broker) assignAsked(ask *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	if ask.NumPartitions != -1 || ask.ReplicationFactor != -1 {
		return nil, fmt.Errorf("an assignment excludes a number of partitions and a replication factor: %w", kerr.InvalidRequest)
	}
	replicas := make([][]int32, len(ask.ReplicaAssignment))
	for _, a := range ask.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(replicas) || replicas[a.Partition] != nil {
			return nil, fmt.Errorf("partitions must be numbered from 0 without gaps: %w", kerr.InvalidReplicaAssignment)
		}
		replicas[a.Partition] = append([]int32{}, a.Replicas...)
	}
	return replicas, b.checkAsked(replicas, 0)
}

// created fills a topic's answer.
func (b *Broker) created(to *kmsg.CreateTopicsResponseTopic, plan *meta.CreateTopic, err error) {
	to.NumPartitions, to.ReplicationFactor = -1, -1
	if err != nil {
		to.ErrorCode, to.ErrorMessage = code(err), message(err)
		return
	}
	to.TopicID = plan.ID
	to.NumPartitions, to.ReplicationFactor = int32(len(plan.Replicas)), int16(len(plan.Replicas[0]))
	configs := b.cfg.Topic.with(plan.Configs)
	for _, key := range topicKeys() {
		value, source := configs.value(key), configs.source(key)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = key.name, &value, int8(source)
		to.Configs = append(to.Configs, c)
	}
}
