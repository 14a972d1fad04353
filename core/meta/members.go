package meta

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Errors of ChangeMembers.
var (
	ErrNotLeading      = errors.New("this node doesn't lead the metadata's group")
	ErrMembers         = errors.New("no such group of members can be")
	ErrMembersChanging = errors.New("another change of the members is under way")
)

// Status is what a member knows of its group.
type Status struct {
	Node, Leader    int32 // leader 0: unknown
	Term            int64
	Commit, Applied int64 // ends (exclusive) in the log: what the group has agreed on, what this node's image has
	IsCurrent       bool  // the image is that of a point of the log
	Members         []MemberStatus
}

// MemberStatus is one member.
type MemberStatus struct {
	Node      int32
	IsVoter   bool
	IsLeaving bool      // it votes until the change under way is over
	Match     int64     // on the leader: the end (exclusive) of what the member has durably
	Heard     time.Time // newest sign of life that this node had of it
}

// Leader is the node that leads the group as far as this one knows, 0 if it knows none, its disk hangs or it has failed; and the term.
func (q *Quorum) Leader() (id int32, term int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isSilent {
		return 0, int64(q.leader.term)
	}
	return q.leader.id, int64(q.leader.term)
}

// Err is why this member has left the group until it is started again, nil if it has not.
func (q *Quorum) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// IsSilent says that this node tells its peers nothing, since its disk hangs.
func (q *Quorum) IsSilent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.isSilent
}

// IsCurrent says that the image is that of a point of the log, perhaps an old one. If not, this node was far behind, and of the snapshot that
// came instead of the log it has not all parts yet: what the image lacks may well exist.
func (q *Quorum) IsCurrent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.isCurrent()
}

func (q *Quorum) isCurrent() bool { return !q.isBehind && q.log.base().Index > 0 }

// Heard is when the newest message of a node came. A new leader gives everyone the time of its election, but for the leader before it.
func (q *Quorum) Heard(id int32) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.heard[id]
}

// Silent is, on the leader, every active or leaving broker besides this node that was silent for a session, to be fenced. On others, none.
func (q *Quorum) Silent(now time.Time) []Broker {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leader.id != q.id || q.isSilent {
		return nil
	}
	var silent []Broker
	for _, b := range q.image.Brokers() {
		if b.ID != q.id && b.State != BrokerFenced && now.Sub(q.heard[b.ID]) > q.session {
			silent = append(silent, b)
		}
	}
	return silent
}

// Status tells of the group.
func (q *Quorum) Status() Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Status{Node: q.id, Leader: q.leader.id, Term: int64(q.log.state.Term), Commit: offsetOf(q.log.state.Commit + 1),
		Applied: offsetOf(q.appliedIndex + 1), IsCurrent: q.isCurrent()}
	match := make(map[int32]int64)
	if q.failed == nil {
		basic := q.node.BasicStatus()
		s.Term, s.Commit = int64(basic.GetTerm()), offsetOf(basic.GetCommit()+1)
		if q.leader.id == q.id {
			q.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
				match[int32(id)] = max(0, offsetOf(p.Match+1))
			})
		}
	}
	for _, id := range q.members.all() {
		s.Members = append(s.Members, MemberStatus{
			Node: id, Match: match[id], Heard: q.heard[id],
			IsVoter:   slices.Contains(q.members.Voters, id) || slices.Contains(q.members.Outgoing, id),
			IsLeaving: slices.Contains(q.members.Outgoing, id) && !slices.Contains(q.members.Voters, id),
		})
	}
	return s
}

// matches is, on the leader, the index up to which each member has the log durably.
func (q *Quorum) matches() map[int32]uint64 {
	match := make(map[int32]uint64)
	if q.failed == nil && q.leader.id == q.id {
		q.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) { match[int32(id)] = p.Match })
	}
	return match
}

// ChangeMembers makes voters and learners the members, in one joint change. Only on the leader, and not while another change is under way. done is
// called once, with no lock held, when the new voters have a say; those that go lose theirs by themselves, soon after.
func (q *Quorum) ChangeMembers(voters, learners []int32, now time.Time, done func(error)) {
	answer := func(_ Result, err error) { done(err) }
	q.do(now, func() {
		if err := q.changeMembers(voters, learners, answer); err != nil {
			q.answer(answer, Result{}, fmt.Errorf("make %v voters and %v learners: %w", voters, learners, err))
		}
	})
}

func (q *Quorum) changeMembers(voters, learners []int32, done func(Result, error)) error {
	switch {
	case q.failed != nil:
		return q.failed
	case q.leader.id != q.id:
		return ErrNotLeading
	case len(q.members.Outgoing) > 0:
		return ErrMembersChanging
	case len(voters) == 0 || len(difference(voters, learners)) < len(voters):
		return ErrMembers
	}
	change := &raftpb.ConfChangeV2{Changes: q.changes(voters, learners)}
	if len(change.Changes) == 0 {
		q.answer(done, Result{}, nil)
		return nil
	}
	if err := q.admit(len(change.Changes) * batchBytes); err != nil {
		return err
	}
	q.proposed++
	by := fmt.Sprintf("%s-%d", q.name, q.proposed)
	change.Context = []byte(by)
	q.proposals[by] = proposal{done: done}
	before := q.log.lastIndex()
	var err error
	q.guard(func() {
		if err = q.node.ProposeConfChange(change); err == nil {
			q.pump()
		}
	})
	// raft puts an empty entry in the place of a change that it refuses.
	isRefused := err != nil || q.log.lastIndex() > before && q.log.entries[before-q.log.base().Index].GetType() == raftpb.EntryNormal
	if isRefused && q.failed == nil {
		delete(q.proposals, by)
		return ErrMembersChanging
	}
	return nil
}

// changes is what makes the present members these.
func (q *Quorum) changes(voters, learners []int32) []*raftpb.ConfChangeSingle {
	var changes []*raftpb.ConfChangeSingle
	add := func(kind raftpb.ConfChangeType, ids []int32) {
		for _, id := range ids {
			changes = append(changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(uint64(id))})
		}
	}
	add(raftpb.ConfChangeAddNode, difference(voters, q.members.Voters))
	add(raftpb.ConfChangeAddLearnerNode, difference(learners, q.members.Learners))
	add(raftpb.ConfChangeRemoveNode, difference(difference(q.members.all(), voters), learners))
	return changes
}

// Transfer asks the leader to let another voter lead.
func (q *Quorum) Transfer(to int32, now time.Time) {
	q.do(now, func() {
		if q.failed == nil {
			q.guard(func() { q.node.TransferLeader(uint64(to)) })
		}
	})
}
