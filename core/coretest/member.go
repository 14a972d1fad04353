package coretest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core"
)

// team is a group whose members join it and commit in its generations. Each partition has one owner at a time, who commits ever higher offsets.
type team struct {
	name         string
	topic        string
	partitions   int32
	tried, acked []int64                    // by partition
	owners       map[int32]map[int32]string // of synced generations: member by partition
}

// member is a member of a team.
type member struct {
	user
	team        *team
	id          string // given by the coordinator
	generation  int32
	state       memberState
	owned       []int32
	isWaiting   bool
	beats       time.Time // next heartbeat
	isConfirmed bool      // by a heartbeat, since nothing is begun any more
}

type memberState uint8

// The states of a member.
const (
	mustJoin memberState = iota
	mustSync
	isStable
)

func (m *member) String() string {
	return fmt.Sprintf("member %d of %s: %q in generation %d, state %d, owns %v, coordinator %d, waiting %v", m.user.id, m.team.name, m.id, m.generation, m.state, m.owned, m.coordinator, m.isWaiting)
}

func (m *member) isIdle() bool { return m.isConfirmed && !m.isWaiting }

func (m *member) renew() { m.isConfirmed = false }

func (m *member) step() {
	if m.isWaiting || !m.mayTry() || !m.c.admin.isReady {
		return
	}
	switch {
	case m.coordinator == 0:
		m.isWaiting = true
		m.find(m.team.name, m, func() { m.isWaiting = false })
	case m.state == mustJoin:
		m.join()
	case m.c.now.After(m.beats), m.c.isLast && !m.isConfirmed:
		m.beat()
	case !m.c.isLast && m.c.rng.IntN(500) == 0:
		m.leave()
	case len(m.owned) > 0 && !m.c.isLast && m.c.chance(10):
		m.commit()
	}
}

// once asks the coordinator, as committer.once does.
func (m *member) once(req kmsg.Request, done func(kmsg.Response)) {
	m.isWaiting = true
	m.c.net.send(lane{m.user.id, m.coordinator, core.LaneData}, 0, &call{req: req, isOnce: true, done: func(resp kmsg.Response, err error) {
		m.isWaiting = false
		if err != nil {
			m.coordinator = 0
			m.pause()
			return
		}
		m.c.Stats.Operations++
		done(resp)
	}})
}

// refused does what a client does about an error.
func (m *member) refused(what string, code int16) {
	switch code {
	case kerr.MemberIDRequired.Code:
	case kerr.UnknownMemberID.Code:
		m.id, m.state, m.owned = "", mustJoin, nil
	case kerr.RebalanceInProgress.Code, kerr.IllegalGeneration.Code:
		m.state, m.owned = mustJoin, nil
	default:
		if !isPassing(code) {
			m.c.failf("%v: %s: %s", m, what, errorName(code))
		}
		m.coordinator = 0
	}
	m.pause()
}

func (m *member) join() {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.MemberID, req.ProtocolType = 6, m.team.name, 6000, 6000, m.id, "coretest"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "own", []byte{1}
	req.Protocols = append(req.Protocols, p)
	m.once(req, func(resp kmsg.Response) {
		r := resp.(*kmsg.JoinGroupResponse)
		if r.ErrorCode == kerr.MemberIDRequired.Code {
			m.id = r.MemberID
		}
		if r.ErrorCode != 0 {
			m.refused("join", r.ErrorCode)
			return
		}
		m.c.Stats.Joins++
		m.id, m.generation, m.state = r.MemberID, r.Generation, mustSync
		m.sync(r)
	})
}

// sync follows a join at once. The leader of the group shares the partitions out.
func (m *member) sync(r *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 4, m.team.name, r.Generation, r.MemberID
	if r.LeaderID == r.MemberID {
		for i, other := range r.Members {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID = other.MemberID
			for p := int32(i); p < m.team.partitions; p += int32(len(r.Members)) {
				a.MemberAssignment = binary.BigEndian.AppendUint32(a.MemberAssignment, uint32(p))
			}
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	m.state = mustJoin // unless it goes well
	m.once(req, func(resp kmsg.Response) {
		r := resp.(*kmsg.SyncGroupResponse)
		if r.ErrorCode != 0 {
			m.refused("sync", r.ErrorCode)
			return
		}
		m.state, m.owned, m.beats = isStable, nil, m.c.now.Add(time.Second)
		owners := m.team.owners[m.generation]
		if owners == nil {
			owners = make(map[int32]string)
			m.team.owners[m.generation] = owners
		}
		for b := r.MemberAssignment; len(b) >= 4; b = b[4:] {
			p := int32(binary.BigEndian.Uint32(b))
			if other := owners[p]; other != "" && other != m.id {
				m.c.failf("%v: in its generation %q owns partition %d too", m, other, p)
			}
			owners[p] = m.id
			m.owned = append(m.owned, p)
		}
	})
}

func (m *member) beat() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 3, m.team.name, m.generation, m.id
	isLast := m.c.isLast
	m.once(req, func(resp kmsg.Response) {
		m.beats = m.c.now.Add(time.Second)
		if code := resp.(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
			m.refused("heartbeat", code)
			return
		}
		m.isConfirmed = isLast
		if isLast {
			m.look()
		}
	})
}

// leave has the group share out anew; the member comes again as another.
func (m *member) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 4, m.team.name
	who := kmsg.NewLeaveGroupRequestMember()
	who.MemberID = m.id
	req.Members = append(req.Members, who)
	m.id, m.state, m.owned = "", mustJoin, nil
	m.once(req, func(resp kmsg.Response) {
		if code := resp.(*kmsg.LeaveGroupResponse).ErrorCode; code != 0 {
			m.refused("leave", code)
		}
	})
}

func (m *member) commit() {
	p := m.owned[m.c.rng.IntN(len(m.owned))]
	m.team.tried[p]++
	offset := m.team.tried[p]
	req := offsetCommit(m.team.name, place{m.team.topic, p}, offset)
	req.Generation, req.MemberID = m.generation, m.id
	m.once(req, func(resp kmsg.Response) {
		if code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			m.refused("commit", code)
			return
		}
		m.team.acked[p] = max(m.team.acked[p], offset)
		m.c.Stats.Commits++
	})
}

// look compares what is committed with what was acknowledged.
func (m *member) look() {
	m.isConfirmed = false
	for p := range m.team.partitions {
		least := m.team.acked[p]
		m.once(offsetFetch(m.team.name, place{m.team.topic, p}), func(resp kmsg.Response) {
			code, offset := fetchedOffset(resp.(*kmsg.OffsetFetchResponse))
			switch {
			case code != 0:
				m.refused("look", code)
			case offset < least || offset > m.team.tried[p]:
				m.c.failf("%v: %d is committed of partition %d, %d was acknowledged", m, offset, p, least)
			default:
				m.isConfirmed = p == m.team.partitions-1
			}
		})
	}
}
