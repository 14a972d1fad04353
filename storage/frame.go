package storage

import (
	"encoding/binary"
	"fmt"
)

// frameKind is the first byte of a frame.
type frameKind uint8

const (
	frameAppend    frameKind = 1 // one batch, whole
	frameDirect    frameKind = 2 // batches that were written straight to a segment before the round
	frameTruncate  frameKind = 3
	frameStart     frameKind = 4 // new start offset
	frameDrop      frameKind = 5
	frameHardState frameKind = 6 // raft's, of no log
	frameCreate    frameKind = 7
	frameCompact   frameKind = 8 // segments take the place of others
	frameRestart   frameKind = 9 // everything goes, the log begins again elsewhere
)

// frame is one step of one log, as the write-ahead log keeps it. All integers are big-endian.
//
//	 0 kind u8 | 1 zero u8 ×3 | 4 body length u32
//	 8 topic id [16] | 24 partition i32
//	28 log number u64   one for each creation, never used again
//	36 sequence u64     of the log's frames: 1, 2, 3 …
//	44 previous end i64 the log's end offset before the frame
//	52 now i64          ms, of the store's clock
//	60 body
//
//	append:   file u64 | place i64 | batch
//	direct:   file u64 | place i64 | bytes u32 | crc-32c u32 | batches u32   (its sequence is the last batch's, previous end the first's)
//	truncate: file u64 | place i64 | end i64 | next file u64   (file 0: nothing is left)
//	start:    start i64
//	restart:  start i64, the end too
//	drop:     nothing
//	hard state: the state
//	create:   name
//	compact:  file u64 | horizon ms i64 | end i64 | segments as in the checkpoint   (in the place of all up to the file)
type frame struct {
	kind    frameKind
	id      LogID
	number  uint64
	seq     uint64
	prevEnd int64
	nowMs   int64

	file     uint64 // append, direct, truncate, compact
	place    int64  // compact: the horizon
	end      int64  // truncate: new end; start, restart: new start; compact: end of what was compacted
	nextFile uint64 // truncate
	bytes    uint32 // direct
	crc      uint32 // direct
	batches  uint32 // direct
	body     []byte // append: the batch; hard state; create: the name

	// Not encoded: what the store writes into the batch's copy.
	base  int64
	epoch int32
}

const (
	frameHeadBytes  = 60
	framePlaceBytes = 16 // file and place before an append's batch
	maxStateBytes   = 4096
	maxNameBytes    = 512
	maxNumber       = 1 << 62 // of logs, frames and files: what no store reaches
)

// fixedBytes is the size of the body's fields before frame.body.
func (k frameKind) fixedBytes() int {
	switch k {
	case frameAppend:
		return framePlaceBytes
	case frameDirect:
		return framePlaceBytes + 12
	case frameTruncate:
		return framePlaceBytes + 16
	case frameCompact:
		return framePlaceBytes + 8
	case frameStart, frameRestart:
		return 8
	}
	return 0
}

// encodedBytes is the whole size of the frame.
func (f *frame) encodedBytes() int { return frameHeadBytes + f.kind.fixedBytes() + len(f.body) }

// putHead writes all but the body into dst, which has room for it.
func (f *frame) putHead(dst []byte) {
	be := binary.BigEndian
	clear(dst[:8])
	dst[0] = byte(f.kind)
	be.PutUint32(dst[4:], uint32(f.kind.fixedBytes()+len(f.body)))
	copy(dst[8:], f.id.Topic[:])
	be.PutUint32(dst[24:], uint32(f.id.Partition))
	be.PutUint64(dst[28:], f.number)
	be.PutUint64(dst[36:], f.seq)
	be.PutUint64(dst[44:], uint64(f.prevEnd))
	be.PutUint64(dst[52:], uint64(f.nowMs))
	fixed := dst[frameHeadBytes:]
	switch f.kind {
	case frameStart, frameRestart:
		be.PutUint64(fixed, uint64(f.end))
	case frameAppend, frameDirect, frameTruncate, frameCompact:
		be.PutUint64(fixed, f.file)
		be.PutUint64(fixed[8:], uint64(f.place))
	}
	switch f.kind {
	case frameDirect:
		be.PutUint32(fixed[16:], f.bytes)
		be.PutUint32(fixed[20:], f.crc)
		be.PutUint32(fixed[24:], f.batches)
	case frameTruncate:
		be.PutUint64(fixed[16:], uint64(f.end))
		be.PutUint64(fixed[24:], f.nextFile)
	case frameCompact:
		be.PutUint64(fixed[16:], uint64(f.end))
	}
}

// parseHead reads what comes before a frame's body; data holds at least that.
func parseHead(data []byte) (f frame, lengthBytes int) {
	be := binary.BigEndian
	f = frame{kind: frameKind(data[0]), number: be.Uint64(data[28:]), seq: be.Uint64(data[36:]),
		prevEnd: int64(be.Uint64(data[44:])), nowMs: int64(be.Uint64(data[52:]))}
	copy(f.id.Topic[:], data[8:24])
	f.id.Partition = int32(be.Uint32(data[24:]))
	return f, int(be.Uint32(data[4:]))
}

// parseFrame reads the first frame of data. Slices alias data.
func parseFrame(data []byte) (f frame, rest []byte, err error) {
	if len(data) < frameHeadBytes {
		return frame{}, nil, fmt.Errorf("frame head is cut: %d bytes", len(data))
	}
	f, length := parseHead(data)
	if f.kind < frameAppend || f.kind > frameRestart {
		return frame{}, nil, fmt.Errorf("frame kind %d is unknown", f.kind)
	}
	fixedBytes := f.kind.fixedBytes()
	if length < fixedBytes || length > len(data)-frameHeadBytes {
		return frame{}, nil, fmt.Errorf("frame of kind %d has length %d, %d bytes left", f.kind, length, len(data)-frameHeadBytes)
	}
	fixed, rest := data[frameHeadBytes:frameHeadBytes+length], data[frameHeadBytes+length:]
	f.body = fixed[fixedBytes:len(fixed):len(fixed)]
	f.readFixed(fixed)
	return f, rest, f.check()
}

// readFixed reads the fields of the frame's kind.
func (f *frame) readFixed(fixed []byte) {
	be := binary.BigEndian
	switch f.kind {
	case frameStart, frameRestart:
		f.end = int64(be.Uint64(fixed))
	case frameAppend, frameDirect, frameTruncate, frameCompact:
		f.file, f.place = be.Uint64(fixed), int64(be.Uint64(fixed[8:]))
	}
	switch f.kind {
	case frameDirect:
		f.bytes, f.crc, f.batches = be.Uint32(fixed[16:]), be.Uint32(fixed[20:]), be.Uint32(fixed[24:])
	case frameTruncate:
		f.end, f.nextFile = int64(be.Uint64(fixed[16:])), be.Uint64(fixed[24:])
	case frameCompact:
		f.end = int64(be.Uint64(fixed[16:]))
	}
}

// check looks for fields that no frame has.
func (f *frame) check() error {
	if f.number > maxNumber || f.seq > maxNumber || f.file > maxNumber || f.nextFile > maxNumber {
		return fmt.Errorf("frame of kind %d: log %d, sequence %d, file %d, next file %d: out of range", f.kind, f.number, f.seq, f.file, f.nextFile)
	}
	if f.place < 0 || f.end < 0 || f.prevEnd < 0 {
		return fmt.Errorf("frame of kind %d: place %d, end %d, previous end %d", f.kind, f.place, f.end, f.prevEnd)
	}
	if f.kind == frameDirect && (f.batches == 0 || uint64(f.batches) > f.seq) {
		return fmt.Errorf("direct frame %d of %d batches", f.seq, f.batches)
	}
	hasBody := f.kind == frameAppend || f.kind == frameHardState || f.kind == frameCreate || f.kind == frameCompact
	if !hasBody && len(f.body) != 0 {
		return fmt.Errorf("frame of kind %d: %d bytes too many", f.kind, len(f.body))
	}
	return nil
}

// firstSeq is the sequence of the first change that the frame stands for.
func (f *frame) firstSeq() uint64 {
	if f.kind == frameDirect {
		return f.seq - uint64(f.batches) + 1
	}
	return f.seq
}
