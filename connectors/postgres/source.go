package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// phase is where a task is.
type phase uint8

const (
	phaseSlot     phase = iota // making the slot
	phaseSnapshot              // reading the tables
	phaseStream
	phaseFinished // initial_only: nothing more to do
)

const (
	defaultBatchBytes = 8 << 20
	lagEvery          = 5 * time.Second
	auditEvery        = time.Minute
	firstDialLimit    = 5 * time.Second
	openSlotLimit     = 3 * time.Second // how long opening waits for the slot
)

// task is the source: one per connector. Poll steps through the phases; everything but the atomics belongs to it.
type task struct {
	settings    *settings
	shared      *debezium.Schemas
	types       typeMapper
	log         *slog.Logger
	application string
	maxBytes    int

	life context.Context // of the status loop
	end  context.CancelFunc

	phase     phase
	then      phase    // after phaseSlot
	fresh     bool     // the slot has just been made: its position is to be marked
	returned  position // behind the last change that a Poll returned: where a stream goes on
	exported  string   // the slot's snapshot, while making is open
	making    *slotMaker
	run       *snapshotRun
	stream    *stream
	sql       *pgconn.PgConn
	known     map[uint32]*relation
	warned    map[uint32]bool // tables known not to be published
	dialLimit time.Duration   // of the next attempt to connect
	batch     batchBuilder
	seq       uint64
	fault     error // to be told by the next Poll
	heartbeat debezium.Heartbeat
	asked     time.Time // when the server's position was last asked for
	audited   time.Time // when the publication was last looked at

	confirmed atomic.Uint64 // up to which the server may forget; never goes back
	wake      chan struct{}
	stats     gauges
}

// gauges are what Stats reads beside everything else.
type gauges struct {
	progress, rows         atomic.Uint64
	tables, snapshot       atomic.Int64
	connected, unpublished atomic.Int64
	behindMicros           atomic.Int64 // how old the last transaction was when it came; 0: caught up
	server                 atomic.Uint64
}

func (g *gauges) serverLSN(lsn uint64) {
	if lsn > g.server.Load() {
		g.server.Store(lsn)
	}
}

// openTask looks at the server, makes the publication and decides how to start.
func openTask(ctx context.Context, in connect.Task) (*task, error) {
	s, err := parseSettings(in.Config)
	if err != nil {
		return nil, err
	}
	t := newTask(ctx, s, in)
	if err := t.start(ctx, in.Offset(t.batch.Partition)); err != nil {
		t.end()
		t.drop()
		return nil, errors.Join(s.explain(err), t.closeSQL(ctx))
	}
	return t, nil
}

func newTask(ctx context.Context, s *settings, in connect.Task) *task {
	t := &task{settings: s, shared: newSchemas(), log: in.Log, application: "weir " + in.Name, known: make(map[uint32]*relation), warned: make(map[uint32]bool),
		maxBytes: defaultBatchBytes, wake: make(chan struct{}, 1), heartbeat: s.NewHeartbeat(time.Now())}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if in.MemoryBytes > 0 {
		t.maxBytes = int(min(defaultBatchBytes, in.MemoryBytes/4))
	}
	t.types = typeMapper{modes: s.types, types: make(map[uint32]*typeInfo)}
	t.batch.Batch = s.NewBatch("postgresql", in.ID)
	t.life, t.end = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

func (t *task) start(ctx context.Context, offset connect.OffsetMap) error {
	for _, n := range t.settings.Notes {
		t.log.Warn(n)
	}
	sql, err := t.catalog(ctx)
	if err != nil {
		return err
	}
	found, err := t.settings.inspect(ctx, sql)
	if err != nil {
		return err
	}
	if err := found.findings.Tell(t.log); err != nil {
		return err
	}
	var at *stored
	if offset != nil {
		got, err := readOffset(offset)
		if err != nil {
			return err
		}
		at = &got
	}
	if found.slot.active && t.settings.SnapshotMode != "initial_only" {
		return connect.Retry(time.Second, fmt.Errorf("replication slot %q is in use by process %s of the server; another connector may use it (give each its own slot.name), or an old connection has not ended yet", t.settings.slot, found.slot.pid))
	}
	how, err := t.settings.decide(at, found.slot)
	if err != nil {
		return err
	}
	return t.follow(ctx, sql, how, found)
}

func (t *task) follow(ctx context.Context, sql *pgconn.PgConn, how decision, found *inspection) error {
	t.log.Info("starting", "phase", how.phase.String(), "reason", how.why, "from", formatLSN(how.from.commit))
	t.phase, t.returned = how.phase, how.from
	t.confirm(found.slot.confirmed)
	if how.phase == phaseFinished || t.settings.SnapshotMode == "initial_only" {
		return nil
	}
	if how.dropSlot {
		t.log.Warn("dropping the lost replication slot", "slot", t.settings.slot)
		if err := execute(ctx, sql, "SELECT pg_drop_replication_slot("+quoteLiteral(t.settings.slot)+")"); err != nil {
			return fmt.Errorf("drop replication slot: %w", err)
		}
	}
	if err := t.settings.ensurePublication(ctx, sql, found.tables, t.log); err != nil {
		return err
	}
	if err := t.auditPublication(ctx, sql); err != nil {
		return err
	}
	if !how.makeSlot {
		return nil
	}
	t.phase, t.then = phaseSlot, how.phase
	ctx, cancel := context.WithTimeout(ctx, openSlotLimit)
	defer cancel()
	return t.stepSlot(ctx) // what is written from now on is captured; if the server is slow, Poll goes on waiting
}

// String names the phase for logs.
func (p phase) String() string {
	return [...]string{"slot", "snapshot", "stream", "finished"}[p]
}

// dial connects. A Poll that waits for a machine which is gone must end in time, so the first attempt is short; each that
// fails makes the next longer, since the machine may only be slow.
func (t *task) dial(ctx context.Context, replication bool) (*pgconn.PgConn, error) {
	limit := min(max(t.dialLimit, firstDialLimit), t.settings.connectTimeout)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	conn, err := t.settings.open(ctx, t.application, replication)
	if err != nil {
		t.dialLimit = 2 * limit
		return nil, err
	}
	t.dialLimit = 0
	t.stats.progress.Add(1)
	return conn, nil
}

// catalog gives the connection for questions, made anew if it is lost.
func (t *task) catalog(ctx context.Context) (*pgconn.PgConn, error) {
	if t.sql != nil && !t.sql.IsClosed() {
		return t.sql, nil
	}
	conn, err := t.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	t.sql = conn
	return conn, nil
}

// Commit implements connect.SourceTask: it moves the confirmed position and tells the status loop.
func (t *task) Commit(_ context.Context, acked connect.Acked) error {
	for _, o := range acked.Offsets {
		if o.Offset != nil && o.Partition.Equal(t.batch.Partition) {
			t.confirm(flushable(o.Offset))
		}
	}
	return nil
}

// confirm raises the confirmed position.
func (t *task) confirm(lsn uint64) {
	for {
		have := t.confirmed.Load()
		if lsn <= have {
			return
		}
		if t.confirmed.CompareAndSwap(have, lsn) {
			t.wakeStatus()
			return
		}
	}
}

func (t *task) wakeStatus() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Signal implements connect.SourceTask: none is known yet, and one that is not known is ignored, as Debezium does.
func (t *task) Signal(_ context.Context, s connect.Signal) error {
	t.log.Warn("signal ignored: not supported by this connector", "id", s.ID, "type", s.Type)
	return nil
}

// Close implements connect.SourceTask: status loop, connections, then the slot if it is to be dropped.
func (t *task) Close(ctx context.Context) error {
	var errs []error
	t.end()
	if t.stream != nil {
		t.stream.status.stop()
		errs = append(errs, t.stream.wire.goodbye(ctx))
		t.stream = nil
	}
	if t.run != nil {
		errs = append(errs, t.run.wire.close())
		t.run = nil
	}
	errs = append(errs, t.closeMaking())
	if t.settings.dropSlot {
		errs = append(errs, t.dropSlot(ctx))
	}
	t.stats.connected.Store(0)
	return errors.Join(append(errs, t.closeSQL(ctx))...)
}

func (t *task) closeSQL(ctx context.Context) error {
	if t.sql == nil {
		return nil
	}
	sql := t.sql
	t.sql = nil
	return sql.Close(ctx)
}

// dropSlot waits for the server to notice that the slot is free.
func (t *task) dropSlot(ctx context.Context) error {
	sql, err := t.catalog(ctx)
	if err != nil {
		return err
	}
	const dropSQL = `SELECT pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = $1`
	for {
		_, err = rowsOf(ctx, sql, dropSQL, t.settings.slot)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != stateInUse {
			break
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(waitSlice):
		}
	}
	return err
}
