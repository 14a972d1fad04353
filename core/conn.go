package core

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	readBufferBytes   = 4 << 10
	writeBatchBytes   = 256 << 10        // answers that are ready are written together up to this size
	bodyDeadline      = 30 * time.Second // a frame that was begun must go on within this
	writeDeadline     = 60 * time.Second // a client must take some bytes of its answers within this
	frameChunkBytes   = 1 << 20          // what one read of a body may take while its deadline stands
	writeChunkBytes   = 256 << 10        // what one write of an answer has, likewise
	fetchShare        = 4                // of Config.MemoryBytes, an nth is for fetched bytes on their way out
	leastFetchBytes   = 64 << 10         // what every fetch is granted
	maxAnswersWaiting = 64 << 20         // bytes of requests of one connection that may wait for answers

	// refusedPause is how long a connection whose fetch may not wait isn't read, so that its client doesn't spin.
	refusedPause = 250 * time.Millisecond
)

// conn is one client's connection, or a peer's: a reader that decodes and dispatches, a writer that answers in order. The reader
// goes on while earlier requests wait, bounded by Config.MaxInFlight and maxAnswersWaiting.
type conn struct {
	b    *Broker
	nc   net.Conn
	host string

	software   string        // written and read by the reader only, as the next three are
	peer       *attachedPeer // nil: a client's
	attaching  attachServer
	mustAttach bool // there is no room for another client
	began      time.Time
	lastRead   atomic.Int64 // when the newest frame came, in nanoseconds since began: clocks may be set

	mu      sync.Mutex
	cond    sync.Cond // slots' head became ready, room appeared, or closed
	slots   []*slot   // requests in order; the head is answered next
	waiting int       // bytes of the frames behind slots
	closed  error
	drained bool // the writer has gone: who answers gives back what was charged
}

// slot is a request's place in the order of answers.
type slot struct {
	correlationID int32
	bytes         int
	ready         bool
	resp          kmsg.Response

	weight  int64  // the request's
	claim   *claim // of Broker.heavy or light, nil if there is none (any more)
	waiting int64  // of Broker.waits
	cancel  func() // answers a request that waits
	refused bool   // it was not allowed to wait; of the reader
	isPeers bool   // its answer is granted what it wants
}

// run reads on this goroutine, writes on another, and takes the connection off the broker when both are gone.
func (c *conn) run() {
	defer c.b.serving.Done()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	c.close(c.read()) // a client that has gone wants no answers
	<-written
	c.drain()
	c.b.attached.remove(c)
	c.b.mu.Lock()
	delete(c.b.conns, c)
	if c.peer != nil {
		c.b.peerConns--
	}
	c.b.mu.Unlock()
}

// close ends the connection: the reader and the writer return soon.
func (c *conn) close(why error) {
	c.mu.Lock()
	if c.closed == nil {
		c.closed = why
	}
	c.cond.Broadcast()
	c.mu.Unlock()
	_ = c.nc.Close() // why is what matters
	c.b.budget.wake()
	c.b.heavy.wake()
	c.b.light.wake()
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed != nil
}

// serve decodes one frame and hands it on.
func (c *conn) serve(f frame) error {
	h, err := parseHeader(f.bytes)
	var req *Request
	switch {
	case err != nil:
	case h.key == keyAttachPeer:
		err = c.attachPeer(h)
		c.b.budget.put(f, true)
		return err
	default:
		req, _, err = c.b.table.decode(h)
	}
	if err != nil {
		c.b.stats.malformed.Add(1)
		c.b.rejects.say(c.b.log, slog.LevelWarn, c.b.cfg.Now(), "connection closed: undecodable request", "peer", c.host, "key", h.key, "version", h.version,
			"client", h.clientID, "software", c.software, "error", err)
		return c.giveUp(f, err)
	}
	req.ClientHost, req.Now = c.host, c.b.cfg.Now()
	if v, ok := req.Body.(*kmsg.ApiVersionsRequest); ok {
		c.software = v.ClientSoftwareName + "/" + v.ClientSoftwareVersion
	}
	req.Software = c.software
	if c.peer != nil {
		return c.servePeer(f, req)
	}
	s := &slot{correlationID: h.correlationID, bytes: len(f.bytes)}
	if err := c.charge(s, req); err != nil {
		return c.giveUp(f, err)
	}
	if !c.enqueue(s) {
		c.b.uncharge(s)
		return c.giveUp(f, errClosing)
	}
	if req.Key == keyProduce {
		select {
		case <-c.b.store.Room(len(f.bytes)): // closed, unless tail memory, the log or the disk has too much to do
		case <-c.b.ended:
		}
	}
	done := func(resp kmsg.Response) { c.answer(s, resp) }
	if req.Key == keyProduce || req.Key == keyFetch {
		c.b.Handle(req, done)
		c.b.budget.put(f, true) // a produce's bytes have been copied, and a fetch has none: it may wait for long
		if s.refused {
			c.b.pause(refusedPause)
		}
		return nil
	}
	c.b.Handle(req, func(resp kmsg.Response) {
		c.b.budget.put(f, false) // its bytes may have been kept
		done(resp)
	})
	return nil
}

// enqueue gives s its place, waiting for room. It reports false when the connection is closed.
func (c *conn) enqueue(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.closed == nil && len(c.slots) > 0 &&
		(len(c.slots) >= c.b.cfg.MaxInFlight || c.waiting+s.bytes > maxAnswersWaiting) {
		c.cond.Wait()
	}
	if c.closed != nil {
		return false
	}
	c.slots = append(c.slots, s)
	c.waiting += s.bytes
	return true
}

// answer is a request's completion.
func (c *conn) answer(s *slot, resp kmsg.Response) {
	c.mu.Lock()
	s.resp, s.ready = resp, true
	if len(c.slots) > 0 && c.slots[0] == s {
		c.cond.Broadcast()
	}
	drained := c.drained
	c.mu.Unlock()
	if drained {
		s.resp = nil
		c.b.uncharge(s)
	}
}

// write answers in order until the connection ends.
func (c *conn) write() {
	var o output
	defer func() { c.b.written(&o) }()
	for {
		s := c.next(o.size() == 0)
		if s == nil && o.size() == 0 {
			return
		}
		if s != nil && s.resp != nil {
			if _, ok := s.resp.(hangUp); ok {
				_ = c.flush(&o) // what was answered before it
				c.close(errClosing)
				return
			}
			c.encode(&o, s)
		}
		if s != nil && o.size() < writeBatchBytes {
			continue // take what else is ready
		}
		err := c.flush(&o)
		c.b.written(&o)
		if err != nil {
			c.close(fmt.Errorf("write to %s: %w", c.host, err))
			return
		}
	}
}

// encode adds an answer to what is written next. A fetch reads no more than it is granted.
func (c *conn) encode(o *output, s *slot) {
	o.charged = append(o.charged, s)
	f, ok := s.resp.(*fetch)
	if !ok {
		if s.weight >= heavyBytes {
			o.buf = slices.Grow(o.buf, int(s.weight/4)) // about the answer's size; growing step by step takes thrice that
		}
		o.buf = appendResponse(o.buf, s.correlationID, s.resp)
		s.resp = nil
		return
	}
	if !s.isPeers { // its handler has bounded what a replica gets
		granted := c.b.grantFetch(f.wants())
		o.granted += granted
		f.maxBytes = min(f.maxBytes, int32(granted))
	}
	f.appendFrame(o, s.correlationID)
	s.resp = nil
}

// grantFetch is how many bytes of records a fetch may hold until they are written: what it wants, while all fetches
// together stay within their share of the memory, and never less than a little.
func (b *Broker) grantFetch(wants int64) int64 {
	room := b.cfg.MemoryBytes/fetchShare - b.fetches.Load()
	granted := max(min(wants, room), min(wants, leastFetchBytes))
	b.fetches.Add(granted)
	return granted
}

// next takes the head of the queue when its answer is ready; it waits for that only if wait is set. It returns nil
// when there is nothing (more) to write.
func (c *conn) next(wait bool) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed != nil {
			return nil
		}
		if len(c.slots) > 0 && c.slots[0].ready {
			s := c.slots[0]
			c.slots[0] = nil
			c.slots = c.slots[1:]
			c.waiting -= s.bytes
			c.cond.Broadcast()
			return s
		}
		if !wait {
			return nil
		}
		c.cond.Wait()
	}
}

// flush writes o, giving a slow client writeDeadline for each part of it.
func (c *conn) flush(o *output) error {
	for _, s := range o.charged {
		if s.claim != nil {
			s.claim.turn()
		}
	}
	for rest := o.buffers(); len(rest) > 0; {
		part, n := net.Buffers(nil), 0
		for len(rest) > 0 && n < writeChunkBytes {
			piece := rest[0]
			if len(piece) > writeChunkBytes {
				piece, rest[0] = piece[:writeChunkBytes], piece[writeChunkBytes:]
			} else {
				rest = rest[1:]
			}
			part = append(part, piece)
			n += len(piece)
		}
		if err := c.nc.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
			return err
		}
		written, err := part.WriteTo(c.nc)
		c.b.stats.bytesOut.Add(written)
		for _, s := range o.charged {
			if s.claim != nil {
				s.claim.moved.Add(written)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
