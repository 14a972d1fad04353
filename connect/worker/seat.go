package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrGroupTaken: the group of workers has a live member that is not this worker.
var ErrGroupTaken = errors.New("the group of workers is taken")

// ErrGroupRefused: the cluster will not have this worker in its group, and trying again will not change that.
var ErrGroupRefused = errors.New("the worker can't be a member of its group")

// seat is this worker's place in its group as a pure machine: the time and the coordinator's answers in, requests out.
// It reads no clock and sends nothing; membership.go does. One request is out at a time.
//
// The worker is a member of the group alone. It offers one protocol whose name is its own, so the coordinator itself
// refuses whoever else would join, a Java worker or another weir, with INCONSISTENT_GROUP_PROTOCOL, and refuses this one
// while another is there: of any number that start at once one gets in, and no running worker is ever disturbed.
//
//	looking ──► nobody, or an earlier life of this worker ──► joining ──► syncing ──► holding ──► heartbeat, heartbeat, …
//	  ▲  │                                                     │  ▲                                     │
//	  │  └► others: wait, look again, or give up               │  └────── (forgotten while away) ───────┤
//	  └──────────── refused, since another was faster ─────────┘                               lost ◄───┘
//
// An earlier life that was killed is still a member, until its session ends. Its member id is taken over: a leader that
// joins again is let in at once, while an empty group waits (group.initial.rebalance.delay.ms) for who else may come.
//
// What a member holds it holds until heldUntil: a session after it sent the newest heartbeat that was answered. The
// coordinator counts from when that one arrived, so nobody else is let in before.
type seat struct {
	cfg seatConfig

	phase      seatPhase
	memberID   string // "": none yet
	generation int32
	evict      []string // further members that are earlier lives of this worker

	heldUntil time.Time // zero: holds nothing
	beatAt    time.Time // holding: when the next heartbeat is due
	retryAt   time.Time // nothing is sent before
	blockers  []groupMember
	blockedAt time.Time // since when there have been some; zero: there are none
	refused   int       // joins in a row that were refused although nobody else was to be seen
	fails     int       // requests in a row that did not work
	fault     error     // the end
	warning   error     // of the last answer, taken by the caller
}

// seatConfig is what a seat needs to know.
type seatConfig struct {
	group     string
	identity  string // of this worker, the same after a restart; its client id
	url       string // of its REST
	session   time.Duration
	heartbeat time.Duration
	rebalance time.Duration
	wait      time.Duration // for others to go, once they have been seen; negative: for ever
}

type seatPhase uint8

const (
	seatLooking seatPhase = iota // DescribeGroups: who is there
	seatEvicting
	seatJoining
	seatSyncing
	seatHolding
	seatLeaving
	seatGone
)

// groupMember is one member of the group as DescribeGroups shows it.
type groupMember struct {
	id, clientID, host, url string
}

func (m groupMember) String() string {
	at := strings.TrimPrefix(m.host, "/")
	if m.url != "" {
		return fmt.Sprintf("%s (client %s from %s)", m.url, m.clientID, at)
	}
	return fmt.Sprintf("client %s from %s", m.clientID, at)
}

// protocol is the name that this worker alone offers.
func (c *seatConfig) protocol() string { return "weir-" + c.identity }

// clientID is what the coordinator shows of this worker.
func (c *seatConfig) clientID() string { return "weir-" + c.identity }

// seatRetry and seatRetryMax bound how soon a failed request is tried again, seatPoll is how often a taken group is asked,
// seatLeave how long leaving may take, seatRefusals how often a join may be refused when nobody else is to be seen.
const (
	seatRetry    = 50 * time.Millisecond
	seatRetryMax = 2 * time.Second
	seatPoll     = 500 * time.Millisecond
	seatLeave    = 2 * time.Second
	seatRefusals = 12 // about 20 s
)

// next gives the request to send now and when to give it up, or nil and when to ask again.
func (s *seat) next(now time.Time) (send kmsg.Request, until time.Time) {
	s.expire(now)
	if now.Before(s.retryAt) {
		return nil, s.soonest(s.retryAt)
	}
	switch s.phase {
	case seatJoining:
		return s.joinRequest(), s.soonest(now.Add(s.cfg.rebalance + s.cfg.session))
	case seatLooking:
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups = []string{s.cfg.group}
		return r, s.soonest(now.Add(s.cfg.session))
	case seatEvicting:
		return s.leaveRequest(s.evict), s.soonest(now.Add(s.cfg.session))
	case seatSyncing:
		return s.syncRequest(), s.soonest(now.Add(s.cfg.session))
	case seatHolding:
		if now.Before(s.beatAt) {
			return nil, s.soonest(s.beatAt)
		}
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.Generation = s.cfg.group, s.memberID, s.generation
		return r, s.heldUntil
	case seatLeaving:
		return s.leaveRequest([]string{s.memberID}), now.Add(seatLeave)
	}
	return nil, time.Time{} // gone
}

// soonest is t, but not after what is held is lost.
func (s *seat) soonest(t time.Time) time.Time {
	if !s.heldUntil.IsZero() && s.heldUntil.Before(t) {
		return s.heldUntil
	}
	return t
}

// expire notices that the coordinator has not been heard of for a session.
func (s *seat) expire(now time.Time) {
	if !s.heldUntil.IsZero() && s.phase != seatLeaving && passed(now, s.heldUntil) {
		s.lose(fmt.Errorf("the coordinator has not answered for %v", s.cfg.session))
	}
}

// passed reports whether t is over, by either clock: the monotonic one stands still while a machine sleeps.
func passed(now, t time.Time) bool { return !now.Before(t) || !now.Round(0).Before(t.Round(0)) }

// lose gives up what is held; the member asks for its place again.
func (s *seat) lose(why error) {
	s.warning = why
	s.heldUntil = time.Time{}
	s.phase = seatJoining // if the coordinator still knows it, at once
	if s.memberID == "" {
		s.phase = seatLooking
	}
}

// forget begins anew without a member id; what was held is held no more.
func (s *seat) forget() {
	s.heldUntil = time.Time{}
	s.memberID, s.phase = "", seatLooking
}

// leave makes the member go; it must not be called while a request is out.
func (s *seat) leave() {
	s.retryAt = time.Time{}
	if s.memberID == "" {
		s.phase = seatGone
		return
	}
	s.phase = seatLeaving
}

func (s *seat) joinRequest() kmsg.Request {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType = s.cfg.group, s.memberID, groupProtocolType
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(s.cfg.session.Milliseconds()), int32(s.cfg.rebalance.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = s.cfg.protocol(), memberMetadata(s.cfg.url, 0)
	r.Protocols = append(r.Protocols, p)
	return r
}

func (s *seat) syncRequest() kmsg.Request {
	r := kmsg.NewPtrSyncGroupRequest()
	protocolType, protocol := groupProtocolType, s.cfg.protocol()
	r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = s.cfg.group, s.memberID, s.generation, &protocolType, &protocol
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = s.memberID, leaderAssignment(s.memberID, s.cfg.url, 0)
	r.GroupAssignment = append(r.GroupAssignment, a)
	return r
}

func (s *seat) leaveRequest(ids []string) kmsg.Request {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = s.cfg.group, ids[0]
	for _, id := range ids {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		r.Members = append(r.Members, m)
	}
	return r
}

// answered takes the answer to what next gave, or err where there is none. sent is when it was sent.
func (s *seat) answered(now, sent time.Time, resp kmsg.Response, err error) {
	s.warning = nil
	if s.phase == seatLeaving {
		s.phase = seatGone // heard or not: the session ends by itself
		return
	}
	if err != nil {
		s.again(now, err)
		return
	}
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		s.joined(now, resp)
	case *kmsg.DescribeGroupsResponse:
		s.described(now, resp)
	case *kmsg.LeaveGroupResponse:
		s.evicted(now, resp)
	case *kmsg.SyncGroupResponse:
		s.synced(now, sent, resp.ErrorCode)
	case *kmsg.HeartbeatResponse:
		s.beaten(now, sent, resp.ErrorCode)
	}
}

// again repeats the request after a growing while.
func (s *seat) again(now time.Time, err error) {
	s.warning = err
	s.fails++
	s.retryAt = now.Add(min(seatRetry<<min(s.fails, 10), seatRetryMax))
}

func (s *seat) joined(now time.Time, r *kmsg.JoinGroupResponse) {
	switch err := kerr.ErrorForCode(r.ErrorCode); {
	case err == nil:
		s.memberID, s.generation = r.MemberID, r.Generation
		switch {
		case r.LeaderID == r.MemberID && len(r.Members) <= 1:
			s.phase = seatSyncing
		default: // an earlier life came between: nobody else offers this protocol
			s.phase = seatLooking
			s.again(now, errors.New("an earlier life of this worker is still a member"))
		}
	case errors.Is(err, kerr.MemberIDRequired):
		s.memberID = r.MemberID
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		s.forget()
		s.again(now, err)
	case errors.Is(err, kerr.InconsistentGroupProtocol), errors.Is(err, kerr.GroupMaxSizeReached):
		s.forget()
		s.again(now, err)
		if s.refused++; s.refused >= seatRefusals && s.cfg.wait >= 0 {
			s.fault = fmt.Errorf("%w %s, although it shows no other member: %w", ErrGroupRefused, s.cfg.group, err)
		}
	case errors.Is(err, kerr.InvalidSessionTimeout):
		s.fault = fmt.Errorf("%w: session.timeout.ms=%d is outside the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms",
			ErrGroupRefused, s.cfg.session.Milliseconds())
	default:
		s.troubled(now, err)
	}
}

// troubled repeats the request, unless its answer will stay the same.
func (s *seat) troubled(now time.Time, err error) {
	if errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.InvalidGroupID) {
		s.fault = fmt.Errorf("%w %s: %w", ErrGroupRefused, s.cfg.group, err)
		return
	}
	s.again(now, err)
}

// described looks at who is in the group. Members of our own client id are earlier lives of this worker, since no two
// processes that live at once have the same identity: the place of one is taken, the others are made to leave.
func (s *seat) described(now time.Time, resp *kmsg.DescribeGroupsResponse) {
	if len(resp.Groups) != 1 {
		s.again(now, errors.New("DescribeGroups was not answered for the group"))
		return
	}
	g := &resp.Groups[0]
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		s.troubled(now, err)
		return
	}
	s.memberID, s.evict, s.blockers = "", nil, nil
	for _, m := range g.Members {
		url, _ := memberURL(m.ProtocolMetadata) // shown only while the group is stable
		switch {
		case m.ClientID != s.cfg.clientID():
			s.blockers = append(s.blockers, groupMember{id: m.MemberID, clientID: m.ClientID, host: m.ClientHost, url: url})
		case s.memberID == "":
			s.memberID = m.MemberID
		default:
			s.evict = append(s.evict, m.MemberID)
		}
	}
	switch {
	case len(s.blockers) > 0 && g.ProtocolType != groupProtocolType:
		s.fault = fmt.Errorf("%w: group.id %s is in use by a group of type %q, which is no group of workers; choose another group.id",
			ErrGroupRefused, s.cfg.group, g.ProtocolType)
	case len(s.blockers) > 0:
		s.blocked(now)
	case len(s.evict) > 0:
		s.phase, s.blockedAt = seatEvicting, time.Time{}
	default:
		s.phase, s.blockedAt = seatJoining, time.Time{}
	}
}

// blocked waits for the others to go, for as long as it may.
func (s *seat) blocked(now time.Time) {
	if s.blockedAt.IsZero() {
		s.blockedAt = now
	}
	s.forget()
	s.retryAt, s.refused = now.Add(seatPoll), 0
	s.warning = s.taken()
	if s.cfg.wait >= 0 && now.Sub(s.blockedAt) >= s.cfg.wait {
		s.fault = s.warning
	}
}

// taken names who is in the way and the ways out.
func (s *seat) taken() error {
	names := make([]string, len(s.blockers))
	for i, m := range s.blockers {
		names[i] = m.String()
	}
	return fmt.Errorf("%w: group %s has a live member: %s; two workers of one group would run each task twice, so stop that one first, "+
		"or give this one its own group.id and topics", ErrGroupTaken, s.cfg.group, strings.Join(names, ", "))
}

// evicted goes on when the earlier lives are gone, whoever made them go.
func (s *seat) evicted(now time.Time, r *kmsg.LeaveGroupResponse) {
	err := kerr.ErrorForCode(r.ErrorCode)
	for _, m := range r.Members {
		if err == nil {
			err = kerr.ErrorForCode(m.ErrorCode)
		}
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		s.again(now, err)
		return
	}
	s.evict, s.phase = nil, seatJoining
}

func (s *seat) synced(now, sent time.Time, code int16) {
	switch err := kerr.ErrorForCode(code); {
	case err == nil:
		s.phase, s.fails, s.refused, s.blockers = seatHolding, 0, 0, nil
		s.held(sent)
	case errors.Is(err, kerr.RebalanceInProgress):
		s.phase = seatJoining
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID):
		s.forget()
		s.again(now, err)
	default:
		s.again(now, err)
	}
}

func (s *seat) held(sent time.Time) {
	s.heldUntil, s.beatAt = sent.Add(s.cfg.session), sent.Add(s.cfg.heartbeat)
}

func (s *seat) beaten(now, sent time.Time, code int16) {
	switch err := kerr.ErrorForCode(code); {
	case err == nil:
		s.fails = 0
		s.held(sent)
	case errors.Is(err, kerr.RebalanceInProgress): // nobody else can have joined; the coordinator asks, so it is answered
		s.phase = seatJoining
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID):
		s.memberID = ""
		s.lose(fmt.Errorf("the coordinator has let another in or forgotten this worker: %w", err))
	default:
		s.again(now, err)
	}
}
