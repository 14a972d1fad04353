package meta

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/weirlog/weir/storage"
)

// How raft is driven.
const (
	electionTicks       = 10      // of an election timeout
	maxMessageBytes     = 1 << 20 // of entries in one message, but for one that is larger alone
	maxInflightMessages = 64      // to one peer without an answer
	maxInflightBytes    = 3 << 20
	maxUncommittedBytes = 256 << 20
	openRounds          = 4 // of the disk, at most, until a sole voter is elected: its vote, its first entry
)

// write is what raft wants put, and what it says when that is durable.
type write struct {
	snapshot  *raftpb.Snapshot
	entries   []*raftpb.Entry
	state     *raftpb.HardState
	responses []*raftpb.Message
	isUrgent  bool // the state must not be less durable than what is said
}

// ack is what is said when the ticket is durable.
type ack struct {
	ticket    storage.Ticket
	responses []*raftpb.Message
}

// Faults are ways to break the group, for tests that have to find what is broken. The zero value breaks nothing.
type Faults struct {
	AckEarly      bool // a proposal is answered when it is proposed
	SayUnsynced   bool // peers are told before the disk has it
	CountUnsynced bool // this node counts itself before the disk has it
	ForgetVote    bool // the state has no vote
	ForgetTerm    bool // a snapshot's term is lost
	ForgetCommit  bool // the commit is never put for its own sake
	SkipMembers   bool // a base has the members of the one before
	IgnoreEpochs  bool // in-sync sets are altered whatever has changed since
}

// replay starts raft and applies what is committed. What a sole voter has durably is, up to the first change of members: behind that,
// others had a say.
func (q *Quorum) replay() {
	q.start()
	for q.failed == nil && q.members.isSole(q.id) && q.log.state.Commit < q.log.lastIndex() {
		q.log.state.Commit = q.soleCommit()
		q.log.conf = q.members.confState()
		q.start()
	}
}

// soleCommit is up to where a sole voter's entries are committed.
func (q *Quorum) soleCommit() uint64 {
	first := q.log.base().Index + 1
	for _, e := range q.log.entries[q.log.state.Commit+1-first:] {
		if e.GetType() != raftpb.EntryNormal {
			return e.GetIndex()
		}
	}
	return q.log.lastIndex()
}

// start makes the raft node of the log, which has applied appliedIndex, and applies the rest.
func (q *Quorum) start() {
	config := &raft.Config{
		ID: uint64(q.id), ElectionTick: electionTicks, HeartbeatTick: 1, Storage: &q.log, Applied: q.appliedIndex, AsyncStorageWrites: true,
		MaxSizePerMsg: q.messageBytes, MaxCommittedSizePerReady: 1 << 40, MaxUncommittedEntriesSize: maxUncommittedBytes,
		MaxInflightMsgs: maxInflightMessages, MaxInflightBytes: maxInflightBytes,
		CheckQuorum: true, PreVote: true, StepDownOnRemoval: true, Logger: raftLogger{q.logger},
	}
	q.guard(func() {
		node, err := raft.NewRawNode(config)
		if err != nil {
			q.fail(err)
			return
		}
		q.node = node
		q.pump()
	})
}

// elect makes a sole voter the leader, by its own disk.
func (q *Quorum) elect() {
	q.do(time.Time{}, q.campaign)
	for range openRounds {
		if q.failed != nil || q.writeErr != nil || q.leader.id == q.id && q.appliedIndex == q.log.lastIndex() {
			return
		}
		done, err := q.store.Commit(time.Time{})
		for _, complete := range done {
			complete()
		}
		if err != nil {
			q.fail(err)
		}
	}
}

func (q *Quorum) campaign() {
	q.guard(func() { _ = q.node.Campaign() })
}

// errForgot is what a raft that panics means.
var errForgot = errors.New("this node has forgotten what it told others: its data folder is an old copy, or its disk has lost what was synced; " +
	"take the folder away, and the node joins under a new id")

// guard runs what calls raft. raft panics when others hold this node to what its log doesn't have: a disk that lost what was synced, or a
// folder that was put back from a copy. That ends this member, not the process.
func (q *Quorum) guard(f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case raftPanic:
			q.fail(fmt.Errorf("%w (%s)", errForgot, string(r)))
		default:
			panic(r)
		}
	}()
	f()
}

// advance takes all consequences of a change. Called with mu held, at its end.
func (q *Quorum) advance() {
	if q.failed == nil {
		q.guard(q.pump)
	}
	if q.failed == nil {
		q.noteLeader()
	}
	if q.failed == nil && q.isDue() {
		q.guard(func() {
			q.proposeSnapshot()
			q.pump()
		})
	}
	q.trim()
	q.flush()
	if n := len(q.acks); n > 0 && q.acks[n-1].ticket > q.notified {
		q.notified = q.acks[n-1].ticket
		q.effects.notify = q.notified
	}
}

// pump does what raft is ready for until there is nothing.
func (q *Quorum) pump() {
	q.write()
	for q.failed == nil && q.node.HasReady() {
		rd := q.node.Ready()
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				q.writes = append(q.writes, writeOf(m))
			case raft.LocalApplyThread:
				q.applyAll(m)
			default:
				q.say(m)
			}
		}
		q.write()
		q.settle()
	}
}

func writeOf(m *raftpb.Message) write {
	w := write{snapshot: m.GetSnapshot(), entries: m.GetEntries(), responses: m.GetResponses()}
	if s := (&raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}); !raft.IsEmptyHardState(s) {
		w.state = s
	}
	w.isUrgent = len(w.entries) > 0 || len(w.responses) > 0
	return w
}

// write puts what waits to be put. When there is no room it is tried again, and until then nothing is proposed.
func (q *Quorum) write() {
	q.writeErr = nil
	for len(q.writes) > 0 && q.failed == nil {
		w := &q.writes[0]
		err := q.put(w)
		switch {
		case errors.Is(err, storage.ErrDiskFull) || errors.Is(err, storage.ErrBusy):
			q.writeErr = err
			return
		case err != nil:
			q.fail(err)
			return
		}
		if q.faults.SayUnsynced || q.faults.CountUnsynced {
			q.sayEarly(w)
		}
		if len(w.responses) > 0 {
			q.acks = append(q.acks, ack{q.newest, w.responses})
		}
		q.writes = slices.Delete(q.writes, 0, 1)
	}
}

// put puts one write, from where it was left. Order: a snapshot's base, the entries, the state that may commit them.
func (q *Quorum) put(w *write) error {
	if w.snapshot != nil {
		if err := q.restore(w.snapshot); err != nil {
			return err
		}
		w.snapshot = nil
	}
	for len(w.entries) > 0 {
		ticket, err := q.log.put(w.entries[0], q.now)
		if err != nil {
			return err
		}
		q.newest = max(q.newest, ticket)
		w.entries = w.entries[1:]
	}
	if s := w.state; s != nil {
		st := &q.log.state
		isCommit := st.Term == s.GetTerm() && st.Vote == int32(s.GetVote())
		q.log.isStale = q.log.isStale || !isCommit || !q.faults.ForgetCommit
		st.Term, st.Vote, st.Commit = s.GetTerm(), int32(s.GetVote()), s.GetCommit()
		if q.faults.ForgetVote {
			st.Vote = 0
		}
		w.state = nil
	}
	if !q.log.isStale || !w.isUrgent {
		return nil
	}
	if q.log.state.ClusterID == "" {
		q.log.state.ClusterID = q.image.ClusterID()
	}
	ticket, err := q.log.putState()
	if err == nil {
		q.newest = max(q.newest, ticket)
	}
	return err
}

// restore makes the log begin behind a snapshot. The image follows when the parts behind it are applied.
func (q *Quorum) restore(s *raftpb.Snapshot) error {
	m := s.GetMetadata()
	b := base{Index: m.GetIndex(), Term: m.GetTerm(), members: membersOf(m.GetConfState())}
	if q.faults.ForgetTerm {
		b.Term = 1
	}
	ticket, err := q.log.restart(b)
	if err != nil {
		return err
	}
	q.newest = max(q.newest, ticket)
	q.members, q.appliedIndex, q.snapshotEnd, q.isBehind = b.members, b.Index, b.Index, b.Index > 1
	return nil
}

// written takes the store's word that a ticket is durable, or that the store has failed.
func (q *Quorum) written(ticket storage.Ticket, failed error) {
	q.do(time.Time{}, func() {
		if failed != nil {
			q.fail(failed)
			return
		}
		q.durable = max(q.durable, ticket)
		q.guard(q.settle)
	})
}

// settle says what waited for what is durable by now.
func (q *Quorum) settle() {
	for len(q.acks) > 0 && q.acks[0].ticket <= q.durable && q.failed == nil {
		responses := q.acks[0].responses
		q.acks = q.acks[1:]
		for _, m := range responses {
			q.deliver(m)
		}
	}
}

// deliver gives a message to a peer, or to this node itself.
func (q *Quorum) deliver(m *raftpb.Message) {
	if m.GetTo() == uint64(q.id) {
		_ = q.node.Step(m)
		return
	}
	q.say(m)
}

// sayEarly is a mutation: some of what waits for the disk doesn't.
func (q *Quorum) sayEarly(w *write) {
	w.responses = slices.DeleteFunc(w.responses, func(m *raftpb.Message) bool {
		isEarly := m.GetTo() == uint64(q.id) && q.faults.CountUnsynced || m.GetTo() != uint64(q.id) && q.faults.SayUnsynced
		if isEarly {
			q.deliver(m)
		}
		return isEarly
	})
}

// Tick gives raft time. It returns when it wants to be called again: zero, not before something else has happened. Time that was missed is not
// made up for: a node that was starved must not take that for its leader's silence.
func (q *Quorum) Tick(now time.Time) (next time.Time) {
	q.do(now, func() {
		if now.Before(q.ticked.Add(q.tick)) || q.failed != nil {
			return
		}
		q.ticked = q.ticked.Add(q.tick)
		if now.Sub(q.ticked) > q.tick {
			q.ticked = now
		}
		q.watchDisk()
		q.guard(q.node.Tick)
		q.hasten()
		q.expire()
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil || q.isAlone() && q.leader.id == q.id && len(q.writes) == 0 {
		return time.Time{}
	}
	return q.ticked.Add(q.tick)
}

// hasten asks for votes soon after a start, so that a group that starts as a whole needn't wait for a timeout. Members that hear of a leader refuse
// (pre-vote), so nothing is disturbed where there is one. Voters take turns.
func (q *Quorum) hasten() {
	if q.sinceStart++; q.sinceStart > electionTicks || q.leader.id != 0 || q.failed != nil || q.members.isSole(q.id) {
		return
	}
	if turn := slices.Index(q.members.Voters, q.id); turn >= 0 && q.sinceStart%len(q.members.Voters) == turn {
		q.campaign()
	}
}

// watchDisk makes this node silent while its disk hangs: others, if there are any, take over as if it were dead, and nobody waits for it.
func (q *Quorum) watchDisk() {
	hangs := q.stalled(q.now)
	if isSilent := hangs > q.session/2 && !q.isAlone(); isSilent != q.isSilent {
		q.isSilent = isSilent
		if isSilent {
			q.logger.Warn("disk hangs: this node is silent until it goes on", "since", hangs)
		} else {
			q.logger.Info("disk goes on")
		}
	}
}

// isAlone says that this node has no peers to hear of.
func (q *Quorum) isAlone() bool { return q.members.isSole(q.id) && len(q.members.all()) == 1 }

// expire answers those whose proposals went to another node and didn't come back.
func (q *Quorum) expire() {
	for _, by := range q.proposalNames() {
		if p := q.proposals[by]; !p.expires.IsZero() && q.now.After(p.expires) {
			delete(q.proposals, by)
			q.answer(p.done, Result{}, fmt.Errorf("%w: the leader didn't answer", ErrNoLeader))
		}
	}
}

// noteLeader sees whether another leads, or in another term: what was proposed under the one before may be lost.
func (q *Quorum) noteLeader() {
	s := q.node.BasicStatus()
	now := leader{int32(s.Lead), s.GetTerm()}
	if now == q.leader {
		return
	}
	if now.id != q.leader.id {
		q.logger.Info("metadata leader", "node", now.id, "term", now.term)
	}
	before := q.leader
	q.leader = now
	if before.id != 0 {
		q.answerAll(ErrNoLeader)
	}
	if now.id != 0 && now.id != q.id {
		q.lastLeader = now.id
	}
	if now.id == q.id {
		q.proposedEnd = 0
		for _, id := range q.members.all() {
			if id != q.lastLeader {
				q.heard[id] = q.now
			}
		}
	}
}
