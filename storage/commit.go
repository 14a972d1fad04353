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
	if s.err != nil {
		return nil, 0, s.err
	}
	size := int64(f.encodedBytes())
	if roundSize(size) > s.opts.WALFileBytes {
		return nil, 0, fmt.Errorf("%w: %d bytes fit no write-ahead file of %d", ErrTooLarge, size, s.opts.WALFileBytes)
	}
	leave := int64(0)
	if isData := f.kind == frameAppend && !l.cfg.UsesReserve; isData {
		if s.tailBytes.Load() >= 2*s.opts.TailBytes {
			return nil, 0, s.noRoom()
		}
		leave = s.wal.reserveBytes()
	}
	if s.open.frames > 0 && (s.open.bytes+size > int64(s.opts.RoundBytes) || !s.wal.admits(s.open.bytes+size, leave)) {
		s.sealOpen()
	}
	if !s.wal.admits(s.open.bytes+size, leave) {
		return nil, 0, s.noRoom()
	}
	body = s.open.add(f)
	ticket = s.open.number
	if f.kind == frameAppend {
		b := Batch(body)
		b.SetBaseOffset(f.base)
		b.SetLeaderEpoch(f.epoch)
		s.stats.AppendedBytes += uint64(len(b))
	}
	if l != nil && !l.dirty {
		l.dirty = true
		s.dirty = append(s.dirty, l)
	}
	if s.hooks.onFrame != nil {
		s.hooks.onFrame(f, ticket)
	}
	signal(s.wake)
	if isFreeing := s.diskFull && f.kind != frameAppend; isFreeing || len(s.wal.free) == 0 || s.tailBytes.Load() >= s.opts.TailBytes/2 {
		signal(s.wakeFlush)
	}
	return body, ticket, nil
}

// noRoom is why an append is refused. Called with mu held.
func (s *Store) noRoom() error {
	signal(s.wakeFlush)
	if s.diskFull {
		return ErrDiskFull
	}
	return ErrBusy
}

// sealOpen gives the open round its place and opens the next. Called with mu held, with a frame in the round.
func (s *Store) sealOpen() {
	s.wal.seal(s.open)
	s.sealed = append(s.sealed, s.open)
	s.open = &round{number: s.open.number + 1, expectedBytes: int(roundSize(s.open.bytes))} // like this one
}

// Commit writes and syncs one round, if one waits, and returns the completions that are due, to be run by the caller with no lock
// held that they take. A round needs no time so far. The error is the store's failure; completions come beside it. May overlap anything.
func (s *Store) Commit(time.Time) ([]func(), error) {
	err := s.commit()
	return s.takeReady(), err
}

func (s *Store) takeReady() []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.ready
	s.ready = nil
	return ready
}

// commit does one round and leaves its completions in ready.
func (s *Store) commit() error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	s.mu.Lock()
	if s.err != nil || len(s.sealed) == 0 && s.open.frames == 0 {
		defer s.mu.Unlock()
		return s.err
	}
	if len(s.sealed) == 0 {
		s.sealOpen()
	}
	r, synced := s.sealed[0], s.synced
	s.sealed = s.sealed[1:]
	if len(s.sealed) == 0 {
		s.sealed = nil
	}
	s.mu.Unlock()

	began := time.Now()
	r.finish(s.gen, synced, s.salt)
	if s.hooks.ackBeforeSync {
		s.complete(r, began)
	}
	err := r.write()
	if err == nil && s.opts.Sync == SyncGroup && !s.hooks.skipSync {
		if err = r.file.file.Sync(); err != nil {
			err = fmt.Errorf("sync round %d in %s: %w", r.number, r.file.path, err)
		}
	}
	if err != nil {
		s.fail(err)
		return s.Err()
	}
	s.complete(r, began)
	return nil
}

// complete makes a round's tickets due.
func (s *Store) complete(r *round, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable.Store(uint64(r.number))
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
	s.stats.WALBytes += uint64(roundSize(r.bytes))
	s.stats.CommitNanos += uint64(time.Since(began))
	if len(s.sealed) > 0 || s.open.frames > 0 || len(s.ready) > 0 {
		signal(s.wake)
	}
}

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
