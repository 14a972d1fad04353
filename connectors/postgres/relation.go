package postgres

import (
	"crypto/md5"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// relation is one version of a captured table: how its tuples become rows, keys and envelopes. It is immutable.
type relation struct {
	debezium.Table
	oid      uint32
	name     tableName
	captured bool
	columns  []column // in the order of tuples
	width    int      // fields of a row
	key      []int    // indexes into columns, in key order; empty: no key
	keyKnown bool     // every key column is in the replica identity, so that an old tuple tells a change of key

	source  []connect.Value // the source block's constant part
	dropped []string        // columns whose types have no mapping
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

// Fields of the source block behind the common ones, in order.
const (
	sourceSchema = iota + debezium.SourceOwn
	sourceTable
	sourceTxID
	sourceLSN
	sourceXmin
	sourceOrigin
	sourceOriginLSN
	sourceFields
)

func newSchemas() *debezium.Schemas {
	text, long := debezium.PlainSchema(connect.String), debezium.PlainSchema(connect.Int64)
	optText, optLong := text.AsOptional(), long.AsOptional()
	return debezium.NewSchemas("io.debezium.connector.postgresql.Source", []connect.StructField{
		{Name: "schema", Schema: text}, {Name: "table", Schema: text}, {Name: "txId", Schema: optLong},
		{Name: "lsn", Schema: optLong}, {Name: "xmin", Schema: optLong}, {Name: "origin", Schema: optText}, {Name: "origin_lsn", Schema: optLong},
	}...)
}

// buildRelation makes a table's relation of its columns as they come in tuples and of what the catalog says of it now;
// shape is nil when the table is gone. It hands out prior's schemas where they are the same.
func buildRelation(s *settings, types *typeMapper, shared *debezium.Schemas, m *relationMessage, shape *tableShape, prior *relation) *relation {
	r := &relation{oid: m.oid, name: m.name, captured: true}
	var row, key []connect.StructField
	arena := &debezium.Arena{}
	for _, in := range m.columns {
		c := buildColumn(s, types, in, shape, arena)
		c.field = -1
		switch {
		case c.codec.kind == codecDrop:
			if s.takesColumn(m.name, in.name) {
				r.dropped = append(r.dropped, in.name)
			}
		case s.takesColumn(m.name, in.name):
			c.field = r.width
			r.width++
			row = append(row, connect.StructField{Name: debezium.AdjustFieldName(s.AdjustField, in.name), Schema: c.schema})
		}
		r.columns = append(r.columns, c)
	}
	r.chooseKey(s, m, shape)
	for _, i := range r.key {
		key = append(key, connect.StructField{Name: debezium.AdjustFieldName(s.AdjustField, r.columns[i].name), Schema: r.columns[i].schema})
	}
	var before *debezium.Table
	if prior != nil {
		before = &prior.Table
	}
	r.Table = *s.NewTable(shared, m.name.String(), s.Topic(m.name.schema, m.name.table), row, key, before)
	r.source = s.SourceTemplate(sourceFields, "postgresql", s.database)
	r.source[sourceSchema], r.source[sourceTable] = connect.StringValue(m.name.schema), connect.StringValue(m.name.table)
	return r
}

func buildColumn(s *settings, types *typeMapper, in relationColumn, shape *tableShape, a *debezium.Arena) column {
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
		c.zero = debezium.ZeroValue(&schema)
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
	columns, ruled := s.KeyRules.Columns(m.name.String())
	if ruled {
		r.key = find(columns)
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

// unsentValue is what stands for a long value that the server did not send because it did not change; null for types
// that are never long.
func unsentValue(c *codec, placeholder []byte, a *debezium.Arena) connect.Value {
	text := connect.StringValue(string(placeholder))
	switch c.kind {
	case codecText:
		return text
	case codecBytes:
		return connect.BytesValue(placeholder)
	case codecBytesText:
		return connect.StringValue(strings.Clone(debezium.EncodeBinary(c.mode, placeholder, a)))
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
