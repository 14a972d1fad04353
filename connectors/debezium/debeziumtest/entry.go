package debeziumtest

import (
	"fmt"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// Entry is one record as a log would keep it: a copy that outlives the batch.
type Entry struct {
	Topic      string
	Key, Value connect.Value
	KeySchema  *connect.Schema
	Schema     *connect.Schema // the value's
	Headers    []connect.Header
	Fault      *connect.Fault
}

func copyOf(r *connect.Record) Entry {
	headers := make([]connect.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = connect.Header{Key: h.Key, Value: connect.DataOf(h.Value.Schema(), h.Value.Value().Clone())}
	}
	return Entry{Topic: r.Topic, Key: r.Key.Value().Clone(), Value: r.Value.Value().Clone(),
		KeySchema: r.Key.Schema(), Schema: r.Value.Schema(), Headers: headers, Fault: r.Fault}
}

// Field gives a field of a struct under its schema, null for one that isn't there.
func Field(s *connect.Schema, v connect.Value, name string) connect.Value {
	i := s.Field(name)
	if i < 0 || v.IsNull() {
		return connect.Value{}
	}
	return v.Items()[i]
}

// Op is the envelope's operation.
func (e *Entry) Op() string { return Field(e.Schema, e.Value, "op").Str() }

// Before gives a field of the row before the change.
func (e *Entry) Before(name string) connect.Value { return e.part(debezium.EnvelopeBefore, name) }

// After gives a field of the row after the change.
func (e *Entry) After(name string) connect.Value { return e.part(debezium.EnvelopeAfter, name) }

// Source gives a field of the source block.
func (e *Entry) Source(name string) connect.Value { return e.part(debezium.EnvelopeSource, name) }

func (e *Entry) part(i int, name string) connect.Value {
	return Field(e.Schema.Fields[i].Schema, e.Value.Items()[i], name)
}

// State replays a topic by key: what a consumer ends up with.
func State(log []Entry, topic string) map[string]string {
	out := map[string]string{}
	for i := range log {
		e := &log[i]
		if e.Topic != topic {
			continue
		}
		k := e.Key.String()
		if e.Value.IsNull() || e.Op() == "d" {
			delete(out, k)
			continue
		}
		out[k] = e.Value.Items()[debezium.EnvelopeAfter].String()
	}
	return out
}

// Describe gives operations and keys, for comparing sequences.
func Describe(log []Entry) string {
	var b strings.Builder
	for i := range log {
		e := &log[i]
		op := "tombstone"
		if !e.Value.IsNull() {
			op = e.Op()
		}
		fmt.Fprintf(&b, "%s%s ", op, e.Key)
	}
	return strings.TrimSpace(b.String())
}
