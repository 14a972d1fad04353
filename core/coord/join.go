package coord

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joiner is one JoinGroup with its gaps filled in.
type joiner struct {
	Request
	*kmsg.JoinGroupRequest
	session   time.Duration
	rebalance time.Duration
}

func (c *Coordinator) handleJoin(req Request, body *kmsg.JoinGroupRequest, code int16, now time.Time) {
	j := joiner{Request: req, JoinGroupRequest: body, session: millis(body.SessionTimeoutMillis), rebalance: millis(body.RebalanceTimeoutMillis)}
	if body.Version == 0 { // has no rebalance timeout
		j.rebalance = j.session
	}
	switch {
	case code != 0:
		c.refuseJoin(j, code)
		return
	case j.session < c.cfg.MinSession || j.session > c.cfg.MaxSession:
		c.refuseJoin(j, kerr.InvalidSessionTimeout.Code)
		return
	}
	g := c.groups[body.Group]
	if g == nil {
		if body.MemberID != "" {
			c.refuseJoin(j, kerr.UnknownMemberID.Code)
			return
		}
		g = c.groupOf(body.Group, now)
	}
	c.joinGroup(g, j, now)
	c.dropIfUnused(g)
}

func (c *Coordinator) joinGroup(g *group, j joiner, now time.Time) {
	known := g.member(j.MemberID) != nil || g.static(j.InstanceID) != nil || g.joining[j.MemberID] != nil
	switch {
	case g.state == Dead:
		c.refuseJoin(j, kerr.CoordinatorNotAvailable.Code)
	case !known && len(g.members)+len(g.joining) >= c.cfg.MaxSize:
		c.refuseJoin(j, kerr.GroupMaxSizeReached.Code)
	case !g.admits(j.ProtocolType, j.Protocols):
		c.refuseJoin(j, kerr.InconsistentGroupProtocol.Code)
	case j.MemberID == "":
		c.joinNew(g, j, now)
	case g.joining[j.MemberID] != nil && j.InstanceID == nil:
		c.timers.stop(g.joining[j.MemberID])
		delete(g.joining, j.MemberID)
		c.addMember(g, j, j.MemberID, now)
	default:
		c.joinAgain(g, j, now)
	}
}

// joinNew serves a member without an id: a dynamic one is told its id first (version 4 and
// later) or taken at once, a static one replaces whoever had its instance id.
func (c *Coordinator) joinNew(g *group, j joiner, now time.Time) {
	id := j.ClientID + "-" + j.Random
	if j.InstanceID != nil {
		id = *j.InstanceID + "-" + j.Random
		if old := g.static(j.InstanceID); old != nil {
			c.replaceStatic(g, old, j, id, now)
			return
		}
	} else if j.Version >= 4 {
		g.joining[id] = c.timers.at(now.Add(j.session), func(now time.Time) {
			delete(g.joining, id)
			c.completeIfAllJoined(g, now)
			c.dropIfUnused(g)
		})
		resp := c.joinResponse(j.Version, kerr.MemberIDRequired.Code)
		resp.MemberID = id
		c.answer(j.ID, resp)
		return
	}
	c.addMember(g, j, id, now)
}

func (c *Coordinator) addMember(g *group, j joiner, id string, now time.Time) {
	if len(g.members) == 0 {
		g.protocolType = j.ProtocolType
	}
	m := &member{id: id, instance: j.InstanceID, isNew: true}
	g.add(m)
	g.update(m, j, now)
	g.setJoin(m, &waiting{id: j.ID, version: j.Version})
	if g.leader == "" {
		g.leader = id
	}
	g.fresh = true
	c.startSession(g, m, now)
	c.prepareRebalance(g, now)
}

// joinAgain serves a member that has been in the group before.
func (c *Coordinator) joinAgain(g *group, j joiner, now time.Time) {
	m, code := g.current(j.MemberID, j.InstanceID)
	if code != 0 {
		c.refuseJoin(j, code)
		return
	}
	rejoin := func() {
		c.supersede(m.join)
		g.update(m, j, now)
		g.setJoin(m, &waiting{id: j.ID, version: j.Version})
		c.prepareRebalance(g, now)
	}
	switch g.state {
	case PreparingRebalance:
		rejoin()
	case CompletingRebalance:
		if m.same(j.Protocols) { // it didn't get the answer
			m.seen = now
			c.answer(j.ID, c.joinedResponse(g, m, j.Version))
		} else {
			rejoin()
		}
	case Stable:
		if g.leader == m.id || !m.same(j.Protocols) {
			rejoin()
		} else {
			m.seen = now
			c.answer(j.ID, c.joinedResponse(g, m, j.Version))
		}
	default:
		c.refuseJoin(j, kerr.UnknownMemberID.Code)
	}
}

// replaceStatic gives a static member's place to its successor, who joined without an id.
// If the group is Stable and its protocol stays, nobody else notices.
func (c *Coordinator) replaceStatic(g *group, m *member, j joiner, id string, now time.Time) {
	c.failWaiting(g, m, kerr.FencedInstanceID.Code)
	oldLeader := g.leader
	g.rename(m, id)
	g.update(m, j, now)
	if g.state != Stable || g.vote() != g.protocol {
		g.setJoin(m, &waiting{id: j.ID, version: j.Version})
		c.prepareRebalance(g, now)
		return
	}
	generation := g.generation
	c.storeGroup(g, g.assignments(), now, func(code int16, now time.Time) {
		if code != 0 {
			c.refuseJoin(j, code)
			c.rebalanceIfCurrent(g, generation, now)
			return
		}
		if g.member(id) == nil {
			c.refuseJoin(j, kerr.UnknownMemberID.Code)
			return
		}
		if g.state != Stable || g.generation != generation {
			c.refuseJoin(j, kerr.RebalanceInProgress.Code)
			return
		}
		m.seen = now
		resp := c.joinedResponse(g, m, j.Version)
		if j.Version >= 9 {
			resp.SkipAssignment = g.leader == id
		} else { // must not think that it leads and assign anew
			resp.LeaderID, resp.Members = oldLeader, nil
		}
		c.answer(j.ID, resp)
	})
}

// update takes over what a join says of its member.
func (g *group) update(m *member, j joiner, now time.Time) {
	m.clientID, m.clientHost = j.ClientID, j.ClientHost
	m.session, m.rebalanceTimeout, m.seen = j.session, j.rebalance, now
	g.setProtocols(m, j.Protocols)
}

func (c *Coordinator) refuseJoin(j joiner, code int16) {
	resp := c.joinResponse(j.Version, code)
	resp.MemberID = j.MemberID
	c.answer(j.ID, resp)
}

func (c *Coordinator) joinResponse(version, code int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.ErrorCode, resp.Generation = version, code, -1
	if version < 7 {
		resp.Protocol = new(string) // nullable only later
	}
	return resp
}

// joinedResponse tells a member of the current generation; its leader learns of all.
func (c *Coordinator) joinedResponse(g *group, m *member, version int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.Generation = version, g.generation
	protocolType, protocol := g.protocolType, g.protocol // as they are now
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	resp.LeaderID, resp.MemberID = g.leader, m.id
	if g.leader != m.id {
		return resp
	}
	for _, other := range g.members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ProtocolMetadata = other.id, other.instance, other.metadata(g.protocol)
		resp.Members = append(resp.Members, rm)
	}
	return resp
}

// supersede answers a join whose member has sent another since.
func (c *Coordinator) supersede(w *waiting) {
	if w != nil {
		c.answer(w.id, c.joinResponse(w.version, kerr.RebalanceInProgress.Code))
	}
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
