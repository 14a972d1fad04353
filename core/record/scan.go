package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is a batch that AppendBatch can't have written.
var ErrMalformed = errors.New("batch is malformed or compressed")

// Reader reads whole batches, beginning with the one that holds next, below end; (*storage.Log).Read is one.
type Reader func(next, end int64, maxBytes int, dst [][]byte) ([][]byte, error)

// scanBytes is how much Scan reads at a time.
const scanBytes = 1 << 20

// Scan calls each for every record in [next, end), in order. Key and value alias what read gave. An error of each
// ends the scan.
func Scan(read Reader, next, end int64, each func(offset int64, key, value []byte) error) error {
	var pieces [][]byte
	for next < end {
		var err error
		if pieces, err = read(next, end, scanBytes, pieces[:0]); err != nil {
			return err
		}
		if len(pieces) == 0 {
			return nil // what is left is a gap
		}
		for _, piece := range pieces {
			for len(piece) > 0 {
				var last int64
				if last, piece, err = scanBatch(piece, next, end, each); err != nil {
					return err
				}
				next = max(next, last+1)
			}
		}
	}
	return nil
}

// scanBatch walks the batch at the start of b and gives its last offset and what follows it.
func scanBatch(b []byte, next, end int64, each func(offset int64, key, value []byte) error) (int64, []byte, error) {
	if len(b) < headerBytes {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	base := int64(binary.BigEndian.Uint64(b))
	size := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 12
	if size < headerBytes || size > int64(len(b)) || b[16] != 2 {
		return 0, nil, fmt.Errorf("%w: at offset %d, %d bytes", ErrMalformed, base, size)
	}
	attributes := binary.BigEndian.Uint16(b[21:])
	last := base + int64(int32(binary.BigEndian.Uint32(b[23:])))
	records, rest := b[headerBytes:size], b[size:]
	const codec, control = 7, 1 << 5
	if attributes&control != 0 {
		return last, rest, nil
	}
	if attributes&codec != 0 {
		return 0, nil, fmt.Errorf("%w: at offset %d, codec %d", ErrMalformed, base, attributes&codec)
	}
	for range binary.BigEndian.Uint32(b[57:]) {
		body, after, ok := takeBytes(records)
		if !ok {
			return 0, nil, fmt.Errorf("%w: record in batch %d", ErrMalformed, base)
		}
		records = after
		delta, key, value, ok := parse(body)
		if !ok {
			return 0, nil, fmt.Errorf("%w: record in batch %d", ErrMalformed, base)
		}
		if offset := base + delta; offset >= next && offset < end {
			if err := each(offset, key, value); err != nil {
				return 0, nil, err
			}
		}
	}
	return last, rest, nil
}

// parse reads a record without its length; headers are left alone.
func parse(b []byte) (delta int64, key, value []byte, ok bool) {
	if len(b) < 1 {
		return 0, nil, nil, false
	}
	b = b[1:]                // attributes
	_, n := binary.Varint(b) // timestamp delta
	delta, m := binary.Varint(b[max(n, 0):])
	if n <= 0 || m <= 0 {
		return 0, nil, nil, false
	}
	if key, b, ok = takeBytes(b[n+m:]); !ok {
		return 0, nil, nil, false
	}
	value, _, ok = takeBytes(b)
	return delta, key, value, ok
}

// takeBytes reads a zigzag varint length, -1 for null, and as many bytes.
func takeBytes(b []byte) (taken, rest []byte, ok bool) {
	size, n := binary.Varint(b)
	if n <= 0 || size < -1 || size > int64(len(b)-n) {
		return nil, nil, false
	}
	if size == -1 {
		return nil, b[n:], true
	}
	return b[n : n+int(size) : n+int(size)], b[n+int(size):], true
}
