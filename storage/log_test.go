package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// mustAppend appends count batches of one record, a second apart from testNow on.
func mustAppend(t testing.TB, l *Log, count int) {
	t.Helper()
	for i := range count {
		ts := testNow.Add(time.Duration(i) * time.Second)
		if _, err := l.Append(testBatch{valueBytes: 100, timestamp: ts.UnixMilli()}.build(), 0, ts); err != nil {
			t.Fatal(err)
		}
	}
}

func openTestLog(t testing.TB, s *Store, cfg LogConfig) *Log {
	t.Helper()
	l, err := s.OpenLog(testID(1), "a-0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestReadLimits: whole batches, at least one, none beyond the end, from memory and from disk.
func TestReadLimits(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l := openTestLog(t, s, LogConfig{SegmentBytes: 100 << 10, IndexIntervalBytes: 300})
	for range 40 {
		if _, err := l.Append(testBatch{records: 3, valueBytes: 30}.build(), 0, testNow); err != nil {
			t.Fatal(err)
		}
	}
	size := len(testBatch{records: 3, valueBytes: 30}.build())
	for _, place := range []string{"memory", "disk"} {
		tests := []struct {
			next, end   int64
			maxBytes    int
			wantBatches int
			wantBase    int64
		}{
			{0, 120, 0, 1, 0},
			{0, 120, 1, 1, 0},
			{0, 120, size*2 - 1, 1, 0},
			{0, 120, size * 2, 2, 0},
			{0, 120, 1 << 20, 40, 0},
			{61, 120, size * 3, 3, 60},
			{62, 69, 1 << 20, 3, 60},
			{62, 68, 1 << 20, 2, 60}, // the batch 66–68 ends beyond
			{119, 120, 1 << 20, 1, 117},
			{119, 119, 1 << 20, 0, 0},
			{120, 120, 1 << 20, 0, 0},
			{3, 5, 1 << 20, 0, 0},
		}
		for _, test := range tests {
			got, err := l.Read(test.next, test.end, test.maxBytes, nil)
			if err != nil {
				t.Fatal(err)
			}
			n, base := 0, int64(0)
			for _, data := range got {
				for len(data) > 0 {
					b, err := ParseBatch(data)
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						base = b.BaseOffset()
					}
					data, n = data[len(b):], n+1
				}
			}
			if n != test.wantBatches || base != test.wantBase {
				t.Errorf("%s: read %+v: %d batches from %d", place, test, n, base)
			}
		}
		_, ok, err := l.ReadTail(0, 120, 1<<20, nil)
		if err != nil || ok != (place == "memory") {
			t.Fatalf("%s: read of the tail: %v, %v", place, ok, err)
		}
		if err := s.Flush(testNow); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok, err := l.ReadTail(120, 120, 1, nil); err != nil || !ok || len(got) != 0 {
		t.Fatalf("at the end nothing needs the disk: %d, %v, %v", len(got), ok, err)
	}
}

func TestRetention(t *testing.T) {
	batch := int64(len(testBatch{valueBytes: 100}.build()))
	tests := []struct {
		name      string
		cfg       LogConfig
		now       time.Time
		wantStart int64
	}{
		{"none", LogConfig{SegmentBytes: 5 * batch}, testNow.Add(time.Hour), 0},
		{"by size", LogConfig{SegmentBytes: 5 * batch, RetentionBytes: 10 * batch}, testNow, 10},
		{"by size, a segment must be wholly over", LogConfig{SegmentBytes: 5 * batch, RetentionBytes: 11 * batch}, testNow, 5},
		{"by time", LogConfig{SegmentBytes: 5 * batch, Retention: 10 * time.Second}, testNow.Add(20 * time.Second), 10},
		{"by time, the newest too", LogConfig{SegmentBytes: 5 * batch, Retention: 10 * time.Second}, testNow.Add(time.Hour), 20},
		{"compacted", LogConfig{SegmentBytes: 5 * batch, RetentionBytes: 1, Cleanup: CleanupCompact}, testNow, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			disk := vfs.NewMem()
			s := mustOpen(t, disk)
			l := openTestLog(t, s, test.cfg)
			mustAppend(t, l, 20)
			for range 3 { // to segments; retention; removal
				if err := s.Flush(test.now); err != nil {
					t.Fatal(err)
				}
			}
			if l.StartOffset() != test.wantStart || l.EndOffset() != 20 {
				t.Fatalf("log is [%d, %d), want start %d", l.StartOffset(), l.EndOffset(), test.wantStart)
			}
			names, err := disk.List(l.dir())
			if err != nil || len(names) != int(20-test.wantStart)/5 {
				t.Fatalf("files %v, %v", names, err)
			}
			if _, err := l.Read(test.wantStart-1, 20, 1, nil); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Fatalf("read below the start: %v", err)
			}
			if _, err := l.Append(testBatch{}.build(), 0, test.now); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRollByAge(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l := openTestLog(t, s, LogConfig{Segment: 10 * time.Second})
	mustAppend(t, l, 25)
	if len(l.segments) != 3 {
		t.Fatalf("%d segments, want 3", len(l.segments))
	}
}

// TestTimesAfterTruncation: what a segment knows of its largest timestamp is only a bound after a cut.
func TestTimesAfterTruncation(t *testing.T) {
	for _, place := range []string{"memory", "disk"} {
		s := mustOpen(t, vfs.NewMem())
		l := openTestLog(t, s, LogConfig{})
		mustAppend(t, l, 10)
		if place == "disk" {
			if err := s.Flush(testNow); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Truncate(7); err != nil {
			t.Fatal(err)
		}
		want := testNow.Add(6 * time.Second).UnixMilli()
		if offset, ts, err := l.MaxTimestamp(); err != nil || offset != 6 || ts != want {
			t.Errorf("%s: max timestamp %d at %d, %v", place, ts, offset, err)
		}
		if offset, _, err := l.OffsetForTime(want + 1); err != nil || offset != -1 {
			t.Errorf("%s: offset for a later time: %d, %v", place, offset, err)
		}
		if offset, _, err := l.OffsetForTime(0); err != nil || offset != 0 {
			t.Errorf("%s: offset for an early time: %d, %v", place, offset, err)
		}
	}
}

func TestOffsetForTimeInCompressedBatches(t *testing.T) {
	for name, tb := range codecs() {
		s := mustOpen(t, vfs.NewMem())
		l := openTestLog(t, s, LogConfig{})
		for i := range 5 {
			tb.records, tb.timestamp = 10, int64(1000*i)
			if _, err := l.Append(tb.build(), 0, testNow); err != nil {
				t.Fatal(err)
			}
		}
		if offset, ts, err := l.OffsetForTime(3004); err != nil || offset != 34 || ts != 3004 {
			t.Errorf("%s: %d, %d, %v", name, offset, ts, err)
		}
	}
}

func TestEpochs(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l := openTestLog(t, s, LogConfig{})
	for _, epoch := range []int32{2, 2, 5, 5, 5, 9} {
		if _, err := l.Append(testBatch{}.build(), epoch, testNow); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(testBatch{}.build(), 8, testNow); !errors.Is(err, ErrStaleEpoch) {
		t.Fatalf("append of an old epoch: %v", err)
	}
	for _, test := range []struct{ epoch, found, end int64 }{{1, -1, -1}, {2, 2, 2}, {4, 2, 2}, {5, 5, 5}, {9, 9, 6}, {20, 9, 6}} {
		found, end := l.EndOfEpoch(int32(test.epoch))
		if int64(found) != test.found || end != test.end {
			t.Errorf("end of epoch %d: %d, %d", test.epoch, found, end)
		}
	}
}

// TestReplicaLog is what a raft log and a follower ask for: batches at given offsets and epochs, a cut, the epoch at an offset, and a
// new beginning behind a snapshot.
func TestReplicaLog(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	l := openTestLog(t, s, LogConfig{})
	for offset, epoch := range []int32{1, 1, 2, 4} {
		if _, err := l.AppendAt(testBatch{base: int64(offset), epoch: epoch}.build(), testNow); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Truncate(3); err != nil {
		t.Fatal(err)
	}
	if _, err := l.AppendAt(testBatch{base: 3, epoch: 1}.build(), testNow); !errors.Is(err, ErrStaleEpoch) {
		t.Fatalf("append of an old epoch: %v", err)
	}
	if _, err := l.AppendAt(testBatch{base: 3, epoch: 3}.build(), testNow); err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[int64]int32{-1: -1, 0: 1, 1: 1, 2: 2, 3: 3, 4: -1} {
		if got := l.EpochAt(offset); got != want {
			t.Errorf("epoch at %d: %d, want %d", offset, got, want)
		}
	}
	if _, err := l.Restart(100); err != nil {
		t.Fatal(err)
	}
	commitAll(t, s)
	if end := l.DurableEnd(); end != 100 {
		t.Errorf("durable end %d", end)
	}
	if _, err := l.AppendAt(testBatch{base: 100, epoch: 2}.build(), testNow); err != nil {
		t.Fatal(err)
	}
	commitAll(t, s)
	if err := s.Flush(testNow); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 4)))).Log(testID(1))
	if l.StartOffset() != 100 || l.EndOffset() != 101 || l.EpochAt(100) != 2 || l.EpochAt(99) != -1 {
		t.Fatalf("[%d, %d), epoch %d", l.StartOffset(), l.EndOffset(), l.EpochAt(100))
	}
	if got := readAll(t, l); len(got) != len(testBatch{}.build()) {
		t.Fatalf("%d bytes", len(got))
	}
}

// TestIdleLogsAreSmall: at most 4 KiB each, with a batch in a segment, and no file kept open.
func TestIdleLogsAreSmall(t *testing.T) {
	const logs = 1000
	opts := Options{Dir: t.TempDir()}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	for n := range logs {
		l, err := s.OpenLog(LogID{Topic: [16]byte{byte(n), byte(n >> 8)}}, fmt.Sprintf("topic%d-0", n), LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(testBatch{producer: 7}.build(), 0, testNow); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(testNow); err != nil {
		t.Fatal(err)
	}
	perLog := (heap() - before) / logs
	t.Logf("%d bytes per idle log", perLog)
	if perLog > 4096 {
		t.Errorf("%d bytes per idle log", perLog)
	}
	if n := len(s.files.open); n != 0 {
		t.Errorf("%d files are open", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // pools give their content back at the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
