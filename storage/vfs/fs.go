package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"
)

// ErrLocked is answered by FS.Lock when another process holds the lock.
var ErrLocked = errors.New("folder is in use by another process")

// FS is a file system. All methods may be called from any goroutine. Errors wrap the usual
// ones of io/fs, so errors.Is(err, fs.ErrNotExist) works on every implementation.
type FS interface {
	// Create makes an empty file, or empties the one that is there.
	Create(path string) (File, error)
	// Open opens an existing file for reading.
	Open(path string) (File, error)
	// OpenReadWrite opens a file for both, and creates it when it is absent.
	OpenReadWrite(path string) (File, error)
	// Remove removes a file or an empty folder.
	Remove(path string) error
	// Rename replaces newPath atomically; durable after SyncDir of the folder.
	Rename(oldPath, newPath string) error
	// MkdirAll makes a folder and its parents; durable after SyncDir of each parent.
	MkdirAll(path string) error
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	// Stat returns a file's size and kind.
	Stat(path string) (Info, error)
	// SyncDir makes the entries of a folder durable (creations, removals, renames).
	SyncDir(dir string) error
	// SyncFS makes everything written so far to the file system of dir durable: data, sizes, entries.
	SyncFS(dir string) error
	// SyncFiles is Sync of each file, in any order or at the same time. An error may leave some synced.
	SyncFiles(files []File) error
	// Lock takes an exclusive lock on a file, made if absent, until the Closer is closed or the
	// process ends. It never waits: ErrLocked when somebody else holds it.
	Lock(path string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt may overlap each other; the rest may not overlap
// a write. The caller keeps the slices it passes.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WriteVAt writes the buffers one behind the other from at on, all of them or it is an error.
	WriteVAt(buffers [][]byte, at int64) error
	// Truncate sets the size in bytes.
	Truncate(sizeBytes int64) error
	// ZeroFill writes zeros over [offset, offset+n), so that later writes there allocate nothing.
	ZeroFill(offset, n int64) error
	// Sync makes data and size durable (fdatasync), not the folder's entry.
	Sync() error
	// Size returns the size in bytes.
	Size() (int64, error)
}

// Info is what Stat answers.
type Info struct {
	SizeBytes int64
	IsDir     bool
}

// IsNotExist reports whether err says that a file or folder is absent.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// IsFull reports whether err says that the disk or the quota is used up.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ReadFile returns the whole content of a file of at most maxBytes.
func ReadFile(fsys FS, name string, maxBytes int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxBytes {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EFBIG}
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) != size {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.Join(io.ErrUnexpectedEOF, err)}
	}
	return data, nil
}

// WriteAtomic replaces the file at name by data: after a crash at any moment the file holds either
// its old content or all of data, and once it returned nil, data. The name with ".tmp" added is
// used on the way; callers do not overlap for one name.
func WriteAtomic(fsys FS, name string, data []byte) error {
	temp := name + ".tmp"
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	if err := writeAndSync(f, data); err != nil {
		_ = fsys.Remove(temp)
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		_ = fsys.Remove(temp)
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// writeAndSync writes data from the file's start, syncs and closes it.
func writeAndSync(f File, data []byte) error {
	if _, err := f.WriteAt(data, 0); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
