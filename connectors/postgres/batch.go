package postgres

import (
	"strconv"

	"github.com/weirlog/weir/connect"
)

// markEvery is how many changes of one transaction may share a resume point.
const markEvery = 16

// batchBuilder collects one batch. Records, values and text are used again after release; marks and offsets are the
// worker's for as long as it likes.
type batchBuilder struct {
	arena
	partition connect.OffsetMap
	records   []connect.Record
	marks     []connect.Mark
	entries   []connect.OffsetEntry
	unmarked  int // changes since the last mark
}

// release starts a new batch.
func (b *batchBuilder) release() {
	b.arena.release()
	b.records, b.marks, b.unmarked = b.records[:0], nil, 0
}

// take ends the batch: it is the worker's until the next release.
func (b *batchBuilder) takeBatch(seq uint64) connect.Batch {
	return connect.Batch{Seq: seq, Sources: []connect.OffsetMap{b.partition}, Records: b.records, Marks: b.marks}
}

func (b *batchBuilder) empty() bool { return len(b.records) == 0 && len(b.marks) == 0 }

// mark puts a resume point behind the records so far; one at the same place without records between is replaced.
func (b *batchBuilder) mark(offset connect.OffsetMap, endsTxn bool) {
	b.unmarked = 0
	m := connect.Mark{After: len(b.records), Offset: offset, EndsTxn: endsTxn}
	if n := len(b.marks); n > 0 && b.marks[n-1].After == m.After {
		m.EndsTxn = m.EndsTxn || b.marks[n-1].EndsTxn
		b.marks[n-1] = m
		return
	}
	b.marks = append(b.marks, m)
}

// markPosition is mark with the offset of a stream's position.
func (b *batchBuilder) markPosition(p *position, endsTxn bool) {
	if cap(b.entries)-len(b.entries) < maxOffsetEntries {
		b.entries = make([]connect.OffsetEntry, 0, offsetEntryChunk)
	}
	start := len(b.entries)
	b.entries = p.offset(b.entries)
	end := len(b.entries)
	b.mark(connect.OffsetMap(b.entries[start:end:end]), endsTxn)
}

// event is what becomes one record with an envelope.
type event struct {
	op            byte
	key           connect.Value
	before, after connect.Value
	headers       []connect.Header
}

// origin is where a change comes from: what the source block tells.
type origin struct {
	commit   uint64 // end of the last transaction, 0 for none
	lsn      uint64
	xid      int64
	micros   int64  // commit time, or the snapshot's
	snapshot string // "false" for the stream
	name     string // replication origin, "" for none
	nameLSN  uint64
}

// add appends a record with an envelope; nowNanos is the connector's clock.
func (b *batchBuilder) add(r *relation, shared *schemas, e event, from *origin, nowNanos int64) {
	v := b.arena.take(envelopeFields)
	v[envelopeBefore], v[envelopeAfter] = e.before, e.after
	v[envelopeSource] = b.sourceBlock(r, from)
	v[envelopeOp] = connect.StringValue(opText(e.op))
	v[envelopeMillis] = connect.Int64Value(nowNanos / 1e6)
	v[envelopeMicros] = connect.Int64Value(nowNanos / 1e3)
	v[envelopeNanos] = connect.Int64Value(nowNanos)
	record := connect.Record{Topic: r.topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp, Headers: e.headers,
		Value: connect.DataOf(r.envelope, connect.StructValue(v))}
	if !e.key.IsNull() {
		record.Key = connect.DataOf(r.keySchema, e.key)
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

func (b *batchBuilder) sourceBlock(r *relation, from *origin) connect.Value {
	v := b.arena.take(sourceFields)
	copy(v, r.source)
	v[sourceMillis] = connect.Int64Value(from.micros / 1000)
	v[sourceMicros] = connect.Int64Value(from.micros)
	v[sourceNanos] = connect.Int64Value(from.micros * 1000)
	v[sourceSnapshot] = connect.StringValue(from.snapshot)
	v[sourceSequence] = connect.StringValue(b.sequence(from))
	if from.xid != 0 {
		v[sourceTxID] = connect.Int64Value(from.xid)
	}
	v[sourceLSN] = connect.Int64Value(int64(from.lsn))
	if from.name != "" {
		v[sourceOrigin] = connect.StringValue(from.name)
		v[sourceOriginLSN] = connect.Int64Value(int64(from.nameLSN))
	}
	return connect.StructValue(v)
}

// sequence gives ["last commit","this"].
func (b *batchBuilder) sequence(from *origin) string {
	s := append(b.arena.scratch(48), '[')
	if from.commit == 0 {
		s = append(s, "null"...)
	} else {
		s = append(strconv.AppendUint(append(s, '"'), from.commit, 10), '"')
	}
	s = append(s, ',', '"')
	s = append(strconv.AppendUint(s, from.lsn, 10), '"', ']')
	return b.arena.keepString(s)
}

// tombstone appends a record that removes a key.
func (b *batchBuilder) tombstone(r *relation, key connect.Value, headers []connect.Header) {
	b.records = append(b.records, connect.Record{Topic: r.topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
		Key: connect.DataOf(r.keySchema, key), Headers: headers})
}

// fault appends a record that could not be decoded.
func (b *batchBuilder) fault(r *relation, raw []byte, err error) {
	b.records = append(b.records, connect.Record{Topic: r.topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
		Fault: &connect.Fault{Reason: r.name.String() + ": " + err.Error(), Bytes: append([]byte(nil), raw...)}})
}
