package core

import (
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestPeerServer: a node that forms serves peers, nobody else, and leaves its listener to the broker.
func TestPeerServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	log := &peerLog{}
	asked := make(chan *Request, 10)
	s := newPeerServer(peersConfig{Secret: testSecret, Self: func() peerSelf { return peerSelf{Address: addr} }, Logger: log.logger(), Now: time.Now, Rand: rand.Reader},
		func(req *Request, done Done) {
			asked <- req
			echo(nil, req, done)
		})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.serve(ln); err != nil {
			t.Error(err)
		}
	})

	call := func(p *tcpPeers, key int16, body string) (*privateResponse, error) {
		type result struct {
			resp *privateResponse
			err  error
		}
		got := make(chan result, 1)
		p.callAddr(addr, &privateRequest{key: key, body: []byte(body)}, func(resp *privateResponse, err error) { got <- result{resp, err} })
		r := await(t, got)
		return r.resp, r.err
	}
	fresh, member := peerOf(t, testSecret, peerSelf{}, nil), peerOf(t, testSecret, peerSelf{ID: 3, ClusterID: "c"}, nil)
	for p, id := range map[*tcpPeers]int32{fresh: 0, member: 3} {
		if resp, err := call(p, keyProbe, "who?"); err != nil || string(resp.body) != "who?" {
			t.Fatalf("probe by %d: %+v, %v", id, resp, err)
		}
		if req := await(t, asked); req.Peer != id || req.Key != keyProbe {
			t.Errorf("probe by %d came from %d", id, req.Peer)
		}
	}
	if _, err := call(member, keyRaft, ""); err == nil {
		t.Error("a node that is nobody takes raft's messages")
	}
	if _, err := call(peerOf(t, "some other secret", peerSelf{}, nil), keyProbe, ""); !errors.Is(err, errPeerSecret) {
		t.Errorf("with another secret: %v", err)
	}

	client := &wire{t: t, nc: dial(t, addr)}
	client.send(kmsg.NewPtrMetadataRequest(), 4, 1)
	client.closed()

	open := dial(t, addr) // says nothing, and doesn't hold up the end
	defer open.Close()
	if err := s.close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
	broker := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err == nil {
			err = nc.Close()
		}
		broker <- err
	}()
	dial(t, addr)
	if err := await(t, broker); err != nil {
		t.Errorf("the listener can't be used any more: %v", err)
	}
	_ = ln.Close()
	if !log.has(errPeerSecret.Error()) {
		t.Errorf("a wrong secret isn't logged: %s", log.buf.String())
	}
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	return nc
}
