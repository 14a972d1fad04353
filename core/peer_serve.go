package core

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// attachReserve is how many connections may be open beyond max.connections, if they attach at once: clients can't shut peers out.
	attachReserve = 32
	// aliveWithin says that another node with the same id is there: something came from it lately.
	aliveWithin = time.Second
)

var (
	errNotAttached = errors.New("only a peer may ask this, and only when it is attached")
	errPeerKey     = errors.New("this is not asked over a peer's connection")
	errFull        = errors.New("max.connections reached")
)

// attachedPeer is who is at the other end of a connection.
type attachedPeer struct {
	id      int32 // 0: a node that has none yet
	lane    Lane
	start   string
	address string
}

// attachments are the connections of peers, the newest of each node and lane.
type attachments struct {
	mu     sync.Mutex
	byLane map[attachment]*conn

	refusals seldom
}

type attachment struct {
	id   int32
	lane Lane
}

// add takes a connection that has proved to be a peer's. The one before, of the same node and lane, is closed: the peer has given it up, or is cut
// off from it. It is refused if another node with its id is there.
func (a *attachments) add(c *conn, p *attachedPeer, now time.Time) error {
	key := attachment{p.id, p.lane}
	a.mu.Lock()
	before := a.byLane[key]
	if before != nil && before.peer.start != p.start && !before.isClosed() && now.Sub(before.heard()) < aliveWithin {
		a.mu.Unlock()
		return fmt.Errorf("%w: node %d is attached from %s, at %s", errPeerID, p.id, before.host, before.peer.address)
	}
	if a.byLane == nil {
		a.byLane = make(map[attachment]*conn)
	}
	c.peer = p
	a.byLane[key] = c
	a.mu.Unlock()
	if before != nil {
		before.close(errPeerGone)
	}
	return nil
}

// remove forgets a connection that has ended.
func (a *attachments) remove(c *conn) {
	if c.peer == nil || c.peer.id == 0 {
		return
	}
	key := attachment{c.peer.id, c.peer.lane}
	a.mu.Lock()
	if a.byLane[key] == c {
		delete(a.byLane, key)
	}
	a.mu.Unlock()
}

// heard is when something came last.
func (c *conn) heard() time.Time { return c.began.Add(time.Duration(c.lastRead.Load())) }

// mayAsk says whether a request of this key may come over this connection, and how large it may be. Frames of peers are bounded by
// themselves; those of clients by what they are charged, so their limit is 0.
func (c *conn) mayAsk(key int16) (limit int, err error) {
	isPrivate := key >= firstPrivateKey
	switch {
	case c.peer == nil && key == keyAttachPeer:
		return maxAttachBytes, nil
	case c.peer == nil && c.mustAttach:
		return 0, errFull
	case c.peer == nil && !isPrivate:
		return 0, nil
	case c.peer == nil, c.peer.id == 0 && key < keyProbe && key != keyAttachPeer:
		return 0, fmt.Errorf("%w: key %d", errNotAttached, key)
	case !isPrivate && key != keyFetch && key != keyDescribeQuorum:
		return 0, fmt.Errorf("%w: key %d", errPeerKey, key)
	}
	return c.peer.lane.frameLimit(), nil
}

// readDeadline is when the next frame must begin, zero: never. A peer may be silent for long.
func (c *conn) readDeadline(now time.Time) time.Time {
	switch {
	case c.peer != nil:
		return time.Time{}
	case c.mustAttach, c.attaching.hello != nil:
		return now.Add(attachWait)
	}
	return now.Add(c.b.cfg.MaxIdle)
}

// attachPeer serves AttachPeer, which belongs to the connection. After a refusal the answer is written, and the connection closed.
func (c *conn) attachPeer(h header) error {
	var ask privateRequest
	if err := ask.ReadFrom(h.body); err != nil {
		return err
	}
	var body []byte
	var err error
	switch {
	case c.peer == nil:
		body, err = c.handshake(ask.body)
	case len(ask.body) > 0:
		return fmt.Errorf("%w: it is attached", errAttach)
	}
	resp := &privateResponse{key: keyAttachPeer, body: body}
	if err != nil {
		resp = refusal(keyAttachPeer, err)
		c.b.attached.refusals.say(c.b.log, slog.LevelWarn, c.b.cfg.Now(), "peer refused", "peer", c.host, "node", c.attaching.peer.ID, "address", c.attaching.peer.Address, "error", err)
	}
	if !c.reply(h.correlationID, resp) {
		return errClosing
	}
	if err != nil && c.reply(0, hangUp{}) {
		c.awaitClose()
	}
	return err
}

// reply answers at once, behind what isn't answered yet.
func (c *conn) reply(correlationID int32, resp kmsg.Response) bool {
	s := &slot{correlationID: correlationID, isPeers: true}
	if !c.enqueue(s) {
		return false
	}
	c.answer(s, resp)
	return true
}

// handshake takes the next step of attaching and gives its answer.
func (c *conn) handshake(ask []byte) ([]byte, error) {
	s := &c.attaching
	if s.hello == nil {
		return s.begin(c.b.cfg.ClusterSecret, c.b.self(), ask, c.b.cfg.Rand)
	}
	mac, err := s.finish(ask)
	if err != nil {
		return nil, err
	}
	p := &attachedPeer{id: s.peer.ID, lane: s.peer.Lane, start: s.peer.Start, address: s.peer.Address}
	if p.id == 0 {
		c.peer = p
	} else if err := c.b.attached.add(c, p, time.Now()); err != nil {
		return nil, err
	}
	c.b.peerAttached(c)
	return mac, nil
}

// openPeers makes the way to the others over TCP, if there can be any and there is no other way. No goroutine runs before the first call.
func (b *Broker) openPeers() error {
	if b.cfg.Peers != nil || b.cfg.ClusterSecret == "" {
		return nil
	}
	var err error
	b.tcp, err = newTCPPeers(peersConfig{
		Secret: b.cfg.ClusterSecret, Self: b.self, AnswerBytes: int(b.cfg.ReplicaFetchBytes) + int(b.cfg.MaxRequestBytes) + maxPeerDataBytes,
		Logger: b.log, Now: b.cfg.Now, Rand: b.cfg.Rand,
	})
	b.peers = b.tcp
	return err
}

// self is what this node says of itself to peers.
func (b *Broker) self() peerSelf {
	return peerSelf{ID: b.cfg.NodeID, ClusterID: b.ClusterID(), Address: b.Advertised()}
}

// peerAttached counts a peer's connection apart from clients', and remembers where the peer is.
func (b *Broker) peerAttached(c *conn) {
	b.mu.Lock()
	b.peerConns++
	b.mu.Unlock()
	if _, _, err := splitHostPort(c.peer.address); err == nil && b.tcp != nil && c.peer.id != 0 {
		b.tcp.seen(c.peer.id, c.peer.address)
	}
}

// servePeer hands a peer's request on. It is charged nothing.
func (c *conn) servePeer(f frame, req *Request) error {
	req.Peer = c.peer.id
	if req.Key == keyRaft { // it has no answer, and must not stand behind what has one
		c.b.Handle(req, func(resp kmsg.Response) {
			if resp != nil {
				c.close(errClosing)
			}
		})
		return nil
	}
	s := &slot{correlationID: req.CorrelationID, bytes: len(f.bytes), isPeers: true}
	if !c.enqueue(s) {
		return errClosing
	}
	c.b.Handle(req, func(resp kmsg.Response) { c.answer(s, resp) })
	if req.Key == keyFetch {
		c.b.budget.put(f, true) // it may wait for long, and needs none of its bytes
	}
	return nil
}

// awaitClose waits until the connection is closed.
func (c *conn) awaitClose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.closed == nil {
		c.cond.Wait()
	}
}
