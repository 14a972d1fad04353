package s3

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

const (
	minChunkBytes = 4 << 10
	maxChunkBytes = 256 << 10
)

// file is one object to be, and what lies beside it, not yet compressed. (Compressing at the end costs one compressor for
// all open files instead of several hundred KiB each.)
type file struct {
	encoded  string // the partitioner's folder
	first    int64  // offset of its first record
	last     int64
	records  int
	contents [kinds]content
	done     bool // its objects are in the bucket
}

// The objects of a file, in the order in which they are put: the one that readers look for comes last.
const (
	keysKind = iota
	headersKind
	valuesKind
	kinds
)

// content is a run of bytes: what has been spilled to the scratch folder, then chunks in memory.
type content struct {
	chunks  [][]byte
	memory  int64    // capacity of chunks
	spilled int64    // bytes in the scratch file
	scratch *os.File // nil for none
}

func (c *content) empty() bool { return c.spilled == 0 && len(c.chunks) == 0 }

// append copies b.
func (c *content) append(b []byte) {
	for len(b) > 0 {
		n := len(c.chunks)
		if n == 0 || len(c.chunks[n-1]) == cap(c.chunks[n-1]) {
			size := minChunkBytes
			if n > 0 {
				size = min(2*cap(c.chunks[n-1]), maxChunkBytes)
			}
			c.chunks = append(c.chunks, make([]byte, 0, size))
			c.memory += int64(size)
			n++
		}
		last := &c.chunks[n-1]
		k := min(len(b), cap(*last)-len(*last))
		*last = append(*last, b[:k]...)
		b = b[k:]
	}
}

// read gives the whole content from its beginning.
func (c *content) read() io.Reader {
	readers := make([]io.Reader, 0, len(c.chunks)+1)
	if c.scratch != nil {
		readers = append(readers, io.NewSectionReader(c.scratch, 0, c.spilled))
	}
	for _, chunk := range c.chunks {
		readers = append(readers, bytes.NewReader(chunk))
	}
	return io.MultiReader(readers...)
}

// scratch is room on disk for what memory can't hold. Its files have no names, so nothing outlives the task, however it
// ends.
type scratch struct {
	dir      string
	maxBytes int64
	used     int64
}

// tempScratchBytes is how much of the machine's folder for temporary files is used when the worker gives no folder.
const tempScratchBytes = 1 << 30

func openScratch(dir string, maxBytes int64) *scratch {
	if dir == "" {
		return &scratch{dir: os.TempDir(), maxBytes: tempScratchBytes}
	}
	return &scratch{dir: dir, maxBytes: maxBytes}
}

// room tells whether a content's chunks fit.
func (s *scratch) room(c *content) bool { return s.used+c.memory <= s.maxBytes }

// spill moves a content's chunks to its scratch file. After an error the content is as it was.
func (s *scratch) spill(c *content) error {
	if c.scratch == nil {
		f, err := os.CreateTemp(s.dir, "weir-s3-*.open")
		if err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		if err := os.Remove(f.Name()); err != nil {
			f.Close()
			return fmt.Errorf("spill: %w", err)
		}
		c.scratch = f
	}
	at := c.spilled
	for _, chunk := range c.chunks {
		if _, err := c.scratch.WriteAt(chunk, at); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		at += int64(len(chunk))
	}
	s.used += at - c.spilled
	c.spilled, c.chunks, c.memory = at, nil, 0
	return nil
}

// drop frees a content.
func (s *scratch) drop(c *content) {
	c.chunks, c.memory = nil, 0
	if c.scratch != nil {
		s.used -= c.spilled
		c.scratch.Close()
		c.scratch, c.spilled = nil, 0
	}
}
