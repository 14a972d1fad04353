package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// errMessage is bytes from a peer that are no messages for this node.
var errMessage = errors.New("not a message of the metadata's group")

// Step takes what the Quorum of another node gave to its Send. It keeps nothing of messages.
func (q *Quorum) Step(from int32, messages []byte, now time.Time) error {
	var decoded []*raftpb.Message
	for b := messages; len(b) > 0; {
		if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
			return fmt.Errorf("%w: cut short", errMessage)
		}
		size := binary.BigEndian.Uint32(b)
		m := &raftpb.Message{}
		if err := proto.Unmarshal(b[4:4+size], m); err != nil {
			return fmt.Errorf("%w: %w", errMessage, err)
		}
		isForwarded := m.GetType() == raftpb.MsgProp || m.GetType() == raftpb.MsgTransferLeader // in another's name
		if m.GetFrom() != uint64(from) && !isForwarded || m.GetTo() != uint64(q.id) {
			return fmt.Errorf("%w: from %d to %d", errMessage, m.GetFrom(), m.GetTo())
		}
		decoded = append(decoded, m)
		b = b[4+size:]
	}
	q.do(now, func() {
		q.heard[from] = q.now
		for _, m := range decoded {
			q.step(m)
		}
	})
	return nil
}

// step gives raft one message of a peer.
func (q *Quorum) step(m *raftpb.Message) {
	switch {
	case q.failed != nil:
		return
	case m.GetType() == raftpb.MsgProp && q.leader.id == q.id && q.admit(proto.Size(m)) != nil:
		return // who proposed it will give up
	case m.GetType() == raftpb.MsgSnap:
		q.joinSnapshot(m)
	}
	q.guard(func() {
		_ = q.node.Step(m) // what raft refuses is as if it was lost
		q.pump()
	})
}

// joinSnapshot makes this node a learner in a snapshot of a time before it was a member, since raft takes no other. The entry that makes it
// one follows.
func (q *Quorum) joinSnapshot(m *raftpb.Message) {
	c := m.GetSnapshot().GetMetadata().GetConfState()
	if ms := membersOf(c); c != nil && !ms.has(q.id) {
		c.Learners = append(c.Learners, uint64(q.id))
	}
}

// say puts a message into its peer's outbox: its length, uint32, and its bytes.
func (q *Quorum) say(m *raftpb.Message) {
	to := int32(m.GetTo())
	if m.GetType() == raftpb.MsgSnap { // it is small, and if it is lost an append will find out
		defer q.node.ReportSnapshot(m.GetTo(), raft.SnapshotFinish)
	}
	if q.isSilent || q.send == nil {
		return
	}
	b := q.outbox[to]
	at := len(b)
	b, err := proto.MarshalOptions{}.MarshalAppend(append(b, 0, 0, 0, 0), m)
	if err != nil {
		q.fail(fmt.Errorf("encode message: %w", err))
		return
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	q.outbox[to] = b
}

// flush sends what the outboxes hold.
func (q *Quorum) flush() {
	for _, to := range slices.Sorted(maps.Keys(q.outbox)) {
		q.send(to, q.outbox[to])
		delete(q.outbox, to)
	}
}
