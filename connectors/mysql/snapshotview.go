package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// Errors of the server that a snapshot tells apart.
const (
	errNoSuchTable     = 1146
	errLockWaitTimeout = 1205
	errParse           = 1064
	errNoSuchColumn    = 1054
	errNoSuchKey       = 1176
	errTableChanged    = 1412 // since the transaction's view began
)

// openSnapshot takes the position and the structures, writes these into the history, and begins a view of the rows of that
// moment, unless rows is false. from is the offset of a snapshot that was cut short, nil for none: it goes on where it was,
// see resumeSnapshot.
func (t *task) openSnapshot(ctx context.Context, from connect.OffsetMap, rows bool) (*snapshotRun, error) {
	// It must not be torn: it would begin again with the next Poll, for ever if it takes longer than one. The server's waits
	// are bounded by snapshot.lock.timeout.ms.
	ctx = context.WithoutCancel(ctx)
	run := &snapshotRun{micros: time.Now().Unix() * 1e6}
	err := errNotResumable
	if rows && from != nil {
		err = t.resumeSnapshot(ctx, run, from)
	}
	if errors.Is(err, errNotResumable) {
		err = t.beginSnapshot(ctx, run, rows)
	}
	if err != nil {
		return nil, errors.Join(err, run.close())
	}
	t.stats.tables.Store(int64(len(run.tables)))
	return run, nil
}

// beginSnapshot begins a new one. The order is the consistency: writers are held off, the view begins, the position and
// the structures are read, writers go on. With snapshot.locking.mode=none nobody is held off, and the position is read
// first: what is written between it and the view is in both, so that the stream repeats it, and nothing is in neither.
// (MariaDB tells the exact position of a view.)
func (t *task) beginSnapshot(ctx context.Context, run *snapshotRun, rows bool) (err error) {
	if run.conn, err = t.settings.dial(ctx); err != nil {
		return err
	}
	all, err := tableNames(ctx, run.conn)
	if err != nil {
		return fmt.Errorf("begin the snapshot: %w", err)
	}
	locked := t.settings.locking != "none"
	if locked {
		if err := t.lock(ctx, run, all); err != nil {
			return err
		}
	}
	if run.position, err = t.positionNow(ctx, run.conn); err != nil {
		return err
	}
	run.position.Seconds = run.micros / 1e6
	if rows {
		if err := beginView(ctx, run.conn); err != nil {
			return err
		}
		if !locked && t.settings.dialect == binlog.MariaDB {
			if err := viewPosition(ctx, run.conn, &run.position); err != nil {
				return err
			}
		}
	}
	creations, databases, err := t.structures(ctx, run.conn, all)
	if err != nil {
		return err
	}
	if t.settings.locking != "extended" || !rows {
		run.unlock()
	}
	return t.takeStructures(ctx, run, rows, creations, databases)
}

// beginView begins the read-only transaction that sees the rows of this moment only.
func beginView(ctx context.Context, conn *client.Conn) error {
	for _, statement := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"} {
		if _, err := execute(ctx, conn, statement); err != nil {
			return fmt.Errorf("begin the snapshot's transaction: %w", err)
		}
	}
	return nil
}

// lock holds off all writers by the global read lock, or, where the user may not have it, those of the captured tables.
func (t *task) lock(ctx context.Context, run *snapshotRun, all []schema.TableID) (err error) {
	if run.lockConn, err = t.settings.dial(ctx); err != nil {
		return err
	}
	seconds := max(1, int64(t.settings.lockTimeout/time.Second))
	if _, err := execute(ctx, run.lockConn, "SET SESSION lock_wait_timeout = "+strconv.FormatInt(seconds, 10)); err != nil {
		return fmt.Errorf("set how long to wait for locks: %w", err)
	}
	_, err = execute(ctx, run.lockConn, "FLUSH TABLES WITH READ LOCK")
	if err != nil && binlog.Classify(err) == binlog.Denied {
		statement := "LOCK TABLES "
		for _, id := range all {
			if t.settings.takesTable(id) {
				statement += quoted(id) + " READ, "
			}
		}
		if statement == "LOCK TABLES " {
			return nil
		}
		t.log.Info("the global read lock is denied: the captured tables are locked instead", "error", err)
		if _, err = execute(ctx, run.lockConn, statement[:len(statement)-2]); err != nil && binlog.Classify(err) == binlog.Denied {
			return connect.BadConfig("snapshot.locking.mode", fmt.Errorf("neither the global read lock nor locks of the captured tables are allowed (%w); "+
				"mend it with: GRANT RELOAD ON *.* TO %s, or GRANT LOCK TABLES ON … , or snapshot.locking.mode=none if no structure changes during the snapshot", err, t.settings.account()))
		}
	}
	if codeOf(err) == errLockWaitTimeout {
		return connect.Retry(t.settings.pause(), fmt.Errorf("writers could not be held off within snapshot.lock.timeout.ms=%d, since statements of others run: %w", t.settings.lockTimeout.Milliseconds(), err))
	}
	if err != nil {
		return fmt.Errorf("hold off writers: %w", err)
	}
	return nil
}

func codeOf(err error) uint16 {
	var e *gomysql.MyError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// positionNow reads where the binlog ends.
func (t *task) positionNow(ctx context.Context, conn *client.Conn) (binlog.Offset, error) {
	var o binlog.Offset
	r, err := oneOf(ctx, conn, "SHOW MASTER STATUS")
	if codeOf(err) == errParse { // MySQL 8.4 has it no more
		r, err = oneOf(ctx, conn, "SHOW BINARY LOG STATUS")
	}
	if err == nil && len(r) < 4 {
		err = errors.New("the server gives none: it writes no binlog")
	}
	if err != nil {
		return o, fmt.Errorf("read the binlog's position: %w", err)
	}
	o.File = r[0]
	if o.Pos, err = strconv.ParseUint(r[1], 10, 64); err != nil {
		return o, fmt.Errorf("read the binlog's position: %w", err)
	}
	if t.settings.dialect == binlog.MariaDB {
		if r, err = oneOf(ctx, conn, "SELECT @@global.gtid_binlog_pos"); err != nil {
			return o, fmt.Errorf("read the binlog's position: %w", err)
		}
		o.GTIDs = r[0]
	} else if len(r) > 4 {
		set, err := binlog.ParseSet(t.settings.dialect, r[4])
		if err != nil {
			return o, fmt.Errorf("read the binlog's position: %w", err)
		}
		o.GTIDs = set.String()
	}
	return o, nil
}

// viewPosition reads the position that MariaDB keeps with a transaction's view.
func viewPosition(ctx context.Context, conn *client.Conn, o *binlog.Offset) error {
	rows, err := rowsOf(ctx, conn, "SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return fmt.Errorf("read the view's position: %w", err)
	}
	file, pos := "", uint64(0)
	for _, r := range rows {
		switch r[0] {
		case "Binlog_snapshot_file":
			file = r[1]
		case "Binlog_snapshot_position":
			pos, _ = strconv.ParseUint(r[1], 10, 64) // 0 as if there were none
		}
	}
	if file == "" || pos == 0 {
		return nil // the one that was read before the view began is right too
	}
	r, err := oneOf(ctx, conn, fmt.Sprintf("SELECT BINLOG_GTID_POS('%s', %d)", file, pos))
	if err != nil || r[0] == "" {
		return err
	}
	o.File, o.Pos, o.GTIDs = file, pos, r[0]
	return nil
}

// structures asks for the structure of all tables that belong into the history.
func (t *task) structures(ctx context.Context, conn *client.Conn, all []schema.TableID) ([]schema.Creation, []schema.Database, error) {
	rows, err := rowsOf(ctx, conn, "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata")
	if err != nil {
		return nil, nil, fmt.Errorf("read the databases: %w", err)
	}
	databases := make([]schema.Database, len(rows))
	for i, r := range rows {
		databases[i] = schema.Database{Name: r[0], Charset: r[1], Collation: r[2]}
	}
	var out []schema.Creation
	h := &t.settings.history
	for _, id := range all {
		captured := t.settings.takesTable(id)
		if !captured && (h.onlyTables || h.onlyDatabase && !t.settings.takesDatabase(id.Database) || builtinDatabase(id.Database)) {
			continue
		}
		r, err := oneOf(ctx, conn, "SHOW CREATE TABLE "+quoted(id))
		switch {
		case codeOf(err) == errNoSuchTable: // dropped meanwhile
			continue
		case err != nil && !captured:
			t.log.Debug("the structure of a table can't be had", "table", id.String(), "error", err)
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("read the structure of %s: %w", id, err)
		}
		out = append(out, schema.Creation{ID: id, Text: r[1]})
		t.stats.progress.Add(1)
	}
	return out, databases, nil
}

// takeStructures makes the catalog of the structures and writes them into the history.
func (t *task) takeStructures(ctx context.Context, run *snapshotRun, rows bool, creations []schema.Creation, databases []schema.Database) error {
	r, err := oneOf(ctx, run.conn, "SELECT @@global.character_set_server, @@global.collation_server")
	if err != nil {
		return fmt.Errorf("read the server's character set: %w", err)
	}
	catalog := t.newCatalog()
	changes, unparsed := catalog.Snapshot(r[0], r[1], databases, creations)
	for _, err := range unparsed {
		t.log.Warn("a table's structure is not understood", "error", err)
	}
	run.millis = time.Now().UnixMilli()
	position := run.offset(nil, nil)
	var records []schema.HistoryRecord
	for i := range changes {
		c := &changes[i]
		if t.recorded(c) {
			records = append(records, c.Record(t.batch.Partition, position, run.millis))
		}
		if t.told(c) {
			run.changes = append(run.changes, *c)
		}
	}
	if err := t.history.write(ctx, records); err != nil {
		return fmt.Errorf("write the schema history: %w", err)
	}
	t.setCatalog(catalog)
	if rows {
		t.chooseTables(run, catalog)
	}
	return nil
}

// chooseTables lists the tables whose rows are read, in the order of their names.
func (t *task) chooseTables(run *snapshotRun, catalog *schema.Catalog) {
	for _, table := range catalog.Tables() {
		if t.settings.takesTable(table.ID) && t.settings.Snapshots(table.ID.String()) {
			run.tables = append(run.tables, table)
		}
	}
}
