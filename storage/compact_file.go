package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// scan visits the batches of a source in order; b is valid during the visit. Damage is a CorruptError.
func (c *compaction) scan(ctx context.Context, g *segment, visit func(b Batch) error) error {
	p := path.Join(c.log.dir(), g.fileName())
	in, err := c.store.opts.FS.Open(p)
	if err != nil {
		return openError(p, err)
	}
	defer in.Close()
	h := &handle{path: p, file: in}
	var window []byte
	for at := int64(0); at < g.size; {
		want := min(g.size-at, int64(max(cap(window), compactReadBytes)))
		if int64(cap(window)) < want {
			window = make([]byte, want)
		}
		window = window[:want]
		if err := h.read(window, at); err != nil {
			return err
		}
		used := 0
		for used < len(window) {
			rest := window[used:]
			if len(rest) >= lengthStartBytes {
				if size, err := batchSize(rest); err == nil && size > len(rest) && at+int64(used)+int64(size) <= g.size {
					if used == 0 {
						window = make([]byte, size)[:0] // the next turn reads it whole
					}
					break
				}
			} else if at+int64(len(window)) < g.size {
				break
			}
			b, err := ParseBatch(rest)
			if err == nil {
				err = b.CheckCRC()
			}
			if err != nil {
				return &CorruptError{p, at + int64(used), err.Error()}
			}
			if err := visit(b); err != nil {
				return err
			}
			used += len(b)
		}
		at += int64(used)
		if err := c.pause(ctx, int64(used)); err != nil {
			return err
		}
	}
	return nil
}

// compactReadBytes is how much of a source is read at a time, if no batch is larger.
const compactReadBytes = 1 << 20

// pause keeps the run's reading within Options.CompactionBytesPerSecond.
func (c *compaction) pause(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rate := c.store.opts.CompactionBytesPerSecond
	c.readBytes += n
	wait := time.Duration(float64(c.readBytes)/float64(max(rate, 1))*float64(time.Second)) - time.Since(c.began)
	if rate <= 0 || wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// compactFile is a file being written.
type compactFile struct {
	segment
	store      *Store
	dir        string
	source     segment // the first
	sourceBase int64
	sources    int
	isChanged  bool     // it differs from its one source
	out        vfs.File // nil until something is written
	buf        []byte
	written    int64
}

// add appends a batch.
func (f *compactFile) add(b Batch) error {
	if f.size == 0 {
		f.base = b.BaseOffset()
	}
	f.buf = append(f.buf, b...)
	f.size += int64(len(b))
	f.end = b.LastOffset() + 1
	f.maxTimestamp = max(f.maxTimestamp, b.MaxTimestamp())
	if len(f.buf) < maxWriteBytes {
		return nil
	}
	return f.flush()
}

func (f *compactFile) flush() (err error) {
	if f.out == nil {
		if f.out, err = f.store.opts.FS.Create(path.Join(f.dir, f.fileName())); err != nil {
			return fmt.Errorf("make segment: %w", err)
		}
	}
	if _, err := f.out.WriteAt(f.buf, f.written); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	f.written += int64(len(f.buf))
	f.buf = f.buf[:0]
	return nil
}

// finish writes the rest and syncs.
func (f *compactFile) finish() error {
	err := f.flush()
	if err == nil && !f.store.hooks.skipNewSync {
		err = f.out.Sync()
	}
	if f.out != nil {
		err = errors.Join(err, f.out.Close())
	}
	return err
}

// remove takes back a file that isn't wanted.
func (f *compactFile) remove() error {
	if f.out == nil {
		return nil
	}
	return errors.Join(f.out.Close(), f.store.opts.FS.Remove(path.Join(f.dir, f.fileName())))
}

// appendSegments encodes a count and the segments.
func appendSegments(b []byte, segments []segment) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, uint32(len(segments)))
	for i := range segments {
		g := &segments[i]
		for _, v := range []int64{int64(g.file), g.base, g.end, g.size, g.createdMs, g.maxTimestamp} {
			b = be.AppendUint64(b, uint64(v))
		}
		b = be.AppendUint32(b, g.version)
	}
	return b
}
