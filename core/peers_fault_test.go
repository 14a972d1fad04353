package core

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// attachWire is a connection that a test has attached itself.
func attachWire(t testing.TB, b *running, self peerSelf, lane Lane, start string) *wire {
	t.Helper()
	w := dialWire(t, b)
	if resp := w.attach(self, lane, start); resp.code != 0 {
		t.Fatalf("attach: %s", resp.body)
	}
	return w
}

// attach goes as far as the server lets it.
func (w *wire) attach(self peerSelf, lane Lane, start string) *privateResponse {
	w.t.Helper()
	a, err := newAttacher(testSecret, self, 0, lane, start, rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	resp := &privateResponse{key: keyAttachPeer}
	w.send(&privateRequest{key: keyAttachPeer, body: a.hello}, 0, 1)
	if w.receive(resp); resp.code != 0 {
		return resp
	}
	proof, err := a.proof(resp.body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(&privateRequest{key: keyAttachPeer, body: proof}, 0, 2)
	if w.receive(resp); resp.code == 0 {
		if err := a.verify(resp.body); err != nil {
			w.t.Fatal(err)
		}
	}
	return resp
}

// alone is a node with id 1 that echoes, and its log.
func alone(t testing.TB, serves handlers) (*running, *peerLog) {
	t.Helper()
	cfg, log := testConfig(t), &peerLog{}
	cfg.NodeID, cfg.Logger = 1, log.logger()
	if serves == nil {
		serves = handlers{keyProbe: echo, keyJoin: echo}
	}
	return startPeer(t, cfg, serves), log
}

// of is what another node of b's cluster says of itself.
func of(b *running, id int32) peerSelf {
	return peerSelf{ID: id, ClusterID: b.ClusterID(), Address: "127.0.0.1:1"}
}

func TestPeersAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		secret string
		self   func(b *running) peerSelf
		to     int32
		want   error
		logged []string // by both
	}{
		"another secret":  {secret: "not their secret", self: func(b *running) peerSelf { return of(b, 2) }, to: 1, want: errPeerSecret, logged: []string{"cluster.secret"}},
		"another cluster": {self: func(*running) peerSelf { return peerSelf{ID: 2, ClusterID: "elsewhere"} }, to: 1, want: errPeerCluster, logged: []string{"elsewhere", "CLUSTER"}},
		"its own id":      {self: func(b *running) peerSelf { return of(b, 1) }, to: 1, want: errPeerID, logged: []string{"node 1"}},
		"someone else":    {self: func(b *running) peerSelf { return of(b, 2) }, to: 7, want: errPeerOther, logged: []string{"node 1 instead of node 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, log := alone(t, nil)
			if tc.secret == "" {
				tc.secret = testSecret
			}
			own := &peerLog{}
			p := peerOf(t, tc.secret, tc.self(b), own.logger())
			p.SetNodes(map[int32]string{tc.to: b.addr})
			for range 3 {
				if got := await(t, callPeer(p, tc.to, LaneControl, &privateRequest{key: keyProbe})); !errors.Is(got.err, tc.want) {
					t.Fatalf("got %v, want %v", got.err, tc.want)
				}
			}
			p.close()
			b.stop()
			for _, text := range tc.logged {
				text = strings.ReplaceAll(text, "CLUSTER", b.ClusterID())
				if !log.has(text) || !own.has(text) {
					t.Errorf("%q isn't logged by both:\n%s\n%s", text, log.buf.String(), own.buf.String())
				}
			}
			for _, l := range []*peerLog{log, own} {
				if l.has(testSecret) || l.has("not their secret") {
					t.Error("a secret is logged")
				}
				if n := strings.Count(l.buf.String(), "\n"); n > 3 {
					t.Errorf("%d lines of log for three refusals", n)
				}
			}
		})
	}
}

// TestUnattachedClients: what only peers may ask ends the connection of who isn't one, and so does what is too large for a stranger.
func TestUnattachedClients(t *testing.T) {
	asked := atomic.Int32{}
	count := func(_ *Broker, req *Request, done Done) {
		asked.Add(1)
		echo(nil, req, done)
	}
	b, _ := alone(t, handlers{keyRaft: count, keyProbe: count, keyFound: count, keyJoin: count})
	for key := keyRaft; key <= keyJoin+1; key++ {
		w := dialWire(t, b)
		w.send(&privateRequest{key: key, body: []byte("{}")}, 0, 1)
		w.closed()
	}
	w := dialWire(t, b) // it has begun, and goes on with something else
	a, err := newAttacher(testSecret, of(b, 2), 1, LaneControl, "s", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w.send(&privateRequest{key: keyAttachPeer, body: a.hello}, 0, 1)
	w.receive(&privateResponse{key: keyAttachPeer})
	w.send(&privateRequest{key: keyProbe}, 0, 2)
	w.closed()

	for name, frame := range map[string][]byte{
		"a long hello": appendRequest(nil, 1, &privateRequest{key: keyAttachPeer, body: make([]byte, maxAttachBytes)}),
		"no JSON":      appendRequest(nil, 1, &privateRequest{key: keyAttachPeer}),
		"cut short":    appendRequest(nil, 1, &privateRequest{key: keyAttachPeer, body: []byte("{}")})[:20],
	} {
		w := dialWire(t, b)
		if _, err := w.nc.Write(frame); err != nil {
			t.Fatal(err)
		}
		if err := w.nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, w.nc); errors.Is(err, net.ErrClosed) || isTimeout(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d private requests of strangers were served", n)
	}
}

func isTimeout(err error) bool {
	ne := net.Error(nil)
	return errors.As(err, &ne) && ne.Timeout()
}

// TestAttachedConnections: what a peer may ask, by its id and lane.
func TestAttachedConnections(t *testing.T) {
	raft := make(chan int32, 1)
	b, _ := alone(t, handlers{keyProbe: echo, keyJoin: echo, keyFound: echo, keyRaft: func(_ *Broker, req *Request, done Done) {
		raft <- req.Peer
		done(nil)
	}})
	for key := keyProbe; key <= keyJoin; key++ {
		w := attachWire(t, b, peerSelf{}, LaneControl, "s")
		w.send(&privateRequest{key: key, body: []byte("x")}, 0, 9)
		if resp := (&privateResponse{key: key}); w.receive(resp) != 9 || string(resp.body) != "x" {
			t.Errorf("key %d of a node without id: %+v", key, resp)
		}
	}
	for name, send := range map[string]func(w *wire){
		"raft of a node without id":  func(w *wire) { w.send(&privateRequest{key: keyRaft}, 0, 1) },
		"fetch of a node without id": func(w *wire) { w.send(fetchRequest("t", 0, 1, 0), 12, 1) },
		"what clients ask":           func(w *wire) { w.send(kmsg.NewPtrMetadataRequest(), 4, 1) },
		"attaching again":            func(w *wire) { w.send(&privateRequest{key: keyAttachPeer, body: []byte("{}")}, 0, 1) },
		"a huge frame": func(w *wire) {
			head := binary.BigEndian.AppendUint32(nil, maxPeerControlBytes+1)
			if _, err := w.nc.Write(binary.BigEndian.AppendUint16(head, uint16(keyProbe))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			self := of(b, 5)
			if strings.HasSuffix(name, "without id") {
				self.ID = 0
			}
			w := attachWire(t, b, self, LaneControl, "s")
			w.t = t
			send(w)
			w.closed()
		})
	}
	w := attachWire(t, b, of(b, 6), LaneControl, "s")
	w.send(&privateRequest{key: keyRaft}, 0, 1)
	w.send(&privateRequest{key: keyAttachPeer}, 0, 2) // a sign of life
	if resp := (&privateResponse{key: keyAttachPeer}); w.receive(resp) != 2 || resp.code != 0 || len(resp.body) != 0 {
		t.Errorf("sign of life: %+v", resp)
	}
	if from := await(t, raft); from != 6 {
		t.Errorf("raft's message came from %d", from)
	}
}

// TestAttachingTwiceWithOneID: while one is there, another isn't taken; its own newer connection takes the place of the older.
func TestAttachingTwiceWithOneID(t *testing.T) {
	b, log := alone(t, nil)
	first := attachWire(t, b, of(b, 4), LaneControl, "one")
	other := dialWire(t, b)
	if resp := other.attach(of(b, 4), LaneControl, "two"); !errors.Is(refusedBy(resp), errPeerID) {
		t.Fatalf("another node 4: %+v", resp)
	}
	other.closed()
	if !log.has("node 4 is attached from") {
		t.Error("it isn't logged")
	}
	again := attachWire(t, b, of(b, 4), LaneControl, "one")
	first.closed()
	attachWire(t, b, of(b, 4), LaneData, "one")
	again.nc.Close()
	until(t, "the restarted node is taken", func() bool {
		w := dialWire(t, b)
		return w.attach(of(b, 4), LaneControl, "two").code == 0
	})
}

// fakePeer attaches whoever comes and then does as it is told.
func fakePeer(t testing.TB, self peerSelf, then func(nc net.Conn, br *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, nc)
			mu.Unlock()
			serving.Go(func() {
				defer nc.Close()
				br := bufio.NewReader(nc)
				if !attachFake(nc, br, self) {
					return
				}
				then(nc, br)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, nc := range conns {
			nc.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return ln.Addr().String()
}

// attachFake is the server's side of attaching, without a broker.
func attachFake(nc net.Conn, br *bufio.Reader, self peerSelf) bool {
	s := &attachServer{}
	for i := range 2 {
		h, err := readFrame(br)
		if err != nil {
			return false
		}
		var ask privateRequest
		_ = ask.ReadFrom(h.body)
		var body []byte
		if i == 0 {
			body, err = s.begin(testSecret, self, ask.body, rand.Reader)
		} else {
			body, err = s.finish(ask.body)
		}
		if err != nil {
			return false
		}
		_, _ = nc.Write(appendResponse(nil, h.correlationID, &privateResponse{key: keyAttachPeer, body: body}))
	}
	return true
}

func readFrame(r io.Reader) (header, error) {
	var size [sizeBytes]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return header{}, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, frame); err != nil {
		return header{}, err
	}
	return parseHeader(frame)
}

// answerPrivate answers n private requests as echo does.
func answerPrivate(nc net.Conn, br *bufio.Reader, n int) error {
	for range n {
		h, err := readFrame(br)
		if err != nil {
			return err
		}
		ask := &privateRequest{key: h.key}
		if err := ask.ReadFrom(h.body); err != nil {
			return err
		}
		if h.key == keyRaft {
			continue
		}
		if _, err := nc.Write(appendResponse(nil, h.correlationID, &privateResponse{key: h.key, body: ask.body})); err != nil {
			return err
		}
	}
	return nil
}

// TestSilentPeer: one that takes everything and says nothing is given up, long before its answers would be.
func TestSilentPeer(t *testing.T) {
	for name, ask := range map[string]*privateRequest{
		"one-way": {key: keyRaft},
		"answers": {key: keyProbe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 10)
			addr := fakePeer(t, peerSelf{ID: 1}, func(_ net.Conn, br *bufio.Reader) {
				_, _ = io.Copy(io.Discard, br)
				ended <- struct{}{}
			})
			log := &peerLog{}
			p := peerOf(t, testSecret, peerSelf{ID: 2}, log.logger())
			p.SetNodes(map[int32]string{1: addr})
			if ask.key == keyRaft {
				p.Call(1, LaneControl, ask, nil)
			} else if got := await(t, callPeer(p, 1, LaneControl, ask)); !errors.Is(got.err, errPeerSilent) {
				t.Errorf("got %v", got.err)
			}
			await(t, ended)
			until(t, "it is logged", func() bool { return log.has(errPeerSilent.Error()) })
		})
	}
}

// TestQueueIsBounded: a peer that takes nothing costs a bounded queue; what is one-way is dropped, the rest is told.
func TestQueueIsBounded(t *testing.T) {
	release := make(chan struct{})
	addr := fakePeer(t, peerSelf{ID: 1}, func(net.Conn, *bufio.Reader) { <-release })
	defer close(release)
	p := peerOf(t, testSecret, peerSelf{ID: 2}, nil)
	p.SetNodes(map[int32]string{1: addr})
	message := &privateRequest{key: keyRaft, body: make([]byte, 1<<20)}
	l, err := p.link(1, LaneControl)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the queue is full", func() bool {
		for range 20 { // of which the sockets take some
			p.Call(1, LaneControl, message, nil)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.out) > maxQueuedBytes+2<<20 {
			t.Fatalf("%d bytes are queued", len(l.out))
		}
		return len(l.out) >= maxQueuedBytes
	})
	until(t, "a call finds the queue full", func() bool {
		p.Call(1, LaneControl, message, nil) // if the connection was given up since, there is room again
		select {
		case got := <-callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe, body: make([]byte, 1<<20)}):
			return errors.Is(got.err, errPeerFull)
		default:
			return false
		}
	})
	var full, failed int
	var answers []<-chan called
	for range maxQueuedCalls + 10 {
		answers = append(answers, callPeer(p, 1, LaneData, &privateRequest{key: keyProbe}))
	}
	p.close()
	for _, a := range answers {
		switch got := await(t, a); {
		case errors.Is(got.err, errPeerFull):
			full++
		case got.err != nil:
			failed++
		}
	}
	if full < 10 || full > 20 || full+failed != len(answers) { // signs of life take places too
		t.Errorf("%d found the queue full, %d failed", full, failed)
	}
	if got := await(t, callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe})); !errors.Is(got.err, errClosing) {
		t.Errorf("after close: %v", got.err)
	}
}

// TestConnectionsBreak: whatever breaks, and whenever, each call is done once, its answer is its own, and it goes on afterwards.
func TestConnectionsBreak(t *testing.T) {
	seed := mrand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng := mrand.New(mrand.NewPCG(seed, 1))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	healed := atomic.Bool{}
	addr := fakePeer(t, peerSelf{ID: 1}, func(nc net.Conn, br *bufio.Reader) {
		if healed.Load() {
			_ = answerPrivate(nc, br, 1<<30)
			return
		}
		if answerPrivate(nc, br, draw(200)) != nil {
			return
		}
		switch draw(4) {
		case 0: // in the middle of an answer
			_, _ = nc.Write([]byte{0, 0, 1, 0, 0})
		case 1: // with an answer to nothing
			_, _ = nc.Write(appendResponse(nil, -5, &privateResponse{key: keyProbe}))
		case 2: // with one that is too large
			_, _ = nc.Write([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1})
		}
	})
	p := peerOf(t, testSecret, peerSelf{ID: 2}, nil)
	p.SetNodes(map[int32]string{1: addr})
	const callers, calls = 8, 300
	var done, failed atomic.Int32
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for j := range calls {
				want := fmt.Sprint(i, " ", j)
				got := make(chan called, 2)
				p.Call(1, Lane(j%2), &privateRequest{key: keyProbe, body: []byte(want)}, func(resp kmsg.Response, err error) {
					done.Add(1)
					got <- called{resp, err}
				})
				p.Call(1, LaneControl, &privateRequest{key: keyRaft, body: []byte(want)}, nil)
				switch g := <-got; {
				case g.err != nil:
					failed.Add(1)
				case string(g.resp.(*privateResponse).body) != want:
					t.Errorf("%q is answered with %q", want, g.resp.(*privateResponse).body)
				}
			}
		})
	}
	time.AfterFunc(time.Second, func() { healed.Store(true) })
	running.Wait()
	if failed.Load() == 0 {
		t.Error("nothing failed: the connections held")
	}
	healed.Store(true)
	until(t, "it goes on", func() bool { return (<-callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe})).err == nil })
	p.close()
	if n := done.Load(); n != callers*calls {
		t.Errorf("%d calls are done %d times", callers*calls, n)
	}
}

// TestNodesMove: a node is found at its new address, and who is no node any more is disconnected.
func TestNodesMove(t *testing.T) {
	gone := make(chan string, 10)
	at := func(name string) string {
		return fakePeer(t, peerSelf{ID: 1}, func(nc net.Conn, br *bufio.Reader) {
			for {
				h, err := readFrame(br)
				if err != nil {
					gone <- name
					return
				}
				body := []byte(name)
				if h.key == keyAttachPeer {
					body = nil
				}
				_, _ = nc.Write(appendResponse(nil, h.correlationID, &privateResponse{key: h.key, body: body}))
			}
		})
	}
	addrs := map[string]string{"old": at("old"), "told": at("told"), "new": at("new")}
	p := peerOf(t, testSecret, peerSelf{ID: 2}, nil)
	answers := func(name string) {
		t.Helper()
		until(t, "node 1 is reached at the "+name+" address", func() bool {
			got := <-callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe})
			return got.err == nil && string(got.resp.(*privateResponse).body) == name
		})
	}
	p.seen(1, addrs["old"]) // a stranger that has attached
	answers("old")
	p.SetNodes(map[int32]string{3: "127.0.0.1:1"})
	answers("old")
	p.SetNodes(map[int32]string{1: addrs["old"]})
	answers("old")
	p.seen(1, addrs["told"])
	if name := await(t, gone); name != "old" {
		t.Errorf("the connection to the %s address has ended", name)
	}
	answers("told")
	p.SetNodes(map[int32]string{1: addrs["old"], 3: "127.0.0.1:1"}) // the metadata is behind
	answers("told")
	p.SetNodes(map[int32]string{1: addrs["new"]})
	answers("new")
	p.seen(1, "127.0.0.1:1") // as an impostor does, or one that has moved back since
	answers("new")
	p.SetNodes(nil)
	for name := await(t, gone); name != "new"; name = await(t, gone) {
	}
	if got := await(t, callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe})); !errors.Is(got.err, errUnknownPeer) {
		t.Errorf("a node that was removed: %v", got.err)
	}
}

// TestRemovedNodeFailsItsCalls: nobody waits for a node that is none any more.
func TestRemovedNodeFailsItsCalls(t *testing.T) {
	taken := make(chan struct{}, 1)
	addr := fakePeer(t, peerSelf{ID: 1}, func(_ net.Conn, br *bufio.Reader) {
		_, _ = readFrame(br)
		taken <- struct{}{}
		_, _ = io.Copy(io.Discard, br)
	})
	p := peerOf(t, testSecret, peerSelf{ID: 2}, nil)
	p.SetNodes(map[int32]string{1: addr})
	answer := callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe})
	await(t, taken)
	p.SetNodes(nil)
	if got := await(t, answer); !errors.Is(got.err, errPeerGone) {
		t.Errorf("got %v", got.err)
	}
}

// TestPeersGetInWhereClientsDoNot: neither connections nor memory that clients use up keep a peer out, and peers take no client's place.
func TestPeersGetInWhereClientsDoNot(t *testing.T) {
	cfg := testConfig(t)
	cfg.NodeID, cfg.MaxConnections, cfg.MemoryBytes = 1, 2, 1<<20
	cfg.Logger = slog.New(slog.DiscardHandler)
	b := startPeer(t, cfg, handlers{keyProbe: echo})
	first := dialWire(t, b)
	hog := dialWire(t, b)
	head := binary.BigEndian.AppendUint32(nil, 1<<20)
	if _, err := hog.nc.Write(append(head, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff)); err != nil { // of a Produce that doesn't come
		t.Fatal(err)
	}
	until(t, "all memory is in use", func() bool { return b.budget.inUse() >= 1<<20 })
	p := peerOf(t, testSecret, of(b, 2), nil)
	p.SetNodes(map[int32]string{1: b.addr})
	for _, lane := range []Lane{LaneControl, LaneData} {
		if got := await(t, callPeer(p, 1, lane, &privateRequest{key: keyProbe, body: make([]byte, 1<<20)})); got.err != nil {
			t.Fatalf("%s lane: %v", lane, got.err)
		}
	}
	late := dialWire(t, b)
	late.send(kmsg.NewPtrApiVersionsRequest(), 0, 1)
	late.closed()
	hog.nc.Close()
	until(t, "a client takes the place of a client", func() bool {
		nc, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1))
		_, err = io.ReadFull(nc, make([]byte, 4))
		return err == nil
	})
	first.send(kmsg.NewPtrApiVersionsRequest(), 0, 1)
	first.receive(kmsg.NewPtrApiVersionsResponse())
}

// TestCallsByAddress: they come from nobody in particular, and leave their node's control lane alone.
func TestCallsByAddress(t *testing.T) {
	from := make(chan int32, 10)
	b, log := alone(t, handlers{keyJoin: echo, keyProbe: func(b *Broker, req *Request, done Done) {
		from <- req.Peer
		echo(b, req, done)
	}})
	p := peerOf(t, testSecret, of(b, 2), nil)
	p.SetNodes(map[int32]string{1: b.addr})
	probe := &privateRequest{key: keyProbe, body: []byte("who?")}
	if got := await(t, callPeer(p, 1, LaneControl, probe)); got.err != nil || await(t, from) != 2 {
		t.Fatalf("%+v", got)
	}
	p.mu.Lock()
	l := p.nodes[1].links[LaneControl]
	p.mu.Unlock()
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	for range 5 {
		got := make(chan called, 2)
		p.callAddr(b.addr, probe, func(resp *privateResponse, err error) { got <- called{resp, err} })
		if g := await(t, got); g.err != nil || string(g.resp.(*privateResponse).body) != "who?" {
			t.Fatalf("%+v", g)
		}
		if id := await(t, from); id != 0 {
			t.Errorf("it was asked as node %d", id)
		}
	}
	if got := await(t, callPeer(p, 1, LaneControl, probe)); got.err != nil {
		t.Error(got.err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != conn {
		t.Error("the control lane has another connection now")
	}
	for key, want := range map[int16]error{keyRaft: io.EOF, keyJoin: nil} { // only what is asked while nodes look for each other
		got := make(chan error, 1)
		p.callAddr(b.addr, &privateRequest{key: key}, func(_ *privateResponse, err error) { got <- err })
		if err := await(t, got); !errors.Is(err, want) {
			t.Errorf("key %d: %v", key, err)
		}
	}
	got := make(chan error, 1)
	b.tcp.callAddr(b.addr, probe, func(_ *privateResponse, err error) { got <- err })
	if err := await(t, got); err != nil || log.has("refused") {
		t.Errorf("a node that asks itself: %v", err)
	}
	p.callAddr("127.0.0.1:1", probe, func(_ *privateResponse, err error) { got <- err })
	if err := await(t, got); err == nil {
		t.Error("nobody answers, and that is no error")
	}
}

// TestLargestMessage: the largest command of the metadata gets through.
func TestLargestMessage(t *testing.T) {
	raft := make(chan int, 1)
	b, _ := alone(t, handlers{keyRaft: func(_ *Broker, req *Request, done Done) {
		raft <- len(req.Body.(*privateRequest).body)
		done(nil)
	}})
	p := peerOf(t, testSecret, of(b, 2), nil)
	p.SetNodes(map[int32]string{1: b.addr})
	size := b.cfg.MetadataLogBytes + 4<<20
	p.Call(1, LaneControl, &privateRequest{key: keyRaft, body: make([]byte, size)}, nil)
	if n := await(t, raft); n != size {
		t.Errorf("%d bytes of %d came", n, size)
	}
	if got := await(t, callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe, body: make([]byte, maxPeerControlBytes)})); !errors.Is(got.err, errFrameSize) {
		t.Errorf("one that no peer takes: %v", got.err)
	}
}

// TestRaftIsNotHeldUp: raft's messages go on while what was asked before them waits.
func TestRaftIsNotHeldUp(t *testing.T) {
	raft, joins := make(chan struct{}, 1000), make(chan Done, 1)
	b, _ := alone(t, handlers{
		keyRaft: func(_ *Broker, _ *Request, done Done) { raft <- struct{}{}; done(nil) },
		keyJoin: func(_ *Broker, _ *Request, done Done) { joins <- done },
	})
	p := peerOf(t, testSecret, of(b, 2), nil)
	p.SetNodes(map[int32]string{1: b.addr})
	answer := callPeer(p, 1, LaneControl, &privateRequest{key: keyJoin})
	done := await(t, joins)
	for range 3 * b.cfg.MaxInFlight {
		p.Call(1, LaneControl, &privateRequest{key: keyRaft}, nil)
		await(t, raft)
	}
	done(&privateResponse{key: keyJoin, body: []byte("welcome")})
	if got := await(t, answer); got.err != nil || string(got.resp.(*privateResponse).body) != "welcome" {
		t.Errorf("%+v", got)
	}
}

// TestFetchOverTheDataLane: two fetches are under way, the newer answers the older, and records come as they were written.
func TestFetchOverTheDataLane(t *testing.T) {
	records := make([]byte, 3<<20)
	_, _ = rand.Read(records)
	var mu sync.Mutex
	var older func()
	b, _ := alone(t, handlers{keyFetch: func(_ *Broker, req *Request, done Done) {
		mu.Lock()
		defer mu.Unlock()
		if older != nil {
			older()
		}
		ask := req.Body.(*kmsg.FetchRequest)
		older = func() {
			resp := kmsg.NewPtrFetchResponse()
			resp.SetVersion(req.Version)
			resp.SessionID = ask.SessionID
			topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.TopicID, part.RecordBatches = [16]byte{7}, records
			topic.Partitions = append(topic.Partitions, part)
			resp.Topics = append(resp.Topics, topic)
			done(resp)
		}
	}})
	p := peerOf(t, testSecret, of(b, 2), nil)
	p.SetNodes(map[int32]string{1: b.addr})
	fetch := func(session int32) <-chan called {
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(18)
		req.SessionID, req.MaxWaitMillis = session, 20_000
		return callPeer(p, 1, LaneData, req)
	}
	before := fetch(1)
	for i := int32(2); i < 10; i++ {
		next := fetch(i)
		got := await(t, before)
		if got.err != nil {
			t.Fatal(got.err)
		}
		resp := got.resp.(*kmsg.FetchResponse)
		if resp.SessionID != i-1 || string(resp.Topics[0].Partitions[0].RecordBatches) != string(records) {
			t.Fatalf("answer %d to fetch %d", resp.SessionID, i-1)
		}
		before = next
	}
}
