package storage

import (
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"slices"

	"github.com/weirlog/weir/storage/vfs"
)

// Direct writes. What passes through the write-ahead log is written twice. So where a log has much in a round, its batches go straight to
// its segments, and the round holds frames that say where they lie, with their CRC.
//
//  1. A round that is about to be written has its frames; whatever comes now is in a later one. Its largest logs are chosen, but for one
//     of whose batches a later round has already cut some: it is left as it is.
//  2. All of such a log that only memory and the write-ahead log hold goes to its segments, what earlier rounds brought too: there are
//     no holes, and memory holds a suffix of the log again (invariant 8).
//  3. The round's appends of the log become direct frames. A disk that is full changes nothing: the round keeps its appends, for which it
//     has room, and nothing is written directly until a flush succeeds.
//  4. The round is written, then its file, those of the segments and the folders of new ones are synced, in any order or at once. Only then is
//     the round complete, and the next one begun (invariant 9).
//  5. The batches leave memory.
//
// A crash before 4 is done finds the newest round with direct frames whose bytes are not there: then it is torn, like one whose own bytes
// are not. In a round that a later one says was synced, it is damage.

// directWrite is what one log has in a round, on its way to the log's segments.
type directWrite struct {
	log    *Log
	bytes  int64
	runs   []frame // direct frames, each for appends in a row
	seq    uint64  // of the last append
	tail   []tailBatch
	names  map[uint64]string // of the files of tail
	files  []*handle         // in use since the write
	newest uint64            // of them
}

// directFile is a file that was written directly since the last checkpoint: a replay wants its bytes, and that it is the log's.
type directFile struct {
	file uint64
	seq  uint64 // of the last frame with a batch in it
}

// weigh notes what a frame adds to its log's part of the open round. Called with mu held.
func (s *Store) weigh(l *Log, f *frame) {
	if l.inRound != s.open.number {
		l.inRound, l.roundBytes = s.open.number, 0
	}
	before := l.roundBytes
	l.roundBytes += int64(len(f.body))
	if least := int64(s.opts.directBytes); before < least && l.roundBytes >= least && !l.cfg.UsesReserve {
		s.open.heavy = append(s.open.heavy, l)
	}
}

// writeDirect is steps 1 to 3; rest is what is left of the round.
func (s *Store) writeDirect(r *round, synced Ticket) (rest roundBody, writes []*directWrite, err error) {
	if len(r.heavy) == 0 || s.isDirectOff.Load() {
		return r.roundBody, nil, nil
	}
	if isNew := func(l *Log) bool { return l.created > synced }; s.opts.Sync == SyncOS && slices.ContainsFunc(r.heavy, isNew) {
		if err := s.syncWAL(); err != nil { // once for a log
			return rest, nil, err
		}
		synced = r.number - 1
	}
	byNumber := map[uint64]*directWrite{}
	for _, d := range s.planDirect(r) {
		if !d.take(synced, s.hooks.skipOlder) {
			continue
		}
		if err := s.writeOut(d); err != nil {
			s.releaseWriters(d)
			if !vfs.IsFull(err) {
				return rest, writes, err
			}
			s.isDirectOff.Store(true)
			break
		}
		byNumber[d.log.number] = d
		writes = append(writes, d)
		r.directBytes += d.bytes
	}
	if len(writes) == 0 {
		return r.roundBody, nil, nil
	}
	return r.without(byNumber), writes, nil
}

// planDirect chooses the largest of the heavy logs, and makes their frames.
func (s *Store) planDirect(r *round) []*directWrite {
	all := make([]*directWrite, 0, len(r.heavy))
	byNumber := make(map[uint64]*directWrite, len(r.heavy))
	for _, l := range r.heavy {
		d := &directWrite{log: l}
		all, byNumber[l.number] = append(all, d), d
	}
	r.visit(func(f *frame, _ frameSpan) {
		if d := byNumber[f.number]; d != nil && f.kind == frameAppend {
			d.bytes += int64(len(f.body))
		}
	})
	slices.SortStableFunc(all, func(a, b *directWrite) int { return int(b.bytes - a.bytes) })
	for _, d := range all[min(len(all), s.opts.directLogs):] {
		delete(byNumber, d.log.number)
	}
	r.visit(func(f *frame, _ frameSpan) {
		if d := byNumber[f.number]; d != nil && f.kind == frameAppend {
			d.add(f)
		}
	})
	return all[:min(len(all), s.opts.directLogs)]
}

// add takes an append in, into the frame of those before it if nothing lies between.
func (d *directWrite) add(f *frame) {
	n := len(d.runs)
	if n == 0 || !d.runs[n-1].precedes(f) {
		d.runs = append(d.runs, frame{kind: frameDirect, id: f.id, number: f.number, prevEnd: f.prevEnd, nowMs: f.nowMs, file: f.file, place: f.place})
		n++
	}
	run := &d.runs[n-1]
	run.seq = f.seq
	run.batches++
	run.bytes += uint32(len(f.body))
	run.crc = crc32.Update(run.crc, castagnoli, f.body)
	d.seq = f.seq
}

// precedes says that an append directly follows a direct frame.
func (f *frame) precedes(next *frame) bool {
	return f.file == next.file && f.place+int64(f.bytes) == next.place && f.seq+1 == next.seq
}

// take copies the log's tail up to the round's last append; false when not all of the round's is there any more, or the log itself might
// not be there after a crash, which would leave a folder that nobody knows.
func (d *directWrite) take(synced Ticket, skipOlder bool) bool {
	l := d.log
	l.mu.Lock()
	defer l.mu.Unlock()
	want, first := 0, d.runs[0].firstSeq()
	for i := range d.runs {
		want += int(d.runs[i].batches)
	}
	n, older := 0, 0
	for n < len(l.tail) && l.tail[n].seq <= d.seq {
		if l.tail[n].seq < first {
			older++
		}
		n++
	}
	if l.dropped || l.created > synced || n-older != want {
		return false
	}
	if !skipOlder {
		older = 0
	}
	d.tail = slices.Clone(l.tail[older:n])
	d.names = l.fileNames(d.tail[0].file)
	for i := range d.tail {
		l.noteDirect(d.tail[i].file, d.tail[i].seq)
	}
	return true
}

// noteDirect remembers that a frame's batch is written directly. Called with mu held.
func (l *Log) noteDirect(file, seq uint64) {
	if n := len(l.direct); n > 0 && l.direct[n-1].file == file {
		l.direct[n-1].seq = seq
		return
	}
	l.direct = append(l.direct, directFile{file, seq})
}

// isDirect says that the file was written directly since the last checkpoint. Called with mu held.
func (l *Log) isDirect(file uint64) bool {
	return slices.ContainsFunc(l.direct, func(d directFile) bool { return d.file == file })
}

// writeOut is step 2 for one log.
func (s *Store) writeOut(d *directWrite) error {
	if err := s.makeLogDir(d.log); err != nil {
		return err
	}
	dir := d.log.dir()
	return eachFile(d.tail, func(file uint64, batches []tailBatch) error {
		h, err := s.writers.acquire(handleKey{d.log.number, segmentKey{file: file}}, path.Join(dir, d.names[file]), 0)
		if err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		d.files, d.newest = append(d.files, h), file
		return writeBatches(h.file, batches)
	})
}

// syncRound is step 4's syncs.
func (s *Store) syncRound(r *round, writes []*directWrite) error {
	files := []vfs.File{r.file.file}
	for _, d := range writes {
		for _, h := range d.files {
			if !s.hooks.skipDirectSync {
				files = append(files, h.file)
			}
		}
	}
	if err := s.opts.FS.SyncFiles(files); err != nil {
		return fmt.Errorf("sync round %d in %s: %w", r.number, r.file.path, err)
	}
	for _, d := range writes {
		if err := s.syncEntries(d); err != nil {
			return err
		}
	}
	return nil
}

// maxWriters is how many segments are kept open for direct writes.
const maxWriters = 128

// noteUnsynced leaves the syncs of direct writes to the next flush, as SyncOS leaves that of the write-ahead log.
func (s *Store) noteUnsynced(writes []*directWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsynced == nil {
		s.unsynced = map[string]string{}
	}
	for _, d := range writes {
		for _, name := range d.names {
			s.unsynced[path.Join(d.log.dir(), name)] = d.log.dir()
		}
	}
}

// syncDirect makes up for what noteUnsynced left: a round may be called synced after it (invariant 9).
func (s *Store) syncDirect() error {
	s.mu.Lock()
	files := s.unsynced
	s.unsynced = nil
	s.mu.Unlock()
	if len(files) == 0 || s.hooks.claimDirect {
		return nil
	}
	if len(files) > s.opts.fewFiles {
		if err := s.opts.FS.SyncFS(s.opts.Dir); err != nil {
			return syncError{fmt.Errorf("sync segments: %w", err)}
		}
		return nil
	}
	dirs := map[string]bool{s.logsDir(): true}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		dirs[files[p]] = true
		if err := s.syncFile(p); err != nil {
			return err
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := s.syncDir(dir); err != nil && !vfs.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// syncFile syncs a segment, unless it has been removed meanwhile.
func (s *Store) syncFile(p string) error {
	f, err := s.opts.FS.Open(p)
	if vfs.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return syncError{fmt.Errorf("sync segment: %w", err)}
	}
	return nil
}

// syncEntries makes the folders' entries of files durable, that of the log's folder too, the first time that each is written to.
// Flush may have made a file and not be there yet, so only what was synced here counts.
func (s *Store) syncEntries(d *directWrite) error {
	l := d.log
	if d.newest <= l.syncedEntries || s.hooks.skipDirectDir {
		return nil
	}
	if err := s.syncDir(l.dir()); err != nil {
		return err
	}
	if l.syncedEntries == 0 {
		if err := s.syncDir(s.logsDir()); err != nil {
			return err
		}
	}
	l.syncedEntries = d.newest
	return nil
}

// settle is step 5.
func (s *Store) settle(d *directWrite) {
	s.releaseWriters(d)
	l := d.log
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.tail) && l.tail[n].seq <= d.seq {
		n++
	}
	l.dropTail(0, n)
	l.writtenSeq = max(l.writtenSeq, d.seq)
}

func (s *Store) releaseWriters(d *directWrite) {
	for _, h := range d.files {
		s.writers.release(h)
	}
	d.files = nil
}

// frameSpan is where a frame lies in its round's chunks.
type frameSpan struct {
	chunk    int
	from, to int
	ownBody  bool // the body is the next chunk
}

// visit goes through the frames of a round that isn't finished.
func (r *round) visit(see func(f *frame, at frameSpan)) {
	from := roundHeaderBytes
	for i := 0; i < len(r.chunks); i++ {
		c, step := r.chunks[i], 0
		for from < len(c) {
			f, length := parseHead(c[from:])
			at := frameSpan{chunk: i, from: from, to: from + frameHeadBytes + length}
			fixed := f.kind.fixedBytes()
			if at.ownBody = at.to > len(c); at.ownBody {
				at.to = len(c)
				f.body = r.chunks[i+1]
				step = 1
			} else {
				f.body = c[from+frameHeadBytes+fixed : at.to : at.to]
			}
			f.readFixed(c[from+frameHeadBytes:])
			see(&f, at)
			from = at.to
		}
		i += step
		from = 0
	}
}

// without is the round's body with direct frames where the last of their appends are, and those left out. What stays is not copied, and has
// no room behind it for the trailer, for there lie batches that tails refer to.
func (r *round) without(writes map[uint64]*directWrite) (b roundBody) {
	b.chunks = [][]byte{make([]byte, roundHeaderBytes, blockBytes)}
	open := frameSpan{chunk: -1}
	flush := func() {
		if open.chunk >= 0 {
			b.chunks = append(b.chunks, r.chunks[open.chunk][open.from:open.to:open.to])
		}
		open.chunk = -1
	}
	r.visit(func(f *frame, at frameSpan) {
		d := writes[f.number]
		if d == nil || f.kind != frameAppend {
			if open.chunk != at.chunk || open.to != at.from {
				flush()
				open = at
			}
			open.to = at.to
			if at.ownBody {
				flush()
				b.chunks = append(b.chunks, f.body)
			}
			b.bytes += int64(f.encodedBytes())
			b.frames++
			return
		}
		flush()
		if i := slices.IndexFunc(d.runs, func(run frame) bool { return run.seq == f.seq }); i >= 0 {
			head := make([]byte, d.runs[i].encodedBytes())
			d.runs[i].putHead(head)
			b.chunks = append(b.chunks, head)
			b.bytes += int64(len(head))
			b.frames++
		}
	})
	flush()
	return b
}
