package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// Poll implements connect.SourceTask.
func (t *task) Poll(ctx context.Context) (connect.Batch, error) {
	t.batch.Release()
	if err := t.fault; err != nil {
		t.fault = nil
		return connect.Batch{}, err
	}
	for t.batch.Empty() && ctx.Err() == nil {
		if err := t.step(ctx); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				break
			}
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

func (t *task) full() bool {
	return t.batch.Len() > max(0, t.settings.MaxRecords-debezium.RecordsPerChange) || t.batch.HeldBytes() >= t.maxBytes && t.batch.Len() > 0
}

// step gets on with the present phase.
func (t *task) step(ctx context.Context) error {
	switch t.phase {
	case phaseRecover:
		return t.recover(ctx)
	case phaseSnapshot:
		return t.snapshotPhase(ctx)
	case phaseStream:
		return t.streamPhase(ctx)
	}
	<-ctx.Done()
	return nil
}

// recover reads the schema history back, up to the offset from which the stream goes on.
func (t *task) recover(ctx context.Context) error {
	// It must not be torn: it would begin again with the next Poll, for ever if it takes longer than one.
	ctx = context.WithoutCancel(ctx)
	catalog := t.newCatalog()
	started := time.Now()
	if err := t.history.recover(ctx, catalog, t.offset, func() { t.stats.progress.Add(1) }); err != nil {
		return fmt.Errorf("recover the schema history: %w", err)
	}
	t.log.Info("schema history recovered", "tables", len(catalog.Tables()), "took", time.Since(started).Round(time.Millisecond))
	t.setCatalog(catalog)
	t.phase = phaseStream
	return nil
}

func (t *task) snapshotPhase(ctx context.Context) error {
	if err := t.startSnapshot(ctx); err != nil {
		return err
	}
	done, err := t.stepSnapshot(ctx)
	if err != nil || !done {
		return err
	}
	if t.settings.SnapshotMode == "recovery" && t.offset.File+t.offset.GTIDs != "" {
		t.log.Info("schema history written anew", "offset", text(t.offset))
	} else {
		t.offset = t.run.position
	}
	if err := t.run.close(); err != nil {
		t.log.Debug("close the snapshot's connection", "error", err)
	}
	t.run, t.snapshotFrom = nil, nil
	t.stats.snapshot.Store(0)
	t.markAt(t.offset, true)
	t.phase = phaseStream
	if t.settings.SnapshotMode == "initial_only" {
		t.phase = phaseFinished
	}
	return nil
}

// startSnapshot takes the position and the structures, unless that is done.
func (t *task) startSnapshot(ctx context.Context) error {
	if t.run != nil {
		return nil
	}
	run, err := t.openSnapshot(ctx, t.snapshotFrom, t.snapshotRows)
	if err != nil {
		return err
	}
	t.run = run
	t.stats.snapshot.Store(1)
	return nil
}

func (t *task) streamPhase(ctx context.Context) error {
	if t.stream == nil {
		if err := t.openStream(ctx); err != nil || t.stream == nil {
			return err
		}
	}
	if t.history.cut != nil && t.durable.Load() {
		if err := t.history.complete(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("mark the snapshot as complete: %w", err)
		}
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
	t.askLag(ctx)
	return err
}

// openStream asks the server for the binlog behind the offset.
func (t *task) openStream(ctx context.Context) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	s, err := binlog.Open(ctx, binlog.Config{
		Dialect: t.settings.dialect, Connect: t.settings.dial, ServerID: t.settings.serverID, Heartbeat: t.settings.heartbeat,
		Wanted: t.wanted, Annotate: t.settings.includeQuery, Source: t.settings.sources.Takes, Logger: t.log,
	}, t.offset)
	if err != nil {
		if binlog.Classify(err) == binlog.Purged && t.settings.SnapshotMode == "when_needed" {
			t.log.Warn("the stored position is lost: the tables are read again", "error", err)
			t.phase, t.snapshotRows, t.snapshotFrom = phaseSnapshot, true, nil
			return nil
		}
		return err
	}
	t.stream = s
	clear(t.mapped)
	t.stats.connected.Store(1)
	t.log.Info("streaming", "from", text(t.offset), "server_id", t.settings.serverID)
	return nil
}

// drop closes what the server's connections are; the next Poll makes them anew, and the stream goes on behind what was
// handled. A snapshot goes on behind its last mark.
func (t *task) drop() {
	t.stats.connected.Store(0)
	t.closeSQL()
	if t.stream != nil {
		t.offset = t.position()
		if t.half {
			// The catalog may hold a structure that the history does not.
			t.offset, t.half, t.phase = t.stream.Before(), false, phaseRecover
		}
		_ = t.stream.Close() // it failed already
		t.stream, t.open, t.rows = nil, nil, rowsRun{}
	}
	if t.run != nil {
		t.snapshotFrom = t.run.progress()
		_ = t.run.close()
		t.run = nil
	}
	t.stats.progress.Add(1)
}

// beat puts a heartbeat into the batch when it is due.
func (t *task) beat(ctx context.Context) error {
	if t.stream == nil || !t.heartbeat.Due(time.Now()) {
		return nil
	}
	if t.settings.HeartbeatAction != "" {
		ctx, cancel := unhurried(ctx)
		defer cancel()
		conn, err := t.conn(ctx)
		if err != nil {
			return err
		}
		if _, err := execute(ctx, conn, t.settings.HeartbeatAction); err != nil {
			t.log.Warn("heartbeat.action.query failed", "error", err)
			t.closeSQL()
		}
	}
	t.heartbeat.Beat(&t.batch, t.shared)
	t.mark()
	return nil
}

// askLag asks the server now and then how far its binlog has come.
func (t *task) askLag(ctx context.Context) {
	if t.stream == nil || time.Since(t.asked) < lagEvery || ctx.Err() != nil {
		return
	}
	t.asked = time.Now()
	ctx, cancel := unhurried(ctx)
	defer cancel()
	conn, err := t.conn(ctx)
	if err != nil {
		return // the stream's own connection tells of a lost server
	}
	rows, err := rowsOf(ctx, conn, "SHOW BINARY LOGS")
	if err != nil {
		t.closeSQL()
		return
	}
	at := t.stream.Place()
	behind, past := int64(0), false
	for _, r := range rows {
		size, err := strconv.ParseInt(r[1], 10, 64)
		switch {
		case err != nil:
			return
		case r[0] == at.File:
			past, behind = true, max(0, size-int64(at.Offset))
		case past:
			behind += size
		}
	}
	t.stats.behindBytes.Store(behind)
}
