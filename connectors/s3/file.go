package s3

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	memory  int64  // capacity of chunks
	spilled int64  // bytes in the scratch file
	scratch string // path of the scratch file, "" for none
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

// read gives the whole content from its beginning; the caller closes it.
func (c *content) read() (io.ReadCloser, error) {
	readers := make([]io.Reader, 0, len(c.chunks)+1)
	var f *os.File
	if c.scratch != "" {
		var err error
		if f, err = os.Open(c.scratch); err != nil {
			return nil, fmt.Errorf("read scratch: %w", err)
		}
		readers = append(readers, io.LimitReader(f, c.spilled))
	}
	for _, chunk := range c.chunks {
		readers = append(readers, bytes.NewReader(chunk))
	}
	return contentReader{io.MultiReader(readers...), f}, nil
}

type contentReader struct {
	io.Reader
	file *os.File
}

func (r contentReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// scratch is the task's folder for what memory can't hold. Nothing in it outlives the task.
type scratch struct {
	dir      string // "" for none
	maxBytes int64
	used     int64
	files    int
}

// openScratch removes what an earlier task has left.
func openScratch(dir string, maxBytes int64) (*scratch, error) {
	if dir == "" {
		return &scratch{}, nil
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.open"))
	if err != nil {
		return nil, err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("clear scratch: %w", err)
		}
	}
	return &scratch{dir: dir, maxBytes: maxBytes}, nil
}

// room tells whether a content's chunks fit into the folder.
func (s *scratch) room(c *content) bool { return s.dir != "" && s.used+c.memory <= s.maxBytes }

// spill moves a content's chunks to its scratch file. After an error the content is as it was.
func (s *scratch) spill(c *content) error {
	path := c.scratch
	if path == "" {
		s.files++
		path = filepath.Join(s.dir, fmt.Sprintf("%d.open", s.files))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	c.scratch = path
	at := c.spilled
	for _, chunk := range c.chunks {
		if _, err := f.WriteAt(chunk, at); err != nil {
			f.Close()
			return fmt.Errorf("spill: %w", err)
		}
		at += int64(len(chunk))
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	s.used += at - c.spilled
	c.spilled, c.chunks, c.memory = at, nil, 0
	return nil
}

// drop frees a content.
func (s *scratch) drop(c *content) error {
	c.chunks, c.memory = nil, 0
	if c.scratch == "" {
		return nil
	}
	s.used -= c.spilled
	path := c.scratch
	c.scratch, c.spilled = "", 0
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("clear scratch: %w", err)
	}
	return nil
}
