package storage

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run is the commit loop and the flush loop. It returns when both are gone: after ctx ended (nil), or the store
// failed (the reason). Call Close afterwards.
func (s *Store) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.runCommits(ctx) })
	group.Go(func() error { return s.runFlushes(ctx) })
	return group.Wait()
}

// runCommits commits at once what an idle disk is given; while a sync runs, arrivals gather in the next round.
func (s *Store) runCommits(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			for _, done := range s.takeReady() {
				done()
			}
			return nil
		case <-s.wake:
		}
		completions, err := s.Commit(time.Now())
		for _, done := range completions {
			done()
		}
		if err != nil {
			return err
		}
	}
}

// runFlushes flushes when memory or write-ahead files run low, and now and then.
func (s *Store) runFlushes(ctx context.Context) error {
	tick := time.NewTicker(s.opts.FlushInterval)
	defer tick.Stop()
	for {
		due := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.failed:
			return s.Err()
		case <-tick.C:
			due = true
		case <-s.wakeFlush:
		}
		if !due && !s.pressed() {
			s.flushMu.Lock()
			err := s.grow(2)
			s.flushMu.Unlock()
			if err == nil {
				continue
			}
		}
		err := s.Flush(time.Now())
		if errors.Is(err, ErrDiskFull) {
			s.log.Warn("disk is full: appends fail once the write-ahead log is used up", "dir", s.opts.Dir, "error", err)
		} else if err != nil {
			return err
		}
	}
}

// pressed says that a flush should not wait for its interval.
func (s *Store) pressed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tailBytes.Load() >= s.opts.TailBytes/2 || len(s.wal.used) >= s.opts.WALFiles/2 || len(s.wal.free) == 0 && s.wal.files() >= s.opts.WALFiles
}
