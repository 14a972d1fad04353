package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// cluster is three replicas of one partition on one goroutine: memory disks, late and lost messages, power cuts, and a model of the
// controller that can't fail but is heard late.
type cluster struct {
	rng    *rand.Rand
	now    time.Time
	nodes  []*node
	events []event // by nothing; each has its time
	isBad  bool
	mu     mutation

	truth  Assignment // the controller's
	active map[int32]bool
	values int
	acked  map[int64]string // by offset
	seen   []string         // what was below a leader's high watermark, by offset
	fault  string
	stats  stats
}

type stats struct{ acks, refused, cuts, elections, shrinks, expands, crashes, restarts int }

func (s *stats) add(o stats) {
	s.acks += o.acks
	s.refused += o.refused
	s.cuts += o.cuts
	s.elections += o.elections
	s.shrinks += o.shrinks
	s.expands += o.expands
	s.crashes += o.crashes
	s.restarts += o.restarts
}

type event struct {
	at time.Time
	do func()
}

type node struct {
	c          *cluster
	id         int32
	mem        *vfs.Mem
	s          *storage.Store
	p          *Partition // nil: down
	life       int
	generation int64
	isAsking   bool  // a fetch is under way
	hw         int64 // checked up to here
	upAt       time.Time
	news       []news // of the metadata, in its order
}

// news is what a node hears of the controller: an assignment, or that its wish was refused.
type news struct {
	assigned Assignment
	refused  *ISRWish
}

// mutation is a way to break the code, or its use.
type mutation struct {
	name     string
	faults   Faults
	withdraw bool   // a wish whose fate is unknown is withdrawn
	first    uint64 // seed to begin with: those before it don't find it
}

func (c *cluster) failf(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(format, args...)
	}
}

func (c *cluster) chance(percent int) bool { return c.rng.IntN(100) < percent }

// later has something happen after a while, or, among faults, never.
func (c *cluster) later(do func()) {
	if c.isBad && c.chance(5) {
		return
	}
	c.surely(do)
}

func (c *cluster) surely(do func()) {
	delay := c.rng.IntN(5)
	if c.isBad && c.chance(10) {
		delay = c.rng.IntN(500)
	}
	c.events = append(c.events, event{c.now.Add(time.Duration(delay) * time.Millisecond), do})
}

func newCluster(seed uint64, m mutation) *cluster {
	c := &cluster{
		rng: rand.New(rand.NewPCG(seed, 5)), now: time.UnixMilli(1_700_000_000_000), mu: m, active: make(map[int32]bool), acked: make(map[int64]string),
		truth: Assignment{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}},
	}
	for id := int32(1); id <= 3; id++ {
		c.nodes = append(c.nodes, &node{c: c, id: id, mem: vfs.NewMem()})
	}
	for _, n := range c.nodes {
		n.start()
		c.active[n.id] = true
	}
	return c
}

func (n *node) start() {
	s, err := storage.Open(storage.Options{FS: n.mem, Dir: "/data", WALFileBytes: 64 << 10, TailBytes: 1 << 20, RetentionInterval: -1})
	var log *storage.Log
	if err == nil {
		log, err = s.OpenLog(storage.LogID{Topic: [16]byte{1}}, "t-0", storage.LogConfig{HoldsCleanup: true})
	}
	if err != nil {
		n.c.failf("node %d: %v", n.id, err)
		return
	}
	n.s, n.p, n.life, n.isAsking, n.hw = s, New(s, log, "t", 0, n.id), n.life+1, false, 0
	n.p.Break(n.c.mu.faults)
	n.generation++
	n.news = []news{{assigned: n.c.truth}}
}

func (n *node) crash() {
	c := n.c
	c.stats.crashes++
	n.s, n.p = nil, nil
	n.mem = n.mem.CrashClone(c.rng)
	n.upAt = c.now.Add(time.Duration(c.rng.IntN(800)) * time.Millisecond)
	c.out(n.id)
}

// out is the controller's: a broker is silent, or has started anew.
func (c *cluster) out(id int32) {
	c.active[id] = false
	a := c.truth
	if !slices.Contains(a.ISR, id) {
		return
	}
	others := slices.DeleteFunc(slices.Clone(a.ISR), func(other int32) bool { return other == id || !c.active[other] })
	if len(others) == 0 {
		if a.Leader == id {
			a.Leader = -1
			a.LeaderEpoch++
			a.PartitionEpoch++
			c.announce(a)
		}
		return
	}
	if a.Leader >= 0 {
		a.ISR = slices.DeleteFunc(slices.Clone(a.ISR), func(other int32) bool { return other == id })
	}
	if a.Leader == id {
		a.Leader = others[c.rng.IntN(len(others))]
		a.LeaderEpoch++
		c.stats.elections++
	}
	a.PartitionEpoch++
	c.announce(a)
}

// in is the controller's: a broker has caught up with the metadata.
func (c *cluster) in(id int32) {
	c.active[id] = true
	if a := c.truth; a.Leader < 0 && slices.Contains(a.ISR, id) {
		a.Leader = id
		a.LeaderEpoch++
		a.PartitionEpoch++
		c.stats.elections++
		c.announce(a)
	}
}

func (c *cluster) announce(a Assignment) {
	c.truth = a
	for _, n := range c.nodes {
		n.news = append(n.news, news{assigned: a})
	}
}

// grant is the controller's: a leader's wish, if it is in time.
func (c *cluster) grant(from int32, w ISRWish) bool {
	a := c.truth
	if a.Leader != from || w.LeaderEpoch != a.LeaderEpoch || w.PartitionEpoch != a.PartitionEpoch {
		return false
	}
	for i, id := range w.ISR {
		if !slices.Contains(a.ISR, id) && (!c.active[id] || c.nodes[id-1].generation != w.Generations[i]) {
			return false
		}
	}
	if len(w.ISR) > len(a.ISR) {
		c.stats.expands++
	} else {
		c.stats.shrinks++
	}
	a.ISR = slices.Clone(w.ISR)
	a.PartitionEpoch++
	c.announce(a)
	return true
}

func (c *cluster) step() {
	c.now = c.now.Add(time.Duration(1+c.rng.IntN(20)) * time.Millisecond)
	if c.isBad {
		c.breakSomething()
	}
	due := slices.Clone(c.events)
	c.events = c.events[:0]
	for _, e := range due {
		if e.at.After(c.now) {
			c.events = append(c.events, e)
		}
	}
	for _, e := range due {
		if !e.at.After(c.now) {
			e.do()
		}
	}
	for _, i := range c.rng.Perm(len(c.nodes)) {
		if n := c.nodes[i]; n.p != nil {
			n.step()
		} else if c.now.After(n.upAt) {
			n.start()
		}
	}
}

func (c *cluster) breakSomething() {
	n := c.nodes[c.rng.IntN(3)]
	switch c.rng.IntN(100) {
	case 0:
		if n.p != nil {
			n.crash()
		}
	case 1: // it is silent to the controller, and leads on as far as it knows
		c.out(n.id)
		n.generation++ // it will register again
	case 2: // power is cut everywhere; whose end the controller sees last is in sync alone
		if c.chance(40) {
			for _, i := range c.rng.Perm(3) {
				if n := c.nodes[i]; n.p != nil {
					n.crash()
				}
			}
		}
	}
}

func (n *node) step() {
	c := n.c
	if len(n.news) > 0 && c.chance(70) { // in order, and as late as it may be
		next := n.news[0]
		n.news = n.news[1:]
		if next.refused != nil {
			n.p.Withdraw(*next.refused)
		} else {
			n.p.Assign(next.assigned, c.now)
		}
	}
	if len(n.news) == 0 && !c.active[n.id] && c.chance(20) {
		c.in(n.id)
	}
	if c.chance(40) {
		n.produce()
	}
	if c.chance(60) {
		n.ask()
	}
	if c.chance(30) {
		n.review()
	}
	if a, _ := n.p.Assigned(); c.isBad && a.Leader == n.id && c.chance(1) { // retention
		if _, err := n.p.Log().AdvanceStart(max(0, n.p.HighWatermark()-int64(c.rng.IntN(3)))); err != nil {
			c.failf("node %d: advance start: %v", n.id, err)
		}
	}
	if c.chance(40) {
		done, err := n.s.Commit(c.now)
		for _, complete := range done {
			complete()
		}
		if err != nil {
			c.failf("node %d: %v", n.id, err)
		}
	}
	if c.chance(10) {
		if err := n.s.Flush(c.now); err != nil {
			c.failf("node %d: %v", n.id, err)
		}
	}
	n.check()
}

func (n *node) produce() {
	c := n.c
	c.values++
	value := fmt.Sprint("v", c.values)
	acks := []Acks{AcksAll, AcksAll, AcksLeader}[c.rng.IntN(3)]
	batch := record.AppendBatch(nil, []record.Record{{Value: []byte(value)}}, c.now)
	err := n.p.Append(batch, acks, 1+c.rng.IntN(2), c.now, func(app storage.Appended, err error) {
		if err != nil || acks != AcksAll {
			return
		}
		c.stats.acks++
		if old, ok := c.acked[app.BaseOffset]; ok {
			c.failf("%s and %s are acknowledged at %d", old, value, app.BaseOffset)
		}
		c.acked[app.BaseOffset] = value
	})
	switch {
	case errors.Is(err, ErrNotLeader), errors.Is(err, ErrNotEnough), errors.Is(err, storage.ErrBusy), errors.Is(err, storage.ErrStaleEpoch):
		c.stats.refused++
	case err != nil:
		c.failf("node %d: append: %v", n.id, err)
	}
}

// ask is one fetch, there and back.
func (n *node) ask() {
	c := n.c
	ask, ok := n.p.Ask()
	if !ok || n.isAsking && c.chance(90) { // some ask again, late answers come anyhow
		return
	}
	a, _ := n.p.Assigned()
	p, generation := n.p, n.generation
	n.isAsking = true
	c.later(func() {
		l := c.nodes[a.Leader-1]
		if l.p == nil {
			return
		}
		answer := FetchAnswer{Ask: ask}
		d, err := l.p.Fetched(n.id, generation, ask, c.now)
		answer.Start, answer.HighWatermark, answer.Diverging = l.p.Log().StartOffset(), l.p.HighWatermark(), d
		switch {
		case err != nil && !errors.Is(err, storage.ErrOffsetOutOfRange):
			return
		case err == nil && d == nil:
			pieces, err := l.p.Log().Read(ask.Next, l.p.Log().EndOffset(), 1+c.rng.IntN(500), nil)
			if err != nil {
				c.failf("node %d reads at %d: %v", l.id, ask.Next, err)
			}
			answer.Records = slices.Concat(pieces...)
			if c.chance(5) && len(answer.Records) > 0 {
				answer.Records = answer.Records[:c.rng.IntN(len(answer.Records))]
			}
		}
		c.later(func() {
			if n.p != p {
				return
			}
			n.isAsking = false
			if answer.Diverging != nil {
				c.stats.cuts++
			}
			if answer.Start > p.Log().EndOffset() {
				c.stats.restarts++
			}
			if _, err := p.Take(answer, c.now); err != nil && !errors.Is(err, storage.ErrBusy) {
				c.failf("node %d: %v", n.id, err)
			}
		})
	})
	c.surely(func() { n.isAsking = n.isAsking && n.p != p }) // it doesn't wait for ever
}

func (n *node) review() {
	c, p := n.c, n.p
	w, ok := p.Wish()
	if !ok {
		if w, ok = p.Review(c.now, 100*time.Millisecond, func(int32, int64) bool { return true }); !ok {
			return
		}
	} else if c.mu.withdraw {
		p.Withdraw(w)
	}
	c.later(func() {
		if !c.grant(n.id, w) && n.p == p {
			n.news = append(n.news, news{refused: &w})
		}
	})
}

// check looks at what has come below the high watermark.
func (n *node) check() {
	c, hw := n.c, n.p.HighWatermark()
	if hw > n.p.Log().EndOffset() {
		c.failf("node %d: high watermark %d, the log ends at %d", n.id, hw, n.p.Log().EndOffset())
		return
	}
	if a, ok := n.p.Assigned(); !ok || a.Leader != n.id {
		return
	}
	if hw < n.hw {
		c.failf("node %d: high watermark %d after %d", n.id, hw, n.hw)
	}
	from := max(n.hw, n.p.Log().StartOffset())
	n.hw = hw
	for offset, value := range n.values(from, hw) {
		for int64(len(c.seen)) <= offset {
			c.seen = append(c.seen, "")
		}
		if old := c.seen[offset]; old != "" && old != value {
			c.failf("node %d: %s at %d below the high watermark, it was %s", n.id, value, offset, old)
		}
		c.seen[offset] = value
	}
}

func (n *node) values(from, end int64) map[int64]string {
	values := make(map[int64]string)
	err := record.Scan(n.p.Log().Read, from, end, func(offset int64, _, value []byte) error {
		values[offset] = string(value)
		return nil
	})
	if err != nil {
		n.c.failf("node %d reads [%d, %d): %v", n.id, from, end, err)
	}
	return values
}

// converge ends the faults and compares the replicas.
func (c *cluster) converge() {
	c.isBad = false
	for _, n := range c.nodes {
		n.upAt = time.Time{}
	}
	for range 1000 {
		if c.step(); c.fault != "" {
			return
		}
		if c.isOne() {
			break
		}
	}
	if !c.isOne() {
		c.failf("after the faults the replicas don't become one: %+v", c.truth)
		for _, n := range c.nodes {
			c.fault += fmt.Sprintf("\nnode %d: %+v, epochs up to %d, end %d, hw %d, %d news, replicas %+v", n.id, n.p.assigned, n.p.Log().LeaderEpoch(), n.p.Log().EndOffset(), n.p.hw, len(n.news), n.p.Replicas())
		}
		return
	}
	l := c.nodes[c.truth.Leader-1]
	start, hw := l.p.Log().StartOffset(), l.p.HighWatermark()
	want := l.values(start, hw)
	for offset, value := range c.acked {
		if offset >= start && offset < hw && want[offset] != value {
			c.failf("%s was acknowledged at %d, there is %q", value, offset, want[offset])
		}
	}
	for _, n := range c.nodes {
		for offset, value := range n.values(max(start, n.p.Log().StartOffset()), min(hw, n.p.Log().EndOffset())) {
			if want[offset] != value {
				c.failf("node %d has %s at %d, the leader %s", n.id, value, offset, want[offset])
			}
		}
	}
}

// isOne says that all are in sync, and every record that was acknowledged is below the high watermark.
func (c *cluster) isOne() bool {
	if len(c.truth.ISR) < 3 || c.truth.Leader < 0 {
		return false
	}
	for _, n := range c.nodes {
		if n.p == nil || len(n.news) > 0 {
			return false
		}
	}
	hw := c.nodes[c.truth.Leader-1].p.HighWatermark()
	for offset := range c.acked {
		if offset >= hw {
			return false
		}
	}
	return hw >= int64(len(c.seen))
}

func runCluster(seed uint64, m mutation) *cluster {
	c := newCluster(seed, m)
	c.isBad = true
	for range 700 {
		if c.step(); c.fault != "" {
			return c
		}
	}
	c.converge()
	return c
}

// TestCluster: what was acknowledged stays, and no log below a high watermark differs. WEIR_SEED runs one seed, WEIR_SEEDS so many.
func TestCluster(t *testing.T) {
	first, count := uint64(0), uint64(40)
	for name, to := range map[string]*uint64{"WEIR_SEED": &first, "WEIR_SEEDS": &count} {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if *to = n; name == "WEIR_SEED" {
			count = 1
		}
	}
	var sum stats
	for seed := first; seed < first+count; seed++ {
		c := runCluster(seed, mutation{})
		if c.fault != "" {
			t.Fatalf("seed %d: %s", seed, c.fault)
		}
		sum.add(c.stats)
	}
	t.Logf("%+v", sum)
	if count > 1 && (sum.acks == 0 || sum.cuts == 0 || sum.elections == 0 || sum.shrinks == 0 || sum.expands == 0 || sum.crashes == 0 || sum.restarts == 0) {
		t.Errorf("something never happened: %+v", sum)
	}
}

// TestClusterFindsMutations: the same runs find what is broken on purpose.
func TestClusterFindsMutations(t *testing.T) {
	for _, m := range []mutation{
		{name: "the leader counts what its disk hasn't got", faults: Faults{AckAtEnd: true}},
		{name: "log ends count rather than durable ends", faults: Faults{CountEnds: true}},
		{name: "the leader doesn't look whether logs agree", faults: Faults{SkipDivergence: true}},
		{name: "the follower keeps what the leader doesn't have", faults: Faults{SkipCut: true}},
		{name: "late answers are taken", faults: Faults{TrustLate: true}, first: 110},
		{name: "a follower joins that lacks what was acknowledged", faults: Faults{JoinEarly: true}},
		{name: "those to be added don't count", faults: Faults{TrustOldISR: true}},
		{name: "a wish whose fate is unknown is withdrawn", withdraw: true, first: 45},
	} {
		t.Run(m.name, func(t *testing.T) {
			const most = 200
			for seed := m.first; seed < most; seed++ {
				if c := runCluster(seed, m); c.fault != "" {
					t.Logf("found by seed %d: %.300s", seed, c.fault)
					return
				}
			}
			t.Errorf("not found by %d seeds", most)
		})
	}
}
