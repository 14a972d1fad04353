package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff doubles a delay from min to max, each delay cut by up to a fifth at random. The zero attempt waits min.
type backoff struct {
	min, max time.Duration
	attempt  int
}

// next gives the delay of this attempt and counts it.
func (b *backoff) next() time.Duration {
	d := b.max
	if b.attempt < 30 {
		d = min(b.min<<b.attempt, b.max)
	}
	b.attempt++
	return d - time.Duration(rand.Int64N(int64(d/5)+1))
}

// sleep waits for the next delay; false when ctx ended first.
func (b *backoff) sleep(ctx context.Context) bool { return sleep(ctx, b.next()) }

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
