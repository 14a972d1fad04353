package storage

import (
	"errors"
	"fmt"
	"time"
)

// retain raises start offsets by the logs' retention: whole segments whose bytes a checkpoint names.
func (s *Store) retain(now time.Time) error {
	if now.Sub(s.lastRetention) < s.opts.RetentionInterval {
		return nil
	}
	s.lastRetention = now
	s.mu.Lock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		logs = append(logs, l)
	}
	s.mu.Unlock()
	for _, l := range logs {
		start := l.retentionStart(now)
		if start < 0 {
			continue
		}
		if _, err := l.AdvanceStart(start); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrDiskFull) && !errors.Is(err, ErrDropped) {
			return fmt.Errorf("retention of %s: %w", l.name, err)
		}
	}
	return nil
}

// retentionStart is the start offset that retention wants, or -1.
func (l *Log) retentionStart(now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.cfg
	if l.dropped || c.Cleanup&CleanupDelete == 0 || c.Retention <= 0 && c.RetentionBytes <= 0 {
		return -1
	}
	size, start := l.sizeBytes(), int64(-1)
	for i := range l.segments {
		g := &l.segments[i]
		newest := g.maxTimestamp
		if newest < 0 {
			newest = g.createdMs
		}
		isOld := c.Retention > 0 && newest < now.Add(-c.Retention).UnixMilli()
		isOver := c.RetentionBytes > 0 && size-g.size >= c.RetentionBytes
		if !l.isStable(g) || !isOld && !isOver {
			break
		}
		start = g.end
		size -= g.size
	}
	return start
}

// AdvanceStart raises the start offset; segments wholly below it go. Lower or equal: nothing to do, a completed ticket.
// Beyond the end: ErrOffsetOutOfRange.
func (l *Log) AdvanceStart(start int64) (Ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dropped:
		return 0, ErrDropped
	case start > l.end:
		return 0, fmt.Errorf("%w: start %d, the log ends at %d", ErrOffsetOutOfRange, start, l.end)
	case start <= l.start:
		return 0, nil
	}
	f := l.next(frameStart, time.Time{})
	f.nowMs, f.end = 0, start
	_, ticket, err := l.store.put(l, &f)
	if err != nil {
		return 0, err
	}
	l.applyStart(&f, ticket)
	return ticket, nil
}
