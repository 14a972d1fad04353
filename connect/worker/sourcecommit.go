package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlog/weir/connect"
)

// drain waits until everything that was polled has ended, so far as ctx lets it.
func (r *sourceRunner) drain(ctx context.Context) error {
	if err := r.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := r.judge(ctx); err != nil {
		return err
	}
	return r.dlq.wait(ctx)
}

// persist stores offsets on every tick until polled is closed, then once more.
func (r *sourceRunner) persist(ctx context.Context, polled <-chan struct{}) error {
	tick := time.NewTicker(r.w.cfg.FlushInterval)
	defer tick.Stop()
	var unstored connect.Acked
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-polled:
			last = true
		}
		unstored = merge(unstored, r.ledger.take())
		if len(unstored.Offsets) == 0 && len(unstored.Acks) == 0 {
			continue
		}
		if err := r.store(ctx, unstored.Offsets); err != nil {
			r.count.commitFailures.Add(1)
			if last {
				return err
			}
			r.log.Warn("offsets were not stored, trying again at the next tick", "error", err)
			continue
		}
		r.mu.Lock()
		r.told = merge(r.told, unstored)
		r.mu.Unlock()
		unstored = connect.Acked{}
		select {
		case r.tell <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *sourceRunner) store(ctx context.Context, offsets []connect.SourceOffset) error {
	if len(offsets) == 0 {
		return nil
	}
	start := r.w.now()
	ctx, cancel := context.WithTimeout(ctx, r.w.cfg.FlushTimeout)
	defer cancel()
	if err := r.w.group.mayStore(r.id); err != nil {
		return err
	}
	if err := r.w.offsets.put(ctx, r.id.Connector, offsets); err != nil {
		return err
	}
	end := r.w.now()
	r.count.committed(end.Sub(start), end)
	return nil
}

// commit tells the task what is durable. A failed Commit is merged into the next; it fails nothing but is counted.
func (r *sourceRunner) commit(ctx context.Context, persisted <-chan struct{}) error {
	for last := false; !last; {
		select {
		case <-r.tell:
		case <-persisted:
			last = true
		}
		r.mu.Lock()
		told := r.told
		r.told = connect.Acked{}
		r.mu.Unlock()
		if len(told.Offsets) == 0 && len(told.Acks) == 0 {
			continue
		}
		err := r.task.Commit(ctx, told)
		if err == nil {
			continue
		}
		r.count.commitFailures.Add(1)
		if ctx.Err() != nil {
			return fmt.Errorf("commit: %w", errors.Join(err, ctx.Err()))
		}
		if connect.KindOf(ctx, err) == connect.KindBadConfig {
			r.fail(fmt.Errorf("commit: %w", err))
		}
		r.log.Warn("the source did not take a commit, telling it again with the next", "error", err)
		r.mu.Lock()
		r.told = merge(told, r.told)
		r.mu.Unlock()
	}
	return nil
}

// fail ends the task's loop with err.
func (r *sourceRunner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = err
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
