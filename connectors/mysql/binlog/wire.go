package binlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

const (
	wireBufferBytes = 256 << 10
	keptBufferBytes = 4 << 20 // a larger one is given back after the event that needed it
	fullPacket      = 1<<24 - 1
	packetHeader    = 4
)

// wire takes the server's packets apart. What it hands out lies in its buffer and is valid until its next call.
type wire struct {
	conn net.Conn
	buf  []byte
	r, w int // what has been read but not handed out
	seq  byte

	silence time.Duration // a server that says nothing for so long is dead; 0: never
	quiet   time.Duration // how long it has said nothing while somebody waited

	long []byte // the first packets of an event that fills more than one

	// An event that is read piece by piece: what is left of its packet, whether others follow, and its checksum so far.
	left    int
	more    bool
	crc     uint32
	patient context.Context // never ends: see Read
}

// need makes at least n bytes readable. It moves the buffer's content. When ctx ends it gives ctx's error and loses
// nothing.
func (l *wire) need(ctx context.Context, n int) error {
	if l.w-l.r >= n {
		return nil
	}
	l.makeRoom(n)
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for l.w-l.r < n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.fill(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *wire) makeRoom(n int) {
	switch {
	case l.r == l.w && cap(l.buf) > keptBufferBytes && n <= wireBufferBytes:
		l.buf = make([]byte, wireBufferBytes)
		l.r, l.w = 0, 0
	case l.r+n <= len(l.buf) && l.r < l.w:
	case n <= len(l.buf):
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.r = 0
	default:
		bigger := make([]byte, n+wireBufferBytes)
		l.w = copy(bigger, l.buf[l.r:l.w])
		l.r, l.buf = 0, bigger
	}
}

// fill reads once, for no longer than ctx and the server's silence allow.
func (l *wire) fill(ctx context.Context) error {
	var deadline time.Time
	if l.silence > 0 {
		deadline = time.Now().Add(l.silence - l.quiet)
	}
	if d, ok := ctx.Deadline(); ok && (deadline.IsZero() || d.Before(deadline)) {
		deadline = d
	}
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return lost(err)
	}
	if ctx.Err() != nil { // between the look before and the deadline that was just set
		return ctx.Err()
	}
	started := time.Now()
	n, err := l.conn.Read(l.buf[l.w:])
	if n > 0 {
		l.w += n
		l.quiet = 0
		return nil
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.quiet += time.Since(started)
		if l.silence > 0 && l.quiet >= l.silence {
			return &Error{Class: Lost, Err: fmt.Errorf("the server has said nothing for %s, not even its heartbeats", l.quiet.Round(time.Millisecond))}
		}
		if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
			return context.DeadlineExceeded
		}
		return nil // the loop looks at ctx
	}
	return lost(err)
}

// ready tells whether a whole packet has been read already.
func (l *wire) ready() bool {
	if l.w-l.r < packetHeader {
		return false
	}
	return l.w-l.r >= packetHeader+l.packetLength()
}

func (l *wire) packetLength() int {
	h := l.buf[l.r:]
	return int(h[0]) | int(h[1])<<8 | int(h[2])<<16
}

// packet begins the next packet: its header is read and checked, its length returned.
func (l *wire) packet(ctx context.Context) (int, error) {
	if err := l.need(ctx, packetHeader); err != nil {
		return 0, err
	}
	if seq := l.buf[l.r+3]; seq != l.seq {
		return 0, corrupt("packet %d came where %d was expected", seq, l.seq)
	}
	return l.packetLength(), nil
}

func (l *wire) skip(n int) []byte {
	out := l.buf[l.r : l.r+n : l.r+n]
	l.r += n
	return out
}

// peek waits for the next event and gives its header. ok is false if the server has ended the stream.
func (l *wire) peek(ctx context.Context) (h header, ok bool, err error) {
	n, err := l.packet(ctx)
	if err != nil {
		return h, false, err
	}
	if err := l.need(ctx, packetHeader+min(n, 1+headerSize)); err != nil {
		return h, false, err
	}
	p := l.buf[l.r+packetHeader:]
	switch {
	case n == 0:
		return h, false, corrupt("an empty packet came where an event was expected")
	case p[0] == 0xff:
		if err := l.need(ctx, packetHeader+n); err != nil {
			return h, false, err
		}
		l.skip(packetHeader)
		return h, false, serverError(l.skip(n)[1:])
	case p[0] == 0xfe && n < 9:
		return h, false, nil
	case p[0] != 0 || n < 1+headerSize:
		return h, false, corrupt("a packet of %d bytes that begins with %#x is no event", n, p[0])
	}
	return parseHeader(p[1:]), true, nil
}

// event gives the whole next event, which peek has seen.
func (l *wire) event(ctx context.Context) ([]byte, error) {
	for {
		n, err := l.packet(ctx)
		if err != nil {
			return nil, err
		}
		if err := l.need(ctx, packetHeader+n); err != nil {
			return nil, err
		}
		l.seq++
		l.skip(packetHeader)
		data := l.skip(n)
		if len(l.long) == 0 {
			data = data[1:] // the status byte
			if n < fullPacket {
				return data, nil
			}
		}
		l.long = append(l.long, data...)
		if n < fullPacket {
			out := l.long
			l.long = nil
			return out, nil
		}
	}
}

// inLong tells whether the first packets of a long event were taken already, so that there is nothing to peek at.
func (l *wire) inLong() bool { return len(l.long) > 0 }

// open begins to read the next event, which peek has seen, piece by piece with Read.
func (l *wire) open(ctx context.Context) {
	l.patient = context.WithoutCancel(ctx)
	n := l.packetLength()
	l.seq++
	l.skip(packetHeader + 1)
	l.left, l.more, l.crc = n-1, n == fullPacket, 0
}

// Read gives the next piece of an event that was opened. It heeds only the server's silence: nothing else can end the
// reading of an event in its middle without losing the connection.
func (l *wire) Read(p []byte) (int, error) {
	for l.left == 0 {
		if !l.more {
			return 0, io.EOF
		}
		n, err := l.packet(l.patient)
		if err != nil {
			return 0, err
		}
		l.seq++
		l.skip(packetHeader)
		l.left, l.more = n, n == fullPacket
	}
	if err := l.need(l.patient, 1); err != nil {
		return 0, err
	}
	n := copy(p[:min(len(p), l.left)], l.buf[l.r:l.w])
	l.r += n
	l.left -= n
	l.crc = crc32.Update(l.crc, crc32.IEEETable, p[:n])
	return n, nil
}

// serverError reads an error packet behind its first byte.
func serverError(b []byte) error {
	c := cursor{b: b}
	e := &mysql.MyError{Code: c.u16()}
	if len(c.b) >= 6 && c.b[0] == '#' {
		e.State = string(c.bytes(6)[1:])
	}
	e.Message = string(c.b)
	return &Error{Class: classOf(e), Err: e}
}
