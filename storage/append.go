package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Appended says where a batch went.
type Appended struct {
	BaseOffset, LastOffset int64
	Ticket                 Ticket // durable here when it completes; for a duplicate, the first one's
	Duplicate              bool   // one of the producer's last five batches: nothing was appended
	LogAppendTime          int64  // ms, for a log of LogAppendTime; else -1
}

// Append takes one whole v2 batch of a client: it checks header, CRC and the log's rules, recognizes duplicates, assigns offsets and
// the leader epoch, and copies it. batch is not written to and is the caller's again on return. On an error nothing was appended.
func (l *Log) Append(batch []byte, leaderEpoch int32, now time.Time) (Appended, error) {
	b, err := wholeBatch(batch)
	if err != nil {
		return Appended{}, err
	}
	cfg := l.Config()
	if len(b) > cfg.MaxMessageBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes, most is %d", ErrTooLarge, len(b), cfg.MaxMessageBytes)
	}
	if err := b.checkClient(&cfg, now); err != nil {
		return Appended{}, err
	}
	appendTime := int64(-1)
	if cfg.TimestampType == LogAppendTime {
		appendTime = now.UnixMilli()
		b = append(Batch(nil), b...)
		b.setLogAppendTime(appendTime)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return Appended{}, ErrDropped
	}
	if leaderEpoch < l.epochs.latest() {
		return Appended{}, fmt.Errorf("%w: %d, the log has %d", ErrStaleEpoch, leaderEpoch, l.epochs.latest())
	}
	if b.ProducerID() >= 0 {
		same, err := l.producer.check(b)
		if err != nil {
			return Appended{}, err
		}
		if same != nil {
			if appendTime >= 0 {
				appendTime = same.timestamp
			}
			return Appended{same.base, same.last, same.ticket, true, appendTime}, nil
		}
	}
	a, err := l.append(b, l.end, leaderEpoch, now)
	a.LogAppendTime = appendTime
	return a, err
}

// AppendAt takes one whole v2 batch that has its offset and leader epoch already (followers, the mirror, control batches). Its base may
// lie above the end, which leaves a gap, but not below it: ErrOffsetOutOfRange; and its leader epoch not below the log's: ErrStaleEpoch
// (-1 is none). The rules for clients are not applied.
func (l *Log) AppendAt(batch []byte, now time.Time) (Appended, error) {
	b, err := wholeBatch(batch)
	if err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return Appended{}, ErrDropped
	}
	if b.BaseOffset() < l.end {
		return Appended{}, fmt.Errorf("%w: batch at %d, the log ends at %d", ErrOffsetOutOfRange, b.BaseOffset(), l.end)
	}
	if epoch := b.LeaderEpoch(); epoch >= 0 && epoch < l.epochs.latest() {
		return Appended{}, fmt.Errorf("%w: %d, the log has %d", ErrStaleEpoch, epoch, l.epochs.latest())
	}
	a, err := l.append(b, b.BaseOffset(), b.LeaderEpoch(), now)
	a.LogAppendTime = -1
	return a, err
}

// wholeBatch parses bytes that must be exactly one intact batch.
func wholeBatch(batch []byte) (Batch, error) {
	b, err := ParseBatch(batch)
	if err != nil {
		return nil, err
	}
	if len(b) != len(batch) {
		return nil, fmt.Errorf("%w: %d bytes after the batch", ErrCorruptBatch, len(batch)-len(b))
	}
	return b, b.CheckCRC()
}

// append puts and applies the frame of a batch. Called with mu held; b may be the caller's, so it is copied.
func (l *Log) append(b Batch, base int64, epoch int32, now time.Time) (Appended, error) {
	if last := base + int64(b.LastOffsetDelta()); last < base || last+1 < base {
		return Appended{}, fmt.Errorf("%w: the log is at offset %d", ErrOffsetOutOfRange, base)
	}
	f := l.next(frameAppend, now)
	f.base, f.epoch, f.body = base, epoch, b
	f.file, f.place = l.placeNext(len(b), base, now)
	if len(b) >= ownChunkBytes { // copied here rather than under the store's lock
		f.body = slices.Clip(slices.Clone(b)) // clears nothing first
	}
	data, ticket, err := l.store.put(l, &f)
	if err != nil {
		if errors.Is(err, ErrTooLarge) {
			err = fmt.Errorf("append to %s: %w", l.name, err)
		}
		return Appended{}, err
	}
	l.applyAppend(&f, Batch(data), ticket)
	return Appended{BaseOffset: base, LastOffset: base + int64(b.LastOffsetDelta()), Ticket: ticket}, nil
}

// placeNext says which file and place the next batch gets: the last segment's end, or a new file when that one is closed, full or old.
func (l *Log) placeNext(sizeBytes int, base int64, now time.Time) (file uint64, place int64) {
	n := len(l.segments)
	if n == 0 || l.closed {
		return l.nextFile, 0
	}
	g := &l.segments[n-1]
	isFull := g.size+int64(sizeBytes) > l.cfg.SegmentBytes
	isOld := now.UnixMilli()-g.createdMs >= l.cfg.segmentAge().Milliseconds()
	if isFull || isOld || base-g.base > 1<<31-1 {
		return l.nextFile, 0
	}
	return g.file, g.size
}
