package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

const formSecret = "a secret that all nodes have"

// formingNode is one process's part: a folder, a listener, and what it logs.
type formingNode struct {
	ln  net.Listener
	cfg Config
	log *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until a text is in the log, which it is a few seconds after it has become true.
func (l *lockedBuffer) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(l.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not logged: %s\n%s", text, l)
		}
	}
}

// formingNodes are fresh nodes that listen; each is to join all of them.
func formingNodes(t *testing.T, count int) (nodes []*formingNode, list []string) {
	t.Helper()
	for range count {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		list = append(list, ln.Addr().String())
		n := &formingNode{ln: ln, cfg: Default("/data"), log: &lockedBuffer{}}
		n.cfg.WALFileBytes, n.cfg.TailBytes = 1<<20, 1<<20
		n.cfg.FS, n.cfg.ClusterSecret, n.cfg.Logger = vfs.NewMem(), formSecret, slog.New(slog.NewTextHandler(n.log, nil))
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.cfg.Join = list
	}
	return nodes, list
}

// formAll runs Form of some nodes at once, and says what became of each.
func formAll(ctx context.Context, nodes []*formingNode) []error {
	faults := make([]error, len(nodes))
	var running sync.WaitGroup
	for i, n := range nodes {
		running.Go(func() { faults[i] = Form(ctx, n.cfg, n.ln) })
	}
	running.Wait()
	return faults
}

func (n *formingNode) identity(t *testing.T) meta.Identity {
	t.Helper()
	s, err := storage.Open(storage.Options{FS: n.cfg.FS, Dir: n.cfg.Dir, WALFileBytes: 1 << 20, TailBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	i, _, err := meta.ReadIdentity(s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestFormNeedsAll: two of three write nothing, and go as soon as they are told to; clients that come meanwhile are hung up on.
func TestFormNeedsAll(t *testing.T) {
	t.Parallel()
	nodes, list := formingNodes(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	go func() { done <- formAll(ctx, nodes[:2]) }()
	nodes[0].log.await(t, list[2]+": ")
	nc, err := net.Dial("tcp", list[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write([]byte{0, 0, 0, 12, 0, 18, 0, 3, 0, 0, 0, 1, 0, 2, 'k', 'c'}); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(nc); len(b) > 0 {
		t.Errorf("a client got %d bytes, %v", len(b), err)
	}
	_ = nc.Close()
	cancel()
	for i, err := range <-done {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("node %d: %v", i+1, err)
		}
		if id := nodes[i].identity(t); id.Node != 0 {
			t.Errorf("node %d has written %+v", i+1, id)
		}
	}
}

// TestFormRefuses: what can't become a cluster is told, with the way to mend it.
func TestFormRefuses(t *testing.T) {
	t.Parallel()
	const self = "10.0.0.1:9092"
	for _, c := range []struct {
		name string
		self string
		list []string
		with func(*Config)
		want []string
	}{
		{"no secret", self, []string{self, "10.0.0.2:9092", "10.0.0.3:9092"}, func(c *Config) { c.ClusterSecret = "" }, []string{"cluster.secret", "the same one on every node"}},
		{"itself alone", self, []string{self}, nil, []string{"only this node", "leave --join out"}},
		{"two nodes", self, []string{self, "10.0.0.2:9092"}, nil, []string{"can't survive the loss of either", "name three"}},
		{"one twice", self, []string{self, "10.0.0.2:9092", "10.0.0.2:9092"}, nil, []string{"10.0.0.2:9092 twice"}},
		{"no port", self, []string{self, "10.0.0.2", "10.0.0.3:9092"}, nil, []string{"want HOST:PORT"}},
		{"loopback beside others", "127.0.0.1:9092", []string{"10.0.0.2:9092"}, nil, []string{"10.0.0.2:9092 can't reach it", "advertised.listeners"}},
		{"everywhere", "0.0.0.0:9092", []string{"10.0.0.2:9092"}, nil, []string{"listens everywhere", "advertised.listeners"}},
		{"too many", self, make([]string, 17), nil, []string{"17 nodes"}},
	} {
		nodes, _ := formingNodes(t, 1)
		n := nodes[0]
		n.cfg.Advertise, n.cfg.Join = c.self, c.list
		if c.with != nil {
			c.with(&n.cfg)
		}
		err := Form(t.Context(), n.cfg, n.ln)
		if !errors.Is(err, errJoin) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q: %v", c.name, want, err)
			}
		}
	}
}

// TestFormSameID: two nodes with one node.id both end, and say whom they have met.
func TestFormSameID(t *testing.T) {
	t.Parallel()
	nodes, list := formingNodes(t, 3)
	for i, n := range nodes {
		n.cfg.NodeID = []int32{1, 2, 2}[i]
	}
	faults := formAll(t.Context(), nodes)
	for i, err := range faults {
		other := list[[]int{1, 2, 1}[i]]
		if !errors.Is(err, errJoin) || !strings.Contains(err.Error(), "node.id 2") || !strings.Contains(err.Error(), other) {
			t.Errorf("node %d: %v", i+1, err)
		}
	}
}

// TestFormAnotherSecret: a node with another secret is no founder, and both sides say why.
func TestFormAnotherSecret(t *testing.T) {
	t.Parallel()
	nodes, list := formingNodes(t, 3)
	nodes[1].cfg.ClusterSecret = "another"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	go func() { done <- formAll(ctx, nodes) }()
	for i, want := range []string{list[1], list[0]} {
		nodes[i].log.await(t, want+": attach")
		nodes[i].log.await(t, errPeerSecret.Error())
	}
	cancel()
	for i, err := range <-done {
		if !errors.Is(err, context.Canceled) || nodes[i].identity(t).Node != 0 {
			t.Errorf("node %d: %v, %+v", i+1, err, nodes[i].identity(t))
		}
	}
	if log := fmt.Sprint(nodes[0].log, nodes[1].log, nodes[2].log); strings.Contains(log, formSecret) {
		t.Error("the secret is logged")
	}
}

// TestFormKeepsAFolder: a folder with records, and no identity, isn't taken for a fresh one.
func TestFormKeepsAFolder(t *testing.T) {
	t.Parallel()
	nodes, _ := formingNodes(t, 3)
	n := nodes[0]
	s, err := storage.Open(storage.Options{FS: n.cfg.FS, Dir: n.cfg.Dir, WALFileBytes: 1 << 20, TailBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenLog(storage.LogID{Topic: [16]byte{7}}, "t-0", storage.LogConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Form(t.Context(), n.cfg, n.ln); !errors.Is(err, errJoin) || !strings.Contains(err.Error(), "has records") {
		t.Errorf("got %v", err)
	}
}
