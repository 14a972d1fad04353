package coretest

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core"
)

// errLost is the failure of a call whose connection is gone.
var errLost = errors.New("connection lost")

const (
	mostQueued  = 1000                    // requests that one connection holds
	peerTimeout = 3 * time.Second         // after so long without an answer a node gives up a connection
	userTimeout = 1500 * time.Millisecond // likewise a client
)

// network is what lies between nodes and clients: connections that keep their order, and are late, cut and reset. An end is a node's id, or a client's,
// which is negative.
type network struct {
	c     *Cluster
	links []*link
	cuts  map[[2]int32]bool
	slow  map[int32]time.Duration // by node: everything to and from it is so late
	stuck map[lane]bool           // connections on which nothing moves
}

// lane tells the connections between two ends apart.
type lane struct {
	from, to int32
	core.Lane
}

// call is one request and who wants its answer.
type call struct {
	req  kmsg.Request
	done func(kmsg.Response, error) // nil: nobody
	sent time.Time

	isOnce bool // it doesn't come when its sender has given it up
}

// flying is something on its way.
type flying struct {
	at   time.Time
	call *call
	resp kmsg.Response // of an answer
}

// link is one connection. It ends with the life of either end.
type link struct {
	net              *network
	lane             lane
	fromLife, toLife int
	requests         []flying
	answers          []flying
	calls            []*call // that wait for their answer
	slots            []*slot // at the server, in order
	isBroken         bool    // its caller has given up; what is still on the way may yet come
}

// slot is a request's place in the order of answers.
type slot struct {
	call    *call
	resp    kmsg.Response
	isReady bool
}

func newNetwork(c *Cluster) *network {
	return &network{c: c, cuts: make(map[[2]int32]bool), slow: make(map[int32]time.Duration), stuck: make(map[lane]bool)}
}

// send puts a call onto the connection between two ends, which it makes if there is none.
func (n *network) send(l lane, fromLife int, c *call) {
	c.sent = n.c.now
	i := slices.IndexFunc(n.links, func(k *link) bool { return k.lane == l && k.fromLife == fromLife && !k.isBroken })
	var k *link
	if i >= 0 {
		k = n.links[i]
	} else {
		k = &link{net: n, lane: l, fromLife: fromLife, toLife: n.c.node(l.to).life}
		n.links = append(n.links, k)
	}
	if len(k.requests) >= mostQueued {
		if c.done != nil {
			c.done(nil, errLost)
		}
		return
	}
	if c.done != nil {
		k.calls = append(k.calls, c)
	}
	k.requests = append(k.requests, flying{at: n.arrival(l, k.requests), call: c})
}

// arrival is when something that is sent now comes, not before what was sent earlier on the same way.
func (n *network) arrival(l lane, before []flying) time.Time {
	delay := time.Duration(n.c.rng.IntN(6)) * time.Millisecond
	if n.c.isBad && n.c.chance(2) {
		delay = time.Duration(n.c.rng.IntN(300)) * time.Millisecond
	}
	at := n.c.now.Add(delay + n.slow[l.from] + n.slow[l.to])
	if len(before) > 0 && before[len(before)-1].at.After(at) {
		at = before[len(before)-1].at
	}
	return at
}

func (n *network) isCut(from, to int32) bool { return n.cuts[[2]int32{from, to}] }

// step moves everything that is due, connections in whatever order.
func (n *network) step() {
	links := slices.Clone(n.links)
	n.c.rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	for _, k := range links {
		k.step()
	}
	n.links = slices.DeleteFunc(n.links, func(k *link) bool { return k.isBroken && len(k.requests) == 0 })
}

// step is one connection's turn: answers first, since who was paused finds them waiting, then requests, then patience.
func (k *link) step() {
	c := k.net.c
	if !k.isBroken && !c.isLife(k.lane.from, k.fromLife) {
		k.calls = nil // nobody is there to be told
		k.snap()
	}
	to := c.node(k.lane.to)
	if k.net.stuck[k.lane] && !k.isBroken {
		k.giveUp()
		return
	}
	for !k.isBroken && len(k.answers) > 0 && !k.answers[0].at.After(c.now) && !k.net.isCut(k.lane.to, k.lane.from) && !c.isPaused(k.lane.from) {
		a := k.answers[0]
		k.answers = k.answers[1:]
		k.calls = slices.DeleteFunc(k.calls, func(o *call) bool { return o == a.call })
		c.trace("answer", k.lane, a.call.req.Key())
		a.call.done(a.resp, nil)
	}
	for len(k.requests) > 0 && !k.requests[0].at.After(c.now) && !k.net.isCut(k.lane.from, k.lane.to) && to.pausedUntil.IsZero() {
		if to.b == nil || to.life != k.toLife {
			k.requests = nil
			k.snap() // connection refused, or reset
			return
		}
		r := k.requests[0]
		k.requests = k.requests[1:]
		k.serve(to, r.call)
	}
	if !k.isBroken && (to.b == nil || to.life != k.toLife) && !k.net.isCut(k.lane.to, k.lane.from) {
		k.snap()
	}
	k.giveUp()
}

// giveUp is the end of the caller's patience.
func (k *link) giveUp() {
	if len(k.calls) > 0 && k.net.c.now.Sub(k.calls[0].sent) > k.patience() && !k.net.c.isPaused(k.lane.from) {
		k.snap()
	}
}

func (k *link) patience() time.Duration {
	if k.lane.from > 0 {
		return peerTimeout
	}
	return userTimeout
}

// snap ends the connection for its caller. What is on the way to the server comes there yet, or never.
func (k *link) snap() {
	if k.isBroken {
		return
	}
	k.isBroken, k.answers = true, nil
	if k.net.c.chance(50) {
		k.requests = nil
	}
	k.requests = slices.DeleteFunc(k.requests, func(f flying) bool { return f.call.isOnce })
	calls := k.calls
	k.calls = nil
	for _, o := range calls {
		o.done(nil, errLost)
	}
}

// serve gives a request to its broker, as it comes off the wire.
func (k *link) serve(to *node, o *call) {
	c := k.net.c
	req, err := overTheWire(o.req)
	if err != nil {
		c.failf("request %d from %d doesn't survive the wire: %v", o.req.Key(), k.lane.from, err)
		return
	}
	c.trace("request", k.lane, req.Key())
	r := &core.Request{Key: req.Key(), Version: req.GetVersion(), ClientID: "coretest", ClientHost: "10.0.0.9", Body: req, Now: to.clock()}
	if k.lane.from > 0 {
		r.Peer = k.lane.from
	}
	s := &slot{call: o}
	if o.done != nil {
		k.slots = append(k.slots, s)
	}
	isDone := false
	to.b.Handle(r, func(resp kmsg.Response) {
		if isDone {
			c.failf("node %d answers request %d twice", to.id, req.Key())
		}
		isDone = true
		switch {
		case to.life != k.toLife || to.mem.Crashed():
			return
		case o.done == nil && core.HangsUp(resp):
			k.snap()
			return
		case o.done == nil:
			return
		}
		s.resp, s.isReady = resp, true
		k.answer()
	})
}

// answer encodes what is ready, in the order of the requests.
func (k *link) answer() {
	for len(k.slots) > 0 && k.slots[0].isReady {
		s := k.slots[0]
		k.slots = k.slots[1:]
		switch {
		case s.resp == nil: // acks=0
			k.calls = slices.DeleteFunc(k.calls, func(o *call) bool { return o == s.call })
			continue
		case core.HangsUp(s.resp):
			k.requests = nil
			k.snap()
			return
		case k.isBroken:
			continue
		}
		resp, err := backOverTheWire(s.call.req, s.resp)
		if k.net.c.node(k.lane.to).mem.Crashed() {
			return
		}
		if err != nil {
			k.net.c.failf("the answer of node %d to request %d doesn't survive the wire: %v", k.lane.to, s.call.req.Key(), err)
			return
		}
		back := lane{from: k.lane.to, to: k.lane.from}
		k.answers = append(k.answers, flying{at: k.net.arrival(back, k.answers), call: s.call, resp: resp})
	}
}

// overTheWire is a request as its receiver decodes it. A private one is its sender's, who doesn't change it any more.
func overTheWire(req kmsg.Request) (kmsg.Request, error) {
	decoded := kmsg.RequestForKey(req.Key())
	if decoded == nil {
		return req, nil
	}
	decoded.SetVersion(req.GetVersion())
	return decoded, decoded.ReadFrom(req.AppendTo(nil))
}

// backOverTheWire is an answer as its receiver decodes it.
func backOverTheWire(req kmsg.Request, resp kmsg.Response) (kmsg.Response, error) {
	decoded := req.ResponseKind()
	if kmsg.RequestForKey(req.Key()) == nil {
		return resp, nil
	}
	decoded.SetVersion(req.GetVersion())
	return decoded, decoded.ReadFrom(resp.AppendTo(nil))
}

// peers is core.Peers for one life of a node.
type peers struct {
	n    *node
	life int
}

// Call implements core.Peers.
func (p *peers) Call(to int32, l core.Lane, req kmsg.Request, done func(kmsg.Response, error)) {
	c := p.n.c
	if p.n.life != p.life || p.n.b == nil && !p.n.isOpening || c.node(to) == nil {
		if done != nil {
			done(nil, errLost)
		}
		return
	}
	c.net.send(lane{p.n.id, to, l}, p.life, &call{req: req, done: done})
}

// SetNodes implements core.Peers. The network knows where everybody is.
func (p *peers) SetNodes(map[int32]string) {}
