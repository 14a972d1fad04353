package value

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// kind sets what follows from the column's kind: the op, its parameters and the schema, still without its default.
func (c *Codec) kind(column *schema.Column, wire Wire, modes Modes) error {
	switch k := column.Kind; k {
	case schema.Boolean, schema.TinyInt, schema.SmallInt, schema.MediumInt, schema.Int, schema.BigInt:
		c.integerKind(k, modes)
	case schema.Float, schema.Double:
		c.floatKind(column, wire)
	case schema.Decimal:
		c.decimalKind(column, wire, modes)
	case schema.Bit:
		c.bitKind(column)
	case schema.Year:
		c.op, c.Schema = opYear, debezium.NamedSchema(connect.Int32, "io.debezium.time.Year")
	case schema.Date, schema.Time, schema.DateTime, schema.Timestamp:
		c.temporalKind(column, wire, modes)
	case schema.Enum, schema.Set:
		c.labelKind(column)
	case schema.JSON:
		c.jsonKind(wire)
	case schema.Binary, schema.VarBinary, schema.TinyBlob, schema.Blob, schema.MediumBlob, schema.LongBlob:
		c.binaryKind(k, wire, modes)
	case schema.Char, schema.VarChar, schema.TinyText, schema.Text, schema.MediumText, schema.LongText, schema.XML:
		if column.Charset == "binary" {
			c.binaryKind(k, wire, modes)
			break
		}
		c.op, c.charset, c.Schema = opText, charsetOf(column.Charset), debezium.PlainSchema(connect.String)
		if k == schema.XML {
			c.Schema = debezium.NamedSchema(connect.String, "io.debezium.data.Xml")
		}
	case schema.Point:
		c.op, c.Schema = opPoint, debezium.PointSchema()
	case schema.Vector:
		c.op, c.Schema = opVector, debezium.NamedSchema(connect.Array, "io.debezium.data.FloatVector")
		c.Schema.Elem = debezium.PlainSchema(connect.Float32)
	case schema.UUID:
		c.op, c.Schema = opUUID, debezium.PlainSchema(connect.String)
	case schema.Inet4:
		c.op, c.Schema = opInet4, debezium.PlainSchema(connect.String)
	case schema.Inet6:
		c.op, c.Schema = opInet6, debezium.PlainSchema(connect.String)
	default:
		if !k.IsSpatial() {
			return fmt.Errorf("no values of the type %s are known", column.TypeName)
		}
		c.op, c.Schema = opGeometry, geometrySchema()
	}
	c.compressed = wire.Type == typeBlobCompressed || wire.Type == typeVarcharCompressed
	return nil
}

func (c *Codec) integerKind(k schema.Kind, modes Modes) {
	c.op = opInteger
	switch {
	case k <= schema.TinyInt && modes.TinyInt8 && !c.unsigned:
		c.number = connect.Int8
	case k <= schema.TinyInt, k == schema.SmallInt && !c.unsigned:
		c.number = connect.Int16
	case k == schema.SmallInt, k == schema.MediumInt, k == schema.Int && !c.unsigned:
		c.number = connect.Int32
	default:
		c.number = connect.Int64
	}
	if k == schema.BigInt && c.unsigned && modes.BigIntUnsigned == "precise" {
		c.op, c.Schema = opWide, debezium.DecimalSchema(0, 20)
		return
	}
	c.Schema = debezium.PlainSchema(c.number)
}

// floatKind: FLOAT(p) with p above 24 is a DOUBLE of the server; FLOAT(M,D) is shown as a double, as Debezium does.
func (c *Codec) floatKind(column *schema.Column, wire Wire) {
	c.op, c.number = opFloat, connect.Float64
	long := column.Kind == schema.Double || wire.Type == typeDouble || column.HasLength && !column.HasScale && column.Length > 24
	c.single = !long
	if c.single && !column.HasScale {
		c.number = connect.Float32
	}
	c.exact = c.single || column.HasScale
	c.Schema = debezium.PlainSchema(c.number)
}

func (c *Codec) decimalKind(column *schema.Column, wire Wire, modes Modes) {
	c.op, c.precision, c.scale = opDecimal, 10, 0
	if column.HasLength {
		c.precision = column.Length
	}
	if column.HasScale {
		c.scale = column.Scale
	}
	shown := c.scale
	precision := c.precision
	if wire.Type == typeNewDecimal { // what the rows have decides how they are read
		c.precision, c.scale = int(wire.Meta>>8), int(wire.Meta&0xFF)
		if !column.HasLength {
			precision, shown = c.precision, c.scale
		}
		shown = max(shown, c.scale)
	}
	switch modes.Decimal {
	case "double":
		c.Schema = debezium.PlainSchema(connect.Float64)
	case "string":
		c.Schema = debezium.PlainSchema(connect.String)
	default:
		c.Schema = debezium.DecimalSchema(shown, precision)
	}
}

func (c *Codec) bitKind(column *schema.Column) {
	c.op = opBits
	if !column.HasLength || column.Length <= 1 {
		c.Schema = debezium.PlainSchema(connect.Bool)
		return
	}
	c.Schema = debezium.NamedSchema(connect.Bytes, "io.debezium.data.Bits", connect.Param{Name: "length", Value: strconv.Itoa(column.Length)})
}

func (c *Codec) labelKind(column *schema.Column) {
	c.op, c.labels = opEnum, column.EnumValues
	name := "io.debezium.data.Enum"
	if column.Kind == schema.Set {
		c.op, name = opSet, "io.debezium.data.EnumSet"
	}
	escaped := make([]string, len(c.labels))
	for i, label := range c.labels {
		escaped[i] = strings.ReplaceAll(label, ",", `\,`)
	}
	c.Schema = debezium.NamedSchema(connect.String, name, connect.Param{Name: "allowed", Value: strings.Join(escaped, ",")})
}

// jsonKind: MariaDB's JSON is another name of LONGTEXT, which its SHOW CREATE TABLE tells.
func (c *Codec) jsonKind(wire Wire) {
	if wire.Type != 0 && wire.Type != typeJSON {
		c.op, c.charset, c.Schema = opText, charsetOf("utf8mb4"), debezium.PlainSchema(connect.String)
		return
	}
	c.op, c.Schema = opJSON, debezium.NamedSchema(connect.String, "io.debezium.data.Json")
}

func (c *Codec) binaryKind(k schema.Kind, wire Wire, modes Modes) {
	c.op, c.binary = opBinary, modes.Binary
	if c.binary == "" {
		c.binary = debezium.BinaryBytes
	}
	if (k == schema.Binary || k == schema.Char) && wire.Type == typeString {
		c.pad = wire.stringLength()
	}
	c.Schema = debezium.BinarySchema(c.binary)
}

// temporalKind: the number of fraction digits is the type's length.
func (c *Codec) temporalKind(column *schema.Column, wire Wire, modes Modes) {
	c.adjust, c.digits, c.unit = modes.TimeAdjuster, 0, 1
	c.old = wire.Type == typeTime || wire.Type == typeDateTime || wire.Type == typeTimestamp
	if column.HasLength {
		c.digits = column.Length
	}
	named := func(k connect.Kind, name string) {
		c.number = k
		if !strings.Contains(name, ".") {
			name = "io.debezium.time." + name
		}
		c.Schema = debezium.NamedSchema(k, name)
	}
	c.shownDigits = -1
	switch column.Kind {
	case schema.Date:
		c.op = opDate
		switch modes.Time {
		case "connect":
			named(connect.Int32, connect.DateName)
		case "isostring":
			named(connect.String, "IsoDate")
		default:
			named(connect.Int32, "Date")
		}
	case schema.Time:
		c.op = opTime
		switch modes.Time {
		case "connect":
			c.unit = 1000
			named(connect.Int32, connect.TimeName)
		case "isostring":
			named(connect.String, "IsoTime")
		case "nanoseconds":
			c.unit = -1000
			named(connect.Int64, "NanoTime")
		default:
			named(connect.Int64, "MicroTime")
		}
	case schema.Timestamp:
		c.op, c.shownDigits = opTimestamp, c.digits
		named(connect.String, "ZonedTimestamp")
	default:
		c.op = opDateTime
		c.dateTimeKind(modes, named)
	}
}

func (c *Codec) dateTimeKind(modes Modes, named func(connect.Kind, string)) {
	switch mode := modes.Time; {
	case mode == "connect":
		c.unit = 1000
		named(connect.Int64, connect.TimestampName)
	case mode == "isostring":
		named(connect.String, "IsoTimestamp")
	case mode == "nanoseconds":
		c.unit = -1000
		named(connect.Int64, "NanoTimestamp")
	case mode == "microseconds" || c.digits > 3:
		named(connect.Int64, "MicroTimestamp")
	default:
		c.unit = 1000
		named(connect.Int64, "Timestamp")
	}
}

func geometrySchema() *connect.Schema {
	s := debezium.NamedSchema(connect.Struct, "io.debezium.data.geometry.Geometry")
	s.Doc = "Geometry"
	s.Fields = []connect.StructField{{Name: "wkb", Schema: debezium.PlainSchema(connect.Bytes)}, {Name: "srid", Schema: debezium.PlainSchema(connect.Int32).AsOptional()}}
	return s
}
