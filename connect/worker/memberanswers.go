package worker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answered takes the answer to a call that next gave, or err where there is none. Answers to calls that were given up
// meanwhile are ignored.
func (m *member) answered(now time.Time, call *groupCall, resp kmsg.Response, err error) {
	switch call {
	case m.beat:
		m.beat = nil
		if _, leaves := call.req.(*kmsg.LeaveGroupRequest); leaves {
			m.evicted(now, resp, err)
			return
		}
		r, ok := resp.(*kmsg.HeartbeatResponse)
		if err == nil && !ok {
			err = errors.New("a heartbeat was not answered")
		}
		m.beaten(now, call, r, err)
		return
	case m.call:
		m.call = nil
	default:
		return
	}
	if m.phase == memberLeaving {
		m.phase = memberGone // heard or not: the session ends by itself
		return
	}
	if err != nil {
		m.retry(now, err)
		return
	}
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		m.didJoin(now, resp)
	case *kmsg.DescribeGroupsResponse:
		m.described(now, resp)
	case *kmsg.SyncGroupResponse:
		m.synced(now, call, resp)
	}
}

// retry repeats the request after a growing while.
func (m *member) retry(now time.Time, err error) {
	m.warning = err
	if fatal(err) {
		m.fault = groupRefused(m.cfg.group, err)
	}
	m.fails++
	m.retryAt = now.Add(min(memberRetry<<min(m.fails, 10), memberRetryMax))
}

// described looks at who is in the group. Members of our own client id are earlier lives of this worker, since no two
// processes that live at once have the same identity.
func (m *member) described(now time.Time, resp *kmsg.DescribeGroupsResponse) {
	if len(resp.Groups) != 1 {
		m.retry(now, errors.New("DescribeGroups was not answered for the group"))
		return
	}
	g := &resp.Groups[0]
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		m.retry(now, err)
		return
	}
	m.memberID, m.evict, m.blockers = "", nil, nil
	shared := g.Protocol == "" || slices.Contains(m.cfg.protocols, g.Protocol) // without one nothing is known yet: the join tells
	for _, d := range g.Members {
		state, err := decodeMemberState(d.ProtocolMetadata) // shown only while the group is stable
		if err != nil {
			state = &memberState{}
		}
		switch {
		case d.ClientID != m.cfg.clientID():
			if !shared || g.ProtocolType != groupProtocolType {
				m.blockers = append(m.blockers, groupMember{id: d.MemberID, clientID: d.ClientID, host: d.ClientHost, url: state.url})
			}
		default:
			m.evict = append(m.evict, d.MemberID)
		}
	}
	switch {
	case len(m.blockers) > 0 && g.ProtocolType != groupProtocolType:
		m.fault = fmt.Errorf("%w: group.id %s is in use by a group of type %q, which is no group of workers; choose another group.id",
			ErrGroupRefused, m.cfg.group, g.ProtocolType)
	case len(m.blockers) > 0:
		m.blocked(now, g.Protocol)
	default:
		m.phase, m.blockedAt = memberJoining, time.Time{}
	}
}

// blocked waits for the others to go, for as long as it may.
func (m *member) blocked(now time.Time, protocol string) {
	if m.blockedAt.IsZero() {
		m.blockedAt = now
	}
	m.memberID, m.retryAt, m.refused = "", now.Add(memberPoll), 0
	names := make([]string, len(m.blockers))
	for i, b := range m.blockers {
		names[i] = b.String()
	}
	m.warning = fmt.Errorf("%w: group %s has live members that speak %q, which this worker does not (it offers %s): %s; stop them first, "+
		"set their connect.protocol to sessioned or compatible, or give this one its own group.id and topics",
		ErrGroupTaken, m.cfg.group, protocol, strings.Join(m.cfg.protocols, " and "), strings.Join(names, ", "))
	if m.cfg.wait >= 0 && now.Sub(m.blockedAt) >= m.cfg.wait {
		m.fault = m.warning
	}
}

// evicted notes that the earlier lives are gone, whoever made them go.
func (m *member) evicted(now time.Time, resp kmsg.Response, err error) {
	r, ok := resp.(*kmsg.LeaveGroupResponse)
	if err == nil && ok {
		err = kerr.ErrorForCode(r.ErrorCode)
		for _, lm := range r.Members {
			if err == nil {
				err = kerr.ErrorForCode(lm.ErrorCode)
			}
		}
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		m.warning, m.evictAt = err, now.Add(memberPoll)
		return
	}
	m.evict = nil
}

func (m *member) didJoin(now time.Time, r *kmsg.JoinGroupResponse) {
	switch err := kerr.ErrorForCode(r.ErrorCode); {
	case err == nil:
		m.memberID, m.generation = r.MemberID, r.Generation
		m.leadBy(r.LeaderID)
		m.version = wireSessioned
		if r.Protocol != nil {
			m.version, _ = groupVersion(*r.Protocol)
		}
		m.phase, m.gives, m.owners = memberSyncing, nil, nil
		if m.leads {
			m.lead(now, r)
		}
	case errors.Is(err, kerr.MemberIDRequired):
		m.memberID = r.MemberID
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		m.lose(fmt.Errorf("the coordinator does not know this worker: %w", err))
		m.retry(now, m.warning)
	case errors.Is(err, kerr.InconsistentGroupProtocol), errors.Is(err, kerr.GroupMaxSizeReached):
		m.lose(err)
		m.retry(now, err)
		if m.refused++; m.refused >= memberRefusals && m.cfg.wait >= 0 {
			m.fault = fmt.Errorf("%w %s, although it shows no member that is in the way: %w", ErrGroupRefused, m.cfg.group, err)
		}
	case errors.Is(err, kerr.InvalidSessionTimeout):
		m.fault = fmt.Errorf("%w: session.timeout.ms=%d is outside the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms",
			ErrGroupRefused, m.cfg.session.Milliseconds())
	default:
		m.retry(now, err)
	}
}

// lead notes who has joined with what. A member whose metadata can't be read gets nothing.
func (m *member) lead(now time.Time, r *kmsg.JoinGroupResponse) {
	m.phase, m.joined, m.readTo, m.readLimit = memberLeading, nil, nothingRead, now.Add(m.cfg.sync)
	for _, jm := range r.Members {
		j := joinedMember{id: jm.MemberID, owned: workSet{}}
		if s, err := decodeMemberState(jm.ProtocolMetadata); err != nil {
			m.warning, j.strange = fmt.Errorf("member %s: %w", jm.MemberID, err), true
		} else {
			j.url = s.url
			m.readTo = max(m.readTo, s.configOffset)
			if s.current != nil {
				j.owned = setOf(s.current.assigned)
			}
		}
		m.joined = append(m.joined, j)
	}
	slices.SortFunc(m.joined, func(a, b joinedMember) int { return strings.Compare(a.id, b.id) })
}

func (m *member) synced(now time.Time, call *groupCall, r *kmsg.SyncGroupResponse) {
	err := kerr.ErrorForCode(r.ErrorCode)
	var a *assignment
	if err == nil {
		a, err = decodeAssignment(r.MemberAssignment)
	}
	switch {
	case err == nil:
		m.take(now, call.sent, a)
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration):
		m.phase = memberJoining
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		m.lose(fmt.Errorf("the coordinator has forgotten this worker: %w", err))
		m.retry(now, m.warning)
	default:
		m.phase = memberJoining
		m.retry(now, err)
	}
}

// take makes an assignment this worker's: what it has said it has, less what is revoked, and what is assigned.
func (m *member) take(now, sent time.Time, a *assignment) {
	m.phase, m.fails, m.refused, m.blockers = memberStable, 0, 0, nil
	m.joined, m.gives = nil, nil
	m.round++
	m.current, m.readTo, m.readLimit = a, a.configOffset, now.Add(m.cfg.sync)
	m.leadBy(a.leader)
	m.again = a.err != 0
	if m.again { // the leader has to catch up first, or this worker has
		m.retryAt = now.Add(memberRetry)
	}
	revoked := setOf(a.revoked)
	m.owned, m.stopping = workSet{}, workSet{}
	for id := range m.reported {
		if revoked[id] {
			m.stopping[id] = true
		} else {
			m.owned[id] = true
		}
	}
	maps.Copy(m.owned, setOf(a.assigned))
	m.stopLimit = time.Time{}
	if len(revoked) > 0 {
		m.again, m.stopLimit = true, now.Add(m.cfg.stop)
	}
	m.delayAt = time.Time{}
	if a.delayMillis > 0 {
		m.delayAt = now.Add(time.Duration(a.delayMillis) * time.Millisecond)
	}
	m.joinedAt = sent
	m.holds(sent)
	m.beatAt = now
	m.hurry(now)
}

// holds lengthens what is held by an answer to what was sent then.
func (m *member) holds(sent time.Time) {
	until := sent.Add(m.cfg.session)
	if kicked := m.joinedAt.Add(m.cfg.rebalance); kicked.Before(until) {
		until = kicked
	}
	m.heldUntil = until
}

func (m *member) beaten(now time.Time, call *groupCall, r *kmsg.HeartbeatResponse, err error) {
	if err == nil {
		err = kerr.ErrorForCode(r.ErrorCode)
	}
	m.beatAt = call.sent.Add(m.cfg.heartbeat)
	if now.Before(m.fastUntil) {
		m.beatAt = call.sent.Add(min(memberFast, m.cfg.heartbeat))
	}
	current := call.generation == m.generation
	switch {
	case err == nil && current:
		if call.stable && m.phase == memberStable {
			m.joinedAt, m.fails = call.sent, 0
		}
		if m.held() {
			m.holds(call.sent)
		}
	case errors.Is(err, kerr.RebalanceInProgress) && current:
		if m.held() {
			m.holds(call.sent)
		}
		if m.phase == memberStable && !m.ending {
			m.phase = memberJoining
		}
	case errors.Is(err, kerr.IllegalGeneration) && current: // a join of ours counted although its answer was lost
		if m.phase == memberStable || m.phase == memberSyncing {
			m.phase, m.call = memberJoining, nil
		}
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		m.lose(fmt.Errorf("the coordinator has put this worker out: %w", err))
	case err != nil && current:
		m.warning = err
		if fatal(err) {
			m.fault = groupRefused(m.cfg.group, err)
		}
		m.beatAt = now.Add(min(memberFast, m.cfg.heartbeat))
	}
}
