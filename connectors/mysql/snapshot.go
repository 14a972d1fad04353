package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// snapshotRun reads structures and then rows once, at one view of the server's data. Tables are read in the order of their
// names, rows in that of their primary key, so that a table's name and a key tell how far it is.
//
// One row is always held back, since its marker (last of the table, last of all) is known only when the next has come.
type snapshotRun struct {
	conn     *client.Conn // whose transaction is the view
	lockConn *client.Conn // holds off writers; nil: nobody does
	position binlog.Offset
	micros   int64 // when it began, in whole seconds as Debezium's

	changes []schema.Change // whose events are still to be given
	millis  int64           // when they were written into the history

	tables    []*schema.Table // still to read, the current one first
	started   bool            // the first table is begun
	resumeKey []string        // the current table's last key of an earlier run
	rows      *rowReader
	table     *tableRead // nil before its SELECT is sent
	held      []byte     // the row held back
	heldOf    *tableRead
	heldFirst bool // it is the first of its table
	given     uint64
	now       int64             // when this batch was begun, in nanoseconds
	marked    connect.OffsetMap // the last mark's
}

// tableRead is the reading of one table.
type tableRead struct {
	tab     *table
	selects []int // the columns that are asked for
	order   []*schema.Column
	key     []int    // of order: where in the row
	last    []string // the last given row's key; nil: none
	lastRow []byte   // the last given row of this batch
	first   bool     // no row has come yet
	source  connect.Value
	shared  string // the marker of source; it serves all rows of a batch
}

// progress is the offset with which the snapshot goes on in another run; nil: from its beginning.
func (r *snapshotRun) progress() connect.OffsetMap { return r.marked }

// unlock lets writers go on.
func (r *snapshotRun) unlock() {
	if r.lockConn != nil {
		_ = r.lockConn.Close() // its locks end with it
		r.lockConn = nil
	}
}

// close ends the view and the locks.
func (r *snapshotRun) close() error {
	r.unlock()
	if r.conn == nil {
		return nil
	}
	return r.conn.Close()
}

// stepSnapshot puts events and rows into the batch until it is full or ctx ends. done tells that all are given.
func (t *task) stepSnapshot(ctx context.Context) (done bool, err error) {
	r := t.run
	if r.rows != nil {
		r.rows.release()
	}
	r.now = time.Now().UnixNano()
	defer func() {
		if t.batch.Len() > 0 || r.marked == nil && err == nil {
			t.markSnapshot()
		}
		t.holdRow()
	}()
	at := &sourceAt{at: &binlog.At{File: r.position.File, Start: r.position.Pos}, micros: r.micros, snapshot: "true"}
	for ; len(r.changes) > 0 && !t.full(); r.changes = r.changes[1:] {
		if len(r.changes) == 1 && len(r.tables) == 0 {
			at.snapshot = "last"
		}
		if t.settings.schemaChanges {
			t.schemaChange(&r.changes[0], at, r.millis)
		}
	}
	for !t.full() && (r.rows == nil || r.rows.held < t.maxBytes) {
		if len(r.tables) == 0 {
			t.giveHeld(nil)
			t.log.Info("snapshot complete", "rows", r.given, "offset", text(r.position))
			return true, nil
		}
		if r.table == nil {
			if err := t.startTable(); err != nil {
				return false, err
			}
		}
		row, err := r.rows.row(ctx, t.patience())
		switch {
		case errors.Is(err, errNoRow):
			return false, nil
		case err != nil:
			return false, t.readFault(err)
		case row == nil:
			t.endTable()
		default:
			t.giveHeld(r.table)
			r.held, r.heldOf, r.heldFirst = row, r.table, r.table.first
			r.table.first = false
		}
	}
	return false, nil
}

// patience is how long to wait for a row: rows that are there wait for company only shortly.
func (t *task) patience() time.Duration {
	if t.batch.Len() > 0 {
		return rowPatience
	}
	return 0
}

const rowPatience = 5 * time.Millisecond

// readFault tells what to do about an error in the middle of a table. Where its structure has changed since the view began,
// the rest is read on another view.
func (t *task) readFault(err error) error {
	err = fmt.Errorf("read %s: %w", t.run.table.tab.id, err)
	switch codeOf(err) {
	case errTableChanged, errNoSuchTable, errNoSuchColumn, errNoSuchKey:
		return connect.Retry(t.settings.pause(), err)
	}
	return err
}

// markSnapshot puts a resume point behind the rows given: the row held back is not one of them.
func (t *task) markSnapshot() {
	r := t.run
	of := r.table
	if r.held != nil {
		of = r.heldOf
	}
	switch {
	case of != nil:
		of.remember()
		r.marked = r.offset(&of.tab.id, of.last)
	case r.started && len(r.tables) > 0:
		r.marked = r.offset(&r.tables[0].ID, r.resumeKey)
	default:
		r.marked = r.offset(nil, nil)
	}
	t.batch.Mark(r.marked, false)
}

// remember copies the key of the last row that was given.
func (of *tableRead) remember() {
	if of.lastRow == nil || of.key == nil {
		return
	}
	fields, err := splitRow(of.lastRow, nil)
	of.lastRow = nil
	if err != nil {
		return // it has been decoded already
	}
	picked := make([][]byte, len(of.key))
	for i, at := range of.key {
		picked[i] = fields[at]
	}
	of.last = keptKey(of.order, picked)
}

// holdRow copies the row held back, since the batch's buffers will go, and forgets what lives in the batch.
func (t *task) holdRow() {
	r := t.run
	if r.held != nil {
		r.held = append([]byte(nil), r.held...)
	}
	for _, of := range []*tableRead{r.table, r.heldOf} {
		if of != nil {
			of.shared = ""
		}
	}
}

// giveHeld puts the row held back into the batch; next is the table of the row that follows it, nil for none.
func (t *task) giveHeld(next *tableRead) {
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
	r.heldOf.lastRow = r.held
	r.held, r.heldOf = nil, nil
	r.given++
	t.stats.rows.Add(1)
}

func (t *task) giveRow(of *tableRead, row []byte, marker string) {
	values, err := of.decode(row, &t.batch.Arena)
	if err != nil {
		t.batch.Fault(&of.tab.Table, row, err)
		return
	}
	r := t.run
	if of.shared != marker {
		of.shared = marker
		of.source = t.sourceBlock(of.tab, &sourceAt{at: &binlog.At{File: r.position.File, Start: r.position.Pos}, micros: r.micros, snapshot: marker})
	}
	t.batch.Read(&of.tab.Table, &debezium.Change{Key: t.keyOf(of.tab, values), After: t.structOf(of.tab, values), Source: of.source, NowNanos: r.now})
}

// decode makes the values of a row's columns.
func (of *tableRead) decode(row []byte, a *debezium.Arena) ([]connect.Value, error) {
	columns := of.tab.columns
	values := a.Take(len(columns))
	for _, i := range of.selects {
		if len(row) == 0 {
			return nil, errors.New("a row has too few fields")
		}
		if row[0] == 0xFB {
			row = row[1:]
			continue
		}
		n, size, ok := lengthAt(row)
		if !ok || n > len(row)-size {
			return nil, errors.New("a row ends within a field")
		}
		field := row[size : size+n : size+n]
		row = row[size+n:]
		if columns[i].codec == nil {
			continue
		}
		var err error
		if values[i], err = columns[i].codec.Text(field, a); err != nil {
			return nil, err
		}
	}
	if len(row) > 0 {
		return nil, errors.New("a row has too many fields")
	}
	return values, nil
}

// startTable asks for the rows of the first of the tables.
func (t *task) startTable() error {
	r := t.run
	model := r.tables[0]
	tab, err := t.newTable(model, nil)
	if err != nil {
		return err
	}
	of := &tableRead{tab: tab, order: readOrder(model), first: true, last: r.resumeKey}
	var list []string
	for i := range model.Columns {
		c := &model.Columns[i]
		inKey := -1
		for k := range of.order {
			if of.order[k] == c {
				inKey = k
			}
		}
		if tab.columns[i].codec == nil && inKey < 0 {
			continue
		}
		name := quoteName(c.Name)
		if codec := tab.columns[i].codec; codec != nil {
			name = codec.Select(name)
		}
		of.selects = append(of.selects, i)
		list = append(list, name)
	}
	for _, c := range of.order {
		for at, i := range of.selects {
			if &model.Columns[i] == c {
				of.key = append(of.key, at)
			}
		}
	}
	if len(list) == 0 {
		list = []string{"1"} // each row is an empty struct
		of.selects = nil
	}
	if r.rows == nil {
		r.rows = newRowReader(r.conn)
	}
	r.table, r.started, r.resumeKey = of, true, nil
	t.log.Debug("reading a table", "table", model.ID.String(), "behind", of.last)
	return r.rows.query(selectSQL(model, of, list))
}

// selectSQL is the statement for a table's rows, or for those behind the last key. The index is named because the order is
// that of the rows themselves, which the server would rather sort.
func selectSQL(model *schema.Table, of *tableRead, list []string) string {
	sql := "SELECT " + strings.Join(list, ", ") + " FROM " + quoted(model.ID)
	if len(of.order) == 0 {
		return sql
	}
	if !model.KeyIsUnique {
		sql += " FORCE INDEX (PRIMARY)"
	}
	if where, ok := behind(of.order, of.last); ok {
		sql += " WHERE " + where
	}
	var names []string
	for _, c := range of.order {
		names = append(names, quoteName(c.Name))
	}
	return sql + " ORDER BY " + strings.Join(names, ", ")
}

// endTable goes on to the next table.
func (t *task) endTable() {
	r := t.run
	t.log.Debug("table read", "table", r.table.tab.id.String())
	r.tables, r.table = r.tables[1:], nil
	t.stats.tables.Store(int64(len(r.tables)))
	t.stats.progress.Add(1)
}
