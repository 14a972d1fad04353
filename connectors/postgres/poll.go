package postgres

import (
	"context"
	"fmt"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// Poll implements connect.SourceTask.
func (t *task) Poll(ctx context.Context) (connect.Batch, error) {
	t.release()
	if err := t.fault; err != nil {
		t.fault = nil
		return connect.Batch{}, err
	}
	for t.batch.Empty() && ctx.Err() == nil {
		if err := t.step(ctx); err != nil {
			t.drop()
			if err = t.settings.explain(err); t.batch.Empty() {
				return connect.Batch{}, err
			}
			t.fault = err
		}
	}
	if t.batch.Empty() {
		return connect.Batch{}, nil
	}
	t.seq++
	t.stats.progress.Add(uint64(t.batch.Len()) + 1)
	return t.batch.Finish(t.seq), nil
}

// release gives back what the last batch held.
func (t *task) release() {
	t.batch.Release()
	if t.stream != nil {
		t.stream.wire.release()
	}
	if t.run != nil {
		t.run.wire.release()
	}
}

func (t *task) full() bool {
	held := t.batch.HeldBytes()
	if t.stream != nil {
		held += t.stream.wire.heldBytes()
	}
	if t.run != nil {
		held += t.run.wire.heldBytes()
	}
	return t.batch.Len() > max(0, t.settings.MaxRecords-debezium.RecordsPerChange) || held >= t.maxBytes && t.batch.Len() > 0
}

// step gets on with the present phase.
func (t *task) step(ctx context.Context) error {
	switch t.phase {
	case phaseSlot:
		return t.stepSlot(ctx)
	case phaseSnapshot:
		return t.snapshotPhase(ctx)
	case phaseStream:
		return t.streamPhase(ctx)
	}
	<-ctx.Done()
	return nil
}

func (t *task) stepSlot(ctx context.Context) error {
	if t.making == nil {
		open, cancel := unhurried(ctx)
		defer cancel()
		conn, err := t.dial(open, true)
		if err != nil {
			return err
		}
		w, err := takeWire(open, conn)
		if err != nil {
			return err
		}
		t.making = &slotMaker{wire: w}
		if err := w.query(t.settings.slotSQL(t.then == phaseSnapshot)); err != nil {
			return fmt.Errorf("make replication slot: %w", err)
		}
		t.log.Info("making the replication slot; the server waits for running transactions to end", "slot", t.settings.slot)
	}
	done, err := t.making.step(ctx)
	if err != nil || !done {
		return err
	}
	lsn, err := t.making.consistentPoint()
	if err != nil {
		return err
	}
	t.log.Info("replication slot made", "slot", t.settings.slot, "lsn", formatLSN(lsn))
	t.returned = position{commit: lsn, kind: typeCommit}
	t.phase, t.exported = t.then, t.making.snapshotName()
	if t.phase == phaseSnapshot {
		return nil
	}
	t.fresh = true
	return t.closeMaking()
}

func (t *task) closeMaking() error {
	if t.making == nil {
		return nil
	}
	w := t.making.wire
	t.making, t.exported = nil, ""
	return w.close()
}

func (t *task) snapshotPhase(ctx context.Context) error {
	if t.run == nil {
		run, err := t.openSnapshot(ctx, t.exported, t.returned)
		if err != nil {
			return err
		}
		t.run = run
		t.stats.snapshot.Store(1)
		t.log.Info("snapshot started", "tables", len(run.tables), "exported", t.exported != "", "lsn", formatLSN(run.position.commit))
		if err := t.closeMaking(); err != nil {
			t.log.Debug("close the connection that made the slot", "error", err)
		}
	}
	done, err := t.stepSnapshot(ctx)
	if err != nil || !done {
		return err
	}
	if err := t.run.wire.close(); err != nil {
		t.log.Debug("close the snapshot's connection", "error", err)
	}
	t.run = nil
	t.phase = phaseStream
	if t.settings.SnapshotMode == "initial_only" {
		t.phase = phaseFinished
	}
	return nil
}

func (t *task) streamPhase(ctx context.Context) error {
	if t.stream == nil {
		s, err := t.openStream(ctx, t.returned)
		if err != nil {
			return err
		}
		t.stream = s
	}
	if t.fresh {
		t.fresh = false
		t.batch.markPosition(&t.returned, false)
		return nil
	}
	if err := t.beat(ctx); err != nil {
		return err
	}
	if t.full() {
		return nil
	}
	wait, cancel := t.heartbeat.Until(ctx)
	defer cancel()
	err := t.stepStream(wait)
	t.returned = t.stream.decoder.done
	t.askLag(ctx)
	return err
}

// drop closes what the server's connections are; the next Poll makes them anew. A snapshot begins again.
func (t *task) drop() {
	t.stats.connected.Store(0)
	if t.stream != nil {
		t.returned = t.stream.decoder.done
		_ = t.stream.close() // it failed already
		t.stream = nil
	}
	if t.run != nil {
		t.log.Warn("the snapshot was interrupted and begins again")
		_ = t.run.wire.close()
		t.run = nil
	}
	if t.making != nil {
		_ = t.making.wire.close()
		t.making, t.exported = nil, ""
	}
	t.stats.progress.Add(1)
}
