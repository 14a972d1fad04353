package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// OS returns the machine's file system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(path string) (File, error) {
	return openOS(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(path string) (File, error) { return openOS(path, os.O_RDONLY) }

func (osFS) OpenReadWrite(path string) (File, error) { return openOS(path, os.O_RDWR|os.O_CREATE) }

func (osFS) Remove(path string) error { return os.Remove(path) }

func (osFS) Rename(oldPath, newPath string) error { return os.Rename(oldPath, newPath) }

func (osFS) MkdirAll(path string) error { return os.MkdirAll(path, 0o755) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	sort.Strings(names)
	return names, errors.Join(err, d.Close())
}

func (osFS) Stat(path string) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: st.Size(), IsDir: st.IsDir()}, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncFS is syncfs(2): one call for hundreds of dirty files.
func (osFS) SyncFS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = ignoringEINTR(func() error { return unix.Syncfs(int(d.Fd())) })
	if err != nil {
		err = &os.PathError{Op: "syncfs", Path: dir, Err: err}
	}
	return errors.Join(err, d.Close())
}

// SyncFiles syncs at the same time: most of a sync is waiting.
func (osFS) SyncFiles(files []File) error {
	switch len(files) {
	case 0:
		return nil
	case 1:
		return files[0].Sync()
	}
	var group errgroup.Group
	for _, f := range files[1:] {
		group.Go(f.Sync)
	}
	return errors.Join(files[0].Sync(), group.Wait())
}

// Lock uses flock(2), which the kernel releases with the process.
func (osFS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = ignoringEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

func openOS(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// osFile is *os.File with fdatasync for a sync.
type osFile struct{ *os.File }

func (f osFile) Sync() error {
	err := ignoringEINTR(func() error { return unix.Fdatasync(int(f.Fd())) })
	if err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// maxVectors is how many buffers the kernel takes at a time (IOV_MAX).
const maxVectors = 1024

// WriteVAt is pwritev(2).
func (f osFile) WriteVAt(buffers [][]byte, at int64) error {
	rest := make([][]byte, 0, min(len(buffers), maxVectors))
	for len(buffers) > 0 || len(rest) > 0 {
		n := min(len(buffers), maxVectors-len(rest))
		rest, buffers = append(rest, buffers[:n]...), buffers[n:]
		var written int
		err := ignoringEINTR(func() (err error) {
			written, err = unix.Pwritev(int(f.Fd()), rest, at)
			return err
		})
		if err == nil && written == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: err}
		}
		at += int64(written)
		rest = skipWritten(rest, written)
	}
	return nil
}

// skipWritten drops the first n bytes of the buffers, and empty ones behind them.
func skipWritten(buffers [][]byte, n int) [][]byte {
	for len(buffers) > 0 && n >= len(buffers[0]) {
		n -= len(buffers[0])
		buffers = buffers[1:]
	}
	if n > 0 {
		buffers[0] = buffers[0][n:]
	}
	return buffers
}

func (f osFile) ZeroFill(offset, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		step := min(n, int64(len(zeros)))
		if _, err := f.WriteAt(zeros[:step], offset); err != nil {
			return err
		}
		offset, n = offset+step, n-step
	}
	return nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
