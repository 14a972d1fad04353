package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/cryptotest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// cluster is a whole group on one goroutine: memory disks, a memory network, one clock, faults by a seed.
type cluster struct {
	rng     *rand.Rand
	now     time.Time
	nodes   []*member
	packets []packet
	cuts    map[[2]int32]bool
	isBad   bool // faults are under way
	faults  Faults
	reuse   bool // mutation: a wiped node comes back as the voter that it was

	voters  int // wanted
	nextID  int32
	wiped   int32 // a voter whose disk is gone, until it is none any more; 0: none
	entries map[uint64]*raftpb.Entry
	leaders map[uint64]int32
	names   int
	acked   map[string]bool
	waiting int // proposals of nodes that live
	fault   string

	stats clusterStats
}

type clusterStats struct {
	crashes, acks, jumps, elections, changes, wipes, snapshots, busy, silent int
}

// member is one node and its disk.
type member struct {
	c    *cluster
	id   int32
	mem  *vfs.Mem
	s    *storage.Store
	q    *Quorum // nil while it is down
	life int

	last    uint64 // index applied last, in this life
	waiting int
	hungAt  time.Time // zero: the disk works
	downFor time.Time // starts again then
}

type packet struct {
	at       time.Time
	from, to int32
	b        []byte
}

func (c *cluster) failf(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(format, args...)
	}
}

func (c *cluster) chance(percent int) bool { return c.rng.IntN(100) < percent }

func newCluster(seed uint64, f Faults, reuse bool) *cluster {
	c := &cluster{
		rng: rand.New(rand.NewPCG(seed, 3)), now: time.UnixMilli(1_700_000_000_000), cuts: make(map[[2]int32]bool), faults: f, reuse: reuse,
		entries: make(map[uint64]*raftpb.Entry), leaders: make(map[uint64]int32), acked: make(map[string]bool), voters: 3,
	}
	if c.chance(25) {
		c.voters = 5
	}
	founders := 1
	if c.chance(50) {
		founders = c.voters
	}
	var voters []int32
	for id := int32(1); id <= int32(founders); id++ {
		voters = append(voters, id)
	}
	for _, id := range voters {
		n := c.add(id)
		if founders > 1 {
			n.found(voters)
		}
	}
	for len(c.nodes) < c.voters+c.rng.IntN(2) {
		c.add(int32(len(c.nodes) + 1)).found(nil)
	}
	c.nextID = int32(len(c.nodes) + 1)
	for _, n := range c.nodes {
		n.start()
	}
	return c
}

func (c *cluster) add(id int32) *member {
	n := &member{c: c, id: id, mem: vfs.NewMem()}
	c.nodes = append(c.nodes, n)
	return n
}

// found gives the folder an identity, durably.
func (n *member) found(voters []int32) {
	if !n.openStore() {
		return
	}
	if _, err := WriteIdentity(n.s, Identity{Node: n.id, ClusterID: "c", Voters: voters}); err != nil {
		n.c.failf("node %d: %v", n.id, err)
	}
	if _, err := n.s.Commit(n.c.now); err != nil {
		n.c.failf("node %d: %v", n.id, err)
	}
	if i, ok, err := ReadIdentity(n.s); !ok || err != nil || i.Node != n.id || i.IsFounded() != (len(voters) > 0) {
		n.c.failf("node %d: identity %+v, %v, %v", n.id, i, ok, err)
	}
	n.mem = n.mem.CrashClone(n.c.rng)
}

func (n *member) openStore() bool {
	s, err := storage.Open(storage.Options{FS: n.mem, Dir: "/data", WALFileBytes: 32 << 10, TailBytes: 1 << 20, RetentionInterval: -1})
	if err != nil {
		if !n.mem.Crashed() {
			n.c.failf("node %d: open store: %v", n.id, err)
		}
		return false
	}
	n.s = s
	return true
}

// start opens the node, whose disk may crash on the way.
func (n *member) start() {
	c := n.c
	if c.isBad && c.chance(10) {
		n.mem.CrashAt(n.mem.Ops()+1+int64(c.rng.IntN(20)), c.chance(50))
	}
	n.life++
	n.last, n.waiting, n.hungAt = 0, 0, time.Time{}
	if !n.openStore() {
		n.kill()
		return
	}
	q, err := Open(Options{
		Store: n.s, Node: n.id, MaxCommandBytes: 1 << 14, SnapshotEvery: 8, Now: c.now, Send: n.send, Faults: c.faults, onApply: n.applied,
		messageBytes: uint64(1 + c.rng.IntN(3000)),
		Rand:         rand.NewChaCha8([32]byte{byte(n.id), byte(n.life)}),
		Applied: func(_ *Image, _ Command, r Result) {
			if r.Jumped {
				c.stats.jumps++
			}
		},
	})
	if err != nil {
		if !n.mem.Crashed() {
			c.failf("node %d: open: %v", n.id, err)
		}
		n.kill()
		return
	}
	n.q = q
	q.perPart = 1 + c.rng.IntN(6)
	q.stalled = func(now time.Time) time.Duration {
		if n.hungAt.IsZero() {
			return 0
		}
		return now.Sub(n.hungAt)
	}
}

// kill is kill -9 and a loss of power: what was not synced may be gone, or torn.
func (n *member) kill() {
	c := n.c
	c.waiting -= n.waiting
	n.q, n.s = nil, nil
	n.mem = n.mem.CrashClone(c.rng)
	n.downFor = c.now.Add(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
	c.stats.crashes++
}

func (n *member) send(to int32, b []byte) {
	c := n.c
	if n.q != nil && n.q.isSilent {
		c.failf("node %d speaks while its disk hangs", n.id)
	}
	if c.isBad && c.chance(5) {
		return
	}
	for again := true; again; again = c.isBad && c.chance(3) {
		delay := time.Duration(c.rng.IntN(8)) * time.Millisecond
		if c.isBad && c.chance(10) {
			delay = time.Duration(c.rng.IntN(2000)) * time.Millisecond
		}
		c.packets = append(c.packets, packet{c.now.Add(delay), n.id, to, slices.Clone(b)})
	}
}

// applied is told of every entry before it is applied.
func (n *member) applied(e *raftpb.Entry) {
	c, index := n.c, e.GetIndex()
	if n.s.Log(LogID()).DurableEnd() <= offsetOf(index) {
		c.failf("node %d applies entry %d, which isn't durable", n.id, index)
	}
	if n.last != 0 && index != n.last+1 && !(n.q != nil && n.q.log.base().Index == index-1) {
		c.failf("node %d applies entry %d after %d", n.id, index, n.last)
	}
	n.last = index
	known := c.entries[index]
	if known == nil {
		c.entries[index] = e
		return
	}
	if !isSame(known, e) {
		c.failf("node %d applies entry %d of term %d as %q; others that of term %d as %q", n.id, index, e.GetTerm(), e.GetData(), known.GetTerm(), known.GetData())
	}
}

func (n *member) propose() {
	c, life := n.c, n.life
	c.names++
	name := fmt.Sprint("t", c.names)
	cmd := Command{CreateTopic: &CreateTopic{ID: ID{byte(c.names), byte(c.names >> 8), 7}, Name: name, Replicas: [][]int32{{1}}}}
	switch c.rng.IntN(8) {
	case 0:
		cmd, name = Command{RegisterBroker: &RegisterBroker{ID: n.id}}, ""
	case 1:
		cmd, name = Command{AllocateProducerIDs: &AllocateProducerIDs{Broker: n.id, Count: 10}}, ""
	case 2, 3:
		n.q.View(func(m *Image) {
			b, _ := m.Broker(1)
			cmd, name = Command{ChangeBroker: &ChangeBroker{ID: 1, Generation: b.Generation}}, ""
		})
	case 4:
		t := ID{byte(1 + c.rng.IntN(c.names)), byte(c.names >> 8), 7}
		cmd, name = Command{DeleteTopic: &DeleteTopic{ID: t}}, ""
	}
	if c.names == 1 {
		cmd, name = Command{RegisterBroker: &RegisterBroker{ID: 1}}, ""
	}
	q, done := n.q, false
	n.waiting++
	c.waiting++
	q.Propose(cmd, c.now, func(r Result, err error) {
		if done {
			c.failf("node %d: a proposal is answered twice", n.id)
		}
		done = true
		if n.life == life && n.q != nil {
			n.waiting--
			c.waiting--
		}
		switch {
		case errors.Is(err, storage.ErrBusy) || errors.Is(err, storage.ErrDiskFull):
			c.stats.busy++
		case err == nil && name != "":
			c.stats.acks++
			c.acked[name] = true
			q.View(func(m *Image) {
				if m.Topic(name) == nil && r.Topic == nil {
					c.failf("node %d: %s is answered before it is applied", n.id, name)
				}
			})
		}
	})
}

// live is the nodes that are up.
func (c *cluster) live() []*member {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *member) bool { return n.q == nil })
}

func (c *cluster) byID(id int32) *member {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// leader is the leader of the newest term, nil if there is none.
func (c *cluster) leader() *member {
	var newest *member
	for _, n := range c.live() {
		if n.q.leader.id == n.id && (newest == nil || n.q.leader.term > newest.q.leader.term) {
			newest = n
		}
	}
	return newest
}

// step lets a little time pass.
func (c *cluster) step() {
	c.now = c.now.Add(time.Duration(1+c.rng.IntN(60)) * time.Millisecond)
	if c.isBad {
		c.breakSomething()
	}
	c.deliver()
	for _, i := range c.rng.Perm(len(c.nodes)) {
		n := c.nodes[i]
		if n.q == nil {
			if c.now.After(n.downFor) && n.id != c.wiped {
				n.start()
			}
			continue
		}
		n.step()
	}
	if c.chance(20) {
		c.control()
	}
	c.check()
}

func (n *member) step() {
	c := n.c
	if c.chance(90) {
		n.q.Tick(c.now)
	}
	if c.chance(20) {
		n.propose()
	}
	if n.hungAt.IsZero() && c.chance(70) {
		for range 1 + c.rng.IntN(2) {
			done, _ := n.s.Commit(c.now)
			for _, complete := range done {
				complete()
			}
		}
	}
	if n.hungAt.IsZero() && c.chance(15) {
		_ = n.s.Flush(c.now)
	}
	if n.mem.Crashed() {
		n.kill()
	} else if err := n.q.Err(); err != nil {
		c.failf("node %d: %v", n.id, err)
	}
}

// deliver gives the packets that are due, in whatever order.
func (c *cluster) deliver() {
	var due, later []packet
	for _, p := range c.packets {
		if p.at.After(c.now) {
			later = append(later, p)
		} else {
			due = append(due, p)
		}
	}
	c.packets = later
	if c.isBad {
		c.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	}
	for _, p := range due {
		n := c.byID(p.to)
		if n == nil || n.q == nil || c.cuts[[2]int32{p.from, p.to}] {
			continue
		}
		if err := n.q.Step(p.from, p.b, c.now); err != nil {
			c.failf("node %d: %v", n.id, err)
		}
	}
}

func (c *cluster) breakSomething() {
	n := c.nodes[c.rng.IntN(len(c.nodes))]
	switch c.rng.IntN(160) {
	case 0:
		if n.q != nil {
			n.kill()
		}
	case 1:
		n.mem.CrashAt(n.mem.Ops()+1+int64(c.rng.IntN(10)), c.chance(50))
	case 2, 3:
		other := c.nodes[c.rng.IntN(len(c.nodes))]
		c.cuts[[2]int32{n.id, other.id}] = true
		if c.chance(50) {
			c.cuts[[2]int32{other.id, n.id}] = true
		}
	case 4:
		for _, other := range c.nodes {
			c.cuts[[2]int32{n.id, other.id}], c.cuts[[2]int32{other.id, n.id}] = true, true
		}
	case 5, 6, 7:
		clear(c.cuts)
	case 8:
		n.hungAt = c.now
	case 9, 10:
		for _, n := range c.nodes {
			n.hungAt = time.Time{}
		}
	case 11:
		if l := c.leader(); l != nil {
			l.q.Transfer(n.id, c.now)
		}
	case 12:
		c.wipe(n)
	case 14, 15, 16, 17, 18: // who may just have voted, and is back at once
		if n.q != nil && c.leader() == nil {
			n.kill()
			n.downFor = c.now
		}
	case 13: // everything at once, as when power is cut
		if c.chance(20) {
			for _, n := range c.live() {
				n.kill()
			}
		}
	}
}

// wipe loses a disk for good, if the group can bear it.
func (c *cluster) wipe(n *member) {
	l := c.leader()
	if c.wiped != 0 || l == nil || l == n || len(l.q.members.Voters) < 3 || len(l.q.members.Outgoing) > 0 {
		return
	}
	c.stats.wipes++
	if n.q != nil {
		n.kill()
	}
	id := n.id
	if c.reuse {
		n.mem = vfs.NewMem()
		n.found([]int32{1, 2, 3})
		return
	}
	n.mem = vfs.NewMem()
	c.wiped = id
	c.add(c.nextID).found(nil)
	c.nextID++
}

// control is what the broker's controller does on the leader: new nodes become learners, learners that have caught up voters, in the place of
// what is gone.
func (c *cluster) control() {
	l := c.leader()
	if l == nil || len(l.q.members.Outgoing) > 0 {
		return
	}
	m, status := l.q.members, l.q.Status()
	e := electorate{members: m, most: c.voters}
	for _, n := range c.nodes {
		if n.id != c.wiped {
			e.brokers = append(e.brokers, n.id)
		}
	}
	e.isGone = func(id int32) bool { return !slices.Contains(e.brokers, id) }
	e.isReady = func(id int32) bool {
		i := slices.IndexFunc(status.Members, func(s MemberStatus) bool { return s.Node == id })
		return !e.isGone(id) && status.Members[i].Match > status.Commit-20
	}
	voters, learners := e.wanted()
	l.q.ChangeMembers(voters, learners, c.now, func(err error) {
		if err == nil {
			c.stats.changes++
		}
	})
	if c.wiped != 0 && !m.has(c.wiped) && l.q.log.state.Commit > 0 {
		gone := c.wiped
		isOut := true
		for _, n := range c.live() { // nobody counts on it any more
			isOut = isOut && !n.q.members.has(gone)
		}
		if isOut {
			c.nodes = slices.DeleteFunc(c.nodes, func(n *member) bool { return n.id == gone })
			c.wiped = 0
		}
	}
}

func (c *cluster) check() {
	for _, n := range c.live() {
		if n.q.isSilent {
			c.stats.silent++
		}
		if n.q.leader.id != n.id {
			continue
		}
		if other := c.leaders[n.q.leader.term]; other == 0 {
			c.leaders[n.q.leader.term] = n.id
			c.stats.elections++
		} else if other != n.id {
			c.failf("nodes %d and %d lead in term %d", other, n.id, n.q.leader.term)
		}
	}
}

// converge ends the faults, and says whether the group is one again.
func (c *cluster) converge() {
	c.isBad = false
	clear(c.cuts)
	for _, n := range c.nodes {
		n.hungAt, n.downFor = time.Time{}, time.Time{}
		n.mem.CrashAt(0, false)
	}
	names := c.names
	for range 3000 {
		c.step()
		if c.fault != "" || c.isOne() && c.names > names+20 {
			break
		}
	}
	if c.fault == "" && !c.isOne() {
		c.failf("after the faults the group doesn't become one: %s", c.describe())
	}
	c.quiesce()
}

// quiesce lets everything that is under way end, without new proposals, and compares the images with the model.
func (c *cluster) quiesce() {
	for range 400 {
		c.now = c.now.Add(50 * time.Millisecond)
		c.deliver()
		for _, n := range c.live() {
			n.q.Tick(c.now)
			_ = n.s.Flush(c.now)
			done, _ := n.s.Commit(c.now)
			for _, complete := range done {
				complete()
			}
		}
		c.check()
	}
	if c.fault != "" {
		return
	}
	if c.waiting != 0 {
		c.failf("%d proposals are never answered", c.waiting)
	}
	l := c.leader()
	if l == nil {
		c.failf("there is no leader at the end")
		return
	}
	want := c.model(l.last)
	for _, n := range c.live() {
		if !l.q.members.has(n.id) {
			continue
		}
		if got := textOf(n.q.image); n.q.appliedIndex != l.q.appliedIndex || got != want {
			c.failf("node %d at entry %d (the leader is at %d) has the image\n%s\nwant\n%s", n.id, n.q.appliedIndex, l.q.appliedIndex, got, want)
		}
		if start, first := n.q.log.log.StartOffset(), offsetOf(n.q.log.base().Index+1); start != first {
			c.failf("node %d: the log starts at %d, the base says %d", n.id, start, first)
		}
	}
}

// model is the image of all entries that were applied anywhere, and checks what was answered.
func (c *cluster) model(last uint64) string {
	m, taken := NewImage(), make(map[string]bool)
	for i := uint64(2); i <= last; i++ {
		e := c.entries[i]
		if e == nil {
			c.failf("entry %d was never applied, %d was", i, last)
			return ""
		}
		cmd, _, err := decodeEntry(e)
		if err != nil {
			c.failf("entry %d: %v", i, err)
			return ""
		}
		if cmd == nil {
			m.interrupt()
			continue
		}
		before := m
		if cmd.Snapshot != nil {
			before = m.clone()
		}
		if r, err := m.Apply(*cmd); err == nil && r.Snapshot {
			c.stats.snapshots++
			if textOf(m) != textOf(before) {
				c.failf("the snapshot that ends at entry %d isn't the image there:\n%s\nwant\n%s", i, textOf(m), textOf(before))
			}
		} else if err == nil && cmd.CreateTopic != nil {
			taken[cmd.CreateTopic.Name] = true
		}
	}
	for name := range c.acked {
		if !taken[name] {
			c.failf("%s was answered, but it isn't in the log", name)
		}
	}
	return textOf(m)
}

func textOf(m *Image) (s string) {
	for _, c := range m.snapshot(defaultPerPart) {
		b, _ := c.Encode()
		s += string(b) + "\n"
	}
	return s
}

// isOne says that all nodes are up, and members that have applied the same.
func (c *cluster) isOne() bool {
	l := c.leader()
	if l == nil || c.wiped != 0 || len(l.q.members.Outgoing) > 0 || len(l.q.members.Voters) != c.voters {
		return false
	}
	for _, n := range c.nodes {
		if n.q == nil || !l.q.members.has(n.id) || n.q.leader != l.q.leader || n.q.isBehind || n.q.appliedIndex+20 < l.q.appliedIndex {
			return false
		}
	}
	return true
}

func (c *cluster) describe() (s string) {
	for _, n := range c.nodes {
		if n.q == nil {
			s += fmt.Sprintf("\nnode %d is down", n.id)
			continue
		}
		st := n.q.node.BasicStatus()
		s += fmt.Sprintf("\nnode %d: %v %+v applied %d of %d, base %d/%d, members %+v, writes %d (%v)", n.id, st.RaftState, n.q.leader, n.q.appliedIndex,
			n.q.log.lastIndex(), n.q.log.base().Index, n.q.log.base().Term, n.q.members, len(n.q.writes), n.q.writeErr)
	}
	return s
}

// mutation is a way to break the code, or with reuse its world.
type mutation struct {
	name   string
	faults Faults
	reuse  bool // a wiped node comes back as the voter that it was
}

// runCluster runs one seed and says what was wrong.
func runCluster(t *testing.T, seed uint64, mu mutation) (c *cluster) {
	cryptotest.SetGlobalRandom(t, seed)
	c = newCluster(seed, mu.faults, mu.reuse)
	defer func() {
		if r := recover(); r != nil {
			if mu.name == "" {
				panic(r)
			}
			c.failf("panic: %v", r)
		}
	}()
	c.isBad = true
	for range 500 {
		if c.step(); c.fault != "" {
			return c
		}
	}
	c.converge()
	return c
}

func clusterSeeds(t *testing.T, short int) int {
	value := os.Getenv("WEIR_SEEDS")
	if value == "" && isRace {
		return short / 10
	}
	if value == "" {
		return short
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("WEIR_SEEDS: %v", err)
	}
	return n
}

// TestCluster: three and five members, formed at once or grown from one, agree whatever happens to them. WEIR_SEED runs one seed, WEIR_SEEDS so many.
func TestCluster(t *testing.T) {
	if one := os.Getenv("WEIR_SEED"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if c := runCluster(t, seed, mutation{}); c.fault != "" {
			t.Fatalf("seed %d: %s", seed, c.fault)
		}
		return
	}
	var sum clusterStats
	for seed := range uint64(clusterSeeds(t, 60)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := runCluster(t, seed, mutation{})
			if c.fault != "" {
				t.Fatalf("seed %d: %s", seed, c.fault)
			}
			sum.add(c.stats)
		})
	}
	t.Logf("%+v", sum)
	for _, n := range []int{sum.crashes, sum.acks, sum.jumps, sum.elections, sum.changes, sum.wipes, sum.snapshots, sum.silent} {
		if n == 0 {
			t.Errorf("something never happened: %+v", sum)
		}
	}
}

func (s *clusterStats) add(o clusterStats) {
	s.crashes += o.crashes
	s.acks += o.acks
	s.jumps += o.jumps
	s.elections += o.elections
	s.changes += o.changes
	s.wipes += o.wipes
	s.snapshots += o.snapshots
	s.busy += o.busy
	s.silent += o.silent
}
