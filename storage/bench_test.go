package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkFdatasync is the physical limit beside which the others are read: 4 KiB over a preallocated file, synced.
func BenchmarkFdatasync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 8<<20)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	page := make([]byte, blockBytes)
	for i := 0; b.Loop(); i++ {
		if _, err := f.WriteAt(page, int64(i%2000)*blockBytes); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDurableAppend has so many callers that each append a batch of about 1 KiB and wait until it is durable.
func BenchmarkDurableAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) { benchmarkAppend(b, callers) })
	}
}

func benchmarkAppend(b *testing.B, callers int) {
	s, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	batch := testBatch{valueBytes: 1000}.build()
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	for n := range callers {
		l, err := s.OpenLog(testID(byte(n)), "bench-0", LogConfig{})
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() {
			for left.Add(-1) >= 0 {
				appendDurably(b, s, l, batch)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	st := s.Stats()
	b.ReportMetric(float64(b.N)/max(float64(st.Rounds), 1), "batches/round")
	cancel()
	if err := <-ran; err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAppendOnly is the CPU cost of taking a batch of about 1 KiB, without a disk behind it being waited for.
func BenchmarkAppendOnly(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir(), Sync: SyncOS})
	if err != nil {
		b.Fatal(err)
	}
	l, err := s.OpenLog(testID(1), "bench-0", LogConfig{})
	if err != nil {
		b.Fatal(err)
	}
	batch := testBatch{valueBytes: 1000}.build()
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := l.Append(batch, 0, testNow); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			if _, err := s.Commit(testNow); err != nil {
				b.Fatal(err)
			}
		}
		if i%20_000 == 19_999 {
			if err := s.Flush(testNow); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpen is a start after a kill with 10,000 logs, each with a batch in a segment.
func BenchmarkOpen(b *testing.B) {
	opts := Options{Dir: b.TempDir()}
	s, err := Open(opts)
	if err != nil {
		b.Fatal(err)
	}
	for n := range 10_000 {
		id := LogID{Topic: [16]byte{byte(n), byte(n >> 8)}}
		l, err := s.OpenLog(id, fmt.Sprintf("topic%d-0", n), LogConfig{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Append(testBatch{valueBytes: 100}.build(), 0, testNow); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Logf("first flush of 10,000 logs and close: %v", time.Since(began))
	for b.Loop() {
		s, err := Open(opts)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
