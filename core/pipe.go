package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	pipeLimitBytes = 1 << 20  // what a writer may be ahead of its reader
	pipeKeepBytes  = 64 << 10 // what an empty direction keeps allocated
)

// Dial is a kgo.Dialer: the broker's own advertised address becomes a buffered pipe in memory, any other address is
// dialed by TCP. The pipe's other end is a connection of the broker like any other.
func (b *Broker) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if own := b.Advertised(); own == "" || addr != own {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	client, server := newPipe(addr)
	if !b.attach(server) {
		return nil, fmt.Errorf("dial %s in memory: %w", addr, errClosing)
	}
	return client, nil
}

// newPipe makes the two ends of a connection in memory.
func newPipe(addr string) (client, server net.Conn) {
	up, down := newStream(), newStream()
	return &pipeEnd{in: down, out: up, addr: pipeAddr(addr)}, &pipeEnd{in: up, out: down, addr: "127.0.0.1:0"}
}

type pipeAddr string

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return string(a) }

// pipeEnd is one end: a net.Conn over two streams.
type pipeEnd struct {
	in, out *stream
	addr    pipeAddr
}

func (p *pipeEnd) Read(b []byte) (int, error)  { return p.in.read(b) }
func (p *pipeEnd) Write(b []byte) (int, error) { return p.out.write(b) }
func (p *pipeEnd) LocalAddr() net.Addr         { return pipeAddr("127.0.0.1:0") }
func (p *pipeEnd) RemoteAddr() net.Addr        { return p.addr }

// Close ends both directions: the peer reads what was written before, then io.EOF.
func (p *pipeEnd) Close() error {
	p.in.close(net.ErrClosed)
	p.out.close(io.EOF)
	return nil
}

func (p *pipeEnd) SetDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	p.out.setDeadline(&p.out.writeBy, t)
	return nil
}

func (p *pipeEnd) SetReadDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	return nil
}

func (p *pipeEnd) SetWriteDeadline(t time.Time) error {
	p.out.setDeadline(&p.out.writeBy, t)
	return nil
}

// stream is one direction of a pipe.
type stream struct {
	mu      sync.Mutex
	cond    sync.Cond
	buf     []byte
	next    int   // of buf, to read
	ended   error // what a reader gets after the last byte, and a writer at once
	readBy  time.Time
	writeBy time.Time
}

func newStream() *stream {
	s := &stream{}
	s.cond.L = &s.mu
	return s
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next == len(s.buf) || errors.Is(s.ended, net.ErrClosed) {
		if s.ended != nil {
			return 0, s.ended
		}
		if len(b) == 0 {
			return 0, nil
		}
		if err := s.wait(s.readBy); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.buf[s.next:])
	s.next += n
	if s.next == len(s.buf) {
		if s.buf, s.next = s.buf[:0], 0; cap(s.buf) > pipeKeepBytes {
			s.buf = nil
		}
	}
	s.cond.Broadcast()
	return n, nil
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for {
		if s.ended != nil {
			return written, io.ErrClosedPipe
		}
		if len(b) == 0 {
			return written, nil
		}
		room := pipeLimitBytes - (len(s.buf) - s.next)
		if room <= 0 {
			if err := s.wait(s.writeBy); err != nil {
				return written, err
			}
			continue
		}
		n := min(room, len(b))
		if s.next > 0 && len(s.buf)+n > cap(s.buf) {
			s.buf = s.buf[:copy(s.buf, s.buf[s.next:])]
			s.next = 0
		}
		s.buf = append(s.buf, b[:n]...)
		b = b[n:]
		written += n
		s.cond.Broadcast()
	}
}

// wait waits for a change, or until the deadline has passed.
func (s *stream) wait(deadline time.Time) error {
	if deadline.IsZero() {
		s.cond.Wait()
		return nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	t := time.AfterFunc(left, func() {
		s.mu.Lock()
		s.cond.Broadcast()
		s.mu.Unlock()
	})
	s.cond.Wait()
	t.Stop()
	return nil
}

func (s *stream) setDeadline(field *time.Time, t time.Time) {
	s.mu.Lock()
	*field = t
	s.cond.Broadcast()
	s.mu.Unlock()
}

func (s *stream) close(err error) {
	s.mu.Lock()
	if s.ended == nil || errors.Is(err, net.ErrClosed) {
		s.ended = err
	}
	s.cond.Broadcast()
	s.mu.Unlock()
}
