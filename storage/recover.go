package storage

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// recover makes the store what its folder says, in this order:
//
//  1. the checkpoint: the logs as of their frames named there (absent: a new store, which must be empty);
//  2. the rounds of the last opening's generation, in order of their numbers, from the checkpoint's on, until one is missing or
//     damaged: if a later one says that it was synced, that is corruption; else it was never acknowledged and is left out;
//  3. their frames, applied by the functions that made them; batches land in tails as if just appended;
//  4. a flush: segments written, synced, a checkpoint of a new generation (so what was left out can't come back);
//  5. only then files are cut to what the checkpoint names, and unnamed ones removed.
//
// A crash before 4 is done changes nothing that the next attempt doesn't repeat. So a disk that is full for 4 doesn't keep the store from
// opening: the write-ahead files are synced, what was replayed stays in them and in memory, no write-ahead file is free, so that nothing
// is taken, and 4 and 5 are done by the first Flush that finds space. Memory is then bounded by the write-ahead files, not by TailBytes.
func (s *Store) recover() error {
	s.open = &round{alignBytes: s.wal.alignBytes}
	covered, err := s.loadCheckpoint()
	if err != nil {
		return err
	}
	for _, dir := range []string{s.walDir(), s.logsDir()} {
		if err := s.opts.FS.MkdirAll(dir); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return fmt.Errorf("sync data folder: %w", err)
	}
	if err := s.openWALFiles(); err != nil {
		return err
	}
	last, err := s.replay(covered)
	if err != nil {
		return err
	}
	s.gen++
	s.open.number = last + 1
	s.synced = last
	s.durable.Store(uint64(last))
	if err := s.settleReplay(); err != nil {
		return s.openFull(err)
	}
	if err := s.clean(); err != nil {
		return err
	}
	return s.prepareWAL()
}

// openFull lets the store open without step 4, if it failed for want of space.
func (s *Store) openFull(cause error) error {
	if !isSoft(cause) {
		return cause
	}
	for _, f := range s.wal.used { // after a kill they may be in memory only
		if err := f.file.Sync(); err != nil {
			return fmt.Errorf("sync write-ahead file: %w", err)
		}
	}
	s.isUnsettled.Store(true)
	s.diskFull = true
	if s.hooks.takeUnsettled {
		return s.prepareWAL()
	}
	s.log.Warn("disk is full: reads are served, nothing is taken until there is space", "dir", s.opts.Dir, "error", cause)
	return nil
}

// settleLate does what openFull left out. No frame is taken before it is done. Called with flushMu held.
func (s *Store) settleLate() error {
	if err := s.settleReplay(); err != nil {
		return err
	}
	if err := s.clean(); err != nil {
		return err
	}
	return s.prepareWAL()
}

// settleReplay is step 4.
func (s *Store) settleReplay() error {
	s.mu.Lock()
	head := s.checkpointHead()
	head.round = s.open.number - 1
	dirty := s.dirty
	s.dirty = nil
	for _, l := range dirty {
		l.dirty = false
	}
	s.mu.Unlock()
	captures := make([]*capture, 0, len(dirty))
	for _, l := range dirty {
		c := l.capture(time.Time{})
		c.garbage = nil // step 5 finds it
		captures = append(captures, c)
	}
	var err error
	if len(captures) > 0 {
		err = s.handOver(head, captures, 0, time.Time{})
	} else {
		err = s.writeCheckpoint(head, nil)
	}
	if err != nil {
		s.stayDirty(captures)
	}
	return err
}

// loadCheckpoint reads the checkpoint, or makes the first one of a new store.
func (s *Store) loadCheckpoint() (covered Ticket, err error) {
	data, err := vfs.ReadFile(s.opts.FS, s.checkpointPath(), maxCheckpointBytes)
	if vfs.IsNotExist(err) {
		return 0, s.makeStore()
	}
	if err != nil {
		return 0, fmt.Errorf("read checkpoint: %w", err)
	}
	head, entries, version, err := decodeCheckpoint(data)
	if err != nil {
		return 0, &CorruptError{s.checkpointPath(), 0, err.Error()}
	}
	s.salt, s.gen, s.nextNumber, s.hardState = head.salt, head.generation, head.nextNumber, head.hardState
	for _, entry := range entries {
		l := &Log{store: s}
		if err := l.decodeEntry(entry, version); err != nil {
			return 0, &CorruptError{s.checkpointPath(), 0, err.Error()}
		}
		if s.saved[l.number] != nil || s.logs[l.id] != nil || l.number >= s.nextNumber {
			return 0, &CorruptError{s.checkpointPath(), 0, fmt.Sprintf("log %d is there twice or out of range", l.number)}
		}
		l.cfg.SetDefaults()
		if l.saved = entry; version < checkpointVersion {
			l.saved = l.appendEntry(nil)
		}
		s.saved[l.number], s.logs[l.id] = l, l
	}
	return head.round, nil
}

// makeStore writes the first checkpoint. A folder that has data but no checkpoint is damaged, not new.
func (s *Store) makeStore() (err error) {
	for _, dir := range []string{s.walDir(), s.logsDir()} {
		names, err := s.opts.FS.List(dir)
		if err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("look into %s: %w", dir, err)
		}
		if len(names) > 0 {
			return &CorruptError{s.checkpointPath(), 0, fmt.Sprintf("the file is missing, but %s is not empty", dir)}
		}
	}
	if s.salt, err = newSalt(); err != nil {
		return fmt.Errorf("draw salt: %w", err)
	}
	if err := s.writeCheckpoint(s.checkpointHead(), nil); vfs.IsFull(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	} else if err != nil {
		return err
	}
	return nil
}

// openWALFiles opens the write-ahead files there are; all are "used" until the replay is settled.
func (s *Store) openWALFiles() error {
	names, err := s.opts.FS.List(s.walDir())
	if err != nil {
		return fmt.Errorf("list write-ahead files: %w", err)
	}
	for _, name := range names {
		number, err := strconv.ParseUint(strings.TrimSuffix(name, ".wal"), 10, 64)
		if err != nil {
			s.log.Warn("unknown file among write-ahead files", "file", path.Join(s.walDir(), name))
			continue
		}
		p := path.Join(s.walDir(), name)
		f, err := s.opts.FS.OpenReadWrite(p)
		if err != nil {
			return fmt.Errorf("open write-ahead file: %w", err)
		}
		s.wal.used = append(s.wal.used, &walFile{path: p, file: f})
		s.wal.nextName = max(s.wal.nextName, number)
	}
	s.wal.nextName++
	return nil
}

// prepareWAL frees the files, remakes those of another size, and sees that there is at least one, if the disk isn't full.
func (s *Store) prepareWAL() error {
	s.mu.Lock()
	all := s.wal.used
	s.wal.used = nil
	s.mu.Unlock()
	var free []*walFile
	for _, f := range all {
		size, err := f.file.Size()
		if err != nil {
			return fmt.Errorf("size of write-ahead file: %w", err)
		}
		if size == s.opts.WALFileBytes && len(free) < s.opts.WALFiles {
			free = append(free, f)
			continue
		}
		_ = f.file.Close() // nothing in it is wanted
		if err := s.opts.FS.Remove(f.path); err != nil {
			return fmt.Errorf("remove write-ahead file: %w", err)
		}
	}
	s.mu.Lock()
	s.wal.add(free...) // from here on frames are taken
	s.isUnsettled.Store(false)
	s.mu.Unlock()
	if err := s.grow(1); err != nil && !isSoft(err) {
		return err
	}
	return nil
}

// clean is step 5. A folder of a log number that was never given is left alone: nothing says that it may go.
func (s *Store) clean() error {
	names, err := s.opts.FS.List(s.logsDir())
	if err != nil {
		return fmt.Errorf("list log folders: %w", err)
	}
	for _, name := range names {
		dir := path.Join(s.logsDir(), name)
		number, ok := parseDirName(name)
		if !ok || s.passOver(number) {
			s.log.Warn("unknown folder is left alone", "folder", dir)
			continue
		}
		if l := s.saved[number]; l == nil {
			err = s.removeDir(number, dir)
		} else {
			l.hasDir.Store(true)
			err = s.cleanLog(l)
		}
		if err != nil {
			return fmt.Errorf("clean %s: %w", dir, err)
		}
	}
	for _, l := range s.saved {
		if !l.hasDir.Load() && len(l.segments) > 0 {
			s.log.Error("folder of a log is missing: its records can't be read", "folder", l.dir())
		}
	}
	return nil
}

// passOver says that a log number was never given, and sees that it never will be.
func (s *Store) passOver(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isUnknown := number >= s.nextNumber
	if isUnknown && number < maxNumber {
		s.nextNumber = number + 1
	}
	return isUnknown
}

// cleanLog makes the files of a log those that it names, and says which are damaged.
func (s *Store) cleanLog(l *Log) error {
	names, err := s.opts.FS.List(l.dir())
	if err != nil {
		return err
	}
	sizes := make(map[string]int64, len(names))
	for _, name := range names {
		if _, ok := parseFileName(name); !ok {
			continue
		}
		info, err := s.opts.FS.Stat(path.Join(l.dir(), name))
		if err != nil {
			return err
		}
		sizes[name] = info.SizeBytes
	}
	for i := range l.segments {
		g := &l.segments[i]
		size, ok := sizes[g.fileName()]
		delete(sizes, g.fileName())
		p := path.Join(l.dir(), g.fileName())
		if !ok || size < g.size {
			s.log.Error("segment is cut or missing: some records can't be read", "file", p, "bytes", size, "want", g.size)
		} else if size > g.size {
			if err := s.truncateFile(p, g.size); err != nil {
				return err
			}
		}
	}
	for name := range sizes {
		if err := s.opts.FS.Remove(path.Join(l.dir(), name)); err != nil {
			return err
		}
	}
	return nil
}
