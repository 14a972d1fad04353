package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlog/weir/connect"
)

// beat puts a heartbeat into the batch when it is due.
func (t *task) beat(ctx context.Context) error {
	if !t.heartbeat.Due(time.Now()) {
		return nil
	}
	if t.settings.HeartbeatAction != "" {
		ctx, cancel := unhurried(ctx)
		defer cancel()
		sql, err := t.catalog(ctx)
		if err != nil {
			return err
		}
		if err := execute(ctx, sql, t.settings.HeartbeatAction); err != nil {
			t.log.Warn("heartbeat.action.query failed", "error", err)
		}
	}
	t.heartbeat.Beat(&t.batch.Batch, t.shared)
	t.batch.markPosition(&t.stream.decoder.done, false)
	return nil
}

// askLag asks the server now and then how far its WAL has come.
func (t *task) askLag(ctx context.Context) {
	if time.Since(t.asked) < lagEvery || ctx.Err() != nil {
		return
	}
	t.asked = time.Now()
	ctx, cancel := unhurried(ctx)
	defer cancel()
	sql, err := t.catalog(ctx)
	if err != nil {
		return // the stream's own connection tells of a lost server
	}
	r, err := oneOf(ctx, sql, walEndSQL)
	if err != nil || r == nil {
		return
	}
	if lsn, err := parseLSN(r[0]); err == nil {
		t.stats.serverLSN(lsn)
	}
	if time.Since(t.audited) >= auditEvery {
		t.audited = time.Now()
		if err := t.auditPublication(ctx, sql); err != nil {
			t.log.Debug("look at the publication", "error", err)
		}
	}
}

// resolve makes the relation of a Relation message with what the catalog says now.
func (t *task) resolve(ctx context.Context, m *relationMessage) (*relation, error) {
	if !t.settings.takesTable(m.name) {
		return &relation{oid: m.oid, name: m.name}, nil
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	sql, err := t.catalog(ctx)
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf(ctx, sql, m.oid)
	if err != nil {
		return nil, err
	}
	return t.relationOf(ctx, m, shape)
}

// relationOf builds a captured table's relation and remembers it, so that schemas keep their pointers.
func (t *task) relationOf(ctx context.Context, m *relationMessage, shape *tableShape) (*relation, error) {
	sql, err := t.catalog(ctx)
	if err != nil {
		return nil, err
	}
	oids := make([]uint32, len(m.columns))
	for i, c := range m.columns {
		oids[i] = c.oid
	}
	if err := t.types.learn(ctx, sql, oids); err != nil {
		return nil, fmt.Errorf("describe %s: %w", m.name, err)
	}
	prior := t.known[m.oid]
	t.stats.progress.Add(1)
	r := buildRelation(t.settings, &t.types, t.shared, m, shape, prior)
	if prior == nil || prior.Envelope != r.Envelope {
		if len(r.dropped) > 0 {
			t.log.Warn("columns left out: their types have no mapping", "table", m.name.String(), "columns", r.dropped)
		}
		if len(r.key) == 0 {
			t.log.Warn("table without a key: its records have none", "table", m.name.String())
		}
	}
	t.known[m.oid] = r
	return r, nil
}

// Stats implements connect.SourceTask.
func (t *task) Stats() connect.Stats {
	g := &t.stats
	lag := 0.0
	if server, confirmed := g.server.Load(), t.confirmed.Load(); server > confirmed && confirmed > 0 {
		lag = float64(server - confirmed)
	}
	return connect.Stats{Progress: g.progress.Load(), Gauges: []connect.Gauge{
		{Name: "connected", Value: float64(g.connected.Load())},
		{Name: "lag_bytes", Value: lag},
		{Name: "milliseconds_behind_source", Value: float64(g.behindMicros.Load()) / 1000},
		{Name: "unpublished_tables", Value: float64(g.unpublished.Load())},
		{Name: "snapshot_running", Value: float64(g.snapshot.Load())},
		{Name: "snapshot_rows", Value: float64(g.rows.Load())},
		{Name: "snapshot_tables_remaining", Value: float64(g.tables.Load())},
	}}
}
