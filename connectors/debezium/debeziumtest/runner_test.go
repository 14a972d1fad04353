package debeziumtest

import (
	"context"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

var (
	text     = &connect.Schema{Type: connect.String}
	row      = &connect.Schema{Type: connect.Struct, Optional: true, Fields: []connect.StructField{{Name: "v", Schema: text}}}
	envelope = &connect.Schema{Type: connect.Struct, Fields: []connect.StructField{{Name: "before", Schema: row}, {Name: "after", Schema: row}, {Name: "source", Schema: row},
		{Name: "transaction", Schema: row}, {Name: "op", Schema: text}}}
)

// source gives the same memory again with each Poll, as real ones do.
type source struct {
	records   []connect.Record
	committed connect.OffsetMap
	n         uint64
}

func (s *source) Poll(context.Context) (connect.Batch, error) {
	ops := []string{"c", "u", "d"}
	if int(s.n) == len(ops) {
		return connect.Batch{}, nil
	}
	value := make([]connect.Value, len(envelope.Fields))
	value[debezium.EnvelopeAfter] = connect.StructValue([]connect.Value{connect.StringValue("v" + ops[s.n])})
	value[4] = connect.StringValue(ops[s.n])
	s.records = append(s.records[:0], connect.Record{Topic: "t", Key: connect.DataOf(text, connect.StringValue("k"+ops[s.n])), Value: connect.DataOf(envelope, connect.StructValue(value))})
	if s.n == 1 {
		s.records[0].Key = connect.DataOf(text, connect.StringValue("kc")) // of the row that was created
	}
	s.n++
	offset := connect.OffsetMap{{Name: "n", Value: connect.Int64Value(int64(s.n))}}
	return connect.Batch{Seq: s.n, Records: s.records, Marks: []connect.Mark{{After: 1, Offset: offset}}}, nil
}

func (s *source) Commit(_ context.Context, acked connect.Acked) error {
	s.committed = acked.Offsets[0].Offset
	return nil
}
func (*source) Signal(context.Context, connect.Signal) error { return nil }
func (*source) Stats() connect.Stats                         { return connect.Stats{} }
func (*source) Close(context.Context) error                  { return nil }

// TestRunner: records outlive the memory that they came in, the offset goes through its stored form, State is what a consumer has.
func TestRunner(t *testing.T) {
	s := &source{}
	r := &Runner{T: t, Partition: debezium.Partition("srv"), Task: s}
	log := r.Records(2)
	if got := Describe(log); got != `c"kc" u"kc"` {
		t.Errorf("%s came", got)
	}
	if got := State(log, "t"); len(got) != 1 || got[`"kc"`] != log[1].Value.Items()[debezium.EnvelopeAfter].String() {
		t.Errorf("the state is %v", got)
	}
	if log[0].After("v").Str() != "vc" || log[1].After("v").Str() != "vu" {
		t.Errorf("rows %s and %s", log[0].Value, log[1].Value)
	}
	if len(State(log, "other")) != 0 {
		t.Error("another topic has a state")
	}
	r.Records(3)
	r.Commit(r.Poll())
	if s.committed.Get("n").Int() != 3 || r.Stored.Get("n").Int() != 3 || len(r.Instance().Offsets) != 1 {
		t.Errorf("committed %s, stored %s", s.committed, r.Stored)
	}
	if got := Field(row, connect.Value{}, "v"); !got.IsNull() {
		t.Errorf("a field of null is %s", got)
	}
	r.Close()
}
