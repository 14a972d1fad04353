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
		if ok && r.round > synced { // one that was synced is damaged if bytes are missing
			if ok, err = s.hasAllDirect(frames); err != nil {
				return 0, err
			}
		}
		if !ok {
			break
		}
		if err := s.replayRound(r, frames); err != nil {
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

// scanRounds finds the round headers of this store's last opening in a file. It looks wherever one may begin, but inside another.
func (s *Store) scanRounds(f *walFile, found func(foundRound)) error {
	size, err := f.file.Size()
	if err != nil {
		return fmt.Errorf("size of write-ahead file: %w", err)
	}
	window := make([]byte, 0, 256<<10)
	windowAt := int64(0)
	for place := int64(0); place+minAlignBytes <= size; {
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
			place += minAlignBytes
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
func (s *Store) replayRound(r foundRound, frames []byte) error {
	rest := frames
	for n := uint32(0); len(rest) > 0; n++ {
		at := r.place + roundHeaderBytes + int64(len(frames)-len(rest))
		var f frame
		var err error
		if f, rest, err = parseFrame(rest); err == nil {
			if s.hooks.ignoreFrame == nil || !s.hooks.ignoreFrame(&f) {
				err = s.replayFrame(&f)
			}
		}
		if damage := (*CorruptError)(nil); errors.As(err, &damage) {
			return err
		}
		if err != nil {
			return &CorruptError{r.file.path, at, fmt.Sprintf("round %d, frame %d: %v", r.round, n, err)}
		}
	}
	return nil
}

// hasAllDirect says that the bytes are there that direct frames of a round name: all its syncs have returned, or might have. Frames that
// the checkpoint covers are passed over: it was written when their round was complete, and their bytes may have been cut since.
func (s *Store) hasAllDirect(frames []byte) (bool, error) {
	for len(frames) > 0 {
		f, rest, err := parseFrame(frames)
		if err != nil {
			return true, nil //nolint:nilerr // the replay says so
		}
		frames = rest
		l := s.byNumber[f.number]
		if f.kind == frameDirect && l != nil && f.seq > l.seq { // a new log is never written directly in the round that makes it
			_, _, err = l.readDirect(&f)
		}
		if damage := (*CorruptError)(nil); errors.As(err, &damage) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// replayFrame applies one frame, unless the checkpoint covers it. An error is a contradiction between what is on disk.
func (s *Store) replayFrame(f *frame) error {
	if f.kind == frameHardState {
		s.hardState = append([]byte(nil), f.body...)
		return nil
	}
	l := s.byNumber[f.number]
	switch {
	case f.kind == frameCreate && l == nil && f.number >= s.nextNumber:
		return s.replayCreate(f)
	case l == nil && f.number < s.nextNumber:
		return nil // dropped, before the checkpoint or by a frame
	case l == nil:
		return fmt.Errorf("log %d was never made", f.number)
	case f.seq <= l.seq && !s.hooks.anyFrameSeq:
		return nil // covered
	case f.firstSeq() > l.seq+1 || f.firstSeq() == l.seq+1 && f.prevEnd != l.end || f.id != l.id:
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
		return l.replayDirect(f)
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

// replayDirect takes bytes that were written to their segment with the round. Behind batches in memory they go there too, for that is a
// suffix of the log; else they stay where they are.
func (l *Log) replayDirect(f *frame) error {
	data, p, err := l.readDirect(f)
	if err != nil {
		return err
	}
	l.noteDirect(f.file, f.seq)
	l.store.hasUnsynced = true // after a kill they may be in memory only
	step := *f
	for step.seq = f.firstSeq(); len(data) > 0; step.seq++ {
		b, err := ParseBatch(data)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil || step.seq > f.seq {
			return &CorruptError{p, step.place, fmt.Sprintf("batch %d of direct frame %d of log %d: %v", step.seq-f.firstSeq(), f.seq, f.number, err)}
		}
		if step.seq > l.seq { // else the checkpoint covers it
			if err := l.checkPlace(&step, b.BaseOffset()); err != nil {
				return err
			}
			l.replayInPlace(&step, b)
		}
		data, step.place = data[len(b):], step.place+int64(len(b))
	}
	if l.seq != f.seq {
		return fmt.Errorf("log %d: direct frame %d ends with batch %d", f.number, f.seq, l.seq)
	}
	return nil
}

// replayInPlace takes a batch that is in its segment.
func (l *Log) replayInPlace(f *frame, b Batch) {
	if len(l.tail) > 0 {
		l.applyAppend(f, b, 0)
		return
	}
	l.extend(f, b)
	l.learn(b, f.nowMs, 0)
	l.seq = f.seq
	l.noteEnd(0)
}

// readDirect reads the frame's bytes and compares their CRC; p is their file. What is damaged or missing is a CorruptError.
func (l *Log) readDirect(f *frame) (data []byte, p string, err error) {
	names, err := l.store.opts.FS.List(l.dir())
	if err != nil && !vfs.IsNotExist(err) {
		return nil, "", fmt.Errorf("look into %s: %w", l.dir(), err)
	}
	for _, name := range names {
		if key, ok := parseFileName(name); ok && key == (segmentKey{file: f.file}) {
			p = path.Join(l.dir(), name)
			data, err = l.store.readDirectAt(p, f)
			return data, p, err
		}
	}
	return nil, "", &CorruptError{l.dir(), f.place, fmt.Sprintf("file %d of a direct frame is missing", f.file)}
}

func (s *Store) readDirectAt(p string, f *frame) ([]byte, error) {
	in, err := s.opts.FS.Open(p)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return nil, fmt.Errorf("size of segment: %w", err)
	}
	if f.place > size-int64(f.bytes) {
		return nil, &CorruptError{p, size, fmt.Sprintf("the file ends within a direct frame's %d bytes at %d", f.bytes, f.place)}
	}
	data := make([]byte, f.bytes)
	if _, err := in.ReadAt(data, f.place); err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	if sum := crc32.Checksum(data, castagnoli); sum != f.crc && !s.hooks.believeDirect {
		return nil, &CorruptError{p, f.place, fmt.Sprintf("crc of %d bytes is %08x, a direct frame says %08x", f.bytes, sum, f.crc)}
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
