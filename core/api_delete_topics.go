package core

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// DeleteTopics, key 20, versions 1-6.
//
// By name, or by id from version 6. The answer comes when the deletion is durable; those who wait on the topic's
// partitions are answered then. A topic made later under the same name has another id.
// Deviations: the group offsets topic can't be deleted; the timeout is not used.
func handleDeleteTopics(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DeleteTopicsRequest)
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.SetVersion(req.Version)
	for i := range r.TopicNames {
		to := kmsg.NewDeleteTopicsResponseTopic()
		to.Topic = &r.TopicNames[i]
		resp.Topics = append(resp.Topics, to)
	}
	for i := range r.Topics {
		to := kmsg.NewDeleteTopicsResponseTopic()
		to.Topic, to.TopicID = r.Topics[i].Topic, r.Topics[i].TopicID
		resp.Topics = append(resp.Topics, to)
	}
	fail := func(to *kmsg.DeleteTopicsResponseTopic, err error) {
		to.ErrorCode, to.ErrorMessage = code(err), message(err)
	}
	slots := make(map[string]int, len(resp.Topics))
	ids := make(map[string]meta.ID, len(resp.Topics))
	var names []string
	for i := range resp.Topics {
		to := &resp.Topics[i]
		t, err := b.deletable(to)
		if err != nil {
			fail(to, err)
			continue
		}
		if _, twice := slots[t.Name]; twice {
			continue // deleted by the first
		}
		to.Topic, to.TopicID = &t.Name, t.ID
		slots[t.Name], ids[t.Name] = i, t.ID
		names = append(names, t.Name)
	}
	start := func(name string, each func(error)) {
		c := meta.Command{DeleteTopic: &meta.DeleteTopic{ID: ids[name]}}
		b.propose(c, req.Now, func(_ meta.Result, err error) { each(err) })
	}
	forAll(names, start, func(name string, err error) {
		fail(&resp.Topics[slots[name]], err)
	}, func() { done(resp) })
}

// deletable finds the topic that a client wants deleted.
func (b *Broker) deletable(ask *kmsg.DeleteTopicsResponseTopic) (*topic, error) {
	var t *topic
	if ask.Topic != nil {
		if t = b.topics.byName(*ask.Topic); t == nil {
			return nil, b.unknown(errUnknownTopic)
		}
	} else if t = b.topics.byID(meta.ID(ask.TopicID)); t == nil {
		return nil, b.unknown(errUnknownTopicID)
	}
	if isInternal(t.Name) {
		return nil, fmt.Errorf("topic %q can't be deleted: %w", t.Name, errInternalTopic)
	}
	return t, nil
}
