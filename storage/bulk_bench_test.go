package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// bulkCase is producers that keep a few batches each under way, one a log.
type bulkCase struct {
	logs, batchBytes int
	sync             SyncMode
	withSmall        bool // beside them one that sends 1 KiB and waits, over and over
}

func (c bulkCase) String() string {
	name := fmt.Sprintf("logs=%d/batch=%dKiB", c.logs, c.batchBytes>>10)
	if c.sync == SyncOS {
		name += "/os"
	}
	if c.withSmall {
		name += "/small"
	}
	return name
}

// BenchmarkBulk moves 1 MiB an operation. Beside the rate it tells what the disk writes for a byte, the CPU time for a GB, and how long
// a small producer waits.
func BenchmarkBulk(b *testing.B) {
	for _, c := range []bulkCase{
		{1, 1 << 20, SyncGroup, false}, {1, 16 << 10, SyncGroup, false}, {6, 1 << 20, SyncGroup, false}, {6, 64 << 10, SyncGroup, false},
		{100, 256 << 10, SyncGroup, false}, {6, 1 << 20, SyncOS, false}, {6, 16 << 10, SyncOS, false},
		{6, 1 << 20, SyncGroup, true}, {6, 64 << 10, SyncGroup, true},
	} {
		b.Run(c.String(), c.run)
	}
}

// bulkWindow is how many batches a producer has under way.
const bulkWindow = 5

func (c bulkCase) run(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir(), Sync: c.sync})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	batch := testBatch{valueBytes: c.batchBytes - 80}.build()
	left := atomic.Int64{}
	left.Store(int64(b.N) * (1 << 20) / int64(len(batch)))
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	b.ResetTimer()
	before := resourcesUsed(b)
	var group, small sync.WaitGroup
	stop := make(chan struct{})
	var waits []time.Duration
	if c.withSmall {
		small.Go(func() { waits = smallProducer(b, s, stop) })
	}
	for n := range c.logs {
		l, err := s.OpenLog(testID(byte(n)), fmt.Sprintf("bulk-%d", n), LogConfig{MaxMessageBytes: 2 << 20})
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() { bulkProducer(b, s, l, batch, &left) })
	}
	group.Wait()
	close(stop)
	small.Wait()
	b.StopTimer()
	cancel()
	if err := <-ran; err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	used := resourcesUsed(b)
	moved := float64(b.N) * (1 << 20)
	b.ReportMetric((used.written-before.written)/moved, "written/byte")
	b.ReportMetric((used.cpu-before.cpu).Seconds()/moved*1e9, "cpu-s/GB")
	if len(waits) > 0 {
		slices.Sort(waits)
		b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1e3, "small-p50-ms")
		b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1e3, "small-p99-ms")
	}
}

// bulkProducer appends until nothing is left, with a window of batches.
func bulkProducer(b *testing.B, s *Store, l *Log, batch []byte, left *atomic.Int64) {
	window := make(chan struct{}, bulkWindow)
	for left.Add(-1) >= 0 {
		window <- struct{}{}
		<-s.Room(len(batch))
		a, err := l.Append(batch, 0, testNow)
		for errors.Is(err, ErrBusy) {
			<-s.Room(len(batch))
			a, err = l.Append(batch, 0, testNow)
		}
		if err != nil {
			b.Error(err)
			return
		}
		s.Notify(a.Ticket, func(err error) {
			if err != nil {
				b.Error(err)
			}
			<-window
		})
	}
	for range bulkWindow {
		window <- struct{}{}
	}
}

// smallProducer sends 1 KiB after 1 KiB and says how long each took.
func smallProducer(b *testing.B, s *Store, stop <-chan struct{}) (waits []time.Duration) {
	l, err := s.OpenLog(testID(255), "small-0", LogConfig{})
	if err != nil {
		b.Error(err)
		return nil
	}
	batch := testBatch{valueBytes: 1000}.build()
	for {
		select {
		case <-stop:
			return waits
		default:
		}
		began := time.Now()
		appendDurably(b, s, l, batch)
		waits = append(waits, time.Since(began))
	}
}

// resources are what the process has used so far.
type resources struct {
	cpu     time.Duration
	written float64 // bytes, to the disk
}

func resourcesUsed(b *testing.B) (r resources) {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	r.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if _, err := fmt.Sscanf(string(line), "write_bytes: %f", &r.written); err == nil {
			return r
		}
	}
	b.Fatal("no write_bytes in /proc/self/io")
	return r
}
