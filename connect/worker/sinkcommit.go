package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/connect"
)

// commit asks the sink what is durable, makes its rejections durable as dead letters, and commits. mu is held. With
// once a Retry of Flush is returned instead of waited for: a rebalance does not wait, nor does a Put that is retried.
func (r *sinkRunner) commit(ctx context.Context, once bool) error {
	if len(r.parts) == 0 {
		return nil
	}
	flushed, err := r.flush(ctx, once)
	if err != nil {
		return err
	}
	for _, d := range flushed.Durable {
		if part := r.parts[d.TopicPartition]; part != nil {
			part.durable, part.metadata = d.Offset, d.Metadata
		}
	}
	for _, rej := range flushed.Rejected {
		if err := r.buryLate(ctx, rej); err != nil {
			return err
		}
	}
	start := r.w.now()
	limit, cancel := context.WithTimeout(ctx, r.w.cfg.FlushTimeout)
	defer cancel()
	if err := r.dlq.wait(limit); err != nil {
		if limit.Err() != nil && ctx.Err() == nil && !once {
			r.count.commitFailures.Add(1)
			r.log.Warn("dead letters are not durable yet, nothing is committed", "error", err)
			return nil
		}
		return err
	}
	return r.send(ctx, start)
}

// flush is the task's Flush, repeated while it asks for it.
func (r *sinkRunner) flush(ctx context.Context, once bool) (connect.Flushed, error) {
	back := backoff{min: 100 * time.Millisecond, max: 30 * time.Second}
	for {
		told := r.told
		flushed, err := r.task.Flush(ctx, told)
		switch kind := connect.KindOf(ctx, err); {
		case err == nil:
			if back.attempt > 0 {
				r.life.retried()
			}
			r.told = nil
			return flushed, nil
		case kind == connect.KindRetry && !once:
			if err := r.waitToRetry(ctx, &back, err); err != nil {
				return flushed, err
			}
			if ctx.Err() != nil {
				return flushed, ctx.Err()
			}
		default:
			return flushed, fmt.Errorf("flush: %w", err)
		}
	}
}

// send commits what has moved. What the sink has made durable is committed as it said; when that is all it was given, what
// was read and filtered after it is passed too.
func (r *sinkRunner) send(ctx context.Context, start time.Time) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	var moved []connect.Committed
	for tp, part := range r.parts {
		next := part.durable
		if part.durable >= part.given {
			next = max(part.position, part.durable)
		}
		if next == part.committed && part.metadata == part.stored || next < 0 {
			continue
		}
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.Topic][tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
		moved = append(moved, connect.Committed{TopicPartition: tp, Offset: next, Metadata: part.metadata})
	}
	if len(moved) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, r.w.cfg.FlushTimeout)
	defer cancel()
	limit = kgo.PreCommitFnContext(limit, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				part := r.parts[connect.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}]
				if part != nil {
					t.Partitions[j].Metadata = ptr(part.metadata)
				}
			}
		}
		return nil
	})
	var fault error
	r.client.CommitOffsetsSync(limit, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		fault = commitFault(resp, err)
	})
	if fault != nil {
		r.count.commitFailures.Add(1)
		r.log.Warn("offsets were not committed, trying again at the next tick", "error", fault)
		return nil
	}
	for _, m := range moved {
		part := r.parts[m.TopicPartition]
		part.committed, part.stored = m.Offset, m.Metadata
	}
	r.told = append(r.told, moved...)
	end := r.w.now()
	r.count.committed(end.Sub(start), end)
	r.publish()
	return nil
}

func commitFault(resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// assign is called by the client when it is given partitions, before it reads from them. offsets holds what is committed;
// it is returned with absolute places to start at.
func (r *sinkRunner) assign(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	r.mu.Lock() // the client is set when run lets go of it
	admin := r.admin
	r.mu.Unlock()
	added, err := r.places(ctx, admin, offsets)
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("assigned partitions could not be looked up, trying again", "error", err)
		}
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(added) == 0 {
		return offsets, nil
	}
	starts, err := r.callAssign(ctx, added)
	if err != nil {
		if r.fault == nil && ctx.Err() == nil {
			r.fault = fmt.Errorf("assign: %w", err)
		}
		return nil, err
	}
	r.seq++
	for _, a := range added {
		next := a.Offset
		if next < 0 {
			next = a.Begin
			if r.reset.EpochOffset().Offset == -1 {
				next = a.End
			}
		}
		part := &sinkPart{seq: r.seq, committed: a.Offset, stored: a.Metadata, metadata: a.Metadata}
		for _, s := range starts {
			if s.TopicPartition == a.TopicPartition {
				next = s.Offset
			}
		}
		part.position, part.given, part.durable = next, next, next
		if a.Offset < 0 {
			part.committed = -1
		}
		r.parts[a.TopicPartition] = part
		offsets[a.Topic][a.Partition] = kgo.NewOffset().At(next)
	}
	r.publish()
	return offsets, nil
}

// callAssign is the task's Assign, repeated while it asks for it.
func (r *sinkRunner) callAssign(ctx context.Context, added []connect.Assigned) ([]connect.Start, error) {
	back := backoff{min: 100 * time.Millisecond, max: 5 * time.Second}
	for {
		var starts []connect.Start
		err := guard(func() (err error) {
			starts, err = r.task.Assign(ctx, added)
			return err
		})()
		if err == nil || connect.KindOf(ctx, err) != connect.KindRetry {
			if err == nil && back.attempt > 0 {
				r.life.retried()
			}
			return starts, err
		}
		r.count.retries.Add(1)
		if !r.life.retry(ctx, &back, err) {
			return nil, ctx.Err()
		}
	}
}

// places looks up what is committed, with its metadata, and where the partitions begin and end.
func (r *sinkRunner) places(ctx context.Context, admin *kadm.Client, offsets map[string]map[int32]kgo.Offset) ([]connect.Assigned, error) {
	var topics []string
	for t, parts := range offsets {
		if len(parts) > 0 {
			topics = append(topics, t)
		}
	}
	if len(topics) == 0 {
		return nil, nil
	}
	committed, err := admin.FetchOffsetsForTopics(ctx, r.group, topics...)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets: %w", err)
	}
	begins, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	var added []connect.Assigned
	for t, parts := range offsets {
		for p := range parts {
			a := connect.Assigned{TopicPartition: connect.TopicPartition{Topic: t, Partition: p}, Offset: -1}
			if o, ok := committed.Lookup(t, p); ok && o.At >= 0 {
				a.Offset, a.Metadata = o.At, o.Metadata
			}
			begin, ok1 := begins.Lookup(t, p)
			end, ok2 := ends.Lookup(t, p)
			if !ok1 || !ok2 || begin.Err != nil || end.Err != nil {
				return nil, fmt.Errorf("list offsets of %s-%d: %w", t, p, errors.Join(begin.Err, end.Err))
			}
			a.Begin, a.End = begin.Offset, end.Offset
			if a.Offset >= 0 && a.Offset < a.Begin {
				r.log.Warn("committed offset lies before the log, records were deleted unread", "topic", t, "partition", p,
					"committed", a.Offset, "begin", a.Begin)
			}
			added = append(added, a)
		}
	}
	return added, nil
}

// revoked is called by the client before partitions go.
func (r *sinkRunner) revoked(gone map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tps := r.goneLocked(gone)
	if len(tps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.context, revokeLimit)
	defer cancel()
	err := guard(func() error { return r.commit(ctx, true) })()
	if err != nil {
		r.log.Warn("partitions go before their last commit; the rest is read again by their new owner", "error", err)
		if r.fault == nil && r.context.Err() == nil && connect.KindOf(ctx, err) != connect.KindRetry {
			r.fault = err
		}
	}
	r.revokeLocked(ctx, tps)
}

// revokeLimit bounds what the sink may take while a rebalance waits for it.
const revokeLimit = 30 * time.Second

// lost is called by the client when partitions are gone already: nothing can be committed for them.
func (r *sinkRunner) lost(gone map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.context == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.context, revokeLimit)
	defer cancel()
	r.revokeLocked(ctx, r.goneLocked(gone))
}

func (r *sinkRunner) goneLocked(gone map[string][]int32) (tps []connect.TopicPartition) {
	for t, parts := range gone {
		for _, p := range parts {
			tp := connect.TopicPartition{Topic: t, Partition: p}
			if r.parts[tp] != nil {
				tps = append(tps, tp)
			}
		}
	}
	return tps
}

func (r *sinkRunner) ownedLocked() (tps []connect.TopicPartition) {
	for tp := range r.parts {
		tps = append(tps, tp)
	}
	return tps
}

func (r *sinkRunner) revokeLocked(ctx context.Context, tps []connect.TopicPartition) {
	if len(tps) == 0 {
		return
	}
	for _, tp := range tps {
		delete(r.parts, tp)
	}
	err := guard(func() error { return r.task.Revoke(ctx, tps) })()
	if err != nil && ctx.Err() == nil && r.fault == nil {
		r.fault = fmt.Errorf("revoke: %w", err)
	}
	r.publish()
}

// buryLate sends a record that the sink rejected after it had taken it: its bytes are read again from the log; if they
// are gone its origin and the reason are sent.
func (r *sinkRunner) buryLate(ctx context.Context, rej connect.Rejection) error {
	e := &recordError{stagePut, r.class, errors.New(rej.Reason)}
	o := rej.Origin
	if err := r.tol.failed(e, fmt.Sprintf("record at %s-%d offset %d", o.Topic, o.Partition, o.Offset)); err != nil {
		return err
	}
	r.count.out.Add(^uint64(0)) // it counted as out when Put took it
	if r.dlq == nil {
		r.count.skipped.Add(1)
		return nil
	}
	k, err := r.reread(ctx, o)
	if err != nil {
		return err
	}
	r.count.dead.Add(1)
	if k == nil {
		value := fmt.Sprintf("record at %s-%d offset %d is gone from the log: %s", o.Topic, o.Partition, o.Offset, rej.Reason)
		return r.dlq.send(ctx, nil, []byte(value), nil, e, o.Topic, o.Partition, o.Offset, nil)
	}
	return r.dlq.send(ctx, k.Key, k.Value, k.Headers, e, o.Topic, o.Partition, o.Offset, nil)
}

// reread reads one record again, nil if it is gone.
func (r *sinkRunner) reread(ctx context.Context, o connect.Origin) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	client, err := r.side() // not the group's client, whose connection a long poll may hold
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for back := (backoff{min: 50 * time.Millisecond, max: time.Second}); ; {
		var records []*kgo.Record
		next := o.Offset
		meta, err := admin.Metadata(ctx, o.Topic)
		if err == nil {
			leader := meta.Topics[o.Topic].Partitions[o.Partition].Leader
			records, next, err = fetchAt(ctx, client, leader, o.Topic, o.Partition, o.Offset)
		}
		switch {
		case err != nil:
		case len(records) > 0 && records[0].Offset == o.Offset:
			return records[0], nil
		case len(records) > 0 || next > o.Offset:
			return nil, nil
		}
		if !back.sleep(ctx) {
			return nil, fmt.Errorf("read rejected record at %s-%d offset %d again: %w", o.Topic, o.Partition, o.Offset, errors.Join(err, ctx.Err()))
		}
	}
}

// publish copies the partitions' places for Stats. mu is held.
func (r *sinkRunner) publish() {
	lag := make([]PartitionLag, 0, len(r.parts))
	for tp, part := range r.parts {
		lag = append(lag, PartitionLag{Topic: tp.Topic, Partition: tp.Partition, Position: part.position, Committed: part.committed, Lag: -1})
	}
	r.count.setLag(lag)
}

// watchLag asks for the ends of the log beside the loop, so that lag is seen to grow also while a Put hangs.
func (r *sinkRunner) watchLag(ctx context.Context) error {
	for sleep(ctx, lagEvery) {
		topics := r.count.lagTopics()
		if len(topics) == 0 {
			continue
		}
		ends, err := r.admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			continue
		}
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err == nil {
				r.count.setEnd(o.Topic, o.Partition, o.Offset)
			}
		})
	}
	return nil
}

// lagEvery is how often a sink asks for the ends of its partitions.
const lagEvery = 2 * time.Second
