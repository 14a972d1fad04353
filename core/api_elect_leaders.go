package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// changesPerCommand bounds the partitions of one metadata command.
const changesPerCommand = 5000

// ElectLeaders, key 43, versions 0-2.
//
// Preferred (type 0): the first replica leads, if it is active and in sync. Unclean (type 1, from version 1): the first active replica of a partition
// without leader leads, alone in sync; what it lacks is lost. Without topics: every partition; those that need no election are left out of the answer.
// Deviations: the timeout is not used.
func handleElectLeaders(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.ElectLeadersRequest)
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.SetVersion(req.Version)
	e := election{resp: resp, how: meta.ElectPreferred, isForAll: r.Topics == nil}
	switch {
	case r.Version >= 1 && r.ElectionType == 1:
		e.how = meta.ElectUnclean
	case r.Version >= 1 && r.ElectionType != 0:
		resp.ErrorCode = kerr.InvalidRequest.Code
		done(resp)
		return
	}
	if e.isForAll {
		e.findAll(b)
	} else {
		e.find(b, r)
	}
	b.proposeEach(len(e.refs), func(from, to int) meta.Command {
		return meta.Command{ElectLeaders: &meta.ElectLeaders{How: e.how, Partitions: e.refs[from:to]}}
	}, req, func(i int, err error) { e.set(e.places[i], err) }, func() { done(e.answer()) })
}

// election is one ElectLeaders under way.
type election struct {
	resp     *kmsg.ElectLeadersResponse
	how      meta.Election
	isForAll bool
	refs     []meta.PartitionRef
	places   []place // of refs, in the answer
}

// find takes the partitions that are asked for.
func (e *election) find(b *Broker, r *kmsg.ElectLeadersRequest) {
	for i := range r.Topics {
		from := &r.Topics[i]
		t := b.topics.byName(from.Topic)
		e.topic(from.Topic)
		for _, index := range from.Partitions {
			at := e.partition(index)
			if err := t.has(index, b.unknown(errUnknownTopic)); err != nil {
				e.set(at, err)
				continue
			}
			e.refs, e.places = append(e.refs, meta.PartitionRef{ID: t.ID, Partition: index}), append(e.places, at)
		}
	}
}

// findAll takes every partition that isn't as it should be.
func (e *election) findAll(b *Broker) {
	for _, t := range b.topics.all() {
		isNew := true
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if e.how == meta.ElectPreferred && p.Leader == p.Replicas[0] || e.how == meta.ElectUnclean && p.Leader != meta.NoLeader {
				continue
			}
			if isNew {
				e.topic(t.Name)
				isNew = false
			}
			e.refs, e.places = append(e.refs, meta.PartitionRef{ID: t.ID, Partition: int32(i)}), append(e.places, e.partition(int32(i)))
		}
	}
}

func (e *election) topic(name string) {
	to := kmsg.NewElectLeadersResponseTopic()
	to.Topic = name
	e.resp.Topics = append(e.resp.Topics, to)
}

func (e *election) partition(index int32) place {
	to := &e.resp.Topics[len(e.resp.Topics)-1]
	p := kmsg.NewElectLeadersResponseTopicPartition()
	p.Partition = index
	to.Partitions = append(to.Partitions, p)
	return place{topic: len(e.resp.Topics) - 1, partition: len(to.Partitions) - 1}
}

func (e *election) set(at place, err error) {
	if errors.Is(err, meta.ErrUnelectable) && e.how == meta.ElectPreferred {
		err = fmt.Errorf("%w: %w", kerr.PreferredLeaderNotAvailable, err)
	}
	to := &e.resp.Topics[at.topic].Partitions[at.partition]
	to.ErrorCode, to.ErrorMessage = code(err), message(err)
}

// answer leaves out what turned out to need no election, if all were asked for.
func (e *election) answer() *kmsg.ElectLeadersResponse {
	if !e.isForAll {
		return e.resp
	}
	for i := range e.resp.Topics {
		to := &e.resp.Topics[i]
		to.Partitions = slices.DeleteFunc(to.Partitions, func(p kmsg.ElectLeadersResponseTopicPartition) bool {
			return p.ErrorCode == kerr.ElectionNotNeeded.Code
		})
	}
	e.resp.Topics = slices.DeleteFunc(e.resp.Topics, func(t kmsg.ElectLeadersResponseTopic) bool { return len(t.Partitions) == 0 })
	return e.resp
}

// proposeEach proposes n changes that are taken or refused each for itself, in commands of a bounded size. It gives each its fate, one at a time, and
// calls done after the last.
func (b *Broker) proposeEach(n int, command func(from, to int) meta.Command, req *Request, each func(i int, err error), done func()) {
	var mu sync.Mutex
	left := newCountdown(done)
	for from := 0; from < n; from += changesPerCommand {
		to := min(n, from+changesPerCommand)
		left.add()
		b.propose(command(from, to), req.Now, func(r meta.Result, err error) {
			mu.Lock()
			for i := from; i < to; i++ {
				fate := err
				if fate == nil && i-from < len(r.Refused) {
					fate = r.Refused[i-from]
				}
				each(i, fate)
			}
			mu.Unlock()
			left.done()
		})
	}
	left.done()
}
