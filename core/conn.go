package core

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	readBufferBytes   = 4 << 10
	writeBatchBytes   = 256 << 10        // answers that are ready are written together up to this size
	bodyDeadline      = 30 * time.Second // a frame that was begun must go on within this
	writeDeadline     = 60 * time.Second // a client must take some bytes of its answers within this
	frameChunkBytes   = 1 << 20          // what one read of a body may take while its deadline stands
	maxAnswersWaiting = 64 << 20         // bytes of requests of one connection that may wait for answers
)

// conn is one client's connection: a reader that decodes and dispatches, a writer that answers in order. The reader
// goes on while earlier requests wait, bounded by Config.MaxInFlight and maxAnswersWaiting.
type conn struct {
	b    *Broker
	nc   net.Conn
	host string

	software string // written and read by the reader only

	mu      sync.Mutex
	cond    sync.Cond // slots' head became ready, room appeared, or closed
	slots   []*slot   // requests in order; the head is answered next
	waiting int       // bytes of the frames behind slots
	closed  error
}

// slot is a request's place in the order of answers.
type slot struct {
	correlationID int32
	bytes         int
	ready         bool
	resp          kmsg.Response
}

// Serve accepts clients on ln until the broker is closed or ln fails, and owns ln. The first listener served becomes
// the advertised address if the configuration names none.
func (b *Broker) Serve(ln net.Listener) error {
	addr := b.cfg.Advertise
	if addr == "" {
		addr = ln.Addr().String()
	}
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return errors.Join(errClosing, ln.Close())
	}
	b.advertised.CompareAndSwap(nil, &addr)
	b.listeners[ln] = struct{}{}
	b.serving.Add(1)
	b.mu.Unlock()
	defer b.serving.Done()
	for {
		nc, err := ln.Accept()
		if err != nil {
			b.mu.Lock()
			closing := b.closing
			delete(b.listeners, ln)
			b.mu.Unlock()
			if closing {
				return nil
			}
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				continue
			}
			return errors.Join(fmt.Errorf("accept on %s: %w", ln.Addr(), err), ln.Close())
		}
		b.attach(nc)
	}
}

// attach starts a connection's two goroutines, or closes nc when there are too many or the broker is closing.
func (b *Broker) attach(nc net.Conn) bool {
	c := &conn{b: b, nc: nc, host: peerHost(nc)}
	c.cond.L = &c.mu
	b.mu.Lock()
	if b.closing || len(b.conns) >= b.cfg.MaxConnections {
		full := !b.closing
		b.mu.Unlock()
		_ = nc.Close()
		if full {
			b.stats.refused.Add(1)
			b.log.Warn("connection refused: max.connections reached", "limit", b.cfg.MaxConnections, "peer", c.host)
		}
		return false
	}
	b.conns[c] = struct{}{}
	b.serving.Add(1)
	b.mu.Unlock()
	b.stats.accepted.Add(1)
	go c.run()
	return true
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
	c.b.mu.Lock()
	delete(c.b.conns, c)
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
}

// read takes frames until the connection ends. A frame that can't be served ends it.
func (c *conn) read() error {
	br := bufio.NewReaderSize(c.nc, readBufferBytes)
	for {
		frame, err := c.readFrame(br)
		if err != nil {
			return err
		}
		if err := c.serve(frame); err != nil {
			return err
		}
	}
}

// readFrame reads one frame into memory that the budget has admitted. The frame is the caller's to release.
func (c *conn) readFrame(br *bufio.Reader) ([]byte, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(c.b.cfg.MaxIdle)); err != nil {
		return nil, err
	}
	var size [sizeBytes]byte
	if _, err := io.ReadFull(br, size[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return nil, err
	}
	n, err := frameSize(size, c.b.cfg.MaxRequestBytes)
	if err != nil {
		c.b.stats.malformed.Add(1)
		c.b.log.Warn("connection closed: malformed frame", "peer", c.host, "software", c.software, "error", err)
		return nil, err
	}
	if err := c.b.budget.acquire(int64(n), c.isClosed); err != nil {
		return nil, err
	}
	frame := c.b.budget.get(n)
	for done := 0; done < n; {
		if err := c.nc.SetReadDeadline(time.Now().Add(bodyDeadline)); err != nil {
			return nil, c.giveUp(frame, err)
		}
		m, err := io.ReadFull(br, frame[done:min(n, done+frameChunkBytes)])
		done += m
		if err != nil {
			return nil, c.giveUp(frame, err)
		}
	}
	c.b.stats.bytesIn.Add(int64(n) + sizeBytes)
	return frame, nil
}

func (c *conn) giveUp(frame []byte, err error) error {
	c.b.budget.put(frame, true)
	return err
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed != nil
}

// serve decodes one frame and hands it on.
func (c *conn) serve(frame []byte) error {
	h, err := parseHeader(frame)
	var req *Request
	if err == nil {
		req, _, err = c.b.table.decode(h)
	}
	if err != nil {
		c.b.stats.malformed.Add(1)
		c.b.log.Warn("connection closed: undecodable request", "peer", c.host, "key", h.key, "version", h.version,
			"client", h.clientID, "software", c.software, "error", err)
		return c.giveUp(frame, err)
	}
	req.ClientHost, req.Now = c.host, c.b.cfg.Now()
	if v, ok := req.Body.(*kmsg.ApiVersionsRequest); ok {
		c.software = v.ClientSoftwareName + "/" + v.ClientSoftwareVersion
	}
	req.Software = c.software
	s := &slot{correlationID: h.correlationID, bytes: len(frame)}
	if !c.enqueue(s) {
		return c.giveUp(frame, errClosing)
	}
	if req.Key == keyProduce {
		c.b.Handle(req, func(resp kmsg.Response) { c.answer(s, resp) })
		c.b.budget.put(frame, true) // its bytes have been copied
		return nil
	}
	c.b.Handle(req, func(resp kmsg.Response) {
		c.b.budget.put(frame, false) // its bytes may have been kept
		c.answer(s, resp)
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
	c.mu.Unlock()
}

// write answers in order until the connection ends.
func (c *conn) write() {
	var buf []byte
	for {
		s := c.next(len(buf) == 0)
		if s == nil && len(buf) == 0 {
			return
		}
		if s != nil && s.resp != nil {
			if _, ok := s.resp.(hangUp); ok {
				c.close(errClosing)
				return
			}
			buf = appendResponse(buf, s.correlationID, s.resp)
			s.resp = nil
		}
		if s != nil && len(buf) < writeBatchBytes {
			continue // take what else is ready
		}
		if err := c.flush(buf); err != nil {
			c.close(fmt.Errorf("write to %s: %w", c.host, err))
			return
		}
		if buf = buf[:0]; cap(buf) > writeBatchBytes {
			buf = nil
		}
	}
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

// flush writes buf, giving a slow client writeDeadline for each piece.
func (c *conn) flush(buf []byte) error {
	for len(buf) > 0 {
		if err := c.nc.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
			return err
		}
		n, err := c.nc.Write(buf[:min(len(buf), frameChunkBytes)])
		if err != nil {
			return err
		}
		c.b.stats.bytesOut.Add(int64(n))
		buf = buf[n:]
	}
	return nil
}

func peerHost(nc net.Conn) string {
	addr := nc.RemoteAddr()
	if addr == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.String()
}
