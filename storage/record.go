package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// maxInflatedBytes bounds what one batch may decompress to.
const maxInflatedBytes = 128 << 20

// Record is one record of a batch; slices alias the (decompressed) batch.
type Record struct {
	OffsetDelta    int32
	TimestampDelta int64  // ms after the batch's base timestamp
	Key, Value     []byte // nil: absent
	Headers        []byte // encoded, with the count
}

// Walk calls fn for each record, decompressing if needed, and stops at its first error, which it returns as it is.
// Damaged records wrap ErrCorruptBatch; one that inflates beyond 128 MiB, ErrTooLarge.
func (b Batch) Walk(fn func(Record) error) error {
	data, err := inflate(b.Codec(), b[HeaderBytes:])
	if err != nil {
		return err
	}
	for i := range b.RecordCount() {
		record, rest, err := parseRecord(data)
		if err != nil {
			return fmt.Errorf("%w: record %d: %v", ErrCorruptBatch, i, err)
		}
		if err := fn(record); err != nil {
			return err
		}
		data = rest
	}
	if len(data) != 0 {
		return fmt.Errorf("%w: %d bytes after the last record", ErrCorruptBatch, len(data))
	}
	return nil
}

// parseRecord reads one record: varint length, attributes i8, varint timestamp delta, varint offset delta,
// key and value (varint length, -1 absent), headers.
func parseRecord(data []byte) (record Record, rest []byte, err error) {
	length, n := binary.Varint(data)
	if n <= 0 || length < 1 || length > int64(len(data)-n) {
		return Record{}, nil, fmt.Errorf("length %d", length)
	}
	body, rest := data[n:n+int(length)], data[n+int(length):]
	body = body[1:] // attributes: unused
	if record.TimestampDelta, n = binary.Varint(body); n <= 0 {
		return Record{}, nil, fmt.Errorf("timestamp delta")
	}
	body = body[n:]
	offsetDelta, n := binary.Varint(body)
	if n <= 0 || offsetDelta < 0 || offsetDelta > 1<<31-1 {
		return Record{}, nil, fmt.Errorf("offset delta %d", offsetDelta)
	}
	record.OffsetDelta = int32(offsetDelta)
	if record.Key, body, err = parseBytes(body[n:]); err != nil {
		return Record{}, nil, fmt.Errorf("key: %w", err)
	}
	if record.Value, body, err = parseBytes(body); err != nil {
		return Record{}, nil, fmt.Errorf("value: %w", err)
	}
	record.Headers = body
	return record, rest, nil
}

// parseBytes reads a varint length and as many bytes; -1 gives nil.
func parseBytes(data []byte) (value, rest []byte, err error) {
	length, n := binary.Varint(data)
	switch {
	case n <= 0 || length < -1 || length > int64(len(data)-n):
		return nil, nil, fmt.Errorf("length %d", length)
	case length == -1:
		return nil, data[n:], nil
	}
	end := n + int(length)
	return data[n:end:end], data[end:], nil
}

// inflate decompresses the records part of a batch.
func inflate(codec int, data []byte) ([]byte, error) {
	var r io.Reader
	var err error
	switch codec {
	case codecNone:
		return data, nil
	case codecSnappy:
		return inflateSnappy(data)
	case codecGzip:
		r, err = gzip.NewReader(bytes.NewReader(data))
	case codecLZ4:
		r = lz4.NewReader(bytes.NewReader(data))
	case codecZstd:
		var z *zstd.Decoder
		z, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxInflatedBytes))
		if err == nil {
			defer z.Close()
			r = z
		}
	default:
		return nil, fmt.Errorf("%w: unknown compression %d", ErrCorruptBatch, codec)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %v", ErrCorruptBatch, err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxInflatedBytes+1))
	switch {
	case len(out) > maxInflatedBytes:
		return nil, fmt.Errorf("%w: inflates beyond %d bytes", ErrTooLarge, maxInflatedBytes)
	case err != nil:
		return nil, fmt.Errorf("%w: decompress: %v", ErrCorruptBatch, err)
	}
	return out, nil
}

// xerialMagic begins the framing of Java's snappy streams: magic, two version numbers, then blocks of
// a big-endian length and a raw snappy block. Other clients send one raw block.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderBytes = 16
	maxSnappyRatio    = 64 // the format can't do better than 64 bytes from 3
)

func inflateSnappy(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, xerialMagic) {
		return appendSnappy(nil, data)
	}
	if len(data) < xerialHeaderBytes {
		return nil, fmt.Errorf("%w: snappy header is cut", ErrCorruptBatch)
	}
	var out []byte
	for data = data[xerialHeaderBytes:]; len(data) > 0; {
		if len(data) < 4 {
			return nil, fmt.Errorf("%w: snappy block length is cut", ErrCorruptBatch)
		}
		size := int64(binary.BigEndian.Uint32(data))
		if data = data[4:]; size > int64(len(data)) {
			return nil, fmt.Errorf("%w: snappy block of %d bytes is cut", ErrCorruptBatch, size)
		}
		var err error
		if out, err = appendSnappy(out, data[:size]); err != nil {
			return nil, err
		}
		data = data[size:]
	}
	return out, nil
}

// appendSnappy appends one raw block, decompressed.
func appendSnappy(dst, block []byte) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %v", ErrCorruptBatch, err)
	}
	if size > maxSnappyRatio*len(block) {
		return nil, fmt.Errorf("%w: snappy claims %d bytes from %d", ErrCorruptBatch, size, len(block))
	}
	if size > maxInflatedBytes-len(dst) {
		return nil, fmt.Errorf("%w: inflates beyond %d bytes", ErrTooLarge, maxInflatedBytes)
	}
	out, err := s2.Decode(nil, block)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %v", ErrCorruptBatch, err)
	}
	if dst == nil {
		return out, nil
	}
	return append(dst, out...), nil
}
