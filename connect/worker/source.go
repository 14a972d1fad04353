package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirlog/weir/connect"
)

// pollWait is how long one Poll may wait for data: how soon a task notices a pause.
const pollWait = time.Second

// sourceRunner runs one life of a source task, from an opened task to a drained one:
//
//	Poll -> transforms -> encode -> ledger.add -> Produce -> (promise) ledger.done       the task's loop
//	each flush interval: ledger.take -> offsets topic, durable                           persist
//	then: task.Commit                                                                    commit
//
// Three goroutines, so that polling never waits for a commit nor persisting for a slow Commit (Law 2).
type sourceRunner struct {
	w     *Worker
	id    TaskID
	task  connect.SourceTask
	acks  bool // the connector wants acks
	class string
	life  *life // pause switch and what the status shows
	pipe  *pipeline
	tol   *tolerance
	dlq   *deadLetters
	count *counters
	log   *slog.Logger

	client     *kgo.Client
	admin      *kadm.Client
	rules      []topicRule
	batchBytes int // largest record the client sends

	ledger  *ledger
	tickets []ticket
	names   map[string]string // interned topics, each known to exist
	headers map[string]string // interned header keys
	arena   int               // bytes of the last batch

	mu      sync.Mutex
	fault   error         // the first failed write that is nobody's but the task's
	refused []refusal     // records that the client refused, to be judged by the loop
	told    connect.Acked // durable and not yet told to the task
	tell    chan struct{} // capacity 1: told has grown
	wake    chan struct{} // capacity 1: fault or refused has grown
}

// sent ties a produced record to its place in the ledger; it is the record's context, so that one promise serves all.
type sent struct {
	context.Context
	ticket ticket
}

// refusal is a record that can't be written, ever.
type refusal struct {
	record *kgo.Record
	ticket ticket
	err    error
}

// errSmallerBatches asks for the task to be run again at once with smaller batches: a topic takes less than the client
// would send, and only a client that knows can tell which record is too large.
type errSmallerBatches struct{ bytes int }

func (e *errSmallerBatches) Error() string {
	return fmt.Sprintf("a topic takes batches of at most %d bytes", e.bytes)
}

// run polls until ctx ends or the task fails, then drains: what was polled is written, its offsets are stored and told.
func (r *sourceRunner) run(ctx context.Context) error {
	r.tell, r.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	r.names, r.headers = map[string]string{}, map[string]string{}
	r.ledger = newLedger(r.acks)
	drainCtx, stopDrain := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDrain()
	limit := func() { time.AfterFunc(r.w.cfg.ShutdownTimeout, stopDrain) }
	unlimited := context.AfterFunc(ctx, limit)
	defer unlimited()
	polled, persisted, group := make(chan struct{}), make(chan struct{}), errgroup.Group{}
	group.Go(guard(func() error {
		defer close(persisted)
		return r.persist(drainCtx, polled)
	}))
	group.Go(guard(func() error { return r.commit(drainCtx, persisted) }))
	pollErr := guard(func() error { return r.loop(ctx, drainCtx) })()
	// Shutdown order: polling has stopped; flush what was polled; persist; commit. Not longer than the limit.
	limit()
	flushErr := r.drain(drainCtx)
	close(polled)
	groupErr := group.Wait()
	switch {
	case pollErr != nil:
		return pollErr
	case ctx.Err() == nil:
		return errors.Join(flushErr, groupErr)
	}
	if flushErr != nil || groupErr != nil {
		r.log.Warn("task was stopped before all it had read was written; the rest is read again", "error", errors.Join(flushErr, groupErr))
	}
	return nil
}

// loop polls until ctx ends; what was polled is delivered under drainCtx, which lasts a little longer.
func (r *sourceRunner) loop(ctx, drainCtx context.Context) error {
	back := backoff{min: 100 * time.Millisecond, max: 30 * time.Second}
	for ctx.Err() == nil {
		if err := r.judge(drainCtx); err != nil {
			return err
		}
		if r.life.paused() {
			r.life.wait(ctx, r.wake)
			continue
		}
		pollCtx, cancel := context.WithTimeout(ctx, pollWait)
		batch, err := r.task.Poll(pollCtx)
		kind := connect.KindOf(pollCtx, err)
		cancel()
		if len(batch.Records) > 0 || len(batch.Marks) > 0 {
			if err := r.deliver(drainCtx, &batch); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
			if back.attempt > 0 {
				r.life.retried()
			}
			back.attempt = 0
		case kind == connect.KindEnded:
		case kind == connect.KindRetry:
			r.count.retries.Add(1)
			if !r.life.retry(ctx, &back, err) {
				return nil
			}
		default:
			return fmt.Errorf("poll: %w", err)
		}
	}
	return nil
}

// judge ends what the producer's promises could not: records that can never be written, and the task if a write failed.
func (r *sourceRunner) judge(ctx context.Context) error {
	r.mu.Lock()
	fault, refused := r.fault, r.refused
	r.refused = nil
	r.mu.Unlock()
	if fault != nil {
		return fault
	}
	for _, f := range refused {
		e := &recordError{stageProduce, "producer", f.err}
		if err := r.bury(ctx, f.ticket, e, f.record.Topic, f.record.Key, f.record.Value, f.record.Headers); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends a batch: every record ends, now or in its promise.
func (r *sourceRunner) deliver(ctx context.Context, b *connect.Batch) error {
	n := len(b.Records)
	r.count.in.Add(uint64(n))
	r.count.inFlight.Add(int64(n))
	if n > 0 {
		r.count.batch(n)
	}
	r.tickets = r.ledger.add(b, r.tickets)
	slab, refs := make([]kgo.Record, n), make([]sent, n)
	arena := make([]byte, 0, r.arena)
	for i := range b.Records {
		rec := &b.Records[i]
		refs[i] = sent{Context: ctx, ticket: r.tickets[i]}
		out := &slab[i]
		out.Context = &refs[i]
		var err error
		var keep bool
		if arena, keep, err = r.convert(ctx, rec, r.tickets[i], out, arena); err != nil {
			return err
		}
		if !keep {
			continue
		}
		if err := r.topic(ctx, rec.Topic, out); err != nil {
			return err
		}
		r.client.Produce(ctx, out, r.promise)
	}
	r.arena = max(r.arena*7/8, len(arena))
	return nil
}

// convert transforms and encodes one record into out, its bytes into arena. keep is false when the record has ended:
// filtered, or failed and tolerated.
func (r *sourceRunner) convert(ctx context.Context, rec *connect.Record, t ticket, out *kgo.Record, arena []byte) (_ []byte, keep bool, err error) {
	if rec.Fault != nil {
		e := &recordError{stagePoll, r.class, errors.New(rec.Fault.Reason)}
		return arena, false, r.bury(ctx, t, e, rec.Topic, nil, rec.Fault.Bytes, nil)
	}
	if rec.Raw != nil {
		return arena, false, connect.BadConfig("", errors.New("raw record batches are not supported by this worker yet"))
	}
	original := *rec
	if !r.pipe.chain.Empty() {
		var kept bool
		err := r.tol.attempt(ctx, func() (err error) {
			*rec = original
			kept, err = r.pipe.chain.Apply(rec)
			return err
		})
		if err != nil {
			return arena, false, r.buryRecord(ctx, t, &recordError{stageTransform, "transforms", err}, &original)
		}
		if !kept {
			r.end(t, connect.Filtered, "", 0, 0)
			return arena, false, nil
		}
	}
	start := len(arena)
	arena, failed := r.pipe.encode(ctx, r.tol, rec, out, arena)
	if failed != nil {
		return arena[:start], false, r.buryRecord(ctx, t, failed, &original)
	}
	for i := range out.Headers {
		out.Headers[i].Key = intern(r.headers, out.Headers[i].Key)
	}
	return arena, true, nil
}

// end ends a record that is not written.
func (r *sourceRunner) end(t ticket, outcome connect.Outcome, topic string, partition int32, offset int64) {
	r.count.inFlight.Add(-1)
	switch outcome {
	case connect.Written:
		r.count.out.Add(1)
	case connect.Filtered:
		r.count.filtered.Add(1)
	case connect.DeadLettered:
		r.count.dead.Add(1)
	case connect.Skipped:
		r.count.skipped.Add(1)
	}
	r.ledger.done(t, outcome, topic, partition, offset)
}

// bury ends a record that failed: it fails the task, or is skipped, or dead-lettered and done once the letter is durable.
func (r *sourceRunner) bury(ctx context.Context, t ticket, e *recordError, topic string, key, value []byte, headers []kgo.RecordHeader) error {
	where := "a record"
	if topic != "" {
		where = fmt.Sprintf("a record for topic %s", topic)
	}
	if err := r.tol.failed(e, where); err != nil {
		return err
	}
	if r.dlq == nil {
		r.end(t, connect.Skipped, "", 0, 0)
		return nil
	}
	key, value = append([]byte(nil), key...), append([]byte(nil), value...)
	return r.dlq.send(ctx, key, value, headers, e, "", 0, 0, func(l *kgo.Record) {
		r.end(t, connect.DeadLettered, l.Topic, l.Partition, l.Offset)
	})
}

// buryRecord buries a record that never had bytes: it is written as the converters write it, else as text.
func (r *sourceRunner) buryRecord(ctx context.Context, t ticket, e *recordError, rec *connect.Record) error {
	if !r.tol.all || r.dlq == nil {
		return r.bury(ctx, t, e, rec.Topic, nil, nil, nil)
	}
	encode := func(d *connect.Data, enc func([]byte, string, *connect.Data) ([]byte, bool, error)) []byte {
		b, null, err := enc(nil, rec.Topic, d)
		switch {
		case null:
			return nil
		case err != nil:
			return []byte(d.Value().String())
		}
		return b
	}
	return r.bury(ctx, t, e, rec.Topic, encode(&rec.Key, r.pipe.key.Encode), encode(&rec.Value, r.pipe.value.Encode), nil)
}

// topic sets a record's topic, having made sure that it exists the first time it is seen.
func (r *sourceRunner) topic(ctx context.Context, topic string, out *kgo.Record) error {
	if name, ok := r.names[topic]; ok {
		out.Topic = name
		return nil
	}
	if topic == "" {
		return errors.New("the connector gave a record without a topic")
	}
	name := strings.Clone(topic)
	if r.w.cfg.TopicCreation {
		if err := ensureTopic(ctx, r.admin, name, r.rules, r.log); err != nil {
			return err
		}
	}
	if limit := r.topicLimit(ctx, name); limit > 0 && limit < r.batchBytes {
		return &errSmallerBatches{limit}
	}
	if r.w.cfg.TopicTracking {
		r.w.statuses.used(ctx, r.id, name)
	}
	r.names[name], out.Topic = name, name
	return nil
}

// topicLimit gives the largest batch that a topic takes, 0 if that can't be found out.
func (r *sourceRunner) topicLimit(ctx context.Context, topic string) int {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	configs, err := r.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil || len(configs) != 1 || configs[0].Err != nil {
		return 0
	}
	for _, c := range configs[0].Configs {
		if n := 0; c.Key == "max.message.bytes" && c.Value != nil {
			if _, err := fmt.Sscan(*c.Value, &n); err == nil {
				return max(n, minBatchBytes)
			}
		}
	}
	return 0
}

// minBatchBytes is the smallest limit that the client takes.
const minBatchBytes = 1 << 10

// promise is called by the client when a record is durable or never will be.
func (r *sourceRunner) promise(rec *kgo.Record, err error) {
	s, ok := rec.Context.(*sent)
	if !ok {
		return
	}
	if err == nil {
		r.count.bytesOut.Add(uint64(len(rec.Key) + len(rec.Value)))
		r.end(s.ticket, connect.Written, rec.Topic, rec.Partition, rec.Offset)
		return
	}
	if s.Err() != nil || errors.Is(err, kgo.ErrClientClosed) {
		return // the task is ending: the record is read again
	}
	size := len(rec.Key) + len(rec.Value)
	err = fmt.Errorf("write record with key %s (%d bytes) to topic %s: %w", shortKey(rec.Key), size, rec.Topic, err)
	if errors.Is(err, kerr.MessageTooLarge) {
		err = fmt.Errorf("%w; raise the topic's max.message.bytes and the connector's producer.override.max.request.size above it, "+
			"or set errors.tolerance=all to leave such records out", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A record that is too large by itself is its own fault; with any other error nothing after it may be committed.
	if errors.Is(err, kerr.MessageTooLarge) && size+128 > r.batchBytes {
		r.refused = append(r.refused, refusal{rec, s.ticket, err})
	} else if r.fault == nil {
		r.fault = err
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func shortKey(key []byte) string {
	switch {
	case key == nil:
		return "null"
	case len(key) > 80:
		return fmt.Sprintf("%.80q...", key)
	}
	return fmt.Sprintf("%q", key)
}

func intern(names map[string]string, s string) string {
	if n, ok := names[s]; ok {
		return n
	}
	s = strings.Clone(s)
	if len(names) < 1024 {
		names[s] = s
	}
	return s
}
