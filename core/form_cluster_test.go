package core

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage/vfs"
)

// liveNode is a process: Form, Open, Run and Serve.
type liveNode struct {
	*formingNode
	t    *testing.T
	addr string

	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	b       *Broker // nil: forming, or over
	fault   error
}

func liveNodes(t *testing.T, count int) (nodes []*liveNode) {
	t.Helper()
	fresh, list := formingNodes(t, count)
	for i, n := range fresh {
		n.cfg.Advertise = list[i]
		l := &liveNode{formingNode: n, t: t, addr: list[i]}
		t.Cleanup(func() {
			l.end()
			if t.Failed() {
				t.Logf("log of %s:\n%s", l.addr, l.log)
			}
		})
		nodes = append(nodes, l)
	}
	return nodes
}

// start starts it, on the address that it had.
func (n *liveNode) start() {
	n.t.Helper()
	var ctx context.Context
	ctx, n.stop = context.WithCancel(n.t.Context())
	_ = n.ln.Close() // it may be so already
	var err error
	if n.ln, err = net.Listen("tcp", n.addr); err != nil {
		n.t.Fatal(err)
	}
	n.fault = nil
	n.running.Go(func() {
		err := n.run(ctx)
		n.mu.Lock()
		n.b, n.fault = nil, err
		n.mu.Unlock()
	})
}

// move gives it another address.
func (n *liveNode) move() {
	n.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	_ = n.ln.Close() // it is so already
	n.ln, n.addr, n.cfg.Advertise = ln, ln.Addr().String(), ln.Addr().String()
}

func (n *liveNode) run(ctx context.Context) error {
	if err := Form(ctx, n.cfg, n.ln); err != nil {
		return err
	}
	b, err := Open(n.cfg)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.b = b
	n.mu.Unlock()
	var serving sync.WaitGroup
	serving.Go(func() { _ = b.Serve(n.ln) })
	err = b.Run(ctx)
	err = errors.Join(err, b.Close())
	serving.Wait()
	return err
}

func (n *liveNode) end() {
	if n.stop != nil {
		n.stop()
		n.running.Wait()
	}
}

func (n *liveNode) broker() *Broker {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b
}

func (n *liveNode) isActive() bool {
	b := n.broker()
	return b != nil && b.isServing() && b.active(b.ID())
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestClusterComesToBe: three fresh nodes form a cluster and take records; a fourth joins; one whose disk was lost joins under a new id; and after all
// have been down, and moved, they find each other again, with nothing but their folders and the list.
func TestClusterComesToBe(t *testing.T) {
	t.Parallel()
	nodes := liveNodes(t, 4)
	list := []string{nodes[0].addr, nodes[1].addr, nodes[2].addr}
	for _, n := range nodes {
		n.cfg.Join = list
	}
	all := func(nodes ...*liveNode) func() bool {
		return func() bool { return !slices.ContainsFunc(nodes, func(n *liveNode) bool { return !n.isActive() }) }
	}
	for _, n := range nodes[:3] {
		n.start()
	}
	eventually(t, "three nodes are active", all(nodes[:3]...))
	for i, n := range nodes[:3] {
		if b := n.broker(); b.ID() != int32(i+1) || b.ClusterID() != nodes[0].broker().ClusterID() || b.ClusterID() == "" {
			t.Errorf("%s is node %d of %q", n.addr, b.ID(), b.ClusterID())
		}
	}
	nodes[3].start()
	eventually(t, "a fourth is active", all(nodes...))
	if id := nodes[3].broker().ID(); id != 4 {
		t.Errorf("who joined is node %d", id)
	}

	produceOne(t, list)
	nodes[1].end()
	nodes[1].cfg.FS = vfs.NewMem()
	nodes[1].start()
	eventually(t, "who lost its disk is active", all(nodes...))
	if id := nodes[1].broker().ID(); id != 5 {
		t.Errorf("who lost its disk is node %d", id)
	}

	eventually(t, "who it was is fenced", func() bool { return !nodes[0].broker().active(2) })
	cluster := nodes[0].broker().ClusterID()
	list = nil
	for _, n := range nodes {
		n.end()
		n.move()
		list = append(list, n.addr)
	}
	for _, n := range nodes {
		n.cfg.Join = list
		n.start()
	}
	eventually(t, "all are active again", all(nodes...))
	for i, id := range []int32{1, 5, 3, 4} {
		if b := nodes[i].broker(); b.ID() != id || b.ClusterID() != cluster {
			t.Errorf("%s is node %d of %s", nodes[i].addr, b.ID(), b.ClusterID())
		}
	}
	produceOne(t, list)
}

func produceOne(t *testing.T, list []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(list...), kgo.AllowAutoTopicCreation(), kgo.RecordDeliveryTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Errorf("produce: %v", err)
	}
}

// TestOneIsJoined: a node that was alone is joined by two, and all three vote.
func TestOneIsJoined(t *testing.T) {
	t.Parallel()
	nodes := liveNodes(t, 3)
	nodes[0].cfg.Join = nil
	nodes[1].cfg.Join, nodes[2].cfg.Join = []string{nodes[0].addr}, []string{nodes[0].addr}
	for _, n := range nodes {
		n.start()
		eventually(t, "it is active", n.isActive)
	}
	eventually(t, "three voters", func() bool {
		voters := 0
		for _, m := range nodes[2].broker().meta.Status().Members {
			if m.IsVoter && !m.IsLeaving {
				voters++
			}
		}
		return voters == 3
	})
	nodes[0].end()
	eventually(t, "others lead", func() bool { return nodes[1].broker().leader.Load() > 1 })
	produceOne(t, []string{nodes[1].addr, nodes[2].addr})
}

// TestJoinRefusesUsedID: a node.id that somebody had is nobody's any more.
func TestJoinRefusesUsedID(t *testing.T) {
	t.Parallel()
	nodes := liveNodes(t, 2)
	nodes[0].cfg.Join = nil
	nodes[0].cfg.NodeID = 5
	nodes[1].cfg.Join, nodes[1].cfg.NodeID = []string{nodes[0].addr}, 3
	nodes[0].start()
	eventually(t, "it is active", nodes[0].isActive)
	nodes[1].start()
	nodes[1].running.Wait()
	if err := nodes[1].fault; !errors.Is(err, errJoin) || !strings.Contains(err.Error(), meta.ErrNodeID.Error()) {
		t.Errorf("got %v", err)
	}
}

// TestForeignFolder: a folder of another cluster than the nodes of its list is refused by its node, which names both.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	nodes := liveNodes(t, 2)
	var ids []string
	for _, n := range nodes {
		n.cfg.Join = nil
		n.start()
		eventually(t, "it is active", n.isActive)
		ids = append(ids, n.broker().ClusterID())
	}
	nodes[1].end()
	nodes[1].cfg.Join = []string{nodes[0].addr}
	nodes[1].start()
	eventually(t, "it ends", func() bool { nodes[1].mu.Lock(); defer nodes[1].mu.Unlock(); return nodes[1].fault != nil })
	err := nodes[1].fault
	if !errors.Is(err, errForeign) || !strings.Contains(err.Error(), ids[0]) || !strings.Contains(err.Error(), ids[1]) {
		t.Errorf("got %v", err)
	}
}
