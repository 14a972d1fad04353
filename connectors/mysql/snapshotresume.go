package mysql

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// Keys of a snapshot's offset beside Debezium's: the table that is being read, as a JSON list of database and name, and the
// key of its last row, as a JSON list of the server's texts (hex of bytes). Tables before it, by name, are done.
const (
	keySnapshotTable = "weir_snapshot_table"
	keySnapshotKey   = "weir_snapshot_key"
)

// errNotResumable says that a snapshot can't go on and begins anew.
var errNotResumable = errors.New("the snapshot can't go on where it was")

// offset gives the snapshot's offset: reading this table, nil for none yet, behind this key, nil for from its beginning.
func (r *snapshotRun) offset(at *schema.TableID, key []string) connect.OffsetMap {
	m := append(r.position.Append(nil), connect.OffsetEntry{Name: keySnapshot, Value: connect.StringValue("INITIAL")})
	if at == nil {
		return m
	}
	table, _ := json.Marshal([]string{at.Database, at.Name}) // strings always marshal
	m = append(m, connect.OffsetEntry{Name: keySnapshotTable, Value: connect.StringValue(string(table))})
	if key != nil {
		text, _ := json.Marshal(key)
		m = append(m, connect.OffsetEntry{Name: keySnapshotKey, Value: connect.StringValue(string(text))})
	}
	return m
}

// resumeSnapshot goes on with a snapshot that was cut short, on a view of its own. It is complete and consistent in the end
// because the stream begins where the first view was, and repeats all that has changed since:
//
//   - A row read before is as of the first view, and the stream holds each change of it since.
//   - A row read now is as of this view. The stream has its changes between the views too; they are given once more, older
//     ones after newer ones, until the stream has passed this view: from then on the row is as it should be.
//   - A row that came between the views into what was read before is in the stream as an insert; one that went from what is
//     still to be read, as a delete of a row that was not given. A row whose key moved across is an update, which is a
//     delete and an insert.
//
// A row's key is compared by the server, in the order in which it gave the rows, so collations are its business. Structures
// of rows that are read are those of now; the catalog for the stream is the history's at the first view.
func (t *task) resumeSnapshot(ctx context.Context, run *snapshotRun, from connect.OffsetMap) (err error) {
	at, key, err := readProgress(from)
	if err != nil {
		return err
	}
	if run.position, err = binlog.ReadOffset(from); err != nil {
		return err
	}
	if run.conn, err = t.settings.dial(ctx); err != nil {
		return err
	}
	there, err := t.stillThere(ctx, run)
	if err != nil {
		return err
	}
	if !there {
		t.log.Warn("the snapshot begins anew: the binlog does not reach back to where it began", "from", text(run.position))
		return errors.Join(run.conn.Close(), errNotResumable)
	}
	catalog := t.newCatalog()
	if err := t.history.recover(ctx, catalog, run.position, func() { t.stats.progress.Add(1) }); err != nil {
		return fmt.Errorf("recover the schema history: %w", err)
	}
	if err := beginView(ctx, run.conn); err != nil {
		return err
	}
	all, err := tableNames(ctx, run.conn)
	if err != nil {
		return fmt.Errorf("go on with the snapshot: %w", err)
	}
	creations, databases, err := t.structures(ctx, run.conn, all)
	if err != nil {
		return err
	}
	now := t.newCatalog()
	if _, unparsed := now.Snapshot(t.server.charset, "", databases, creations); unparsed != nil {
		t.log.Warn("tables' structures are not understood", "error", errors.Join(unparsed...))
	}
	t.chooseTables(run, now)
	run.tables = slices.DeleteFunc(run.tables, func(m *schema.Table) bool { return compareIDs(m.ID, at) < 0 })
	run.started, run.marked = true, from
	if len(run.tables) > 0 && run.tables[0].ID == at {
		run.resumeKey = key
	}
	t.setCatalog(catalog)
	t.log.Info("the snapshot goes on where it was", "table", at.String(), "from", text(run.position))
	return nil
}

// compareIDs is the order in which tables are read.
func compareIDs(a, b schema.TableID) int {
	if a.Database != b.Database {
		return strings.Compare(a.Database, b.Database)
	}
	return strings.Compare(a.Name, b.Name)
}

// readProgress reads a snapshot's offset: the table that was being read, and behind which key. One that names none is read
// from its beginning: rows may have been given before the offset was stored.
func readProgress(m connect.OffsetMap) (at schema.TableID, key []string, err error) {
	var names []string
	if m.Get(keySnapshotTable).IsNull() {
		return at, nil, nil
	}
	if json.Unmarshal(m.Get(keySnapshotTable).Bytes(), &names) != nil || len(names) != 2 {
		return at, nil, errNotResumable
	}
	at = schema.TableID{Database: names[0], Name: names[1]}
	if text := m.Get(keySnapshotKey); !text.IsNull() && json.Unmarshal(text.Bytes(), &key) != nil {
		return at, nil, errNotResumable
	}
	return at, key, nil
}

// stillThere tells whether the stream can begin where the snapshot began.
func (t *task) stillThere(ctx context.Context, run *snapshotRun) (bool, error) {
	if t.settings.dialect == binlog.MySQL && run.position.GTIDs != "" {
		r, err := oneOf(ctx, run.conn, "SELECT @@global.gtid_purged")
		if err != nil {
			return false, fmt.Errorf("read what of the binlog is purged: %w", err)
		}
		return binlog.SetContains(t.settings.dialect)(run.position.GTIDs, strings.Join(strings.Fields(r[0]), "")), nil
	}
	rows, err := rowsOf(ctx, run.conn, "SHOW BINARY LOGS")
	if err != nil {
		return false, fmt.Errorf("read which binlogs there are: %w", err)
	}
	return slices.ContainsFunc(rows, func(r []string) bool { return r[0] == run.position.File }), nil
}

// keyForm says how a key column's text is kept in an offset and written into a statement.
type keyForm uint8

const (
	keyNone   keyForm = iota // its order or its text can't be relied upon
	keyNumber                // as it is
	keyQuoted                // dates, and what else has plain text
	keyText                  // of any characters
	keyBytes                 // as hex
)

func keyFormOf(k schema.Kind) keyForm {
	switch k {
	case schema.Boolean, schema.TinyInt, schema.SmallInt, schema.MediumInt, schema.Int, schema.BigInt, schema.Decimal, schema.Year:
		return keyNumber
	case schema.Date, schema.Time, schema.DateTime, schema.Timestamp, schema.UUID, schema.Inet4, schema.Inet6:
		return keyQuoted
	case schema.Char, schema.VarChar:
		return keyText
	case schema.Binary, schema.VarBinary:
		return keyBytes
	}
	return keyNone // ENUM sorts by index but compares by text, floats are not exact, keys of TEXT and BLOB are of prefixes
}

// order is the columns by which a table's rows can be read piece by piece: its primary key. None if that can't be.
func readOrder(m *schema.Table) []*schema.Column {
	var out []*schema.Column
	for _, name := range m.PrimaryKey {
		c := m.Column(name)
		if c == nil || keyFormOf(c.Kind) == keyNone {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// keptKey gives a key's fields as an offset keeps them; they are copied.
func keptKey(order []*schema.Column, fields [][]byte) []string {
	out := make([]string, len(order))
	for i, c := range order {
		if keyFormOf(c.Kind) == keyBytes {
			out[i] = hex.EncodeToString(fields[i])
		} else {
			out[i] = string(fields[i])
		}
	}
	return out
}

// literal writes a kept field into a statement; false if it is not what such a column has.
func literal(c *schema.Column, kept string) (string, bool) {
	only := func(set string) bool { return kept != "" && strings.Trim(kept, set) == "" }
	switch keyFormOf(c.Kind) {
	case keyNumber:
		return kept, only("-0123456789.")
	case keyQuoted:
		return "'" + kept + "'", only("-0123456789.: abcdefABCDEF")
	case keyText:
		return "_utf8mb4 x'" + hex.EncodeToString([]byte(kept)) + "'", true
	case keyBytes:
		_, err := hex.DecodeString(kept)
		return "x'" + kept + "'", err == nil
	}
	return "", false
}

// behind is the condition of the rows behind a key, in a form for which the server uses the key's index:
// a > 1 OR a = 1 AND b > 2. False if the key is not the table's (its columns have changed).
func behind(order []*schema.Column, key []string) (string, bool) {
	if len(order) == 0 || len(key) != len(order) {
		return "", false
	}
	var terms []string
	equal := ""
	for i, c := range order {
		value, ok := literal(c, key[i])
		if !ok {
			return "", false
		}
		name := quoteName(c.Name)
		terms = append(terms, equal+name+" > "+value)
		equal += name + " = " + value + " AND "
	}
	return strings.Join(terms, " OR "), true
}
