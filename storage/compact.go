package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// Compaction of a log with CleanupCompact: of its closed segments only the newest record of each key stays.
//
//  1. The sources are all segments before the last whose batches are on disk: none of them changes any more, but by a truncation, a
//     start change or a drop.
//  2. A map of the keys written since the last compaction (compact_keys.go); what an older record has in it, supersedes that record.
//  3. The sources are rewritten to new files (compact_batch.go), several small ones into one, and the files synced. Nothing names them yet.
//  4. A frame says which segments take the place of the sources, if those are still what they were. It is applied at once and by
//     replay, like every other frame: its files are durable before it is.
//  5. A checkpoint that covers the frame lets the old files go, as after a truncation.
//
// A crash before 4 leaves files that nothing names, which opening removes. Offsets never change, batches are never joined: a batch loses
// records, or goes as a whole. A file that takes another's place has its number and a higher version, so numbers stay in order.

// compaction is one run over one log.
type compaction struct {
	store   *Store
	log     *Log
	cfg     LogConfig
	now     time.Time
	sources []segment
	cuts    uint64 // as long as the log's is the same, so are the sources, and no producer has gone back
	cleaned int64  // offsets below it were compacted before
	last    map[int64]lastSent
	keys    keySet

	outputs   []segment
	made      []segment // those of outputs that are new files
	current   *compactFile
	horizonMs int64 // earliest at which a tombstone may go; 0: none waits
	began     time.Time
	readBytes int64
}

// lastSent is the newest sequence of a producer, whose batch stays: followers know the producer from it.
type lastSent struct {
	epoch int16
	seq   int32
}

// compactPause is how long a log whose compaction failed is left alone.
const compactPause = 5 * time.Minute

// Compact compacts the log that needs it most, and reports whether one did. On an error the log is as it was, and left alone for a
// while. One at a time; it may overlap everything else but Close.
func (s *Store) Compact(ctx context.Context, now time.Time) (did bool, err error) {
	s.compactMu.Lock()
	defer s.compactMu.Unlock()
	c := s.chooseCompaction(now)
	if c == nil {
		return false, nil
	}
	if err = c.run(ctx); err != nil {
		c.discard()
		c.log.mu.Lock()
		defer c.log.mu.Unlock()
		if c.log.dropped {
			return false, nil
		}
		if c.log.cuts != c.cuts { // whatever it met
			c.log.compactAfter = now.Add(s.opts.CompactionInterval)
			return false, nil
		}
		c.log.compactAfter = now.Add(compactPause)
		return false, fmt.Errorf("compact %s: %w", c.log.name, err)
	}
	return true, nil
}

// chooseCompaction looks for the log with the largest share of bytes not compacted yet.
func (s *Store) chooseCompaction(now time.Time) (best *compaction) {
	s.mu.Lock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		logs = append(logs, l)
	}
	s.mu.Unlock()
	var bestLog *Log
	bestRatio := 0.0
	for _, l := range logs {
		ratio := l.dirtyRatio(now)
		if ratio > bestRatio || ratio > 0 && ratio == bestRatio && l.number < bestLog.number {
			bestLog, bestRatio = l, ratio
		}
	}
	if bestLog == nil {
		return nil
	}
	return bestLog.planCompaction(now)
}

// dirtyRatio is the share of what may be compacted that was not, 0 if it is too small; records that have waited too long and
// tombstones that are due count as everything.
func (l *Log) dirtyRatio(now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped || l.cfg.Cleanup&CleanupCompact == 0 || now.Before(l.compactAfter) {
		return 0
	}
	l.closeOld(now)
	sources := l.compactable(now)
	var dirty, total int64
	isLate := false
	for i := range sources {
		total += sources[i].size
		if sources[i].end > l.cleaned {
			dirty += sources[i].size
			isLate = isLate || l.cfg.MaxCompactionLag > 0 && now.UnixMilli()-sources[i].createdMs >= l.cfg.MaxCompactionLag.Milliseconds()
		}
	}
	switch {
	case isLate, total > 0 && l.horizonMs > 0 && now.UnixMilli() >= l.horizonMs:
		return 1
	case total == 0 || float64(dirty)/float64(total) < l.cfg.MinDirtyRatio:
		return 0
	}
	return float64(dirty) / float64(total)
}

// closeOld closes the last segment when its records must be compacted soon and nothing is appended that would. It needs no frame: the
// next batch says itself that it begins a file. Called with mu held.
func (l *Log) closeOld(now time.Time) {
	n := len(l.segments)
	if l.cfg.MaxCompactionLag > 0 && n > 0 && now.UnixMilli()-l.segments[n-1].createdMs >= l.cfg.segmentAge().Milliseconds() {
		l.closed = true
	}
}

// compactable is the closed segments that are on disk and old enough. Called with mu held.
func (l *Log) compactable(now time.Time) []segment {
	n := len(l.segments)
	if n > 0 && !l.closed {
		n--
	}
	for i := range n {
		g := &l.segments[i]
		isYoung := l.cfg.MinCompactionLag > 0 && g.maxTimestamp > now.Add(-l.cfg.MinCompactionLag).UnixMilli()
		if isYoung || !l.isStable(g) {
			return l.segments[:i]
		}
	}
	return l.segments[:n]
}

func (l *Log) planCompaction(now time.Time) *compaction {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &compaction{store: l.store, log: l, cfg: l.cfg, now: now, cuts: l.cuts, cleaned: l.cleaned, last: make(map[int64]lastSent, len(l.producer)), began: time.Now()}
	if c.sources = append(c.sources, l.compactable(now)...); len(c.sources) == 0 {
		return nil
	}
	for id, p := range l.producer {
		c.last[id] = lastSent{p.epoch, addSequence(p.nextSeq, -1)}
	}
	return c
}

func (c *compaction) run(ctx context.Context) error {
	if err := c.gatherKeys(ctx); err != nil {
		return err
	}
	if err := c.rewrite(ctx); err != nil {
		return err
	}
	if len(c.made) > 0 && !c.store.hooks.skipNewSync {
		if err := c.store.opts.FS.SyncDir(c.log.dir()); err != nil {
			return fmt.Errorf("sync folder: %w", err)
		}
	}
	return c.swap()
}

// rewrite writes what stays of the sources.
func (c *compaction) rewrite(ctx context.Context) error {
	ordinal := 0
	for i := range c.sources {
		if err := c.beginSource(&c.sources[i]); err != nil {
			return err
		}
		err := c.scan(ctx, &c.sources[i], func(b Batch) error {
			rest, err := c.compactBatch(b, &ordinal)
			if err != nil || rest == nil {
				c.current.isChanged = true
				return err
			}
			c.current.isChanged = c.current.isChanged || &rest[0] != &b[0]
			return c.current.add(rest)
		})
		if err != nil {
			return err
		}
	}
	return c.endFile()
}

// beginSource lets the current file take the next source in, or ends it and begins another in the source's place.
func (c *compaction) beginSource(g *segment) error {
	if f := c.current; f != nil {
		if f.size+g.size <= c.cfg.SegmentBytes && g.end-f.sourceBase <= 1<<31-1 {
			f.sources++
			f.isChanged = true
			f.version = max(f.version, g.version+1)
			f.createdMs = max(f.createdMs, g.createdMs)
			return nil
		}
		if err := c.endFile(); err != nil {
			return err
		}
	}
	c.current = &compactFile{store: c.store, dir: c.log.dir(), source: *g, sourceBase: g.base, sources: 1,
		segment: segment{file: g.file, version: g.version + 1, createdMs: g.createdMs, maxTimestamp: -1}}
	return nil
}

// endFile syncs the current file, if anything is in it, and takes it for its sources; a source of which everything stays is left as it is.
func (c *compaction) endFile() error {
	f := c.current
	c.current = nil
	if f == nil {
		return nil
	}
	if f.sources == 1 && !f.isChanged {
		c.outputs = append(c.outputs, f.source)
		return f.remove()
	}
	if f.size == 0 {
		return nil
	}
	c.made = append(c.made, f.segment)
	if err := f.finish(); err != nil {
		return err
	}
	c.outputs = append(c.outputs, f.segment)
	return nil
}

// discard removes the files of a run that came to nothing.
func (c *compaction) discard() {
	if c.current != nil {
		_ = c.current.remove()
	}
	for i := range c.made {
		p := path.Join(c.log.dir(), c.made[i].fileName())
		if err := c.store.opts.FS.Remove(p); err != nil && !vfs.IsNotExist(err) && c.store.Err() == nil {
			c.store.log.Warn("file of a compaction stays until the next start", "file", p, "error", err)
		}
	}
}

// errSourcesChanged: a truncation, a start change or a drop came between.
var errSourcesChanged = errors.New("the segments changed meanwhile")

// swap puts the frame, and applies it.
func (c *compaction) swap() error {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return ErrDropped
	}
	if l.cuts != c.cuts {
		return errSourcesChanged
	}
	n := len(c.sources)
	f := l.next(frameCompact, c.now)
	f.file, f.place, f.end = c.sources[n-1].file, c.horizonMs, c.sources[n-1].end
	f.body = appendSegments(nil, c.outputs)
	_, ticket, err := l.store.put(l, &f)
	if err != nil {
		return err
	}
	l.applyCompact(&f, c.outputs, ticket)
	l.store.compacted.Add(1)
	return nil
}

// applyCompact puts outputs in the place of all segments up to file f.file. Called with mu held.
func (l *Log) applyCompact(f *frame, outputs []segment, ticket Ticket) {
	n := l.segmentOf(f.file) + 1
	kept := make(map[segmentKey]bool, len(outputs))
	for i := range outputs {
		kept[outputs[i].key()] = true
	}
	for i := range l.segments[:n] {
		if g := &l.segments[i]; !kept[g.key()] {
			l.garbage = append(l.garbage, garbageFile{seq: f.seq, name: g.fileName(), key: g.key()})
		}
	}
	l.segments = append(append([]segment(nil), outputs...), l.segments[n:]...)
	l.closed = l.closed || len(l.segments) == 0
	l.cleaned, l.horizonMs = f.end, f.place
	l.cuts++
	l.seq, l.ticket = f.seq, ticket
}

// replayCompact checks that the frame fits what is there.
func (l *Log) replayCompact(f *frame) error {
	d := &decoder{data: f.body}
	outputs := decodeSegments(d, checkpointVersion)
	n := l.segmentOf(f.file) + 1
	ok := !d.bad && len(d.data) == 0 && n <= len(l.segments) && l.segments[n-1].file == f.file && f.end <= l.end
	for i := range outputs {
		g := &outputs[i]
		ok = ok && g.size > 0 && g.base < g.end && g.end <= f.end && g.file <= f.file && (i == 0 || outputs[i-1].end <= g.base && outputs[i-1].file < g.file)
	}
	if !ok {
		return fmt.Errorf("log %d: compaction of files up to %d to %+v does not fit %+v", f.number, f.file, outputs, l.segments)
	}
	l.applyCompact(f, outputs, 0)
	return nil
}
