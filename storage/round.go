package storage

import (
	"encoding/binary"
	"hash/crc32"
)

// A round is what one sync makes durable. In a write-ahead file it begins on a boundary of 4 KiB, so that no sync writes to a block of an
// earlier one; under SyncOS, where the system writes pages when it likes, of 512 bytes. It is there as a whole or not at all. All integers are big-endian; both CRCs are CRC-32C that begin with the store's salt, a random
// number in the checkpoint, so that no record can be made to look like a round.
//
//	 0 magic u32 "wRND" | 4 version u16 = 1 | 6 zero u16
//	 8 generation u64   one for each opening of the store
//	16 round u64
//	24 synced u64       the newest round known to be durable when this one was written
//	32 frames bytes u32 | 36 frames u32
//	40 header crc u32   of 0–40
//	44 frames
//	   trailer crc u32  of the frames
//	   zeros to the next boundary (a reader looks every 512 bytes)
type roundHeader struct {
	generation uint64
	round      Ticket
	synced     Ticket
	bytes      uint32
	frames     uint32
}

const (
	roundMagic        = 0x77524e44
	roundVersion      = 1
	roundHeaderBytes  = 44
	roundTrailerBytes = 4
	maxChunkBytes     = 256 << 10
	ownChunkBytes     = 32 << 10 // a body as large as this is copied outside the store's lock
)

// putRoundHeader writes h into dst.
func putRoundHeader(dst []byte, h roundHeader, salt uint64) {
	be := binary.BigEndian
	be.PutUint32(dst, roundMagic)
	be.PutUint16(dst[4:], roundVersion)
	be.PutUint16(dst[6:], 0)
	be.PutUint64(dst[8:], h.generation)
	be.PutUint64(dst[16:], uint64(h.round))
	be.PutUint64(dst[24:], uint64(h.synced))
	be.PutUint32(dst[32:], h.bytes)
	be.PutUint32(dst[36:], h.frames)
	be.PutUint32(dst[40:], crc32.Update(saltCRC(salt), castagnoli, dst[:40]))
}

// parseRoundHeader answers false for anything that is not a header written with the salt.
func parseRoundHeader(data []byte, salt uint64) (h roundHeader, ok bool) {
	be := binary.BigEndian
	if len(data) < roundHeaderBytes || be.Uint32(data) != roundMagic || be.Uint16(data[4:]) != roundVersion {
		return roundHeader{}, false
	}
	if be.Uint32(data[40:]) != crc32.Update(saltCRC(salt), castagnoli, data[:40]) {
		return roundHeader{}, false
	}
	return roundHeader{generation: be.Uint64(data[8:]), round: Ticket(be.Uint64(data[16:])), synced: Ticket(be.Uint64(data[24:])),
		bytes: be.Uint32(data[32:]), frames: be.Uint32(data[36:])}, true
}

// sizeBytes is what the round takes in its file at least; there may be zeros up to a larger boundary.
func (h roundHeader) sizeBytes() int64 { return roundSize(int64(h.bytes), minAlignBytes) }

// roundSize is what a round with so many bytes of frames takes in its file.
func roundSize(framesBytes, alignBytes int64) int64 {
	n := framesBytes + roundHeaderBytes + roundTrailerBytes
	return (n + alignBytes - 1) / alignBytes * alignBytes
}

// saltCRC is the CRC of the salt, with which every CRC of a round begins.
func saltCRC(salt uint64) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], salt)
	return crc32.Checksum(b[:], castagnoli)
}

// round gathers frames. The bytes of its chunks never move: tails refer to them.
type round struct {
	roundBody
	number     Ticket
	alignBytes int64 // it takes a multiple in its file
	takenBytes int64 // of frames when it was sealed; 0 once it is complete

	expectedBytes  int // of the whole round, a guess
	nextChunkBytes int

	heavy       []*Log // with so much in the round that they may be written directly
	directBytes int64  // that were

	file  *walFile // set when it is written
	place int64
}

// roundBody is a round's frames. Once it is sealed it changes under Store.mu only.
type roundBody struct {
	chunks [][]byte // in order; the first begins with room for the header
	bytes  int64    // of frames
	frames uint32
}

// sizeBytes is what the round takes in its file.
func (r *round) sizeBytes() int64 { return roundSize(r.bytes, r.alignBytes) }

// reserve returns the next n bytes of the round.
func (r *round) reserve(n int) []byte {
	if len(r.chunks) == 0 {
		size := max(blockBytes, n+roundHeaderBytes+roundTrailerBytes, min(maxChunkBytes, r.expectedBytes))
		r.chunks = append(r.chunks, make([]byte, roundHeaderBytes, size))
	}
	last := len(r.chunks) - 1
	c := r.chunks[last]
	if cap(c)-len(c) < n {
		r.nextChunkBytes = min(maxChunkBytes, max(blockBytes, 2*r.nextChunkBytes))
		r.chunks = append(r.chunks, make([]byte, 0, max(n, r.nextChunkBytes)))
		last, c = last+1, r.chunks[last+1]
	}
	at := len(c)
	r.chunks[last] = c[:at+n]
	return r.chunks[last][at : at+n : at+n]
}

// add puts one frame; a large body is given as its own chunk, which the round keeps. It returns the body's bytes in the round.
func (r *round) add(f *frame) (body []byte) {
	fixed := frameHeadBytes + f.kind.fixedBytes()
	r.bytes += int64(f.encodedBytes())
	r.frames++
	if len(f.body) >= ownChunkBytes {
		f.putHead(r.reserve(fixed))
		r.chunks = append(r.chunks, f.body[:len(f.body):len(f.body)])
		return f.body
	}
	dst := r.reserve(fixed + len(f.body))
	f.putHead(dst)
	copy(dst[fixed:], f.body)
	return dst[fixed:]
}

// finish writes header, trailer and padding. Nothing is added afterwards.
func (r *round) finish(generation uint64, synced Ticket, salt uint64) {
	sum := saltCRC(salt)
	for i, c := range r.chunks {
		if i == 0 {
			c = c[roundHeaderBytes:]
		}
		sum = crc32.Update(sum, castagnoli, c)
	}
	used := r.bytes + roundHeaderBytes + roundTrailerBytes
	end := r.reserve(int(roundTrailerBytes + r.sizeBytes() - used))
	binary.BigEndian.PutUint32(end, sum)
	clear(end[roundTrailerBytes:])
	putRoundHeader(r.chunks[0], roundHeader{generation, r.number, synced, uint32(r.bytes), r.frames}, salt)
}

// checkFrames verifies a round's frames (without header) against the trailer behind them.
func checkFrames(frames, trailer []byte, salt uint64) bool {
	return crc32.Update(saltCRC(salt), castagnoli, frames) == binary.BigEndian.Uint32(trailer)
}
