package postgres

import (
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// batchBuilder collects one batch.
type batchBuilder struct{ debezium.Batch }

// markPosition puts a resume point with the offset of a stream's position.
func (b *batchBuilder) markPosition(p *position, endsTxn bool) {
	b.MarkWith(maxOffsetEntries, p.offset, endsTxn)
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

func (b *batchBuilder) sourceBlock(r *relation, from *origin) connect.Value {
	v := b.Arena.Take(sourceFields)
	copy(v, r.source)
	debezium.SetSourceTime(v, from.micros)
	v[debezium.SourceSnapshot] = connect.StringValue(from.snapshot)
	v[debezium.SourceSequence] = connect.StringValue(b.sequence(from))
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
	s := append(b.Arena.Scratch(48), '[')
	if from.commit == 0 {
		s = append(s, "null"...)
	} else {
		s = append(strconv.AppendUint(append(s, '"'), from.commit, 10), '"')
	}
	s = append(s, ',', '"')
	s = append(strconv.AppendUint(s, from.lsn, 10), '"', ']')
	return b.Arena.KeepString(s)
}
