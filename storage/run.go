package storage

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run is the commit loop, the flush loop and the compaction loop. It returns when both are gone: after ctx ended (nil), or the store
// failed (the reason). Call Close afterwards.
func (s *Store) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.runCommits(ctx) })
	group.Go(func() error { return s.runFlushes(ctx) })
	group.Go(func() error { return s.runCompactions(ctx) })
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
	full := fullDisk{log: s.log, dir: s.opts.Dir, isKnown: s.isUnsettled.Load()}
	var again <-chan time.Time // a flush was wanted too early after one that a full disk refused
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
		case <-again:
			again = nil
		}
		if !due && !full.mayTry(time.Now()) {
			if again == nil {
				again = time.After(fullPause)
			}
			continue
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
		full.see(err, time.Now())
		if err != nil && !errors.Is(err, ErrDiskFull) {
			return err
		}
	}
}

// fullDisk says once that the disk is full, and once that it no longer is, and keeps refused appends from causing a flush each.
type fullDisk struct {
	log     *slog.Logger
	dir     string
	isKnown bool
	since   time.Time // of the last attempt
}

// fullPause is how long refused appends wait for the next attempt.
const fullPause = time.Second

func (f *fullDisk) mayTry(now time.Time) bool { return !f.isKnown || now.Sub(f.since) >= fullPause }

func (f *fullDisk) see(err error, now time.Time) {
	isFull := errors.Is(err, ErrDiskFull)
	switch {
	case isFull && !f.isKnown:
		f.log.Warn("disk is full: appends fail once the write-ahead log is used up", "dir", f.dir, "error", err)
	case err == nil && f.isKnown:
		f.log.Info("disk has space again", "dir", f.dir)
	}
	f.isKnown = isFull
	if isFull {
		f.since = now
	}
}

// runCompactions compacts log after log, and rests when none needs it.
func (s *Store) runCompactions(ctx context.Context) error {
	tick := time.NewTicker(s.opts.CompactionInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.failed:
			return nil // the other loops say why
		case <-tick.C:
		}
		for did := true; did && ctx.Err() == nil && s.Err() == nil; {
			var err error
			if did, err = s.Compact(ctx, time.Now()); err != nil && ctx.Err() == nil && s.Err() == nil {
				s.log.Warn("compaction failed, it is tried again later", "error", err)
				did = true // others may work
			}
		}
	}
}

// pressed says that a flush should not wait for its interval.
func (s *Store) pressed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isUnsettled.Load() || s.tailBytes.Load() >= s.opts.TailBytes/2 || s.directSince >= s.maxDirect() || len(s.wal.used) >= s.opts.WALFiles/2 || s.wal.left.free <= 0 && s.wal.files() >= s.opts.WALFiles
}
