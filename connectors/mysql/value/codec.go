package value

import (
	"fmt"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// Modes are the settings that say how values look; an empty one is Debezium's default.
type Modes struct {
	Decimal        string // decimal.handling.mode: precise, double, string
	Binary         string // binary.handling.mode: bytes, base64, base64-url-safe, hex
	Time           string // time.precision.mode: adaptive_time_microseconds, connect, isostring, microseconds, nanoseconds
	BigIntUnsigned string // bigint.unsigned.handling.mode: long, precise
	TimeAdjuster   bool   // enable.time.adjuster: years of two digits get their century
	TinyInt8       bool   // TINYINT is INT8, as of Debezium 3.7
}

// op says how a column's bytes become a value.
type op uint8

const (
	opSkip op = iota
	opInteger
	opWide // BIGINT UNSIGNED as a decimal
	opFloat
	opDecimal
	opBits
	opYear
	opText
	opBinary
	opEnum
	opSet
	opJSON
	opDate
	opTime
	opDateTime
	opTimestamp
	opGeometry
	opPoint
	opVector
	opUUID
	opInet4
	opInet6
)

// Codec decodes one column's values under one configuration. It is immutable and may be shared.
type Codec struct {
	// Schema is Debezium's schema of the column: with its default, optional if the column is. Nil of a skipped column.
	Schema *connect.Schema

	op    op
	frame frame
	name  string

	number     connect.Kind // of numbers and times
	unsigned   bool
	single     bool // FLOAT: text is rounded to float32
	precision  int
	scale      int
	pad        int   // bytes of a BINARY
	unit       int64 // microseconds per unit of a time; negative: nanoseconds
	digits     int   // fraction digits of a second that the column has
	old        bool  // the form of times before MySQL 5.6.4
	compressed bool  // MariaDB's COMPRESSED
	adjust     bool
	binary     string // binary.handling.mode

	shownDigits int // fraction digits of a time's text, -1 as needed

	charset *charset
	labels  []string
	missing connect.Value // what stands for a date that is none: null, or of a required column its default or zero
	exact   bool          // the text form needs an expression to be exact
}

// Compile makes the codec of a column; column is read only here. wire says how its values stand in row images, the zero
// Wire if they are only read as text. It fails where the wire's type is not one that the column's kind has: the
// structure is then not that of the rows' time.
func Compile(column *schema.Column, wire Wire, modes Modes) (*Codec, error) {
	c := &Codec{name: column.Name, unsigned: column.Unsigned}
	if wire != (Wire{}) {
		if !fits(column.Kind, wire.realType()) {
			return nil, fmt.Errorf("column %s: a %s can't have the binlog's type %d", column.Name, column.TypeName, wire.realType())
		}
		var err error
		if c.frame, err = wire.frame(); err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
	}
	if err := c.kind(column, wire, modes); err != nil {
		return nil, fmt.Errorf("column %s: %w", column.Name, err)
	}
	c.finishSchema(column)
	return c, nil
}

// NewSkip makes the codec of a column that is not wanted: its values are passed over in row images.
func NewSkip(wire Wire) (*Codec, error) {
	f, err := wire.frame()
	return &Codec{frame: f}, err
}

// fits says whether a binlog type can hold a kind.
func fits(k schema.Kind, t byte) bool {
	switch k {
	case schema.Boolean, schema.TinyInt:
		return t == typeTiny
	case schema.SmallInt:
		return t == typeShort
	case schema.MediumInt:
		return t == typeInt24
	case schema.Int:
		return t == typeLong
	case schema.BigInt:
		return t == typeLongLong
	case schema.Decimal:
		return t == typeNewDecimal
	case schema.Float:
		return t == typeFloat || t == typeDouble
	case schema.Double:
		return t == typeDouble
	case schema.Bit:
		return t == typeBit
	case schema.Year:
		return t == typeYear
	case schema.Date:
		return t == typeDate || t == typeNewDate
	case schema.Time:
		return t == typeTime || t == typeTime2
	case schema.DateTime:
		return t == typeDateTime || t == typeDateTime2
	case schema.Timestamp:
		return t == typeTimestamp || t == typeTimestamp2
	case schema.Enum:
		return t == typeEnum
	case schema.Set:
		return t == typeSet
	case schema.Vector:
		return t == typeVector || t == typeVarchar || isBlob(t) // MariaDB's is a VARBINARY underneath
	case schema.JSON:
		return t == typeJSON || isBlob(t)
	case schema.UUID, schema.Inet4, schema.Inet6:
		return t == typeString
	case schema.Char, schema.VarChar, schema.Binary, schema.VarBinary:
		return t == typeString || t == typeVarchar || t == typeVarString || t == typeVarcharCompressed
	case schema.TinyText, schema.Text, schema.MediumText, schema.LongText, schema.TinyBlob, schema.Blob, schema.MediumBlob,
		schema.LongBlob, schema.XML:
		return isBlob(t)
	}
	return k.IsSpatial() && t == typeGeometry
}

func isBlob(t byte) bool {
	return t >= typeTinyBlob && t <= typeBlob || t == typeBlobCompressed
}

// Binlog decodes the value at the beginning of data, which is not null; rest is what follows it.
func (c *Codec) Binlog(data []byte, a *debezium.Arena) (v connect.Value, rest []byte, err error) {
	raw, rest, err := c.frame.cut(data)
	if err == nil {
		v, err = c.decode(raw, a)
	}
	if err != nil {
		return connect.Value{}, nil, c.fault(err)
	}
	return v, rest, nil
}

func (c *Codec) fault(err error) error {
	return fmt.Errorf("column %s: %w", c.name, err)
}

func (c *Codec) decode(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if c.compressed {
		var err error
		if raw, err = inflate(raw, a); err != nil {
			return connect.Value{}, err
		}
	}
	switch c.op {
	case opSkip:
		return connect.Value{}, nil
	case opInteger:
		return c.integer(raw)
	case opText:
		return connect.StringValue(c.charset.text(raw, a)), nil
	case opDecimal:
		return c.decimal(raw, a)
	case opFloat:
		return c.float(raw)
	case opDate:
		return c.dateValue(date(raw), a), nil
	case opDateTime:
		return c.dateTimeValue(dateTime(raw, c.old), a), nil
	case opTimestamp:
		return c.dateTimeValue(timestamp(raw, c.old), a), nil
	case opTime:
		return c.timeValue(timeOfDay(raw, c.old), a), nil
	case opBinary:
		return debezium.BinaryValue(c.binary, c.padded(raw, a), a), nil
	case opJSON:
		return jsonText(raw, a)
	case opEnum:
		return c.enum(raw)
	case opSet:
		return c.set(raw, a)
	case opWide:
		return wide(raw, a), nil
	case opYear:
		if raw[0] == 0 {
			return connect.Int32Value(0), nil
		}
		return connect.Int32Value(1900 + int32(raw[0])), nil
	case opBits:
		return c.bits(raw, a)
	case opUUID:
		return uuidText(raw, a)
	case opInet4:
		return inet4Text(raw, a)
	case opInet6:
		return inet6Text(raw, a)
	}
	return c.shape(raw, a)
}

// Text decodes a value of a text result set whose connection has the character set utf8mb4 and the time zone +00:00;
// data is nil for NULL.
func (c *Codec) Text(data []byte, a *debezium.Arena) (v connect.Value, err error) {
	if data == nil {
		return connect.Value{}, nil
	}
	if v, err = c.decodeText(data, a); err != nil {
		return connect.Value{}, c.fault(err)
	}
	return v, nil
}

func (c *Codec) decodeText(data []byte, a *debezium.Arena) (connect.Value, error) {
	switch c.op {
	case opSkip:
		return connect.Value{}, nil
	case opInteger:
		return c.integerText(data)
	case opText, opJSON, opEnum, opSet, opUUID, opInet4, opInet6:
		return connect.StringValue(debezium.AsString(data)), nil
	case opDecimal:
		return c.decimalText(data)
	case opFloat:
		return c.floatText(data)
	case opBinary:
		return debezium.BinaryValue(c.binary, data, a), nil
	case opDate:
		m, _, err := parseDate(data)
		return c.dateValue(m, a), err
	case opDateTime, opTimestamp:
		m, err := parseDateTime(data)
		return c.dateTimeValue(m, a), err
	case opTime:
		micros, err := parseTime(data)
		return c.timeValue(micros, a), err
	case opWide:
		if !isInteger(data) {
			return connect.Value{}, fmt.Errorf("%q is not an integer", data)
		}
		return c.decimalText(data)
	case opYear:
		year, ok := number(data)
		if !ok {
			return connect.Value{}, fmt.Errorf("%q is not a year", data)
		}
		return connect.Int32Value(int32(year)), nil
	case opBits:
		return c.bits(data, a)
	}
	return c.shape(data, a)
}

// Select gives what a snapshot's SELECT asks for so that [Codec.Text] gets the whole value: the column, whose name comes
// quoted, or an expression.
func (c *Codec) Select(quoted string) string {
	if c.exact { // the server prints six digits of a FLOAT, and only the declared ones of FLOAT(M,D)
		return quoted + "*1e0"
	}
	return quoted
}
