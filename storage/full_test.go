package storage

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// lines gathers a logger's messages.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, r.Message)
	return nil
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.said {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// TestOpenOnAFullDisk: a store that was killed opens when not one block is left, though its tails exceed the memory it is given; it
// serves everything, takes nothing, says so once, and goes on by itself when there is space.
func TestOpenOnAFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	for i := range byte(3) {
		l, err := s.OpenLog(testID(i), "a-0", LogConfig{SegmentBytes: 4000})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 30 {
			if _, err := l.Append(testBatch{valueBytes: 300, fill: byte(n)}.build(), 0, testNow); err != nil {
				t.Fatal(err)
			}
		}
		commitAll(t, s)
	}
	want := map[byte]string{}
	for i := range byte(3) {
		want[i] = string(readAll(t, s.Log(testID(i))))
	}
	disk = disk.CrashClone(rand.New(rand.NewPCG(1, 4)))

	var hasSpace atomic.Bool
	tries := make(chan struct{}, 1000)
	disk.Inject(func(op vfs.Op) error {
		if grows := op.Kind == vfs.OpCreate || op.Kind == vfs.OpMkdir || op.Kind == vfs.OpWrite; grows && !hasSpace.Load() {
			select {
			case tries <- struct{}{}:
			default:
			}
			return syscall.ENOSPC
		}
		return nil
	})
	said := &lines{}
	o := testOptions(disk)
	o.TailBytes, o.FlushInterval, o.Logger = 2<<10, time.Millisecond, slog.New(said)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(3) {
		if got := string(readAll(t, s.Log(testID(i)))); got != want[i] {
			t.Fatalf("log %d: %d bytes are served, want %d", i, len(got), len(want[i]))
		}
	}
	if _, err := s.OpenLog(testID(9), "b-0", LogConfig{}); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("a new log: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for len(tries) > 0 {
		<-tries
	}
	for range 5 { // attempts of Run
		<-tries
	}
	l := s.Log(testID(0))
	if _, err := l.Append(testBatch{}.build(), 0, testNow); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("append on a full disk: %v", err)
	}
	hasSpace.Store(true)
	for s.Stats().DiskFull || s.isUnsettled.Load() {
		time.Sleep(time.Millisecond) // Run's loop has to notice; the test's timeout bounds it
	}
	appendDurably(t, s, l, testBatch{fill: 7}.build())
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if full, again := said.count("disk is full"), said.count("space again"); full != 1 || again != 1 {
		t.Errorf("said %d times that the disk is full, %d times that it has space: %q", full, again, said.said)
	}
	want[0] = string(readAll(t, l))
	disk = disk.CrashClone(rand.New(rand.NewPCG(2, 4)))
	s = mustOpen(t, disk)
	for i := range byte(3) {
		if got := string(readAll(t, s.Log(testID(i)))); got != want[i] {
			t.Fatalf("log %d after recovery and a crash: %d bytes, want %d", i, len(got), len(want[i]))
		}
	}
}

// TestNewFolderOnAFullDisk: there is nothing to serve, so Open says why.
func TestNewFolderOnAFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	disk.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := Open(testOptions(disk)); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("open: %v", err)
	}
}
