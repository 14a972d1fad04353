package debezium

import "github.com/weirlog/weir/connect"

// MarkEvery is how many changes of one transaction may share a resume point.
const MarkEvery = 16

const offsetEntryChunk = 512

// Batch collects one batch of one source partition. Records, values and text are used again after [Batch.Release]; marks
// and offsets are the worker's for as long as it likes. The fields are set once.
type Batch struct {
	Arena
	Partition  connect.OffsetMap
	Headers    []connect.Header // of every record of a table; clipped, since others are put before them
	Tombstones bool             // a delete is followed by a record without value
	Skip       Operations

	records  []connect.Record
	marks    []connect.Mark
	entries  []connect.OffsetEntry
	unmarked int // changes since the last mark
}

// Operations is a set of Debezium's letters.
type Operations [256]bool

// Release starts a new batch; what the last one gave is used again.
func (b *Batch) Release() {
	b.Arena.Release()
	b.records, b.marks, b.unmarked = b.records[:0], nil, 0
}

// Finish gives the batch, which is the worker's until the next Release.
func (b *Batch) Finish(seq uint64) connect.Batch {
	return connect.Batch{Seq: seq, Sources: []connect.OffsetMap{b.Partition}, Records: b.records, Marks: b.marks}
}

// Empty reports whether the batch has neither records nor marks.
func (b *Batch) Empty() bool { return len(b.records) == 0 && len(b.marks) == 0 }

// Len gives the number of records.
func (b *Batch) Len() int { return len(b.records) }

// Records gives the records so far, to be looked at.
func (b *Batch) Records() []connect.Record { return b.records }

// Marks gives the marks so far, to be looked at.
func (b *Batch) Marks() []connect.Mark { return b.marks }

// Mark puts a resume point behind the records so far; one at the same place without records between is replaced.
func (b *Batch) Mark(offset connect.OffsetMap, endsTxn bool) {
	b.unmarked = 0
	m := connect.Mark{After: len(b.records), Offset: offset, EndsTxn: endsTxn}
	if n := len(b.marks); n > 0 && b.marks[n-1].After == m.After {
		m.EndsTxn = m.EndsTxn || b.marks[n-1].EndsTxn
		b.marks[n-1] = m
		return
	}
	b.marks = append(b.marks, m)
}

// MarkWith is Mark with an offset that write appends, at most most entries, to what it is given.
func (b *Batch) MarkWith(most int, write func([]connect.OffsetEntry) []connect.OffsetEntry, endsTxn bool) {
	if cap(b.entries)-len(b.entries) < most {
		b.entries = make([]connect.OffsetEntry, 0, max(most, offsetEntryChunk))
	}
	start := len(b.entries)
	b.entries = write(b.entries)
	end := len(b.entries)
	b.Mark(connect.OffsetMap(b.entries[start:end:end]), endsTxn)
}

// Changed counts a change and tells whether a resume point is due.
func (b *Batch) Changed() bool {
	b.unmarked++
	return b.unmarked >= MarkEvery
}

// Unmarked reports whether changes have come since the last mark.
func (b *Batch) Unmarked() bool { return b.unmarked > 0 }

// Change is what becomes one or several records: a row's values before and after it, null where there is none.
type Change struct {
	Key           connect.Value // null: the table has none
	OldKey        connect.Value // an update's key before it; null: as Key
	Before, After connect.Value
	Source        connect.Value // the source block
	NowNanos      int64         // the connector's clock
}

// Read appends a row of a snapshot.
func (b *Batch) Read(t *Table, c *Change) { b.add(t, 'r', c.Key, c.Before, c.After, c, b.Headers) }

// Insert appends the insert of a row, unless inserts are skipped.
func (b *Batch) Insert(t *Table, c *Change) {
	if !b.Skip['c'] {
		b.add(t, 'c', c.Key, connect.Value{}, c.After, c, b.Headers)
	}
}

// Delete appends the delete of a row and its tombstone, unless deletes are skipped. A row without a key has no tombstone.
func (b *Batch) Delete(t *Table, c *Change) {
	if b.Skip['d'] {
		return
	}
	b.add(t, 'd', c.Key, c.Before, connect.Value{}, c, b.Headers)
	if b.Tombstones && !c.Key.IsNull() {
		b.tombstone(t, c.Key, b.Headers)
	}
}

// Update appends an update. A change of the key is given as a delete of the old and a create of the new, each naming the
// other in its first header.
func (b *Batch) Update(t *Table, c *Change) {
	if c.OldKey.IsNull() || c.OldKey.Equal(c.Key) {
		if !b.Skip['u'] {
			b.add(t, 'u', c.Key, c.Before, c.After, c, b.Headers)
		}
		return
	}
	with := func(name string, v connect.Value) []connect.Header {
		h := make([]connect.Header, 0, len(b.Headers)+1)
		return append(append(h, connect.Header{Key: name, Value: connect.DataOf(t.Key, v)}), b.Headers...)
	}
	if !b.Skip['d'] {
		headers := with("__debezium.newkey", c.Key)
		b.add(t, 'd', c.OldKey, c.Before, connect.Value{}, c, headers)
		if b.Tombstones {
			b.tombstone(t, c.OldKey, headers)
		}
	}
	if !b.Skip['c'] {
		b.add(t, 'c', c.Key, connect.Value{}, c.After, c, with("__debezium.oldkey", c.OldKey))
	}
}

// Truncate appends a truncate, unless they are skipped.
func (b *Batch) Truncate(t *Table, c *Change) {
	if !b.Skip['t'] {
		b.add(t, 't', connect.Value{}, connect.Value{}, connect.Value{}, c, b.Headers)
	}
}

// RecordsPerChange is the most records that one change becomes: a change of key is a delete, a tombstone and a create.
const RecordsPerChange = 3

func (b *Batch) add(t *Table, op byte, key, before, after connect.Value, c *Change, headers []connect.Header) {
	v := b.Arena.Take(EnvelopeFields)
	v[EnvelopeBefore], v[EnvelopeAfter], v[EnvelopeSource] = before, after, c.Source
	v[EnvelopeOp] = connect.StringValue(opText(op))
	v[EnvelopeMillis] = connect.Int64Value(c.NowNanos / 1e6)
	v[EnvelopeMicros] = connect.Int64Value(c.NowNanos / 1e3)
	v[EnvelopeNanos] = connect.Int64Value(c.NowNanos)
	record := connect.Record{Topic: t.Topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp, Headers: headers,
		Value: connect.DataOf(t.Envelope, connect.StructValue(v))}
	if !key.IsNull() {
		record.Key = connect.DataOf(t.Key, key)
	}
	b.records = append(b.records, record)
}

func opText(op byte) string {
	const all = "cudrt"
	for i := range len(all) {
		if all[i] == op {
			return all[i : i+1]
		}
	}
	return ""
}

// tombstone appends a record that removes a key.
func (b *Batch) tombstone(t *Table, key connect.Value, headers []connect.Header) {
	b.records = append(b.records, connect.Record{Topic: t.Topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
		Key: connect.DataOf(t.Key, key), Headers: headers})
}

// Fault appends a record that could not be decoded; raw is copied.
func (b *Batch) Fault(t *Table, raw []byte, err error) {
	b.records = append(b.records, connect.Record{Topic: t.Topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
		Fault: &connect.Fault{Reason: t.Name + ": " + err.Error(), Bytes: append([]byte(nil), raw...)}})
}

// Append appends a record that is no change of a row.
func (b *Batch) Append(r connect.Record) { b.records = append(b.records, r) }
