package coord

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startSession sets the member's one timer. It is lazy: a sign of life moves m.seen only,
// and the timer, when it fires too early, is set anew.
func (c *Coordinator) startSession(g *group, m *member, now time.Time) {
	c.timers.stop(m.sessionTimer)
	m.seen = now
	limit := m.session
	if m.isNew {
		limit = newMemberTimeout
	}
	m.sessionTimer = c.timers.at(now.Add(limit), func(now time.Time) { c.checkSession(g, m, now) })
}

func (c *Coordinator) checkSession(g *group, m *member, now time.Time) {
	limit := m.session
	switch {
	case m.isNew:
		limit = newMemberTimeout
	case m.join != nil || m.sync != nil:
		m.seen = now // it waits for us (invariant 6)
	}
	if expires := m.seen.Add(limit); expires.After(now) {
		m.sessionTimer = c.timers.at(expires, func(now time.Time) { c.checkSession(g, m, now) })
		return
	}
	c.removeMember(g, m, now)
}

// removeMember takes a member out and lets the others share its work.
func (c *Coordinator) removeMember(g *group, m *member, now time.Time) {
	c.dropMember(g, m)
	c.prepareRebalanceUnlessEmpty(g, now)
}

func (c *Coordinator) prepareRebalanceUnlessEmpty(g *group, now time.Time) {
	if g.state != Empty && g.state != Dead {
		c.prepareRebalance(g, now)
	}
}

// dropMember takes a member out; nothing else happens to the group.
func (c *Coordinator) dropMember(g *group, m *member) {
	c.failWaiting(g, m, kerr.UnknownMemberID.Code)
	c.timers.stop(m.sessionTimer)
	g.remove(m)
}

// failWaiting answers what a member waits for with code.
func (c *Coordinator) failWaiting(g *group, m *member, code int16) {
	if m.join != nil {
		resp := c.joinResponse(m.join.version, code)
		resp.MemberID = m.id
		c.answer(m.join.id, resp)
		g.setJoin(m, nil)
	}
	c.answerSync(g, m, code)
}

func (c *Coordinator) handleHeartbeat(req Request, body *kmsg.HeartbeatRequest, code int16, now time.Time) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version, resp.ErrorCode = body.Version, code
	if code == 0 {
		resp.ErrorCode = c.heartbeat(c.groups[body.Group], body, now)
	}
	c.answer(req.ID, resp)
}

func (c *Coordinator) heartbeat(g *group, body *kmsg.HeartbeatRequest, now time.Time) int16 {
	if g == nil {
		return kerr.UnknownMemberID.Code
	}
	if g.state == Dead {
		return kerr.CoordinatorNotAvailable.Code
	}
	m, code := g.current(body.MemberID, body.InstanceID)
	if code != 0 {
		return code
	}
	if body.Generation != g.generation {
		return kerr.IllegalGeneration.Code
	}
	m.seen = now
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

func (c *Coordinator) handleLeave(req Request, body *kmsg.LeaveGroupRequest, code int16, now time.Time) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version, resp.ErrorCode = body.Version, code
	g := c.groups[body.Group]
	if code == 0 && g != nil && g.state == Dead {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
	}
	leaving := body.Members
	if body.Version < 3 {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: body.MemberID}}
	}
	if resp.ErrorCode != 0 {
		c.answer(req.ID, resp)
		return
	}
	left := false
	for _, lm := range leaving {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID = lm.MemberID, lm.InstanceID
		var wasMember bool
		rm.ErrorCode, wasMember = c.leave(g, lm)
		left = left || wasMember
		resp.Members = append(resp.Members, rm)
	}
	if body.Version < 3 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	c.answer(req.ID, resp)
	if left {
		c.prepareRebalanceUnlessEmpty(g, now)
	}
	if g != nil {
		c.completeIfAllJoined(g, now)
		c.dropIfUnused(g)
	}
}

// leave takes one member out, by its id or, for administrators, by its instance id alone.
// wasMember is false for those that had only been given an id.
func (c *Coordinator) leave(g *group, lm kmsg.LeaveGroupRequestMember) (code int16, wasMember bool) {
	if g == nil {
		return kerr.UnknownMemberID.Code, false
	}
	if pending := g.joining[lm.MemberID]; pending != nil {
		c.timers.stop(pending)
		delete(g.joining, lm.MemberID)
		return 0, false
	}
	id := lm.MemberID
	if m := g.static(lm.InstanceID); m != nil && id == "" {
		id = m.id
	}
	m, code := g.current(id, lm.InstanceID)
	if code != 0 {
		return code, false
	}
	c.dropMember(g, m)
	return 0, true
}
