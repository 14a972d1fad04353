package core

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

const (
	// replicaPartBytes is the most that is asked of one partition at a time, but for a batch that is larger alone.
	replicaPartBytes = 1 << 20
	// replicaFetchVersion is the version of Fetch that followers speak.
	replicaFetchVersion = 18
	// crowdedWait is how long a leader holds a fetch of a follower whose store has no room for records: then that is looked at again.
	crowdedWait = 10 * time.Millisecond
	// unregisteredPause is how often a node that isn't registered yet looks whether it is.
	unregisteredPause = 20 * time.Millisecond
)

// replicator makes this node's replicas what they are assigned to be: it fetches those that others lead (following), and looks after the in-sync
// sets of those that it leads (isr.go). What it does follows from timers and from what peers answer; it has no goroutine.
//
// Lock order: mu and a following's are never held while anything but a timer is touched.
type replicator struct {
	b    *Broker
	seed uint64

	mu         sync.Mutex
	changed    []*replica.Partition // assigned anew, or closed, since the last step
	isQueued   bool                 // a step is
	at         map[*replica.Partition]*following
	followings map[int32]*following // by leader
	isr        isr
	failures   seldom // of logs that don't take what their leader has
}

func newReplicator(b *Broker, rng io.Reader) (*replicator, error) {
	var seed [8]byte
	if _, err := io.ReadFull(rng, seed[:]); err != nil {
		return nil, fmt.Errorf("draw random pauses: %w", err)
	}
	r := &replicator{b: b, seed: binary.BigEndian.Uint64(seed[:]), at: make(map[*replica.Partition]*following), followings: make(map[int32]*following)}
	r.isr.init()
	return r, nil
}

// assigned says that a partition was assigned anew or closed. It is called under meta's lock, so what follows is done by the next step of the clock.
func (r *replicator) assigned(p *replica.Partition) {
	if r.b.peers == nil {
		return
	}
	r.mu.Lock()
	r.changed = append(r.changed, p)
	isQueued := r.isQueued
	r.isQueued = true
	r.mu.Unlock()
	if !isQueued {
		r.b.timers.at(r.b.cfg.Now(), r.step)
	}
}

// step takes what was assigned.
func (r *replicator) step(now time.Time) {
	r.mu.Lock()
	changed := r.changed
	r.changed, r.isQueued = nil, false
	var touched []*following
	unsynced := make(map[*following]storage.Ticket)
	touch := func(l *following) {
		if !slices.Contains(touched, l) {
			touched = append(touched, l)
		}
	}
	for _, p := range changed {
		from, to := r.place(p)
		if from != nil && from != to {
			from.remove(p)
			touch(from)
		}
		if to != nil {
			unsynced[to] = max(unsynced[to], to.add(p))
			touch(to)
		}
	}
	r.mu.Unlock()
	for _, l := range touched {
		l.await(unsynced[l])
		l.pump()
	}
	r.scheduleReview(now, false)
}

// place finds out from whom a partition was fetched, and is to be fetched now; nil: from nobody. Called with mu held.
func (r *replicator) place(p *replica.Partition) (from, to *following) {
	self := r.b.cfg.NodeID
	a, ok := p.Assigned()
	ok = ok && p.Err() == nil
	r.isr.keep(p, ok && a.Leader == self && len(a.Replicas) > 1, len(a.ISR) < len(a.Replicas))
	from = r.at[p]
	if !ok || a.Leader < 0 || a.Leader == self {
		delete(r.at, p)
		return from, nil
	}
	to = r.followings[a.Leader]
	if to == nil {
		to = newFollowing(r, a.Leader)
		r.followings[a.Leader] = to
	}
	r.at[p] = to
	return from, to
}

// following is what this node fetches from one leader: the fetcher, with its wire and its clock.
type following struct {
	r       *replicator
	b       *Broker
	leader  int32
	fetcher *replica.Fetcher

	mu       sync.Mutex
	parts    map[storage.LogID]*replica.Partition
	isAsking bool // somebody is in pump,
	again    bool // and must look once more
	timer    *timer
}

func newFollowing(r *replicator, leader int32) *following {
	rng := rand.New(rand.NewPCG(r.seed, uint64(leader)))
	return &following{r: r, b: r.b, leader: leader, fetcher: replica.NewFetcher(leader, rng), parts: make(map[storage.LogID]*replica.Partition)}
}

func (l *following) add(p *replica.Partition) storage.Ticket {
	l.mu.Lock()
	l.parts[p.Log().ID()] = p
	l.mu.Unlock()
	return l.fetcher.Add(p)
}

func (l *following) remove(p *replica.Partition) {
	l.mu.Lock()
	if id := p.Log().ID(); l.parts[id] == p { // else another replica of it has come since
		delete(l.parts, id)
	}
	l.mu.Unlock()
	l.fetcher.Remove(p)
}

// pump asks for all that there is to be asked for now. It may be called from anywhere, by an answer that comes before the asking has returned too: requests
// leave in the fetcher's order, from one goroutine at a time.
func (l *following) pump() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again = true; l.isAsking {
		return
	}
	l.isAsking = true
	for l.again {
		l.again = false
		l.mu.Unlock()
		at := l.ask()
		l.mu.Lock()
		l.wake(at)
	}
	l.isAsking = false
}

// wake has the clock ask again. Called with mu held.
func (l *following) wake(at time.Time) {
	if l.timer != nil {
		l.b.timers.stop(l.timer)
		l.timer = nil
	}
	if !at.IsZero() {
		l.timer = l.b.timers.at(at, func(time.Time) { l.pump() })
	}
}

// ask sends what the fetcher wants to know. It returns when to look again, zero: not before something happens.
func (l *following) ask() time.Time {
	for {
		now := l.b.cfg.Now()
		if l.b.generation.Load() == 0 {
			return now.Add(unregisteredPause)
		}
		r, at := l.fetcher.Next(now)
		if r == nil {
			return at
		}
		l.b.peers.Call(l.leader, LaneData, l.request(r), func(resp kmsg.Response, err error) { l.answered(r, resp, err) })
	}
}

// request is a fetch as Kafka's followers have it, and the durable ends in a tag of ours.
func (l *following) request(r *replica.FetchRequest) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(replicaFetchVersion)
	req.ReplicaState.ID, req.ReplicaState.Epoch = l.b.cfg.NodeID, l.b.generation.Load()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(r.MaxWait.Milliseconds()), 1, l.b.cfg.ReplicaFetchBytes
	req.SessionID, req.SessionEpoch = r.Session, r.Epoch
	if !l.hasRoom() {
		req.MaxWaitMillis, req.MaxBytes = int32(crowdedWait.Milliseconds()), 0
	}
	places := make(map[[16]byte]int)
	for i, part := range r.Partitions {
		id := part.Log().ID().Topic
		at, ok := places[id]
		if !ok {
			at = len(req.Topics)
			places[id] = at
			t := kmsg.NewFetchRequestTopic()
			t.TopicID = id
			req.Topics = append(req.Topics, t)
		}
		ask := &r.Asks[i]
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = part.Index, ask.LeaderEpoch, ask.Next, ask.LastEpoch
		p.LogStartOffset, p.PartitionMaxBytes = part.Log().StartOffset(), replicaPartBytes
		p.UnknownTags.Set(replica.DurableEndTag, binary.BigEndian.AppendUint64(nil, uint64(ask.DurableEnd)))
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, p)
	}
	for _, part := range r.Forgotten {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.TopicID, t.Partitions = part.Log().ID().Topic, []int32{part.Index}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	return req
}

// hasRoom says that the store wants records now. Where it doesn't, clients wait too; leaders are told of ends all the same.
func (l *following) hasRoom() bool {
	select {
	case <-l.b.store.Room(replicaPartBytes):
		return true
	default:
		return false
	}
}

// answered takes what the leader said, or that it said nothing.
func (l *following) answered(r *replica.FetchRequest, resp kmsg.Response, err error) {
	now := l.b.cfg.Now()
	fetched, ok := resp.(*kmsg.FetchResponse)
	if err != nil || !ok {
		l.fetcher.Failed(r, now)
		l.pump()
		return
	}
	ticket, err := l.fetcher.Answered(r, fetched.ErrorCode, fetched.SessionID, l.answers(fetched), now)
	if err != nil {
		l.r.failures.say(l.b.log, slog.LevelWarn, now, "records of a leader can't be taken now", "leader", l.leader, "error", err)
	}
	l.await(ticket)
	l.pump()
}

// await tells the leader when what was put under a ticket is durable.
func (l *following) await(ticket storage.Ticket) {
	if ticket == 0 {
		return
	}
	l.b.store.Notify(ticket, func(err error) {
		if err == nil {
			l.fetcher.Synced(ticket)
			l.pump()
		}
	})
}

// answers finds the partitions of an answer.
func (l *following) answers(resp *kmsg.FetchResponse) []replica.PartitionAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []replica.PartitionAnswer
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := l.parts[storage.LogID{Topic: t.TopicID, Partition: p.Partition}]
			if part == nil {
				continue
			}
			a := replica.PartitionAnswer{Partition: part}
			a.ErrorCode, a.HighWatermark, a.Start, a.Records = p.ErrorCode, p.HighWatermark, p.LogStartOffset, p.RecordBatches
			if d := &p.DivergingEpoch; d.Epoch != -1 || d.EndOffset != -1 {
				a.Diverging = &replica.Diverging{Epoch: d.Epoch, End: d.EndOffset}
			}
			all = append(all, a)
		}
	}
	return all
}
