package coord

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// prepareRebalance starts a rebalance unless one has started, and completes it if nobody
// is left to wait for.
func (c *Coordinator) prepareRebalance(g *group, now time.Time) {
	switch g.state {
	case Dead:
		return
	case PreparingRebalance:
		c.completeIfAllJoined(g, now)
		return
	}
	wasEmpty := g.state == Empty
	for _, m := range g.members {
		c.answerSync(g, m, kerr.RebalanceInProgress.Code)
		m.unsynced = false
	}
	c.timers.stop(g.syncing)
	g.become(PreparingRebalance, now)
	if wasEmpty && c.cfg.InitialDelay > 0 {
		g.fresh = false
		c.delayInitial(g, min(c.cfg.InitialDelay, g.longestRebalance()), g.longestRebalance(), now)
		return
	}
	c.boundRebalance(g, now)
	c.completeIfAllJoined(g, now)
}

// delayInitial waits for further members of a group that was empty; each that comes
// prolongs the wait, up to the rebalance timeout in all.
func (c *Coordinator) delayInitial(g *group, delay, left time.Duration, now time.Time) {
	left -= delay
	g.rebalance = c.timers.at(now.Add(delay), func(now time.Time) {
		if g.fresh && left > 0 {
			g.fresh = false
			c.delayInitial(g, min(c.cfg.InitialDelay, left), left, now)
			return
		}
		c.completeJoin(g, now)
	})
	g.rebalance.initial = true
}

func (c *Coordinator) boundRebalance(g *group, now time.Time) {
	g.rebalance = c.timers.at(now.Add(g.longestRebalance()), func(now time.Time) { c.completeJoin(g, now) })
}

func (c *Coordinator) completeIfAllJoined(g *group, now time.Time) {
	if g.state != PreparingRebalance || !g.allJoined() {
		return
	}
	if g.rebalance != nil && g.rebalance.initial && len(g.members) > 0 {
		return // the initial delay runs its course
	}
	c.completeJoin(g, now)
}

// completeJoin ends PreparingRebalance: those that didn't join again are out (static ones
// stay), a leader and a protocol are chosen, and the next generation begins.
func (c *Coordinator) completeJoin(g *group, now time.Time) {
	c.timers.stop(g.rebalance)
	for _, m := range append([]*member(nil), g.members...) {
		if m.join == nil && m.instance == nil {
			c.dropMember(g, m)
		}
	}
	if !g.electLeader() && len(g.members) > 0 {
		c.boundRebalance(g, now) // only absent static members: their sessions decide
		return
	}
	g.generation++
	if len(g.members) == 0 {
		g.protocol, g.leader = "", ""
		g.become(Empty, now)
		c.storeGroup(g, nil, now, func(int16, time.Time) {})
		return
	}
	g.protocol = g.vote()
	g.become(CompletingRebalance, now)
	for _, m := range g.members {
		m.isNew, m.unsynced, m.seen = false, true, now
		c.startSession(g, m, now)
		if m.join != nil {
			c.answer(m.join.id, c.joinedResponse(g, m, m.join.version))
			g.setJoin(m, nil)
		}
	}
	c.boundSync(g, now)
}

// electLeader keeps the leader if it has joined, else takes the first that has.
func (g *group) electLeader() bool {
	if m := g.member(g.leader); m != nil && m.join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// boundSync puts out those that don't ask for their assignment in time.
func (c *Coordinator) boundSync(g *group, now time.Time) {
	generation := g.generation
	g.syncing = c.timers.at(now.Add(g.longestRebalance()), func(now time.Time) {
		if g.generation != generation || (g.state != CompletingRebalance && g.state != Stable) {
			return
		}
		late := false
		for _, m := range append([]*member(nil), g.members...) {
			if m.unsynced {
				late = true
				c.dropMember(g, m)
			}
		}
		if late {
			c.prepareRebalance(g, now)
		}
	})
}

func (c *Coordinator) handleSync(req Request, body *kmsg.SyncGroupRequest, code int16, now time.Time) {
	g := c.groups[body.Group]
	m, code := c.checkSync(g, body, code)
	if code != 0 {
		c.answer(req.ID, syncResponse(body.Version, code))
		return
	}
	m.seen = now
	switch g.state {
	case PreparingRebalance:
		c.answer(req.ID, syncResponse(body.Version, kerr.RebalanceInProgress.Code))
	case CompletingRebalance:
		if m.sync != nil {
			c.answer(m.sync.id, syncResponse(m.sync.version, kerr.RebalanceInProgress.Code))
		}
		m.sync, m.unsynced = &waiting{id: req.ID, version: body.Version}, false
		if g.leader == m.id {
			c.assign(g, body.GroupAssignment, now)
		}
	case Stable:
		m.unsynced = false
		c.answer(req.ID, c.syncedResponse(g, m, body.Version))
	default:
		c.answer(req.ID, syncResponse(body.Version, kerr.UnknownMemberID.Code))
	}
}

func (c *Coordinator) checkSync(g *group, body *kmsg.SyncGroupRequest, code int16) (*member, int16) {
	if code != 0 {
		return nil, code
	}
	if g == nil {
		return nil, kerr.UnknownMemberID.Code
	}
	if g.state == Dead {
		return nil, kerr.CoordinatorNotAvailable.Code
	}
	m, code := g.current(body.MemberID, body.InstanceID)
	switch {
	case code != 0:
		return nil, code
	case body.Generation != g.generation:
		return nil, kerr.IllegalGeneration.Code
	case body.ProtocolType != nil && *body.ProtocolType != g.protocolType,
		body.Protocol != nil && g.protocol != "" && *body.Protocol != g.protocol:
		return nil, kerr.InconsistentGroupProtocol.Code
	}
	return m, 0
}

// assign stores the leader's assignment and then tells everybody (invariant 2).
func (c *Coordinator) assign(g *group, given []kmsg.SyncGroupRequestGroupAssignment, now time.Time) {
	if g.assigning == g.generation {
		return // the leader asked twice; the first is on its way
	}
	generation := g.generation
	g.assigning = generation
	byID := make(map[string][]byte, len(given))
	for _, a := range given {
		byID[a.MemberID] = a.MemberAssignment
	}
	c.storeGroup(g, byID, now, func(code int16, now time.Time) {
		if g.generation != generation || g.state != CompletingRebalance {
			return // the group has moved on and answered by itself
		}
		if code != 0 {
			g.assigning = -1
			for _, m := range g.members {
				m.assignment = nil
				c.answerSync(g, m, code)
			}
			c.prepareRebalance(g, now)
			return
		}
		g.become(Stable, now)
		for _, m := range g.members {
			m.assignment = byID[m.id]
			m.seen = now
			c.answerSync(g, m, 0)
		}
	})
}

// answerSync answers a waiting SyncGroup, if there is one.
func (c *Coordinator) answerSync(g *group, m *member, code int16) {
	if m.sync == nil {
		return
	}
	resp := syncResponse(m.sync.version, code)
	if code == 0 {
		resp = c.syncedResponse(g, m, m.sync.version)
	}
	c.answer(m.sync.id, resp)
	m.sync = nil
}

func syncResponse(version, code int16) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.ErrorCode = version, code
	return resp
}

func (c *Coordinator) syncedResponse(g *group, m *member, version int16) *kmsg.SyncGroupResponse {
	resp := syncResponse(version, 0)
	protocolType, protocol := g.protocolType, g.protocol
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	resp.MemberAssignment = m.assignment
	return resp
}

// rebalanceIfCurrent starts a rebalance if the group is still in the generation.
func (c *Coordinator) rebalanceIfCurrent(g *group, generation int32, now time.Time) {
	if g.generation == generation && g.state == Stable {
		c.prepareRebalance(g, now)
	}
}

// storeGroup appends the group's record, with the assignments by member id.
func (c *Coordinator) storeGroup(g *group, assignments map[string][]byte, now time.Time, then func(code int16, now time.Time)) {
	record := groupRecord(g, assignments, now)
	stored := g.stored
	g.stored = true
	g.storing++
	c.append([]Record{record}, func(code int16, now time.Time) {
		g.storing--
		if code != 0 && g.storing == 0 {
			g.stored = stored
		}
		if code == kerr.MessageTooLarge.Code { // no error that clients of groups expect
			code = kerr.UnknownServerError.Code
		}
		then(code, now)
	})
}

func (g *group) assignments() map[string][]byte {
	byID := make(map[string][]byte, len(g.members))
	for _, m := range g.members {
		byID[m.id] = m.assignment
	}
	return byID
}
