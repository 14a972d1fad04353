package elasticsearch

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
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

	attempts int       // answers that put it off
	retryAt  time.Time // not before
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
	stuck    int   // items that were put off more often than limits.retries
	down     int   // lanes whose requests have failed as a whole more often than limits.retries
	trouble  error // the last of those failures
	fatal    error
	rejects  []connect.Rejection
	changed  chan struct{} // has a token after something was settled
	stop     context.CancelFunc
	running  sync.WaitGroup
	progress atomic.Uint64

	conflicts, retries, requests, leftOut atomic.Uint64
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
		if added, err := b.tryAdd(i); added || err != nil {
			return err
		}
		select {
		case <-b.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryAdd queues an item if there is room, and answers why there will be none for long.
func (b *bulker) tryAdd(i *item) (added bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.fatal != nil:
		return false, b.fatal
	case b.items == 0 || b.items < b.limits.queuedItems && b.bytes+i.bytes() <= b.limits.queuedBytes:
		b.items++
		b.bytes += i.bytes()
		l := b.lane(i)
		l.queue = append(l.queue, i)
		i.part.pending = append(i.part.pending, i)
		signal(l.wake)
		return true, nil
	case b.down > 0 || b.stuck > 0:
		return false, b.trouble
	}
	return false, nil
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

// wait returns when nothing is queued or on its way but what is stuck: documents that the server puts off again and again,
// while it takes others. It answers Retry while the target is away.
func (b *bulker) wait(ctx context.Context, limit time.Duration) error {
	expired := time.NewTimer(limit)
	defer expired.Stop()
	for {
		b.mu.Lock()
		items, err := b.moving(), b.fatal
		if err == nil && b.down > 0 {
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

// moving counts the items that are neither stuck nor behind one that is; b.mu is held.
func (b *bulker) moving() int {
	n := b.items
	if b.stuck == 0 {
		return n
	}
	n -= b.stuck
	for _, l := range b.lanes {
		stuck := map[string]bool{}
		for _, i := range l.queue {
			switch {
			case b.isStuck(i):
				stuck[i.target] = true
			case stuck[i.target]:
				n--
			}
		}
	}
	return n
}

func (b *bulker) isStuck(i *item) bool { return i.attempts > b.limits.retries }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
