package vfs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
)

// TestConformance runs on the real disk and on the one in memory.
func TestConformance(t *testing.T) {
	disks := map[string]func(t *testing.T) (FS, string){
		"os":  func(t *testing.T) (FS, string) { return OS(), t.TempDir() },
		"mem": func(t *testing.T) (FS, string) { return NewMem(), "/" },
	}
	for name, open := range disks {
		t.Run(name, func(t *testing.T) {
			disk, root := open(t)
			conform(t, disk, root)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func conform(t *testing.T, disk FS, root string) {
	dir := filepath.Join(root, "a/b")
	must(t, disk.MkdirAll(dir))
	must(t, disk.MkdirAll(dir))
	name := filepath.Join(dir, "file")
	if _, err := disk.Open(name); !IsNotExist(err) {
		t.Fatalf("open of nothing: %v", err)
	}
	if _, err := disk.Stat(name); !IsNotExist(err) {
		t.Fatalf("stat of nothing: %v", err)
	}
	f, err := disk.OpenReadWrite(name)
	must(t, err)
	_, err = f.WriteAt([]byte("hello"), 3)
	must(t, err)
	must(t, f.ZeroFill(10, 5))
	must(t, f.Sync())
	size, err := f.Size()
	must(t, err)
	if size != 15 {
		t.Fatalf("size %d, want 15", size)
	}
	buf := make([]byte, 20)
	if n, err := f.ReadAt(buf, 0); n != 15 || !errors.Is(err, io.EOF) || string(buf[:10]) != "\x00\x00\x00hello\x00\x00" {
		t.Fatalf("read %d, %q, %v", n, buf, err)
	}
	many := make([][]byte, 1500) // more than the kernel takes at a time
	for i := range many {
		many[i] = bytes.Repeat([]byte{byte(i)}, i%3)
	}
	must(t, f.WriteVAt(many, 2))
	must(t, disk.SyncFiles([]File{f}))
	must(t, disk.SyncFiles(nil))
	got, want := make([]byte, 1500), bytes.Join(many, nil)
	if n, err := f.ReadAt(got, 2); n != len(want) || err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], want) {
		t.Fatalf("read %d of %d bytes: %v", n, len(want), err)
	}
	must(t, f.Truncate(5))
	must(t, f.Close())
	must(t, disk.SyncDir(dir))
	must(t, disk.SyncFS(root))
	must(t, WriteAtomic(disk, name, []byte("new")))
	data, err := ReadFile(disk, name, 10)
	must(t, err)
	if string(data) != "new" {
		t.Fatalf("read %q", data)
	}
	if _, err := ReadFile(disk, name, 2); !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("read of too much: %v", err)
	}
	names, err := disk.List(dir)
	must(t, err)
	if len(names) != 1 || names[0] != "file" {
		t.Fatalf("names %v", names)
	}
	if err := disk.Remove(dir); err == nil {
		t.Fatal("a full folder was removed")
	}
	must(t, disk.Rename(name, filepath.Join(dir, "other")))
	must(t, disk.Remove(filepath.Join(dir, "other")))
	must(t, disk.Remove(dir))
	conformLock(t, disk, filepath.Join(root, "lock"))
}

func conformLock(t *testing.T, disk FS, name string) {
	lock, err := disk.Lock(name)
	must(t, err)
	if _, err := disk.Lock(name); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	must(t, lock.Close())
	lock, err = disk.Lock(name)
	must(t, err)
	must(t, lock.Close())
}

// TestCrashClone sees both fates of what was not synced, and one fate of what was.
func TestCrashClone(t *testing.T) {
	lostData, keptData, tornData, lostEntry, keptEntry := 0, 0, 0, 0, 0
	for seed := range uint64(300) {
		m := NewMem()
		f, err := m.Create("/synced")
		must(t, err)
		old := make([]byte, 4096)
		_, err = f.WriteAt(old, 0)
		must(t, err)
		must(t, f.Sync())
		must(t, m.SyncDir("/"))
		fresh := make([]byte, 4096)
		for i := range fresh {
			fresh[i] = 1
		}
		_, err = f.WriteAt(fresh, 0)
		must(t, err)
		_, err = m.Create("/entry")
		must(t, err)
		clone := m.CrashClone(rand.New(rand.NewPCG(seed, 1)))
		data, err := ReadFile(clone, "/synced", 4096)
		must(t, err)
		ones := 0
		for _, b := range data {
			ones += int(b)
		}
		switch {
		case len(data) != 4096 || ones%512 != 0:
			t.Fatalf("seed %d: %d bytes with %d new", seed, len(data), ones)
		case ones == 0:
			lostData++
		case ones == 4096:
			keptData++
		default:
			tornData++
		}
		if _, err := clone.Stat("/entry"); err == nil {
			keptEntry++
		} else {
			lostEntry++
		}
		must(t, m.SyncFS("/"))
		clone = m.CrashClone(rand.New(rand.NewPCG(seed, 2)))
		if data, err := ReadFile(clone, "/synced", 4096); err != nil || data[0] != 1 || data[4095] != 1 {
			t.Fatalf("seed %d: synced data is lost: %v", seed, err)
		}
		if _, err := clone.Stat("/entry"); err != nil {
			t.Fatalf("seed %d: synced entry is lost: %v", seed, err)
		}
	}
	if lostData == 0 || keptData == 0 || tornData == 0 || lostEntry == 0 || keptEntry == 0 {
		t.Fatalf("data lost %d, kept %d, torn %d; entry lost %d, kept %d: each should happen", lostData, keptData, tornData, lostEntry, keptEntry)
	}
}

// TestWriteAtomicCrashes finds the old or the new content after a crash at each call, and the new one once it returned.
func TestWriteAtomicCrashes(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := NewMem()
		must(t, WriteAtomic(m, "/file", []byte("old")))
		m.CrashAt(m.Ops()+1+int64(rng.IntN(7)), rng.IntN(2) == 0)
		err := WriteAtomic(m, "/file", []byte("newer"))
		data, readErr := ReadFile(m.CrashClone(rng), "/file", 100)
		must(t, readErr)
		if got := string(data); got != "newer" && (err == nil || got != "old") {
			t.Fatalf("seed %d: %q after %v", seed, got, err)
		}
	}
}

func TestInject(t *testing.T) {
	m := NewMem()
	m.Inject(func(op Op) error {
		if op.Kind == OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := WriteAtomic(m, "/file", []byte("x")); !IsFull(err) {
		t.Fatalf("write: %v", err)
	}
	if names, err := m.List("/"); err != nil || len(names) != 0 {
		t.Fatalf("left behind: %v, %v", names, err)
	}
	m.Inject(nil)
	m.CrashAt(m.Ops()+1, false)
	if _, err := m.Create("/file"); !errors.Is(err, ErrCrashed) || !m.Crashed() {
		t.Fatalf("create: %v", err)
	}
	if _, err := m.Stat("/file"); !errors.Is(err, ErrCrashed) {
		t.Fatalf("stat after the crash: %v", err)
	}
}
