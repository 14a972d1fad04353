package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// resolver makes the relation of a Relation message.
type resolver func(context.Context, *relationMessage) (*relation, error)

// decoder turns the messages of one replication stream into records and marks. It lives as long as the stream; the
// batch builder outlives it.
type decoder struct {
	settings *settings
	batch    *batchBuilder
	resolve  resolver

	relations map[uint32]*relation
	reader    changeReader

	done     position // what has been put into batches
	resume   position // inside: the part of a transaction that an earlier stream has given
	begin    beginMessage
	inTxn    bool
	ignoring bool // the whole transaction has been given before
	skipping bool // the transaction is the one of resume, and its given part is passing
	origin   originMessage
	lsn      uint64 // of the last change of this transaction
	same     int    // changes so far with that LSN
}

// message takes the data of one XLogData message. After an error the stream must be made anew from done.
func (d *decoder) message(ctx context.Context, m *xlogData) error {
	kind, body := m.data[0], m.data[1:]
	switch kind {
	case 'I', 'U', 'D':
		return d.change(kind, body, m.startLSN)
	case 'B':
		return d.beginTransaction(body)
	case 'C':
		return d.commitTransaction(body)
	case 'R':
		return d.relation(ctx, body)
	case 'T':
		return d.truncate(body, m.startLSN)
	case 'O':
		o, err := readOrigin(body)
		d.origin = o
		return err
	case 'Y', 'M':
		return nil
	}
	return fmt.Errorf("%w: unknown kind %q", errMalformed, kind)
}

func (d *decoder) beginTransaction(body []byte) error {
	b, err := readBegin(body)
	if err != nil {
		return err
	}
	d.begin, d.inTxn, d.origin = b, true, originMessage{}
	d.lsn, d.same = 0, 0
	d.ignoring = b.finalLSN < d.done.commit
	d.skipping = d.resume.inside && d.resume.xid == b.xid
	return nil
}

func (d *decoder) commitTransaction(body []byte) error {
	c, err := readCommit(body)
	if err != nil {
		return err
	}
	if !d.inTxn {
		return fmt.Errorf("%w: Commit outside a transaction", errMalformed)
	}
	d.inTxn = false
	if d.skipping {
		d.resume = position{}
	}
	if d.ignoring {
		return nil
	}
	d.done = position{commit: c.endLSN, xid: d.begin.xid, kind: typeCommit, micros: c.commitMicros}
	d.batch.markPosition(&d.done, true)
	return nil
}

// alive takes a keepalive: outside a transaction all that ends before its LSN has been given, so the position moves.
// What an earlier stream gave of a transaction that is still to come stays noted.
func (d *decoder) alive(k keepalive) {
	if d.inTxn || k.endLSN <= d.done.commit {
		return
	}
	d.done.commit = k.endLSN
	if !d.resume.inside {
		d.done.inside, d.done.kind = false, typeCommit
	}
	d.batch.markPosition(&d.done, false)
}

func (d *decoder) relation(ctx context.Context, body []byte) error {
	m, err := readRelation(body)
	if err != nil {
		return err
	}
	r, err := d.resolve(ctx, &m)
	if err != nil {
		return err
	}
	d.relations[m.oid] = r
	return nil
}

// enter counts a change and tells whether it has been given before.
func (d *decoder) enter(lsn uint64) (given bool, err error) {
	if !d.inTxn {
		return false, fmt.Errorf("%w: change outside a transaction", errMalformed)
	}
	if lsn == d.lsn {
		d.same++
	} else {
		d.lsn, d.same = lsn, 1
	}
	if d.ignoring {
		return true, nil
	}
	if d.skipping {
		if lsn < d.resume.lsn || lsn == d.resume.lsn && d.same <= d.resume.same {
			return true, nil
		}
		d.skipping, d.resume = false, position{}
	}
	return false, nil
}

// leave notes that a change is done.
func (d *decoder) leave(kind string) {
	d.done.inside, d.done.xid, d.done.lsn, d.done.same = true, d.begin.xid, d.lsn, d.same
	d.done.kind, d.done.micros = kind, d.begin.commitMicros
	if d.batch.Changed() {
		d.batch.markPosition(&d.done, false)
	}
}

// finish makes sure that the batch ends with a mark.
func (d *decoder) finish() {
	if d.batch.Unmarked() {
		d.batch.markPosition(&d.done, false)
	}
}

// about gives what all changes have, but for their values.
func (d *decoder) about(r *relation) debezium.Change {
	return debezium.Change{NowNanos: time.Now().UnixNano(), Source: d.batch.sourceBlock(r, &origin{commit: d.done.commit, lsn: d.lsn, xid: int64(d.begin.xid),
		micros: d.begin.commitMicros, snapshot: "false", name: d.origin.name, nameLSN: d.origin.lsn})}
}

func (d *decoder) change(kind byte, body []byte, lsn uint64) error {
	given, err := d.enter(lsn)
	if err != nil || given {
		return err
	}
	m, err := d.reader.read(kind, body)
	if err != nil {
		return err
	}
	r := d.relations[m.oid]
	if r == nil {
		return fmt.Errorf("%w: change of relation %d, which has not been described", errMalformed, m.oid)
	}
	name := typeInsert
	switch kind {
	case 'U':
		name = typeUpdate
	case 'D':
		name = typeDelete
	}
	if !r.captured {
		d.leave(name)
		return nil
	}
	if m.new != nil && len(m.new) != len(r.columns) || m.old != nil && len(m.old) != len(r.columns) {
		return fmt.Errorf("%w: tuple of %s has another number of columns than it", errMalformed, r.name)
	}
	switch kind {
	case 'I':
		err = d.insert(r, m)
	case 'U':
		err = d.update(r, m)
	case 'D':
		err = d.delete(r, m)
	}
	if err != nil {
		d.batch.Fault(&r.Table, body, err)
	}
	d.leave(name)
	return nil
}

func (d *decoder) insert(r *relation, m *changeMessage) error {
	if d.settings.Skip['c'] {
		return nil
	}
	after, err := d.batch.row(r, m.new, nil)
	if err != nil {
		return err
	}
	key, err := d.batch.keyOf(r, m.new, nil)
	if err != nil {
		return err
	}
	c := d.about(r)
	c.Key, c.After = key, after
	d.batch.Insert(&r.Table, &c)
	return nil
}

func (d *decoder) delete(r *relation, m *changeMessage) error {
	if d.settings.Skip['d'] {
		return nil
	}
	before, err := d.batch.row(r, m.old, nil)
	if err != nil {
		return err
	}
	key, err := d.batch.keyOf(r, m.old, nil)
	if err != nil {
		return err
	}
	c := d.about(r)
	c.Key, c.Before = key, before
	d.batch.Delete(&r.Table, &c)
	return nil
}

func (d *decoder) update(r *relation, m *changeMessage) error {
	after, err := d.batch.row(r, m.new, m.old)
	if err != nil {
		return err
	}
	key, err := d.batch.keyOf(r, m.new, m.old)
	if err != nil {
		return err
	}
	var before, oldKey connect.Value
	if m.old != nil {
		if before, err = d.batch.row(r, m.old, nil); err != nil {
			return err
		}
		if r.keyKnown {
			if oldKey, err = d.batch.keyOf(r, m.old, nil); err != nil {
				return err
			}
		}
	}
	if m.oldKind == 'K' && (oldKey.IsNull() || oldKey.Equal(key)) {
		before = connect.Value{}
	}
	c := d.about(r)
	c.OldKey, c.Key, c.Before, c.After = oldKey, key, before, after
	d.batch.Update(&r.Table, &c)
	return nil
}

func (d *decoder) truncate(body []byte, lsn uint64) error {
	given, err := d.enter(lsn)
	if err != nil || given {
		return err
	}
	m, err := readTruncate(body)
	if err != nil {
		return err
	}
	for _, oid := range m.oids {
		if r := d.relations[oid]; r != nil && r.captured {
			c := d.about(r)
			d.batch.Truncate(&r.Table, &c)
		}
	}
	d.leave(typeTruncate)
	return nil
}

// row decodes a tuple; values that it does not hold because they did not change come from old, if that is the whole old
// row.
func (b *batchBuilder) row(r *relation, t, old tuple) (connect.Value, error) {
	out := b.Arena.Take(r.width)
	for i := range t {
		c := &r.columns[i]
		if c.field < 0 {
			continue
		}
		v, err := b.cell(c, i, t, old)
		if err != nil {
			return connect.Value{}, err
		}
		out[c.field] = v
	}
	return connect.StructValue(out), nil
}

// keyOf decodes a tuple's key, null for a table without one.
func (b *batchBuilder) keyOf(r *relation, t, old tuple) (connect.Value, error) {
	if len(r.key) == 0 || t == nil {
		return connect.Value{}, nil
	}
	out := b.Arena.Take(len(r.key))
	for k, i := range r.key {
		v, err := b.cell(&r.columns[i], i, t, old)
		if err != nil {
			return connect.Value{}, err
		}
		out[k] = v
	}
	return connect.StructValue(out), nil
}

func (b *batchBuilder) cell(c *column, i int, t, old tuple) (connect.Value, error) {
	in := t[i]
	if in.kind == cellUnchanged {
		if old == nil || old[i].kind != cellText {
			return c.unsent, nil
		}
		in = old[i]
	}
	switch in.kind {
	case cellText:
		v, err := c.codec.decode(in.text, &b.Arena)
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, errNotFinite) && c.optional:
			return connect.Value{}, nil
		}
		return connect.Value{}, fmt.Errorf("column %s: %w", c.name, err)
	case cellNull:
		return c.zero, nil
	}
	return connect.Value{}, fmt.Errorf("column %s: value in binary form", c.name)
}
