package schema

import "strings"

// The numbers of java.sql.Types that Debezium's parser gives to columns.
const (
	jdbcBit         = -7
	jdbcBigInt      = -5
	jdbcVarBinary   = -3
	jdbcBinary      = -2
	jdbcNVarChar    = -9
	jdbcNChar       = -15
	jdbcChar        = 1
	jdbcNumeric     = 2
	jdbcDecimal     = 3
	jdbcInteger     = 4
	jdbcSmallInt    = 5
	jdbcFloat       = 6
	jdbcReal        = 7
	jdbcDouble      = 8
	jdbcVarChar     = 12
	jdbcBoolean     = 16
	jdbcDate        = 91
	jdbcTime        = 92
	jdbcTimestamp   = 93
	jdbcBlob        = 2004
	jdbcTimestampTZ = 2014
	jdbcOther       = 1111
)

// typeWord is what one word says that begins a column's type.
type typeWord struct {
	kind   Kind
	jdbc   int
	number bool // takes SIGNED, UNSIGNED and ZEROFILL
	length int  // default length, where Debezium writes one
	scale  int  // default scale; -1 for none
}

// typeWords are the types that are one word; those of more words are read by
// longType, charType and nationalType. The table is only read.
var typeWords = map[string]typeWord{
	"BOOL": {Boolean, jdbcBoolean, false, 0, -1}, "BOOLEAN": {Boolean, jdbcBoolean, false, 0, -1},
	"TINYINT": {TinyInt, jdbcSmallInt, true, 0, -1}, "INT1": {TinyInt, jdbcSmallInt, true, 0, -1},
	"SMALLINT": {SmallInt, jdbcSmallInt, true, 0, -1}, "INT2": {SmallInt, jdbcSmallInt, true, 0, -1},
	"MEDIUMINT": {MediumInt, jdbcInteger, true, 0, -1}, "INT3": {MediumInt, jdbcInteger, true, 0, -1},
	"MIDDLEINT": {MediumInt, jdbcInteger, true, 0, -1},
	"INT":       {Int, jdbcInteger, true, 0, -1}, "INTEGER": {Int, jdbcInteger, true, 0, -1}, "INT4": {Int, jdbcInteger, true, 0, -1},
	"BIGINT": {BigInt, jdbcBigInt, true, 0, -1}, "INT8": {BigInt, jdbcBigInt, true, 0, -1},
	"SERIAL":  {BigInt, jdbcBigInt, false, 0, -1},
	"DECIMAL": {Decimal, jdbcDecimal, true, 10, 0}, "DEC": {Decimal, jdbcDecimal, true, 10, 0},
	"FIXED": {Decimal, jdbcDecimal, true, 10, 0}, "NUMERIC": {Decimal, jdbcNumeric, true, 10, 0},
	"NUMBER": {Decimal, jdbcDecimal, true, 10, 0},
	"FLOAT":  {Float, jdbcFloat, true, 0, -1}, "FLOAT4": {Float, jdbcFloat, true, 0, -1},
	"DOUBLE": {Double, jdbcDouble, true, 0, -1}, "FLOAT8": {Double, jdbcDouble, true, 0, -1}, "REAL": {Double, jdbcReal, true, 0, -1},
	"BIT":  {Bit, jdbcBit, false, 1, -1},
	"DATE": {Date, jdbcDate, false, 0, -1}, "TIME": {Time, jdbcTime, false, 0, -1},
	"DATETIME": {DateTime, jdbcTimestamp, false, 0, -1}, "TIMESTAMP": {Timestamp, jdbcTimestampTZ, false, 0, -1},
	"YEAR":     {Year, jdbcInteger, false, 0, -1},
	"TINYTEXT": {TinyText, jdbcVarChar, false, 0, -1}, "TEXT": {Text, jdbcVarChar, false, 0, -1},
	"MEDIUMTEXT": {MediumText, jdbcVarChar, false, 0, -1}, "LONGTEXT": {LongText, jdbcVarChar, false, 0, -1},
	"CLOB": {LongText, jdbcVarChar, false, 0, -1}, "XMLTYPE": {XML, jdbcOther, false, 0, -1},
	"BINARY": {Binary, jdbcBinary, false, 0, -1}, "VARBINARY": {VarBinary, jdbcVarBinary, false, 0, -1},
	"RAW":      {VarBinary, jdbcVarBinary, false, 0, -1},
	"TINYBLOB": {TinyBlob, jdbcBlob, false, 0, -1}, "BLOB": {Blob, jdbcBlob, false, 0, -1},
	"MEDIUMBLOB": {MediumBlob, jdbcBlob, false, 0, -1}, "LONGBLOB": {LongBlob, jdbcBlob, false, 0, -1},
	"ENUM": {Enum, jdbcChar, false, 1, -1}, "SET": {Set, jdbcChar, false, 0, -1},
	"JSON": {JSON, jdbcOther, false, 0, -1}, "VECTOR": {Vector, jdbcOther, false, 0, -1},
	"GEOMETRY": {Geometry, jdbcOther, false, 0, -1}, "POINT": {Point, jdbcOther, false, 0, -1},
	"LINESTRING": {LineString, jdbcOther, false, 0, -1}, "POLYGON": {Polygon, jdbcOther, false, 0, -1},
	"MULTIPOINT": {MultiPoint, jdbcOther, false, 0, -1}, "MULTILINESTRING": {MultiLineString, jdbcOther, false, 0, -1},
	"MULTIPOLYGON": {MultiPolygon, jdbcOther, false, 0, -1}, "GEOMETRYCOLLECTION": {GeometryCollection, jdbcOther, false, 0, -1},
	"GEOMCOLLECTION": {GeometryCollection, jdbcOther, false, 0, -1},
	"UUID":           {UUID, jdbcOther, false, 0, -1}, "INET4": {Inet4, jdbcOther, false, 0, -1}, "INET6": {Inet6, jdbcOther, false, 0, -1},
	"CHAR": {Char, jdbcChar, false, 0, -1}, "CHARACTER": {Char, jdbcChar, false, 0, -1},
	"VARCHAR": {VarChar, jdbcVarChar, false, 0, -1}, "VARCHARACTER": {VarChar, jdbcVarChar, false, 0, -1},
	"VARCHAR2": {VarChar, jdbcVarChar, false, 0, -1},
	"NCHAR":    {Char, jdbcNChar, false, 0, -1}, "NVARCHAR": {VarChar, jdbcNVarChar, false, 0, -1},
}

// columnType reads a column's type with its lengths, labels, signs and charset. It
// fails where no type stands.
func (p *parser) columnType(c *Column) bool {
	name, ok := p.typeName(c)
	if !ok {
		return false
	}
	switch c.Kind {
	case Enum, Set:
		if !p.labels(c) {
			return false
		}
	default:
		p.lengths(c)
	}
	if p.number {
		name += p.signs(c)
	}
	if c.Kind.IsString() || c.JDBCType == jdbcNChar || c.JDBCType == jdbcNVarChar {
		if p.typeCharset(c) {
			name += " BINARY"
		}
	}
	c.TypeName, c.TypeExpression = name, name
	return true
}

// typeName reads the words of a type and sets what they say.
func (p *parser) typeName(c *Column) (string, bool) {
	t := p.next()
	if t.kind != wordToken {
		return "", false
	}
	word := strings.ToUpper(t.text)
	switch word {
	case "NATIONAL":
		second := strings.ToUpper(p.next().text)
		if second != "CHAR" && second != "CHARACTER" && second != "VARCHAR" {
			return "", false
		}
		word += " " + second
		p.set(c, typeWords["N"+strings.Replace(second, "CHARACTER", "CHAR", 1)])
	case "LONG":
		return p.longType(c), true
	default:
		w, ok := typeWords[word]
		if !ok {
			return "", false
		}
		p.set(c, w)
	}
	switch {
	case word == "DOUBLE" && p.accept("PRECISION"):
		word += " PRECISION"
	case word == "NCHAR" && p.accept("VARCHAR"):
		word += " VARCHAR"
		p.set(c, typeWords["NVARCHAR"])
	case c.Kind == Char && p.accept("VARYING"):
		word += " VARYING"
		national := c.JDBCType == jdbcNChar
		p.set(c, typeWords["VARCHAR"])
		if national {
			c.JDBCType = jdbcNVarChar
		}
	case word == "SERIAL":
		word = "BIGINT UNSIGNED"
		c.Unsigned, c.AutoIncrement = true, true
		p.notNull, p.unique = true, true
	}
	if c.JDBCType == jdbcNChar || c.JDBCType == jdbcNVarChar {
		c.Charset = "utf8"
	}
	return word, true
}

func (p *parser) set(c *Column, w typeWord) {
	c.Kind, c.JDBCType, p.number = w.kind, w.jdbc, w.number
	if w.length > 0 {
		c.Length, c.HasLength = w.length, true
	}
	if w.scale >= 0 {
		c.Scale, c.HasScale = w.scale, true
	}
	switch {
	case w.jdbc == jdbcNChar:
		c.Length, c.HasLength = 1, true
	case w.kind == Vector && p.catalog != nil && p.catalog.dialect == MariaDB:
		c.Length, c.HasLength = 2048, true
	}
}

// longType reads what follows LONG: VARBINARY, [CHAR] VARCHAR, CHAR VARYING or nothing.
func (p *parser) longType(c *Column) string {
	switch {
	case p.accept("VARBINARY"):
		p.set(c, typeWords["MEDIUMBLOB"])
		return "LONG VARBINARY"
	case p.accept("VARCHAR"), p.accept("VARCHARACTER"):
		p.set(c, typeWords["MEDIUMTEXT"])
		return "LONG VARCHAR"
	case p.accept("CHAR", "VARYING"), p.accept("CHARACTER", "VARYING"):
		p.set(c, typeWords["MEDIUMTEXT"])
		return "LONG CHAR VARYING"
	}
	p.set(c, typeWords["MEDIUMTEXT"])
	return "LONG"
}

// lengths reads (length) or (length, scale). A length that isn't a positive number is
// what the server takes for none: 10, of decimals only.
func (p *parser) lengths(c *Column) {
	if !p.peek().is("(") {
		return
	}
	p.next()
	first := p.next()
	if n, ok := atoi(first.text); ok {
		c.Length, c.HasLength = n, true
		if n == 0 && c.Kind == Decimal {
			c.Length = 10
		}
	}
	if p.accept(",") {
		if n, ok := atoi(p.next().text); ok {
			c.Scale, c.HasScale = n, true
		}
	}
	for !p.ended() && !p.accept(")") {
		p.next()
	}
	// FLOAT(p) is a DOUBLE from 25 bits on.
	if c.Kind == Float && c.Length > 24 && !c.HasScale {
		c.Kind = Double
	}
}

// atoi reads the digits that text begins with, up to the largest length Java holds.
func atoi(text string) (int, bool) {
	n := 0
	for i := 0; i < len(text) && text[i] != '.'; i++ {
		if !isDigit(text[i]) {
			return 0, false
		}
		n = min(n*10+int(text[i]-'0'), 1<<31-1)
	}
	return n, text != ""
}

// labels reads the labels of ENUM and SET.
func (p *parser) labels(c *Column) bool {
	if !p.accept("(") {
		return false
	}
	for {
		t := p.next()
		switch {
		case t.kind == wordToken && strings.HasPrefix(t.text, "_"): // a charset's introducer
			continue
		case t.kind == hexToken:
			t.text = unhex(t.text)
		case t.kind != stringToken:
			return false
		}
		c.EnumValues = append(c.EnumValues, t.text)
		if p.accept(")") {
			break
		}
		if !p.accept(",") {
			return false
		}
	}
	if c.Kind == Set {
		c.Length, c.HasLength = 2*len(c.EnumValues)-1, true
	}
	return true
}

func unhex(digits string) string {
	b := make([]byte, 0, len(digits)/2)
	for i := len(digits) % 2; i+1 < len(digits); i += 2 {
		b = append(b, nibble(digits[i])<<4|nibble(digits[i+1]))
	}
	return string(b)
}

func nibble(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	default:
		return c&^0x20 - 'A' + 10
	}
}

// signs reads SIGNED, UNSIGNED and ZEROFILL and gives them as Debezium writes them.
func (p *parser) signs(c *Column) string {
	sign := ""
	for {
		switch p.acceptOne("SIGNED", "UNSIGNED", "ZEROFILL") {
		case "SIGNED": // after UNSIGNED it changes nothing but Debezium's name of the type
			sign = " SIGNED"
		case "UNSIGNED":
			sign = " UNSIGNED"
			c.Unsigned = true
		case "ZEROFILL":
			c.ZeroFill = true
		default:
			if c.ZeroFill {
				c.Unsigned = true
				return " UNSIGNED ZEROFILL"
			}
			return sign
		}
	}
}

// typeCharset reads the charset that belongs to a type, and says whether BINARY stood
// there, which means the charset's _bin collation.
func (p *parser) typeCharset(c *Column) (binary bool) {
	for {
		switch {
		case p.accept("BINARY"):
			binary = true
		case p.accept("ASCII"):
			c.Charset = "latin1"
		case p.accept("UNICODE"):
			c.Charset = "ucs2"
		case p.accept("BYTE"):
			c.setBinary()
		case p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"), p.accept("CHARSET"):
			p.accept("=")
			c.Charset = charsetName(p.next().text)
			if c.Charset == "binary" {
				c.setBinary()
			}
		default:
			return binary
		}
	}
}

// setBinary makes a string type the binary type that the server makes of it.
func (c *Column) setBinary() {
	switch c.Kind {
	case Char, VarChar:
		c.Kind += Binary - Char
	case TinyText, Text, MediumText, LongText:
		c.Kind += TinyBlob - TinyText
	}
}
