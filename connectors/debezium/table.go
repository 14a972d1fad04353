package debezium

import "github.com/weirlog/weir/connect"

// Table is how one version of a captured table's changes become records. It is immutable once it is used.
type Table struct {
	Name  string // for people: schema.table
	Topic string

	Row      *connect.Schema // optional, of before and after
	Key      *connect.Schema // nil: no key
	Envelope *connect.Schema
}

// Fields of the envelope, in order.
const (
	EnvelopeBefore = iota
	EnvelopeAfter
	EnvelopeSource
	EnvelopeTransaction
	EnvelopeOp
	EnvelopeMillis
	EnvelopeMicros
	EnvelopeNanos
	EnvelopeFields
)

// The fields of a source block with which each connector's begins, in order.
const (
	SourceVersion = iota
	SourceConnector
	SourceName
	SourceMillis
	SourceSnapshot
	SourceDB
	SourceSequence
	SourceMicros
	SourceNanos
	SourceOwn // the connector's own fields begin here
)

// Schemas are what all tables of a task share.
type Schemas struct {
	Source                       *connect.Schema
	transaction, op, clock       *connect.Schema
	heartbeatKey, heartbeatValue *connect.Schema
}

// NewSchemas makes the shared schemas: of a source block with the given name, and the connector's own fields behind the
// common ones.
func NewSchemas(sourceName string, own ...connect.StructField) *Schemas {
	text, long := PlainSchema(connect.String), PlainSchema(connect.Int64)
	optText, optLong := text.AsOptional(), long.AsOptional()
	no := connect.StringValue("false")
	snapshot := &connect.Schema{Type: connect.String, Optional: true, Name: "io.debezium.data.Enum", Version: 1, Default: &no,
		Params: []connect.Param{{Name: "allowed", Value: "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"}}}
	source := NamedSchema(connect.Struct, sourceName)
	source.Fields = append([]connect.StructField{
		{Name: "version", Schema: text}, {Name: "connector", Schema: text}, {Name: "name", Schema: text}, {Name: "ts_ms", Schema: long},
		{Name: "snapshot", Schema: snapshot}, {Name: "db", Schema: text}, {Name: "sequence", Schema: optText}, {Name: "ts_us", Schema: optLong},
		{Name: "ts_ns", Schema: optLong}}, own...)
	transaction := NamedSchema(connect.Struct, "event.block")
	transaction.Optional = true
	transaction.Fields = []connect.StructField{{Name: "id", Schema: text}, {Name: "total_order", Schema: long}, {Name: "data_collection_order", Schema: long}}
	key := NamedSchema(connect.Struct, "io.debezium.connector.common.ServerNameKey")
	key.Fields = []connect.StructField{{Name: "serverName", Schema: text}}
	value := NamedSchema(connect.Struct, "io.debezium.connector.common.Heartbeat")
	value.Fields = []connect.StructField{{Name: "ts_ms", Schema: long}}
	return &Schemas{Source: source, transaction: transaction, op: text, clock: optLong, heartbeatKey: key, heartbeatValue: value}
}

// NewTable makes a table's schemas of the fields of its rows and of its key (nil: none), whose names are adjusted
// already. It hands out prior's where they are the same; prior may be nil.
func (s *Common) NewTable(shared *Schemas, name, topic string, row, key []connect.StructField, prior *Table) *Table {
	schemaName := AdjustName(s.AdjustSchema, topic)
	t := &Table{Name: name, Topic: topic, Row: &connect.Schema{Type: connect.Struct, Optional: true, Name: schemaName + ".Value", Fields: row}}
	if len(key) > 0 {
		t.Key = &connect.Schema{Type: connect.Struct, Name: schemaName + ".Key", Fields: key}
	}
	t.Envelope = &connect.Schema{Type: connect.Struct, Name: schemaName + ".Envelope", Version: 2, Fields: []connect.StructField{
		{Name: "before", Schema: t.Row}, {Name: "after", Schema: t.Row}, {Name: "source", Schema: shared.Source},
		{Name: "transaction", Schema: shared.transaction}, {Name: "op", Schema: shared.op},
		{Name: "ts_ms", Schema: shared.clock}, {Name: "ts_us", Schema: shared.clock}, {Name: "ts_ns", Schema: shared.clock}}}
	t.reuse(prior)
	return t
}

// reuse takes over the schemas of the table's prior version where they are the same.
func (t *Table) reuse(prior *Table) {
	if prior == nil {
		return
	}
	if t.Envelope.Equal(prior.Envelope) {
		t.Envelope, t.Row = prior.Envelope, prior.Row
	}
	if t.Key != nil && prior.Key != nil && t.Key.Equal(prior.Key) {
		t.Key = prior.Key
	}
}

// SourceTemplate gives a source block of fields values with what never changes filled in.
func (s *Common) SourceTemplate(fields int, connector, db string) []connect.Value {
	v := make([]connect.Value, fields)
	v[SourceVersion], v[SourceConnector] = connect.StringValue(s.Version), connect.StringValue(connector)
	v[SourceName], v[SourceDB] = connect.StringValue(s.Prefix), connect.StringValue(db)
	return v
}

// SetSourceTime fills in a source block's time, in microseconds since the epoch.
func SetSourceTime(v []connect.Value, micros int64) {
	v[SourceMillis] = connect.Int64Value(micros / 1000)
	v[SourceMicros] = connect.Int64Value(micros)
	v[SourceNanos] = connect.Int64Value(micros * 1000)
}
