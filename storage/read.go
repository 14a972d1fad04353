package storage

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sort"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// batchHead is what a scan needs of a batch's header.
type batchHead struct {
	base, last   int64
	maxTimestamp int64
	size         int
}

// maxReadBytes bounds one Read, but for a single larger batch.
const maxReadBytes = 64 << 20

// What a scan of batch headers reads at once, first and then.
const (
	minWindowBytes = 4 << 10
	maxWindowBytes = 64 << 10
)

// view is where a read finds its bytes, taken in one hold of the log's mutex.
type view struct {
	key      handleKey
	path     string
	interval int
	limit    int64 // bytes of the file that may be read
	cuts     uint64
	after    int64 // offset to go on with when the file holds nothing
}

// Read appends to dst slices of one or more whole batches each: from the batch that holds next (or the first after a gap; it may begin
// below next), as far as batches end at or before end, up to maxBytes but at least one batch. The slices are immutable and stay valid;
// nothing is to be released. next = the log's end gives nothing; outside [start, log end] is ErrOffsetOutOfRange. May read the disk.
// Damage is a CorruptError.
func (l *Log) Read(next, end int64, maxBytes int, dst [][]byte) ([][]byte, error) {
	maxBytes = min(max(maxBytes, 1), maxReadBytes)
	for first := true; ; first = false {
		out, v, err := l.look(next, end, maxBytes, dst, first)
		if err != nil || v == nil {
			return out, err
		}
		out, err = l.readFile(v, next, end, maxBytes, dst)
		switch {
		case err != nil && l.changed(v):
			continue // cut or removed meanwhile; each turn needs another change, so this ends
		case err != nil || len(out) > len(dst):
			return out, err
		case v.after <= next:
			return dst, nil
		}
		next = v.after
	}
}

// ReadTail is Read from memory only, which never blocks: ok is false when the disk would be needed.
func (l *Log) ReadTail(next, end int64, maxBytes int, dst [][]byte) (batches [][]byte, ok bool, err error) {
	out, v, err := l.look(next, end, min(max(maxBytes, 1), maxReadBytes), dst, true)
	return out, v == nil, err
}

// look answers from memory, or says where on disk to look. Only a caller's own offset is out of range; one that followed a gap is not.
func (l *Log) look(next, end int64, maxBytes int, dst [][]byte, isCallers bool) ([][]byte, *view, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return dst, nil, ErrDropped
	}
	if next < l.start || next > l.end {
		if !isCallers {
			return dst, nil, nil
		}
		return dst, nil, fmt.Errorf("%w: %d is not in [%d, %d]", ErrOffsetOutOfRange, next, l.start, l.end)
	}
	end = min(end, l.end)
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].end > next })
	if next >= end || i == len(l.segments) {
		return dst, nil, nil
	}
	if len(l.tail) > 0 && (next >= l.tail[0].base || l.tail[0].file == l.segments[i].file && l.tail[0].place == 0) {
		return l.readTail(next, end, maxBytes, dst), nil, nil
	}
	return dst, l.viewOf(i), nil
}

// viewOf is the view of a segment's part on disk. Called with mu held.
func (l *Log) viewOf(i int) *view {
	g := &l.segments[i]
	v := &view{key: handleKey{l.number, g.file}, path: path.Join(l.dir(), g.fileName()), interval: l.cfg.IndexIntervalBytes,
		limit: g.size, cuts: l.cuts, after: g.end}
	if len(l.tail) > 0 && l.tail[0].file == g.file {
		v.limit, v.after = l.tail[0].place, l.tail[0].base
	}
	return v
}

// changed says that bytes may have been cut since the view was taken.
func (l *Log) changed(v *view) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts != v.cuts
}

// readTail collects from memory. Called with mu held.
func (l *Log) readTail(next, end int64, maxBytes int, dst [][]byte) [][]byte {
	i := sort.Search(len(l.tail), func(i int) bool { return l.tail[i].last >= next })
	taken := 0
	for ; i < len(l.tail) && l.tail[i].last < end; i++ {
		data := l.tail[i].data
		if taken > 0 && taken+len(data) > maxBytes {
			break
		}
		dst = append(dst, data)
		taken += len(data)
	}
	return dst
}

// readFile reads from a segment file without any lock of the log.
func (l *Log) readFile(v *view, next, end int64, maxBytes int, dst [][]byte) ([][]byte, error) {
	h, err := l.store.files.acquire(v.key, v.path, v.interval)
	if err != nil {
		return dst, openError(v.path, err)
	}
	defer l.store.files.release(h)
	place, head, err := h.seek(next, v.limit)
	if err != nil || place >= v.limit || head.last >= end {
		return dst, err
	}
	data := make([]byte, max(int64(head.size), min(int64(maxBytes), v.limit-place)))
	if err := h.read(data, place); err != nil {
		return dst, err
	}
	used, last, err := h.wholeBatches(data, place, end)
	if err != nil && used == 0 {
		return dst, err
	}
	h.mu.Lock()
	h.hintOffset, h.hintPlace = last+1, place+int64(used)
	h.mu.Unlock()
	return append(dst, data[:used:used]), nil
}

// openError tells a missing segment from a machine out of files.
func openError(p string, err error) error {
	if vfs.IsNotExist(err) {
		return &CorruptError{p, 0, "the file is missing"}
	}
	return fmt.Errorf("open segment: %w", err)
}

// wholeBatches says how many bytes of data are whole, intact batches that end at or before end.
func (h *handle) wholeBatches(data []byte, place, end int64) (used int, last int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for used < len(data) {
		if rest := data[used:]; len(rest) >= lengthStartBytes {
			if size, err := batchSize(rest); err == nil && size > len(rest) {
				break // the next batch is not whole
			}
		} else {
			break
		}
		b, err := ParseBatch(data[used:])
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return used, last, &CorruptError{h.path, place + int64(used), err.Error()}
		}
		if b.LastOffset() >= end {
			break
		}
		h.index.add(headOf(b, len(b)), place+int64(used))
		used, last = used+len(b), b.LastOffset()
	}
	return used, last, nil
}

// seek finds the first batch that reaches to next or beyond; place = limit when there is none.
func (h *handle) seek(next, limit int64) (place int64, head batchHead, err error) {
	h.mu.Lock()
	place = h.index.placeOf(next)
	if h.hintOffset <= next && h.hintPlace > place && h.hintPlace <= limit {
		place = h.hintPlace
	}
	h.mu.Unlock()
	err = h.scan(place, limit, func(b batchHead, at int64) bool {
		place, head = at, b
		return b.last < next
	})
	if err == nil && head.last < next || head.size == 0 {
		place = limit
	}
	return place, head, err
}

// scan calls visit for the batches from place on, until it says false or limit is reached, and lets the index learn.
func (h *handle) scan(place, limit int64, visit func(b batchHead, place int64) bool) error {
	var window []byte // a small one first: a sequential reader is there already
	windowAt := place
	for place < limit {
		if place+HeaderBytes > limit {
			return &CorruptError{h.path, place, "batch header is cut"}
		}
		if place+HeaderBytes > windowAt+int64(len(window)) {
			windowAt = place
			size := int64(minWindowBytes)
			if window != nil {
				size = maxWindowBytes
			}
			if size = min(size, limit-place); size > int64(cap(window)) {
				window = make([]byte, size)
			}
			window = window[:size]
			if err := h.read(window, place); err != nil {
				return err
			}
		}
		b := Batch(window[place-windowAt:])
		size, err := batchSize(b)
		if err != nil || b[16] != magicV2 || place+int64(size) > limit {
			return &CorruptError{h.path, place, fmt.Sprintf("no batch: length %d, magic %d: %v", size, b[16], err)}
		}
		head := headOf(b, size)
		h.mu.Lock()
		h.index.add(head, place)
		h.mu.Unlock()
		if !visit(head, place) {
			return nil
		}
		place += int64(size)
	}
	return nil
}

func headOf(b Batch, size int) batchHead {
	return batchHead{base: b.BaseOffset(), last: b.LastOffset(), maxTimestamp: b.MaxTimestamp(), size: size}
}

// read fills data from place.
func (h *handle) read(data []byte, place int64) error {
	n, err := h.file.ReadAt(data, place)
	switch {
	case n == len(data):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return &CorruptError{h.path, place + int64(n), "the file ends too early"}
	}
	return fmt.Errorf("read segment %s: %w", h.path, err)
}

// OffsetForTime returns the first record, from the start offset on, with a timestamp ≥ ts (ms), or offset -1. Batches are believed what their
// header says of the largest timestamp. May read the disk.
func (l *Log) OffsetForTime(ts int64) (offset, timestamp int64, err error) {
	l.mu.Lock()
	next, end := l.start, l.end
	segments := append([]segment(nil), l.segments...)
	l.mu.Unlock()
	for i := range segments {
		if segments[i].maxTimestamp < ts || segments[i].end <= next {
			continue
		}
		from := max(next, segments[i].base)
		if from, err = l.skipByTime(&segments[i], from, ts); err != nil {
			return -1, -1, err
		}
		offset, timestamp, err = l.findTime(from, min(end, segments[i].end), ts)
		if err != nil || offset >= 0 {
			return offset, timestamp, err
		}
	}
	return -1, -1, nil
}

// skipByTime moves from over batches of a segment that the index knows to be too old.
func (l *Log) skipByTime(g *segment, from, ts int64) (int64, error) {
	l.store.files.mu.Lock()
	h := l.store.files.open[handleKey{l.number, g.file}]
	l.store.files.mu.Unlock()
	if h == nil {
		return from, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(from, h.index.baseOfTime(ts)), nil
}

// findTime reads batches of [from, end) until one has a record with a timestamp ≥ ts.
func (l *Log) findTime(from, end, ts int64) (offset, timestamp int64, err error) {
	for from < end {
		batches, err := l.Read(from, end, 1<<20, nil)
		if errors.Is(err, ErrOffsetOutOfRange) || err == nil && len(batches) == 0 {
			return -1, -1, nil // cut or removed meanwhile
		}
		if err != nil {
			return -1, -1, err
		}
		for _, data := range batches {
			for len(data) > 0 {
				b, err := ParseBatch(data)
				if err != nil {
					return -1, -1, err
				}
				if b.MaxTimestamp() >= ts {
					if offset, timestamp, err = b.firstAtOrAfter(ts, from); err != nil || offset >= 0 {
						return offset, timestamp, err
					}
				}
				data, from = data[len(b):], b.LastOffset()+1
			}
		}
	}
	return -1, -1, nil
}

// firstAtOrAfter finds the first record of the batch, at offset from or later, with a timestamp ≥ ts.
func (b Batch) firstAtOrAfter(ts, from int64) (offset, timestamp int64, err error) {
	offset, timestamp = -1, -1
	if b.Attributes()&attrLogAppendTime != 0 {
		return max(b.BaseOffset(), from), b.MaxTimestamp(), nil
	}
	err = b.Walk(func(r Record) error {
		at, when := b.BaseOffset()+int64(r.OffsetDelta), b.BaseTimestamp()+r.TimestampDelta
		if when >= ts && at >= from {
			offset, timestamp = at, when
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return offset, timestamp, err
}

var errStop = errors.New("stop")

// MaxTimestamp returns the first record with the largest timestamp, or offset -1. May read the disk.
func (l *Log) MaxTimestamp() (offset, timestamp int64, err error) {
	l.mu.Lock()
	start, end, largest := l.start, l.end, int64(-1)
	for i := range l.segments {
		largest = max(largest, l.segments[i].maxTimestamp)
	}
	l.mu.Unlock()
	if largest < 0 {
		return -1, -1, nil
	}
	if offset, timestamp, err = l.OffsetForTime(largest); err != nil || offset >= 0 {
		return offset, timestamp, err
	}
	// The batch that had it was cut off, so the segments know only a bound: look at all that is left.
	if largest, err = l.scanMaxTimestamp(start, end); err != nil || largest < 0 {
		return -1, -1, err
	}
	return l.OffsetForTime(largest)
}

// scanMaxTimestamp reads the batches of [next, end).
func (l *Log) scanMaxTimestamp(next, end int64) (largest int64, err error) {
	largest = -1
	for next < end {
		batches, err := l.Read(next, end, 1<<20, nil)
		if errors.Is(err, ErrOffsetOutOfRange) || err == nil && len(batches) == 0 {
			return largest, nil
		}
		if err != nil {
			return -1, err
		}
		for _, data := range batches {
			for len(data) > 0 {
				b, err := ParseBatch(data)
				if err != nil {
					return -1, err
				}
				largest = max(largest, b.MaxTimestamp())
				data, next = data[len(b):], b.LastOffset()+1
			}
		}
	}
	return largest, nil
}

// Truncate removes every batch that reaches to end or beyond. The new end is end, or the base of a batch that straddled it.
// Nothing to do: a completed ticket. Below the start offset: ErrOffsetOutOfRange. May read the disk, with the log locked: it is the act of
// a follower that changes its leader.
func (l *Log) Truncate(end int64) (Ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dropped:
		return 0, ErrDropped
	case end < l.start:
		return 0, fmt.Errorf("%w: truncate to %d, the log starts at %d", ErrOffsetOutOfRange, end, l.start)
	case end >= l.end:
		return 0, nil
	}
	f := l.next(frameTruncate, time.Time{})
	f.nowMs, f.nextFile = 0, l.nextFile
	var err error
	if f.file, f.place, f.end, err = l.findCut(end); err != nil {
		return 0, fmt.Errorf("truncate %s: %w", l.name, err)
	}
	if f.end < l.start {
		return 0, fmt.Errorf("%w: truncate to %d, inside a batch that the start %d lies in", ErrOffsetOutOfRange, end, l.start)
	}
	_, ticket, err := l.store.put(l, &f)
	if err != nil {
		return 0, err
	}
	l.applyTruncate(&f, ticket)
	return ticket, nil
}

// findCut finds the place of the first batch that reaches to end or beyond. Called with mu held.
func (l *Log) findCut(end int64) (file uint64, place, newEnd int64, err error) {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].end > end })
	if i == len(l.segments) { // in a gap at the end: nothing to cut
		if i == 0 {
			return 0, 0, end, nil
		}
		return l.segments[i-1].file, l.segments[i-1].size, end, nil
	}
	g := &l.segments[i]
	file, place = g.file, g.size
	var base int64 = -1
	t := sort.Search(len(l.tail), func(i int) bool { return l.tail[i].last >= end })
	if t < len(l.tail) && (t > 0 || l.tail[t].file == g.file) { // else it is g's part on disk, or the gap at g's end
		file, place, base = l.tail[t].file, l.tail[t].place, l.tail[t].base
	}
	if v := l.viewOf(i); t == 0 && v.limit > 0 || len(l.tail) == 0 {
		h, err := l.store.files.acquire(v.key, v.path, v.interval)
		if err != nil {
			return 0, 0, 0, openError(v.path, err)
		}
		defer l.store.files.release(h)
		at, head, err := h.seek(end, v.limit)
		if err != nil {
			return 0, 0, 0, err
		}
		if at < v.limit {
			file, place, base = g.file, at, head.base
		}
	}
	newEnd = end
	if base >= 0 && base < end {
		newEnd = base
	}
	if place == 0 { // the whole file goes: name the one before it, uncut
		if i = l.segmentOf(file) - 1; i < 0 {
			return 0, 0, newEnd, nil
		}
		file, place = l.segments[i].file, l.segments[i].size
	}
	return file, place, newEnd, nil
}

// segmentOf is the position of a file among the segments.
func (l *Log) segmentOf(file uint64) int {
	return sort.Search(len(l.segments), func(i int) bool { return l.segments[i].file >= file })
}
