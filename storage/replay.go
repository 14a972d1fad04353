package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"

	"github.com/weirlog/weir/storage/vfs"
)

// foundRound is where a round lies.
type foundRound struct {
	roundHeader
	file  *walFile
	place int64
}

// replay applies the rounds after covered and returns the last one that is there.
func (s *Store) replay(covered Ticket) (last Ticket, err error) {
	s.byNumber = make(map[uint64]*Log, len(s.saved))
	for number, l := range s.saved {
		s.byNumber[number] = l
	}
	defer func() { s.byNumber = nil }()
	found := map[Ticket]foundRound{}
	var synced Ticket
	isFull := false // then memory holds what it must
	for _, f := range s.wal.used {
		if err := s.scanRounds(f, func(r foundRound) {
			synced = max(synced, r.synced)
			if r.round > covered {
				found[r.round] = r
			}
		}); err != nil {
			return 0, err
		}
	}
	for last = covered; ; last++ {
		r, ok := found[last+1]
		var frames []byte
		if ok {
			if frames, ok, err = s.readRound(r); err != nil {
				return 0, err
			}
		}
		if !ok {
			break
		}
		if err := s.replayRound(r, frames, r.round > synced); err != nil {
			return 0, err
		}
		if s.tailBytes.Load() > s.opts.TailBytes && !isFull {
			err := s.spill()
			if isFull = isSoft(err); err != nil && !isFull {
				return 0, err
			}
		}
	}
	if synced > last {
		damage := &CorruptError{s.walDir(), 0, fmt.Sprintf("round %d was synced and is missing", last+1)}
		if r, ok := found[last+1]; ok {
			damage = &CorruptError{r.file.path, r.place, fmt.Sprintf("round %d was synced and its crc does not match", last+1)}
		}
		return 0, damage
	}
	return last, nil
}

// scanRounds finds the round headers of this store's last opening in a file. It looks at each block, but for those inside a round.
func (s *Store) scanRounds(f *walFile, found func(foundRound)) error {
	size, err := f.file.Size()
	if err != nil {
		return fmt.Errorf("size of write-ahead file: %w", err)
	}
	window := make([]byte, 0, 256<<10)
	windowAt := int64(0)
	for place := int64(0); place+blockBytes <= size; {
		if place < windowAt || place+roundHeaderBytes > windowAt+int64(len(window)) {
			windowAt = place
			n, err := f.file.ReadAt(window[:min(int64(cap(window)), size-place)], place)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read write-ahead file: %w", err)
			}
			window = window[:n]
			if n < roundHeaderBytes {
				return nil
			}
		}
		h, ok := parseRoundHeader(window[place-windowAt:], s.salt)
		if !ok || place+h.sizeBytes() > size {
			place += blockBytes
			continue
		}
		if h.generation == s.gen || s.hooks.anyGeneration {
			found(foundRound{h, f, place})
		}
		place += h.sizeBytes()
	}
	return nil
}

// readRound reads a round's frames; ok is false when they don't match the trailer.
func (s *Store) readRound(r foundRound) (frames []byte, ok bool, err error) {
	data := make([]byte, int64(r.bytes)+roundTrailerBytes)
	if _, err := r.file.file.ReadAt(data, r.place+roundHeaderBytes); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("read write-ahead file: %w", err)
	}
	frames = data[:r.bytes:r.bytes]
	return frames, checkFrames(frames, data[r.bytes:], s.salt) || s.hooks.acceptTorn, nil
}

// replayRound applies a round's frames.
func (s *Store) replayRound(r foundRound, frames []byte, unsynced bool) error {
	void := map[uint64]bool{} // logs that ended in this round: a direct frame's bytes were not there yet
	rest := frames
	for n := uint32(0); len(rest) > 0; n++ {
		at := r.place + roundHeaderBytes + int64(len(frames)-len(rest))
		var f frame
		var err error
		if f, rest, err = parseFrame(rest); err == nil {
			if s.hooks.ignoreFrame == nil || !s.hooks.ignoreFrame(&f) {
				err = s.replayFrame(&f, r.round, unsynced, void)
			}
		}
		if err != nil {
			return &CorruptError{r.file.path, at, fmt.Sprintf("round %d, frame %d: %v", r.round, n, err)}
		}
	}
	return nil
}

// replayFrame applies one frame, unless the checkpoint covers it. An error is a contradiction between what is on disk.
func (s *Store) replayFrame(f *frame, ticket Ticket, unsynced bool, void map[uint64]bool) error {
	if f.kind == frameHardState {
		s.hardState = append([]byte(nil), f.body...)
		return nil
	}
	l := s.byNumber[f.number]
	switch {
	case void[f.number]:
		return nil
	case f.kind == frameCreate && l == nil && f.number >= s.nextNumber:
		return s.replayCreate(f)
	case l == nil && f.number < s.nextNumber:
		return nil // dropped, before the checkpoint or by a frame
	case l == nil:
		return fmt.Errorf("log %d was never made", f.number)
	case f.seq <= l.seq && !s.hooks.anyFrameSeq:
		return nil // covered
	case f.seq != l.seq+1 || f.prevEnd != l.end || f.id != l.id:
		return fmt.Errorf("log %d: frame %d follows %d, previous end %d is %d", f.number, f.seq, l.seq, f.prevEnd, l.end)
	}
	if !l.dirty {
		l.dirty = true
		s.dirty = append(s.dirty, l)
	}
	switch f.kind {
	case frameAppend:
		return l.replayAppend(f)
	case frameDirect:
		ok, err := l.replayDirect(f, unsynced)
		void[f.number] = !ok
		return err
	case frameTruncate:
		return l.replayTruncate(f)
	case frameCompact:
		return l.replayCompact(f)
	case frameStart:
		if f.end > l.end {
			return fmt.Errorf("log %d: start %d is beyond the end %d", f.number, f.end, l.end)
		}
		l.applyStart(f, 0)
	case frameRestart:
		l.applyRestart(f, 0)
	case frameDrop:
		l.applyDrop(f, 0)
		delete(s.byNumber, l.number)
	default:
		return fmt.Errorf("log %d is made again", f.number)
	}
	return nil
}

func (s *Store) replayCreate(f *frame) error {
	if s.logs[f.id] != nil {
		return fmt.Errorf("log %d has the id of log %d", f.number, s.logs[f.id].number)
	}
	l := &Log{store: s, id: f.id, name: string(f.body), number: f.number, nextFile: 1, seq: f.seq, dirty: true}
	l.cfg.SetDefaults()
	s.logs[f.id], s.byNumber[f.number] = l, l
	s.nextNumber = f.number + 1
	s.dirty = append(s.dirty, l)
	return nil
}

func (l *Log) replayAppend(f *frame) error {
	b, err := ParseBatch(f.body)
	if err != nil || len(b) != len(f.body) {
		return fmt.Errorf("log %d: append holds no batch: %v", f.number, err)
	}
	if err := l.checkPlace(f, b.BaseOffset()); err != nil {
		return err
	}
	l.applyAppend(f, b, 0)
	return nil
}

// checkPlace sees that a frame continues the log's last file, or begins a new one.
func (l *Log) checkPlace(f *frame, base int64) error {
	n := len(l.segments)
	continues := n > 0 && f.file == l.segments[n-1].file && f.place == l.segments[n-1].size && !l.closed
	begins := f.file >= l.nextFile && f.place == 0
	if base < l.end || !continues && !begins {
		return fmt.Errorf("log %d: offset %d at place %d of file %d fits nowhere (end %d, next file %d)", f.number, base, f.place, f.file, l.end, l.nextFile)
	}
	return nil
}

// replayDirect takes bytes that were written to their segment before the round. If they are not what the frame says, the round's syncs
// had not all returned, which is possible only for a round that nothing proves synced: ok is false and the log ends before the frame.
func (l *Log) replayDirect(f *frame, unsynced bool) (ok bool, err error) {
	data, cause := l.readDirect(f)
	if cause != nil && unsynced {
		return false, nil
	}
	if cause != nil {
		return false, fmt.Errorf("log %d: bytes of a direct frame at place %d of file %d in %s: %w", f.number, f.place, f.file, l.dir(), cause)
	}
	for place := f.place; len(data) > 0; {
		b, err := ParseBatch(data)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return false, fmt.Errorf("log %d: direct frame at place %d: %w", f.number, place, err)
		}
		step := *f
		step.place = place
		if err := l.checkPlace(&step, b.BaseOffset()); err != nil {
			return false, err
		}
		l.extend(&step, b)
		l.learn(b, f.nowMs, 0)
		data, place = data[len(b):], place+int64(len(b))
	}
	l.seq = f.seq
	l.noteEnd(0)
	l.store.hasUnsynced = true // after a kill they may be in memory only
	return true, nil
}

// readDirect reads the frame's bytes and compares their CRC.
func (l *Log) readDirect(f *frame) ([]byte, error) {
	names, err := l.store.opts.FS.List(l.dir())
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if key, ok := parseFileName(name); !ok || key != (segmentKey{file: f.file}) {
			continue
		}
		return readDirectAt(l.store.opts.FS, path.Join(l.dir(), name), f)
	}
	return nil, fmt.Errorf("file %d is not there", f.file)
}

func readDirectAt(fs vfs.FS, p string, f *frame) ([]byte, error) {
	in, err := fs.Open(p)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil || f.place > size-int64(f.bytes) {
		return nil, fmt.Errorf("%d bytes are not all there: %v", f.bytes, err)
	}
	data := make([]byte, f.bytes)
	if _, err := in.ReadAt(data, f.place); err != nil {
		return nil, fmt.Errorf("read %d bytes: %w", f.bytes, err)
	}
	if sum := crc32.Checksum(data, castagnoli); sum != f.crc {
		return nil, fmt.Errorf("crc %08x, the frame says %08x", sum, f.crc)
	}
	return data, nil
}

func (l *Log) replayTruncate(f *frame) error {
	ok := f.file == 0 && f.place == 0
	for i := range l.segments {
		ok = ok || l.segments[i].file == f.file && f.place <= l.segments[i].size
	}
	if !ok || f.end > l.end || f.end < l.start {
		return fmt.Errorf("log %d: truncation to %d at place %d of file %d, the log is [%d, %d)", f.number, f.end, f.place, f.file, l.start, l.end)
	}
	l.applyTruncate(f, 0)
	return nil
}

// spill writes tails to their segments to free memory during a replay. No checkpoint names the bytes yet; nothing is cut.
func (s *Store) spill() error {
	for _, l := range s.dirty {
		if l.dropped || len(l.tail) == 0 {
			continue
		}
		c := &capture{log: l, writes: l.tail, names: l.fileNames(l.tail[0].file)}
		if err := s.writeTail(c, false); err != nil {
			return err
		}
		l.dropTail(0, len(l.tail))
		s.hasUnsynced = true
	}
	return nil
}
