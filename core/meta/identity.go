package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/weirlog/weir/storage"
)

// ErrIdentity is a data folder that is another node's than was said.
var ErrIdentity = errors.New("the data folder is another node's")

// Identity says which node of which cluster a data folder is. It never changes: a folder that was wiped is nobody's, and joins under
// a new id.
type Identity struct {
	Node      int32
	ClusterID string  // may be empty while the cluster has none
	Voters    []int32 // as of the log's base; empty: it has joined, and the leader has not told it yet

	isFounded bool
}

// IsFounded says that the folder is a voter's who has neither voted nor appended anything.
func (i Identity) IsFounded() bool { return i.isFounded }

// ReadIdentity is the identity in a data folder; false: it has none, being fresh or older than identities.
func ReadIdentity(s *storage.Store) (Identity, bool, error) {
	st, ok, err := readState(s)
	if !ok || err != nil {
		return Identity{}, false, err
	}
	i := Identity{Node: st.Node, ClusterID: st.ClusterID, Voters: st.Base.Voters}
	log := s.Log(LogID())
	i.isFounded = len(i.Voters) > 0 && st.Term <= 1 && st.Vote == 0 && st.Base.Index == 1 && (log == nil || log.EndOffset() == 0)
	return i, true, nil
}

// WriteIdentity makes a data folder that is fresh or founded a node's: a voter among Voters, or with none one that joins.
// Nothing may be promised in its name before the ticket is durable.
func WriteIdentity(s *storage.Store, i Identity) (storage.Ticket, error) {
	old, ok, err := ReadIdentity(s)
	switch {
	case err != nil:
		return 0, err
	case ok && !old.IsFounded(), !ok && s.Log(LogID()) != nil:
		return 0, fmt.Errorf("make node %d: %w", i.Node, ErrIdentity)
	case i.Node < 1 || len(i.Voters) > 0 && !slices.Contains(i.Voters, i.Node):
		return 0, fmt.Errorf("make node %d among voters %v: %w", i.Node, i.Voters, ErrIdentity)
	}
	st := hardState{V: stateVersion, Node: i.Node, ClusterID: i.ClusterID}
	if len(i.Voters) > 0 {
		st.Base = firstBase(i.Voters)
	}
	return st.put(s)
}

// stateVersion is the newest form of the hard state that this code writes and reads.
const stateVersion = 1

// hardState is the store's: what raft must remember besides its entries. In the write-ahead log it is JSON:
//
//	{"v":1,"node":1,"cluster_id":"…","term":3,"vote":1,"commit":17,"base":{"index":1,"term":1,"voters":[1]}}
//
// Entries are put before the state that came with them, so commit lies in the log. The base is put before the log
// begins at it, so a log that doesn't is made to at the next start.
type hardState struct {
	V         int    `json:"v"`
	Node      int32  `json:"node"`
	ClusterID string `json:"cluster_id,omitempty"`
	Term      uint64 `json:"term,omitempty"`
	Vote      int32  `json:"vote,omitempty"`
	Commit    uint64 `json:"commit,omitempty"`
	Base      base   `json:"base"`
}

// base is the entry before the log's first, and who the members were when it was applied. A node that joins has the zero
// base until the leader's snapshot, which is a base and nothing else.
type base struct {
	Index uint64 `json:"index,omitempty"`
	Term  uint64 `json:"term,omitempty"`
	members
}

// members is raft's ConfState.
type members struct {
	Voters    []int32 `json:"voters,omitempty"`
	Learners  []int32 `json:"learners,omitempty"`
	Outgoing  []int32 `json:"outgoing,omitempty"`      // voters that a change under way will remove or demote
	Next      []int32 `json:"learners_next,omitempty"` // of those, the ones that will be learners
	AutoLeave bool    `json:"auto_leave,omitempty"`
}

// firstBase is the base of a group that begins: index 1, the state before anything, at term 1.
func firstBase(voters []int32) base {
	return base{Index: 1, Term: 1, members: members{Voters: voters}}
}

func readState(s *storage.Store) (st hardState, ok bool, err error) {
	b := s.HardState()
	if len(b) == 0 {
		return hardState{}, false, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&st); err != nil {
		return hardState{}, false, fmt.Errorf("hard state: %w: %w", ErrVersion, err)
	}
	if st.V != stateVersion || st.Node < 1 {
		return hardState{}, false, fmt.Errorf("hard state of node %d: %w: version %d, known is %d", st.Node, ErrVersion, st.V, stateVersion)
	}
	return st, true, nil
}

// put puts the state into the write-ahead log.
func (st *hardState) put(s *storage.Store) (storage.Ticket, error) {
	b, err := json.Marshal(st)
	if err != nil {
		return 0, err
	}
	return s.SetHardState(b)
}

// confState is the members as raft has them.
func (m *members) confState() *raftpb.ConfState {
	return &raftpb.ConfState{
		Voters: raftIDs(m.Voters), Learners: raftIDs(m.Learners), VotersOutgoing: raftIDs(m.Outgoing), LearnersNext: raftIDs(m.Next),
		AutoLeave: new(m.AutoLeave),
	}
}

func membersOf(c *raftpb.ConfState) members {
	return members{
		Voters: nodeIDs(c.GetVoters()), Learners: nodeIDs(c.GetLearners()), Outgoing: nodeIDs(c.GetVotersOutgoing()),
		Next: nodeIDs(c.GetLearnersNext()), AutoLeave: c.GetAutoLeave(),
	}
}

// has says that a node is a member, in whatever role.
func (m *members) has(id int32) bool {
	return slices.Contains(m.Voters, id) || slices.Contains(m.Learners, id) || slices.Contains(m.Outgoing, id) || slices.Contains(m.Next, id)
}

// isSole says that a node's own vote is a majority.
func (m *members) isSole(id int32) bool {
	return len(m.Voters) == 1 && m.Voters[0] == id && len(m.Outgoing) == 0
}

// all is every member, by id.
func (m *members) all() []int32 {
	ids := slices.Concat(m.Voters, m.Learners, m.Outgoing, m.Next)
	slices.Sort(ids)
	return slices.Compact(ids)
}

func raftIDs(ids []int32) []uint64 {
	var raftIDs []uint64
	for _, id := range ids {
		raftIDs = append(raftIDs, uint64(id))
	}
	return raftIDs
}

func nodeIDs(ids []uint64) []int32 {
	var nodeIDs []int32
	for _, id := range ids {
		nodeIDs = append(nodeIDs, int32(id))
	}
	slices.Sort(nodeIDs)
	return nodeIDs
}
