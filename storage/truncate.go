package storage

import (
	"fmt"
	"sort"
	"time"
)

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

// Restart removes every batch and lets the log begin again at start, which may lie anywhere: for a replica whose end lies before its
// leader's start, or that took a snapshot. Leader epochs and producers are forgotten too.
func (l *Log) Restart(start int64) (Ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dropped:
		return 0, ErrDropped
	case start < 0:
		return 0, fmt.Errorf("%w: restart at %d", ErrOffsetOutOfRange, start)
	}
	f := l.next(frameRestart, time.Time{})
	f.nowMs, f.end = 0, start
	_, ticket, err := l.store.put(l, &f)
	if err != nil {
		return 0, err
	}
	l.applyRestart(&f, ticket)
	return ticket, nil
}

// applyRestart empties the log. Called with mu held.
func (l *Log) applyRestart(f *frame, ticket Ticket) {
	for i := range l.segments {
		l.garbage = append(l.garbage, garbageFile{f.seq, l.segments[i].fileName(), l.segments[i].key(), 0})
	}
	l.segments, l.epochs, l.producer = nil, nil, nil
	l.dropTail(0, len(l.tail))
	l.cleaned, l.horizonMs = 0, 0
	l.start, l.end, l.closed = f.end, f.end, true
	l.seq, l.ticket = f.seq, ticket
	l.cuts++
	l.lowerDurable(ticket)
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
