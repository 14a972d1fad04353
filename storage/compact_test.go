package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// keyed is a batch of one record per key; an empty value is a tombstone.
func keyed(codec int, at time.Time, pairs ...string) []byte {
	var records []Record
	for i := 0; i < len(pairs); i += 2 {
		r := Record{OffsetDelta: int32(i / 2), TimestampDelta: int64(i), Key: []byte(pairs[i]), Headers: []byte{0}}
		if pairs[i+1] != "" {
			r.Value = []byte(pairs[i+1])
		}
		records = append(records, r)
	}
	b := Batch(testBatch{codec: codec, records: len(records), timestamp: at.UnixMilli()}.build())
	b, err := b.withRecords(records, 0)
	if err != nil {
		panic(err)
	}
	return b
}

// contents is every record that can be read, as "offset key=value".
func contents(t testing.TB, l *Log) (found []string) {
	t.Helper()
	for data := readAll(t, l); len(data) > 0; {
		b, err := ParseBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range mustRecords(b) {
			found = append(found, fmt.Sprintf("%d %s=%s", b.BaseOffset()+int64(r.OffsetDelta), r.Key, r.Value))
		}
		data = data[len(b):]
	}
	return found
}

func compactLog(t testing.TB, s *Store, cfg LogConfig) *Log {
	t.Helper()
	cfg.Cleanup = CleanupCompact
	l, err := s.OpenLog(testID(1), "a-0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(t testing.TB, s *Store, l *Log, now time.Time, batches ...[]byte) {
	t.Helper()
	for _, b := range batches {
		if _, err := l.Append(b, 0, now); err != nil {
			t.Fatal(err)
		}
	}
	commitAll(t, s)
	if err := s.Flush(now); err != nil {
		t.Fatal(err)
	}
}

func compactAll(t testing.TB, s *Store, now time.Time) {
	t.Helper()
	for {
		did, err := s.Compact(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		commitAll(t, s)
		if err := s.Flush(now); err != nil {
			t.Fatal(err)
		}
		if !did {
			return
		}
	}
}

// TestCompaction: the newest of each key stays at its offset, whatever the compression; tombstones stay for their time, then go.
func TestCompaction(t *testing.T) {
	for codec := range codecZstd + 1 {
		s := mustOpen(t, vfs.NewMem())
		l := compactLog(t, s, LogConfig{SegmentBytes: 200, DeleteRetention: time.Hour, MinDirtyRatio: 0.01})
		now := testNow
		put(t, s, l, now, keyed(codec, now, "a", "1", "b", "1", "c", "1"), keyed(codec, now, "a", "2", "b", ""), keyed(codec, now, "a", "3"), keyed(codec, now, "d", "1"),
			keyed(codec, now, "e", "a long value, so that this one is in a segment of its own: 0123456789012345678901234567890123456789012345678901234567890123456789"))
		compactAll(t, s, now)
		want := "[2 c=1 4 b= 5 a=3 6 d=1 7 e="
		if got := fmt.Sprint(contents(t, l)); got[:min(len(got), len(want))] != want {
			t.Fatalf("codec %d: %s, want %s", codec, got, want)
		}
		if end := l.EndOffset(); end != 8 {
			t.Errorf("codec %d: the end is %d", codec, end)
		}
		// The first record as old as "c" was (its batch's third: 4 ms after its first) is "c", and the stamped batch has kept its times.
		if offset, at, err := l.OffsetForTime(now.UnixMilli() + 3); err != nil || offset != 2 || at != now.UnixMilli()+4 {
			t.Errorf("codec %d: time is at %d, %d, %v", codec, offset, at-now.UnixMilli(), err)
		}
		if offset, at, err := l.OffsetForTime(now.UnixMilli() + 1); err != nil || offset != 2 {
			t.Errorf("codec %d: time is at %d, %d, %v", codec, offset, at-now.UnixMilli(), err)
		}
		compactAll(t, s, now.Add(59*time.Minute))
		if got := fmt.Sprint(contents(t, l)); got[:len(want)] != want {
			t.Fatalf("codec %d: the tombstone went too early: %s", codec, got)
		}
		compactAll(t, s, now.Add(61*time.Minute))
		want = "[2 c=1 5 a=3 6 d=1 7 e="
		if got := fmt.Sprint(contents(t, l)); got[:len(want)] != want {
			t.Fatalf("codec %d: after the tombstone's time %s, want %s", codec, got, want)
		}
		if got := s.Stats().Compactions; got < 2 {
			t.Errorf("codec %d: %d compactions", codec, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompactionInTime: records older than MaxCompactionLag are compacted whatever their share, also those of the segment that is
// being written; nothing at or above a held log's stable end is.
func TestCompactionInTime(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l := compactLog(t, s, LogConfig{MinDirtyRatio: 1, MaxCompactionLag: time.Hour, HoldsCleanup: true})
	put(t, s, l, testNow, keyed(0, testNow, "a", "1"), keyed(0, testNow, "a", "2"))
	late := testNow.Add(time.Hour)
	l.SetStableEnd(2)
	compactAll(t, s, late.Add(-time.Millisecond))
	if got := fmt.Sprint(contents(t, l)); got != "[0 a=1 1 a=2]" {
		t.Fatalf("compacted too early: %s", got)
	}
	for _, end := range []int64{0, 1} {
		l.SetStableEnd(end)
		compactAll(t, s, late)
		if got := fmt.Sprint(contents(t, l)); got != "[0 a=1 1 a=2]" {
			t.Fatalf("compacted beyond the stable end %d: %s", end, got)
		}
	}
	l.SetStableEnd(2)
	compactAll(t, s, late)
	if got := fmt.Sprint(contents(t, l)); got != "[1 a=2]" {
		t.Fatalf("not compacted in time: %s", got)
	}
	put(t, s, l, late, keyed(0, late, "a", "3"))
	compactAll(t, s, late)
	if got := fmt.Sprint(contents(t, l)); got != "[1 a=2 2 a=3]" {
		t.Fatalf("what is new is compacted at once: %s", got)
	}
}

// TestCompactionInPasses: with memory for few keys the result is the same as with plenty, and small segments become one.
func TestCompactionInPasses(t *testing.T) {
	var want []string
	for _, keys := range []int64{1 << 20, 100, 9} {
		disk := vfs.NewMem()
		o := testOptions(disk)
		o.CompactionMapBytes, o.CompactionBytesPerSecond = keys*keyBytes, -1
		o.WALFileBytes, o.TailBytes = 1<<20, 8<<20
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		l := compactLog(t, s, LogConfig{SegmentBytes: 2000, MinDirtyRatio: 0.01})
		rng := rand.New(rand.NewPCG(4, 4))
		for range 10 {
			var batches [][]byte
			for range 30 {
				batches = append(batches, keyed(codecNone, testNow, fmt.Sprint(rng.IntN(200)), fmt.Sprint(rng.Int()), fmt.Sprint(rng.IntN(200)), fmt.Sprint(rng.Int())))
			}
			put(t, s, l, testNow, batches...)
			compactAll(t, s, testNow)
		}
		got := contents(t, l)
		if want == nil {
			want = got
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("with memory for %d keys: %d records, want %d", keys, len(got), len(want))
		}
		if len(got) > 260 || len(l.segments) > 14 {
			t.Errorf("%d records in %d segments are left of 600", len(got), len(l.segments))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompactionKeepsProducers: the last batch of a producer stays, without its records.
func TestCompactionKeepsProducers(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l := compactLog(t, s, LogConfig{SegmentBytes: 100, MinDirtyRatio: 0.01})
	for i := range int32(3) {
		put(t, s, l, testNow, testBatch{producer: 5, sequence: i, fill: byte(i), valueBytes: 3}.build())
	}
	put(t, s, l, testNow, testBatch{valueBytes: 3, fill: 9}.build(), testBatch{valueBytes: 80, fill: 9}.build())
	compactAll(t, s, testNow)
	first, err := ParseBatch(readAll(t, l))
	if err != nil || first.CheckCRC() != nil || first.RecordCount() != 0 || first.LastOffset() != 2 || first.ProducerID() != 5 || first.BaseSequence() != 2 {
		t.Errorf("the first batch is %v (%v)", first, err)
	}
	if a, err := l.Append(testBatch{producer: 5, sequence: 2, fill: 2, valueBytes: 3}.build(), 0, testNow); err != nil || !a.Duplicate {
		t.Errorf("a duplicate: %+v, %v", a, err)
	}
	if offset, at, err := l.MaxTimestamp(); err != nil || offset < 3 {
		t.Errorf("the largest timestamp is %d at %d, %v", at, offset, err)
	}
}

// TestCompactionOfDamage: nothing is changed, an error names the place, and the log is left alone for a while.
func TestCompactionOfDamage(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, disk)
	l := compactLog(t, s, LogConfig{SegmentBytes: 100, MinDirtyRatio: 0.01})
	put(t, s, l, testNow, keyed(0, testNow, "a", "1"), keyed(0, testNow, "a", "2"), keyed(0, testNow, "a", "3"))
	name := l.dir() + "/" + l.segments[1].fileName()
	flip(t, disk, name, 64)
	before := fmt.Sprint(l.segments)
	var damage *CorruptError
	if _, err := s.Compact(t.Context(), testNow); !errors.As(err, &damage) || damage.Path != name {
		t.Errorf("%v", err)
	}
	if did, err := s.Compact(t.Context(), testNow.Add(time.Minute)); did || err != nil || fmt.Sprint(l.segments) != before {
		t.Errorf("a minute later: %v, %v", did, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Compact(ctx, testNow.Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestCompactionBesideReaders works on the real disk with Run's loops: readers meet every key's newest record, appends go on.
func TestCompactionBesideReaders(t *testing.T) {
	o := Options{Dir: t.TempDir() + "/store", WALFileBytes: 256 << 10, TailBytes: 512 << 10, RoundBytes: 64 << 10, OpenFiles: 4,
		FlushInterval: 2 * time.Millisecond, Sync: SyncOS, CompactionInterval: time.Millisecond, CompactionBytesPerSecond: -1}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	l := compactLog(t, s, LogConfig{SegmentBytes: 8 << 10, MinDirtyRatio: 0.2})
	const keys, writes = 50, 1500
	var newest [keys]atomic.Int64 // value durably written last
	var done atomic.Bool
	readers := make(chan error, 2)
	for range 2 {
		go func() {
			readers <- func() error {
				for !done.Load() {
					var atLeast [keys]int64
					for k := range keys {
						atLeast[k] = newest[k].Load()
					}
					found, err := readKeys(l)
					if err != nil {
						return err
					}
					for k := range keys {
						if found[fmt.Sprint(k)] < atLeast[k] {
							return fmt.Errorf("key %d has value %d, written was %d", k, found[fmt.Sprint(k)], atLeast[k])
						}
					}
				}
				return nil
			}()
		}()
	}
	for i := 1; i <= writes || s.Stats().Compactions < 3; i++ {
		k := i % keys
		appendDurably(t, s, l, keyed(i%(codecZstd+1), testNow, fmt.Sprint(k), fmt.Sprint(i)))
		newest[k].Store(int64(i))
	}
	done.Store(true)
	for range 2 {
		if err := <-readers; err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.FS = nil
	s, err = Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, err := readKeys(s.Log(testID(1)))
	if err != nil || len(found) != keys {
		t.Errorf("%d keys after a restart, %v", len(found), err)
	}
	for k := range keys {
		if found[fmt.Sprint(k)] != newest[k].Load() {
			t.Errorf("key %d is %d, written was %d", k, found[fmt.Sprint(k)], newest[k].Load())
		}
	}
}

// readKeys is the newest value of each key, read from the start.
func readKeys(l *Log) (map[string]int64, error) {
	found := map[string]int64{}
	for next := l.StartOffset(); next < l.DurableEnd(); {
		batches, err := l.Read(next, l.DurableEnd(), 64<<10, nil)
		if err != nil {
			return nil, err
		}
		if len(batches) == 0 {
			return found, nil
		}
		for _, data := range batches {
			for len(data) > 0 {
				b, err := ParseBatch(data)
				if err != nil {
					return nil, err
				}
				records, err := b.records()
				if err != nil {
					return nil, err
				}
				for _, r := range records {
					var v int64
					if _, err := fmt.Sscan(string(r.Value), &v); err != nil {
						return nil, err
					}
					found[string(r.Key)] = v
				}
				data, next = data[len(b):], b.LastOffset()+1
			}
		}
	}
	return found, nil
}

func BenchmarkCompact(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	value := string(bytes.Repeat([]byte("v"), 200))
	var size int64
	for b.Loop() {
		b.StopTimer()
		s, err := Open(Options{Dir: b.TempDir(), CompactionBytesPerSecond: -1})
		if err != nil {
			b.Fatal(err)
		}
		l := compactLog(b, s, LogConfig{SegmentBytes: 16 << 20})
		for range 4 {
			var batches [][]byte
			for range 600 {
				var pairs []string
				for range 50 {
					pairs = append(pairs, fmt.Sprint(rng.IntN(50_000)), value)
				}
				batches = append(batches, keyed(codecNone, testNow, pairs...))
			}
			put(b, s, l, testNow, batches...)
		}
		size = l.SizeBytes()
		b.StartTimer()
		if did, err := s.Compact(b.Context(), testNow); !did || err != nil {
			b.Fatal(did, err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.SetBytes(size)
}
