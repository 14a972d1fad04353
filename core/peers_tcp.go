package core

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	dialWait        = time.Second            // for a connection
	attachWait      = 3 * time.Second        // for both answers of AttachPeer
	firstRedial     = 50 * time.Millisecond  // after a connection that couldn't be made, or didn't last; doubles
	longestRedial   = time.Second            // between two tries
	answerWait      = 10 * time.Second       // for any answer
	fetchAnswerWait = 5 * time.Second        // for a Fetch's, on top of what it may wait there
	pingWait        = 3 * time.Second        // for a sign of life
	pingEvery       = 500 * time.Millisecond // while something is said
	peerWriteWait   = 10 * time.Second       // for a peer to take something
	slowestPeer     = 128 << 10              // bytes in a second

	maxQueuedBytes = 4 << 20 // of requests that aren't written; one more may be as large as a frame can be
	maxQueuedCalls = 1000    // that aren't written, or wait for answers
	maxAddrCalls   = 64      // calls by address under way
	maxStrangers   = 64      // nodes that are known only by their attaching
)

// Why a call fails.
var (
	errUnknownPeer = errors.New("no address of this node is known")
	errPeerFull    = errors.New("too many requests wait for this node")
	errPeerGone    = errors.New("the connection to this node has ended")
	errPeerAnswer  = errors.New("the answer can't be understood")
	errPeerSilent  = errors.New("the node doesn't answer")
	errPeerMoved   = errors.New("the node has another address now")
	errOneWay      = errors.New("raft's messages have no answers")
)

// peersConfig says how peers are reached over TCP.
type peersConfig struct {
	Secret      string
	Self        func() peerSelf                                                   // called under no lock
	AnswerBytes int                                                               // the largest answer of the data lane
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error) // nil: by TCP, within dialWait
	Logger      *slog.Logger
	Now         func() time.Time // of messages; deadlines are the operating system's
	Rand        io.Reader
}

// tcpPeers is Peers over TCP: one connection to each node and lane, made when it is first needed and again whenever it ended. It has no
// goroutine before the first call. Lock order: mu, then a link's.
type tcpPeers struct {
	cfg   peersConfig
	start string // of this start, in every hello

	ended   chan struct{}
	running sync.WaitGroup // links, and calls by address

	mu        sync.Mutex
	isClosed  bool
	nodes     map[int32]*peerNode
	conns     map[net.Conn]struct{} // to be closed
	addrCalls int
}

// peerNode is one other node.
type peerNode struct {
	given   string // its address as SetNodes has it
	seen    string // as it said when it attached since; it counts more
	isNamed bool   // by SetNodes
	links   [LaneData + 1]*link
}

func (n *peerNode) address() string {
	if n.seen != "" {
		return n.seen
	}
	return n.given
}

// newTCPPeers draws the name of this start; nothing else happens before the first call.
func newTCPPeers(cfg peersConfig) (*tcpPeers, error) {
	start, err := newNonce(cfg.Rand)
	if err != nil {
		return nil, err
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialWait}).DialContext
	}
	return &tcpPeers{
		cfg: cfg, start: hex.EncodeToString(start[:8]), ended: make(chan struct{}),
		nodes: make(map[int32]*peerNode), conns: make(map[net.Conn]struct{}),
	}, nil
}

// close ends every connection, answers every call with an error, and waits for all goroutines. Calls that come later fail at once.
func (p *tcpPeers) close() {
	p.mu.Lock()
	if !p.isClosed {
		p.isClosed = true
		close(p.ended)
	}
	for _, n := range p.nodes {
		n.end()
	}
	for nc := range p.conns {
		_ = nc.Close() // nobody wants what it holds
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Call is Peers'.
func (p *tcpPeers) Call(to int32, lane Lane, req kmsg.Request, done func(kmsg.Response, error)) {
	l, err := p.link(to, lane)
	if err == nil {
		err = l.queue(req, done)
	}
	if err != nil && done != nil {
		done(nil, fmt.Errorf("call node %d: %w", to, err))
	}
}

// link finds the link to a node, or makes it.
func (p *tcpPeers) link(to int32, lane Lane) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[to]
	switch {
	case p.isClosed:
		return nil, errClosing
	case n == nil:
		return nil, errUnknownPeer
	case n.links[lane] == nil:
		l := newLink(p, to, lane)
		n.links[lane] = l
		p.running.Go(l.run)
	}
	return n.links[lane], nil
}

// SetNodes is Peers'.
func (p *tcpPeers) SetNodes(nodes map[int32]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return
	}
	for id, n := range p.nodes {
		if _, ok := nodes[id]; !ok && n.isNamed {
			n.end()
			delete(p.nodes, id)
		}
	}
	for id, addr := range nodes {
		n := p.nodes[id]
		if n == nil {
			n = &peerNode{}
			p.nodes[id] = n
		}
		if !n.isNamed || n.given != addr {
			before := n.address()
			if n.given != "" { // what it said before is older than this
				n.seen = ""
			}
			if n.given, n.isNamed = addr, true; before != "" && n.address() != before {
				n.redial(true)
			}
		}
	}
}

// seen takes the address of a node that has attached itself here: it is there, at this address, whatever the metadata still says.
func (p *tcpPeers) seen(id int32, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[id]
	if n == nil {
		strangers := 0
		for _, other := range p.nodes {
			if !other.isNamed {
				strangers++
			}
		}
		if p.isClosed || strangers >= maxStrangers {
			return
		}
		n = &peerNode{}
		p.nodes[id] = n
	}
	isMoved := n.address() != addr
	if isMoved {
		n.seen = addr
	}
	n.redial(isMoved)
}

// address is where to try a node; isOther: where it isn't expected first. What it said counts more than the metadata, but may be older.
func (p *tcpPeers) address(id int32, isOther bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[id]
	switch {
	case n == nil:
		return ""
	case isOther && n.given != "":
		return n.given
	}
	return n.address()
}

func (n *peerNode) end() {
	for _, l := range n.links {
		if l != nil {
			l.end()
		}
	}
}

// redial has links that wait before their next try make it now; isMoved: those that are connected too begin anew.
func (n *peerNode) redial(isMoved bool) {
	for _, l := range n.links {
		if l != nil {
			l.redial(isMoved)
		}
	}
}

// callAddr asks whoever is at an address, over a connection of its own: while a cluster forms there are no ids yet. done is called exactly once.
func (p *tcpPeers) callAddr(addr string, req *privateRequest, done func(*privateResponse, error)) {
	p.mu.Lock()
	err := error(nil)
	switch {
	case p.isClosed:
		err = errClosing
	case p.addrCalls >= maxAddrCalls:
		err = errPeerFull
	default:
		p.addrCalls++
		p.running.Go(func() {
			resp, err := p.ask(addr, req)
			p.mu.Lock()
			p.addrCalls--
			p.mu.Unlock()
			done(resp, err)
		})
	}
	p.mu.Unlock()
	if err != nil {
		done(nil, fmt.Errorf("call %s: %w", addr, err))
	}
}

// ask makes one call over a new connection.
func (p *tcpPeers) ask(addr string, req *privateRequest) (*privateResponse, error) {
	c, err := p.dial(addr, 0, LaneControl)
	if err != nil {
		return nil, err
	}
	defer p.hangUp(c)
	resp, err := c.ask(req, answerWait)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", addr, err)
	}
	return resp, nil
}

// dial makes a connection and attaches it. to is the node that is meant, 0: whoever answers.
func (p *tcpPeers) dial(addr string, to int32, lane Lane) (*peerConn, error) {
	nc, err := p.cfg.Dial(dialContext{p.ended}, "tcp", addr)
	if err != nil {
		return nil, err // it names the address
	}
	p.mu.Lock()
	if p.isClosed {
		p.mu.Unlock()
		_ = nc.Close() // nothing was said
		return nil, errClosing
	}
	p.conns[nc] = struct{}{}
	p.mu.Unlock()
	c := newPeerConn(nc)
	if err := p.attach(c, to, lane); err != nil {
		p.hangUp(c)
		return nil, fmt.Errorf("attach to %s: %w", addr, err)
	}
	return c, nil
}

func (p *tcpPeers) hangUp(c *peerConn) {
	_ = c.nc.Close() // what it held has been answered or failed
	p.mu.Lock()
	delete(p.conns, c.nc)
	p.mu.Unlock()
}

// attach proves both sides to each other.
func (p *tcpPeers) attach(c *peerConn, to int32, lane Lane) error {
	self := p.cfg.Self()
	if to == 0 {
		self.ID = 0 // a call by address: it takes no connection's place, and a node may meet itself by it
	}
	a, err := newAttacher(p.cfg.Secret, self, to, lane, p.start, p.cfg.Rand)
	if err != nil {
		return err
	}
	say := func(body []byte) ([]byte, error) {
		resp, err := c.ask(&privateRequest{key: keyAttachPeer, body: body}, attachWait)
		if err != nil {
			return nil, err
		}
		return resp.body, refusedBy(resp)
	}
	challenge, err := say(a.hello)
	if err != nil {
		return err
	}
	proof, err := a.proof(challenge)
	if err != nil {
		return err
	}
	mac, err := say(proof)
	if err != nil {
		return err
	}
	return a.verify(mac)
}

// dialContext ends a dial when the peers are closed.
type dialContext struct{ ended <-chan struct{} }

func (dialContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c dialContext) Done() <-chan struct{}     { return c.ended }
func (dialContext) Value(any) any               { return nil }
func (c dialContext) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

var _ Peers = (*tcpPeers)(nil)
