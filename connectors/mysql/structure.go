package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
	"github.com/weirlog/weir/connectors/mysql/value"
)

// The server's bits of sql_mode that decide how a statement is read.
const (
	modeAnsiQuotes  = 1 << 2
	modeNoBackslash = 1 << 20
)

func statementOf(q *binlog.Query) schema.Statement {
	text := value.UTF8(schema.CollationCharset(uint64(q.Vars.Client)), q.SQL)
	return schema.Statement{Database: q.Database, Text: text, AnsiQuotes: q.Vars.SQLMode&modeAnsiQuotes != 0, NoBackslash: q.Vars.SQLMode&modeNoBackslash != 0}
}

// structureChanged writes what a statement changed into the history, which must be durable before a row of the new
// structure is returned, then gives the records of the schema change topic.
func (t *task) structureChanged(ctx context.Context, q *binlog.Query, changes []schema.Change) error {
	clear(t.mapped)
	position := t.historyPosition(q).Append(nil)
	var records []schema.HistoryRecord
	now := time.Now().UnixMilli()
	for i := range changes {
		if c := &changes[i]; t.recorded(c) {
			records = append(records, c.Record(t.batch.Partition, position, now))
		}
	}
	if len(records) > 0 {
		// What is begun is brought to its end: a Poll that ends must not tear it.
		if err := t.history.write(context.WithoutCancel(ctx), records); err != nil {
			return fmt.Errorf("write the schema history: %w", err)
		}
	}
	t.stats.progress.Add(1)
	at := &sourceAt{at: &q.At, txn: txnOf(q)}
	for i := range changes {
		c := &changes[i]
		if t.settings.schemaChanges && t.told(c) {
			t.schemaChange(c, at, now)
		}
		if c.Type == schema.ChangeTruncate {
			if err := t.truncate(c.ID, q); err != nil {
				return err
			}
		}
	}
	return nil
}

// historyPosition is where a statement stands in the history: the restart point before it, but a little further, so that a
// task which starts right before the statement does not recover it and then meets it again. Debezium has the place behind
// the statement on MySQL, and on MariaDB one event of its transaction as done.
func (t *task) historyPosition(q *binlog.Query) binlog.Offset {
	o := t.stream.Before()
	if t.settings.dialect == binlog.MariaDB {
		o.Event = 1
	} else {
		o.File, o.Pos = q.File, q.End
	}
	return o
}

// told tells whether a change belongs into the schema change topic.
func (t *task) told(c *schema.Change) bool {
	h := &t.settings.history
	switch {
	case !c.Recorded(), h.filter != nil && h.filter.Match(c.DDL):
		return false
	case c.Database == "": // of the server itself
		return true
	case h.onlyTables && c.ID != (schema.TableID{}):
		return t.settings.takesTable(c.ID)
	case h.onlyTables:
		return c.SourceTable == nil && t.settings.takesDatabase(c.Database)
	case h.onlyDatabase:
		return t.settings.takesDatabase(c.Database)
	}
	return true
}

// recorded tells whether a change belongs into the history: as told, but that a history of captured tables alone has no
// statements about databases.
func (t *task) recorded(c *schema.Change) bool {
	return t.told(c) && (!t.settings.history.onlyTables || c.ID != (schema.TableID{}) || c.Database == "")
}

// schemaChange appends a record of the schema change topic.
func (t *task) schemaChange(c *schema.Change, at *sourceAt, millis int64) {
	event := t.format.ChangeValue(t.sourceOf(c.Database, c.SourceTable, at), c, millis)
	t.batch.Append(connect.Record{Topic: debezium.SanitizeTopic(t.settings.Prefix), Partition: 0, Timestamp: connect.NoTimestamp, Headers: t.batch.Headers,
		Key: connect.DataOf(t.changeSchemas.Key, schema.ChangeKey(c.Database)), Value: connect.DataOf(t.changeSchemas.Value, event)})
}
