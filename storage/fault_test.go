package storage

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// twoRounds is a crashed disk whose write-ahead log holds two rounds of one batch each, both acknowledged.
func twoRounds(t *testing.T) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	l, err := s.OpenLog(testID(1), "a-0", LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := l.Append(testBatch{fill: byte('a' + i), valueBytes: 100}.build(), 0, testNow); err != nil {
			t.Fatal(err)
		}
		commitAll(t, s)
	}
	return disk.CrashClone(rand.New(rand.NewPCG(1, 2)))
}

// flip changes one byte of a file, durably.
func flip(t *testing.T, disk *vfs.Mem, name string, place int64) {
	t.Helper()
	f, err := disk.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, place); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, place); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedRounds(t *testing.T) {
	const wal = "/data/wal/00000001.wal"
	tests := []struct {
		name       string
		place      int64
		wantDamage bool
		wantEnd    int64
	}{
		{"frames of a round that was synced", 200, true, 0},
		{"header of a round that was synced", 20, true, 0},
		{"frames of the newest round", blockBytes + 200, false, 1},
		{"header of the newest round", blockBytes + 3, false, 1},
		{"padding", blockBytes - 1, false, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			disk := twoRounds(t)
			flip(t, disk, wal, test.place)
			s, err := Open(testOptions(disk))
			var damage *CorruptError
			if test.wantDamage {
				if !errors.As(err, &damage) || !strings.HasPrefix(damage.Path, "/data/wal") {
					t.Fatalf("open: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Log(testID(1)).EndOffset(); got != test.wantEnd {
				t.Fatalf("end %d, want %d", got, test.wantEnd)
			}
		})
	}
}

func TestMissingCheckpointIsNoNewStore(t *testing.T) {
	disk := twoRounds(t)
	if err := disk.Remove("/data/checkpoint"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testOptions(disk)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("open: %v", err)
	}
}

func TestFolderIsLocked(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	if _, err := Open(testOptions(disk)); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("second open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	if err := mustOpen(t, disk).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedSegmentFailsOnlyItsReads(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	var ends [3]int64
	for n := range byte(3) {
		l, err := s.OpenLog(testID(n), "a-0", LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := l.Append(testBatch{valueBytes: 100}.build(), 0, testNow); err != nil {
				t.Fatal(err)
			}
		}
		ends[n] = l.EndOffset()
	}
	if err := s.Flush(testNow); err != nil {
		t.Fatal(err)
	}
	const segment = "/data/logs/0000000002-a-0/00000000000000000000-1.log"
	flip(t, disk, segment, 1000)
	if _, err := s.Log(testID(0)).Read(0, ends[0], 1<<20, nil); err != nil {
		t.Fatal(err)
	}
	l := s.Log(testID(1))
	got, err := l.Read(0, ends[1], 1<<20, nil)
	if err != nil || len(got) == 0 {
		t.Fatalf("read before the damage: %v", err)
	}
	var damage *CorruptError
	if _, err = l.Read(5, ends[1], 1<<20, nil); !errors.As(err, &damage) || damage.Path != segment {
		t.Fatalf("read of the damage: %v", err)
	}
}

func TestFailureOfTheWriteAheadLogEndsTheStore(t *testing.T) {
	for name, kind := range map[string]vfs.OpKind{"write": vfs.OpWrite, "sync": vfs.OpSync} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			s := mustOpen(t, disk)
			l, err := s.OpenLog(testID(1), "a-0", LogConfig{})
			if err != nil {
				t.Fatal(err)
			}
			commitAll(t, s)
			disk.Inject(func(op vfs.Op) error {
				if op.Kind == kind && strings.Contains(op.Path, "/wal/") {
					return syscall.EIO
				}
				return nil
			})
			a, err := l.Append(testBatch{}.build(), 0, testNow)
			if err != nil {
				t.Fatal(err)
			}
			var fate error
			s.Notify(a.Ticket, func(err error) { fate = err })
			completions, err := s.Commit(testNow)
			if !errors.Is(err, ErrStoreFailed) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("commit: %v", err)
			}
			for _, done := range completions {
				done()
			}
			if !errors.Is(fate, ErrStoreFailed) {
				t.Fatalf("ticket: %v", fate)
			}
			disk.Inject(nil)
			select {
			case <-s.Failed():
			default:
				t.Fatal("Failed is not closed")
			}
			if _, err := l.Append(testBatch{}.build(), 0, testNow); !errors.Is(err, ErrStoreFailed) {
				t.Fatalf("append after the failure: %v", err)
			}
			if err := s.Flush(testNow); !errors.Is(err, ErrStoreFailed) {
				t.Fatalf("flush after the failure: %v", err)
			}
			if _, ok := <-s.Room(1); ok {
				t.Fatal("Room holds back")
			}
		})
	}
}

func TestFailedSyncOfSegmentsEndsTheStore(t *testing.T) {
	for name, logs := range map[string]byte{"few files": 1, "many files": defaultFewFiles + 1} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			s := mustOpen(t, disk)
			for n := range logs {
				l, err := s.OpenLog(testID(n), "a-0", LogConfig{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Append(testBatch{}.build(), 0, testNow); err != nil {
					t.Fatal(err)
				}
			}
			disk.Inject(func(op vfs.Op) error {
				if op.Kind == vfs.OpSyncFS || op.Kind == vfs.OpSync && strings.Contains(op.Path, "/logs/") {
					return syscall.ENOSPC // never soft in a sync
				}
				return nil
			})
			if err := s.Flush(testNow); !errors.Is(err, ErrStoreFailed) {
				t.Fatalf("flush: %v", err)
			}
			s = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 3))))
			if got := s.Log(testID(0)).EndOffset(); got != 1 {
				t.Fatalf("end %d, want 1: the write-ahead log had it", got)
			}
		})
	}
}

// TestFullDisk: a full disk refuses appends, fails nothing that was taken, and is over when there is space.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	l, err := s.OpenLog(testID(1), "a-0", LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	commitAll(t, s)
	disk.Inject(func(op vfs.Op) error {
		grows := op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite && !strings.Contains(op.Path, "/wal/")
		if grows {
			return syscall.ENOSPC
		}
		return nil
	})
	var want []byte
	taken, completed := 0, 0
	for {
		a, err := l.Append(testBatch{valueBytes: 500, fill: byte(taken)}.build(), 0, testNow)
		if errors.Is(err, ErrDiskFull) {
			break
		}
		if errors.Is(err, ErrBusy) {
			if err := s.Flush(testNow); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("flush: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		taken++
		s.Notify(a.Ticket, func(err error) {
			if err == nil {
				completed++
			}
		})
		commitAll(t, s)
	}
	if taken == 0 || completed != taken || s.Err() != nil {
		t.Fatalf("%d taken, %d durable, store: %v", taken, completed, s.Err())
	}
	<-s.Room(1) // appends must get to see the error
	want = readAll(t, l)
	disk.Inject(nil)
	if err := s.Flush(testNow); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(testBatch{}.build(), 0, testNow); err != nil {
		t.Fatalf("append when there is space again: %v", err)
	}
	s = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 3))))
	if got := readAll(t, s.Log(testID(1))); !bytes.HasPrefix(got, want) {
		t.Fatal("records are missing")
	}
}

// TestFullDiskIsFreedByWhatIsRemoved: what is dropped, and what retention has passed, is off a full disk though nothing else can be
// written meanwhile; and the store then goes on. A crash right afterwards finds all that was not removed.
func TestFullDiskIsFreedByWhatIsRemoved(t *testing.T) {
	tests := map[string]func(s *Store, l *Log) error{
		"drop": func(s *Store, _ *Log) error {
			_, err := s.Drop(testID(1))
			return err
		},
		"retention": func(_ *Store, l *Log) error {
			_, err := l.AdvanceStart(l.EndOffset())
			return err
		},
	}
	for name, remove := range tests {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			s := mustOpen(t, disk)
			big, err := s.OpenLog(testID(1), "big-0", LogConfig{SegmentBytes: 4000})
			if err != nil {
				t.Fatal(err)
			}
			small, err := s.OpenLog(testID(2), "small-0", LogConfig{})
			if err != nil {
				t.Fatal(err)
			}
			for n := range byte(30) {
				if _, err := big.Append(testBatch{valueBytes: 500, fill: n}.build(), 0, testNow); err != nil {
					t.Fatal(err)
				}
			}
			commitAll(t, s)
			if err := s.Flush(testNow); err != nil {
				t.Fatal(err)
			}
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
			if _, err := small.Append(testBatch{valueBytes: 500}.build(), 0, testNow); err != nil {
				t.Fatal(err)
			}
			commitAll(t, s)
			if err := s.Flush(testNow); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("flush: %v", err)
			}
			if err := remove(s, big); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(testNow); err != nil {
				t.Fatalf("flush when there is something to remove: %v", err)
			}
			s = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 3))))
			if got := s.Log(testID(2)).EndOffset(); got != 1 {
				t.Fatalf("end %d of the log that stays, want 1", got)
			}
			if l := s.Log(testID(1)); l != nil && l.StartOffset() != l.EndOffset() {
				t.Fatalf("removed records are back: %d to %d", l.StartOffset(), l.EndOffset())
			}
		})
	}
}

// TestRun works on the real disk: many appenders, both loops, readers, a retention, a clean end, everything there afterwards.
func TestRun(t *testing.T) {
	for name, mode := range map[string]SyncMode{"group": SyncGroup, "os": SyncOS} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Dir: t.TempDir() + "/store", WALFileBytes: 256 << 10, TailBytes: 512 << 10, RoundBytes: 64 << 10, OpenFiles: 2,
				FlushInterval: 5 * time.Millisecond, Sync: mode}
			s, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- s.Run(ctx) }()
			var appenders sync.WaitGroup
			var durable atomic.Int64
			for n := range byte(4) {
				l, err := s.OpenLog(testID(n%2), "t-0", LogConfig{SegmentBytes: 100 << 10, IndexIntervalBytes: 100})
				if err != nil {
					t.Fatal(err)
				}
				appenders.Add(1)
				go func() {
					defer appenders.Done()
					for i := range 300 {
						appendDurably(t, s, l, testBatch{records: 2, valueBytes: 1000, fill: byte(i)}.build())
						durable.Add(1)
						if _, err := l.Read(l.DurableEnd()/2, l.DurableEnd(), 4096, nil); err != nil {
							t.Errorf("read: %v", err)
						}
					}
				}()
			}
			appenders.Wait()
			cancel()
			if err := <-ran; err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, err = Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			for n := range byte(2) {
				l := s.Log(testID(n))
				if l.EndOffset() != 1200 || len(readAll(t, l)) == 0 {
					t.Fatalf("log %d ends at %d, want 1200", n, l.EndOffset())
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// appendDurably appends and waits for the ticket, and for room if it must.
func appendDurably(t testing.TB, s *Store, l *Log, batch []byte) {
	for {
		a, err := l.Append(batch, 0, testNow)
		if errors.Is(err, ErrBusy) {
			<-s.Room(1)
			continue
		}
		if err != nil {
			t.Errorf("append: %v", err)
			return
		}
		done := make(chan error, 1)
		s.Notify(a.Ticket, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Errorf("ticket: %v", err)
		}
		return
	}
}

// isOpen says that nobody has to wait.
func isOpen(room <-chan struct{}) bool {
	select {
	case <-room:
		return true
	default:
		return false
	}
}

// TestRoom: memory in use up to the limit holds connections back until a flush; twice the limit refuses.
func TestRoom(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.TailBytes = 4 << 10
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	l := openTestLog(t, s, LogConfig{})
	var room <-chan struct{}
	for heldBack, refused := false, false; !refused; {
		if room = s.Room(1); !isOpen(room) {
			heldBack = true
		} else if heldBack || s.Stats().TailBytes >= 4<<10 {
			t.Fatalf("room at %d bytes", s.Stats().TailBytes)
		}
		_, err := l.Append(testBatch{valueBytes: 500}.build(), 0, testNow)
		refused = errors.Is(err, ErrBusy)
		if err != nil && !refused {
			t.Fatal(err)
		}
		if refused && (!heldBack || s.Stats().TailBytes < 8<<10) {
			t.Fatalf("refused at %d bytes", s.Stats().TailBytes)
		}
	}
	if err := s.Flush(testNow); err != nil {
		t.Fatal(err)
	}
	if !isOpen(room) || !isOpen(s.Room(1)) {
		t.Fatal("no room after a flush")
	}
}

// TestLargeAppendsWaitForTheDisk: while the disk has enough to do, Room holds back who has much to append, and nobody else.
func TestLargeAppendsWaitForTheDisk(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.QueueBytes = 4 << 10
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	l := openTestLog(t, s, LogConfig{})
	for i := range 5 {
		if !isOpen(s.Room(smallBytes)) {
			t.Fatalf("no room after %d batches", i)
		}
		if _, err := l.Append(testBatch{valueBytes: 1000}.build(), 0, testNow); err != nil {
			t.Fatal(err)
		}
		if s.queuedBytes >= opts.QueueBytes {
			break
		}
	}
	room := s.Room(smallBytes)
	if isOpen(room) || !isOpen(s.Room(smallBytes-1)) {
		t.Fatal("large appends may go on, or small ones may not")
	}
	commitAll(t, s)
	if !isOpen(room) || !isOpen(s.Room(smallBytes)) || s.queuedBytes != 0 {
		t.Fatalf("%d bytes wait after a commit", s.queuedBytes)
	}
	for range 5 {
		if _, err := l.Append(testBatch{valueBytes: 1000}.build(), 0, testNow); err != nil {
			t.Fatal(err)
		}
	}
	room = s.Room(smallBytes)
	s.fail(errors.New("broken"))
	if !isOpen(room) || !isOpen(s.Room(smallBytes)) {
		t.Fatal("the end of the store lets nobody go")
	}
}

// TestTornRoundStaysOut: a round that was left out must not come back, when its number has been given again and the store ends once more.
func TestTornRoundStaysOut(t *testing.T) {
	disk := twoRounds(t)
	flip(t, disk, "/data/wal/00000001.wal", blockBytes+200)
	s := mustOpen(t, disk)
	l := s.Log(testID(1))
	if _, err := l.Append(testBatch{fill: 'c', valueBytes: 100}.build(), 0, testNow); err != nil {
		t.Fatal(err)
	}
	commitAll(t, s)
	flip(t, disk, "/data/wal/00000001.wal", blockBytes+200) // whole again
	want := readAll(t, l)
	s = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 4))))
	if got := readAll(t, s.Log(testID(1))); !bytes.Equal(got, want) {
		t.Fatal("the log is not what it was")
	}
}

// TestReadersBesideRetention: segments go and a follower cuts while others read; nobody sees an error but that an offset is gone.
func TestReadersBesideRetention(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), WALFileBytes: 256 << 10, TailBytes: 64 << 10, RoundBytes: 64 << 10, OpenFiles: 2,
		FlushInterval: time.Millisecond, RetentionInterval: -1, Sync: SyncOS})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	l := openTestLog(t, s, LogConfig{SegmentBytes: 20 << 10, RetentionBytes: 60 << 10, IndexIntervalBytes: 1})
	var readers sync.WaitGroup
	var read atomic.Int64
	for n := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 9))
			for ctx.Err() == nil {
				start, end := l.StartOffset(), l.EndOffset()
				batches, err := l.Read(start+rng.Int64N(end-start+1), end, 8<<10, nil)
				if err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
					t.Errorf("read: %v", err)
					return
				}
				read.Add(int64(len(batches)))
				if _, _, err := l.OffsetForTime(rng.Int64N(3000)); err != nil {
					t.Errorf("offset for time: %v", err)
					return
				}
			}
		})
	}
	for i := range 3000 {
		appendDurably(t, s, l, testBatch{valueBytes: 300, timestamp: int64(i)}.build())
		if i%100 == 99 {
			if _, err := l.Truncate(max(l.StartOffset(), l.EndOffset()-20)); err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
				t.Fatal(err)
			}
		}
	}
	cancel()
	readers.Wait()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if read.Load() == 0 || l.StartOffset() == 0 {
		t.Fatalf("%d batches read, start %d", read.Load(), l.StartOffset())
	}
}

// TestMissingSegment: a lost file fails the reads that need it, at its name; the log goes on, and later records are read.
func TestMissingSegment(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	batch := int64(len(testBatch{valueBytes: 100}.build()))
	l := openTestLog(t, s, LogConfig{SegmentBytes: 5 * batch})
	mustAppend(t, l, 15)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lost := "/data/logs/0000000001-a-0/00000000000000000005-2.log"
	if err := disk.Remove(lost); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, disk)
	l = openTestLog(t, s, LogConfig{SegmentBytes: 5 * batch})
	var damage *CorruptError
	if _, err := l.Read(7, 15, 1<<20, nil); !errors.As(err, &damage) || damage.Path != lost {
		t.Fatalf("read of a lost file: %v", err)
	}
	for _, next := range []int64{0, 10, 14} {
		if got, err := l.Read(next, 15, 1<<20, nil); err != nil || len(got) == 0 {
			t.Fatalf("read at %d: %d, %v", next, len(got), err)
		}
	}
	a, err := l.Append(testBatch{}.build(), 0, testNow)
	if err != nil || a.BaseOffset != 15 {
		t.Fatalf("append: %+v, %v", a, err)
	}
}
