package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// streamedBytes is the size from which a compressed transaction is read piece by piece: it may be a gigabyte, and ten
	// unpacked.
	streamedBytes = 1 << 20
	// maxWindow bounds the memory that a compressed transaction can ask for.
	maxWindow = 256 << 20
)

// Fields and compressions of a TRANSACTION_PAYLOAD event.
const (
	payloadEnd         = 0
	payloadSize        = 1
	payloadCompression = 2
	payloadUnpacked    = 3

	payloadZSTD = 0
	payloadNone = 255
)

// payload reads the events in a compressed transaction, one after the other. Its decoder starts no goroutine, so it needs no
// end.
type payload struct {
	zip    *zstd.Decoder
	source io.LimitedReader
	in     io.Reader // the unpacked events
	event  []byte
	active bool
}

// start begins with the body of a TRANSACTION_PAYLOAD event, without checksum: size bytes from r.
func (p *payload) start(r io.Reader, size int64) error {
	p.source = io.LimitedReader{R: r, N: size}
	compression := uint64(payloadZSTD)
	for {
		field, err := p.packed()
		if err != nil {
			return err
		}
		if field == payloadEnd {
			break
		}
		length, err := p.packed()
		if err != nil {
			return err
		}
		if length > 16 {
			return corrupt("a compressed transaction has a field of %d bytes", length)
		}
		var value [16]byte
		if _, err := io.ReadFull(&p.source, value[:length]); err != nil {
			return broken(err)
		}
		if field == payloadCompression {
			c := cursor{b: value[:length]}
			compression = c.packed()
		}
	}
	switch compression {
	case payloadNone:
		p.in = &p.source
	case payloadZSTD:
		if p.zip == nil {
			zip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return fmt.Errorf("make zstd decoder: %w", err)
			}
			p.zip = zip
		}
		if err := p.zip.Reset(&p.source); err != nil {
			return broken(err)
		}
		p.in = p.zip
	default:
		return corrupt("a transaction is compressed by an unknown method %d", compression)
	}
	p.active = true
	return nil
}

// packed reads a length-encoded integer from the event itself.
func (p *payload) packed() (uint64, error) {
	var b [9]byte
	if _, err := io.ReadFull(&p.source, b[:1]); err != nil {
		return 0, broken(err)
	}
	n := map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[b[0]]
	if _, err := io.ReadFull(&p.source, b[1:1+n]); err != nil {
		return 0, broken(err)
	}
	c := cursor{b: b[:1+n]}
	return c.packed(), nil
}

// next gives the next event, io.EOF behind the last.
func (p *payload) next() ([]byte, error) {
	if cap(p.event) < headerSize || cap(p.event) > keptBufferBytes {
		p.event = make([]byte, 0, wireBufferBytes)
	}
	p.event = p.event[:headerSize]
	if _, err := io.ReadFull(p.in, p.event); err != nil {
		if errors.Is(err, io.EOF) {
			p.active = false
			return nil, io.EOF
		}
		return nil, broken(err)
	}
	size := int(binary.LittleEndian.Uint32(p.event[9:]))
	if size < headerSize || size > 1<<30 {
		return nil, corrupt("an event in a compressed transaction has an impossible size of %d bytes", size)
	}
	if cap(p.event) < size {
		p.event = append(make([]byte, 0, size), p.event...)
	}
	p.event = p.event[:size]
	if _, err := io.ReadFull(p.in, p.event[headerSize:]); err != nil {
		return nil, broken(err)
	}
	return p.event, nil
}

// broken keeps the errors of the connection, and makes others errors of the data.
func broken(err error) error {
	if Classify(err) == Lost && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return corrupt("a compressed transaction can't be unpacked: %w", err)
}
