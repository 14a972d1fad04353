package core

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirlog/weir/core/meta"
)

// How forming is timed.
const (
	probeEvery = 250 * time.Millisecond
	probeValid = 4 * probeEvery // an older answer counts for nothing
)

// former is how a node without a cluster gets one: fresh nodes that have the same list form it, and whoever meets members joins them. It is a pure
// machine: time, answers and requests in, calls and an identity out. It sends nothing and writes nothing.
//
//	fresh ── meets members ─────────────────────────────────► Join: an id ──► identity (a node that joins)
//	  │                                                                            │
//	  ├─ first of the list, all others fresh or founded ──► Found to each ──► all have answered: identity (a voter) ──► started
//	  └─ Found ──► identity (a voter): founded ──► one of the cluster has started ─────────────────────────────────────► started
//
// Invariants:
//
//  1. Who has answered that it is fresh or founded has promised nothing: Found names the nonce of that answer, and each Found that is taken
//     draws another. Each attempt to found has a cluster id of its own. So a node's id in a cluster is one folder's at most.
//  2. Nobody starts, and so nobody votes, before all founders have an identity of the same attempt durably: the founder has their answers, and the others
//     see that someone of their cluster has started. Founders that haven't started may be founded anew, or join another cluster.
//  3. A fresh node that meets its cluster isn't the founder that it perhaps was before its folder was wiped: it joins under a new id.
type former struct {
	self  string   // advertised address
	list  []string // --join; of these the first three are the founders
	want  int32    // node.id; 0: any
	token string   // of this process
	rand  io.Reader

	identity  meta.Identity // founded, or the zero one: fresh
	nonce     string        // of this state
	peers     map[string]*formPeer
	probeAt   time.Time
	clusterID string          // of the attempt that this founder makes
	founding  map[string]bool // who hasn't answered it yet; nil: none is under way
	nodes     []foundNode     // whom it founds
	turns     int             // beginnings and ends of attempts: what was asked before one says nothing after it
	joining   bool            // a member was asked for an id
	joinAt    time.Time       // another is asked then
	joinErr   error           // why the newest gave none
	calls     []formCall

	outcome *meta.Identity
	fault   error
}

// formPeer is another node of the list.
type formPeer struct {
	isProbed bool // and hasn't answered yet
	turn     int  // when it was asked
	answer   probeAnswer
	heardAt  time.Time // zero: never
	err      error     // of the newest probe
}

// formCall is a request to a node without a name.
type formCall struct {
	to   string
	key  int16
	body any
}

// Errors of forming.
var (
	errJoin  = errors.New("can't form or join a cluster")
	errFound = errors.New("can't be founded")
)

// maxFounders is how many nodes form a cluster; those behind them in the list join it.
const maxFounders = meta.MaxVoters

func founders(list []string) []string { return list[:min(len(list), maxFounders)] }

// newFormer begins with what the folder is: fresh (the zero identity) or founded.
func newFormer(self string, list []string, want int32, folder meta.Identity, rand io.Reader) (*former, error) {
	f := &former{self: self, list: list, want: want, rand: rand, identity: folder, peers: make(map[string]*formPeer)}
	var err error
	if f.token, err = drawNonce(rand); err != nil {
		return nil, err
	}
	if f.nonce, err = drawNonce(rand); err != nil {
		return nil, err
	}
	for _, addr := range list {
		if addr != self {
			f.peers[addr] = &formPeer{}
		}
	}
	return f, nil
}

func drawNonce(rand io.Reader) (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", fmt.Errorf("draw a nonce: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

func (f *former) isFresh() bool { return f.identity.Node == 0 }

// ended says that step and handle have no more to do: the outcome is to be made durable (if it isn't the folder's already), or the fault told.
func (f *former) ended() bool { return f.outcome != nil || f.fault != nil }

// step gives the calls that are due.
func (f *former) step(now time.Time) []formCall {
	if f.ended() {
		return nil
	}
	calls := f.calls
	f.calls = nil
	if now.Before(f.probeAt) {
		return calls
	}
	f.probeAt = now.Add(probeEvery)
	for _, addr := range f.list {
		if p := f.peers[addr]; p != nil && !p.isProbed {
			p.isProbed, p.turn = true, f.turns
			calls = append(calls, formCall{addr, keyProbe, probeRequest{}})
		}
	}
	return calls
}

// next is when step wants to be called again.
func (f *former) next() time.Time { return f.probeAt }

// probed takes a node's answer to Probe, or why there is none.
func (f *former) probed(now time.Time, addr string, a probeAnswer, err error) {
	p := f.peers[addr]
	p.isProbed, p.err, p.heardAt = false, err, time.Time{}
	if err != nil || p.turn != f.turns {
		return
	}
	p.answer, p.heardAt = a, now
	f.decide(now)
}

// decide does what has become possible.
func (f *former) decide(now time.Time) {
	if f.ended() {
		return
	}
	heard := f.heard(now)
	if f.fault = f.conflict(heard); f.fault != nil {
		return
	}
	switch member := firstIn(f.list, heard, stateMember); {
	case f.founding == nil && f.hasStarted(heard):
		f.outcome = &f.identity
	case member == "":
		f.found(heard)
	case f.founding == nil && !f.joining && !now.Before(f.joinAt):
		f.joining = true
		f.calls = append(f.calls, formCall{member, keyJoin, joinRequest{Want: f.want, Address: f.self}})
	}
}

// heard is the answers that count.
func (f *former) heard(now time.Time) map[string]probeAnswer {
	heard := make(map[string]probeAnswer)
	for addr, p := range f.peers {
		if !p.heardAt.IsZero() && now.Sub(p.heardAt) < probeValid {
			heard[addr] = p.answer
		}
	}
	return heard
}

// firstIn is the first address of the list that has answered with a state.
func firstIn(list []string, heard map[string]probeAnswer, s nodeState) string {
	for _, addr := range list {
		if a, ok := heard[addr]; ok && a.State == s {
			return addr
		}
	}
	return ""
}

// hasStarted says that this node is founded, and a node of its cluster has started (invariant 2).
func (f *former) hasStarted(heard map[string]probeAnswer) bool {
	for _, a := range heard {
		if !f.isFresh() && a.ClusterID == f.identity.ClusterID && (a.State == stateStarted || a.State == stateMember) {
			return true
		}
	}
	return false
}

// conflict is why this node can't become one of a cluster, whatever else happens.
func (f *former) conflict(heard map[string]probeAnswer) error {
	var member string
	for _, addr := range f.list {
		a, ok := heard[addr]
		switch {
		case !ok:
			continue
		case a.Token == f.token:
			return fmt.Errorf("%w: %s is this node itself, which tells others that it is %s: make advertised.listeners what --join has", errJoin, addr, f.self)
		case f.want != 0 && a.claimed() == f.want:
			return fmt.Errorf("%w: node.id %d is %s's too: give each node its own", errJoin, f.want, addr)
		case a.State != stateMember:
			continue
		case member != "" && a.ClusterID != heard[member].ClusterID:
			return fmt.Errorf("%w: %s is a node of cluster %s, and %s of %s: --join wants nodes of one cluster",
				errJoin, member, heard[member].ClusterID, addr, a.ClusterID)
		}
		member = addr
	}
	return nil
}

// found founds the cluster, if that is this node's part, and all others have answered what it takes.
func (f *former) found(heard map[string]probeAnswer) {
	all := founders(f.list)
	if all[0] != f.self || f.founding != nil {
		return
	}
	for _, addr := range all[1:] {
		if a, ok := heard[addr]; !ok || !f.isMate(a) {
			return
		}
	}
	if f.nodes, f.fault = f.number(all, heard); f.fault != nil {
		return
	}
	id, err := randomID(f.rand)
	if err != nil {
		f.fault = fmt.Errorf("draw a cluster id: %w", err)
		return
	}
	f.turn()
	f.clusterID, f.founding = clusterID(id), make(map[string]bool)
	for _, addr := range all[1:] {
		f.founding[addr] = true
		f.calls = append(f.calls, formCall{addr, keyFound, foundRequest{ClusterID: f.clusterID, Nodes: f.nodes, Address: addr, Nonce: heard[addr].Nonce}})
	}
}

// turn makes all answers so far count for nothing: an attempt changes what others are.
func (f *former) turn() {
	f.turns++
	for _, p := range f.peers {
		p.heardAt = time.Time{}
	}
}

// isMate says that a node is one to form a cluster with.
func (f *former) isMate(a probeAnswer) bool {
	return (a.State == stateFresh || a.State == stateFounded) && slices.Equal(founders(a.Join), founders(f.list))
}

// number gives each founder its node.id, or its place in the list.
func (f *former) number(all []string, heard map[string]probeAnswer) ([]foundNode, error) {
	nodes := make([]foundNode, len(all))
	holders := make(map[int32]string)
	for i, addr := range all {
		id := heard[addr].Want
		if addr == f.self {
			id = f.want
		}
		if id == 0 {
			id = int32(i + 1)
		}
		if before, ok := holders[id]; ok {
			return nil, fmt.Errorf("%w: node.id %d would be both %s's and %s's: give every node its own node.id, or none of them one", errJoin, id, before, addr)
		}
		holders[id] = addr
		nodes[i] = foundNode{ID: id, Address: addr}
	}
	return nodes, nil
}

// founded takes a founder's answer to Found.
func (f *former) founded(addr string, err error) {
	if f.ended() || f.founding == nil || !f.founding[addr] {
		return
	}
	if err != nil {
		f.turn()
		f.founding, f.peers[addr].err = nil, err
		return
	}
	if delete(f.founding, addr); len(f.founding) == 0 {
		f.outcome = founderOf(f.clusterID, f.nodes, f.self)
	}
}

// founderOf is the identity of one of a cluster's founders.
func founderOf(clusterID string, nodes []foundNode, address string) *meta.Identity {
	i := &meta.Identity{ClusterID: clusterID}
	for _, n := range nodes {
		i.Voters = append(i.Voters, n.ID)
		if n.Address == address {
			i.Node = n.ID
		}
	}
	slices.Sort(i.Voters)
	return i
}

// joined takes a member's answer to Join: an id, or why there is none. isFinal: it will be the same next time.
func (f *former) joined(now time.Time, a joinAnswer, err error, isFinal bool) {
	f.joining, f.joinAt, f.joinErr = false, now.Add(probeEvery), err
	switch {
	case f.ended():
	case isFinal:
		f.fault = fmt.Errorf("%w: node.id %d: %w: leave node.id out, or set one that no node has had", errJoin, f.want, err)
	case err == nil:
		f.outcome = &meta.Identity{Node: a.Node, ClusterID: a.ClusterID}
	}
}

// probe answers Probe.
func (f *former) probe() probeAnswer {
	a := probeAnswer{State: stateFresh, Want: f.want, Node: f.want, Join: f.list, Nonce: f.nonce, Token: f.token}
	if !f.isFresh() {
		a.State, a.Node, a.ClusterID = stateFounded, f.identity.Node, f.identity.ClusterID
	}
	return a
}

// takeFound judges Found. Without an error the identity is to be made durable before wrote is called and the answer is given.
func (f *former) takeFound(r foundRequest) (*meta.Identity, error) {
	var addresses []string
	ids := make(map[int32]bool)
	for _, n := range r.Nodes {
		addresses = append(addresses, n.Address)
		ids[n.ID] = n.ID > 0
	}
	i := founderOf(r.ClusterID, r.Nodes, f.self)
	switch {
	case f.ended() || f.joining:
		return nil, fmt.Errorf("%w: this node has found another cluster", errFound)
	case r.Nonce != f.nonce || r.Address != f.self:
		return nil, fmt.Errorf("%w: it was made for what this node was before", errFound)
	case !slices.Equal(addresses, founders(f.list)) || len(addresses) < 2:
		return nil, fmt.Errorf("%w: it names other nodes (%s) than this node's --join (%s)", errFound, strings.Join(addresses, ","), strings.Join(f.list, ","))
	case r.ClusterID == "" || i.Node == 0 || len(ids) != len(addresses) || slices.Contains(slices.Collect(maps.Values(ids)), false):
		return nil, fmt.Errorf("%w: its ids make no cluster", errFound)
	case f.want != 0 && i.Node != f.want:
		return nil, fmt.Errorf("%w: it makes this node %d, and its node.id is %d", errFound, i.Node, f.want)
	}
	return i, nil
}

// wrote is told that the identity of a Found is durable.
func (f *former) wrote(i meta.Identity) error {
	nonce, err := drawNonce(f.rand)
	if err != nil {
		return err
	}
	f.identity, f.nonce, f.founding = i, nonce, nil
	return nil
}

// waitsFor says, for people, what is missing.
func (f *former) waitsFor(now time.Time) string {
	heard := f.heard(now)
	var missing []string
	for _, addr := range f.list {
		p := f.peers[addr]
		a, isHeard := heard[addr]
		switch {
		case p == nil:
		case p.err != nil:
			missing = append(missing, fmt.Sprintf("%s: %v", addr, p.err))
		case !isHeard:
			missing = append(missing, addr+": no answer yet")
		case a.State == stateStarted && f.isFresh():
			missing = append(missing, fmt.Sprintf("%s: has an id in cluster %s, which has no leader yet; this node, whose data folder is new, can join when it has one", addr, a.ClusterID))
		case (a.State == stateFresh || a.State == stateFounded) && !f.isMate(a) && slices.Contains(founders(f.list), addr):
			missing = append(missing, fmt.Sprintf("%s: is new too, and its --join is %s: nodes that form a cluster want the same list, with all of them in the same order", addr, strings.Join(a.Join, ",")))
		}
	}
	if f.joinErr != nil {
		missing = append(missing, fmt.Sprintf("a member of the cluster, to get an id: %v", f.joinErr))
	}
	if !slices.Contains(founders(f.list), f.self) && firstIn(f.list, heard, stateMember) == "" {
		missing = append(missing, "a node of the cluster to join; a node that --join doesn't name is no founder of a new one")
	}
	if len(missing) == 0 {
		return "the others to agree"
	}
	return strings.Join(missing, "; ")
}
