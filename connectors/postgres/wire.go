package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	chunkBytes     = 256 << 10 // of a read buffer; a larger message gets a buffer of its own
	keptChunks     = 32        // buffers kept for the next batch
	maxFrameBytes  = 1<<30 + 1<<20
	waitSlice      = 100 * time.Millisecond // how long a read waits before it looks whether its context has ended
	writeTimeout   = 10 * time.Second
	goodbyeLimit   = 3 * time.Second
	frameHeadBytes = 5
)

// errNoFrame says that no whole message has come in time; what has come of one is kept.
var errNoFrame = errors.New("no message in time")

// wire is a connection that speaks PostgreSQL's message format directly. A read that ends with its context loses nothing:
// the next goes on where it was. Messages are slices of the read buffers and stay valid until release.
//
//	message: type (1 byte) | length of the rest with itself (4 bytes, big-endian) | body
//
// One goroutine reads, one (perhaps another) writes.
type wire struct {
	conn net.Conn
	buf  []byte   // the current buffer: filled up to its length
	next int      // where the next message starts in buf
	used [][]byte // full buffers that messages of this batch point into
	free [][]byte

	readBytes uint64
}

// takeWire takes an idle connection over from pgconn, which must not be used afterwards.
func takeWire(ctx context.Context, pg *pgconn.PgConn) (*wire, error) {
	if err := pg.SyncConn(ctx); err != nil {
		return nil, errors.Join(err, pg.Close(ctx))
	}
	raw, err := pg.Hijack()
	if err != nil {
		return nil, errors.Join(err, pg.Close(ctx))
	}
	if err := raw.Conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, raw.Conn.Close())
	}
	return &wire{conn: raw.Conn, buf: make([]byte, 0, chunkBytes)}, nil
}

// close says goodbye and closes the connection.
func (w *wire) close() error {
	_ = w.send('X', nil) // it may be broken already
	return w.conn.Close()
}

// goodbye closes the connection and waits, until ctx ends or the limit, for the server to have let go of the slot: it
// closes its side after that.
func (w *wire) goodbye(ctx context.Context) error {
	_ = w.send('X', nil)
	until := time.Now().Add(goodbyeLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	if w.conn.SetReadDeadline(until) == nil {
		_, _ = io.Copy(io.Discard, w.conn)
	}
	return w.conn.Close()
}

// release ends the life of all messages returned so far.
func (w *wire) release() {
	for _, b := range w.used {
		if cap(b) == chunkBytes && len(w.free) < keptChunks {
			w.free = append(w.free, b[:0])
		}
	}
	clear(w.used)
	w.used = w.used[:0]
	if w.next > 0 {
		n := copy(w.buf, w.buf[w.next:])
		w.buf, w.next = w.buf[:n], 0
	}
}

// buffered reports whether a whole message can be had without reading.
func (w *wire) buffered() bool {
	have := w.buf[w.next:]
	return len(have) >= frameHeadBytes && uint64(len(have)) >= 1+uint64(binary.BigEndian.Uint32(have[1:]))
}

// frame gives the next message. It waits until the deadline or the end of ctx, then returns [errNoFrame].
func (w *wire) frame(ctx context.Context, deadline time.Time) (kind byte, body []byte, err error) {
	for {
		have := w.buf[w.next:]
		need := frameHeadBytes
		if len(have) >= frameHeadBytes {
			n := binary.BigEndian.Uint32(have[1:])
			if n < 4 || n > maxFrameBytes {
				return 0, nil, fmt.Errorf("message %q of %d bytes: the connection is out of step", have[0], n)
			}
			if need = int(n) + 1; len(have) >= need {
				w.next += need
				return have[0], have[frameHeadBytes:need:need], nil
			}
		}
		w.room(need)
		if err := w.fill(ctx, deadline); err != nil {
			return 0, nil, err
		}
	}
}

// room makes sure that need bytes from next on fit the current buffer.
func (w *wire) room(need int) {
	if w.next+need <= cap(w.buf) && len(w.buf) < cap(w.buf) {
		return
	}
	var fresh []byte
	switch {
	case need > chunkBytes:
		fresh = make([]byte, 0, need+chunkBytes)
	case len(w.free) > 0:
		fresh = w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
	default:
		fresh = make([]byte, 0, chunkBytes)
	}
	fresh = append(fresh[:0], w.buf[w.next:]...)
	w.used = append(w.used, w.buf)
	w.buf, w.next = fresh, 0
}

// fill reads once.
func (w *wire) fill(ctx context.Context, deadline time.Time) error {
	for {
		if ctx.Err() != nil {
			return errNoFrame
		}
		now := time.Now()
		until := now.Add(waitSlice)
		if deadline.Before(until) {
			until = deadline
		}
		if d, ok := ctx.Deadline(); ok && d.Before(until) {
			until = d
		}
		if err := w.conn.SetReadDeadline(until); err != nil {
			return err
		}
		n, err := w.conn.Read(w.buf[len(w.buf):cap(w.buf)])
		w.buf = w.buf[:len(w.buf)+n]
		w.readBytes += uint64(n)
		switch {
		case n > 0:
			return nil
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if now = time.Now(); !now.Before(deadline) || ctx.Err() != nil {
				return errNoFrame
			}
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
		default:
			return err
		}
	}
}

// send writes one message.
func (w *wire) send(kind byte, body []byte) error {
	out := make([]byte, 0, frameHeadBytes+len(body))
	out = append(out, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	out = append(out, body...)
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := w.conn.Write(out)
	return err
}

// query sends statements in the simple protocol; the answer comes as messages.
func (w *wire) query(sql string) error { return w.send('Q', append([]byte(sql), 0)) }

// serverError makes a PgError of an ErrorResponse.
func serverError(body []byte) error {
	e := &pgconn.PgError{}
	for len(body) > 1 {
		code := body[0]
		end := 1
		for end < len(body) && body[end] != 0 {
			end++
		}
		text := string(body[1:end])
		switch code {
		case 'S':
			e.Severity = text
		case 'C':
			e.Code = text
		case 'M':
			e.Message = text
		case 'D':
			e.Detail = text
		case 'H':
			e.Hint = text
		case 't':
			e.TableName = text
		case 's':
			e.SchemaName = text
		}
		if end >= len(body) {
			break
		}
		body = body[end+1:]
	}
	return e
}

// rows reads the answer to a query up to ReadyForQuery: the rows of all statements in text form. It may be called again
// after errNoFrame with the same into.
func (w *wire) rows(ctx context.Context, deadline time.Time, into *answer) error {
	for {
		kind, body, err := w.frame(ctx, deadline)
		if err != nil {
			return err
		}
		switch kind {
		case 'D':
			row, err := dataRow(body)
			if err != nil {
				return err
			}
			into.rows = append(into.rows, row)
		case 'E':
			into.err = serverError(body)
		case 'Z':
			w.release()
			return into.err
		}
	}
}

// answer collects what a query answered.
type answer struct {
	rows [][]string
	err  error
}

func dataRow(body []byte) ([]string, error) {
	errShort := errors.New("short DataRow message")
	if len(body) < 2 {
		return nil, errShort
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	row := make([]string, 0, n)
	for range n {
		if len(body) < 4 {
			return nil, errShort
		}
		size := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if size < 0 {
			row = append(row, "")
			continue
		}
		if int(size) > len(body) {
			return nil, errShort
		}
		row = append(row, string(body[:size]))
		body = body[size:]
	}
	return row, nil
}

// heldBytes tells how much the messages returned since release take.
func (w *wire) heldBytes() int {
	n := w.next
	for _, b := range w.used {
		n += cap(b)
	}
	return n
}
