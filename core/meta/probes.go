package meta

import (
	"time"

	"github.com/weirlog/weir/storage"
)

// stalledOf and admitsOf stand until the store has these methods.
func stalledOf(s *storage.Store) func(time.Time) time.Duration {
	if p, ok := any(s).(interface {
		Stalled(time.Time) time.Duration
	}); ok {
		return p.Stalled
	}
	return func(time.Time) time.Duration { return 0 }
}

func admitsOf(s *storage.Store) func(int, bool) error {
	if p, ok := any(s).(interface{ Admits(int, bool) error }); ok {
		return p.Admits
	}
	return func(int, bool) error { return s.Err() }
}
