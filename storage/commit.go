package storage

import (
	"fmt"
	"time"
)

// put places a frame in the open round. Called with l.mu held; either the frame is in a round or nothing happened. body is the
// frame's body where it now lies.
func (s *Store) put(l *Log, f *frame) (body []byte, ticket Ticket, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(l, f)
}

// putLocked is put with mu held; l is nil for a frame of no log. Batches leave the reserve to other frames.
func (s *Store) putLocked(l *Log, f *frame) (body []byte, ticket Ticket, err error) {
	size, leave := int64(f.encodedBytes()), int64(0)
	isData := f.kind == frameAppend && !l.cfg.UsesReserve
	if err := s.refuses(size, isData); err != nil {
		return nil, 0, err
	}
	if isData {
		leave = s.wal.reserveBytes()
	}
	if s.open.frames > 0 && (s.open.bytes+size > int64(s.opts.RoundBytes) || !s.wal.admits(s.open.bytes+size, leave)) {
		s.sealOpen()
	}
	if !s.wal.admits(s.open.bytes+size, leave) {
		return nil, 0, s.noRoom()
	}
	body = s.open.add(f)
	s.queuedBytes += size
	ticket = s.open.number
	if f.kind == frameAppend {
		b := Batch(body)
		b.SetBaseOffset(f.base)
		b.SetLeaderEpoch(f.epoch)
		s.stats.AppendedBytes += uint64(len(b))
		s.weigh(l, f)
	}
	if l != nil && !l.dirty {
		l.dirty = true
		s.dirty = append(s.dirty, l)
	}
	if s.hooks.onFrame != nil {
		s.hooks.onFrame(f, ticket)
	}
	signal(s.wake)
	if isFreeing := s.diskFull && f.kind != frameAppend; isFreeing || s.wal.left.free <= 0 || s.tailBytes.Load() >= s.opts.TailBytes/2 {
		signal(s.wakeFlush)
	}
	return body, ticket, nil
}

// refuses is why a frame of so many bytes can't be taken, whatever room the write-ahead files have. Called with mu held.
func (s *Store) refuses(size int64, isData bool) error {
	switch {
	case s.err != nil:
		return s.err
	case s.wal.sizeOf(size) > s.opts.WALFileBytes:
		return fmt.Errorf("%w: %d bytes fit no write-ahead file of %d", ErrTooLarge, size, s.opts.WALFileBytes)
	case isData && s.tailBytes.Load() >= 2*s.opts.TailBytes:
		return s.noRoom()
	}
	return nil
}

// Admits is the error that an append of a batch of so many bytes would get now for want of room or a working store, else nil; usesReserve as
// in LogConfig. It promises nothing: others append too.
func (s *Store) Admits(sizeBytes int, usesReserve bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, leave := int64(sizeBytes)+frameHeadBytes+framePlaceBytes, int64(0)
	if err := s.refuses(size, !usesReserve); err != nil {
		return err
	}
	if !usesReserve {
		leave = s.wal.reserveBytes()
	}
	left, round := s.wal.left, s.wal.sizeOf(s.open.bytes+size)
	if s.open.frames > 0 && !left.admits(round, leave, s.opts.WALFileBytes) {
		left.take(s.open.sizeBytes(), s.opts.WALFileBytes)
		round = s.wal.sizeOf(size)
	}
	if !left.admits(round, leave, s.opts.WALFileBytes) {
		return s.noRoom()
	}
	return nil
}

// noRoom is why an append is refused. Called with mu held.
func (s *Store) noRoom() error {
	signal(s.wakeFlush)
	if s.diskFull {
		return ErrDiskFull
	}
	return ErrBusy
}

// sealOpen promises the open round its room and opens the next. Called with mu held, with a frame in the round.
func (s *Store) sealOpen() {
	s.wal.seal(s.open)
	s.open = &round{number: s.open.number + 1, alignBytes: s.wal.alignBytes, expectedBytes: int(s.open.sizeBytes())} // like this one
}

// Commit writes and syncs one round, if one waits, and returns the completions that are due, to be run by the caller with no lock
// held that they take. now is for Stalled only. The error is the store's failure; completions come beside it. May overlap anything.
func (s *Store) Commit(now time.Time) ([]func(), error) {
	err := s.commit(now)
	return s.takeReady(), err
}

func (s *Store) takeReady() []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.ready
	s.ready = nil
	return ready
}

// Stalled is how long the round that is being written and synced has been under way at now, 0 if there is none: what a disk that hangs
// makes grow. It counts from the time given to Commit or Flush.
func (s *Store) Stalled(now time.Time) time.Duration {
	began := s.roundBegan.Load()
	if began == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, began)))
}

// commit does one round and leaves its completions in ready.
func (s *Store) commit(now time.Time) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if !now.IsZero() {
		s.roundBegan.Store(now.UnixNano())
		defer s.roundBegan.Store(0)
	}
	r, synced, err := s.nextRound()
	if r == nil {
		return err
	}
	began := time.Now()
	body, writes, err := s.writeDirect(r, synced)
	if err == nil {
		s.mu.Lock()
		r.roundBody = body
		s.wal.put()
		s.mu.Unlock()
		r.finish(s.gen, synced, s.salt)
		if s.hooks.ackBeforeSync {
			s.complete(r, began)
		}
		err = r.write()
	}
	switch isSynced := s.opts.Sync == SyncGroup && !s.hooks.skipSync; {
	case err == nil && isSynced:
		err = s.syncRound(r, writes)
	case len(writes) > 0:
		s.noteUnsynced(writes)
	}
	if err != nil {
		for _, d := range writes {
			s.releaseWriters(d)
		}
		s.fail(err)
		return s.Err()
	}
	for _, d := range writes {
		s.settle(d)
	}
	s.complete(r, began)
	return nil
}

// nextRound is the first round that waits, sealed; nil if there is none.
func (s *Store) nextRound() (r *round, synced Ticket, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.wal.sealed) == 0 && s.open.frames == 0 {
		return nil, 0, s.err
	}
	if len(s.wal.sealed) == 0 {
		s.sealOpen()
	}
	return s.wal.sealed[0], s.synced, nil
}

// complete makes a round's tickets due.
func (s *Store) complete(r *round, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable.Store(uint64(r.number))
	s.queuedBytes -= r.takenBytes
	r.takenBytes = 0
	s.relieve()
	if s.opts.Sync == SyncGroup {
		s.synced = r.number
	}
	rest := s.waiters[:0]
	for _, w := range s.waiters {
		if w.ticket <= r.number {
			s.ready = append(s.ready, func() { w.done(nil) })
		} else {
			rest = append(rest, w)
		}
	}
	clear(s.waiters[len(rest):])
	s.waiters = rest
	s.stats.Rounds++
	s.stats.WALBytes += uint64(r.sizeBytes())
	s.stats.DirectBytes += uint64(r.directBytes)
	if s.directSince += r.directBytes; s.directSince >= s.maxDirect() {
		signal(s.wakeFlush)
	}
	s.stats.CommitNanos += uint64(time.Since(began))
	if len(s.wal.sealed) > 0 || s.open.frames > 0 || len(s.ready) > 0 {
		signal(s.wake)
	}
}

// maxDirect is how much is written directly before a checkpoint is wanted: a replay reads it.
func (s *Store) maxDirect() int64 { return 2 * s.opts.TailBytes }

// durableTicket is the newest ticket that is complete.
func (s *Store) durableTicket() Ticket { return Ticket(s.durable.Load()) }

// Notify arranges that done runs once: with nil when t is durable, or with the store's failure. It runs at once, on this goroutine, if
// that is known already; else among a Commit's completions. done must not block; it may append.
func (s *Store) Notify(t Ticket, done func(error)) {
	s.mu.Lock()
	if t > s.durableTicket() && s.err == nil {
		s.waiters = append(s.waiters, waiter{t, done})
		s.mu.Unlock()
		return
	}
	err := s.err
	if t <= s.durableTicket() {
		err = nil
	}
	s.mu.Unlock()
	done(err)
}
