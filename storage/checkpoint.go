package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"sort"

	"github.com/weirlog/weir/storage/vfs"
)

// The checkpoint file. All integers are big-endian; counts and lengths are u32.
//
//	magic "WEIRCKPT" [8] | version u32 = 2
//	salt u64 | generation u64 | round u64 | next log number u64
//	hard state: length, bytes
//	logs: count, then each as: length, entry
//	crc u32 (CRC-32C of all before)
//
// An entry, exact as of the log's frame sequence:
//
//	topic id [16] | partition i32 | number u64 | sequence u64 | name: length, bytes
//	start i64 | end i64 | next file u64 | closed u8 | compacted end i64 | tombstones' horizon ms i64
//	segments:  count, {file u64, base i64, end i64, size i64, created ms i64, max timestamp i64, version u32}
//	epochs:    count, {epoch i32, start i64}
//	producers: count, {id i64, epoch i16, next sequence i32, last seen ms i64,
//	           batches u8, {first i32, last i32, base i64, last offset i64, timestamp i64}}
//
// Version 1 is read too: it has neither the two of compaction nor the segments' version.
type checkpointHead struct {
	salt, generation uint64
	round            Ticket // rounds up to here need no replay
	nextNumber       uint64 // logs below it that have no entry were dropped
	hardState        []byte
	stateTicket      Ticket // not encoded: when hardState is durable
}

const (
	checkpointMagic    = "WEIRCKPT"
	checkpointVersion  = 2
	maxCheckpointBytes = 1 << 30
	segmentEntryBytes  = 48 // without the version
	epochEntryBytes    = 12
	producerHeadBytes  = 23
	producerBatchBytes = 32
)

func (s *Store) checkpointPath() string { return path.Join(s.opts.Dir, "checkpoint") }

// checkpointHead is the head as of now. Called with mu held; round is the caller's to set.
func (s *Store) checkpointHead() checkpointHead {
	return checkpointHead{salt: s.salt, generation: s.gen, nextNumber: s.nextNumber, hardState: s.hardState, stateTicket: s.stateTicket}
}

// writeCheckpoint replaces the file. The entries of logs that were not captured are those of the last checkpoint.
func (s *Store) writeCheckpoint(head checkpointHead, captures []*capture) error {
	entries := make(map[uint64][]byte, len(s.saved))
	for number, l := range s.saved {
		entries[number] = l.saved
	}
	for _, c := range captures {
		if delete(entries, c.log.number); !c.dropped {
			entries[c.log.number] = c.entry
		}
	}
	if err := vfs.WriteAtomic(s.opts.FS, s.checkpointPath(), encodeCheckpoint(head, entries)); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	for _, c := range captures {
		if delete(s.saved, c.log.number); !c.dropped {
			c.log.saved = c.entry
			s.saved[c.log.number] = c.log
		}
	}
	return nil
}

// encodeCheckpoint orders the entries by log number.
func encodeCheckpoint(head checkpointHead, entries map[uint64][]byte) []byte {
	numbers := make([]uint64, 0, len(entries))
	size := 0
	for number, e := range entries {
		numbers = append(numbers, number)
		size += 4 + len(e)
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	be := binary.BigEndian
	b := make([]byte, 0, size+len(head.hardState)+64)
	b = append(b, checkpointMagic...)
	b = be.AppendUint32(b, checkpointVersion)
	for _, v := range []uint64{head.salt, head.generation, uint64(head.round), head.nextNumber} {
		b = be.AppendUint64(b, v)
	}
	b = appendSized(b, head.hardState)
	b = be.AppendUint32(b, uint32(len(numbers)))
	for _, number := range numbers {
		b = appendSized(b, entries[number])
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendSized(b, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

// appendEntry encodes the log. Called with mu held.
func (l *Log) appendEntry(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, l.id.Topic[:]...)
	b = be.AppendUint32(b, uint32(l.id.Partition))
	b = be.AppendUint64(b, l.number)
	b = be.AppendUint64(b, l.seq)
	b = appendSized(b, []byte(l.name))
	for _, v := range []int64{l.start, l.end, int64(l.nextFile)} {
		b = be.AppendUint64(b, uint64(v))
	}
	closed := byte(0)
	if l.closed {
		closed = 1
	}
	b = append(b, closed)
	b = be.AppendUint64(be.AppendUint64(b, uint64(l.cleaned)), uint64(l.horizonMs))
	b = appendSegments(b, l.segments)
	if l.store.hooks.forgetState {
		return append(b, make([]byte, 8)...)
	}
	b = be.AppendUint32(b, uint32(len(l.epochs)))
	for _, e := range l.epochs {
		b = be.AppendUint64(be.AppendUint32(b, uint32(e.epoch)), uint64(e.start))
	}
	return l.producer.appendEntry(b)
}

func (t producerTable) appendEntry(b []byte) []byte {
	be := binary.BigEndian
	ids := make([]int64, 0, len(t))
	for id := range t {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	b = be.AppendUint32(b, uint32(len(ids)))
	for _, id := range ids {
		p := t[id]
		b = be.AppendUint64(b, uint64(id))
		b = be.AppendUint16(b, uint16(p.epoch))
		b = be.AppendUint32(b, uint32(p.nextSeq))
		b = be.AppendUint64(b, uint64(p.lastSeenMs))
		b = append(b, p.count)
		for _, w := range p.window[:p.count] {
			b = be.AppendUint32(be.AppendUint32(b, uint32(w.firstSeq)), uint32(w.lastSeq))
			for _, v := range []int64{w.base, w.last, w.timestamp} {
				b = be.AppendUint64(b, uint64(v))
			}
		}
	}
	return b
}

// decoder reads big-endian fields; once something is cut it gives zeros and bad stays set.
type decoder struct {
	data []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.data) {
		d.bad, d.data = true, nil
		return make([]byte, max(0, min(n, 64)))
	}
	out := d.data[:n:n]
	d.data = d.data[n:]
	return out
}

func (d *decoder) u16() uint16 { return binary.BigEndian.Uint16(d.take(2)) }
func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }
func (d *decoder) i64() int64  { return int64(d.u64()) }

// sized reads a length and as many bytes.
func (d *decoder) sized() []byte {
	n := int(d.u32())
	if n > len(d.data) {
		d.bad, d.data = true, nil
		return nil
	}
	return d.take(n)
}

// count reads a count of things that take at least so many bytes each.
func (d *decoder) count(eachBytes int) int {
	n := int(d.u32())
	if n*eachBytes > len(d.data) {
		d.bad, d.data = true, nil
		return 0
	}
	return n
}

// decodeCheckpoint reads the file's head and the logs' entries. The error is a cause for a CorruptError.
func decodeCheckpoint(data []byte) (head checkpointHead, entries [][]byte, version uint32, err error) {
	if len(data) < len(checkpointMagic)+8 || string(data[:len(checkpointMagic)]) != checkpointMagic {
		return head, nil, 0, fmt.Errorf("not a checkpoint")
	}
	if version = binary.BigEndian.Uint32(data[len(checkpointMagic):]); version < 1 || version > checkpointVersion {
		return head, nil, 0, fmt.Errorf("checkpoint version %d is not known", version)
	}
	body, sum := data[:len(data)-4], binary.BigEndian.Uint32(data[len(data)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return head, nil, 0, fmt.Errorf("crc %08x, stored %08x", got, sum)
	}
	d := &decoder{data: body[len(checkpointMagic)+4:]}
	head = checkpointHead{salt: d.u64(), generation: d.u64(), round: Ticket(d.u64()), nextNumber: d.u64()}
	if state := d.sized(); len(state) > 0 {
		head.hardState = append([]byte(nil), state...)
	}
	for range d.count(4) {
		entries = append(entries, d.sized())
	}
	if d.bad || len(d.data) != 0 {
		return head, nil, 0, fmt.Errorf("lengths don't fit")
	}
	return head, entries, version, nil
}

// decodeEntry fills a new log.
func (l *Log) decodeEntry(entry []byte, version uint32) error {
	d := &decoder{data: entry}
	copy(l.id.Topic[:], d.take(16))
	l.id.Partition = int32(d.u32())
	l.number, l.seq = d.u64(), d.u64()
	l.name = string(d.sized())
	l.start, l.end, l.nextFile = d.i64(), d.i64(), d.u64()
	l.closed = d.take(1)[0] != 0
	l.durableEnd = l.end
	if version > 1 {
		l.cleaned, l.horizonMs = d.i64(), d.i64()
	}
	l.segments = decodeSegments(d, version)
	for range d.count(epochEntryBytes) {
		l.epochs = append(l.epochs, epochStart{int32(d.u32()), d.i64()})
	}
	l.producer = decodeProducers(d)
	if d.bad || len(d.data) != 0 {
		return fmt.Errorf("entry of log %d: lengths don't fit", l.number)
	}
	return l.checkEntry()
}

func decodeSegments(d *decoder, version uint32) (segments []segment) {
	for range d.count(segmentEntryBytes) {
		g := segment{file: d.u64(), base: d.i64(), end: d.i64(), size: d.i64(), createdMs: d.i64(), maxTimestamp: d.i64()}
		if version > 1 {
			g.version = d.u32()
		}
		segments = append(segments, g)
	}
	return segments
}

func decodeProducers(d *decoder) (t producerTable) {
	for range d.count(producerHeadBytes) {
		id := d.i64()
		p := &producer{epoch: int16(d.u16()), nextSeq: int32(d.u32()), lastSeenMs: d.i64()}
		n := d.take(1)[0]
		if n > windowBatches {
			d.bad = true
			return t
		}
		for p.count < n {
			p.window[p.count] = producerBatch{firstSeq: int32(d.u32()), lastSeq: int32(d.u32()), base: d.i64(), last: d.i64(), timestamp: d.i64()}
			p.count++
		}
		if t == nil {
			t = producerTable{}
		}
		t[id] = p
	}
	return t
}

// checkEntry looks for what no store writes.
func (l *Log) checkEntry() error {
	ok := l.start >= 0 && l.start <= l.end && l.number > 0 && l.nextFile > 0 && l.cleaned >= 0 && l.cleaned <= l.end
	for i := range l.segments {
		g := &l.segments[i]
		ok = ok && g.size > 0 && g.base >= 0 && g.base < g.end && g.end <= l.end && g.file > 0 && g.file < l.nextFile
		ok = ok && (i == 0 || l.segments[i-1].end <= g.base && l.segments[i-1].file < g.file)
	}
	if !ok {
		return fmt.Errorf("entry of log %d: offsets or files are out of order: [%d, %d), next file %d, %+v", l.number, l.start, l.end, l.nextFile, l.segments)
	}
	return nil
}
