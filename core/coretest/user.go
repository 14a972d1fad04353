package coretest

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core"
)

// user is what all clients are: an end of the network that remembers who leads what.
type user struct {
	c           *Cluster
	id          int32 // negative
	leaders     map[place]leader
	isAsking    bool // for metadata
	notBefore   time.Time
	coordinator int32 // 0: unknown
}

// leader is who leads a partition, as some node has said.
type leader struct {
	node, epoch int32
}

func (c *Cluster) newUser() user {
	return user{c: c, id: -int32(len(c.clients)) - 1, leaders: make(map[place]leader)}
}

// clientIDs is the ids of all clients, as positive numbers.
func (c *Cluster) clientIDs() func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for i := range c.clients {
			if !yield(int32(i) + 1) {
				return
			}
		}
	}
}

// ask sends a request. An answer without an error of the connection is an operation.
func (u *user) ask(to int32, req kmsg.Request, done func(kmsg.Response, error)) {
	u.c.net.send(lane{u.id, to, core.LaneData}, 0, &call{req: req, done: func(resp kmsg.Response, err error) {
		if err == nil {
			u.c.Stats.Operations++
		}
		done(resp, err)
	}})
}

// tell sends a request that has no answer.
func (u *user) tell(to int32, req kmsg.Request) {
	u.c.net.send(lane{u.id, to, core.LaneData}, 0, &call{req: req})
}

// anyone is some node.
func (u *user) anyone() int32 { return int32(1 + u.c.rng.IntN(len(u.c.nodes))) }

// pause has the client wait before it tries again, as real ones do.
func (u *user) pause() {
	u.notBefore = u.c.now.Add(time.Duration(20+u.c.rng.IntN(100)) * time.Millisecond)
}

func (u *user) mayTry() bool { return !u.c.now.Before(u.notBefore) }

// leader is who leads a partition; 0: it isn't known, and is being asked for.
func (u *user) leader(at place) leader {
	l, ok := u.leaders[at]
	if ok && l.node > 0 {
		return l
	}
	u.refresh(at.topic)
	return leader{}
}

// forget has the metadata asked for anew. What epoch was known stays: older news are not believed.
func (u *user) forget(at place) {
	if l, ok := u.leaders[at]; ok {
		u.leaders[at] = leader{0, l.epoch}
	}
	u.pause()
}

func (u *user) refresh(topic string) {
	if u.isAsking || !u.mayTry() {
		return
	}
	u.isAsking = true
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	u.ask(u.anyone(), req, func(resp kmsg.Response, err error) {
		u.isAsking = false
		u.pause()
		if err != nil {
			return
		}
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if t.ErrorCode == kerr.UnknownTopicOrPartition.Code && u.c.now.Sub(u.c.admin.readyAt) > 3*time.Second {
				u.c.failf("client %d is told that there is no topic %s", u.id, topic)
			}
			for _, p := range t.Partitions {
				at := place{topic, p.Partition}
				if p.ErrorCode == 0 && p.Leader > 0 && p.LeaderEpoch >= u.leaders[at].epoch {
					u.leaders[at] = leader{p.Leader, p.LeaderEpoch}
				}
			}
		}
	})
}

// find looks for the coordinator of a group, for who.
func (u *user) find(group string, who fmt.Stringer, done func()) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{group}
	u.ask(u.anyone(), req, func(resp kmsg.Response, err error) {
		done()
		if err != nil {
			u.pause()
			return
		}
		k := resp.(*kmsg.FindCoordinatorResponse).Coordinators[0]
		if k.ErrorCode == 0 {
			u.coordinator = k.NodeID
			return
		}
		if !isPassing(k.ErrorCode) {
			u.c.failf("%v: find coordinator: %s", who, errorName(k.ErrorCode))
		}
		u.pause()
	})
}

// isPassing says that a client tries again after an error.
func isPassing(code int16) bool {
	switch code {
	case kerr.CorruptMessage.Code, kerr.UnknownTopicOrPartition.Code:
		return false
	case kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code, kerr.NotCoordinator.Code:
		return true
	}
	return kerr.IsRetriable(kerr.ErrorForCode(code))
}

func errorName(code int16) string {
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Sprint(err)
	}
	return "none"
}
