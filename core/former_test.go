package core

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
)

var formSeeds = flag.Int("form-seeds", 400, "seeds of TestForming")

// formWorld is nodes that form a cluster, stepped on one goroutine: crashes, a wiped disk, a network that delays, reorders and loses.
type formWorld struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Time
	list   []string
	nodes  []*formNode
	events []formEvent
	isBad  bool
	nextID map[string]int32 // of clusters that have agreed on something

	wipes, crashes, founded int
	starts                  []formStart
}

// formNode is a machine with its disk.
type formNode struct {
	addr      string
	disk      meta.Identity // zero: none
	isStarted bool          // raft has been run in this folder
	hasVoted  bool          // something was agreed on
	folder    int           // how often it was wiped
	life      int
	up        bool
	f         *former // nil: down, or started
	fault     error
}

// formStart is a founder's first start.
type formStart struct {
	cluster string
	id      int32
	addr    string
	folder  int
}

type formEvent struct {
	at time.Time
	do func()
}

func newFormWorld(t *testing.T, seed uint64, nodes, listed int) *formWorld {
	w := &formWorld{t: t, rng: rand.New(rand.NewPCG(seed, 9)), now: time.UnixMilli(1_700_000_000_000), isBad: true, nextID: make(map[string]int32)}
	for i := range nodes {
		w.nodes = append(w.nodes, &formNode{addr: fmt.Sprintf("n%d:9092", i+1)})
	}
	for _, n := range w.nodes[:listed] {
		w.list = append(w.list, n.addr)
	}
	return w
}

func (w *formWorld) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *formWorld) after(d time.Duration, do func()) {
	w.events = append(w.events, formEvent{w.now.Add(d), do})
}

func (w *formWorld) delay() time.Duration {
	if w.isBad && w.chance(15) {
		return time.Duration(w.rng.IntN(4000)) * time.Millisecond
	}
	return time.Duration(w.rng.IntN(20)) * time.Millisecond
}

func (w *formWorld) node(addr string) *formNode {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *formNode) bool { return n.addr == addr })]
}

type worldRand struct{ w *formWorld }

func (r worldRand) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.w.rng.Uint32())
	}
	return len(b), nil
}

// start is the process's start: Form, if there is something to form.
func (w *formWorld) start(n *formNode) {
	n.up = true
	n.life++
	if n.disk.Node != 0 && (n.hasVoted || len(n.disk.Voters) == 0) {
		w.run(n)
		return
	}
	f, err := newFormer(n.addr, w.list, 0, n.disk, worldRand{w})
	if err != nil {
		w.t.Fatal(err)
	}
	n.f = f
	w.step(n)
}

func (w *formWorld) stop(n *formNode) {
	n.up, n.f = false, nil
	n.life++
	w.crashes++
}

// wipe replaces a machine's disk.
func (w *formWorld) wipe(n *formNode) {
	if n.up {
		w.stop(n)
	}
	n.disk, n.isStarted, n.hasVoted = meta.Identity{}, false, false
	n.folder++
	w.wipes++
}

// run is what follows Form: raft, of which only its being there counts here.
func (w *formWorld) run(n *formNode) {
	n.f = nil
	if len(n.disk.Voters) > 0 && !n.isStarted {
		for _, s := range w.starts {
			if s.cluster == n.disk.ClusterID && s.id == n.disk.Node && (s.addr != n.addr || s.folder != n.folder) {
				w.t.Fatalf("%s (folder %d) starts as node %d of %s, as which %s (folder %d) may have voted", n.addr, n.folder, n.disk.Node, s.cluster, s.addr, s.folder)
			}
		}
		w.starts = append(w.starts, formStart{cluster: n.disk.ClusterID, id: n.disk.Node, addr: n.addr, folder: n.folder})
	}
	n.isStarted = true
	w.look()
}

// look sees whether a majority is there to agree on something.
func (w *formWorld) look() {
	running := make(map[string][]*formNode)
	for _, n := range w.nodes {
		if n.up && n.f == nil && len(n.disk.Voters) > 0 {
			running[n.disk.ClusterID] = append(running[n.disk.ClusterID], n)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(running)) {
		nodes := running[id]
		if len(nodes) <= len(nodes[0].disk.Voters)/2 {
			continue
		}
		for _, n := range nodes {
			n.hasVoted = n.hasVoted || w.chance(50)
		}
		if !slices.ContainsFunc(nodes, func(n *formNode) bool { return !n.hasVoted }) && w.nextID[id] == 0 {
			w.nextID[id] = slices.Max(nodes[0].disk.Voters) + 1
		}
	}
}

// step does what Form's loop does.
func (w *formWorld) step(n *formNode) {
	if n.f == nil {
		return
	}
	if n.f.ended() {
		if n.fault = n.f.fault; n.fault != nil {
			w.stop(n)
		} else if w.write(n, *n.f.outcome) {
			w.run(n)
		}
		return
	}
	life := n.life
	for _, c := range n.f.step(w.now) {
		w.call(n, c)
	}
	w.after(max(0, n.f.next().Sub(w.now)), func() {
		if n.life == life && n.f != nil && !w.now.Before(n.f.next()) {
			w.step(n)
		}
	})
}

// write makes an identity durable; false: it crashed, before or after.
func (w *formWorld) write(n *formNode, i meta.Identity) bool {
	isCrash := w.isBad && w.chance(10)
	if isCrash && w.chance(50) {
		w.stop(n)
		return false
	}
	if n.hasVoted || n.disk.Node != 0 && n.disk.Voters == nil {
		w.t.Fatalf("%s is made node %d of %s, and is node %d of %s for good", n.addr, i.Node, i.ClusterID, n.disk.Node, n.disk.ClusterID)
	}
	n.disk = i
	if isCrash {
		w.stop(n)
	}
	return !isCrash
}

// call sends a request, serves it and brings the answer back; each of these may be late or never.
func (w *formWorld) call(n *formNode, c formCall) {
	life, isOver := n.life, false
	answer := func(a any, err error) {
		if isOver || n.life != life || n.f == nil {
			return
		}
		isOver = true
		switch a := a.(type) {
		case probeAnswer:
			n.f.probed(w.now, c.to, a, err)
		case joinAnswer:
			n.f.joined(w.now, a, err, false)
		default:
			n.f.founded(c.to, err)
		}
		w.step(n)
	}
	zero := map[int16]any{keyProbe: probeAnswer{}, keyJoin: joinAnswer{}}[c.key]
	w.after(time.Second, func() { answer(zero, errors.New("no answer")) })
	if w.isBad && w.chance(10) {
		return
	}
	w.after(w.delay(), func() {
		to := w.node(c.to)
		if !to.up {
			return
		}
		a, err := w.serve(to, c)
		if a == nil && err == nil || w.isBad && w.chance(10) {
			return
		}
		w.after(w.delay(), func() { answer(cmp.Or(a, zero), err) })
		w.step(to)
	})
}

// serve is the asked node.
func (w *formWorld) serve(n *formNode, c formCall) (any, error) {
	if n.f == nil {
		w.look()
		a := probeAnswer{State: stateStarted, Node: n.disk.Node, ClusterID: n.disk.ClusterID}
		if n.hasVoted {
			a.State = stateMember
		}
		switch {
		case c.key == keyProbe:
			return a, nil
		case c.key == keyJoin && w.nextID[n.disk.ClusterID] > 0:
			w.nextID[n.disk.ClusterID]++
			return joinAnswer{Node: w.nextID[n.disk.ClusterID] - 1, ClusterID: n.disk.ClusterID}, nil
		}
		return nil, errors.New("refused")
	}
	switch c.key {
	case keyProbe:
		return n.f.probe(), nil
	case keyFound:
		i, err := n.f.takeFound(c.body.(foundRequest))
		if err != nil {
			return nil, err
		}
		if !w.write(n, *i) {
			return nil, nil
		}
		w.founded++
		if err := n.f.wrote(*i); err != nil {
			w.t.Fatal(err)
		}
		return true, nil
	}
	return nil, errors.New("refused")
}

// runFor lets events happen.
func (w *formWorld) runFor(d time.Duration) {
	for end := w.now.Add(d); ; {
		if len(w.events) == 0 {
			return
		}
		next := 0
		for i, e := range w.events {
			if e.at.Before(w.events[next].at) {
				next = i
			}
		}
		e := w.events[next]
		if e.at.After(end) {
			w.now = end
			return
		}
		w.events = slices.Delete(w.events, next, next+1)
		if e.at.After(w.now) {
			w.now = e.at
		}
		e.do()
	}
}

// TestForming lets nodes form a cluster while they crash, lose messages and once a disk. However it goes: nobody is two nodes, no node is
// two folders, nobody changes clusters, and in the end everyone is of the same one.
func TestForming(t *testing.T) {
	var crashes, wipes, again int
	for seed := range uint64(*formSeeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			nodes := 3 + int(seed%3)
			w := newFormWorld(t, seed, nodes, min(nodes, 3+int(seed/3%2)))
			for _, n := range w.nodes {
				w.after(time.Duration(w.rng.IntN(2000))*time.Millisecond, func() { w.start(n) })
			}
			for range 30 {
				w.runFor(time.Duration(w.rng.IntN(700)) * time.Millisecond)
				n := w.nodes[w.rng.IntN(len(w.nodes))]
				switch {
				case !n.up && n.life > 0:
					w.start(n)
				case n.up && w.chance(40):
					w.stop(n)
				case n.up && w.chance(10) && w.wipes == 0:
					w.wipe(n)
				}
			}
			w.isBad = false
			for _, n := range w.nodes {
				if !n.up {
					w.start(n)
				}
			}
			w.runFor(20 * time.Second)
			w.check()
			crashes, wipes, again = crashes+w.crashes, wipes+w.wipes, again+w.founded-2
		})
	}
	t.Logf("%d crashes, %d wiped disks, founded anew %d times", crashes, wipes, again)
}

func (w *formWorld) check() {
	ids := make(map[int32]string)
	for _, n := range w.nodes {
		if n.f != nil || !n.up || n.fault != nil {
			why := fmt.Sprint(n.fault)
			if n.f != nil {
				why = n.f.waitsFor(w.now)
			}
			w.t.Errorf("%s (%+v) is of no cluster at the end: %s", n.addr, n.disk, why)
			continue
		}
		if n.disk.ClusterID != w.nodes[0].disk.ClusterID {
			w.t.Errorf("%s is of %s, %s of %s", n.addr, n.disk.ClusterID, w.nodes[0].addr, w.nodes[0].disk.ClusterID)
		}
		if before := ids[n.disk.Node]; before != "" {
			w.t.Errorf("%s and %s are both node %d", before, n.addr, n.disk.Node)
		}
		ids[n.disk.Node] = n.addr
	}
}

// TestFormingInOrder: nodes that start together are numbered by their places, or as they were told, and nobody writes anything before all are there.
func TestFormingInOrder(t *testing.T) {
	w := newFormWorld(t, 1, 4, 4)
	w.isBad = false
	w.start(w.nodes[0])
	w.start(w.nodes[2])
	w.runFor(3 * time.Second)
	if w.nodes[0].disk.Node != 0 || w.nodes[2].disk.Node != 0 {
		t.Errorf("two of three have written %+v, %+v", w.nodes[0].disk, w.nodes[2].disk)
	}
	if why := w.nodes[0].f.waitsFor(w.now); !strings.Contains(why, "n2:9092: no answer") {
		t.Errorf("it waits for %q", why)
	}
	w.start(w.nodes[1])
	w.runFor(2 * time.Second)
	for i, n := range w.nodes[:3] {
		if n.disk.Node != int32(i+1) || !slices.Equal(n.disk.Voters, []int32{1, 2, 3}) || n.f != nil {
			t.Errorf("%s is %+v", n.addr, n.disk)
		}
	}
	w.start(w.nodes[3])
	w.runFor(2 * time.Second)
	if n := w.nodes[3]; n.disk.Node != 4 || len(n.disk.Voters) != 0 || n.disk.ClusterID != w.nodes[0].disk.ClusterID {
		t.Errorf("who came later is %+v", n.disk)
	}
}

// TestFoundIsRefused: what a founder sends is taken only by the node that answered it, as that node is now.
func TestFoundIsRefused(t *testing.T) {
	list := []string{"a:1", "b:1", "c:1", "d:1"}
	f, err := newFormer("b:1", list, 0, meta.Identity{}, rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []foundNode{{1, "a:1"}, {2, "b:1"}, {3, "c:1"}}
	good := foundRequest{ClusterID: "x", Nodes: nodes, Address: "b:1", Nonce: f.probe().Nonce}
	with := func(change func(*foundRequest)) foundRequest {
		r := good
		r.Nodes = slices.Clone(nodes)
		change(&r)
		return r
	}
	for why, r := range map[string]foundRequest{
		"another answer's nonce": with(func(r *foundRequest) { r.Nonce = "x" }),
		"another node's":         with(func(r *foundRequest) { r.Address = "c:1" }),
		"no cluster":             with(func(r *foundRequest) { r.ClusterID = "" }),
		"another list":           with(func(r *foundRequest) { r.Nodes[2].Address = "d:1" }),
		"another order":          with(func(r *foundRequest) { r.Nodes[0], r.Nodes[2] = r.Nodes[2], r.Nodes[0] }),
		"too few":                with(func(r *foundRequest) { r.Nodes = r.Nodes[:2] }),
		"one id twice":           with(func(r *foundRequest) { r.Nodes[2].ID = 1 }),
		"no id":                  with(func(r *foundRequest) { r.Nodes[2].ID = 0 }),
	} {
		if i, err := f.takeFound(r); !errors.Is(err, errFound) {
			t.Errorf("%s: made %+v, %v", why, i, err)
		}
	}
	i, err := f.takeFound(good)
	if err != nil || i.Node != 2 || i.ClusterID != "x" || !slices.Equal(i.Voters, []int32{1, 2, 3}) {
		t.Fatalf("made %+v, %v", i, err)
	}
	if err := f.wrote(*i); err != nil {
		t.Fatal(err)
	}
	if i, err := f.takeFound(good); !errors.Is(err, errFound) {
		t.Errorf("the same again: made %+v, %v", i, err)
	}
	if f.want = 7; f.probe().State != stateFounded {
		t.Errorf("it is %+v", f.probe())
	}
	good.Nonce = f.probe().Nonce
	if i, err := f.takeFound(good); !errors.Is(err, errFound) || !strings.Contains(err.Error(), "node.id is 7") {
		t.Errorf("another id than its own: made %+v, %v", i, err)
	}
}

// TestJoining: a member that gives no id is asked again, another one perhaps, and it is told why there is none.
func TestJoining(t *testing.T) {
	f, err := newFormer("d:1", []string{"a:1", "b:1"}, 0, meta.Identity{}, rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(0)
	joins := 0
	for range 3 {
		f.step(now)
		f.probed(now, "b:1", probeAnswer{State: stateMember, Node: 2, ClusterID: "x"}, nil)
		for _, c := range f.step(now) {
			if c.key == keyJoin {
				joins++
				f.joined(now, joinAnswer{}, meta.ErrNoLeader, false)
			}
		}
		if why := f.waitsFor(now); !strings.Contains(why, meta.ErrNoLeader.Error()) || strings.Contains(why, "no founder") {
			t.Errorf("it waits for %s", why)
		}
		now = now.Add(probeEvery)
	}
	if joins != 3 {
		t.Errorf("asked %d times", joins)
	}
	f.step(now)
	f.probed(now, "b:1", probeAnswer{State: stateMember, Node: 2, ClusterID: "x"}, nil)
	f.joined(now, joinAnswer{Node: 7, ClusterID: "x"}, nil, false)
	if f.outcome == nil || f.outcome.Node != 7 || f.outcome.ClusterID != "x" || f.outcome.Voters != nil {
		t.Errorf("it became %+v", f.outcome)
	}
}

// TestFounding: who founds, and what keeps it from that.
func TestFounding(t *testing.T) {
	list := []string{"a:1", "b:1", "c:1"}
	fresh := probeAnswer{State: stateFresh, Join: list, Nonce: "n"}
	with := func(change func(*probeAnswer)) probeAnswer {
		a := fresh
		change(&a)
		return a
	}
	member := func(id int32, cluster string) probeAnswer {
		return probeAnswer{State: stateMember, Node: id, ClusterID: cluster}
	}
	for _, c := range []struct {
		name  string
		self  string
		want  int32
		b, c  probeAnswer // of the two others, in the order of the list
		sends int16       // the key of what it sends, 0: nothing
		fault string
		waits string
	}{
		{name: "all fresh", self: "a:1", b: fresh, c: fresh, sends: keyFound},
		{name: "not the first", self: "b:1", b: fresh, c: fresh},
		{name: "one is founded", self: "a:1", b: fresh, c: with(func(a *probeAnswer) { a.State, a.ClusterID, a.Node = stateFounded, "x", 3 }), sends: keyFound},
		{name: "one has started", self: "a:1", b: fresh, c: probeAnswer{State: stateStarted, ClusterID: "x", Node: 3, Join: list}, waits: "c:1: has an id in cluster x"},
		{name: "another list", self: "a:1", b: fresh, c: with(func(a *probeAnswer) { a.Join = []string{"c:1", "b:1", "a:1"} }), waits: "its --join is c:1,b:1,a:1"},
		{name: "a member", self: "a:1", b: fresh, c: member(3, "x"), sends: keyJoin},
		{name: "two clusters", self: "a:1", b: member(2, "x"), c: member(3, "y"), fault: "b:1 is a node of cluster x, and c:1 of y"},
		{name: "own address under another name", self: "a:1", b: fresh, c: with(func(a *probeAnswer) { a.Token = "self" }), fault: "c:1 is this node itself"},
		{name: "own id at another", self: "b:1", want: 2, b: fresh, c: with(func(a *probeAnswer) { a.Want = 2 }), fault: "node.id 2 is c:1's too"},
		{name: "own id at a member", self: "b:1", want: 2, b: fresh, c: member(2, "x"), fault: "node.id 2 is c:1's too"},
		{name: "one id twice", self: "a:1", b: with(func(a *probeAnswer) { a.Want = 3 }), c: fresh, fault: "node.id 3 would be both b:1's and c:1's"},
	} {
		f, err := newFormer(c.self, list, c.want, meta.Identity{}, rand.NewChaCha8([32]byte{1}))
		if err != nil {
			t.Fatal(err)
		}
		now := time.UnixMilli(0)
		f.step(now)
		others := slices.DeleteFunc(slices.Clone(list), func(a string) bool { return a == c.self })
		for i, a := range []probeAnswer{c.b, c.c} {
			if a.Token == "self" {
				a.Token = f.token
			}
			f.probed(now, others[i], a, nil)
		}
		var keys []int16
		for _, call := range f.step(now) {
			keys = append(keys, call.key)
		}
		switch {
		case (f.fault != nil) != (c.fault != "") || f.fault != nil && !strings.Contains(f.fault.Error(), c.fault):
			t.Errorf("%s: fault %v", c.name, f.fault)
		case (c.sends != 0) != (len(keys) > 0) || slices.ContainsFunc(keys, func(k int16) bool { return k != c.sends }):
			t.Errorf("%s: sends %v", c.name, keys)
		case !strings.Contains(f.waitsFor(now), c.waits):
			t.Errorf("%s: waits for %s", c.name, f.waitsFor(now))
		}
	}
}
