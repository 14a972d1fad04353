package storage

import (
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/weirlog/weir/storage/vfs"
)

// segment is one file of a log. A file's number is never used again, and bytes at a place of a file never change:
// it grows at its end until it is closed (rolled or cut), and then only shrinks. So whatever was learnt about a place
// below the size stays true.
type segment struct {
	file         uint64
	version      uint32 // of the file with this number: each compaction that rewrites it makes a new one
	base         int64  // first offset
	end          int64  // after the last
	size         int64  // bytes, with those still in the tail
	createdMs    int64  // store's clock at the first batch
	maxTimestamp int64  // of all batches that were ever in it: an upper bound after a cut
}

// segmentKey names a file of a log.
type segmentKey struct {
	file    uint64
	version uint32
}

func (g *segment) key() segmentKey { return segmentKey{g.file, g.version} }

// fileName is "<first offset, 20 digits>-<file number>.log", or after a compaction "<first offset>-<file number>.<version>.log".
func (g *segment) fileName() string {
	if g.version > 0 {
		return fmt.Sprintf("%020d-%d.%d.log", g.base, g.file, g.version)
	}
	return fmt.Sprintf("%020d-%d.log", g.base, g.file)
}

// parseFileName is the inverse of fileName.
func parseFileName(name string) (key segmentKey, ok bool) {
	stem, isLog := strings.CutSuffix(name, ".log")
	_, number, hasNumber := strings.Cut(stem, "-")
	number, digits, hasVersion := strings.Cut(number, ".")
	file, err := strconv.ParseUint(number, 10, 64)
	version := uint64(0)
	if err == nil && hasVersion {
		version, err = strconv.ParseUint(digits, 10, 32)
	}
	return segmentKey{file, uint32(version)}, isLog && hasNumber && err == nil
}

// logsDir is the folder of log folders.
func (s *Store) logsDir() string { return path.Join(s.opts.Dir, "logs") }

// dir is the log's folder, "<log number, 10 digits>-<name>". It is made when first needed.
func (l *Log) dir() string {
	return path.Join(l.store.logsDir(), fmt.Sprintf("%010d-%s", l.number, folderName(l.name)))
}

// parseDirName reads the log number from a folder's name.
func parseDirName(name string) (number uint64, ok bool) {
	digits, _, hasName := strings.Cut(name, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, hasName && err == nil
}

// folderName makes a name harmless as part of a folder's name.
func folderName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name[:min(len(name), 200)])
}

// segmentIndex is a sparse index of one file: places of batches with their offset and the largest timestamp before them.
// It is made from the data itself by whoever scans it, from the start on, and never written: the data cannot disagree with it.
// At most maxIndexEntries are kept: when full, every second goes and the interval doubles.
type segmentIndex struct {
	interval     int64
	entries      []indexEntry
	scanned      int64 // place up to which batches have been seen
	maxTimestamp int64 // of those
}

type indexEntry struct {
	base         int64 // offset of the batch at place
	place        int64
	maxTimestamp int64 // of all batches before it
}

const maxIndexEntries = 1024

// add notes the batch at place, if it is the next one not yet seen.
func (x *segmentIndex) add(b batchHead, place int64) {
	if place != x.scanned {
		return
	}
	if n := len(x.entries); n == 0 || place >= x.entries[n-1].place+x.interval {
		x.entries = append(x.entries, indexEntry{b.base, place, x.maxTimestamp})
	}
	if n := len(x.entries); n == maxIndexEntries {
		for i := 1; 2*i < n; i++ {
			x.entries[i] = x.entries[2*i]
		}
		x.entries = x.entries[:n/2]
		x.interval *= 2
	}
	x.scanned = place + int64(b.size)
	x.maxTimestamp = max(x.maxTimestamp, b.maxTimestamp)
}

// placeOf is the place of a batch at or before the one that holds the offset.
func (x *segmentIndex) placeOf(offset int64) int64 {
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].base > offset })
	if i == 0 {
		return 0
	}
	return x.entries[i-1].place
}

// baseOfTime is an offset before which no batch has a timestamp ≥ ts, or -1.
func (x *segmentIndex) baseOfTime(ts int64) int64 {
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].maxTimestamp >= ts })
	if i == 0 {
		return -1
	}
	return x.entries[i-1].base
}

// handle is an open segment file, with its index if it is for readers.
type handle struct {
	key  handleKey
	path string
	file vfs.File

	mu         sync.Mutex // guards what follows; a leaf lock
	index      segmentIndex
	hintOffset int64 // where the last reader ended: the batch at hintPlace begins at or after hintOffset
	hintPlace  int64

	refs    int    // guarded by handleCache.mu
	lastUse uint64 // likewise
	evicted bool
}

type handleKey struct {
	number uint64 // of the log
	segmentKey
}

// handleCache keeps at most limit files open, beside those in use. There are two, for reading and for direct writes.
type handleCache struct {
	openFile func(path string) (vfs.File, error)
	limit    int

	mu    sync.Mutex
	clock uint64
	open  map[handleKey]*handle
}

// acquire opens the file, or shares it; release it afterwards.
func (c *handleCache) acquire(key handleKey, p string, intervalBytes int) (*handle, error) {
	c.mu.Lock()
	h := c.open[key]
	if h != nil {
		c.use(h)
		c.mu.Unlock()
		return h, nil
	}
	c.mu.Unlock()
	f, err := c.openFile(p)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.open[key]; h != nil { // somebody was faster
		c.use(h)
		return h, f.Close()
	}
	h = &handle{key: key, path: p, file: f, index: segmentIndex{interval: int64(max(intervalBytes, HeaderBytes)), maxTimestamp: -1}}
	c.use(h)
	c.open[key] = h
	c.evictOldest()
	return h, nil
}

func (c *handleCache) use(h *handle) {
	h.refs++
	c.clock++
	h.lastUse = c.clock
}

// release ends a use.
func (c *handleCache) release(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.refs--
	if h.evicted && h.refs == 0 {
		_ = h.file.Close() // what matters was synced, or will be by name
	}
}

// evict closes the file once nobody uses it.
func (c *handleCache) evict(key handleKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.open[key]; h != nil {
		c.drop(h)
	}
}

// drop takes h out of the cache. Called with mu held.
func (c *handleCache) drop(h *handle) {
	delete(c.open, h.key)
	h.evicted = true
	if h.refs == 0 {
		_ = h.file.Close()
	}
}

// evictOldest keeps the cache within its limit. Called with mu held.
func (c *handleCache) evictOldest() {
	for len(c.open) > c.limit {
		var oldest *handle
		for _, h := range c.open {
			if h.refs == 0 && (oldest == nil || h.lastUse < oldest.lastUse) {
				oldest = h
			}
		}
		if oldest == nil {
			return
		}
		c.drop(oldest)
	}
}

// closeAll closes every file that nobody uses; the store is closing.
func (c *handleCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.open {
		c.drop(h)
	}
}
