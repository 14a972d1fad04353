package storage

import (
	"errors"
	"path"
	"slices"

	"github.com/weirlog/weir/storage/vfs"
)

// What follows a hand-over (flush.go, step 7): memory, files and folders that nothing names any more.

// settleCapture is step 7 for one log.
func (s *Store) settleCapture(c *capture) {
	l := c.log
	if c.dropped {
		s.removeLog(l)
		return
	}
	l.mu.Lock()
	n := 0
	for n < len(l.tail) && l.tail[n].seq <= c.seq {
		n++
	}
	l.dropTail(0, n)
	done := 0
	for done < len(l.garbage) && l.garbage[done].seq <= c.seq {
		done++
	}
	l.garbage = append([]garbageFile(nil), l.garbage[done:]...)
	l.direct = slices.DeleteFunc(l.direct, func(d directFile) bool { return d.seq <= c.seq })
	l.mu.Unlock()
	s.cut(c, nil)
}

// cut cuts and removes what a checkpoint no longer names, but for what is wanted. A failure costs space only: opening cuts again.
func (s *Store) cut(c *capture, wanted map[segmentKey]bool) {
	for _, g := range c.garbage {
		if wanted[g.key] {
			continue
		}
		p := path.Join(c.log.dir(), g.name)
		if g.size == 0 {
			if err := s.opts.FS.Remove(p); err != nil && !vfs.IsNotExist(err) {
				s.log.Warn("old segment stays until the next start", "file", p, "error", err)
			}
			s.evict(handleKey{c.log.number, g.key}) // after the removal: nobody can open it again
			continue
		}
		if err := s.truncateFile(p, g.size); err != nil && !vfs.IsNotExist(err) {
			s.log.Warn("truncated segment is cut at the next start", "file", p, "error", err)
		}
	}
}

// truncateFile cuts a file that is longer than the size; it never makes one.
func (s *Store) truncateFile(p string, sizeBytes int64) error {
	info, err := s.opts.FS.Stat(p)
	if err != nil || info.SizeBytes <= sizeBytes {
		return err
	}
	f, err := s.opts.FS.OpenReadWrite(p)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(sizeBytes), f.Close())
}

// evict closes a file that was removed: open, it would keep its space.
func (s *Store) evict(key handleKey) {
	s.files.evict(key)
	s.writers.evict(key)
}

// removeLog removes a dropped log's folder.
func (s *Store) removeLog(l *Log) {
	if !l.hasDir.Load() {
		return
	}
	if err := s.removeDir(l.number, l.dir()); err != nil && !vfs.IsNotExist(err) {
		s.log.Warn("folder of a dropped log stays until the next start", "folder", l.dir(), "error", err)
	}
}

// removeDir removes a log's folder with its files.
func (s *Store) removeDir(number uint64, dir string) error {
	if err := s.removeFiles(number, dir, nil); err != nil {
		return err
	}
	return s.opts.FS.Remove(dir)
}

// removeFiles empties a log's folder, but for what is wanted.
func (s *Store) removeFiles(number uint64, dir string, wanted map[segmentKey]bool) error {
	names, err := s.opts.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		key, ok := parseFileName(name)
		if ok && wanted[key] {
			continue
		}
		if err := s.opts.FS.Remove(path.Join(dir, name)); err != nil {
			return err
		}
		if ok {
			s.evict(handleKey{number, key})
		}
	}
	return nil
}
