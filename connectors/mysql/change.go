package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// txnLinger is how long to wait for more of a transaction before a batch is returned.
const txnLinger = 5 * time.Millisecond

// openTxn is the transaction whose events are coming.
type openTxn struct {
	gtid   string
	micros int64 // when it was committed; 0: not told
	thread int64
	skip   bool // gtid.source.filter.dml.events leaves it out
}

// rowsRun is a Rows event that is being given, row by row; it may take several batches.
type rowsRun struct {
	event *binlog.Rows
	table *table
	rest  []byte // nil: nothing is under way
	done  int    // rows that are given, those of an earlier run included
}

// stepStream puts changes into the batch until it is full, nothing more is at hand, or ctx ends.
func (t *task) stepStream(ctx context.Context) error {
	defer func() {
		if t.batch.Unmarked() {
			t.mark()
		}
	}()
	if len(t.rows.rest) > 0 {
		t.rows.rest = t.keep(t.rows.rest)
		t.giveRows()
	}
	for !t.full() && len(t.rows.rest) == 0 {
		wait, cancel := ctx, context.CancelFunc(nil)
		if !t.stream.Ready() && !t.batch.Empty() {
			if t.open == nil {
				return nil
			}
			wait, cancel = context.WithTimeout(ctx, txnLinger)
		}
		event, err := t.stream.Next(wait)
		if cancel != nil {
			cancel()
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil // the wait is over, the stream lives
		}
		if err != nil {
			return err
		}
		if err := t.event(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) event(ctx context.Context, event binlog.Event) error {
	t.stats.progress.Add(1)
	switch e := event.(type) {
	case *binlog.Begin:
		t.begin(e)
	case *binlog.Rows:
		return t.takeRows(e)
	case *binlog.Commit:
		if e.Kind == binlog.RolledBack {
			t.undone(&e.At, "a transaction was rolled back after it was logged for the sake of tables without transactions: records of its other rows stay")
		}
		t.open = nil
		t.batchChanged()
	case *binlog.Query:
		return t.query(ctx, e)
	case *binlog.Heartbeat:
		t.stats.behindMillis.Store(0)
		if t.open == nil {
			t.mark()
		}
	case *binlog.Rotate:
		t.batchChanged()
	}
	return nil
}

func (t *task) begin(e *binlog.Begin) {
	t.open = &openTxn{gtid: e.GTID, micros: int64(e.OriginalMicros), thread: int64(e.Thread)}
	if e.GTID != "" && t.settings.filterDML {
		t.open.skip = !t.settings.sources.Takes(sourceOf(t.settings.dialect, e.GTID))
	}
	t.stats.behindMillis.Store(max(0, time.Now().UnixMilli()-int64(e.Seconds)*1000))
}

// sourceOf gives the part of a GTID that names where the transaction was made.
func sourceOf(d binlog.Dialect, gtid string) string {
	if d == binlog.MariaDB {
		return gtid[:max(0, strings.LastIndexByte(gtid, '-'))]
	}
	source, _, _ := strings.Cut(gtid, ":")
	return source
}

// takeRows begins with the rows of an event.
func (t *task) takeRows(e *binlog.Rows) error {
	if t.open != nil && t.open.skip || t.settings.Skip[rowsOp(e.Kind)] {
		t.batchChanged()
		return nil
	}
	tab, err := t.tableFor(e.Table)
	if err != nil || tab == nil {
		return err
	}
	t.rows = rowsRun{event: e, table: tab, rest: t.keep(e.Data)}
	if err := t.skipRows(e.Skip); err != nil {
		return err
	}
	t.giveRows()
	return nil
}

func rowsOp(k binlog.RowsKind) byte { return "cud"[k] }

// keep copies what the stream uses again to where the batch's records may point.
func (t *task) keep(b []byte) []byte {
	return t.batch.Keep(append(t.batch.Scratch(len(b)), b...))
}

// skipRows passes over the rows that an earlier run has given.
func (t *task) skipRows(n int) error {
	for ; t.rows.done < n && len(t.rows.rest) > 0; t.rows.done++ {
		if _, err := t.row(); err != nil {
			return err
		}
	}
	return nil
}

// giveRows puts rows into the batch until it is full. What can't be decoded is a fault of the rest of its event: where the
// next row would begin isn't known.
func (t *task) giveRows() {
	r := &t.rows
	for len(r.rest) > 0 && !t.full() {
		raw := r.rest
		c, err := t.row()
		if err != nil {
			t.batch.Fault(&r.table.Table, raw, err)
			r.rest = nil
			t.batchChanged()
			return
		}
		c.NowNanos = time.Now().UnixNano()
		c.Source = t.sourceBlock(r.table, &sourceAt{at: &r.event.At, txn: t.open, row: r.done, query: r.event.Query})
		switch r.event.Kind {
		case binlog.Insert:
			t.batch.Insert(&r.table.Table, &c)
		case binlog.Delete:
			t.batch.Delete(&r.table.Table, &c)
		default:
			t.batch.Update(&r.table.Table, &c)
		}
		r.done++
		if t.batch.Changed() {
			t.mark()
		}
	}
}

// batchChanged counts a change and marks now and then: a resume point costs a GTID set's text, so that one serves several
// small transactions. The batch's end has its own.
func (t *task) batchChanged() {
	if t.batch.Changed() {
		t.mark()
	}
}

// position is the restart point behind all that has been handled.
func (t *task) position() binlog.Offset {
	if len(t.rows.rest) > 0 {
		return t.stream.OffsetInRows(t.rows.done)
	}
	return t.stream.Offset()
}

// mark puts a resume point behind the records so far.
func (t *task) mark() { t.markAt(t.position(), t.open == nil) }

func (t *task) markAt(o binlog.Offset, endsTxn bool) {
	t.batch.MarkWith(maxOffsetEntries, func(entries []connect.OffsetEntry) []connect.OffsetEntry {
		return o.Append(connect.OffsetMap(entries))
	}, endsTxn)
}

// query handles a statement.
func (t *task) query(ctx context.Context, q *binlog.Query) error {
	switch q.Kind {
	case binlog.Change:
		if f := t.settings.history.filter; t.settings.takesDatabase(q.Database) && (f == nil || !f.Match(strings.TrimSpace(q.SQL))) {
			return q.Unreadable()
		}
	case binlog.RollbackTo:
		t.undone(&q.At, "rows of a transaction were undone to a savepoint after they were logged, beside tables without transactions: their records stay")
	case binlog.Savepoint, binlog.XACommit:
	case binlog.XARollback:
		t.undone(&q.At, "a prepared XA transaction was rolled back after its rows were given: their records stay")
	case binlog.Statement:
		return t.structural(ctx, q)
	}
	t.batchChanged()
	return nil
}

// undone tells of rows that the server has undone after it had logged them.
func (t *task) undone(at *binlog.At, what string) {
	t.stats.undone.Add(1)
	t.log.Warn(what, "at", fmt.Sprint(at.File, ":", at.Start))
}

// structural handles a statement that may change a structure.
func (t *task) structural(ctx context.Context, q *binlog.Query) error {
	t.half = true
	if err := t.statement(ctx, q); err != nil {
		return err
	}
	t.half = false
	t.batchChanged()
	return nil
}

// statement moves the catalog on, writes the history, and gives schema change records and truncates.
func (t *task) statement(ctx context.Context, q *binlog.Query) error {
	changes, err := t.catalog.Apply(statementOf(q))
	var unparsed *schema.UnparsedError
	if errors.As(err, &unparsed) {
		t.stats.unparsed.Add(1)
		t.log.Warn("statement not understood: rows go on, by what the binlog tells of their table", "error", err, "at", fmt.Sprint(q.File, ":", q.Start))
		clear(t.mapped)
		if t.settings.history.skipBad {
			return nil
		}
	} else if err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	return t.structureChanged(ctx, q, changes)
}

func (t *task) truncate(id schema.TableID, q *binlog.Query) error {
	tab, err := t.tableNow(id)
	if err != nil || tab == nil {
		return err
	}
	c := debezium.Change{NowNanos: time.Now().UnixNano(), Source: t.sourceBlock(tab, &sourceAt{at: &q.At, txn: txnOf(q)})}
	t.batch.Truncate(&tab.Table, &c)
	return nil
}

// txnOf makes a statement's own transaction; Debezium tells no thread of it.
func txnOf(q *binlog.Query) *openTxn {
	return &openTxn{gtid: q.GTID, micros: int64(q.OriginalMicros)}
}
