package coretest

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weirlog/weir/core"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// Options of a run. The zero value is three nodes, two times of faults.
type Options struct {
	Nodes  int           // 0: 3
	Rounds int           // times of faults, each with an end and a check; 0: 2
	Length time.Duration // of each; 0: 13 s
	Prefer string        // half of the faults are of this kind, if it is one
	Faults core.Faults   // mutations

	Flush  storage.SyncMode // of all nodes; by the system: then no power is lost, and no disk fails
	Logger *slog.Logger     // of the brokers; nil: none
	Trace  func(string)     // told of what happens; nil: nobody
}

// Stats is what happened in a run.
type Stats struct {
	Operations   int // of clients: answered, without loss of the connection
	Records      int // written,
	Acknowledged int // of them by acks=all,
	Lost         int // and given up, by acks 0 and 1, which promise less
	Retries      int // of batches
	Read         int // records, by consumers
	Commits      int // of groups' offsets
	Joins        int // of groups' members
	Topics       int // created
	Trims, Moves int // of the beginning of a partition; of a partition to other nodes

	Faults, Crashes, DiskFaults, Hangs, Leaves int
	Elections, MetaElections                   int
	Truncations, Shrinks, Expands              int
	Steps                                      int
	Virtual                                    time.Duration
}

// Report is a run's outcome. The digest is of everything that moved: the same seed gives the same.
type Report struct {
	Stats
	Fault  string // "": none was found
	Digest uint64
}

// Cluster is a whole cluster and its world.
type Cluster struct {
	ctx    context.Context
	seed   uint64
	opts   Options
	rng    *rand.Rand
	now    time.Time
	nodes  []*node
	net    *network
	check  *checker
	plan   []fault
	isBad  bool // faults may come
	isLast bool // clients begin nothing new
	fault  string
	digest hash.Hash64
	events int
	began  time.Time

	clients   []client
	producers []*producer
	consumers []*consumer
	groups    []*committer
	members   []*member
	admin     *admin

	Stats Stats
}

// client is whoever sends requests.
type client interface {
	step()
	isIdle() bool // with nothing under way
	String() string
}

// place is a partition.
type place struct {
	topic string
	index int32
}

func (p place) String() string { return fmt.Sprintf("%s-%d", p.topic, p.index) }

// Run runs one seed. raft draws its timeouts from crypto/rand: the caller makes that repeat itself (testing/cryptotest).
func Run(ctx context.Context, seed uint64, o Options) (r Report) {
	c := newCluster(ctx, seed, o)
	defer func() {
		if o.Faults != (core.Faults{}) { // what is broken may panic
			if p := recover(); p != nil {
				c.failf("panic: %v", p)
			}
		}
		for _, n := range c.nodes {
			n.endHang(vfs.ErrCrashed)
		}
		c.Stats.Virtual = c.now.Sub(c.began)
		r = Report{Stats: c.Stats, Fault: c.fault, Digest: c.digest.Sum64()}
	}()
	c.settle("at first")
	for range c.opts.Rounds {
		if c.fault != "" {
			break
		}
		c.trouble()
		c.settle("after the faults")
	}
	return r
}

func newCluster(ctx context.Context, seed uint64, o Options) *Cluster {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Rounds == 0 {
		o.Rounds = 2
	}
	if o.Length == 0 {
		o.Length = 13 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{
		ctx: ctx, seed: seed, opts: o, rng: rand.New(rand.NewPCG(seed, 7)), now: time.UnixMilli(1_700_000_000_000), digest: fnv.New64a(),
	}
	c.began = c.now
	c.net, c.check = newNetwork(c), newChecker(c)
	var voters []int32
	for id := int32(1); id <= int32(o.Nodes); id++ {
		voters = append(voters, id)
		c.nodes = append(c.nodes, &node{c: c, id: id, mem: vfs.NewMem(), ahead: time.Duration(c.rng.IntN(2000)-1000) * time.Millisecond})
	}
	for _, n := range c.nodes {
		if err := n.found(voters); err != nil {
			c.failf("%v", err)
			return c
		}
		n.start()
	}
	c.addClients()
	return c
}

func (c *Cluster) failf(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf("after %v: ", c.now.Sub(c.began)) + fmt.Sprintf(format, args...)
	}
}

func (c *Cluster) chance(percent int) bool { return c.rng.IntN(100) < percent }

// trace notes what happens.
func (c *Cluster) trace(what string, l lane, key int16) {
	var b [32]byte
	c.events++
	binary.BigEndian.PutUint64(b[:], uint64(c.now.UnixNano()))
	binary.BigEndian.PutUint32(b[8:], uint32(l.from))
	binary.BigEndian.PutUint32(b[12:], uint32(l.to))
	binary.BigEndian.PutUint16(b[16:], uint16(key))
	copy(b[18:], what)
	c.digest.Write(b[:])
	if c.opts.Trace != nil {
		c.opts.Trace(fmt.Sprintf("%v %s %d>%d lane %d key %d", c.now.Sub(c.began), what, l.from, l.to, l.Lane, key))
	}
}

func (c *Cluster) note(format string, args ...any) {
	if c.opts.Trace != nil {
		c.opts.Trace(fmt.Sprintf("%v ", c.now.Sub(c.began)) + fmt.Sprintf(format, args...))
	}
}

// node is the node of that id, nil if there is none.
func (c *Cluster) node(id int32) *node {
	if id < 1 || int(id) > len(c.nodes) {
		return nil
	}
	return c.nodes[id-1]
}

// isLife says that an end of a connection still lives the same life. Clients have one.
func (c *Cluster) isLife(id int32, life int) bool {
	n := c.node(id)
	return n == nil || n.life == life && n.b != nil
}

func (c *Cluster) isPaused(id int32) bool {
	n := c.node(id)
	return n != nil && !n.pausedUntil.IsZero()
}

// step lets a little time pass.
func (c *Cluster) step() {
	c.now = c.now.Add(time.Duration(1+c.rng.IntN(10)) * time.Millisecond)
	c.Stats.Steps++
	if c.isBad {
		c.breakWhatIsDue()
	}
	c.net.step()
	for _, i := range c.rng.Perm(len(c.nodes)) {
		c.nodes[i].step()
	}
	for _, k := range c.clients {
		k.step()
	}
	c.check.look()
}

// settleTime is how long a cluster without faults may take to become one.
const settleTime = 40 * time.Second

// settle lets everything work for a while without faults, then lets what is under way end, and checks what is there.
func (c *Cluster) settle(when string) {
	c.heal()
	for until := c.now.Add(2 * time.Second); c.fault == "" && c.now.Before(until); {
		c.step()
	}
	c.isLast = true
	until := c.now.Add(settleTime)
	for c.fault == "" && c.now.Before(until) {
		if c.step(); c.Stats.Steps%16 == 0 && c.unsettled() == "" {
			break
		}
	}
	if why := c.unsettled(); c.fault == "" && why != "" {
		c.failf("%s the cluster doesn't become one in %v: %s\n%s", when, settleTime, why, c.describe())
	}
	if c.fault == "" {
		c.check.compareAll()
	}
	c.isLast = false
	for _, g := range c.groups {
		g.renew()
	}
	for _, m := range c.members {
		m.renew()
	}
}

// unsettled is why the cluster isn't one yet, "" if it is.
func (c *Cluster) unsettled() string {
	for _, n := range c.nodes {
		if n.b == nil || !n.leaveUntil.IsZero() {
			return fmt.Sprintf("node %d is down, or will be", n.id)
		}
	}
	for _, k := range c.clients {
		if !k.isIdle() {
			return k.String() + " is not idle"
		}
	}
	return c.check.unsettled()
}

// describe is what is known of everyone.
func (c *Cluster) describe() (s string) {
	for _, n := range c.nodes {
		if n.b == nil {
			s += fmt.Sprintf("node %d is down\n", n.id)
			continue
		}
		s += fmt.Sprintf("node %d: %+v\n", n.id, n.b.Quorum().Status())
		for _, pl := range c.check.all(n) {
			p := n.b.Replica(pl.topic, pl.index)
			if p == nil {
				s += fmt.Sprintf("  %v: no replica\n", pl)
				continue
			}
			a, _ := p.Assigned()
			s += fmt.Sprintf("  %v: %+v, log [%d, %d), durable to %d, hw %d, epoch %d, err %v\n", pl, a, p.Log().StartOffset(), p.Log().EndOffset(), p.Log().DurableEnd(), p.HighWatermark(), p.Log().LeaderEpoch(), p.Err())
			if w, ok := p.Wish(); ok {
				s += fmt.Sprintf("    wishes %+v\n", w)
			}
			for _, r := range p.Replicas() {
				s += fmt.Sprintf("    %+v\n", r)
			}
		}
	}
	for _, k := range c.clients {
		s += k.String() + "\n"
	}
	return s
}
