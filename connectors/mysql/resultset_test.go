package mysql

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// packets makes packets of bodies, cut as the protocol demands.
func packets(seq byte, bodies ...[]byte) []byte {
	var out []byte
	for _, b := range bodies {
		for {
			n := min(len(b), fullPacket)
			out = append(append(out, byte(n), byte(n>>8), byte(n>>16), seq), b[:n]...)
			seq++
			b = b[n:]
			if n < fullPacket {
				break
			}
		}
	}
	return out
}

// script is a server that answers one query with bytes, some at a time.
func script(t *testing.T, answer []byte, piece int) *rowReader {
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		head := make([]byte, packetHead)
		if _, err := io.ReadFull(far, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, far, int64(head[0])|int64(head[1])<<8); err != nil {
			return
		}
		for len(answer) > 0 {
			n := min(piece, len(answer))
			if _, err := far.Write(answer[:n]); err != nil {
				return
			}
			answer = answer[n:]
		}
	}()
	t.Cleanup(func() { _ = near.Close(); _ = far.Close(); <-ended })
	return &rowReader{conn: near, buf: make([]byte, 0, rowChunkBytes)}
}

var (
	twoColumns = []byte{2}
	definition = []byte("\x03def the rest of a column's description")
	eof        = []byte{0xFE, 0, 0, 2, 0}
	row        = []byte("\x01a\xFB")
)

// TestRowReader: answers with and without the packet between columns and rows, in any pieces, with errors anywhere.
func TestRowReader(t *testing.T) {
	long := append([]byte{0xFD, 0, 0, 0}, bytes.Repeat([]byte("x"), fullPacket+100)...)
	n := fullPacket + 100
	long = append([]byte{0xFE, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 0, 0, 0, 0}, long[4:]...)
	exact := append([]byte{0xFD, 0xFB, 0xFF, 0xFF}, bytes.Repeat([]byte("y"), fullPacket-4)...) // its end is an empty packet
	for _, c := range []struct {
		name   string
		oneEnd bool
		answer []byte
		rows   int
		code   uint16
	}{
		{"old", false, packets(1, twoColumns, definition, definition, eof, row, row, eof), 2, 0},
		{"new", true, packets(1, twoColumns, definition, definition, row, row, []byte{0xFE, 0, 0, 2, 0, 0, 0}), 2, 0},
		{"new with a message", true, packets(1, twoColumns, definition, definition, append([]byte{0xFE, 0, 0, 2, 0, 0, 0}, "some words at the end"...)), 0, 0},
		{"none", true, packets(1, twoColumns, definition, definition, eof), 0, 0},
		{"long rows", true, packets(1, twoColumns, definition, definition, long, exact, row, eof), 3, 0},
		{"error at once", true, packets(1, []byte("\xFF\x7A\x04#42S02Table doesn't exist")), 0, errNoSuchTable},
		{"error amid rows", true, packets(1, twoColumns, definition, definition, row, []byte("\xFF\x84\x05#HY000changed")), 1, errTableChanged},
	} {
		for _, piece := range []int{1 << 30, 4096, 3} {
			if piece == 3 && len(c.answer) > 1<<20 {
				continue
			}
			r := script(t, c.answer, piece)
			r.oneEnd = c.oneEnd
			if err := r.query("SELECT"); err != nil {
				t.Fatal(err)
			}
			rows := 0
			for {
				got, err := r.row(context.Background(), 0)
				if err != nil {
					if codeOf(err) != c.code || c.code == 0 {
						t.Errorf("%s, %d bytes at a time: %v", c.name, piece, err)
					}
					break
				}
				if got == nil {
					if c.code != 0 {
						t.Errorf("%s: no error", c.name)
					}
					break
				}
				if fields, err := splitRow(got, nil); err != nil || len(fields) == 0 {
					t.Errorf("%s: row %d: %v", c.name, rows, err)
				}
				rows++
			}
			if rows != c.rows {
				t.Errorf("%s, %d bytes at a time: %d rows, not %d", c.name, piece, rows, c.rows)
			}
		}
	}
}

// TestRowsLastUntilRelease: rows stay as they are while others are read, and a read that ends in time loses nothing.
func TestRowsLastUntilRelease(t *testing.T) {
	var bodies [][]byte
	for i := range 3000 {
		bodies = append(bodies, append([]byte{0xFC, 0, 4}, bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 512)...))
	}
	answer := packets(1, append([][]byte{{1}, definition}, append(bodies, eof)...)...)
	r := script(t, answer, 5000)
	r.oneEnd = true
	if err := r.query("SELECT"); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for batch := 0; seen < 3000; batch++ {
		r.release()
		var rows [][]byte
		for len(rows) < 700 && seen+len(rows) < 3000 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(batch%2)*time.Hour) // every other is over at once
			row, err := r.row(ctx, 0)
			cancel()
			if errors.Is(err, errNoRow) {
				batch++
				continue
			}
			if err != nil || row == nil {
				t.Fatalf("row %d: %v", seen+len(rows), err)
			}
			rows = append(rows, row)
		}
		for i, row := range rows {
			if want := bodies[seen+i]; !bytes.Equal(row, want) {
				t.Fatalf("row %d is another's", seen+i)
			}
		}
		seen += len(rows)
	}
}
