package binlog

import (
	"bytes"
	"fmt"
)

// TableMap is a table's shape as the binlog announces it before each statement's rows. It is immutable.
type TableMap struct {
	ID              uint64
	Database, Table string
	Columns         []ColumnMap
	// PrimaryKey has the columns of the primary key in key order, by index; nil if there is none or it isn't told.
	PrimaryKey []int
	// Full says that names, labels, character sets and the primary key are there (binlog_row_metadata=FULL). Of MINIMAL
	// come signedness, character sets and geometry types; servers before MySQL 8.0 and MariaDB 10.5 tell nothing.
	Full bool

	wanted bool
	raw    []byte
}

// ColumnMap is one column of a TableMap.
type ColumnMap struct {
	Type     byte   // MYSQL_TYPE_… as in the protocol; ENUM and SET come as STRING with the real type in Meta's high byte
	Meta     uint16 // the type's parameters, as the server packs them
	Nullable bool
	Name     string // Full only

	Unsigned    bool // of numeric columns, valid if HasUnsigned
	HasUnsigned bool
	Collation   uint64 // number of the collation of text, ENUM and SET; 0: not told; 63: binary
	Labels      []string
	Geometry    uint64 // of geometries: 0 any, 1 point, 2 line string …
	HasGeometry bool
	Invisible   bool
	KeyPrefix   uint64 // of key columns: how much of the column is in the key, 0 for all
}

// Column types that the parser must tell apart.
const (
	typeDecimal    = 0
	typeTiny       = 1
	typeShort      = 2
	typeLong       = 3
	typeFloat      = 4
	typeDouble     = 5
	typeLongLong   = 8
	typeInt24      = 9
	typeYear       = 13
	typeVarchar    = 15
	typeBit        = 16
	typeTimestamp2 = 17
	typeDateTime2  = 18
	typeTime2      = 19
	typeVector     = 242

	typeBlobCompressed    = 140 // MariaDB
	typeVarcharCompressed = 141
	typeJSON              = 245
	typeNewDecimal        = 246
	typeEnum              = 247
	typeSet               = 248
	typeTinyBlob          = 249
	typeMediumBlob        = 250
	typeLongBlob          = 251
	typeBlob              = 252
	typeVarString         = 253
	typeString            = 254
	typeGeometry          = 255
)

// Fields of a table map's optional metadata.
const (
	metaSignedness = 1 + iota
	metaDefaultCharset
	metaColumnCharset
	metaColumnName
	metaSetLabels
	metaEnumLabels
	metaGeometry
	metaSimpleKey
	metaPrefixKey
	metaEnumSetDefaultCharset
	metaEnumSetColumnCharset
	metaVisibility
)

// realType is the type with ENUM and SET told apart from strings.
func (c *ColumnMap) realType() byte {
	if c.Type == typeString {
		if t := byte(c.Meta >> 8); t == typeEnum || t == typeSet {
			return t
		}
	}
	return c.Type
}

func (c *ColumnMap) numeric() bool {
	switch c.realType() {
	case typeTiny, typeShort, typeInt24, typeLong, typeLongLong, typeDecimal, typeNewDecimal, typeFloat, typeDouble, typeYear:
		return true
	}
	return false
}

func (c *ColumnMap) text(d Dialect) bool {
	switch c.realType() {
	case typeString, typeVarString, typeVarchar, typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlob, typeBlobCompressed, typeVarcharCompressed:
		return true
	case typeGeometry:
		return d == MariaDB
	}
	return false
}

func (c *ColumnMap) labelled() bool { t := c.realType(); return t == typeEnum || t == typeSet }

// parseTableMap reads a TABLE_MAP event's body; idSize is the length of table ids, 6 but for ancient servers. The result
// shares nothing with body.
func parseTableMap(d Dialect, idSize int, body []byte) (*TableMap, error) {
	t := &TableMap{raw: bytes.Clone(body)}
	c := cursor{b: t.raw}
	t.ID = c.uint(idSize)
	c.u16() // flags
	t.Database = string(c.bytes(int(c.u8())))
	c.u8()
	t.Table = string(c.bytes(int(c.u8())))
	c.u8()
	types := c.packedBytes()
	t.Columns = make([]ColumnMap, len(types))
	metas := cursor{b: c.packedBytes()}
	nullable := c.bytes((len(types) + 7) / 8)
	if c.short {
		return nil, fmt.Errorf("the table map of %s.%s is cut off", t.Database, t.Table)
	}
	for i, typ := range types {
		t.Columns[i] = ColumnMap{Type: typ, Meta: columnMeta(typ, &metas), Nullable: nullable[i/8]>>(i%8)&1 == 1}
	}
	if metas.short {
		return nil, fmt.Errorf("the table map of %s.%s has too few column parameters", t.Database, t.Table)
	}
	for len(c.b) > 0 && !c.short {
		field := c.u8()
		value := c.packedBytes()
		if c.short || !t.metadata(d, field, value) {
			return nil, fmt.Errorf("the table map of %s.%s has broken metadata (field %d)", t.Database, t.Table, field)
		}
	}
	return t, nil
}

// columnMeta reads a type's parameters.
func columnMeta(typ byte, c *cursor) uint16 {
	switch typ {
	case typeString, typeNewDecimal, typeEnum, typeSet: // real type and length; precision and scale
		return uint16(c.u8())<<8 | uint16(c.u8())
	case typeVarString, typeVarchar, typeBit, typeVarcharCompressed:
		return c.u16()
	case typeBlob, typeBlobCompressed, typeTinyBlob, typeMediumBlob, typeLongBlob, typeDouble, typeFloat, typeGeometry, typeVector, typeJSON,
		typeTime2, typeDateTime2, typeTimestamp2:
		return uint16(c.u8())
	}
	return 0
}

// metadata reads one optional field; false if it contradicts the columns.
func (t *TableMap) metadata(d Dialect, field byte, value []byte) bool {
	c := cursor{b: value}
	text := func(col *ColumnMap) bool { return col.text(d) }
	switch field {
	case metaSignedness:
		t.each((*ColumnMap).numeric, func(n int, col *ColumnMap) {
			col.HasUnsigned = n/8 < len(value)
			col.Unsigned = col.HasUnsigned && value[n/8]<<(n%8)&0x80 != 0
		})
	case metaDefaultCharset:
		t.defaultCollations(&c, text)
	case metaEnumSetDefaultCharset:
		t.defaultCollations(&c, (*ColumnMap).labelled)
	case metaColumnCharset:
		t.each(text, func(_ int, col *ColumnMap) { col.Collation = c.packed() })
	case metaEnumSetColumnCharset:
		t.each((*ColumnMap).labelled, func(_ int, col *ColumnMap) { col.Collation = c.packed() })
	case metaColumnName:
		t.Full = true
		for i := range t.Columns {
			t.Columns[i].Name = string(c.bytes(int(c.u8())))
		}
	case metaSetLabels:
		t.each(func(col *ColumnMap) bool { return col.realType() == typeSet }, func(_ int, col *ColumnMap) { col.Labels = labels(&c) })
	case metaEnumLabels:
		t.each(func(col *ColumnMap) bool { return col.realType() == typeEnum }, func(_ int, col *ColumnMap) { col.Labels = labels(&c) })
	case metaGeometry:
		t.each(func(col *ColumnMap) bool { return col.Type == typeGeometry }, func(_ int, col *ColumnMap) {
			col.Geometry, col.HasGeometry = c.packed(), true
		})
	case metaSimpleKey, metaPrefixKey:
		return t.primaryKey(&c, field == metaPrefixKey)
	case metaVisibility:
		t.each(func(*ColumnMap) bool { return true }, func(n int, col *ColumnMap) {
			col.Invisible = n/8 < len(value) && value[n/8]<<(n%8)&0x80 == 0
		})
	}
	return !c.short
}

// each calls f for the columns that match, which are numbered 0, 1, 2 ….
func (t *TableMap) each(match func(*ColumnMap) bool, f func(n int, col *ColumnMap)) {
	n := 0
	for i := range t.Columns {
		if match(&t.Columns[i]) {
			f(n, &t.Columns[i])
			n++
		}
	}
}

// defaultCollations reads the most usual collation and pairs of column and collation for the others.
func (t *TableMap) defaultCollations(c *cursor, match func(*ColumnMap) bool) {
	usual := c.packed()
	others := make(map[uint64]uint64)
	for len(c.b) > 0 && !c.short {
		n := c.packed()
		others[n] = c.packed()
	}
	t.each(match, func(n int, col *ColumnMap) {
		col.Collation = usual
		if other, ok := others[uint64(n)]; ok {
			col.Collation = other
		}
	})
}

func labels(c *cursor) []string {
	out := make([]string, c.count(1))
	for i := range out {
		out[i] = string(c.packedBytes())
	}
	return out
}

func (t *TableMap) primaryKey(c *cursor, prefixes bool) bool {
	for len(c.b) > 0 && !c.short {
		i := c.packed()
		if i >= uint64(len(t.Columns)) {
			return false
		}
		t.PrimaryKey = append(t.PrimaryKey, int(i))
		if prefixes {
			t.Columns[i].KeyPrefix = c.packed()
		}
	}
	return !c.short
}
