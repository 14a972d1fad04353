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

// TestTheReserveFreesAFullDisk: when appends have used up all room that they get, what removes records is still taken, with the
// commands that lead to it, through the tails' limit too; and it frees the disk.
func TestTheReserveFreesAFullDisk(t *testing.T) {
	tests := map[string]struct {
		tailBytes int64
		remove    func(s *Store, big *Log) error
	}{
		"drop, write-ahead files used up": {64 << 10, func(s *Store, _ *Log) error {
			_, err := s.Drop(testID(1))
			return err
		}},
		"drop, tails full": {4 << 10, func(s *Store, _ *Log) error {
			_, err := s.Drop(testID(1))
			return err
		}},
		"retention": {64 << 10, func(_ *Store, big *Log) error {
			cfg := big.Config()
			cfg.Retention = time.Hour
			big.SetConfig(cfg)
			return nil
		}},
		"truncation": {64 << 10, func(_ *Store, big *Log) error {
			_, err := big.Truncate(1)
			return err
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			o := testOptions(disk)
			o.TailBytes, o.RetentionInterval = test.tailBytes, -1
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			big, small, commands := openForReserve(t, s)
			isFreed := false
			disk.Inject(func(op vfs.Op) error {
				if op.Kind == vfs.OpRemove && strings.HasSuffix(op.Path, ".log") {
					isFreed = true
				}
				grows := op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite && !strings.Contains(op.Path, "/wal/")
				if grows && !isFreed {
					return syscall.ENOSPC
				}
				return nil
			})
			fillUntilFull(t, s, small)
			taken := small.EndOffset()
			if _, err := commands.Append(testBatch{valueBytes: 20}.build(), 0, testNow); err != nil {
				t.Fatalf("a command on a full disk: %v", err)
			}
			commitAll(t, s)
			if _, err := small.Append(testBatch{valueBytes: 500}.build(), 0, testNow); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("append of records: %v", err)
			}
			if err := test.remove(s, big); err != nil {
				t.Fatalf("remove on a full disk: %v", err)
			}
			if err := s.Flush(testNow.Add(2 * time.Hour)); err != nil {
				t.Fatalf("flush when there is something to remove: %v", err)
			}
			if _, err := small.Append(testBatch{valueBytes: 500}.build(), 0, testNow); err != nil {
				t.Fatalf("append when there is space: %v", err)
			}
			commitAll(t, s)
			s = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 3))))
			if got, commands := s.Log(testID(2)).EndOffset(), s.Log(testID(3)).EndOffset(); got != taken+1 || commands != 1 {
				t.Fatalf("the logs that stay end at %d and %d, want %d and 1", got, commands, taken+1)
			}
			if l := s.Log(testID(1)); l != nil && l.EndOffset()-l.StartOffset() > 5 {
				t.Fatalf("removed records are back: %d to %d", l.StartOffset(), l.EndOffset())
			}
		})
	}
}

// openForReserve makes a log with segments on the disk, an empty one, and one whose appends use the reserve.
func openForReserve(t *testing.T, s *Store) (big, small, commands *Log) {
	t.Helper()
	for i, cfg := range []LogConfig{{SegmentBytes: 1500}, {}, {UsesReserve: true}} {
		l, err := s.OpenLog(testID(byte(i+1)), "a-0", cfg)
		if err != nil {
			t.Fatal(err)
		}
		big, small, commands = small, commands, l
	}
	for n := range byte(30) {
		if _, err := big.Append(testBatch{valueBytes: 500, fill: n, timestamp: testNow.UnixMilli()}.build(), 0, testNow); err != nil {
			t.Fatal(err)
		}
		commitAll(t, s)
		if err := s.Flush(testNow); err != nil {
			t.Fatal(err)
		}
	}
	return big, small, commands
}

// fillUntilFull appends to l until nothing more is taken.
func fillUntilFull(t *testing.T, s *Store, l *Log) {
	t.Helper()
	for {
		_, err := l.Append(testBatch{valueBytes: 500}.build(), 0, testNow)
		switch {
		case errors.Is(err, ErrDiskFull):
			return
		case errors.Is(err, ErrBusy):
			if err := s.Flush(testNow); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("flush: %v", err)
			}
		case err != nil:
			t.Fatal(err)
		}
		commitAll(t, s)
	}
}

// TestABatchMayFillAFile: the reserve keeps no batch out that fits a write-ahead file, over and over.
func TestABatchMayFillAFile(t *testing.T) {
	disk := vfs.NewMem()
	o := testOptions(disk)
	o.WALFiles, o.TailBytes = 3, 1<<20
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLog(testID(1), "a-0", LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	overhead := len(testBatch{valueBytes: 1 << 10}.build()) - 1<<10
	largest := int(o.WALFileBytes) - roundHeaderBytes - roundTrailerBytes - frameHeadBytes - framePlaceBytes - overhead - 8
	for n := range byte(20) {
		data := testBatch{valueBytes: largest, fill: n}.build()
		for _, err = l.Append(data, 0, testNow); errors.Is(err, ErrBusy); _, err = l.Append(data, 0, testNow) {
			commitAll(t, s)
			if err := s.Flush(testNow); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			t.Fatalf("batch %d of %d bytes for files of %d: %v", n, len(data), o.WALFileBytes, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
