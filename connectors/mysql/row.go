package mysql

import (
	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/value"
)

// row decodes the next row of the event that is being given, or row and row for an update, and moves behind it.
func (t *task) row() (debezium.Change, error) {
	r := &t.rows
	var c debezium.Change
	var before, after []connect.Value
	var err error
	rest := r.rest
	switch r.event.Kind {
	case binlog.Insert:
		if after, rest, err = t.image(rest, r.event.Present, (*column).whenInserted); err != nil {
			return c, err
		}
	case binlog.Delete:
		if before, rest, err = t.image(rest, r.event.Present, (*column).whenUnknown); err != nil {
			return c, err
		}
	default:
		if before, rest, err = t.image(rest, r.event.Present, (*column).whenUnknown); err != nil {
			return c, err
		}
		if after, rest, err = t.imageAfter(rest, before); err != nil {
			return c, err
		}
	}
	r.rest = rest
	tab := r.table
	if before != nil {
		c.Before = t.structOf(tab, before)
		c.Key = t.keyOf(tab, before)
	}
	if after != nil {
		if c.After = t.structOf(tab, after); before != nil {
			c.OldKey = c.Key
		}
		c.Key = t.keyOf(tab, after)
	}
	if r.event.Kind == binlog.Update && tab.lacksPlain(r.event.Present) {
		c.Before = connect.Value{} // binlog_row_image=MINIMAL: it tells the key alone, which is no row
	}
	return c, nil
}

// What stands for a column that a row image leaves out: of an inserted row the default, of another nothing is known.
func (c *column) whenInserted() connect.Value { return c.fallback }
func (c *column) whenUnknown() connect.Value {
	if c.long {
		return c.unsent
	}
	return c.zero
}

// lacksPlain reports whether a row image leaves out another column than one of those that NOBLOB leaves out.
func (tab *table) lacksPlain(present []byte) bool {
	if hasAll(present, len(tab.columns)) {
		return false
	}
	for i := range tab.columns {
		if !tab.columns[i].long && !value.Present(present, i) {
			return true
		}
	}
	return false
}

// image decodes one row image; absent gives the values of columns that are not in it.
func (t *task) image(data, present []byte, absent func(*column) connect.Value) (out []connect.Value, rest []byte, err error) {
	columns := t.rows.table.columns
	out = t.batch.Arena.Take(len(columns))
	if !hasAll(present, len(columns)) {
		for i := range columns {
			out[i] = absent(&columns[i])
		}
	}
	rest, err = t.rows.table.plan.Row(data, present, &t.batch.Arena, out)
	return out, rest, err
}

// imageAfter decodes the row after an update. What is not in it did not change: it is as before, where that is known.
func (t *task) imageAfter(data []byte, before []connect.Value) (out []connect.Value, rest []byte, err error) {
	e, tab := t.rows.event, t.rows.table
	present := e.PresentAfter
	if present == nil {
		present = e.Present
	}
	out = t.batch.Arena.Take(len(tab.columns))
	if !hasAll(present, len(tab.columns)) {
		for i := range tab.columns {
			if value.Present(e.Present, i) {
				out[i] = before[i]
			} else {
				out[i] = tab.columns[i].unsent
			}
		}
	}
	if e.Partial {
		rest, err = tab.plan.PartialRow(data, present, &t.batch.Arena, out)
	} else {
		rest, err = tab.plan.Row(data, present, &t.batch.Arena, out)
	}
	return out, rest, err
}

func hasAll(bits []byte, n int) bool {
	for i := range n / 8 {
		if bits[i] != 0xFF {
			return false
		}
	}
	return n%8 == 0 || bits[n/8]|^byte(0)<<(n%8) == 0xFF
}

// structOf gives the captured columns' values as a row.
func (t *task) structOf(tab *table, values []connect.Value) connect.Value {
	if tab.width == len(tab.columns) {
		return connect.StructValue(values)
	}
	out := t.batch.Arena.Take(tab.width)
	for i := range tab.columns {
		if f := tab.columns[i].field; f >= 0 {
			out[f] = values[i]
		}
	}
	return connect.StructValue(out)
}

// keyOf gives a row's key, null for a table without one.
func (t *task) keyOf(tab *table, values []connect.Value) connect.Value {
	if len(tab.key) == 0 {
		return connect.Value{}
	}
	out := t.batch.Arena.Take(len(tab.key))
	for k, i := range tab.key {
		out[k] = values[i]
	}
	return connect.StructValue(out)
}
