package mysql

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// snapshotRun reads structures and rows once, at one view of the server's data. It is the thinnest that works: each
// table comes whole, and one that is cut short begins again.
type snapshotRun struct {
	conn     *client.Conn
	position binlog.Offset
	tables   []*schema.Table // still to read
	micros   int64
}

func (r *snapshotRun) close() error { return r.conn.Close() }

// progress is the offset with which the snapshot goes on in another run.
func (r *snapshotRun) progress() connect.OffsetMap { return nil }

// openSnapshot takes the position and the structures under a lock, and a view of that moment.
func (t *task) openSnapshot(ctx context.Context, _ connect.OffsetMap, rows bool) (*snapshotRun, error) {
	conn, err := t.settings.dial(ctx)
	if err != nil {
		return nil, err
	}
	run := &snapshotRun{conn: conn, micros: time.Now().UnixMicro()}
	for _, statement := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "FLUSH TABLES WITH READ LOCK", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := execute(ctx, conn, statement); err != nil {
			return nil, fmt.Errorf("begin the snapshot: %w", err)
		}
	}
	if run.position, err = t.positionNow(ctx, conn); err != nil {
		return nil, err
	}
	if err := t.structures(ctx, run); err != nil {
		return nil, err
	}
	if _, err := execute(ctx, conn, "UNLOCK TABLES"); err != nil {
		return nil, fmt.Errorf("begin the snapshot: %w", err)
	}
	if !rows {
		run.tables = nil
	}
	return run, nil
}

// positionNow reads where the binlog ends.
func (t *task) positionNow(ctx context.Context, conn *client.Conn) (binlog.Offset, error) {
	var o binlog.Offset
	statement := "SHOW BINARY LOG STATUS"
	if t.settings.dialect == binlog.MariaDB {
		statement = "SHOW MASTER STATUS"
	}
	r, err := oneOf(ctx, conn, statement)
	if err != nil || len(r) < 4 {
		return o, fmt.Errorf("read the binlog's position: %w", err)
	}
	o.File = r[0]
	if o.Pos, err = strconv.ParseUint(r[1], 10, 64); err != nil {
		return o, err
	}
	if t.settings.dialect == binlog.MariaDB {
		if r, err = oneOf(ctx, conn, "SELECT @@global.gtid_binlog_pos"); err == nil {
			o.GTIDs = r[0]
		}
		return o, err
	}
	if len(r) > 4 {
		o.GTIDs = r[4]
	}
	return o, nil
}

// structures reads the captured tables' structures and writes them into the history.
func (t *task) structures(ctx context.Context, run *snapshotRun) error {
	all, err := tableNames(ctx, run.conn)
	if err != nil {
		return err
	}
	catalog := t.newCatalog()
	position := append(run.position.Append(nil), connect.OffsetEntry{Name: keySnapshot, Value: connect.BoolValue(true)})
	var records []schema.HistoryRecord
	for _, id := range all {
		if !t.settings.takesTable(id) {
			continue
		}
		r, err := oneOf(ctx, run.conn, "SHOW CREATE TABLE "+quoted(id))
		if err != nil {
			return err
		}
		model, err := catalog.FromCreate(id, r[1])
		if err != nil {
			return err
		}
		catalog.Put(model)
		c := schema.Change{Type: schema.ChangeCreate, Database: id.Database, ID: id, Table: model, DDL: r[1]}
		records = append(records, c.Record(t.batch.Partition, position, time.Now().UnixMilli()))
		if t.settings.Snapshots(id.String()) {
			run.tables = append(run.tables, model)
		}
		t.stats.progress.Add(1)
	}
	t.setCatalog(catalog)
	return t.history.write(context.WithoutCancel(ctx), records)
}

// stepSnapshot reads the next table.
func (t *task) stepSnapshot(ctx context.Context) (done bool, err error) {
	r := t.run
	if len(r.tables) == 0 {
		return true, nil
	}
	model := r.tables[0]
	tab, err := t.newTable(model, nil)
	if err != nil {
		return false, err
	}
	result, err := execute(context.WithoutCancel(ctx), r.conn, "SELECT * FROM "+quoted(model.ID))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", model.ID, err)
	}
	at := binlog.At{File: r.position.File, Start: r.position.Pos}
	for i := range result.RowNumber() {
		out := t.batch.Arena.Take(len(tab.columns))
		for k := range out {
			text, err := result.GetString(i, k)
			if null, _ := result.IsNull(i, k); err != nil || null || tab.columns[k].codec == nil {
				continue
			}
			if out[k], err = tab.columns[k].codec.Text([]byte(text), &t.batch.Arena); err != nil {
				return false, fmt.Errorf("read %s: %w", model.ID, err)
			}
		}
		t.batch.Read(&tab.Table, &debezium.Change{Key: t.keyOf(tab, out), After: t.structOf(tab, out), NowNanos: time.Now().UnixNano(),
			Source: t.sourceBlock(tab, &sourceAt{at: &at, micros: r.micros, snapshot: "true"})})
		t.stats.rows.Add(1)
	}
	r.tables = r.tables[1:]
	offset := append(r.position.Append(nil), connect.OffsetEntry{Name: keySnapshot, Value: connect.StringValue("INITIAL")})
	t.batch.Mark(offset, false)
	return len(r.tables) == 0, nil
}
