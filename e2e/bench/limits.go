package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	syncs         = 2000
	limitDuration = 2 * time.Second
	chunkBytes    = 1 << 20
)

// diskRate is what one file on the disk does.
type diskRate struct {
	perSecond float64
	p50, p99  time.Duration
}

// diskSyncs writes 4 KiB and syncs, over and over, in a file that is there already.
func diskSyncs(dir string) (diskRate, error) {
	f, err := os.Create(filepath.Join(dir, "weir-bench-fdatasync"))
	if err != nil {
		return diskRate{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const size = 32 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		return diskRate{}, err
	}
	if err := f.Sync(); err != nil {
		return diskRate{}, err
	}
	block, took := make([]byte, 4096), make([]time.Duration, 0, syncs)
	began := time.Now()
	for i := range syncs {
		one := time.Now()
		if _, err := f.WriteAt(block, int64(i)*4096%size); err != nil {
			return diskRate{}, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return diskRate{}, err
		}
		took = append(took, time.Since(one))
	}
	rate := float64(syncs) / time.Since(began).Seconds()
	slices.Sort(took)
	return diskRate{rate, took[syncs/2], took[syncs*99/100]}, nil
}

// diskStream writes a file from front to end in chunks, with a sync after every eighth or only into the page cache.
func diskStream(ctx context.Context, dir string, sync bool) (mbPerSecond float64, err error) {
	f, err := os.Create(filepath.Join(dir, "weir-bench-stream"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	chunk, written := make([]byte, chunkBytes), 0
	began := time.Now()
	for i := 0; time.Since(began) < limitDuration && ctx.Err() == nil; i++ {
		n, err := f.Write(chunk)
		if err != nil {
			return 0, err
		}
		written += n
		if sync && i%8 == 7 {
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return 0, err
			}
		}
	}
	return float64(written) / 1e6 / time.Since(began).Seconds(), ctx.Err()
}

// loopback sends bytes to itself by TCP.
func loopback(ctx context.Context) (mbPerSecond float64, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	received := make(chan int64, 1)
	go func() {
		in, err := ln.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer in.Close()
		// Read and drop: io.Discard's own buffer is too small.
		n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in}, make([]byte, chunkBytes))
		received <- n
	}()
	out, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return 0, err
	}
	chunk, began := make([]byte, chunkBytes), time.Now()
	for time.Since(began) < limitDuration && ctx.Err() == nil {
		if _, err := out.Write(chunk); err != nil {
			return 0, err
		}
	}
	out.Close()
	n := <-received
	return float64(n) / 1e6 / time.Since(began).Seconds(), ctx.Err()
}

// logLimits are what a log on this machine can't beat.
func logLimits(ctx context.Context, b *bench) ([]figure, error) {
	cached, err := diskStream(ctx, b.dir, false)
	if err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	synced, err := diskStream(ctx, b.dir, true)
	if err != nil {
		return nil, fmt.Errorf("write and sync: %w", err)
	}
	wire, err := loopback(ctx)
	if err != nil {
		return nil, fmt.Errorf("loopback: %w", err)
	}
	return []figure{
		higher("disk_cached", "sequential write, page cache", "MB/s", cached),
		higher("disk_synced", "sequential write, fdatasync each 8 MiB", "MB/s", synced),
		higher("loopback", "loopback TCP, 1 MiB writes", "MB/s", wire),
	}, nil
}

// syncLimits are what a durable acknowledgement can't beat.
func syncLimits(_ context.Context, b *bench) ([]figure, error) {
	disk, err := diskSyncs(b.dir)
	if err != nil {
		return nil, err
	}
	return []figure{
		higher("fdatasync", "4 KiB + fdatasync", "per s", disk.perSecond),
		lower("fdatasync_p50", "4 KiB + fdatasync, p50", "ms", float64(disk.p50.Microseconds())/1000),
		lower("fdatasync_p99", "4 KiB + fdatasync, p99", "ms", float64(disk.p99.Microseconds())/1000),
	}, nil
}
