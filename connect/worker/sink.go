package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirlog/weir/connect"
)

// sinkRunner runs one life of a sink task: poll -> transforms (decoding only if somebody asks) -> Put, and on each flush
// interval Flush -> dead letters durable -> commit.
//
// The loop and the client's rebalance callbacks exclude each other by mu, which is held during every call of the task but
// Stats: "one call at a time". Between a poll and AllowRebalance no partition goes; while a Put is being retried
// rebalances are allowed, and what went is left out of the repetition.
type sinkRunner struct {
	w     *Worker
	id    TaskID
	task  connect.SinkTask
	class string
	lazy  bool
	life  *life
	pipe  *pipeline
	tol   *tolerance
	dlq   *deadLetters
	count *counters
	log   *slog.Logger

	open       func(context.Context) (*kgo.Client, error) // joins the group at once, all under the context
	side       func() (*kgo.Client, error)                // in no group, for reading single records again
	client     *kgo.Client
	admin      *kadm.Client
	group      string
	maxRecords int // of one poll
	maxBytes   int // of one Put
	reset      kgo.Offset
	context    context.Context // of the life and its draining; the callbacks' calls run under it

	mu    sync.Mutex
	parts map[connect.TopicPartition]*sinkPart
	told  []connect.Committed // committed since the last Flush
	fault error               // of a callback; ends the loop
	seq   uint64              // of assignments
	batch sinkBatch

	nextCommit time.Time // when the next commit is due; the loop's only
	unread     unread    // the loop's only
}

// sinkPart is a partition that the task owns. All offsets are of the next record.
type sinkPart struct {
	seq       uint64 // of its assignment
	position  int64  // to be read
	given     int64  // after the last record that was given to the sink
	durable   int64  // as the sink told last
	metadata  string // as the sink told last
	committed int64  // -1: none
	stored    string // metadata beside committed
}

// sinkBatch is what one Put is made of: records beside what they were read as.
type sinkBatch struct {
	records []connect.Record
	read    []*kgo.Record
	seqs    []uint64 // of the assignment under which they were read
	bytes   int
}

func (b *sinkBatch) clear() {
	clear(b.records)
	clear(b.read)
	b.records, b.read, b.seqs, b.bytes = b.records[:0], b.read[:0], b.seqs[:0], 0
}

func (b *sinkBatch) remove(i int) {
	b.records = append(b.records[:i], b.records[i+1:]...)
	b.read = append(b.read[:i], b.read[i+1:]...)
	b.seqs = append(b.seqs[:i], b.seqs[i+1:]...)
}

// run consumes until ctx ends or the task fails. At the end of ctx it flushes, commits and gives its partitions back.
func (r *sinkRunner) run(ctx context.Context) error {
	drainCtx, stopDrain := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDrain()
	unlimited := context.AfterFunc(ctx, func() { time.AfterFunc(r.w.cfg.ShutdownTimeout, stopDrain) })
	defer unlimited()
	r.mu.Lock()
	r.context, r.parts = drainCtx, map[connect.TopicPartition]*sinkPart{}
	clientCtx, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	client, err := r.open(clientCtx)
	if err != nil {
		r.mu.Unlock()
		return err
	}
	r.client, r.admin = client, kadm.NewClient(client)
	r.mu.Unlock()
	defer r.closeClient(clientCtx, abandon)
	lagCtx, stopLag := context.WithCancel(ctx)
	group := errgroup.Group{}
	group.Go(guard(func() error { return r.watchLag(lagCtx) }))
	err = guard(func() error { return r.loop(ctx) })()
	stopLag()
	waitErr := group.Wait()
	r.leave(ctx, drainCtx, err)
	return errors.Join(err, waitErr)
}

// leave flushes and commits a task that was asked to end, and takes its partitions away.
func (r *sinkRunner) leave(ctx, drainCtx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && ctx.Err() != nil {
		if cerr := r.commit(drainCtx, false); cerr != nil {
			r.log.Warn("task was stopped before its last commit; the rest is read again", "error", cerr)
		}
	}
	r.revokeLocked(drainCtx, r.ownedLocked())
}

// leaveLimit is how long leaving the group may take. A client that is waiting to be let in, for a member that died, leaves
// only when it has been; it is abandoned then.
const leaveLimit = 2 * time.Second

func (r *sinkRunner) closeClient(ctx context.Context, abandon func()) {
	r.client.AllowRebalance()
	limit, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	if err := r.client.LeaveGroupContext(limit); err != nil {
		abandon()
	}
	r.client.Close()
}

func (r *sinkRunner) loop(ctx context.Context) error {
	r.nextCommit = r.w.now().Add(r.w.cfg.FlushInterval)
	for ctx.Err() == nil {
		if err := r.faulted(); err != nil {
			return err
		}
		paused := r.life.paused()
		if !paused {
			if err := r.poll(ctx, min(time.Until(r.nextCommit), pollWait)); err != nil {
				return err
			}
		} else {
			r.life.wait(ctx, nil)
		}
		if now := r.w.now(); !now.Before(r.nextCommit) || paused {
			r.mu.Lock()
			err := r.commit(ctx, false)
			r.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				return err
			}
			r.nextCommit = now.Add(r.w.cfg.FlushInterval)
		}
	}
	return nil
}

func (r *sinkRunner) faulted() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// poll takes records for at most wait and puts them.
func (r *sinkRunner) poll(ctx context.Context, wait time.Duration) error {
	pollCtx, cancel := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer cancel()
	fetches := r.client.PollRecords(pollCtx, r.maxRecords)
	defer r.client.AllowRebalance()
	var fault error
	fetches.EachError(func(topic string, partition int32, err error) {
		switch {
		case pollCtx.Err() != nil && errors.Is(err, pollCtx.Err()):
		case r.unread.isGone(topic, err, r.w.now()):
			fault = errors.Join(fault, fmt.Errorf("topic %s was deleted; reading on from what has its name now: %w", topic, err))
		case kerr.IsRetriable(err) || errors.As(err, new(*kgo.ErrDataLoss)) || !errors.As(err, new(*kerr.Error)):
			r.unread.say(r.log.With("topic", topic), r.w.now(), partition, err)
		case fault == nil:
			fault = fmt.Errorf("read topic %s partition %d: %w", topic, partition, err)
		}
	})
	if fault != nil {
		return fault
	}
	if fetches.NumRecords() == 0 && len(fetches.Errors()) > 0 {
		sleep(pollCtx, unreadPause) // the client may give the same errors again at once
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for iter := fetches.RecordIter(); !iter.Done(); {
		if err := r.take(ctx, iter.Next()); err != nil {
			return err
		}
		if r.batch.bytes >= r.maxBytes {
			if err := r.put(ctx); err != nil {
				return err
			}
		}
	}
	err := r.put(ctx)
	r.publish()
	return err
}

// take makes a record ready and adds it to the batch, or ends it: filtered, or failed and tolerated.
func (r *sinkRunner) take(ctx context.Context, k *kgo.Record) error {
	part := r.parts[connect.TopicPartition{Topic: k.Topic, Partition: k.Partition}]
	if part == nil || k.Offset < part.position {
		return nil // revoked meanwhile, or before where the sink wants to start
	}
	r.count.in.Add(1)
	r.count.inFlight.Add(1)
	r.count.bytesOut.Add(uint64(len(k.Key) + len(k.Value)))
	part.position = k.Offset + 1
	b := &r.batch
	b.records = append(b.records, connect.Record{}) // made in place: nothing is allocated for a record
	keep, failed := r.convert(ctx, k, &b.records[len(b.records)-1])
	if keep {
		part.given = k.Offset + 1
		b.read = append(b.read, k)
		b.seqs = append(b.seqs, part.seq)
		b.bytes += len(k.Key) + len(k.Value) + 128
		return nil
	}
	b.records = b.records[:len(b.records)-1]
	switch {
	case failed == nil:
		r.count.filtered.Add(1)
		r.count.inFlight.Add(-1)
		return nil
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the failure may be ctx's end; the record is read again
	}
	return r.bury(ctx, k, failed)
}

// convert makes rec of what was read. keep is false when a transform dropped it, or with a failure.
func (r *sinkRunner) convert(ctx context.Context, k *kgo.Record, rec *connect.Record) (keep bool, failed *recordError) {
	*rec = connect.Record{Topic: k.Topic, Partition: k.Partition, Timestamp: k.Timestamp.UnixMilli(),
		Key: connect.EncodedData(k.Key, r.pipe.key.Codec()), Value: connect.EncodedData(k.Value, r.pipe.value.Codec()),
		Headers:       r.pipe.headers(k.Headers),
		Origin:        connect.Origin{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset},
		LogAppendTime: k.Attrs.TimestampType() == 1,
	}
	if !r.pipe.chain.Empty() {
		if keep, failed = r.transform(ctx, rec); !keep {
			return false, failed
		}
	}
	if r.lazy {
		return true, nil
	}
	err := rec.Decode()
	if err != nil {
		err = r.tol.attempt(ctx, rec.Decode)
	}
	if err != nil {
		return false, r.undecoded(rec, err)
	}
	return true, nil
}

func (r *sinkRunner) transform(ctx context.Context, rec *connect.Record) (keep bool, failed *recordError) {
	original := *rec
	err := r.tol.attempt(ctx, func() (err error) {
		*rec = original
		keep, err = r.pipe.chain.Apply(rec)
		return err
	})
	rec.Origin = original.Origin
	switch {
	case errors.Is(err, connect.ErrNotDecoded):
		return false, r.undecoded(&original, err)
	case err != nil:
		return false, &recordError{stageTransform, "transforms", err}
	}
	return keep, nil
}

// undecoded says which half of a record could not be decoded.
func (r *sinkRunner) undecoded(rec *connect.Record, err error) *recordError {
	if key := rec.Key; key.Decode() != nil {
		return &recordError{stageKey, "key.converter", err}
	}
	return &recordError{stageValue, "value.converter", err}
}

// put gives the batch to the sink until it has taken it, without what it refuses and what was revoked meanwhile.
func (r *sinkRunner) put(ctx context.Context) error {
	b := &r.batch
	defer b.clear()
	if len(b.records) > 0 {
		r.count.batch(len(b.records))
	}
	back := backoff{min: 100 * time.Millisecond, max: 30 * time.Second}
	for len(b.records) > 0 {
		err := r.task.Put(ctx, b.records)
		kind := connect.KindOf(ctx, err)
		var bad *connect.Error
		switch {
		case err == nil:
			if back.attempt > 0 {
				r.life.retried()
			}
			r.count.out.Add(uint64(len(b.records)))
			r.count.inFlight.Add(int64(-len(b.records)))
			return nil
		case kind == connect.KindEnded:
			return nil
		case kind == connect.KindRetry:
			if err := r.waitToRetry(ctx, &back, err); err != nil {
				return err
			}
			if err := r.tick(ctx); err != nil {
				return err
			}
		case kind == connect.KindBadRecord && errors.As(err, &bad) && bad.Index >= 0 && bad.Index < len(b.records):
			k := b.read[bad.Index]
			b.remove(bad.Index)
			if err := r.bury(ctx, k, &recordError{stagePut, r.class, bad.Err}); err != nil {
				return err
			}
		default:
			return fmt.Errorf("put: %w", err)
		}
	}
	return nil
}

// tick commits beside a Put that is being retried, so that what got through is committed, and a sink whose buffers are
// full until something is committed can go on. A Flush that asks for a retry too is left to the next tick.
func (r *sinkRunner) tick(ctx context.Context) error {
	now := r.w.now()
	if now.Before(r.nextCommit) {
		return nil
	}
	r.nextCommit = now.Add(r.w.cfg.FlushInterval)
	err := r.commit(ctx, true)
	switch connect.KindOf(ctx, err) {
	case connect.KindRetry, connect.KindEnded:
		err = nil
	}
	return err
}

// waitToRetry lets rebalances happen while it waits and then drops what was revoked.
func (r *sinkRunner) waitToRetry(ctx context.Context, back *backoff, cause error) error {
	r.count.retries.Add(1)
	r.mu.Unlock()
	r.client.AllowRebalance()
	r.life.retry(ctx, back, cause)
	r.mu.Lock()
	b := &r.batch
	for i := len(b.records) - 1; i >= 0; i-- {
		k := b.read[i]
		part := r.parts[connect.TopicPartition{Topic: k.Topic, Partition: k.Partition}]
		if part == nil || part.seq != b.seqs[i] {
			b.remove(i)
			r.count.in.Add(^uint64(0))
			r.count.inFlight.Add(-1)
		}
	}
	return r.fault
}

// bury ends a record that failed: it fails the task, or is skipped, or sent to the dead-letter topic, for which the next
// commit waits.
func (r *sinkRunner) bury(ctx context.Context, k *kgo.Record, e *recordError) error {
	where := fmt.Sprintf("record at %s-%d offset %d", k.Topic, k.Partition, k.Offset)
	if err := r.tol.failed(e, where); err != nil {
		return err
	}
	r.count.inFlight.Add(-1)
	if r.dlq == nil {
		r.count.skipped.Add(1)
		return nil
	}
	r.count.dead.Add(1)
	return r.dlq.send(ctx, k.Key, k.Value, k.Headers, e, k.Topic, k.Partition, k.Offset, nil)
}
