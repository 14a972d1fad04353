package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// phase is where a task is.
type phase uint8

const (
	phaseRecover  phase = iota // reading the schema history back
	phaseSnapshot              // reading structures and rows
	phaseStream
	phaseFinished // initial_only: nothing more to do
)

// String names the phase for logs.
func (p phase) String() string {
	return [...]string{"recover", "snapshot", "stream", "finished"}[p]
}

const (
	defaultBatchBytes = 8 << 20
	lagEvery          = 10 * time.Second
)

// task is the source: one per connector. Poll steps through the phases; everything but the atomics belongs to it.
type task struct {
	settings *settings
	shared   *debezium.Schemas
	log      *slog.Logger
	maxBytes int
	batch    debezium.Batch
	seq      uint64
	fault    error // to be told by the next Poll

	phase   phase
	durable atomic.Bool   // an offset outside a snapshot is stored
	offset  binlog.Offset // behind the last change that a Poll returned: where a stream goes on

	sql     *client.Conn // for questions; nil: none is open
	server  serverFacts
	history *history
	catalog *schema.Catalog

	snapshotFrom connect.OffsetMap // a snapshot to go on with; nil: a new one
	snapshotRows bool              // false: structures only
	run          *snapshotRun

	stream   *binlog.Stream
	half     bool // a statement is partly handled: the catalog can't be trusted if that fails
	open     *openTxn
	rows     rowsRun
	tables   map[schema.TableID]*table   // the newest of each, so that schemas keep their pointers
	mapped   map[*binlog.TableMap]*table // by the binlog's own description
	warned   map[schema.TableID]bool     // tables whose structure is not known
	template []connect.Value             // of source blocks

	changeSchemas schema.ChangeSchemas
	format        schema.Format

	heartbeat debezium.Heartbeat
	asked     time.Time // when the server's position was last asked for
	stats     gauges
}

// gauges are what Stats reads beside everything else.
type gauges struct {
	progress, rows            atomic.Uint64
	unparsed, undone          atomic.Uint64
	tables, snapshot          atomic.Int64
	connected, unknown        atomic.Int64
	behindMillis, behindBytes atomic.Int64
}

// openTask looks at the server and the schema history and decides how to start.
func openTask(ctx context.Context, d binlog.Dialect, in connect.Task) (*task, error) {
	s, err := parseSettings(d, in.Config, in.Kafka)
	if err != nil {
		return nil, err
	}
	t := newTask(s, in)
	if err := t.start(ctx, in); err != nil {
		return nil, errors.Join(s.explain(err), t.Close(ctx))
	}
	return t, nil
}

func newTask(s *settings, in connect.Task) *task {
	t := &task{settings: s, shared: newSchemas(s.dialect), log: in.Log, maxBytes: defaultBatchBytes, batch: s.NewBatch(s.dialect.String(), in.ID),
		tables: make(map[schema.TableID]*table), mapped: make(map[*binlog.TableMap]*table), warned: make(map[schema.TableID]bool),
		template: s.SourceTemplate(sourceFields, s.dialect.String(), ""), heartbeat: s.NewHeartbeat(time.Now())}
	// Whole events are skipped, as Debezium does: a change of key is an update, whatever it becomes.
	t.batch.Skip = debezium.Operations{'t': s.Skip['t']}
	t.format = schema.Format{Dialect: s.schemaDialect(), Comments: s.comments}
	t.changeSchemas = schema.NewChangeSchemas(s.dialect.String(), t.shared.Source, func(name string) string { return debezium.AdjustName(s.AdjustSchema, name) })
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if in.MemoryBytes > 0 {
		t.maxBytes = int(min(defaultBatchBytes, in.MemoryBytes/4))
	}
	return t
}

func (t *task) start(ctx context.Context, in connect.Task) error {
	for _, n := range t.settings.Notes {
		t.log.Warn(n)
	}
	conn, err := t.conn(ctx)
	if err != nil {
		return err
	}
	found, err := t.settings.inspect(ctx, conn)
	if err != nil {
		return err
	}
	if err := found.findings.Tell(t.log); err != nil {
		return err
	}
	t.server = found.server
	if t.history, err = openHistory(ctx, t.settings, in); err != nil {
		return err
	}
	var at *stored
	if offset := in.Offset(t.batch.Partition); offset != nil {
		got, err := readStored(offset)
		if err != nil {
			return err
		}
		at = &got
	}
	kept, err := t.history.exists(ctx)
	if err != nil {
		return err
	}
	how, err := t.settings.decide(at, kept)
	if err != nil {
		return err
	}
	if at == nil && kept {
		if err := t.history.look(ctx); err != nil {
			return err
		}
		how.progress = t.history.cut
	}
	t.durable.Store(at != nil && !at.snapshotting)
	t.follow(how)
	if how.phase == phaseSnapshot && !how.rows {
		return t.startSnapshot(ctx) // no row is read, so what is written from now on must be streamed
	}
	return nil
}

func (t *task) follow(how decision) {
	t.log.Info("starting", "phase", how.phase.String(), "reason", how.why, "from", text(how.from))
	t.phase, t.offset, t.snapshotRows, t.snapshotFrom = how.phase, how.from, how.rows, how.progress
}

// decision is how a task starts.
type decision struct {
	phase    phase
	why      string
	from     binlog.Offset
	rows     bool              // the snapshot reads rows, not only structures
	progress connect.OffsetMap // of the snapshot that goes on; nil: a new one
}

// decide picks the entry from snapshot.mode, the stored offset (nil: none) and whether there is a schema history.
func (s *settings) decide(at *stored, history bool) (decision, error) {
	rows := s.SnapshotMode != "no_data"
	switch {
	case at == nil && s.SnapshotMode == "recovery":
		return decision{}, connect.BadConfig("snapshot.mode", errors.New("recovery writes the schema history anew for a stored offset, and none is stored; use initial"))
	case at == nil:
		return decision{phase: phaseSnapshot, why: "no offset is stored", rows: rows}, nil
	case s.SnapshotMode == "always":
		how := decision{phase: phaseSnapshot, why: "snapshot.mode is always", rows: true}
		if history && !at.snapshotting {
			// The stream goes on where it was, behind the rows: what was deleted meanwhile is in it alone.
			how.progress = append(at.Append(nil), connect.OffsetEntry{Name: keySnapshot, Value: connect.StringValue("INITIAL")})
		} else if history {
			how.progress = at.all
		}
		return how, nil
	case at.snapshotting:
		return decision{phase: phaseSnapshot, why: "the last snapshot was cut short", rows: rows, progress: at.all}, nil
	case s.SnapshotMode == "initial_only":
		return decision{phase: phaseFinished, why: "the snapshot is complete, and snapshot.mode is initial_only", from: at.Offset}, nil
	case s.SnapshotMode == "recovery":
		return decision{phase: phaseSnapshot, why: "snapshot.mode is recovery", from: at.Offset}, nil
	case !history && s.SnapshotMode == "when_needed":
		return decision{phase: phaseSnapshot, why: "the schema history is lost", rows: true}, nil
	case !history:
		return decision{}, connect.BadConfig("snapshot.mode", fmt.Errorf("an offset is stored, but the schema history %s is empty or gone, so the structures of that time are not known; "+
			"with snapshot.mode=recovery the present structures are taken (right if none has changed since), with when_needed the tables are read again", s.history.place()))
	}
	return decision{phase: phaseRecover, why: "an offset is stored", from: at.Offset}, nil
}

// place names the history for people.
func (h *historySettings) place() string {
	switch h.kind {
	case "kafka":
		return "in topic " + h.topic
	case "file":
		return "in file " + h.file
	}
	return "in memory"
}

// conn gives the connection for questions, made anew if it is lost.
func (t *task) conn(ctx context.Context) (*client.Conn, error) {
	if t.sql != nil {
		return t.sql, nil
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	conn, err := t.settings.dial(ctx)
	if err != nil {
		return nil, err
	}
	t.stats.progress.Add(1)
	t.sql = conn
	return conn, nil
}

// closeSQL ends the connection for questions.
func (t *task) closeSQL() {
	if t.sql != nil {
		_ = t.sql.Close() // nothing is under way on it
		t.sql = nil
	}
}

// Commit implements connect.SourceTask. The server needs not be told anything; that the snapshot is over is noted for the
// history.
func (t *task) Commit(_ context.Context, acked connect.Acked) error {
	for _, o := range acked.Offsets {
		if o.Offset != nil && o.Partition.Equal(t.batch.Partition) && !snapshotUnderWay(o.Offset) {
			t.durable.Store(true)
		}
	}
	return nil
}

// Signal implements connect.SourceTask: none is known yet, and one that is not known is ignored, as Debezium does.
func (t *task) Signal(_ context.Context, s connect.Signal) error {
	t.log.Warn("signal ignored: not supported by this connector", "id", s.ID, "type", s.Type)
	return nil
}

// Close implements connect.SourceTask: the connections, then the history.
func (t *task) Close(ctx context.Context) error {
	var errs []error
	if t.stream != nil {
		errs = append(errs, t.stream.Close())
		t.stream = nil
	}
	if t.run != nil {
		errs = append(errs, t.run.close())
		t.run = nil
	}
	t.closeSQL()
	if t.history != nil {
		errs = append(errs, t.history.close(ctx))
		t.history = nil
	}
	t.stats.connected.Store(0)
	return errors.Join(errs...)
}

// Stats implements connect.SourceTask.
func (t *task) Stats() connect.Stats {
	g := &t.stats
	return connect.Stats{Progress: g.progress.Load(), Gauges: []connect.Gauge{
		{Name: "connected", Value: float64(g.connected.Load())},
		{Name: "lag_bytes", Value: float64(g.behindBytes.Load())},
		{Name: "milliseconds_behind_source", Value: float64(g.behindMillis.Load())},
		{Name: "snapshot_running", Value: float64(g.snapshot.Load())},
		{Name: "snapshot_rows", Value: float64(g.rows.Load())},
		{Name: "snapshot_tables_remaining", Value: float64(g.tables.Load())},
		{Name: "unparsed_statements", Value: float64(g.unparsed.Load())},
		{Name: "undone_transactions", Value: float64(g.undone.Load())},
		{Name: "unknown_tables", Value: float64(g.unknown.Load())},
	}}
}
