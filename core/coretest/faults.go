package coretest

import (
	"slices"
	"time"

	"github.com/weirlog/weir/core"
	"github.com/weirlog/weir/storage"
)

// fault is one thing that is to go wrong, and when.
type fault struct {
	at   time.Time
	name string
	do   func()
}

// leastFaults is how many faults a time of trouble has at least.
const leastFaults = 4

// trouble is a time of faults while clients work.
func (c *Cluster) trouble() {
	length := c.opts.Length
	c.isBad = true
	for range leastFaults + c.rng.IntN(6) {
		f := c.draw()
		f.at = c.now.Add(time.Duration(c.rng.Int64N(int64(length * 9 / 10))))
		c.plan = append(c.plan, f)
	}
	slices.SortStableFunc(c.plan, func(a, b fault) int { return a.at.Compare(b.at) })
	for until := c.now.Add(length); c.fault == "" && c.now.Before(until); {
		c.step()
	}
	for len(c.plan) > 0 && c.fault == "" { // what comes of a fault may lie behind
		c.step()
	}
}

// losesPower says that power is lost and disks fail. Who leaves the sync to the system promises nothing then.
func (c *Cluster) losesPower() bool { return c.opts.Flush == storage.SyncGroup }

func (c *Cluster) breakWhatIsDue() {
	for len(c.plan) > 0 && !c.plan[0].at.After(c.now) {
		f := c.plan[0]
		c.plan = c.plan[1:]
		if f.name != "" {
			c.note("%s", f.name)
		}
		f.do()
	}
}

// later has something happen in a while, at the latest when the faults end.
func (c *Cluster) later(d time.Duration, name string, do func()) {
	f := fault{c.now.Add(d), name, do}
	i := slices.IndexFunc(c.plan, func(o fault) bool { return o.at.After(f.at) })
	if i < 0 {
		i = len(c.plan)
	}
	c.plan = slices.Insert(c.plan, i, f)
}

// draw picks a fault, as of the moment when it comes.
func (c *Cluster) draw() fault {
	duration := func(mostMs int) time.Duration { return time.Duration(50+c.rng.IntN(mostMs)) * time.Millisecond }
	type kind struct {
		weight int
		name   string
		do     func(n *node)
	}
	kinds := []kind{
		{14, "loss of power", func(n *node) { n.crash(true) }},
		{8, "kill -9", func(n *node) { n.crash(false) }},
		{8, "crash in the midst of a write", func(n *node) { n.crashInAWrite() }},
		{9, "pause", func(n *node) { n.pause(duration(4000)) }},
		{8, "cut in one direction", func(n *node) { c.cut(n, true, duration(4000)) }},
		{8, "cut in both directions", func(n *node) { c.cut(n, false, duration(4000)) }},
		{8, "isolated", func(n *node) { c.isolate(n, duration(5000)) }},
		{5, "slow", func(n *node) { c.slowDown(n, duration(4000)) }},
		{4, "a connection is stuck", func(n *node) { c.stick(n, c.other(n), core.Lane(c.rng.IntN(2)), duration(4000)) }},
		{5, "connections reset", func(*node) { c.reset() }},
		{6, "disk hangs", func(n *node) { n.hangs(duration(4000)) }},
		{6, "disk fails a sync", func(n *node) { n.failSync() }},
		{7, "clock jumps", func(n *node) { n.jump() }},
		{6, "power is cut everywhere", func(*node) { c.blackout(true) }},
		{8, "controlled shutdown", func(n *node) { n.leave() }},
		{2, "two lose power", func(n *node) { n.crash(true); c.other(n).crash(true) }},
		{4, "loss of power, one after the other", func(n *node) {
			n.crash(true)
			o := c.other(n)
			c.later(duration(1500), "the other loses power", func() { o.crash(true) })
		}},
		{4, "the leader of a partition loses power", func(n *node) { c.leaderOf(n).crash(true) }},
		{4, "the leader of a partition is isolated", func(n *node) { c.isolate(c.leaderOf(n), duration(5000)) }},
		{4, "the metadata's leader loses power", func(n *node) { c.metaLeader(n).crash(true) }},
		{5, "storm of elections", func(n *node) { c.storm(n) }},
		{4, "a late wish", func(n *node) { c.lateWish(n) }},
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := c.rng.IntN(sum)
	i := slices.IndexFunc(kinds, func(k kind) bool { at -= k.weight; return at < 0 })
	if j := slices.IndexFunc(kinds, func(k kind) bool { return k.name == c.opts.Prefer }); j >= 0 && c.chance(50) {
		i = j
	}
	return fault{name: kinds[i].name, do: func() {
		c.Stats.Faults++
		kinds[i].do(c.nodes[c.rng.IntN(len(c.nodes))])
	}}
}

// other is another node, the same if there is only one.
func (c *Cluster) other(n *node) *node {
	return c.nodes[(int(n.id)-1+1+c.rng.IntN(max(1, len(c.nodes)-1)))%len(c.nodes)]
}

// leaderOf is who leads some partition, as far as anyone knows, else n.
func (c *Cluster) leaderOf(n *node) *node {
	pl := c.check.places()
	at := pl[c.rng.IntN(len(pl))]
	for _, o := range c.nodes {
		if o.b == nil {
			continue
		}
		if p := o.b.Replica(at.topic, at.index); p != nil {
			if a, ok := p.Assigned(); ok && a.Leader == o.id {
				return o
			}
		}
	}
	return n
}

// metaLeader is the metadata's leader, else n.
func (c *Cluster) metaLeader(n *node) *node {
	for _, o := range c.nodes {
		if o.b == nil {
			continue
		}
		if id, _ := o.b.Quorum().Leader(); id == o.id {
			return o
		}
	}
	return n
}

func (n *node) crash(losesPower bool) {
	if n.b != nil {
		n.down(losesPower)
	}
}

// crashInAWrite is a loss of power some calls of the disk from now.
func (n *node) crashInAWrite() {
	if n.c.losesPower() {
		n.mem.CrashAt(n.mem.Ops()+1+int64(n.c.rng.IntN(12)), n.c.chance(50))
	}
}

// blackout is all at once.
func (c *Cluster) blackout(losesPower bool) {
	for _, n := range c.nodes {
		n.crash(losesPower)
	}
}

func (n *node) pause(d time.Duration) {
	if n.b != nil && n.hang == nil {
		n.pausedUntil = n.c.now.Add(d)
	}
}

func (n *node) hangs(d time.Duration) {
	if n.b != nil && n.hang == nil && n.pausedUntil.IsZero() {
		n.beginHang(n.c.now.Add(d))
	}
}

// jump is a clock that is set: seldom far.
func (n *node) jump() {
	c := n.c
	d := time.Duration(c.rng.IntN(4000)-2000) * time.Millisecond
	if c.chance(20) {
		d = time.Duration(c.rng.IntN(120)) * time.Second
	}
	n.ahead += d
}

// cut takes away the way from n to another node, or both ways; sometimes that of the clients too.
func (c *Cluster) cut(n *node, isOneWay bool, d time.Duration) {
	o := c.other(n)
	pairs := [][2]int32{{n.id, o.id}}
	if !isOneWay {
		pairs = append(pairs, [2]int32{o.id, n.id})
	}
	if c.chance(20) {
		for id := range c.clientIDs() {
			pairs = append(pairs, [2]int32{n.id, -id})
		}
	}
	c.cutAll(pairs, d)
}

// isolate cuts a node off all others; clients mostly still reach it.
func (c *Cluster) isolate(n *node, d time.Duration) {
	var pairs [][2]int32
	isOneWay := c.rng.IntN(4)
	for _, o := range c.nodes {
		if o == n {
			continue
		}
		if isOneWay != 0 {
			pairs = append(pairs, [2]int32{n.id, o.id})
		}
		if isOneWay != 1 {
			pairs = append(pairs, [2]int32{o.id, n.id})
		}
	}
	if c.chance(30) {
		for id := range c.clientIDs() {
			pairs = append(pairs, [2]int32{n.id, -id}, [2]int32{-id, n.id})
		}
	}
	c.cutAll(pairs, d)
}

func (c *Cluster) cutAll(pairs [][2]int32, d time.Duration) {
	for _, p := range pairs {
		c.net.cuts[p] = true
	}
	c.later(d, "joined again", func() {
		for _, p := range pairs {
			delete(c.net.cuts, p)
		}
	})
}

func (c *Cluster) slowDown(n *node, d time.Duration) {
	c.net.slow[n.id] = time.Duration(20+c.rng.IntN(400)) * time.Millisecond
	c.later(d, "fast again", func() { delete(c.net.slow, n.id) })
}

// stick has nothing move on one connection.
func (c *Cluster) stick(from, to *node, l core.Lane, d time.Duration) {
	at := lane{from.id, to.id, l}
	c.net.stuck[at] = true
	c.later(d, "goes on", func() { delete(c.net.stuck, at) })
}

// storm has the metadata's leader lose power; it and another, who don't hear each other, both want to lead, and a third, who may just have voted for one
// of them, loses power, is back at once, and hears only the other.
func (c *Cluster) storm(n *node) {
	old := c.metaLeader(n)
	others := slices.DeleteFunc(slices.Clone(c.nodes), func(o *node) bool { return o == old })
	if len(others) < 2 {
		return
	}
	c.rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	rival, voter := others[0], others[1]
	if voter.b == nil {
		return
	}
	old.crash(true)
	old.downUntil = c.now.Add(time.Duration(c.rng.IntN(600)) * time.Millisecond)
	c.cutAll([][2]int32{{old.id, rival.id}, {rival.id, old.id}}, 4*time.Second)
	term, until := voter.b.Quorum().Status().Term, c.now.Add(4*time.Second)
	var look func()
	look = func() {
		if voter.b != nil && voter.hang == nil {
			if now := voter.b.Quorum().Status().Term; now > term {
				term = now
				c.note("node %d, which may have voted in term %d, loses power", voter.id, term)
				voter.crash(true)
				voter.downUntil = c.now
				deaf := []*node{old, rival}[c.rng.IntN(2)]
				c.cutAll([][2]int32{{deaf.id, voter.id}}, time.Second)
			}
		}
		if c.now.Before(until) {
			c.later(time.Millisecond, "", look)
		}
	}
	look()
}

// lateWish has an in-sync set wished for by a message that comes seconds late, when it was long granted by another and has changed since: who it adds
// lags again, and leads next.
func (c *Cluster) lateWish(n *node) {
	old := c.metaLeader(n)
	led := c.leaderOf(n)
	for range 5 { // the metadata's leader itself would not have to send it
		if led == old {
			led = c.leaderOf(n)
		}
	}
	i := slices.IndexFunc(c.nodes, func(o *node) bool { return o != led && o != old })
	if led == old || i < 0 || led.b == nil {
		return
	}
	third := c.nodes[i]
	third.crash(true)
	third.downUntil = c.now.Add(300 * time.Millisecond)
	isCut := false
	var look func()
	look = func() {
		switch {
		case isCut || led.b == nil:
		case led.wishes(third.id):
			isCut = true
			c.cutAll([][2]int32{{third.id, old.id}, {old.id, third.id}}, 5*time.Second)     // it hears who leads now,
			c.cutAll([][2]int32{{led.id, old.id}, {old.id, led.id}}, 5300*time.Millisecond) // and forwards what comes
			c.later(2500*time.Millisecond, "who was added lags", func() {
				c.stick(third, led, core.LaneData, 6*time.Second)
			})
			c.later(5600*time.Millisecond, "the leader of partitions loses power", func() { led.crash(true) })
		default:
			c.later(time.Millisecond, "", look)
		}
	}
	look()
	c.later(4*time.Second, "", func() { isCut = true })
}

// wishes says that the node wants another to be in sync.
func (n *node) wishes(id int32) bool {
	for _, at := range n.c.check.places() {
		if p := n.b.Replica(at.topic, at.index); p != nil {
			if w, ok := p.Wish(); ok && slices.Contains(w.ISR, id) {
				return true
			}
		}
	}
	return false
}

// reset ends some connections.
func (c *Cluster) reset() {
	for _, k := range slices.Clone(c.net.links) {
		if c.chance(40) {
			k.snap()
		}
	}
}

// heal ends all faults.
func (c *Cluster) heal() {
	c.isBad = false
	c.plan = nil
	clear(c.net.cuts)
	clear(c.net.slow)
	clear(c.net.stuck)
	for _, n := range c.nodes {
		n.endHang(nil)
		n.mem.CrashAt(0, false)
		n.downUntil = time.Time{}
		if !n.pausedUntil.IsZero() {
			n.pausedUntil = c.now
		}
	}
}
