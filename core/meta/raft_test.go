package meta

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// quiet is a group of so many founders to whom nothing happens, with a leader.
func quiet(t *testing.T, founders int) *cluster { return quietWith(t, founders, Faults{}) }

func quietWith(t *testing.T, founders int, f Faults) *cluster {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1)
	c := &cluster{
		rng: rand.New(rand.NewPCG(1, 1)), now: time.UnixMilli(1_700_000_000_000), cuts: make(map[[2]int32]bool), faults: f,
		entries: make(map[uint64]*raftpb.Entry), leaders: make(map[uint64]int32), acked: make(map[string]bool), voters: founders,
	}
	var voters []int32
	for i := range founders {
		voters = append(voters, int32(i+1))
	}
	for _, id := range voters {
		n := c.add(id)
		n.found(voters)
		n.start()
	}
	c.run(t, func() bool { return c.leader() != nil })
	return c
}

// run steps until it is so, at most a minute.
func (c *cluster) run(t *testing.T, until func() bool) {
	t.Helper()
	for end := c.now.Add(time.Minute); !until(); {
		if c.now.After(end) {
			t.Fatalf("it never came to be:%s", c.describe())
		}
		c.pass(20 * time.Millisecond)
		if c.fault != "" {
			t.Fatal(c.fault)
		}
	}
}

// pass lets time pass, without proposals and faults.
func (c *cluster) pass(d time.Duration) {
	c.now = c.now.Add(d)
	c.deliver()
	for _, n := range c.live() {
		n.q.Tick(c.now)
		if n.hungAt.IsZero() {
			_ = n.s.Flush(c.now)
			done, _ := n.s.Commit(c.now)
			for _, complete := range done {
				complete()
			}
		}
	}
	c.check()
}

// agree proposes at n and waits for the answer.
func (c *cluster) agree(t *testing.T, n *member, cmd Command) Result {
	t.Helper()
	var result Result
	isDone := false
	n.q.Propose(cmd, c.now, func(r Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		result, isDone = r, true
	})
	c.run(t, func() bool { return isDone })
	return result
}

func (c *cluster) change(t *testing.T, voters, learners []int32) {
	t.Helper()
	isDone := false
	c.leader().q.ChangeMembers(voters, learners, c.now, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
		isDone = true
	})
	c.run(t, func() bool { return isDone })
}

// A group that starts as a whole has a leader in half a timeout, and one member that starts among others makes no other.
func TestAStartDoesntWaitForATimeout(t *testing.T) {
	began := time.UnixMilli(1_700_000_000_000)
	c := quiet(t, 3)
	if took := c.now.Sub(began); took > 500*time.Millisecond {
		t.Errorf("the first election took %v", took)
	}
	c.pass(time.Second)
	before := c.leader().q.Status()
	for _, n := range c.nodes {
		if n.id == before.Leader {
			continue
		}
		n.kill()
		n.start()
		c.run(t, func() bool { id, _ := n.q.Leader(); return id != 0 })
		for range 100 {
			c.pass(20 * time.Millisecond)
		}
		if after := c.leader().q.Status(); after.Leader != before.Leader || after.Term != before.Term {
			t.Errorf("node %d led in term %d before another started, and node %d in term %d afterwards", before.Leader, before.Term, after.Leader, after.Term)
		}
	}
}

func TestOneBecomesThreeByOneJointChange(t *testing.T) {
	c := quiet(t, 1)
	first := c.nodes[0]
	rounds := first.s.Stats().Rounds
	if rounds > 2 {
		t.Errorf("a sole voter needs %d rounds of its disk to be elected", rounds)
	}
	if next := first.q.Tick(c.now); !next.IsZero() {
		t.Error("a node alone wants a clock")
	}
	c.agree(t, first, Command{RegisterBroker: &RegisterBroker{ID: 1}})
	for i := range 30 {
		c.agree(t, first, create(i)) // so the log begins behind a snapshot
	}
	for _, id := range []int32{2, 3} {
		n := c.add(id)
		n.found(nil)
		n.start()
		if n.q.IsCurrent() {
			t.Errorf("node %d knows nothing, and says it does", id)
		}
	}
	c.change(t, []int32{1}, []int32{2, 3})
	c.run(t, func() bool { return len(topicNames(c.nodes[1].q)) == 30 && len(topicNames(c.nodes[2].q)) == 30 })
	if c.stats.jumps != 2 {
		t.Errorf("%d nodes have jumped", c.stats.jumps)
	}
	before := first.q.log.lastIndex()
	c.change(t, []int32{1, 2, 3}, nil)
	c.run(t, func() bool { return len(c.nodes[2].q.members.Voters) == 3 && len(c.nodes[2].q.members.Outgoing) == 0 })
	changes := 0
	for index, e := range c.entries {
		if index > before && e.GetType() == raftpb.EntryConfChangeV2 {
			changes++
		}
	}
	if changes != 2 { // into the joint state, and out of it
		t.Errorf("the change took %d entries", changes)
	}
	first.kill()
	first.downFor = c.now.Add(time.Hour)
	c.run(t, func() bool { return c.leader() != nil && c.leader() != first })
	c.agree(t, c.leader(), create(77))
}

func TestChangesThatCantBe(t *testing.T) {
	c := quiet(t, 3)
	l := c.leader()
	other := c.nodes[l.id%3]
	refused := func(n *member, voters, learners []int32, want error) {
		t.Helper()
		var got error
		n.q.ChangeMembers(voters, learners, c.now, func(err error) { got = err })
		if !errors.Is(got, want) {
			t.Errorf("change to %v and %v: %v, want %v", voters, learners, got, want)
		}
	}
	refused(other, []int32{1}, nil, ErrNotLeading)
	refused(l, nil, []int32{1}, ErrMembers)
	refused(l, []int32{1, 2}, []int32{2}, ErrMembers)
	refused(l, []int32{1, 2, 3}, nil, nil) // they are
	isDone := false
	l.q.ChangeMembers([]int32{1, 2, 3}, []int32{4}, c.now, func(err error) { isDone = err == nil })
	refused(l, []int32{1, 2, 3}, []int32{4, 5}, ErrMembersChanging)
	c.run(t, func() bool { return isDone })
	s := l.q.Status()
	if i := slices.IndexFunc(s.Members, func(m MemberStatus) bool { return m.Node == 4 }); len(s.Members) != 4 || s.Members[i].IsVoter {
		t.Errorf("status %+v", s)
	}
	c.change(t, []int32{l.id}, nil) // and back to one, which needs nobody then
	c.run(t, func() bool { return l.q.members.isSole(l.id) })
	for _, n := range c.nodes {
		if n != l {
			n.kill()
			n.downFor = c.now.Add(time.Hour)
		}
	}
	c.agree(t, l, Command{RegisterBroker: &RegisterBroker{ID: 1}})
}

// TestElectorate: who should be members.
func TestElectorate(t *testing.T) {
	for _, x := range []struct {
		name                         string
		voters, learners, brokers    []int32
		gone, ready                  []int32
		wantedVoters, wantedLearners []int32
	}{
		{"alone", []int32{1}, nil, []int32{1}, nil, nil, []int32{1}, nil},
		{"a new broker is a learner", []int32{1}, nil, []int32{1, 2}, nil, nil, []int32{1}, []int32{2}},
		{"one that joins stays one before it registers", []int32{1}, []int32{2}, []int32{1}, nil, nil, []int32{1}, []int32{2}},
		{"never two", []int32{1}, []int32{2, 3}, []int32{1, 2, 3}, nil, []int32{2}, []int32{1}, []int32{2, 3}},
		{"three at once", []int32{1}, []int32{2, 3, 4}, []int32{1, 2, 3, 4}, nil, []int32{2, 4}, []int32{1, 2, 4}, []int32{3}},
		{"no more than three", []int32{1, 2, 3}, []int32{4, 5}, []int32{1, 2, 3, 4, 5}, nil, []int32{4, 5}, []int32{1, 2, 3}, []int32{4, 5}},
		{"the gone is replaced", []int32{1, 2, 3}, []int32{4}, []int32{1, 3, 4}, []int32{2}, []int32{4}, []int32{1, 3, 4}, nil},
		{"not before another is ready", []int32{1, 2, 3}, []int32{4}, []int32{1, 3, 4}, []int32{2}, nil, []int32{1, 2, 3}, []int32{4}},
		{"learners that are gone go", []int32{1, 2, 3}, []int32{4, 5}, []int32{1, 2, 3, 5}, []int32{4}, []int32{5}, []int32{1, 2, 3}, []int32{5}},
		{"even becomes odd", []int32{1, 2}, []int32{3}, []int32{1, 2, 3}, nil, []int32{3}, []int32{1, 2, 3}, nil},
	} {
		e := electorate{
			members: members{Voters: x.voters, Learners: x.learners}, brokers: x.brokers, most: MaxVoters,
			isGone:  func(id int32) bool { return slices.Contains(x.gone, id) },
			isReady: func(id int32) bool { return slices.Contains(x.ready, id) },
		}
		if v, l := e.wanted(); !slices.Equal(v, x.wantedVoters) || !slices.Equal(l, x.wantedLearners) {
			t.Errorf("%s: voters %v, learners %v, want %v and %v", x.name, v, l, x.wantedVoters, x.wantedLearners)
		}
	}
}

// TestGroupGrowsByItself: what the leader wants of the members makes three of one, when the brokers are active.
func TestGroupGrowsByItself(t *testing.T) {
	c := quiet(t, 1)
	first := c.nodes[0]
	want := func(voters, learners []int32, ok bool) {
		t.Helper()
		v, l, differs := first.q.WantedMembers(c.now)
		if differs != ok || ok && (!slices.Equal(v, voters) || !slices.Equal(l, learners)) {
			t.Fatalf("wanted %v and %v, %v", v, l, differs)
		}
		if ok {
			c.change(t, v, l)
		}
	}
	c.agree(t, first, Command{RegisterBroker: &RegisterBroker{ID: 1}})
	want(nil, nil, false)
	for _, id := range []int32{2, 3} {
		n := c.add(id)
		n.found(nil)
		n.start()
		c.agree(t, first, Command{RegisterBroker: &RegisterBroker{ID: id}})
	}
	want([]int32{1}, []int32{2, 3}, true)
	for _, id := range []int32{2, 3} {
		c.run(t, func() bool {
			return c.nodes[id-1].q.IsCurrent() && c.nodes[id-1].q.appliedIndex == first.q.appliedIndex
		})
		want(nil, nil, false)
		c.agree(t, c.nodes[id-1], Command{ChangeBroker: &ChangeBroker{ID: id, Generation: 1}}) // active, as it says itself
	}
	c.run(t, func() bool {
		return first.q.matches()[3] == first.q.log.lastIndex() && first.q.matches()[2] == first.q.log.lastIndex()
	})
	want([]int32{1, 2, 3}, nil, true)
	c.run(t, func() bool { return len(first.q.members.Outgoing) == 0 })
	want(nil, nil, false)
}

// TestAFailedDiskEndsTheMember: who waits is told, peers hear nothing more, others lead.
func TestAFailedDiskEndsTheMember(t *testing.T) {
	c := quiet(t, 3)
	old := c.leader()
	old.mem.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			return errors.New("broken")
		}
		return nil
	})
	var got error
	old.q.Propose(Command{RegisterBroker: &RegisterBroker{ID: 1}}, c.now, func(_ Result, err error) { got = err })
	c.run(t, func() bool { return old.q.Err() != nil })
	if id, _ := old.q.Leader(); !errors.Is(got, ErrFailed) || id != 0 || !old.q.Tick(c.now).IsZero() {
		t.Errorf("leader %d, %v", id, got)
	}
	if old.q.Propose(create(1), c.now, func(_ Result, err error) { got = err }); !errors.Is(got, ErrFailed) {
		t.Errorf("afterwards: %v", got)
	}
	c.run(t, func() bool { return c.leader() != nil && c.leader() != old })
	c.agree(t, c.leader(), Command{RegisterBroker: &RegisterBroker{ID: 1}})
}

// TestProposalsGoToTheLeader: any node proposes; without a leader it is told so, and if its leader doesn't answer, after a while.
func TestProposalsGoToTheLeader(t *testing.T) {
	c := quiet(t, 3)
	l := c.leader()
	other := c.nodes[l.id%3]
	c.run(t, func() bool { return other.q.leader.id == l.id })
	if r := c.agree(t, other, Command{RegisterBroker: &RegisterBroker{ID: 1}}); r.Generation != 1 {
		t.Errorf("result %+v", r)
	}
	lost := errors.New("not answered")
	other.q.Propose(create(1), c.now, func(_ Result, err error) { lost = err })
	c.packets = nil // it never arrives
	c.run(t, func() bool { return errors.Is(lost, ErrNoLeader) })

	for _, n := range c.nodes {
		if n != other {
			n.kill()
			n.downFor = c.now.Add(time.Hour)
		}
	}
	var got error
	other.q.Propose(create(2), c.now, func(_ Result, err error) { got = err })
	c.run(t, func() bool { return got != nil }) // its leader is gone before the entry was seen
	if id, _ := other.q.Leader(); id != 0 || !errors.Is(got, ErrNoLeader) {
		t.Errorf("leader %d, %v", id, got)
	}
	got = nil
	if other.q.Propose(create(3), c.now, func(_ Result, err error) { got = err }); !errors.Is(got, ErrNoLeader) {
		t.Errorf("without a leader: %v", got)
	}
}

// TestALeaderWhoseDiskHangsIsSilent: it says nothing, so another leads; when the disk goes on, it follows.
func TestALeaderWhoseDiskHangsIsSilent(t *testing.T) {
	c := quiet(t, 3)
	old := c.leader()
	old.hungAt = c.now
	c.run(t, old.q.IsSilent)
	if id, _ := old.q.Leader(); id != 0 || len(old.q.Silent(c.now)) > 0 {
		t.Error("a node whose disk hangs leads")
	}
	c.run(t, func() bool { return c.leader() != nil && c.leader() != old })
	c.agree(t, c.leader(), Command{RegisterBroker: &RegisterBroker{ID: 1}})
	old.hungAt = time.Time{}
	c.run(t, func() bool {
		return old.q.appliedIndex == c.leader().q.appliedIndex && old.q.leader == c.leader().q.leader
	})
}

// TestSilentBrokersAreKnown: to the leader only, after a session; to a new one its predecessor's silence counts from its last word.
func TestSilentBrokersAreKnown(t *testing.T) {
	c := quiet(t, 3)
	old := c.leader()
	for _, n := range c.nodes {
		r := c.agree(t, old, Command{RegisterBroker: &RegisterBroker{ID: n.id}})
		c.agree(t, old, Command{ChangeBroker: &ChangeBroker{ID: n.id, Generation: r.Generation}})
	}
	for range 100 {
		c.pass(20 * time.Millisecond)
		if s := old.q.Silent(c.now); len(s) > 0 {
			t.Fatalf("silent: %+v", s)
		}
	}
	died := c.now
	old.kill()
	old.downFor = c.now.Add(time.Hour)
	c.run(t, func() bool { return c.leader() != nil && c.leader() != old })
	next := c.leader()
	if heard := next.q.Heard(old.id); heard.After(died) {
		t.Errorf("heard %s of the dead", heard.Sub(died))
	}
	c.run(t, func() bool { return len(next.q.Silent(c.now)) > 0 })
	if s := next.q.Silent(c.now); len(s) != 1 || s[0].ID != old.id || c.now.Sub(died) > 5*time.Second {
		t.Errorf("silent after %s: %+v", c.now.Sub(died), s)
	}
	for _, n := range c.live() {
		if n != next && len(n.q.Silent(c.now.Add(time.Hour))) > 0 {
			t.Error("who doesn't lead says who is silent")
		}
	}
}

func TestTransfer(t *testing.T) {
	c := quiet(t, 3)
	to := c.leader().id%3 + 1
	c.leader().q.Transfer(to, c.now)
	c.run(t, func() bool { return c.leader() != nil && c.leader().id == to })
}

// TestTimeThatWasMissed isn't made up for.
func TestTimeThatWasMissed(t *testing.T) {
	c := quiet(t, 3)
	c.run(t, func() bool { return c.isOne() })
	for _, n := range c.nodes {
		term := n.q.leader.term
		if next := n.q.Tick(c.now.Add(time.Hour)); next.Before(c.now.Add(time.Hour)) {
			t.Errorf("next tick is %s ago", c.now.Add(time.Hour).Sub(next))
		}
		if n.q.leader.term != term || n.q.leader.id == 0 {
			t.Errorf("leader %+v after a long pause", n.q.leader)
		}
	}
}

// TestSoleVoterStopsAtAChangeOfMembers: what lies behind it others had a say in, so a start alone must not commit it.
func TestSoleVoterStopsAtAChangeOfMembers(t *testing.T) {
	grow, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
		{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(2))}, {Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(3))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, hasChange := range []bool{false, true} {
		s := openStore(t, t.TempDir())
		if _, err := WriteIdentity(s, Identity{Node: 1, Voters: []int32{1}}); err != nil {
			t.Fatal(err)
		}
		st, _, err := readState(s)
		if err != nil {
			t.Fatal(err)
		}
		log, err := s.OpenLog(LogID(), "", storage.LogConfig{UsesReserve: true})
		if err != nil {
			t.Fatal(err)
		}
		l := raftLog{store: s, log: log, state: st}
		for i := range uint64(4) {
			b, err := Command{RegisterBroker: &RegisterBroker{ID: int32(i + 1)}}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			e := &raftpb.Entry{Index: new(i + 2), Term: new(uint64(2)), Type: raftpb.EntryNormal.Enum(), Data: b}
			if hasChange && i == 2 {
				e.Type, e.Data = raftpb.EntryConfChangeV2.Enum(), grow
			}
			if _, err := l.put(e, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, s)
		q, err := Open(Options{Store: s, MaxCommandBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		brokers := 0
		q.View(func(m *Image) { brokers = len(m.Brokers()) })
		want := 4
		if hasChange {
			want = 2
		}
		if id, _ := q.Leader(); brokers != want || (id == 1) == hasChange || len(q.members.Voters) == 3 != hasChange {
			t.Errorf("with a change %v: %d brokers, leader %d, members %+v", hasChange, brokers, id, q.members)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoSnapshotAmidOne: an image of which only some parts have come is not the image.
func TestNoSnapshotAmidOne(t *testing.T) {
	c := quiet(t, 1)
	n := c.nodes[0]
	c.agree(t, n, Command{RegisterBroker: &RegisterBroker{ID: 1}})
	n.q.isBehind = true
	for i := range 30 {
		c.agree(t, n, create(i))
	}
	if n.q.log.base().Index != 1 {
		t.Errorf("a node that is far behind made a snapshot: base %+v", n.q.log.base())
	}
	n.q.isBehind = false
	c.run(t, func() bool { n.q.Tick(c.now); return n.q.log.base().Index > 1 })
}

// TestEntriesAreRecords: the log of a member holds what raftlog.go draws.
func TestEntriesAreRecords(t *testing.T) {
	c := quiet(t, 1)
	c.agree(t, c.nodes[0], Command{RegisterBroker: &RegisterBroker{ID: 1}})
	c.add(2)
	c.change(t, []int32{1}, []int32{2})
	var lines []string
	for _, e := range c.nodes[0].q.log.entries {
		key, value := "null", "null"
		if e.GetType() != raftpb.EntryNormal {
			key = votersKey
		}
		if len(e.GetData()) > 0 {
			value = string(e.GetData())
		}
		lines = append(lines, key+" "+value)
	}
	if len(lines) != 3 || lines[0] != "null null" || !strings.HasPrefix(lines[1], `null {"v":1,"by":"1-`) || !strings.HasPrefix(lines[2], "voters \x12\x04\x08") {
		t.Errorf("%q", lines)
	}
	again := raftLog{store: c.nodes[0].s, log: c.nodes[0].q.log.log, state: c.nodes[0].q.log.state}
	if err := again.load(true); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(again.entries, c.nodes[0].q.log.entries, isSame) {
		t.Errorf("read %v, put %v", again.entries, c.nodes[0].q.log.entries)
	}
}

func isSame(a, b *raftpb.Entry) bool {
	return a.GetIndex() == b.GetIndex() && a.GetTerm() == b.GetTerm() && a.GetType() == b.GetType() && string(a.GetData()) == string(b.GetData())
}

// TestHardState: its bytes are a format.
func TestHardState(t *testing.T) {
	const want = `{"v":1,"node":3,"cluster_id":"c","term":5,"vote":2,"commit":17,"base":{"index":9,"term":4,` +
		`"voters":[1,2,3],"learners":[4],"outgoing":[5],"learners_next":[5],"auto_leave":true}}`
	s := openStore(t, t.TempDir())
	defer s.Close()
	st := hardState{V: 1, Node: 3, ClusterID: "c", Term: 5, Vote: 2, Commit: 17, Base: base{Index: 9, Term: 4, members: members{
		Voters: []int32{1, 2, 3}, Learners: []int32{4}, Outgoing: []int32{5}, Next: []int32{5}, AutoLeave: true,
	}}}
	if _, err := st.put(s); err != nil {
		t.Fatal(err)
	}
	if got := string(s.HardState()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := membersOf(st.Base.confState()); !slices.Equal(got.all(), []int32{1, 2, 3, 4, 5}) || !got.AutoLeave || !slices.Equal(got.Next, []int32{5}) {
		t.Errorf("as raft has them and back: %+v", got)
	}
	for _, bad := range []string{`{`, `{"v":2,"node":3}`, `{"v":1}`, `{"v":1,"node":3,"more":1}`} {
		if _, err := s.SetHardState([]byte(bad)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadIdentity(s); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestIdentityIsForEver: only a folder that has promised nothing is given one.
func TestIdentityIsForEver(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	write := func(node int32, voters ...int32) error {
		_, err := WriteIdentity(s, Identity{Node: node, ClusterID: "c", Voters: voters})
		return err
	}
	if err := write(0); !errors.Is(err, ErrIdentity) {
		t.Errorf("node 0: %v", err)
	}
	if err := write(1, 2, 3); !errors.Is(err, ErrIdentity) {
		t.Errorf("a voter that is none: %v", err)
	}
	if err := errors.Join(write(1, 1, 2, 3), write(2, 2, 3, 4)); err != nil { // founded again: the first attempt failed elsewhere
		t.Error(err)
	}
	if _, err := Open(Options{Store: s, MaxCommandBytes: 1 << 10, Node: 2}); err != nil {
		t.Fatal(err)
	}
	if i, ok, err := ReadIdentity(s); !ok || err != nil || !i.IsFounded() || i.Node != 2 || !slices.Equal(i.Voters, []int32{2, 3, 4}) {
		t.Errorf("identity %+v, %v", i, err)
	}
	st, _, err := readState(s)
	if err != nil {
		t.Fatal(err)
	}
	st.Term, st.Vote = 2, 3
	if _, err := st.put(s); err != nil {
		t.Fatal(err)
	}
	if err := write(2, 2, 3, 4); !errors.Is(err, ErrIdentity) {
		t.Errorf("a folder that has voted: %v", err)
	}
}

// FuzzStep: whatever a peer sends, it is taken or refused.
func FuzzStep(f *testing.F) {
	m, err := proto.Marshal(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(3))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...))
	f.Add([]byte{0, 0, 0, 9, 1})
	f.Add([]byte{255, 255, 255, 255})
	s, err := storage.Open(storage.Options{Dir: f.TempDir(), WALFileBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := Open(Options{Store: s, MaxCommandBytes: 1 << 10, Send: func(int32, []byte) {}})
		if err != nil {
			t.Skip() // an earlier input has raised the term
		}
		_ = q.Step(2, b, time.Now())
	})
}
