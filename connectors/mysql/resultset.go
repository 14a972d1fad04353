package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

const (
	rowChunkBytes   = 256 << 10 // of a read buffer; a larger row gets a buffer of its own
	keptRowChunks   = 32        // buffers kept for the next batch
	rowWaitSlice    = 100 * time.Millisecond
	rowWriteTimeout = 10 * time.Second
	packetHead      = 4
	fullPacket      = 1<<24 - 1
)

// errNoRow says that no whole row has come in time; what has come of one is kept.
var errNoRow = errors.New("no row in time")

// rowReader runs queries and reads their rows as the server's packets have them, without a copy: a row is a slice of the
// read buffers, valid until release. A read that ends with its context loses nothing: the next goes on where it was.
//
//	packet: length (3 bytes, little-endian) | sequence (1) | body
//	row: a field after the other: 0xFB for NULL, or its length and its bytes
//
// One goroutine uses it.
type rowReader struct {
	conn net.Conn
	buf  []byte   // the current buffer: filled up to its length
	next int      // where the next packet starts in buf
	used [][]byte // full buffers that rows of this batch point into
	free [][]byte

	held       int // bytes of rows of this batch
	seq        byte
	attributes bool // queries have a list of attributes before them
	oneEnd     bool // columns and rows have no EOF packet between them
	columns    int  // descriptions of columns still to come, and the EOF behind them; -1: the answer has not begun
	long       []byte
}

// newRowReader reads on a connection on which nothing is under way; the client is not used for anything else from then on.
func newRowReader(conn *client.Conn) *rowReader {
	agreed := strings.Split(conn.CapabilityString(), "|") // HasCapability tells what the client asks for, not what the server has too
	return &rowReader{conn: conn.Conn.Conn, buf: make([]byte, 0, rowChunkBytes),
		attributes: slices.Contains(agreed, gomysql.CapNames[gomysql.CLIENT_QUERY_ATTRIBUTES]),
		oneEnd:     slices.Contains(agreed, gomysql.CapNames[gomysql.CLIENT_DEPRECATE_EOF])}
}

// query sends a query; its rows are had by row.
func (r *rowReader) query(sql string) error {
	packet := append(make([]byte, 0, len(sql)+8), 0, 0, 0, 0, gomysql.COM_QUERY)
	if r.attributes {
		packet = append(packet, 0, 1) // none, in one set
	}
	packet = append(packet, sql...)
	n := len(packet) - packetHead
	if n >= fullPacket {
		return fmt.Errorf("a query of %d bytes", n)
	}
	packet[0], packet[1], packet[2] = byte(n), byte(n>>8), byte(n>>16)
	if err := r.conn.SetWriteDeadline(time.Now().Add(rowWriteTimeout)); err != nil {
		return err
	}
	_, err := r.conn.Write(packet)
	r.seq, r.columns = 1, -1
	return err
}

// row gives the next row; nil when there are no more. It waits for as long as patience, 0 for ever, or until the end of ctx,
// then returns [errNoRow].
func (r *rowReader) row(ctx context.Context, patience time.Duration) ([]byte, error) {
	for {
		body, err := r.packet(ctx, patience)
		if err != nil {
			return nil, err
		}
		switch {
		case len(body) == 0:
			return nil, errors.New("an empty packet came from the server")
		case body[0] == 0xFF && r.columns <= 0:
			return nil, answeredError(body)
		case r.columns < 0:
			n, _, ok := lengthAt(body)
			if !ok || n <= 0 {
				return nil, errors.New("the server's answer has no columns")
			}
			if r.columns = n; !r.oneEnd {
				r.columns++
			}
		case r.columns > 0:
			r.columns--
		case body[0] == 0xFE && len(body) < fullPacket && (r.oneEnd || len(body) < 9):
			return nil, nil
		default:
			r.held += len(body)
			return body, nil
		}
	}
}

// packet gives the body of the next packet, or of those that together are one row.
func (r *rowReader) packet(ctx context.Context, patience time.Duration) ([]byte, error) {
	for {
		have := r.buf[r.next:]
		need := packetHead
		if len(have) >= packetHead {
			n := int(have[0]) | int(have[1])<<8 | int(have[2])<<16
			if need += n; len(have) >= need {
				if have[3] != r.seq {
					return nil, fmt.Errorf("packet %d came where %d was expected", have[3], r.seq)
				}
				r.seq++
				r.next += need
				body := have[packetHead:need:need]
				if n < fullPacket && r.long == nil {
					return body, nil
				}
				if r.long = append(r.long, body...); n < fullPacket {
					body, r.long = r.long, nil
					return body, nil
				}
				continue
			}
		}
		r.room(need)
		if err := r.fill(ctx, patience); err != nil {
			return nil, err
		}
	}
}

// room makes sure that need bytes from next on fit the current buffer.
func (r *rowReader) room(need int) {
	if r.next+need <= cap(r.buf) && len(r.buf) < cap(r.buf) {
		return
	}
	var fresh []byte
	switch {
	case need > rowChunkBytes:
		fresh = make([]byte, 0, need+rowChunkBytes)
	case len(r.free) > 0:
		fresh = r.free[len(r.free)-1]
		r.free = r.free[:len(r.free)-1]
	default:
		fresh = make([]byte, 0, rowChunkBytes)
	}
	fresh = append(fresh[:0], r.buf[r.next:]...)
	r.used = append(r.used, r.buf)
	r.buf, r.next = fresh, 0
}

// fill reads once.
func (r *rowReader) fill(ctx context.Context, patience time.Duration) error {
	for {
		if ctx.Err() != nil {
			return errNoRow
		}
		slice, last := rowWaitSlice, false
		if patience > 0 {
			slice, last = patience, true
		}
		if err := r.conn.SetReadDeadline(time.Now().Add(slice)); err != nil {
			return err
		}
		n, err := r.conn.Read(r.buf[len(r.buf):cap(r.buf)])
		if n > 0 {
			r.buf = r.buf[:len(r.buf)+n]
			return nil
		}
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case last:
			return errNoRow
		}
	}
}

// release ends the life of all rows returned so far.
func (r *rowReader) release() {
	for _, b := range r.used {
		if cap(b) == rowChunkBytes && len(r.free) < keptRowChunks {
			r.free = append(r.free, b[:0])
		}
	}
	clear(r.used)
	r.used, r.held = r.used[:0], 0
	if r.next > 0 {
		n := copy(r.buf, r.buf[r.next:])
		r.buf, r.next = r.buf[:n], 0
	}
}

// lengthAt reads a length and gives the bytes that it takes.
func lengthAt(b []byte) (n, size int, ok bool) {
	switch {
	case len(b) == 0:
		return 0, 0, false
	case b[0] < 0xFB:
		return int(b[0]), 1, true
	case b[0] == 0xFC && len(b) >= 3:
		return int(b[1]) | int(b[2])<<8, 3, true
	case b[0] == 0xFD && len(b) >= 4:
		return int(b[1]) | int(b[2])<<8 | int(b[3])<<16, 4, true
	case b[0] == 0xFE && len(b) >= 9 && b[5]|b[6]|b[7]|b[8] == 0:
		return int(b[1]) | int(b[2])<<8 | int(b[3])<<16 | int(b[4])<<24, 9, true
	}
	return 0, 0, false
}

// splitRow gives a row's fields, nil for NULL; they share row. out is used again.
func splitRow(row []byte, out [][]byte) ([][]byte, error) {
	out = out[:0]
	for len(row) > 0 {
		if row[0] == 0xFB {
			out, row = append(out, nil), row[1:]
			continue
		}
		n, size, ok := lengthAt(row)
		if !ok || n > len(row)-size {
			return nil, errors.New("a row ends within a field")
		}
		out, row = append(out, row[size:size+n:size+n]), row[size+n:]
	}
	return out, nil
}

// answeredError reads an error packet.
func answeredError(body []byte) error {
	if len(body) < 3 {
		return errors.New("a broken error packet came from the server")
	}
	e := &gomysql.MyError{Code: uint16(body[1]) | uint16(body[2])<<8}
	text := body[3:]
	if len(text) >= 6 && text[0] == '#' {
		e.State, text = string(text[1:6]), text[6:]
	}
	e.Message = string(text)
	return e
}
