package core

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

const testSecret = "a secret of the cluster's"

// peerLog collects what is logged.
type peerLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *peerLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *peerLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

func (l *peerLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// handlers are what a test's node serves for private keys, and for Fetch.
type handlers map[int16]handler

// echo answers a private request with its own bytes.
func echo(_ *Broker, req *Request, done Done) {
	done(&privateResponse{key: req.Key, body: req.Body.(*privateRequest).body})
}

// startPeer is start for a node that serves private keys.
func startPeer(t testing.TB, cfg Config, serves handlers) *running {
	t.Helper()
	if cfg.ClusterSecret == "" {
		cfg.ClusterSecret = testSecret
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Advertise = ln.Addr().String()
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for key, h := range serves {
		b.table.byKey[key] = &api{key: key, max: map[bool]int16{true: 18}[key == keyFetch], handle: h}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	ended.Go(func() {
		if err := b.Serve(ln); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	var once sync.Once
	r := &running{Broker: b, addr: ln.Addr().String()}
	r.stop = func() {
		once.Do(func() {
			cancel()
			ended.Wait()
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// peerOf is a client node that is no broker.
func peerOf(t testing.TB, secret string, self peerSelf, log *slog.Logger) *tcpPeers {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p, err := newTCPPeers(peersConfig{Secret: secret, Self: func() peerSelf { return self }, AnswerBytes: 32 << 20, Logger: log, Now: time.Now, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

type called struct {
	resp kmsg.Response
	err  error
}

// callPeer calls and gives what done gets.
func callPeer(p Peers, to int32, lane Lane, req kmsg.Request) <-chan called {
	got := make(chan called, 2) // a second done would be seen
	p.Call(to, lane, req, func(resp kmsg.Response, err error) { got <- called{resp, err} })
	return got
}

func await[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes")
		panic("unreachable")
	}
}

func TestPeersCall(t *testing.T) {
	raft := make(chan *Request, 10)
	serves := handlers{keyProbe: echo, keyRaft: func(_ *Broker, req *Request, done Done) { raft <- req; done(nil) }}
	cfg1, cfg2 := testConfig(t), testConfig(t)
	cfg1.NodeID, cfg2.NodeID = 1, 2
	for _, cfg := range []Config{cfg1, cfg2} { // each alone, in what it takes for the same cluster
		s, err := storage.Open(storage.Options{Dir: cfg.Dir, WALFileBytes: cfg.WALFileBytes})
		if err == nil {
			_, err = meta.WriteIdentity(s, meta.Identity{Node: cfg.NodeID, ClusterID: "theirs", Voters: []int32{cfg.NodeID}})
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	one := startPeer(t, cfg1, serves)
	two := startPeer(t, cfg2, serves)
	one.peers.SetNodes(map[int32]string{2: two.addr})
	two.peers.SetNodes(map[int32]string{1: one.addr})

	for _, from := range []*running{one, two} {
		to := 3 - from.ID()
		var answers []<-chan called
		for i := range 100 {
			answers = append(answers, callPeer(from.peers, to, LaneControl, &privateRequest{key: keyProbe, body: fmt.Append(nil, "hello ", i)}))
		}
		from.peers.Call(to, LaneControl, &privateRequest{key: keyRaft, body: []byte("a message")}, nil)
		for i, a := range answers {
			got := await(t, a)
			if got.err != nil || string(got.resp.(*privateResponse).body) != fmt.Sprint("hello ", i) {
				t.Fatalf("answer %d: %+v", i, got)
			}
		}
		if req := await(t, raft); req.Peer != from.ID() || string(req.Body.(*privateRequest).body) != "a message" {
			t.Errorf("raft's message came from %d: %+v", req.Peer, req.Body)
		}
	}
	if got := await(t, callPeer(one.peers, 7, LaneControl, &privateRequest{key: keyProbe})); !errors.Is(got.err, errUnknownPeer) {
		t.Errorf("a node without address: %v", got.err)
	}
}
