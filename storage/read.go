package storage

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sort"

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
	v := &view{key: handleKey{l.number, g.key()}, path: path.Join(l.dir(), g.fileName()), interval: l.cfg.IndexIntervalBytes,
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
