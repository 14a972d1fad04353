package storage

import (
	"fmt"
	"path"

	"github.com/weirlog/weir/storage/vfs"
)

// walFile is one write-ahead file, open as long as the store is.
type walFile struct {
	path      string
	file      vfs.File
	lastRound Ticket // newest round written to it in this generation
}

// wal places rounds in files. It is guarded by Store.mu; writing happens outside it.
//
// Every file is in exactly one place: current, free (zero-filled or covered by a checkpoint) or used (full, waiting for
// a checkpoint). A round that is sealed has room promised for all of its frames; it gets its place when it is written, in the order of
// numbers, and may have become smaller by then (direct.go). Each round goes behind the one before or to the next file, and with that rule
// smaller rounds never need more than larger ones, so the promise holds. There are no gaps between rounds.
type wal struct {
	fileBytes  int64
	alignBytes int64 // of rounds
	current    *walFile
	place      int64 // next in current
	free       []*walFile
	used       []*walFile
	sealed     []*round // in order, without a place yet
	left       walRoom  // when those are written
	nextName   uint64
}

// walRoom is what files have room for.
type walRoom struct {
	place int64 // next in the current file; its end if there is none
	free  int   // files
}

// take gives a round of a size its room.
func (r *walRoom) take(size, fileBytes int64) {
	if r.place+size > fileBytes {
		r.place = 0
		r.free--
	}
	r.place += size
}

// admits says whether a round of a size can be placed, with leaveBytes left after it. A file that is free is enough to leave, so a batch
// that fills a file whole can be placed while there are two.
func (r walRoom) admits(size, leaveBytes, fileBytes int64) bool {
	if r.place+size <= fileBytes {
		return r.free > 0 || r.place+size+leaveBytes <= fileBytes
	}
	return size <= fileBytes && (r.free > 1 || r.free == 1 && size+leaveBytes <= fileBytes)
}

// reserveBytes is the room that appends leave in the last file there is, so that what frees a full disk can still be said: drops,
// new starts, and the commands that lead to them (LogConfig.UsesReserve).
func (w *wal) reserveBytes() int64 {
	return max(2*blockBytes, w.fileBytes/reserveShare/blockBytes*blockBytes)
}

// admits says whether a round of so many bytes of frames can be placed behind those that are sealed.
func (w *wal) admits(framesBytes, leaveBytes int64) bool {
	return w.left.admits(w.sizeOf(framesBytes), leaveBytes, w.fileBytes)
}

// sizeOf is what a round of so many bytes of frames takes.
func (w *wal) sizeOf(framesBytes int64) int64 { return roundSize(framesBytes, w.alignBytes) }

// seal promises r its room. The caller has seen admits for r's size.
func (w *wal) seal(r *round) {
	r.takenBytes = r.bytes
	w.sealed = append(w.sealed, r)
	w.left.take(r.sizeBytes(), w.fileBytes)
}

// put gives the first of the sealed rounds its place, for the size it has now.
func (w *wal) put() {
	r := w.sealed[0]
	w.sealed = w.sealed[1:]
	if len(w.sealed) == 0 {
		w.sealed = nil
	}
	size := r.sizeBytes()
	if w.current == nil || w.place+size > w.fileBytes {
		if w.current != nil {
			w.used = append(w.used, w.current)
		}
		w.current, w.place = w.free[0], 0
		w.free = w.free[1:]
	}
	r.file, r.place = w.current, w.place
	w.current.lastRound = r.number
	w.place += size
	w.measure()
}

// measure says anew what will be left, after a change of current or free.
func (w *wal) measure() {
	w.left = walRoom{place: w.fileBytes, free: len(w.free)}
	if w.current != nil {
		w.left.place = w.place
	}
	for _, r := range w.sealed {
		w.left.take(r.sizeBytes(), w.fileBytes)
	}
}

// add gives the wal free files.
func (w *wal) add(files ...*walFile) {
	w.free = append(w.free, files...)
	w.measure()
}

// recycle frees the used files whose rounds are all ≤ covered.
func (w *wal) recycle(covered Ticket) {
	rest := w.used[:0]
	for _, f := range w.used {
		if f.lastRound <= covered {
			w.free = append(w.free, f)
		} else {
			rest = append(rest, f)
		}
	}
	clear(w.used[len(rest):])
	w.used = rest
	w.measure()
}

// files is how many there are.
func (w *wal) files() int {
	n := len(w.free) + len(w.used)
	if w.current != nil {
		n++
	}
	return n
}

// write puts r's chunks in their place.
func (r *round) write() error {
	if err := r.file.file.WriteVAt(r.chunks, r.place); err != nil {
		return fmt.Errorf("write round %d to %s at %d: %w", r.number, r.file.path, r.place, err)
	}
	return nil
}

// walDir is the folder of write-ahead files.
func (s *Store) walDir() string { return path.Join(s.opts.Dir, "wal") }

// makeWALFile makes, fills and syncs one more file; on an error nothing of it stays.
func (s *Store) makeWALFile(name uint64) (*walFile, error) {
	p := path.Join(s.walDir(), fmt.Sprintf("%08d.wal", name))
	f, err := s.opts.FS.Create(p)
	if err != nil {
		return nil, fmt.Errorf("make write-ahead file: %w", err)
	}
	err = f.ZeroFill(0, s.opts.WALFileBytes)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.opts.FS.SyncDir(s.walDir())
	}
	if err != nil {
		_ = f.Close()
		_ = s.opts.FS.Remove(p)
		return nil, fmt.Errorf("make write-ahead file %s: %w", p, err)
	}
	return &walFile{path: p, file: f}, nil
}

// grow makes files until want are free or there are as many as allowed. Called with flushMu held, without mu.
func (s *Store) grow(want int) error {
	for {
		s.mu.Lock()
		enough := len(s.wal.free) >= want || s.wal.files() >= s.opts.WALFiles || s.err != nil
		name := s.wal.nextName
		s.mu.Unlock()
		if enough {
			return nil
		}
		f, err := s.makeWALFile(name)
		s.mu.Lock()
		s.wal.nextName = name + 1
		if err == nil {
			s.wal.add(f)
			s.diskFull = false
		} else if vfs.IsFull(err) {
			s.diskFull = true
		}
		s.relieve()
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
