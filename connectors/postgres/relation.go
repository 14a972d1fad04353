package postgres

import (
	"crypto/md5"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
)

// relation is one version of a captured table: how its tuples become rows, keys and envelopes. It is immutable.
type relation struct {
	oid      uint32
	name     tableName
	captured bool
	topic    string
	columns  []column // in the order of tuples
	width    int      // fields of a row
	key      []int    // indexes into columns, in key order; empty: no key
	keyKnown bool     // every key column is in the replica identity, so that an old tuple tells a change of key

	rowSchema, keySchema, envelope *connect.Schema
	source                         []connect.Value // the source block's constant part
	dropped                        []string        // columns whose types have no mapping
}

// column is how one column of a tuple is decoded.
type column struct {
	name     string
	field    int // in the row; -1: left out
	codec    codec
	schema   *connect.Schema
	zero     connect.Value // for a required column that the server did not send: its default, or its type's zero
	unsent   connect.Value // for a long value that did not change
	optional bool
}

// schemas are what all tables of a task share.
type schemas struct {
	source, transaction, op, millis *connect.Schema
	heartbeatKey, heartbeatValue    *connect.Schema
	header                          *connect.Schema
}

// Fields of the source block, in order.
const (
	sourceVersion = iota
	sourceConnector
	sourceName
	sourceMillis
	sourceSnapshot
	sourceDB
	sourceSequence
	sourceMicros
	sourceNanos
	sourceSchema
	sourceTable
	sourceTxID
	sourceLSN
	sourceXmin
	sourceOrigin
	sourceOriginLSN
	sourceFields
)

// Fields of the envelope, in order.
const (
	envelopeBefore = iota
	envelopeAfter
	envelopeSource
	envelopeTransaction
	envelopeOp
	envelopeMillis
	envelopeMicros
	envelopeNanos
	envelopeFields
)

func newSchemas() *schemas {
	text, long := plainSchema(connect.String), plainSchema(connect.Int64)
	optText, optLong := text.AsOptional(), long.AsOptional()
	no := connect.StringValue("false")
	snapshot := &connect.Schema{Type: connect.String, Optional: true, Name: "io.debezium.data.Enum", Version: 1, Default: &no,
		Params: []connect.Param{{Name: "allowed", Value: "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"}}}
	source := &connect.Schema{Type: connect.Struct, Name: "io.debezium.connector.postgresql.Source", Version: 1, Fields: []connect.StructField{
		{Name: "version", Schema: text}, {Name: "connector", Schema: text}, {Name: "name", Schema: text}, {Name: "ts_ms", Schema: long},
		{Name: "snapshot", Schema: snapshot}, {Name: "db", Schema: text}, {Name: "sequence", Schema: optText}, {Name: "ts_us", Schema: optLong},
		{Name: "ts_ns", Schema: optLong}, {Name: "schema", Schema: text}, {Name: "table", Schema: text}, {Name: "txId", Schema: optLong},
		{Name: "lsn", Schema: optLong}, {Name: "xmin", Schema: optLong}, {Name: "origin", Schema: optText}, {Name: "origin_lsn", Schema: optLong},
	}}
	transaction := &connect.Schema{Type: connect.Struct, Optional: true, Name: "event.block", Version: 1, Fields: []connect.StructField{
		{Name: "id", Schema: text}, {Name: "total_order", Schema: long}, {Name: "data_collection_order", Schema: long}}}
	return &schemas{
		source: source, transaction: transaction, op: text, millis: optLong, header: text,
		heartbeatKey: &connect.Schema{Type: connect.Struct, Name: "io.debezium.connector.common.ServerNameKey", Version: 1,
			Fields: []connect.StructField{{Name: "serverName", Schema: text}}},
		heartbeatValue: &connect.Schema{Type: connect.Struct, Name: "io.debezium.connector.common.Heartbeat", Version: 1,
			Fields: []connect.StructField{{Name: "ts_ms", Schema: long}}},
	}
}

// buildRelation makes a table's relation of its columns as they come in tuples and of what the catalog says of it now;
// shape is nil when the table is gone. It hands out prior's schemas where they are the same.
func buildRelation(s *settings, types *typeMapper, shared *schemas, m *relationMessage, shape *tableShape, prior *relation) *relation {
	r := &relation{oid: m.oid, name: m.name, captured: true, topic: s.topic(m.name)}
	schemaName := adjustName(s.adjustSchema, r.topic)
	row := &connect.Schema{Type: connect.Struct, Optional: true, Name: schemaName + ".Value"}
	arena := &arena{}
	for _, in := range m.columns {
		c := buildColumn(s, types, in, shape, arena)
		c.field = -1
		switch {
		case c.codec.kind == codecDrop:
			if s.filter.takesColumn(m.name, in.name) {
				r.dropped = append(r.dropped, in.name)
			}
		case s.filter.takesColumn(m.name, in.name):
			c.field = r.width
			r.width++
			row.Fields = append(row.Fields, connect.StructField{Name: adjustFieldName(s.adjustField, in.name), Schema: c.schema})
		}
		r.columns = append(r.columns, c)
	}
	r.chooseKey(s, m, shape)
	if len(r.key) > 0 {
		r.keySchema = &connect.Schema{Type: connect.Struct, Name: schemaName + ".Key"}
		for _, i := range r.key {
			r.keySchema.Fields = append(r.keySchema.Fields, connect.StructField{Name: adjustFieldName(s.adjustField, r.columns[i].name), Schema: r.columns[i].schema})
		}
	}
	r.rowSchema = row
	r.envelope = &connect.Schema{Type: connect.Struct, Name: schemaName + ".Envelope", Version: 2, Fields: []connect.StructField{
		{Name: "before", Schema: row}, {Name: "after", Schema: row}, {Name: "source", Schema: shared.source},
		{Name: "transaction", Schema: shared.transaction}, {Name: "op", Schema: shared.op},
		{Name: "ts_ms", Schema: shared.millis}, {Name: "ts_us", Schema: shared.millis}, {Name: "ts_ns", Schema: shared.millis}}}
	r.reuse(prior)
	r.source = make([]connect.Value, sourceFields)
	r.source[sourceVersion], r.source[sourceConnector] = connect.StringValue(s.version), connect.StringValue("postgresql")
	r.source[sourceName], r.source[sourceDB] = connect.StringValue(s.prefix), connect.StringValue(s.database)
	r.source[sourceSchema], r.source[sourceTable] = connect.StringValue(m.name.schema), connect.StringValue(m.name.table)
	return r
}

// reuse takes over the schemas of the table's prior version where they are the same.
func (r *relation) reuse(prior *relation) {
	if prior == nil {
		return
	}
	if r.envelope.Equal(prior.envelope) {
		r.envelope, r.rowSchema = prior.envelope, prior.rowSchema
	}
	if r.keySchema != nil && prior.keySchema != nil && r.keySchema.Equal(prior.keySchema) {
		r.keySchema = prior.keySchema
	}
}

func buildColumn(s *settings, types *typeMapper, in relationColumn, shape *tableShape, a *arena) column {
	c := column{name: in.name, codec: types.codec(in.oid, in.typmod), optional: true}
	if c.codec.kind == codecDrop {
		return c
	}
	fallback := ""
	if shape != nil {
		if i := slices.IndexFunc(shape.columns, func(sc shapeColumn) bool { return sc.name == in.name }); i >= 0 && shape.columns[i].oid == in.oid {
			c.optional = !shape.columns[i].required
			fallback = shape.columns[i].fallback
		}
	}
	schema := *c.codec.schema
	schema.Optional = c.optional
	if text, ok := literalDefault(fallback); ok {
		if v, err := c.codec.decode([]byte(text), a); err == nil && fitsScale(&c.codec, text) {
			v = v.Clone()
			schema.Default = &v
		}
	}
	c.schema = &schema
	if !c.optional {
		c.zero = zeroValue(&schema)
		if schema.Default != nil {
			c.zero = *schema.Default
		}
	}
	c.unsent = unsentValue(&c.codec, s.types.placeholder, a)
	if c.unsent.IsNull() {
		c.unsent = c.zero
	}
	return c
}

// fitsScale reports whether a decimal default has no more fraction digits than its column.
func fitsScale(c *codec, text string) bool {
	if c.kind != codecDecimal {
		return true
	}
	_, fraction, _ := strings.Cut(text, ".")
	v := connect.DecimalText(text)
	scale := 0
	for _, d := range c.schema.Param("scale") {
		scale = scale*10 + int(d-'0')
	}
	_, err := v.Unscaled(scale)
	return err == nil && len(fraction) <= scale
}

// chooseKey picks the key columns: message.key.columns, else the best unique key, else the replica identity.
func (r *relation) chooseKey(s *settings, m *relationMessage, shape *tableShape) {
	find := func(names []string) []int {
		var out []int
		for _, n := range names {
			i := slices.IndexFunc(r.columns, func(c column) bool { return c.name == n })
			if i < 0 || r.columns[i].codec.kind == codecDrop {
				return nil
			}
			out = append(out, i)
		}
		return out
	}
	ruled := false
	for _, rule := range s.keyRules {
		if rule.table.MatchString(m.name.String()) {
			r.key, ruled = find(rule.columns), true
			break
		}
	}
	if !ruled && shape != nil {
		for _, names := range shape.keys {
			if r.key = find(names); r.key != nil {
				break
			}
		}
	}
	if !ruled && shape == nil && m.identity != 'f' {
		for i, c := range m.columns {
			if c.key && r.columns[i].codec.kind != codecDrop {
				r.key = append(r.key, i)
			}
		}
	}
	r.keyKnown = len(r.key) > 0
	for _, i := range r.key {
		r.keyKnown = r.keyKnown && (m.columns[i].key || m.identity == 'f')
	}
}

// zeroValue is what stands for a required value that is not there.
func zeroValue(s *connect.Schema) connect.Value {
	switch s.Type {
	case connect.Bool:
		return connect.BoolValue(false)
	case connect.Int16, connect.Int32, connect.Int64:
		return connect.IntValue(s.Type, 0)
	case connect.Float32:
		return connect.Float32Value(0)
	case connect.Float64:
		return connect.Float64Value(0)
	case connect.Bytes:
		if s.Name == connect.DecimalName {
			return connect.DecimalText("0")
		}
		return connect.BytesValue([]byte{})
	case connect.Array:
		return connect.ArrayValue(nil)
	case connect.Map:
		return connect.MapValue(nil)
	case connect.Struct:
		fields := make([]connect.Value, len(s.Fields))
		for i := range fields {
			if !s.Fields[i].Schema.Optional {
				fields[i] = zeroValue(s.Fields[i].Schema)
			}
		}
		return connect.StructValue(fields)
	}
	return connect.StringValue("")
}

// unsentValue is what stands for a long value that the server did not send because it did not change; null for types
// that are never long.
func unsentValue(c *codec, placeholder []byte, a *arena) connect.Value {
	text := connect.StringValue(string(placeholder))
	switch c.kind {
	case codecText:
		return text
	case codecBytes:
		return connect.BytesValue(placeholder)
	case codecBytesText:
		return connect.StringValue(strings.Clone(encodeBinary(c.mode, placeholder, a)))
	case codecHstoreMap:
		return connect.MapValue([]connect.Value{text, text})
	case codecHstoreText:
		return connect.StringValue(hstoreJSON([]connect.Value{text, text}))
	case codecArray:
		return unsentArray(c.elem, text, placeholder)
	}
	return connect.Value{}
}

func unsentArray(elem *codec, text connect.Value, placeholder []byte) connect.Value {
	switch {
	case elem.kind == codecText && elem.schema.Name == "io.debezium.data.Uuid":
		sum := md5.Sum(placeholder) // a name-based UUID is made with MD5 by definition
		sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
		h := hex.EncodeToString(sum[:])
		return connect.ArrayValue([]connect.Value{connect.StringValue(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])})
	case elem.kind == codecText:
		return connect.ArrayValue([]connect.Value{text})
	case elem.kind == codecNumber:
		items := make([]connect.Value, len(placeholder))
		for i, b := range placeholder {
			items[i] = connect.IntValue(elem.number, int64(b))
		}
		return connect.ArrayValue(items)
	}
	return connect.Value{}
}
