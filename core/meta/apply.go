package meta

import (
	"fmt"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// applyAll applies entries that the group has agreed on and that are durable here (invariant 2).
func (q *Quorum) applyAll(m *raftpb.Message) {
	for _, e := range m.GetEntries() {
		if err := q.apply(e); err != nil {
			q.fail(fmt.Errorf("metadata entry %d: %w", offsetOf(e.GetIndex()), err))
			return
		}
	}
	for _, r := range m.GetResponses() {
		_ = q.node.Step(r)
	}
}

// apply applies one entry. A command that failed when it was proposed fails alike on every node, and at every start.
func (q *Quorum) apply(e *raftpb.Entry) error {
	if q.onApply != nil {
		q.onApply(e)
	}
	q.appliedIndex = e.GetIndex()
	if e.GetType() != raftpb.EntryNormal {
		return q.applyMembers(e)
	}
	c, by, err := decodeEntry(e)
	if err != nil {
		return err
	}
	if c == nil {
		q.image.interrupt()
		return nil
	}
	result, err := q.applyCommand(*c, strings.HasPrefix(by, q.name+"-"))
	if result.Snapshot {
		q.begin(e.GetIndex(), c.Snapshot.Of)
	}
	if p, ok := q.proposals[by]; ok {
		delete(q.proposals, by)
		q.answer(p.done, result, err)
	}
	return nil
}

// decodeEntry is an entry's command and the name of its proposal; no command in a leader's first entry and in changes of the members.
func decodeEntry(e *raftpb.Entry) (*Command, string, error) {
	if len(e.GetData()) == 0 || e.GetType() != raftpb.EntryNormal {
		return nil, "", nil
	}
	c, by, err := decodeBy(e.GetData())
	return &c, by, err
}

func (q *Quorum) applyCommand(c Command, isOwn bool) (Result, error) {
	q.view.Lock()
	result, err := q.image.Apply(c)
	result.IsOwn = isOwn
	if result.Snapshot {
		result.Jumped, q.isBehind = q.isBehind, false
	}
	q.view.Unlock()
	if err == nil && q.applied != nil {
		q.view.RLock()
		q.applied(q.image, c, result)
		q.view.RUnlock()
	}
	return result, err
}

// applyMembers makes new members, or the second half of a change, valid.
func (q *Quorum) applyMembers(e *raftpb.Entry) error {
	change := &raftpb.ConfChangeV2{}
	if err := proto.Unmarshal(e.GetData(), change); err != nil {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	q.image.interrupt()
	q.members = membersOf(q.node.ApplyConfChange(change))
	for _, id := range q.members.all() {
		if q.heard[id].IsZero() { // who is new has a while to make itself heard
			q.heard[id] = q.now
		}
	}
	q.logger.Info("metadata members", "voters", q.members.Voters, "learners", q.members.Learners, "leaving", q.members.Outgoing)
	if by := string(change.GetContext()); by != "" {
		if p, ok := q.proposals[by]; ok {
			delete(q.proposals, by)
			q.answer(p.done, Result{}, nil)
		}
	}
	return nil
}
