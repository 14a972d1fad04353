package core

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"time"
)

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
func (c *conn) readFrame(br *bufio.Reader) (frame, error) {
	if err := c.nc.SetReadDeadline(c.readDeadline(time.Now())); err != nil {
		return frame{}, err
	}
	n, charge, err := c.admit(br)
	if err != nil {
		c.turnedAway(err)
		return frame{}, err
	}
	var incoming *claim
	if charge > 0 {
		if n > br.Buffered() {
			incoming = c.newClaim(stallGrace)
		}
		if err := c.b.budget.acquire(charge, incoming, c.isClosed); err != nil {
			return frame{}, err
		}
	}
	f := frame{bytes: c.b.budget.get(n), charge: charge}
	if n <= br.Buffered() {
		_, err = io.ReadFull(br, f.bytes)
	} else {
		err = c.readBody(br, f.bytes, incoming)
	}
	if incoming != nil {
		incoming.settle()
	}
	if err != nil {
		return frame{}, c.giveUp(f, err)
	}
	c.lastRead.Store(int64(time.Since(c.began)))
	c.b.stats.bytesIn.Add(int64(n) + sizeBytes)
	return f, nil
}

// turnedAway tells of a frame that isn't read.
func (c *conn) turnedAway(err error) {
	msg := "connection closed: malformed frame"
	switch {
	case errors.Is(err, errFull):
		c.b.stats.refused.Add(1)
		msg = "connection refused"
	case errors.Is(err, errFrameSize), errors.Is(err, errNotAttached), errors.Is(err, errPeerKey):
		c.b.stats.malformed.Add(1)
	default:
		return // it ended
	}
	c.b.rejects.say(c.b.log, slog.LevelWarn, c.b.cfg.Now(), msg, "peer", c.host, "software", c.software, "error", err)
}

// readBody fills a frame, giving the client bodyDeadline for each part of it. incoming is nil for what isn't charged.
func (c *conn) readBody(br *bufio.Reader, body []byte, incoming *claim) error {
	for len(body) > 0 {
		if err := c.nc.SetReadDeadline(time.Now().Add(bodyDeadline)); err != nil {
			return err
		}
		for part := body[:min(len(body), frameChunkBytes)]; len(part) > 0; {
			n, err := br.Read(part)
			if part, body = part[n:], body[n:]; err != nil && len(body) > 0 {
				return err
			}
			if incoming != nil {
				incoming.moved.Add(int64(n))
			}
		}
	}
	return nil
}

// newClaim is a claim that this connection pays for when it stands still.
func (c *conn) newClaim(grace time.Duration) *claim {
	return &claim{grace: grace, end: func() {
		c.b.rejects.say(c.b.log, slog.LevelWarn, c.b.cfg.Now(), "connection closed: it stalled while others waited for memory", "peer", c.host)
		c.close(errStalled)
	}}
}

// admit takes a frame's size off br and looks at its key. The charge is 0 for peers only.
func (c *conn) admit(br *bufio.Reader) (sizeOfRest int, charge int64, err error) {
	start, err := br.Peek(sizeBytes)
	if err != nil {
		return 0, 0, err
	}
	size := [sizeBytes]byte(start)
	if c.peer == nil { // a size that makes no sense is refused without waiting for more
		if _, err := frameSize(size, max(c.b.cfg.MaxRequestBytes, maxAttachBytes)); err != nil {
			return 0, 0, err
		}
	}
	if start, err = br.Peek(sizeBytes + keyBytes); err != nil {
		return 0, 0, err
	}
	key := [keyBytes]byte(start[sizeBytes:])
	n, charge, err := c.admitKey(size, key)
	if err != nil {
		return 0, 0, err
	}
	_, err = br.Discard(sizeBytes)
	return n, charge, err
}

func (c *conn) admitKey(size [sizeBytes]byte, key [keyBytes]byte) (sizeOfRest int, charge int64, err error) {
	limit, err := c.mayAsk(int16(binary.BigEndian.Uint16(key[:])))
	switch {
	case err != nil:
		return 0, 0, err
	case limit > 0:
		n, err := frameSize(size, int32(limit))
		return n, 0, err
	}
	n, err := frameSize(size, c.b.cfg.MaxRequestBytes)
	if err != nil {
		return 0, 0, err
	}
	charge, err = admission(n, key, c.b.budget.limit)
	return n, charge, err
}

func (c *conn) giveUp(f frame, err error) error {
	c.b.budget.put(f, true)
	return err
}
