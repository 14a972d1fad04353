package schema

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// MapColumn is what a TABLE_MAP event tells of one column.
type MapColumn struct {
	Name     string // "" unless binlog_row_metadata is FULL
	Type     byte   // MYSQL_TYPE_…; ENUM and SET come as STRING with the real type in Meta's high byte
	Meta     uint16
	Nullable bool

	Unsigned    bool // valid if HasUnsigned
	HasUnsigned bool
	Collation   uint64 // its number, 0 where it isn't told
	Labels      []string
	Geometry    uint64 // 0 any, 1 point, 2 line string …
	Invisible   bool
}

// The types of columns in the binlog, MYSQL_TYPE_… of the protocol.
const (
	wireTiny       = 1
	wireShort      = 2
	wireLong       = 3
	wireFloat      = 4
	wireDouble     = 5
	wireNull       = 6
	wireTimestamp  = 7
	wireLongLong   = 8
	wireInt24      = 9
	wireDate       = 10
	wireTime       = 11
	wireDateTime   = 12
	wireYear       = 13
	wireNewDate    = 14
	wireVarchar    = 15
	wireBit        = 16
	wireTimestamp2 = 17
	wireDateTime2  = 18
	wireTime2      = 19
	wireBlobZip    = 140 // MariaDB's COMPRESSED
	wireVarZip     = 141
	wireVector     = 242
	wireJSON       = 245
	wireNewDecimal = 246
	wireEnum       = 247
	wireSet        = 248
	wireTinyBlob   = 249
	wireBlob       = 252
	wireVarString  = 253
	wireString     = 254
	wireGeometry   = 255
)

const binaryCollation = 63

// Overlay gives the structure by which a TABLE_MAP event's rows are read: the table as
// it is known, mended by what the event says of it. It gives t itself where the event
// says the same, and nil where the structure isn't known: t is nil, Doubtful or doesn't
// fit, and the event has no names.
//
// The event is right about everything it tells: number and order of the columns, their
// names, kinds, signs, charsets, labels and nullability, the primary key. Lengths,
// defaults and comments it doesn't know; those come from t for columns that have not
// changed. primaryKey has indices into columns; nil tells nothing.
func Overlay(t *Table, id TableID, columns []MapColumn, primaryKey []int) *Table {
	named := len(columns) > 0 && columns[0].Name != ""
	if !named && (t == nil || t.Doubtful || !fits(t, columns)) {
		return nil
	}
	out := &Table{ID: id, Partial: t == nil}
	if t != nil {
		*out = *t
		out.Doubtful = false
	}
	out.Columns = make([]Column, len(columns))
	changed := t == nil || len(t.Columns) != len(columns)
	for i := range columns {
		m := &columns[i]
		known := knownColumn(t, m, i)
		if known == nil {
			out.Columns[i] = m.column(i, t)
			changed = true
			continue
		}
		var mended bool
		out.Columns[i], mended = m.mend(known)
		changed = changed || mended || known.Position != i+1
		out.Columns[i].Position = i + 1
	}
	return out.keyed(t, primaryKey, named, changed)
}

// keyed finishes an overlay with the key that the event tells; t itself comes back
// where nothing is new.
func (t *Table) keyed(old *Table, primaryKey []int, named, changed bool) *Table {
	var key []string
	for _, i := range primaryKey {
		if i < 0 || i >= len(t.Columns) {
			return nil
		}
		key = append(key, t.Columns[i].Name)
	}
	if named && len(key) == 0 && !t.KeyIsUnique {
		key = t.uniqueKey()
	} else if len(key) == 0 {
		key = t.PrimaryKey
	}
	if !changed && slices.EqualFunc(key, t.PrimaryKey, sameName) {
		return old
	}
	t.KeyIsUnique = len(primaryKey) == 0 && len(key) > 0
	t.PrimaryKey = slices.DeleteFunc(key, func(name string) bool { return t.Column(name) == nil })
	if len(t.PrimaryKey) != len(key) {
		t.PrimaryKey, t.KeyIsUnique = nil, false
	}
	return t
}

// uniqueKey gives the first unique index that serves as key; nil if there is none.
func (t *Table) uniqueKey() []string {
	if len(t.UniqueKeys) == 0 {
		return nil
	}
	return t.UniqueKeys[0]
}

// fits says whether columns without names are the table's: as many, of their kinds.
// A versioned table of MariaDB has two more.
func fits(t *Table, columns []MapColumn) bool {
	more := len(columns) - len(t.Columns)
	if more != 0 && (more != 2 || !versioning(columns[len(columns)-2:])) {
		return false
	}
	for i := range t.Columns {
		if !columns[i].holds(t.Columns[i].Kind) {
			return false
		}
	}
	return true
}

// versioning says whether two columns are row_start and row_end.
func versioning(last []MapColumn) bool {
	return (last[0].Type == wireTimestamp2 || last[0].Type == wireLongLong) && last[0].Type == last[1].Type && last[0].Meta == last[1].Meta
}

// knownColumn finds the table's column that an event's is: by name, or by place where
// the event has no names. It gives nil where there is none of a fitting kind.
func knownColumn(t *Table, m *MapColumn, i int) *Column {
	if t == nil {
		return nil
	}
	var c *Column
	if m.Name != "" {
		c = t.Column(m.Name)
	} else if i < len(t.Columns) {
		c = &t.Columns[i]
	}
	if c == nil || !m.holds(c.Kind) {
		return nil
	}
	return c
}

// mend gives a known column with what the event says otherwise, and whether that was
// anything.
func (m *MapColumn) mend(known *Column) (Column, bool) {
	c, mended := *known, false
	if m.HasUnsigned && c.Kind <= Double && c.Kind > Boolean && m.Unsigned != c.Unsigned {
		c.Unsigned, mended = m.Unsigned, true
		c.TypeName = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(c.TypeName, " ZEROFILL"), " UNSIGNED"), " SIGNED")
		if c.ZeroFill = c.ZeroFill && m.Unsigned; m.Unsigned {
			c.TypeName += " UNSIGNED"
		}
		c.TypeExpression = c.TypeName
	}
	if m.Nullable != c.Optional {
		c.Optional, mended = m.Nullable, true
		if c.Default == nil && !c.DefaultIsExpression {
			c.HasDefault = c.Optional
		}
	}
	if charset := CollationCharset(m.Collation); charset != "" && c.Kind.IsString() && !sameCharset(charset, c.Charset) {
		c.Charset, c.Collation, mended = charset, "", true
	}
	if len(m.Labels) > 0 && (len(m.Labels) != len(c.EnumValues) || sameBytes(c.Charset, m.Labels) && !slices.Equal(m.Labels, c.EnumValues)) {
		c.EnumValues, mended = m.Labels, true
	}
	return c, mended
}

// sameBytes says whether labels, which come in the column's charset, are also UTF-8.
func sameBytes(charset string, labels []string) bool {
	if strings.HasPrefix(charset, "utf8") {
		return true
	}
	for _, label := range labels {
		for i := range len(label) {
			if label[i] >= utf8.RuneSelf || label[i] == 0 {
				return false
			}
		}
	}
	return true
}

// sameCharset compares charsets' names: utf8 is utf8mb3.
func sameCharset(a, b string) bool {
	return a == b || strings.Replace(a, "utf8mb3", "utf8", 1) == strings.Replace(b, "utf8mb3", "utf8", 1)
}

// column makes a column of what the event alone tells.
func (m *MapColumn) column(i int, t *Table) Column {
	c := Column{Name: m.Name, Position: i + 1, Optional: m.Nullable, HasDefault: m.Nullable, Invisible: m.Invisible, EnumValues: m.Labels}
	kind, word, jdbc := m.kind()
	c.Kind, c.TypeName, c.JDBCType = kind, word, jdbc
	if c.Unsigned = m.Unsigned; m.Unsigned && kind <= Double {
		c.TypeName += " UNSIGNED"
	}
	c.TypeExpression = c.TypeName
	if kind.IsString() {
		c.Charset = CollationCharset(m.Collation)
	}
	length := func(n int) { c.Length, c.HasLength = n, true }
	switch kind {
	case Decimal:
		length(int(m.Meta >> 8))
		c.Scale, c.HasScale = int(m.Meta&0xff), true
	case Bit: // whole bytes, and the bits beside them
		length(int(m.Meta>>8)*8 + int(m.Meta&0xff))
	case Time, DateTime, Timestamp:
		if m.Meta > 0 && m.Meta <= 6 {
			length(int(m.Meta))
		}
	case Enum:
		length(1)
	case Set:
		length(max(0, 2*len(m.Labels)-1))
	}
	if t != nil && i >= len(t.Columns) && m.hiddenName(i-len(t.Columns)) {
		c.Hidden = true
		if c.Name == "" {
			c.Name = [...]string{"row_start", "row_end"}[i-len(t.Columns)]
		}
	}
	return c
}

// hiddenName says whether a column that the table's definition doesn't have can be
// row_start (0) or row_end (1).
func (m *MapColumn) hiddenName(n int) bool {
	return n < 2 && (m.Name == "" || m.Name == [...]string{"row_start", "row_end"}[n]) && (m.Type == wireTimestamp2 || m.Type == wireLongLong)
}

// realType is the type with ENUM and SET told apart from strings.
func (m *MapColumn) realType() byte {
	if high := byte(m.Meta >> 8); m.Type == wireString && (high == wireEnum || high == wireSet) {
		return high
	}
	return m.Type
}

// kind gives the kind of column that a type of the binlog is, and how Debezium calls it.
func (m *MapColumn) kind() (Kind, string, int) {
	binary := m.Collation == binaryCollation || m.Collation == 0
	switch m.realType() {
	case wireBlob, wireBlobZip, wireTinyBlob, wireTinyBlob + 1, wireTinyBlob + 2:
		name := [...]string{"", "TINY", "", "MEDIUM", "LONG"}[min(m.Meta, 4)]
		if binary {
			return wireKind(name + "BLOB")
		}
		return wireKind(name + "TEXT")
	case wireVarchar, wireVarString, wireVarZip:
		if binary {
			return wireKind("VARBINARY")
		}
		return wireKind("VARCHAR")
	case wireString:
		if binary {
			return wireKind("BINARY")
		}
		return wireKind("CHAR")
	case wireGeometry:
		return wireKind([...]string{"GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"}[min(m.Geometry, 7)])
	}
	return wireKind(wireWords[m.realType()])
}

func wireKind(word string) (Kind, string, int) {
	w := typeWords[word]
	return w.kind, word, w.jdbc
}

// wireWords names the types that say themselves what they are.
var wireWords = map[byte]string{
	wireTiny: "TINYINT", wireShort: "SMALLINT", wireInt24: "MEDIUMINT", wireLong: "INT", wireLongLong: "BIGINT", wireFloat: "FLOAT",
	wireDouble: "DOUBLE", wireNewDecimal: "DECIMAL", wireBit: "BIT", wireDate: "DATE", wireNewDate: "DATE", wireTime: "TIME",
	wireTime2: "TIME", wireDateTime: "DATETIME", wireDateTime2: "DATETIME", wireTimestamp: "TIMESTAMP", wireTimestamp2: "TIMESTAMP",
	wireYear: "YEAR", wireJSON: "JSON", wireVector: "VECTOR", wireEnum: "ENUM", wireSet: "SET",
}

// holds says whether values of a column's kind are of the event's type.
func (m *MapColumn) holds(k Kind) bool {
	switch t := m.realType(); t {
	case wireNull:
		return true
	case wireTiny:
		return k == TinyInt || k == Boolean
	case wireFloat, wireDouble:
		return k == Float || k == Double
	case wireString:
		return k == Char || k == Binary || k == UUID || k == Inet4 || k == Inet6
	case wireVarchar, wireVarString, wireVarZip:
		return k == VarChar || k == VarBinary || k == Char || k == Binary || k == Vector
	case wireBlob, wireBlobZip, wireTinyBlob, wireTinyBlob + 1, wireTinyBlob + 2:
		return k >= TinyText && k <= LongText || k >= TinyBlob && k <= LongBlob || k == JSON || k == XML || k == Vector || k.IsSpatial()
	case wireGeometry:
		return k.IsSpatial()
	default:
		return typeWords[wireWords[t]].kind == k
	}
}
