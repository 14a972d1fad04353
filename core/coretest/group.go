package coretest

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core"
)

// committer commits ever higher offsets of one group, and asks what is committed.
type committer struct {
	user
	group     string
	at        place
	tried     int64
	acked     int64 // -1: nothing
	ackedBy   int32 // node,
	ackedIn   int   // in that life; 0: something was tried since
	isWaiting bool
	isSeen    bool // what is committed, since nothing is committed any more
}

func (g *committer) String() string {
	return fmt.Sprintf("group %s: tried %d, acknowledged %d, coordinator %d, waiting %v, seen %v", g.group, g.tried, g.acked, g.coordinator, g.isWaiting, g.isSeen)
}

func (g *committer) isIdle() bool { return g.isSeen }

// renew has the group work on.
func (g *committer) renew() { g.isSeen = false }

func (g *committer) step() {
	if g.isWaiting || !g.mayTry() || !g.c.admin.isReady {
		return
	}
	switch {
	case g.coordinator == 0:
		g.isWaiting = true
		g.find(g.group, g, func() { g.isWaiting = false })
	case g.c.isLast && !g.isSeen, !g.c.isLast && g.c.chance(2):
		g.look()
	case !g.c.isLast && g.c.chance(15):
		g.commit()
	}
}

// once asks what must not be done after its sender has given it up: a commit that comes late takes the group back, as it may in Kafka.
func (g *committer) once(req kmsg.Request, done func(kmsg.Response, error)) {
	g.isWaiting = true
	g.c.net.send(lane{g.id, g.coordinator, core.LaneData}, 0, &call{req: req, isOnce: true, done: func(resp kmsg.Response, err error) {
		g.isWaiting = false
		if err != nil {
			g.coordinator = 0
			g.pause()
		} else {
			g.c.Stats.Operations++
		}
		done(resp, err)
	}})
}

func (g *committer) commit() {
	g.tried++
	offset, to := g.tried, g.coordinator
	life := g.c.node(to).life
	g.ackedIn = 0
	g.once(offsetCommit(g.group, g.at, offset), func(resp kmsg.Response, err error) {
		if err != nil {
			return
		}
		if code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			g.refused("commit", code)
			return
		}
		g.acked, g.ackedBy, g.ackedIn = offset, to, life
		g.c.Stats.Commits++
	})
}

// look asks what is committed. Who coordinated until others took over may not know it yet, so only at the end, or of the node that has acknowledged
// the newest, is it certain what must be there.
func (g *committer) look() {
	to, life := g.coordinator, g.c.node(g.coordinator).life
	least := int64(-1)
	if g.c.isLast || g.ackedBy == to && g.ackedIn == life {
		least = g.acked
	}
	isLast := g.c.isLast
	g.once(offsetFetch(g.group, g.at), func(resp kmsg.Response, err error) {
		if err != nil {
			return
		}
		code, offset := fetchedOffset(resp.(*kmsg.OffsetFetchResponse))
		switch {
		case code != 0:
			g.refused("look", code)
		case offset > g.tried || offset < least:
			g.c.failf("%v: node %d says that %d is committed", g, to, offset)
		default:
			g.isSeen = isLast
		}
	})
}

func (g *committer) refused(what string, code int16) {
	if !isPassing(code) {
		g.c.failf("%v: %s: %s", g, what, errorName(code))
	}
	g.coordinator = 0
	g.pause()
}

// offsetCommit commits one offset, of no member.
func offsetCommit(group string, at place, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = at.topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = at.index, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// offsetFetch asks for one offset.
func offsetFetch(group string, at place) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = at.topic, []int32{at.index}
	req.Topics = append(req.Topics, t)
	return req
}

func fetchedOffset(r *kmsg.OffsetFetchResponse) (code int16, offset int64) {
	if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return r.ErrorCode, -1
	}
	return r.Topics[0].Partitions[0].ErrorCode, r.Topics[0].Partitions[0].Offset
}
