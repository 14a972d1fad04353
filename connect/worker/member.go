package worker

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrGroupTaken: the group of workers has live members with which this one can't share it.
var ErrGroupTaken = errors.New("the group of workers is taken")

// ErrGroupRefused: the cluster will not have this worker in its group, and trying again will not change that.
var ErrGroupRefused = errors.New("the worker can't be a member of its group")

// member is this worker's membership of its group as a pure machine: the time, the coordinator's answers, what was read
// from the config topic and what runs here go in; requests, and what this worker is to run, come out. It reads no clock and
// sends nothing; membership.go does. CLUSTER.md tells the whole.
//
//	looking ──► joining ──► leading ──► syncing ──► stable ──► heartbeat, heartbeat, …
//	   ▲           ▲  │    (the leader)    ▲          │
//	   │           │  └────────────────────┘          │ asked to, work has changed, what was revoked has stopped
//	   │           └──────────────────────────────────┤
//	   └──────────────── draining ◄── lost ◄──────────┘
//
// Two requests may be out, one of them a heartbeat: a join is answered only when all have joined, and meanwhile the heartbeats
// tell that this worker is still a member.
//
// An earlier life that was killed is still a member, until its session ends. This one joins beside it and then makes it leave:
// in that order, since a group that is empty waits (group.initial.rebalance.delay.ms) for who else may come.
//
// What it has it has until heldUntil: a session after it sent the newest heartbeat that was answered, since the coordinator
// counts from when that one arrived; and not longer than the rebalance timeout after it last was known to have
// joined, since whoever does not join in time is put out, however often it beats.
type member struct {
	cfg      memberConfig
	assignor assignor

	phase      memberPhase
	memberID   string // "": none yet
	generation int32  // noGeneration: none
	version    int16  // of the protocol that the group speaks
	leads      bool
	term       int        // counts how often it has come to lead
	call, beat *groupCall // out, nil for none
	evict      []string   // members that are earlier lives of this worker
	evictAt    time.Time

	heldUntil time.Time // zero: holds nothing
	joinedAt  time.Time // when a request was sent whose answer says that no rebalance waits for this worker
	beatAt    time.Time // the next heartbeat is due
	fastUntil time.Time // heartbeats come quickly, since after one round another may follow
	retryAt   time.Time // nothing but a heartbeat is sent before

	owned     workSet     // what this worker is to run
	stopping  workSet     // revoked, and not yet stopped
	stopLimit time.Time   // stopping is not waited for after
	reported  workSet     // what the join said
	current   *assignment // the last one that was taken; nil: none
	round     int         // counts what owned has been
	again     bool        // join again when stopping is empty and the config topic is read to readTo
	readTo    int64
	readLimit time.Time
	delayAt   time.Time // join again then; zero: no need
	ending    bool      // no more work is taken on

	joined  []joinedMember // of the leader
	gives   []*assignment  // of the leader, what each of joined gets
	owners  map[TaskID]string
	offset  int64 // of the config topic: all before it is read
	changed int64 // where the work there is has last changed
	work    workSet
	places  map[TaskID]place // what is known of where things were; of the leader, may be nil

	blockers  []groupMember
	blockedAt time.Time // since when there have been some; zero: there are none
	refused   int       // joins in a row that were refused although nobody else was to be seen
	fails     int       // requests in a row that did not work
	fault     error     // the end
	warning   error     // of the last step, taken by the caller
}

// memberConfig is what a member needs to know.
type memberConfig struct {
	group     string
	identity  string // of this worker, the same after a restart
	url       string // of its REST
	protocols []string
	session   time.Duration
	heartbeat time.Duration
	rebalance time.Duration
	sync      time.Duration // how long the config topic may take to be read
	stop      time.Duration // how long what is revoked may take to stop
	wait      time.Duration // for others to go with which the group can't be shared; negative: for ever
}

// groupCall is one request under way.
type groupCall struct {
	req        kmsg.Request
	sent       time.Time
	until      time.Time // it is given up then
	generation int32     // of a heartbeat
	stable     bool      // of a heartbeat that was sent while nothing else was to be done
}

// joinedMember is a member as the leader sees it.
type joinedMember struct {
	id, url string
	owned   workSet
	strange bool // its metadata can't be read: it gets nothing
}

type memberPhase uint8

const (
	memberWaiting memberPhase = iota // until the config topic was read once
	memberLooking                    // DescribeGroups: who is there
	memberJoining
	memberLeading // waits until it has read what others have read
	memberSyncing
	memberStable
	memberDraining // what was lost has not stopped yet
	memberLeaving
	memberGone
)

const noGeneration = -1

// nothingRead is the config offset of who has read no record: the topic is empty.
const nothingRead = -1

// groupMember is one member of the group as DescribeGroups shows it.
type groupMember struct {
	id, clientID, host, url string
}

func (g groupMember) String() string {
	at := strings.TrimPrefix(g.host, "/")
	if g.url != "" {
		return fmt.Sprintf("%s (client %s from %s)", g.url, g.clientID, at)
	}
	return fmt.Sprintf("client %s from %s", g.clientID, at)
}

// clientID is what the coordinator shows of this worker, and how it knows an earlier life of its own.
func (c *memberConfig) clientID() string { return "weir-" + c.identity }

// memberRetry and memberRetryMax bound how soon a failed request is tried again, memberPoll is how often a taken group is
// asked, memberLeave how long leaving may take, memberRefusals how often a join may be refused when nobody else is to be
// seen. memberFast is the interval of heartbeats for memberFastFor after a round.
const (
	memberRetry    = 50 * time.Millisecond
	memberRetryMax = 2 * time.Second
	memberPoll     = 500 * time.Millisecond
	memberLeave    = 2 * time.Second
	memberRefusals = 12 // about 20 s
	memberFast     = 200 * time.Millisecond
	memberFastFor  = 3 * time.Second
)

func newMember(cfg memberConfig, maxDelay time.Duration) member {
	return member{cfg: cfg, assignor: assignor{maxDelay: maxDelay}, generation: noGeneration, offset: nothingRead, changed: nothingRead, owned: workSet{}, stopping: workSet{}, work: workSet{}}
}

// begin makes it look for its group.
func (m *member) begin() {
	if m.phase == memberWaiting {
		m.phase = memberLooking
	}
}

// configured takes what was read from the config topic: all records before offset, and the work there is, which has last
// changed by the record before changed.
func (m *member) configured(offset, changed int64, work workSet) {
	m.offset, m.changed, m.work = offset, changed, work
}

// ran takes what runs here, or is still stopping, by whoever carries out the round. What was seen in an earlier round says
// nothing: something may have begun since.
func (m *member) ran(round int, running workSet) {
	if round != m.round {
		return
	}
	for id := range m.stopping {
		if !running[id] {
			delete(m.stopping, id)
		}
	}
}

// drained says that nothing runs here since what was held was lost.
func (m *member) drained() {
	if m.phase != memberDraining {
		return
	}
	m.stopping = workSet{}
	m.phase = memberLooking
}

// hurry makes heartbeats come quickly for a while.
func (m *member) hurry(now time.Time) {
	m.fastUntil = now.Add(memberFastFor)
	if soon := now.Add(memberFast); m.beatAt.After(soon) {
		m.beatAt = soon
	}
}

// held says that something may run here.
func (m *member) held() bool { return !m.heldUntil.IsZero() }

// next gives the requests to send now, and when to ask again if nothing happens before.
func (m *member) next(now time.Time) (send []*groupCall, until time.Time) {
	m.expire(now)
	if m.call == nil && !now.Before(m.retryAt) {
		if req, limit := m.request(now); req != nil {
			m.call = &groupCall{req: req, sent: now, until: limit}
			send = append(send, m.call)
		}
	}
	if m.evicts() && m.beat == nil && !now.Before(m.evictAt) {
		m.beat = &groupCall{req: m.leaveRequest(m.evict), sent: now, until: now.Add(m.cfg.session)}
		send = append(send, m.beat)
	}
	if m.beats() && m.beat == nil && !now.Before(m.beatAt) {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.Generation = m.cfg.group, m.memberID, m.generation
		m.beat = &groupCall{req: r, sent: now, until: now.Add(m.cfg.session), generation: m.generation, stable: m.phase == memberStable}
		send = append(send, m.beat)
	}
	return send, m.wake(now)
}

// beats says that the coordinator has to hear of this member.
func (m *member) beats() bool {
	return m.generation != noGeneration && m.phase >= memberJoining && m.phase <= memberStable
}

// evicts says that this worker waits in a join that an earlier life of its own keeps from ending.
func (m *member) evicts() bool {
	return len(m.evict) > 0 && m.phase == memberJoining && m.memberID != "" && m.call != nil && !m.beats()
}

// wake is when the time alone changes something.
func (m *member) wake(now time.Time) time.Time {
	out := now.Add(m.cfg.session)
	for _, t := range []time.Time{m.heldUntil, m.delayAt, m.stopLimit, m.readLimit} {
		if !t.IsZero() && t.Before(out) && t.After(now) {
			out = t
		}
	}
	if m.call == nil && m.retryAt.After(now) && m.retryAt.Before(out) {
		out = m.retryAt
	}
	if m.evicts() && m.beat == nil && m.evictAt.Before(out) {
		out = m.evictAt
	}
	if m.beats() && m.beat == nil && m.beatAt.Before(out) {
		out = m.beatAt
	}
	return out
}

// request gives what the phase asks for, and until when it is waited for.
func (m *member) request(now time.Time) (kmsg.Request, time.Time) {
	if m.phase == memberStable && m.joinsAgain(now) {
		m.phase = memberJoining
	}
	if m.phase == memberLeading {
		m.decide(now)
	}
	switch m.phase {
	case memberLooking:
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups = []string{m.cfg.group}
		return r, now.Add(m.cfg.session)
	case memberJoining:
		m.evictAt = now.Add(memberRetry) // the join is to be there first
		return m.joinRequest(), now.Add(m.cfg.rebalance + m.cfg.session)
	case memberSyncing:
		return m.syncRequest(), now.Add(m.cfg.rebalance)
	case memberLeaving:
		return m.leaveRequest([]string{m.memberID}), now.Add(memberLeave)
	}
	return nil, time.Time{}
}

// joinsAgain says whether another round is needed from where this member stands.
func (m *member) joinsAgain(now time.Time) bool {
	if m.ending {
		return false
	}
	if len(m.stopping) > 0 && !m.stopLimit.IsZero() && !now.Before(m.stopLimit) {
		m.warning = fmt.Errorf("does not stop in time and is given to others: %v", m.stopping.sorted())
		m.stopping = workSet{}
		m.round++ // it may store no offsets any more
	}
	switch {
	case m.changed > m.current.configOffset: // work that this round did not know
		return true
	case !m.delayAt.IsZero() && !now.Before(m.delayAt):
		return true
	case m.again:
		return len(m.stopping) == 0 && (m.offset >= m.readTo || !now.Before(m.readLimit))
	}
	return false
}

// expire notices that the coordinator has not been heard of.
func (m *member) expire(now time.Time) {
	if m.held() && m.phase != memberLeaving && passed(now, m.heldUntil) {
		m.lose(fmt.Errorf("the coordinator has not answered for %v", m.cfg.session))
	}
}

// passed reports whether t is over, by either clock: the monotonic one stands still while a machine sleeps.
func passed(now, t time.Time) bool { return !now.Before(t) || !now.Round(0).Before(t.Round(0)) }

// lose gives up what is held: it stops, and then this worker joins as another member, with nothing. As the same it might be
// taken at a word of before: a join that was given up can still be on its way to the coordinator.
func (m *member) lose(why error) {
	m.warning = why
	if m.held() {
		m.phase = memberDraining
	} else {
		m.phase = memberLooking
	}
	m.heldUntil, m.delayAt, m.stopLimit = time.Time{}, time.Time{}, time.Time{}
	m.memberID, m.generation, m.leads, m.again, m.current, m.owners = "", noGeneration, false, false, nil, nil
	m.call, m.beat = nil, nil
	m.owned, m.stopping = workSet{}, workSet{}
	m.round++
}

// leadBy notes who leads.
func (m *member) leadBy(id string) {
	leads := id == m.memberID
	if leads && !m.leads {
		m.term++
	}
	m.leads = leads
}

// leave makes the member go. What is out is given up.
func (m *member) leave() {
	m.retryAt, m.call, m.beat = time.Time{}, nil, nil
	m.heldUntil = time.Time{}
	if m.memberID == "" {
		m.phase = memberGone
		return
	}
	m.phase = memberLeaving
}

func (m *member) joinRequest() kmsg.Request {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType = m.cfg.group, m.memberID, groupProtocolType
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(m.cfg.session.Milliseconds()), int32(m.cfg.rebalance.Milliseconds())
	m.reported = maps.Clone(m.owned)
	maps.Copy(m.reported, m.stopping)
	m.again, m.delayAt = false, time.Time{}
	for _, name := range m.cfg.protocols {
		version, _ := groupVersion(name)
		s := memberState{version: version, url: m.cfg.url, configOffset: m.offset}
		if m.current != nil { // since then also when it is empty, as Java's workers do
			s.current = &assignment{version: version, leader: m.current.leader, leaderURL: m.current.leaderURL,
				configOffset: m.current.configOffset, assigned: m.reported.wire(), revoked: []connectorWork{}, delayMillis: m.current.delayMillis}
		}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, s.encode()
		r.Protocols = append(r.Protocols, p)
	}
	return r
}

func (m *member) syncRequest() kmsg.Request {
	r := kmsg.NewPtrSyncGroupRequest()
	protocolType, protocol := groupProtocolType, m.protocol()
	r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = m.cfg.group, m.memberID, m.generation, &protocolType, &protocol
	for i, a := range m.gives {
		g := kmsg.NewSyncGroupRequestGroupAssignment()
		g.MemberID, g.MemberAssignment = m.joined[i].id, a.encode()
		r.GroupAssignment = append(r.GroupAssignment, g)
	}
	return r
}

// protocol is the name of what the group speaks.
func (m *member) protocol() string {
	for _, name := range m.cfg.protocols {
		if v, _ := groupVersion(name); v == m.version {
			return name
		}
	}
	return ""
}

func (m *member) leaveRequest(ids []string) kmsg.Request {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = m.cfg.group, ids[0]
	for _, id := range ids {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID = id
		r.Members = append(r.Members, lm)
	}
	return r
}

// decide makes the leader's plan as soon as it has read all that any member has read, or says that it could not.
func (m *member) decide(now time.Time) {
	target := m.readTo
	m.gives, m.owners = nil, nil
	give := func(err int16, assigned, revoked workSet, delay time.Duration) {
		a := &assignment{version: m.version, err: err, leader: m.memberID, leaderURL: m.cfg.url, configOffset: max(m.offset, target)}
		a.assigned, a.revoked, a.delayMillis = assigned.wire(), revoked.wire(), int32(delay.Milliseconds())
		m.gives = append(m.gives, a)
	}
	switch {
	case m.offset >= target:
		var members []memberWork
		urls := map[string]string{}
		for _, j := range m.joined {
			if urls[j.id] = j.url; !j.strange {
				members = append(members, memberWork{id: j.id, worker: workerOf(j.url), owned: j.owned})
			}
		}
		p := m.assignor.assign(now, members, m.work, m.places)
		for n, j := 0, 0; j < len(m.joined); j++ {
			if m.joined[j].strange {
				give(0, nil, nil, p.delay)
				continue
			}
			give(0, p.assigned[n], p.revoked[n], p.delay)
			n++
		}
		m.owners = map[TaskID]string{}
		for id, owner := range p.owners {
			m.owners[id] = urls[owner]
		}
	case !now.Before(m.readLimit):
		for range m.joined {
			give(errMismatch, nil, nil, 0)
		}
	default:
		return
	}
	m.phase, m.readLimit = memberSyncing, time.Time{}
}

// workerOf gives a worker's id by its address.
func workerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// groupRefused marks what trying again won't mend.
func groupRefused(group string, err error) error {
	return fmt.Errorf("%w %s: %w", ErrGroupRefused, group, err)
}

// fatal are answers that stay the same.
func fatal(err error) bool {
	return errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.InvalidGroupID)
}
