package core

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// seldomEvery is the least time between two messages of one seldom.
const seldomEvery = 5 * time.Second

// seldom logs what clients can cause at any rate, at most once in seldomEvery: a full disk fails every produce, and
// once is enough to say so. What wasn't said is counted in the next message.
type seldom struct {
	last   atomic.Int64 // when something was said, in Unix nanoseconds
	unsaid atomic.Int64
}

func (s *seldom) say(log *slog.Logger, level slog.Level, now time.Time, msg string, args ...any) {
	last := s.last.Load()
	if now.UnixNano()-last < int64(seldomEvery) || !s.last.CompareAndSwap(last, now.UnixNano()) {
		s.unsaid.Add(1)
		return
	}
	args = append(args, "unsaid", s.unsaid.Swap(0))
	if level >= slog.LevelError {
		log.Error(msg, args...)
		return
	}
	log.Warn(msg, args...)
}
