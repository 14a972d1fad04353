package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// snapshotRun reads the captured tables once, in one read-only transaction.
//
// One row is always held back, since its marker (last of the table, last of all) is known only when the next has come.
type snapshotRun struct {
	wire      *wire
	tables    []tableEntry // still to read, the current one first
	published map[tableName]publishedTable
	position  position // from which the stream will go on
	xid       uint64
	micros    int64

	relation *relation // of the current table; nil before its COPY is sent
	copying  bool      // COPY has answered
	first    bool      // no row of the current table has been seen

	held      []byte // the row held back
	heldOf    *relation
	heldFirst bool // it is the first of its table
	given     uint64
	tuple     tuple
	started   bool // the mark that says "in a snapshot" has been given
}

// openSnapshot begins the transaction: on the exported snapshot, or, with none, on a new one.
func (t *task) openSnapshot(ctx context.Context, exported string, from position) (*snapshotRun, error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	conn, err := t.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	run, err := t.beginSnapshot(ctx, conn, exported, from)
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return run, nil
}

func (t *task) beginSnapshot(ctx context.Context, conn *pgconn.PgConn, exported string, from position) (*snapshotRun, error) {
	if err := execute(ctx, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"); err != nil {
		return nil, fmt.Errorf("begin snapshot: %w", err)
	}
	if exported != "" {
		if err := execute(ctx, conn, "SET TRANSACTION SNAPSHOT "+quoteLiteral(exported)); err != nil {
			return nil, fmt.Errorf("use the slot's snapshot: %w", err)
		}
	}
	r, err := oneOf(ctx, conn, `SELECT txid_snapshot_xmax(txid_current_snapshot()), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END`)
	if err != nil {
		return nil, fmt.Errorf("begin snapshot: %w", err)
	}
	run := &snapshotRun{position: from}
	run.xid, _ = strconv.ParseUint(r[0], 10, 64)
	run.micros, _ = strconv.ParseInt(r[1], 10, 64)
	if from.commit == 0 { // no stream will follow
		if run.position.commit, err = parseLSN(r[2]); err != nil {
			return nil, err
		}
	}
	all, err := tables(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, e := range t.settings.captured(all) {
		if t.settings.Snapshots(e.name.String()) {
			run.tables = append(run.tables, e)
		}
	}
	if t.settings.SnapshotMode != "initial_only" {
		if run.published, err = published(ctx, conn, t.settings.publication); err != nil {
			return nil, err
		}
	}
	run.wire, err = takeWire(ctx, conn)
	t.stats.tables.Store(int64(len(run.tables)))
	return run, err
}

// offset gives the snapshot's offset, which is the same for all its records.
func (r *snapshotRun) offset(completed bool) connect.OffsetMap {
	return snapshotOffset(r.position.commit, r.xid, r.micros, completed)
}

// step puts rows into the batch until it is full or ctx ends. done tells that the snapshot is complete and marked so.
func (t *task) stepSnapshot(ctx context.Context) (done bool, err error) {
	r := t.run
	if !r.started {
		r.started = true
		t.batch.Mark(r.offset(false), false)
	}
	defer func() {
		if !done && t.batch.Len() > 0 {
			t.batch.Mark(r.offset(false), false)
		}
	}()
	for !t.full() {
		if len(r.tables) == 0 {
			t.endSnapshot()
			return true, nil
		}
		if r.relation == nil {
			if err := t.startTable(ctx); err != nil {
				return false, err
			}
			if r.relation == nil { // the table is gone
				r.tables = r.tables[1:]
				continue
			}
		}
		kind, body, err := r.wire.frame(ctx, t.frameDeadline(r.wire))
		if errors.Is(err, errNoFrame) {
			break
		}
		if err != nil {
			return false, err
		}
		if err := t.snapshotFrame(kind, body); err != nil {
			return false, err
		}
	}
	t.holdRow()
	return false, nil
}

func (t *task) snapshotFrame(kind byte, body []byte) error {
	r := t.run
	switch kind {
	case 'd':
		t.giveHeld(r.relation)
		r.held, r.heldOf, r.heldFirst = body, r.relation, r.first
		r.first = false
	case 'H':
		r.copying = true
	case 'E':
		return fmt.Errorf("read %s: %w", r.relation.name, serverError(body))
	case 'Z':
		if !r.copying {
			return fmt.Errorf("read %s: the server did not answer COPY", r.relation.name)
		}
		t.log.Debug("table read", "table", r.relation.name.String())
		r.tables, r.relation = r.tables[1:], nil
		t.stats.tables.Store(int64(len(r.tables)))
	}
	return nil
}

// holdRow copies the row held back, since the batch's messages will go.
func (t *task) holdRow() {
	if t.run.held != nil {
		t.run.held = append([]byte(nil), t.run.held...)
	}
}

// giveHeld puts the row held back into the batch; next is the table of the row that follows it, nil for none.
func (t *task) giveHeld(next *relation) {
	r := t.run
	if r.held == nil {
		return
	}
	marker := "true"
	switch last := next != r.heldOf; {
	case next == nil:
		marker = "last"
	case r.given == 0:
		marker = "first"
	case last:
		marker = "last_in_data_collection"
	case r.heldFirst:
		marker = "first_in_data_collection"
	}
	t.giveRow(r.heldOf, r.held, marker)
	r.held, r.heldOf = nil, nil
	r.given++
	t.stats.rows.Add(1)
}

func (t *task) giveRow(rel *relation, line []byte, marker string) {
	r := t.run
	var err error
	if r.tuple, err = copyRow(line, r.tuple); err == nil && len(r.tuple) != len(rel.columns) {
		err = fmt.Errorf("COPY gave %d columns instead of %d", len(r.tuple), len(rel.columns))
		if len(rel.columns) == 0 {
			err, r.tuple = nil, r.tuple[:0]
		}
	}
	var row, key connect.Value
	if err == nil {
		row, err = t.batch.row(rel, r.tuple, nil)
	}
	if err == nil {
		key, err = t.batch.keyOf(rel, r.tuple, nil)
	}
	if err != nil {
		t.batch.Fault(&rel.Table, line, err)
		return
	}
	from := origin{lsn: r.position.commit, xid: int64(r.xid), micros: r.micros, snapshot: marker}
	t.batch.Read(&rel.Table, &debezium.Change{Key: key, After: row, Source: t.batch.sourceBlock(rel, &from), NowNanos: time.Now().UnixNano()})
}

// startTable sends the COPY of the first of the tables.
func (t *task) startTable(ctx context.Context) error {
	r := t.run
	entry := r.tables[0]
	ctx, cancel := unhurried(ctx)
	defer cancel()
	conn, err := t.catalog(ctx)
	if err != nil {
		return err
	}
	shape, err := shapeOf(ctx, conn, entry.oid)
	if err != nil || shape == nil {
		return err
	}
	m := &relationMessage{oid: entry.oid, name: entry.name, identity: shape.identity}
	pub, limited := r.published[entry.name]
	for _, c := range shape.columns {
		if c.generated || limited && pub.columns != nil && !contains(pub.columns, c.name) {
			continue
		}
		m.columns = append(m.columns, relationColumn{name: c.name, oid: c.oid, typmod: c.typmod})
	}
	if r.relation, err = t.relationOf(ctx, m, shape); err != nil {
		return err
	}
	r.copying, r.first = false, true
	return r.wire.query(copySQL(entry, m, pub.rowFilter))
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func copySQL(entry tableEntry, m *relationMessage, rowFilter string) string {
	names := make([]string, len(m.columns))
	for i, c := range m.columns {
		names[i] = quoteIdent(c.name)
	}
	from := "ONLY " + entry.name.quoted()
	if entry.parent {
		from = entry.name.quoted()
	}
	sql := "COPY (SELECT " + strings.Join(names, ", ") + " FROM " + from
	if rowFilter != "" {
		sql += " WHERE " + rowFilter
	}
	return sql + ") TO STDOUT"
}

// endSnapshot gives the last row and the mark that says that the snapshot is complete. The transaction ends with its
// connection.
func (t *task) endSnapshot() {
	r := t.run
	t.giveHeld(nil)
	t.batch.Mark(r.offset(true), true)
	t.log.Info("snapshot complete", "rows", r.given, "lsn", formatLSN(r.position.commit))
	t.stats.snapshot.Store(0)
}
