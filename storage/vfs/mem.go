package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"sync"
)

// ErrCrashed is what every call answers once a Mem has crashed.
var ErrCrashed = errors.New("disk has crashed")

// OpKind is a kind of call that Mem counts and can fail.
type OpKind uint8

// The kinds of calls that change the disk or make changes durable; OpRead is ReadAt and Open.
const (
	OpCreate OpKind = iota + 1
	OpRemove
	OpRename
	OpMkdir
	OpWrite
	OpTruncate
	OpSync
	OpSyncDir
	OpSyncFS
	OpRead
)

// Op is a call about to be made.
type Op struct {
	N    int64 // 1, 2, 3 … of all calls but reads
	Kind OpKind
	Path string
}

// Mem is a disk in memory that keeps apart what was written and what is durable. Data is durable after the file's Sync, an entry of
// a folder (creation, removal, rename, folder made) after SyncDir of the folder, everything after SyncFS. CrashClone gives a disk as
// it may be found after power was cut. All methods may be called from any goroutine.
type Mem struct {
	mu      sync.Mutex
	inject  func(Op) error
	ops     int64
	crashAt int64
	crashed bool
	late    bool // the crashing call still takes effect

	now    map[string]*inode // as programs see it
	stable map[string]*inode // entries as they are on the disk
	steps  []entryStep       // from stable to now, in order
	locks  map[string]bool
}

// inode is a file's or folder's content.
type inode struct {
	isDir  bool
	data   []byte // as programs see it
	stable []byte // on the disk
	writes []write
}

// write is a change of an inode's data that was not synced. data nil: a truncation to place.
type write struct {
	place int64
	data  []byte
}

// entryStep is a change of one folder entry (a rename: two) that was not synced.
type entryStep struct {
	removed string // "" if none
	added   string // "" if none
	node    *inode
}

// NewMem returns an empty disk with a root folder.
func NewMem() *Mem {
	root := &inode{isDir: true}
	return &Mem{now: map[string]*inode{"/": root, ".": root}, stable: map[string]*inode{"/": root, ".": root}, locks: map[string]bool{}}
}

// Inject has f called before each call, without any lock held; an error it gives is the call's, which then has no effect. Reads too.
func (m *Mem) Inject(f func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inject = f
}

// CrashAt makes the n-th call from the disk's beginning answer ErrCrashed, and all calls after it; isLate says whether that call itself
// still takes effect. 0: never.
func (m *Mem) CrashAt(n int64, isLate bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashAt, m.late = n, isLate
}

// Ops is how many calls there have been, without reads.
func (m *Mem) Ops() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// Crashed says whether the CrashAt call has come.
func (m *Mem) Crashed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.crashed
}

// do runs one call under the lock, after injection and crash accounting.
func (m *Mem) do(kind OpKind, name string, call func() error) error {
	m.mu.Lock()
	if kind != OpRead {
		m.ops++
	}
	op, inject := Op{m.ops, kind, name}, m.inject
	m.mu.Unlock()
	if inject != nil {
		if err := inject(op); err != nil {
			return &fs.PathError{Op: "injected", Path: name, Err: err}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return ErrCrashed
	}
	if m.crashAt > 0 && op.N >= m.crashAt && kind != OpRead {
		m.crashed = true
		if m.late {
			_ = call()
		}
		return ErrCrashed
	}
	return call()
}

func notExist(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	return m.openFile(name, OpCreate, makeEmpty)
}

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) {
	m.mu.Lock()
	node := m.now[path.Clean(name)]
	m.mu.Unlock()
	if node == nil {
		return m.openFile(name, OpCreate, makeMissing)
	}
	return m.openFile(name, OpRead, makeMissing)
}

// openMode says what opening does to the file.
type openMode uint8

const (
	makeNothing openMode = iota
	makeMissing
	makeEmpty
)

// openFile opens a file as a call of the kind.
func (m *Mem) openFile(name string, kind OpKind, mode openMode) (File, error) {
	name = path.Clean(name)
	var f *memFile
	err := m.do(kind, name, func() error {
		node := m.now[name]
		switch {
		case node != nil && node.isDir:
			return &fs.PathError{Op: "open", Path: name, Err: errors.New("is a folder")}
		case node == nil && mode == makeNothing:
			return notExist("open", name)
		case node == nil:
			if parent := m.now[path.Dir(name)]; parent == nil || !parent.isDir {
				return notExist("open", name)
			}
			node = &inode{}
			m.now[name] = node
			m.steps = append(m.steps, entryStep{added: name, node: node})
		case mode == makeEmpty:
			node.truncate(0)
		}
		f = &memFile{m, name, node}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.openFile(name, OpRead, makeNothing) }

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	name = path.Clean(name)
	return m.do(OpRemove, name, func() error {
		node := m.now[name]
		if node == nil {
			return notExist("remove", name)
		}
		if node.isDir && len(m.list(name)) > 0 {
			return &fs.PathError{Op: "remove", Path: name, Err: errors.New("folder is not empty")}
		}
		delete(m.now, name)
		m.steps = append(m.steps, entryStep{removed: name, node: node})
		return nil
	})
}

// Rename implements FS, for files.
func (m *Mem) Rename(oldPath, newPath string) error {
	oldPath, newPath = path.Clean(oldPath), path.Clean(newPath)
	return m.do(OpRename, newPath, func() error {
		node := m.now[oldPath]
		if node == nil || node.isDir {
			return notExist("rename", oldPath)
		}
		delete(m.now, oldPath)
		m.now[newPath] = node
		m.steps = append(m.steps, entryStep{removed: oldPath, added: newPath, node: node})
		return nil
	})
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	dir = path.Clean(dir)
	m.mu.Lock()
	node := m.now[dir]
	m.mu.Unlock()
	if node != nil && node.isDir {
		return nil
	}
	if parent := path.Dir(dir); parent != dir {
		if err := m.MkdirAll(parent); err != nil {
			return err
		}
	}
	return m.do(OpMkdir, dir, func() error {
		if there := m.now[dir]; there != nil && there.isDir {
			return nil // somebody was faster
		} else if there != nil {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
		}
		node := &inode{isDir: true}
		m.now[dir] = node
		m.steps = append(m.steps, entryStep{added: dir, node: node})
		return nil
	})
}

// List implements FS.
func (m *Mem) List(dir string) (names []string, err error) {
	dir = path.Clean(dir)
	err = m.do(OpRead, dir, func() error {
		if node := m.now[dir]; node == nil || !node.isDir {
			return notExist("list", dir)
		}
		names = m.list(dir)
		return nil
	})
	return names, err
}

func (m *Mem) list(dir string) (names []string) {
	for name := range m.now {
		if name != "/" && name != "." && path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	sort.Strings(names)
	return names
}

// Stat implements FS.
func (m *Mem) Stat(name string) (info Info, err error) {
	name = path.Clean(name)
	err = m.do(OpRead, name, func() error {
		node := m.now[name]
		if node == nil {
			return notExist("stat", name)
		}
		info = Info{int64(len(node.data)), node.isDir}
		return nil
	})
	return info, err
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	dir = path.Clean(dir)
	return m.do(OpSyncDir, dir, func() error {
		if m.now[dir] == nil {
			return notExist("sync", dir)
		}
		rest := m.steps[:0]
		for _, step := range m.steps {
			if path.Dir(step.added) == dir && step.added != "" || path.Dir(step.removed) == dir && step.removed != "" {
				step.apply(m.stable)
			} else {
				rest = append(rest, step)
			}
		}
		m.steps = rest
		return nil
	})
}

// SyncFS implements FS.
func (m *Mem) SyncFS(dir string) error {
	return m.do(OpSyncFS, dir, func() error {
		for _, step := range m.steps {
			step.apply(m.stable)
		}
		m.steps = nil
		for _, node := range m.now {
			node.sync()
		}
		return nil
	})
}

// SyncFiles implements FS, one file after the other.
func (m *Mem) SyncFiles(files []File) error {
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// Lock implements FS; the lock holds within this Mem, and a CrashClone has none.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	m.locks[name] = true
	return memLock{f, m, name}, nil
}

type memLock struct {
	File
	m    *Mem
	name string
}

func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.name)
	return nil
}

func (s entryStep) apply(entries map[string]*inode) {
	if s.removed != "" {
		delete(entries, s.removed)
	}
	if s.added != "" {
		entries[s.added] = s.node
	}
}

// memFile is an open file of a Mem.
type memFile struct {
	m    *Mem
	name string
	node *inode
}

func (f *memFile) ReadAt(p []byte, at int64) (n int, err error) {
	err = f.m.do(OpRead, f.name, func() error {
		if at >= int64(len(f.node.data)) {
			return io.EOF
		}
		if n = copy(p, f.node.data[at:]); n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	err := f.m.do(OpWrite, f.name, func() error {
		f.node.write(at, append([]byte{}, p...))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) WriteVAt(buffers [][]byte, at int64) error {
	_, err := f.WriteAt(bytes.Join(buffers, nil), at)
	return err
}

func (f *memFile) Truncate(sizeBytes int64) error {
	return f.m.do(OpTruncate, f.name, func() error {
		f.node.truncate(sizeBytes)
		return nil
	})
}

func (f *memFile) ZeroFill(offset, n int64) error {
	_, err := f.WriteAt(make([]byte, n), offset)
	return err
}

func (f *memFile) Sync() error {
	return f.m.do(OpSync, f.name, func() error {
		f.node.sync()
		return nil
	})
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error { return nil }

func (n *inode) write(at int64, data []byte) {
	n.writes = append(n.writes, write{at, data})
	n.data = overwrite(n.data, at, data)
}

func (n *inode) truncate(size int64) {
	n.writes = append(n.writes, write{place: size})
	n.data = resize(n.data, size)
}

func (n *inode) sync() {
	if len(n.writes) == 0 {
		return
	}
	for _, w := range n.writes {
		n.stable = w.apply(n.stable)
	}
	n.writes = nil
}

func (w write) apply(data []byte) []byte {
	if w.data == nil {
		return resize(data, w.place)
	}
	return overwrite(data, w.place, w.data)
}

func overwrite(data []byte, at int64, p []byte) []byte {
	if end := at + int64(len(p)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[at:], p)
	return data
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		clear(data[size:])
		return data[:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}
