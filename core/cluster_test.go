package core

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// cluster is several brokers on one goroutine, with a clock, disks and a network of memory. Nothing fails that isn't told to; core/coretest
// has the cluster to which everything happens.
type cluster struct {
	t     *testing.T
	now   time.Time
	nodes map[int32]*node
	queue []packet
	tune  func(*Config) // before each start

	isLost func(packet) bool // its connection breaks before it comes; nil: none is
}

// node is one of them. Its broker is nil while it is down.
type node struct {
	*Broker
	c     *cluster
	id    int32
	life  int
	mem   *vfs.Mem
	known map[int32]string // as SetNodes said
	isCut bool             // nothing comes and nothing goes
	hangs bool             // nothing is synced
	hang  *hang            // of a sync under way, nil: none
}

// hang is a sync that doesn't return.
type hang struct {
	entered, release chan struct{}
	ended            chan []func() // nil until it hangs
}

// packet is a request or an answer on its way.
type packet struct {
	from, to int32
	life     int // of the receiver, of an answer
	lane     Lane
	req      kmsg.Request
	resp     kmsg.Response
	err      error
	done     func(kmsg.Response, error)
}

var errTestLink = errors.New("link is cut")

// clusterStep is how the clock goes.
const clusterStep = 5 * time.Millisecond

// newCluster starts nodes that were founded as one cluster.
func newCluster(t *testing.T, tune func(*Config), ids ...int32) *cluster {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1)
	c := &cluster{t: t, now: time.UnixMilli(1_700_000_000_000), nodes: make(map[int32]*node), tune: tune}
	t.Cleanup(c.close)
	for _, id := range ids {
		c.found(id, meta.Identity{Node: id, ClusterID: "the-cluster", Voters: ids})
		c.start(id)
	}
	return c
}

// found makes a node with a fresh disk that has this identity; without any, if it is zero.
func (c *cluster) found(id int32, identity meta.Identity) *node {
	c.t.Helper()
	n := &node{c: c, id: id, mem: vfs.NewMem()}
	c.nodes[id] = n
	if identity.Node == 0 {
		return n
	}
	s, err := storage.Open(storage.Options{FS: n.mem, Dir: "data", WALFileBytes: 1 << 20})
	if err == nil {
		_, err = meta.WriteIdentity(s, identity)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// start opens a node's broker.
func (c *cluster) start(id int32) *node {
	c.t.Helper()
	n := c.nodes[id]
	cfg := Default("data")
	cfg.FS, cfg.WALFileBytes, cfg.OffsetsTopicPartitions = n.mem, 1<<20, 4
	cfg.Now = func() time.Time { return c.now }
	cfg.Rand = rand.NewChaCha8([32]byte{byte(id), byte(n.life)})
	cfg.Advertise, cfg.Peers, cfg.Logger = fmt.Sprintf("10.0.0.%d:9092", id), n, testLogger(c.t)
	if c.tune != nil {
		c.tune(&cfg)
	}
	b, err := Open(cfg)
	if err != nil {
		c.t.Fatalf("open node %d: %v", id, err)
	}
	n.Broker, n.life = b, n.life+1
	return n
}

// kill is a loss of power.
func (c *cluster) kill(id int32) {
	n := c.nodes[id]
	n.mem = n.mem.CrashClone(rand.New(rand.NewPCG(uint64(id), uint64(n.life))))
	n.Broker, n.known, n.hangs = nil, nil, false
}

// stop ends a node cleanly.
func (c *cluster) stop(id int32) {
	c.t.Helper()
	n := c.nodes[id]
	if err := n.Close(); err != nil {
		c.t.Errorf("close node %d: %v", id, err)
	}
	n.Broker, n.known = nil, nil
}

func (c *cluster) close() {
	for _, id := range c.ids() {
		if n := c.nodes[id]; n.Broker != nil && n.Err() == nil {
			n.goesOn()
			c.stop(id)
		}
	}
}

func (c *cluster) ids() []int32 { return slices.Sorted(maps.Keys(c.nodes)) }

// up is every node that runs, by id.
func (c *cluster) up() (nodes []*node) {
	for _, id := range c.ids() {
		if n := c.nodes[id]; n.Broker != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Call and SetNodes are Peers.
func (n *node) Call(to int32, lane Lane, req kmsg.Request, done func(kmsg.Response, error)) {
	n.c.queue = append(n.c.queue, packet{from: n.id, to: to, life: n.life, lane: lane, req: req, done: done})
}

func (n *node) SetNodes(nodes map[int32]string) { n.known = nodes }

// step lets clusterStep pass.
func (c *cluster) step() {
	c.now = c.now.Add(clusterStep)
	for _, n := range c.up() {
		n.Step(c.now)
	}
	for range 10 { // what is said at once is heard, synced and answered at once
		packets := c.queue
		c.queue = nil
		for _, p := range packets {
			c.deliver(p)
		}
		for _, n := range c.up() {
			n.sync()
			n.Step(c.now)
		}
	}
}

// sync is a round of the disk.
func (n *node) sync() {
	if n.hangs {
		return
	}
	if n.hang != nil {
		n.hang.sync(n)
		return
	}
	done, err := n.Store().Commit(n.c.now)
	for _, complete := range done {
		complete()
	}
	if err != nil {
		n.c.t.Fatalf("node %d: %v", n.id, err)
	}
}

// hangDisk has the next sync not return.
func (n *node) hangDisk() {
	n.hang = &hang{entered: make(chan struct{}), release: make(chan struct{})}
}

// sync is a round of a disk that hangs as soon as it has something to sync.
func (h *hang) sync(n *node) {
	if h.ended != nil {
		return
	}
	var once sync.Once
	n.mem.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			once.Do(func() { close(h.entered) })
			<-h.release
		}
		return nil
	})
	ended := make(chan []func(), 1)
	go func() {
		done, err := n.Store().Commit(n.c.now)
		if err != nil {
			n.c.t.Errorf("node %d: %v", n.id, err)
		}
		ended <- done
	}()
	select {
	case <-h.entered:
		h.ended = ended
	case done := <-ended: // there was nothing to sync
		for _, complete := range done {
			complete()
		}
	}
}

// goesOn ends a hang.
func (n *node) goesOn() {
	h := n.hang
	if h == nil {
		return
	}
	n.mem.Inject(nil)
	close(h.release)
	n.hang = nil
	if h.ended != nil {
		for _, complete := range <-h.ended {
			complete()
		}
	}
}

// deliver brings a request to its node, or an answer to its asker.
func (c *cluster) deliver(p packet) {
	from, to := c.nodes[p.from], c.nodes[p.to]
	isUp := to != nil && to.Broker != nil && !to.isCut && !from.isCut && (c.isLost == nil || !c.isLost(p))
	switch {
	case p.resp != nil || p.err != nil: // an answer
		if to == nil || to.Broker == nil || to.life != p.life {
			return
		}
		if p.err != nil || !isUp {
			p.done(nil, errTestLink)
			return
		}
		kind := p.req.ResponseKind()
		kind.SetVersion(p.req.GetVersion())
		if err := kind.ReadFrom(p.resp.AppendTo(nil)); err != nil {
			c.t.Fatalf("answer of node %d to key %d: %v", p.from, p.req.Key(), err)
		}
		p.done(kind, nil)
	case !isUp:
		if p.done != nil {
			c.queue = append(c.queue, packet{from: p.to, to: p.from, life: p.life, req: p.req, err: errTestLink, done: p.done})
		}
	default:
		req := &Request{Key: p.req.Key(), Version: p.req.GetVersion(), Body: p.req, Now: c.now, Peer: p.from}
		to.Handle(req, func(resp kmsg.Response) {
			if p.done == nil {
				return
			}
			answer := packet{from: p.to, to: p.from, life: p.life, req: p.req, resp: resp, done: p.done}
			if resp == nil || HangsUp(resp) {
				answer.resp, answer.err = nil, errTestLink
			}
			c.queue = append(c.queue, answer)
		})
	}
}

// run lets time pass.
func (c *cluster) run(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.step()
	}
}

// until lets time pass until ok, and fails after a while.
func (c *cluster) until(what string, ok func() bool) time.Duration {
	c.t.Helper()
	began := c.now
	for !ok() {
		if c.now.Sub(began) > time.Minute {
			c.t.Fatalf("it never came: %s\n%s", what, c.describe())
		}
		c.step()
	}
	return c.now.Sub(began)
}

func (c *cluster) describe() (s string) {
	for _, n := range c.up() {
		s += fmt.Sprintf("node %d: generation %d, registered %t, silent %t, error %v, %+v, brokers %v\n",
			n.id, n.generation.Load(), n.registered.Load(), n.isSilent.Load(), n.Err(), n.meta.Status(), n.brokers())
	}
	return s
}

// ask sends a request to a node as a client does, and waits for the answer.
func (c *cluster) ask(id int32, req kmsg.Request) kmsg.Response {
	c.t.Helper()
	var resp kmsg.Response
	isDone := false
	c.nodes[id].Handle(&Request{Key: req.Key(), Version: req.GetVersion(), Body: req, Now: c.now}, func(r kmsg.Response) { resp, isDone = r, true })
	c.until(fmt.Sprintf("answer of node %d to key %d", id, req.Key()), func() bool { return isDone })
	if resp == nil || HangsUp(resp) {
		return nil
	}
	kind := req.ResponseKind()
	kind.SetVersion(req.GetVersion())
	if err := kind.ReadFrom(resp.AppendTo(nil)); err != nil {
		c.t.Fatalf("answer to key %d: %v", req.Key(), err)
	}
	return kind
}

// brokers is the brokers in a node's image, and their states.
func (n *node) brokers() map[int32]meta.BrokerState {
	states := make(map[int32]meta.BrokerState)
	n.meta.View(func(img *meta.Image) {
		for _, b := range img.Brokers() {
			states[b.ID] = b.State
		}
	})
	return states
}

// areActive says that every node that is up has registered and knows of these brokers, and no others, as active.
func (c *cluster) areActive(ids ...int32) func() bool {
	return func() bool {
		for _, n := range c.up() {
			var active []int32
			for id, state := range n.brokers() {
				if state == meta.BrokerActive {
					active = append(active, id)
				}
			}
			slices.Sort(active)
			if !n.isCut && (!slices.Equal(active, ids) || !n.registered.Load()) {
				return false
			}
		}
		return true
	}
}

// controllerNode leads the metadata's group.
func (c *cluster) controllerNode() *node {
	c.t.Helper()
	var leads *node
	c.until("leader of the group", func() bool {
		for _, n := range c.up() {
			if n.leader.Load() == n.id && !n.isCut {
				leads = n
			}
		}
		return leads != nil
	})
	return leads
}

// newTopic makes a topic of one partition on these replicas, and waits until all know it.
func (c *cluster) newTopic(name string, replicas ...int32) {
	c.t.Helper()
	id := meta.ID{1: 7}
	copy(id[2:], name)
	up := c.up()
	n := up[slices.IndexFunc(up, func(n *node) bool { return !n.isCut })]
	create := meta.CreateTopic{ID: id, Name: name, Replicas: [][]int32{replicas}}
	var failed error
	n.propose(meta.Command{CreateTopic: &create}, c.now, func(_ meta.Result, err error) { failed = err })
	c.until("topic "+name, func() bool {
		for _, n := range c.up() {
			if !n.isCut && n.topics.byName(name) == nil && failed == nil {
				return false
			}
		}
		return true
	})
	if failed != nil {
		c.t.Fatalf("create topic %s: %v", name, failed)
	}
}

// propose has a node propose a command, and waits for its fate.
func (c *cluster) propose(n *node, cmd meta.Command) (r meta.Result, err error) {
	c.t.Helper()
	isDone := false
	n.meta.Propose(cmd, c.now, func(got meta.Result, failed error) { r, err, isDone = got, failed, true })
	c.until("fate of a proposal", func() bool { return isDone })
	return r, err
}

// partitionOf is partition 0 of a topic in a node's image.
func (n *node) partitionOf(topic string) (p meta.Partition) {
	n.meta.View(func(img *meta.Image) {
		if t := img.Topic(topic); t != nil {
			p = t.Partitions[0]
		}
	})
	return p
}

// leads is who leads partition 0 of a topic as a node knows it.
func (n *node) leads(topic string) int32 {
	id, _ := n.topics.byName(topic).currentLeader(0)
	return id
}
