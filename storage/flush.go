package storage

import (
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// capture is one log as of its frame seq, taken in one hold of its mutex, for one checkpoint.
//
// The hand-over from write-ahead log to segments, step by step; most data loss of such stores lives here.
//
//  1. Under Store.mu: note the open round r0 and take the list of dirty logs. Frames of rounds below r0 belong to logs in that list.
//  2. Each log: capture it. It may hold frames of r0 and later; seq says exactly which.
//  3. Commit until every captured frame is durable (invariant 4).
//  4. Write the captured batches to their places. Appends, truncations and drops go on meanwhile: they neither change those bytes
//     nor reuse the places (invariant 6), and their frames lie in rounds ≥ r0, which stay.
//  5. One syncfs; or, of few files, each with its folder, so that what others write to the disk isn't waited for.
//  6. The checkpoint: captured logs as captured, all others as in the last one, replay from r0 with frames above seq.
//  7. Only now: batches leave memory, files are cut and removed (invariant 3), write-ahead files with rounds < r0 are free (invariant 5).
//
// A crash before 6 finds the old checkpoint with all its frames, and bytes in segments that it doesn't name; one after 6 finds files
// that are too long or too many, which opening cuts.
type capture struct {
	log     *Log
	seq     uint64
	ticket  Ticket
	writes  []tailBatch
	names   map[uint64]string // of the files written to
	garbage []garbageFile
	entry   []byte
	dropped bool
}

// maxWriteBytes is how much is written at a time, and at most a batch more.
const maxWriteBytes = 1 << 20

// Flush writes tails to segments, syncs, writes the checkpoint, recycles write-ahead files, and applies retention.
// A full disk is ErrDiskFull and leaves the store working; any other error ends it.
func (s *Store) Flush(now time.Time) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	began := time.Now()
	err := s.flush(now)
	if err == nil {
		err = s.grow(2)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.diskFull = false
		s.isDirectOff.Store(false)
		s.stats.Flushes++
		s.stats.FlushNanos += uint64(time.Since(began))
	case isSoft(err):
		s.diskFull = true
		err = fmt.Errorf("flush: %w: %w", ErrDiskFull, err)
	}
	s.relieve()
	if err != nil && !errors.Is(err, ErrDiskFull) {
		s.mu.Unlock()
		s.fail(fmt.Errorf("flush: %w", err))
		s.mu.Lock()
		return s.err
	}
	return err
}

// syncError marks a failed sync, which is never retried, whatever its cause.
type syncError struct{ error }

func (e syncError) Unwrap() error { return e.error }

// isSoft says that a flush failed for want of space before anything was promised.
func isSoft(err error) bool {
	var failed syncError
	return vfs.IsFull(err) && !errors.As(err, &failed)
}

func (s *Store) flush(now time.Time) error {
	if s.isUnsettled.Load() {
		if err := s.settleLate(); err != nil {
			return err
		}
	}
	if err := s.retain(now); err != nil {
		return err
	}
	s.mu.Lock()
	dirty, head := s.dirty, s.checkpointHead()
	head.round = s.open.number - 1
	s.dirty = nil
	for _, l := range dirty {
		l.dirty = false
	}
	hasUsed := len(s.wal.used) > 0
	s.directSince = 0
	s.mu.Unlock()
	if len(dirty) == 0 && !hasUsed {
		return nil
	}
	captures, last := s.captureAll(dirty, now)
	if err := s.handOver(head, captures, max(last, head.stateTicket), now); err != nil {
		s.stayDirty(captures)
		return err
	}
	s.recycle(head.round)
	return nil
}

// stayDirty gives logs that were captured in vain to the next flush.
func (s *Store) stayDirty(captures []*capture) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range captures {
		if !c.log.dirty {
			c.log.dirty = true
			s.dirty = append(s.dirty, c.log)
		}
	}
}

// captureAll captures the logs and returns the newest round among their frames.
func (s *Store) captureAll(logs []*Log, now time.Time) (captures []*capture, last Ticket) {
	captures = make([]*capture, 0, len(logs))
	for _, l := range logs {
		c := l.capture(now)
		captures = append(captures, c)
		last = max(last, c.ticket)
	}
	return captures, last
}

func (l *Log) capture(now time.Time) *capture {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &capture{log: l, seq: l.seq, ticket: l.ticket, dropped: l.dropped}
	if l.dropped {
		return c
	}
	l.producer.expire(now, l.store.opts.ProducerExpiry)
	if len(l.producer) == 0 {
		l.producer = nil
	}
	c.writes = append([]tailBatch(nil), l.tail...)
	if len(c.writes) > 0 {
		c.names = l.fileNames(c.writes[0].file)
	}
	c.garbage = append([]garbageFile(nil), l.garbage...)
	c.entry = l.appendEntry(nil)
	return c
}

// leaveWritten leaves out what direct writes have brought to the segments meanwhile.
func (c *capture) leaveWritten() {
	c.log.mu.Lock()
	written := c.log.writtenSeq
	c.log.mu.Unlock()
	n := 0
	for n < len(c.writes) && c.writes[n].seq <= written {
		n++
	}
	if c.writes = c.writes[n:]; len(c.writes) == 0 {
		c.names = nil
	}
}

// handOver is steps 3 to 7, but for the write-ahead files.
func (s *Store) handOver(head checkpointHead, captures []*capture, last Ticket, now time.Time) error {
	if s.hooks.cutEarly {
		for _, c := range captures {
			s.cut(c, nil)
		}
	}
	for s.durableTicket() < last && !s.hooks.captureUnready {
		if err := s.commit(now); err != nil {
			return err
		}
	}
	for _, c := range captures {
		c.leaveWritten() // before the sync that covers it
	}
	if s.opts.Sync == SyncOS {
		if err := s.syncWAL(); err != nil {
			return err
		}
	}
	if s.hooks.recycleEarly {
		s.recycle(head.round)
	}
	err := s.save(head, captures)
	if err != nil && isSoft(err) {
		made, failed := s.makeSpace(captures)
		switch {
		case failed != nil:
			return failed
		case !made:
			return err
		}
		err = s.save(head, captures)
	}
	if err != nil {
		return err
	}
	for _, c := range captures {
		s.settleCapture(c)
	}
	return nil
}

// save is steps 4 to 6.
func (s *Store) save(head checkpointHead, captures []*capture) error {
	if err := s.writeSegments(captures); err != nil {
		return err
	}
	return s.writeCheckpoint(head, captures)
}

// makeSpace does step 7's removals before step 6, which a full disk keeps from succeeding: else deleting topics and retention would
// free nothing just when they must. Their frames are synced first, so a replay comes to them again and wants nothing of what is gone.
// The folders stay, since a replay may write to them on its way. It reports whether there was something to remove.
func (s *Store) makeSpace(captures []*capture) (made bool, err error) {
	for _, c := range captures {
		made = made || len(c.garbage) > 0 || c.dropped && c.log.hasDir.Load()
	}
	if !made {
		return false, nil
	}
	if err := s.syncWAL(); err != nil {
		return false, err
	}
	for _, c := range captures {
		wanted := c.log.wantedFiles()
		s.cut(c, wanted)
		if !c.dropped || !c.log.hasDir.Load() {
			continue
		}
		if err := s.removeFiles(c.log.number, c.log.dir(), wanted); err != nil && !vfs.IsNotExist(err) {
			s.log.Warn("files of a dropped log stay until the next start", "folder", c.log.dir(), "error", err)
		}
	}
	return true, nil
}

// wantedFiles are those that direct frames may name which no checkpoint covers: a replay reads them.
func (l *Log) wantedFiles() map[segmentKey]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := make(map[segmentKey]bool, len(l.direct))
	for _, d := range l.direct {
		wanted[segmentKey{file: d.file}] = !l.store.hooks.removeDirect
	}
	return wanted
}

// writeSegments is steps 4 and 5.
func (s *Store) writeSegments(captures []*capture) error {
	files := 0
	for _, c := range captures {
		files += len(c.names)
	}
	isFew := files <= s.opts.fewFiles && !s.hasUnsynced && !s.hooks.skipFlushSync
	for _, c := range captures {
		if err := s.writeTail(c, isFew); err != nil {
			return err
		}
	}
	switch {
	case s.hooks.skipFlushSync || files == 0 && !s.hasUnsynced:
		return nil
	case isFew:
		return s.syncDir(s.logsDir())
	}
	if err := s.opts.FS.SyncFS(s.opts.Dir); err != nil {
		return syncError{fmt.Errorf("sync segments: %w", err)}
	}
	s.hasUnsynced = false
	return nil
}

func (s *Store) syncDir(dir string) error {
	if err := s.opts.FS.SyncDir(dir); err != nil {
		return syncError{fmt.Errorf("sync folder: %w", err)}
	}
	return nil
}

// syncWAL makes the frames of complete rounds durable, with what they name, which under SyncOS they are not yet (invariants 3, 9).
func (s *Store) syncWAL() error {
	s.mu.Lock()
	written := s.durableTicket()
	files := append([]*walFile(nil), s.wal.used...)
	if s.wal.current != nil {
		files = append(files, s.wal.current)
	}
	s.mu.Unlock()
	if err := s.syncDirect(); err != nil {
		return err
	}
	for _, f := range files {
		if err := f.file.Sync(); err != nil {
			return syncError{fmt.Errorf("sync write-ahead file: %w", err)}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = max(s.synced, written)
	return nil
}

// recycle frees write-ahead files up to a round.
func (s *Store) recycle(covered Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wal.recycle(covered)
	s.relieve()
}

// writeTail is step 4 for one log, with step 5 if so told.
func (s *Store) writeTail(c *capture, andSync bool) error {
	if len(c.writes) == 0 {
		return nil
	}
	l := c.log
	if err := s.makeLogDir(l); err != nil {
		return err
	}
	err := eachFile(c.writes, func(file uint64, batches []tailBatch) error {
		return s.writeFile(path.Join(l.dir(), c.names[file]), batches, andSync)
	})
	if err == nil && andSync {
		err = s.syncDir(l.dir())
	}
	return err
}

// makeLogDir makes the log's folder if it isn't there.
func (s *Store) makeLogDir(l *Log) error {
	if l.hasDir.Load() {
		return nil
	}
	if err := s.opts.FS.MkdirAll(l.dir()); err != nil {
		return fmt.Errorf("make folder of log %s: %w", l.name, err)
	}
	l.hasDir.Store(true)
	return nil
}

// fileNames maps the numbers of the files from first on to their names. Called with mu held.
func (l *Log) fileNames(first uint64) map[uint64]string {
	names := map[uint64]string{}
	for i := len(l.segments) - 1; i >= 0 && l.segments[i].file >= first; i-- {
		names[l.segments[i].file] = l.segments[i].fileName()
	}
	return names
}

// eachFile calls write with the batches of one file after the other.
func eachFile(batches []tailBatch, write func(file uint64, batches []tailBatch) error) error {
	for len(batches) > 0 {
		n := 1
		for n < len(batches) && batches[n].file == batches[0].file {
			n++
		}
		if err := write(batches[0].file, batches[:n]); err != nil {
			return err
		}
		batches = batches[n:]
	}
	return nil
}

// writeFile writes batches of one file to their places.
func (s *Store) writeFile(p string, batches []tailBatch, andSync bool) (err error) {
	f, err := s.opts.FS.OpenReadWrite(p)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := writeBatches(f, batches); err != nil {
		return err
	}
	if !andSync {
		return nil
	}
	if err := f.Sync(); err != nil {
		return syncError{fmt.Errorf("sync segment: %w", err)}
	}
	return nil
}

// writeBatches writes neighbours together.
func writeBatches(f vfs.File, batches []tailBatch) error {
	var together [][]byte
	for len(batches) > 0 {
		n, bytes := 0, int64(0)
		together = together[:0]
		for n < len(batches) && batches[0].place+bytes == batches[n].place && (n == 0 || bytes < maxWriteBytes) {
			together = append(together, batches[n].data)
			bytes += int64(len(batches[n].data))
			n++
		}
		if err := f.WriteVAt(together, batches[0].place); err != nil {
			return fmt.Errorf("write segment: %w", err)
		}
		batches = batches[n:]
	}
	return nil
}
