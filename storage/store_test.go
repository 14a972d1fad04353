package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirlog/weir/storage/vfs"
)

func readAll(t testing.TB, l *Log) []byte {
	t.Helper()
	var all []byte
	for next := l.StartOffset(); next < l.EndOffset(); {
		batches, err := l.Read(next, l.EndOffset(), 1<<10, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) == 0 {
			break
		}
		for _, data := range batches {
			all = append(all, data...)
			for len(data) > 0 {
				b, err := ParseBatch(data)
				if err != nil {
					t.Fatal(err)
				}
				data, next = data[len(b):], b.LastOffset()+1
			}
		}
	}
	return all
}

func TestAppendFlushReopen(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	l, err := s.OpenLog(testID(1), "orders-0", LogConfig{SegmentBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		a, err := l.Append(testBatch{records: 3, valueBytes: 50, fill: byte(i), timestamp: int64(1000 * i)}.build(), 1, testNow)
		if err != nil {
			t.Fatal(err)
		}
		if a.BaseOffset != int64(3*i) || a.LastOffset != int64(3*i+2) || a.Duplicate {
			t.Fatalf("append %d: %+v", i, a)
		}
		if i == 25 {
			commitAll(t, s)
			if got := l.DurableEnd(); got != 78 {
				t.Fatalf("durable end %d, want 78", got)
			}
			if err := s.Flush(testNow); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := readAll(t, l)
	commitAll(t, s)
	crashed := disk.CrashClone(rand.New(rand.NewPCG(1, 1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*vfs.Mem{"closed": disk, "crashed": crashed} {
		s := mustOpen(t, d)
		l := s.Log(testID(1))
		if l == nil || l.Name() != "orders-0" || l.EndOffset() != 150 || l.DurableEnd() != 150 || l.LeaderEpoch() != 1 {
			t.Fatalf("%s: log %+v", name, l)
		}
		if got := readAll(t, l); !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes read, want %d", name, len(got), len(want))
		}
		offset, ts, err := l.OffsetForTime(20_001)
		if err != nil || offset != 61 || ts != 20_001 {
			t.Fatalf("%s: offset for time: %d, %d, %v", name, offset, ts, err)
		}
		if offset, ts, err := l.MaxTimestamp(); err != nil || offset != 149 || ts != 49_002 {
			t.Fatalf("%s: max timestamp: %d, %d, %v", name, offset, ts, err)
		}
		if _, err := l.Read(151, 200, 1, nil); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Fatalf("%s: read beyond the end: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
