package storage

import (
	"errors"
)

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
	h := l.store.files.open[handleKey{l.number, g.key()}]
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
