package elasticsearch

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlog/weir/connect"
)

// item is one record's operation.
type item struct {
	part   *partition
	origin connect.Origin
	target string // index and id; "" for an id that the server makes
	body   []byte // the action's line and the document's
	done   bool
}

// itemOverheadBytes is counted for an item beside its body.
const itemOverheadBytes = 256

func (i *item) bytes() int64 { return int64(len(i.body)) + itemOverheadBytes }

// partition is what is known of one topic-partition.
type partition struct {
	connect.TopicPartition
	next    int64   // after the last record taken; -1 before the first
	pending []*item // in offset order, from the first that is not done
	durable int64   // after the last of an unbroken run of records that are done; -1 for none
	told    int64   // as far as is known, what is committed
	gone    bool    // revoked: what is queued is dropped
}

// settle moves the durable offset over what is done.
func (p *partition) settle() {
	for len(p.pending) > 0 && p.pending[0].done {
		p.durable = p.pending[0].origin.Offset + 1
		p.pending[0] = nil
		p.pending = p.pending[1:]
	}
}

// limits bound the bulker.
type limits struct {
	lanes       int
	items       int   // of one request
	bodyBytes   int   // of one request
	queuedItems int   // queued or on their way
	queuedBytes int64 // queued or on their way
	linger      time.Duration
	retries     int // failures in a row before callers are told
	backoff     time.Duration
}

// outcome is how the server has answered one item.
type outcome struct {
	verdict verdict
	reason  string
}

type verdict uint8

const (
	written  verdict = iota // indexed, deleted, or not needed
	conflict                // the server has a newer version: as good as written
	again                   // to be repeated
	rejected                // never
)

// bulker queues items and sends them in bulk requests.
type bulker struct {
	limits limits
	// send sends bodies in one request and answers one outcome per item, or an error for the whole: a Retry, one that
	// wraps errTooLarge, or one that ends the task. It may be called from all lanes at a time.
	send func(ctx context.Context, items []*item) ([]outcome, error)
	// versioned: an id may stand in one request several times, the server keeps their order by version.
	versioned bool
	reject    func(i *item, reason string) bool // whether a refused document is rejected (or else left out)
	log       *slog.Logger

	mu       sync.Mutex
	lanes    []*lane
	items    int
	bytes    int64
	trouble  error // the last failure while a lane has failed more often than limits.retries; nil when it got on
	fatal    error
	rejects  []connect.Rejection
	changed  chan struct{} // has a token after something was settled
	stop     context.CancelFunc
	running  sync.WaitGroup
	progress atomic.Uint64

	conflicts, retries, requests, leftOut atomic.Uint64
}

// lane is a queue that sends one request at a time.
type lane struct {
	queue  []*item
	wake   chan struct{}
	items  int // of the next request at most: halved by failures
	failed int // in a row
}

func (b *bulker) start(ctx context.Context) {
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.changed = make(chan struct{}, 1)
	for range b.limits.lanes {
		l := &lane{wake: make(chan struct{}, 1), items: b.limits.items}
		b.lanes = append(b.lanes, l)
		b.running.Go(func() { b.run(ctx, l) })
	}
}

// close ends the lanes and waits for them; what is queued is dropped.
func (b *bulker) close() {
	b.stop()
	b.running.Wait()
}

// add queues an item, waiting for room. It answers Retry while the target is away and there is none.
func (b *bulker) add(ctx context.Context, i *item) error {
	for {
		b.mu.Lock()
		switch {
		case b.fatal != nil:
			defer b.mu.Unlock()
			return b.fatal
		case b.items == 0 || b.items < b.limits.queuedItems && b.bytes+i.bytes() <= b.limits.queuedBytes:
			b.items++
			b.bytes += i.bytes()
			l := b.lane(i)
			l.queue = append(l.queue, i)
			i.part.pending = append(i.part.pending, i)
			b.mu.Unlock()
			signal(l.wake)
			return nil
		case b.trouble != nil:
			defer b.mu.Unlock()
			return b.trouble
		}
		b.mu.Unlock()
		select {
		case <-b.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *bulker) lane(i *item) *lane {
	if i.target == "" {
		return b.lanes[uint64(i.origin.Offset)%uint64(len(b.lanes))]
	}
	h := fnv.New32a()
	h.Write([]byte(i.target))
	return b.lanes[h.Sum32()%uint32(len(b.lanes))]
}

// skip notes a record that needs no operation.
func (b *bulker) skip(i *item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i.done = true
	i.part.pending = append(i.part.pending, i)
	i.part.settle()
}

// wait returns when nothing is queued or on its way. It answers Retry while the target is away.
func (b *bulker) wait(ctx context.Context, limit time.Duration) error {
	expired := time.NewTimer(limit)
	defer expired.Stop()
	for {
		b.mu.Lock()
		items, err := b.items, b.fatal
		if err == nil {
			err = b.trouble
		}
		b.mu.Unlock()
		if items == 0 || err != nil {
			return err
		}
		select {
		case <-b.changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-expired.C:
			return connect.Retry(0, fmt.Errorf("%d documents have not been answered for %v (flush.timeout.ms)", items, limit))
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
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
			batch := b.take(l)
			if len(batch) == 0 {
				break
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
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// take takes the next request's items out of the queue, and drops those of revoked partitions.
func (b *bulker) take(l *lane) []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*item
	var seen map[string]bool
	if !b.versioned {
		seen = map[string]bool{}
	}
	kept := l.queue[:0]
	bytes, full := 0, b.fatal != nil
	for _, i := range l.queue {
		full = full || len(batch) > 0 && (len(batch) >= l.items || bytes+len(i.body) > b.limits.bodyBytes)
		switch {
		case i.part.gone:
			b.free(i)
		case full || seen[i.target] && i.target != "":
			kept = append(kept, i)
		default:
			batch = append(batch, i)
			bytes += len(i.body)
		}
		if seen != nil {
			seen[i.target] = true // also of what is left: a later one of the same id must not pass it
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	if len(batch) == 0 {
		signal(b.changed)
	}
	return batch
}

// free takes an item off the books; b.mu is held.
func (b *bulker) free(i *item) {
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
	if len(repeat) == 0 {
		l.failed = 0
		l.items = min(2*l.items, b.limits.items)
		b.trouble = nil
		return 0
	}
	for x, y := 0, len(repeat)-1; x < y; x, y = x+1, y-1 {
		repeat[x], repeat[y] = repeat[y], repeat[x]
	}
	if len(repeat) < len(batch) {
		l.failed = 0 // some got through: busy, not away
	}
	l.items = max(len(batch)/2, 1)
	return b.repeat(l, repeat, connect.Retry(0, fmt.Errorf("%d of %d operations were put off: %s", len(repeat), len(batch), reason)))
}

// repeat puts items back before all that came later; b.mu is held.
func (b *bulker) repeat(l *lane, items []*item, err error) time.Duration {
	l.queue = append(items[:len(items):len(items)], l.queue...)
	l.failed++
	b.retries.Add(uint64(len(items)))
	if l.failed > b.limits.retries {
		b.trouble = err
	}
	wait := min(b.limits.backoff<<min(l.failed-1, 16), maxBackoff)
	return wait/2 + time.Duration(rand.Int64N(int64(wait/2)+1))
}

const maxBackoff = 10 * time.Second

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
		b.refuse(batch[0], err.Error())
		return 0
	case isTooLarge(err):
		l.items = len(batch) / 2
		l.queue = append(batch, l.queue...)
		return 0
	case isRetry(err):
		return b.repeat(l, batch, err)
	}
	l.queue = append(batch, l.queue...)
	b.fatal = err
	return 0
}
