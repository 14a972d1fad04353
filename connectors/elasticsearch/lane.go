package elasticsearch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlog/weir/connect"
)

// lane is a queue that sends one request at a time.
type lane struct {
	queue  []*item
	wake   chan struct{}
	items  int // of the next request at most: halved by failures
	failed int // in a row
}

// run is a lane's life.
func (b *bulker) run(ctx context.Context, l *lane) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		sleep(ctx, b.limits.linger)
		for ctx.Err() == nil {
			batch, next := b.take(l, time.Now())
			if len(batch) == 0 && next == 0 {
				break
			}
			if len(batch) == 0 {
				sleepOr(ctx, next, l.wake)
				continue
			}
			b.requests.Add(1)
			outcomes, err := b.send(ctx, batch)
			if ctx.Err() != nil {
				return
			}
			sleep(ctx, b.settle(l, batch, outcomes, err))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	if d > 0 {
		sleepOr(ctx, d, nil)
	}
}

// sleepOr sleeps, or until wake has a token.
func sleepOr(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// take takes the next request's items out of the queue, and drops those of revoked partitions. An item that was put off
// waits for its time, and so do later ones of its id; the others pass it. With nothing to send now it tells when there
// will be: 0 for never.
func (b *bulker) take(l *lane, now time.Time) (batch []*item, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{} // ids that must not be sent now
	kept := l.queue[:0]
	bytes, full := 0, b.fatal != nil
	for _, i := range l.queue {
		full = full || len(batch) > 0 && (len(batch) >= l.items || bytes+len(i.body) > b.limits.bodyBytes)
		wait := i.retryAt.Sub(now)
		switch {
		case i.part.gone:
			b.free(i)
			continue
		case full:
			kept = append(kept, i)
			continue
		case i.target != "" && seen[i.target]:
			kept = append(kept, i)
		case wait > 0:
			kept = append(kept, i)
			if next == 0 || wait < next {
				next = wait
			}
			seen[i.target] = true
		default:
			batch = append(batch, i)
			bytes += len(i.body)
			if !b.versioned {
				seen[i.target] = true
			}
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	if len(batch) == 0 {
		signal(b.changed)
	}
	return batch, next
}

// free takes an item off the books; b.mu is held.
func (b *bulker) free(i *item) {
	if b.isStuck(i) {
		b.stuck--
	}
	b.items--
	b.bytes -= i.bytes()
	i.done, i.body = true, nil
	i.part.settle()
}

// settle books a request's outcome and tells how long the lane waits before the next.
func (b *bulker) settle(l *lane, batch []*item, outcomes []outcome, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer signal(b.changed)
	b.progress.Add(1)
	if err != nil {
		return b.settleWhole(l, batch, err)
	}
	var repeat []*item
	reason := ""
	newer := map[string]bool{} // ids with a later version that the server has
	for n := len(batch) - 1; n >= 0; n-- {
		i, o := batch[n], outcomes[n]
		switch {
		case o.verdict == again && !newer[i.target]:
			repeat = append(repeat, i)
			reason = o.reason
		case o.verdict == rejected:
			b.refuse(i, o.reason)
		default:
			if o.verdict == conflict {
				b.conflicts.Add(1)
			}
			if b.versioned && i.target != "" {
				newer[i.target] = true
			}
			b.free(i)
		}
	}
	b.revive(l)
	if len(repeat) == 0 {
		l.items = min(2*l.items, b.limits.items)
		return 0
	}
	slices.Reverse(repeat)
	if len(repeat) == len(batch) {
		l.items = max(len(batch)/2, 1)
	}
	b.retries.Add(uint64(len(repeat)))
	retryAt := time.Now().Add(b.delay(repeat[0].attempts + 1)) // one time for all: they go together again
	for _, i := range repeat {
		was := b.isStuck(i)
		i.attempts++
		i.retryAt = retryAt
		if !was && b.isStuck(i) {
			b.stuck++
			b.trouble = connect.Retry(0, fmt.Errorf("%d documents are put off again and again: %s", b.stuck, reason))
			if b.stuck == 1 {
				b.log.Warn("the server puts documents off again and again, others pass them", "topic", i.origin.Topic, "partition", i.origin.Partition, "reason", reason)
			}
		}
	}
	l.queue = append(repeat, l.queue...)
	return 0
}

// delay gives the wait after so many failures in a row, with jitter.
func (b *bulker) delay(failures int) time.Duration {
	wait := min(b.limits.backoff<<min(failures-1, 16), maxBackoff)
	return wait/2 + time.Duration(rand.Int64N(int64(wait/2)+1))
}

const maxBackoff = 10 * time.Second

// revive notes that the server has answered a lane; b.mu is held.
func (b *bulker) revive(l *lane) {
	if l.failed > b.limits.retries {
		b.down--
	}
	l.failed = 0
}

// refuse ends an item that the server will never take; b.mu is held.
func (b *bulker) refuse(i *item, reason string) {
	if b.reject(i, reason) {
		if !i.part.gone {
			b.rejects = append(b.rejects, connect.Rejection{Origin: i.origin, Reason: reason})
		}
	} else {
		b.leftOut.Add(1)
	}
	b.free(i)
}

// settleWhole books a request that failed as a whole; b.mu is held.
func (b *bulker) settleWhole(l *lane, batch []*item, err error) time.Duration {
	switch {
	case isTooLarge(err) && len(batch) == 1:
		b.revive(l)
		b.refuse(batch[0], err.Error())
		return 0
	case isTooLarge(err):
		b.revive(l)
		l.items = len(batch) / 2
		l.queue = append(batch, l.queue...)
		return 0
	case isRetry(err):
		l.queue = append(batch, l.queue...)
		l.items = max(len(batch)/2, 1)
		b.retries.Add(uint64(len(batch)))
		if l.failed++; l.failed == b.limits.retries+1 {
			b.down++
		}
		if b.down > 0 {
			b.trouble = err
		}
		return b.delay(l.failed)
	}
	l.queue = append(batch, l.queue...)
	b.fatal = err
	return 0
}
