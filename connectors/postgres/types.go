package postgres

import (
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// codecKind says how a column's text becomes a value.
type codecKind uint8

const (
	codecDrop codecKind = iota // the type has no mapping: the column is left out
	codecBool
	codecNumber // integers: the text is kept
	codecFloat
	codecDecimal    // text kept, under a schema with a scale
	codecVarDecimal // VariableScaleDecimal
	codecNumericFloat
	codecNumericText
	codecText
	codecBytes
	codecBytesText
	codecDate
	codecDateText
	codecTime
	codecTimeText
	codecTimeTZ
	codecTimestamp
	codecTimestampText
	codecTimestampTZ
	codecInterval
	codecIntervalText
	codecBit
	codecBits
	codecMoney
	codecHstoreText
	codecHstoreMap
	codecPoint
	codecArray
)

// codec decodes one type's text form under one configuration.
type codec struct {
	kind   codecKind
	number connect.Kind // of codecNumber, codecFloat, codecTime
	unit   int64        // of times: microseconds per unit; negative: units per microsecond
	digits int          // of fractions of a second, -1 as needed; scale of money; length of bits
	mode   string       // binary mode; decimal mode of money
	elem   *codec       // of an array
	schema *connect.Schema
}

// typeInfo is what the catalog says of a type that is not built in.
type typeInfo struct {
	oid        uint32
	name       string
	kind       string // pg_type.typtype: b, c, d, e, r, m, p
	elem       uint32 // element of an array type
	array      bool
	base       uint32 // of a domain
	baseTypmod int32
	labels     []string // of an enum, in order
}

// Object ids of built-in types.
const (
	oidBool, oidBytea, oidChar, oidName, oidInt8, oidInt2, oidInt4 = 16, 17, 18, 19, 20, 21, 23
	oidText, oidOID, oidJSON, oidXML, oidPoint                     = 25, 26, 114, 142, 600
	oidCIDR, oidFloat4, oidFloat8, oidMacaddr8, oidMoney           = 650, 700, 701, 774, 790
	oidMacaddr, oidInet, oidBpchar, oidVarchar, oidDate, oidTime   = 829, 869, 1042, 1043, 1082, 1083
	oidTimestamp, oidTimestampTZ, oidInterval, oidTimeTZ, oidBit   = 1114, 1184, 1186, 1266, 1560
	oidVarbit, oidNumeric, oidUUID, oidTsvector, oidJSONB          = 1562, 1700, 2950, 3614, 3802
	oidInt4range, oidNumrange, oidTsrange, oidTstzrange            = 3904, 3906, 3908, 3910
	oidDaterange, oidInt8range                                     = 3912, 3926
)

// arrayElement gives the element type of those built-in array types that are mapped.
func arrayElement(oid uint32) (uint32, bool) {
	switch oid {
	case 1000:
		return oidBool, true
	case 1001:
		return oidBytea, true
	case 1002:
		return oidChar, true
	case 1005:
		return oidInt2, true
	case 1007:
		return oidInt4, true
	case 1009:
		return oidText, true
	case 1014:
		return oidBpchar, true
	case 1015:
		return oidVarchar, true
	case 1016:
		return oidInt8, true
	case 1021:
		return oidFloat4, true
	case 1022:
		return oidFloat8, true
	case 1028:
		return oidOID, true
	case 1040:
		return oidMacaddr, true
	case 1041:
		return oidInet, true
	case 651:
		return oidCIDR, true
	case 775:
		return oidMacaddr8, true
	case 1115:
		return oidTimestamp, true
	case 1182:
		return oidDate, true
	case 1183:
		return oidTime, true
	case 1185:
		return oidTimestampTZ, true
	case 1231:
		return oidNumeric, true
	case 1270:
		return oidTimeTZ, true
	case 199:
		return oidJSON, true
	case 2951:
		return oidUUID, true
	case 3807:
		return oidJSONB, true
	case 3905, 3907, 3909, 3911, 3913, 3927:
		return oidText, true // ranges: the text of each
	}
	return 0, false
}

const firstUserOID = 16384

// typeMapper maps column types to codecs and schemas.
type typeMapper struct {
	modes typeModes
	types map[uint32]*typeInfo
}

// codec gives the codec of a type, with a schema that is not optional. Its kind is codecDrop for a type that has no mapping.
func (m *typeMapper) codec(oid uint32, typmod int32) codec {
	for range 32 { // domains of domains
		info := m.types[oid]
		if info == nil || info.kind != "d" {
			break
		}
		if typmod < 0 {
			typmod = info.baseTypmod
		}
		oid = info.base
	}
	if elem, ok := arrayElement(oid); ok {
		return m.arrayOf(elem, typmod)
	}
	if c := m.builtin(oid, typmod); c.kind != codecDrop {
		return c
	}
	info := m.types[oid]
	if info == nil {
		return codec{}
	}
	return m.userType(info, typmod)
}

func (m *typeMapper) userType(info *typeInfo, typmod int32) codec {
	switch {
	case info.array && info.elem != 0:
		if inner := m.types[info.elem]; inner != nil && inner.kind != "e" && inner.kind != "b" {
			return codec{} // domains, composites and ranges of users
		}
		return m.arrayOf(info.elem, typmod)
	case info.kind == "e":
		return codec{kind: codecText, schema: debezium.NamedSchema(connect.String, "io.debezium.data.Enum", connect.Param{Name: "allowed", Value: strings.Join(info.labels, ",")})}
	}
	switch info.name {
	case "citext", "isbn":
		return codec{kind: codecText, schema: debezium.PlainSchema(connect.String)}
	case "ltree":
		return codec{kind: codecText, schema: debezium.NamedSchema(connect.String, "io.debezium.data.Ltree")}
	case "hstore":
		if m.modes.hstore == "map" {
			return codec{kind: codecHstoreMap, schema: &connect.Schema{Type: connect.Map, Key: debezium.PlainSchema(connect.String), Elem: &connect.Schema{Type: connect.String, Optional: true}}}
		}
		return codec{kind: codecHstoreText, schema: debezium.NamedSchema(connect.String, "io.debezium.data.Json")}
	}
	return codec{}
}

func (m *typeMapper) arrayOf(elem uint32, typmod int32) codec {
	switch elem {
	case oidMoney, oidName, oidInterval, oidBit, oidVarbit, oidXML, oidPoint:
		return codec{}
	}
	inner := m.codec(elem, typmod)
	if inner.kind == codecDrop || inner.kind == codecArray {
		return codec{}
	}
	schema := &connect.Schema{Type: connect.Array, Elem: inner.schema.AsOptional()}
	return codec{kind: codecArray, elem: &inner, schema: schema}
}

func (m *typeMapper) builtin(oid uint32, typmod int32) codec {
	number := func(k connect.Kind) codec {
		return codec{kind: codecNumber, number: k, schema: debezium.PlainSchema(k)}
	}
	text := func() codec { return codec{kind: codecText, schema: debezium.PlainSchema(connect.String)} }
	named := func(name string) codec {
		return codec{kind: codecText, schema: debezium.NamedSchema(connect.String, "io.debezium.data."+name)}
	}
	switch oid {
	case oidBool:
		return codec{kind: codecBool, schema: debezium.PlainSchema(connect.Bool)}
	case oidInt2:
		return number(connect.Int16)
	case oidInt4:
		return number(connect.Int32)
	case oidInt8, oidOID:
		return number(connect.Int64)
	case oidFloat4:
		return codec{kind: codecFloat, number: connect.Float32, schema: debezium.PlainSchema(connect.Float32)}
	case oidFloat8:
		return codec{kind: codecFloat, number: connect.Float64, schema: debezium.PlainSchema(connect.Float64)}
	case oidNumeric:
		return m.numeric(typmod)
	case oidMoney:
		return m.money()
	case oidText, oidVarchar, oidBpchar, oidChar, oidName, oidInet, oidCIDR, oidMacaddr, oidMacaddr8,
		oidInt4range, oidInt8range, oidNumrange, oidTsrange, oidTstzrange, oidDaterange:
		return text()
	case oidJSON, oidJSONB:
		return named("Json")
	case oidXML:
		return named("Xml")
	case oidUUID:
		return named("Uuid")
	case oidTsvector:
		return named("Tsvector")
	case oidBytea:
		return m.bytea()
	case oidBit, oidVarbit:
		return bits(typmod)
	case oidPoint:
		return codec{kind: codecPoint, schema: debezium.PointSchema()}
	}
	return m.temporal(oid, typmod)
}

func (m *typeMapper) bytea() codec {
	if m.modes.binary == "bytes" {
		return codec{kind: codecBytes, schema: debezium.PlainSchema(connect.Bytes)}
	}
	return codec{kind: codecBytesText, mode: m.modes.binary, schema: debezium.PlainSchema(connect.String)}
}

func bits(typmod int32) codec {
	if typmod == 1 {
		return codec{kind: codecBit, schema: debezium.PlainSchema(connect.Bool)}
	}
	length := int64(typmod)
	if length < 0 {
		length = 2147483647
	}
	return codec{kind: codecBits, schema: debezium.NamedSchema(connect.Bytes, "io.debezium.data.Bits", connect.Param{Name: "length", Value: strconv.FormatInt(length, 10)})}
}

func (m *typeMapper) numeric(typmod int32) codec {
	switch m.modes.decimal {
	case "double":
		return codec{kind: codecNumericFloat, schema: debezium.PlainSchema(connect.Float64)}
	case "string":
		return codec{kind: codecNumericText, schema: debezium.PlainSchema(connect.String)}
	}
	if typmod < 4 {
		schema := debezium.NamedSchema(connect.Struct, "io.debezium.data.VariableScaleDecimal")
		schema.Doc = "Variable scaled decimal"
		schema.Fields = []connect.StructField{{Name: "scale", Schema: debezium.PlainSchema(connect.Int32)}, {Name: "value", Schema: debezium.PlainSchema(connect.Bytes)}}
		return codec{kind: codecVarDecimal, schema: schema}
	}
	precision := int(uint32(typmod-4) >> 16)
	scale := int((typmod-4)&0x7ff^0x400) - 0x400 // 11 bits, signed since PostgreSQL 15
	return codec{kind: codecDecimal, schema: debezium.DecimalSchema(max(scale, 0), precision)}
}

func (m *typeMapper) money() codec {
	c := codec{kind: codecMoney, digits: m.modes.moneyScale, mode: m.modes.decimal}
	switch m.modes.decimal {
	case "double":
		c.schema = debezium.PlainSchema(connect.Float64)
	case "string":
		c.schema = debezium.PlainSchema(connect.String)
	default:
		c.schema = debezium.DecimalSchema(m.modes.moneyScale, 0)
	}
	return c
}

// temporal maps dates and times. A time's or timestamp's typmod is its number of fraction digits, -1 for six.
func (m *typeMapper) temporal(oid uint32, typmod int32) codec {
	mode := m.modes.time
	milli := typmod >= 0 && typmod <= 3
	switch oid {
	case oidDate:
		switch mode {
		case "connect":
			return codec{kind: codecDate, schema: debezium.NamedSchema(connect.Int32, connect.DateName)}
		case "isostring":
			return codec{kind: codecDateText, schema: debezium.NamedSchema(connect.String, "io.debezium.time.IsoDate")}
		}
		return codec{kind: codecDate, schema: debezium.NamedSchema(connect.Int32, "io.debezium.time.Date")}
	case oidTime:
		return timeCodec(mode, milli)
	case oidTimestamp:
		return timestampCodec(mode, milli)
	case oidTimeTZ:
		return codec{kind: codecTimeTZ, schema: debezium.NamedSchema(connect.String, "io.debezium.time.ZonedTime")}
	case oidTimestampTZ:
		digits := int(typmod)
		if digits < 0 {
			digits = 6
		}
		return codec{kind: codecTimestampTZ, digits: digits, schema: debezium.NamedSchema(connect.String, "io.debezium.time.ZonedTimestamp")}
	case oidInterval:
		if m.modes.interval == "string" {
			return codec{kind: codecIntervalText, schema: debezium.NamedSchema(connect.String, "io.debezium.time.Interval")}
		}
		return codec{kind: codecInterval, schema: debezium.NamedSchema(connect.Int64, "io.debezium.time.MicroDuration")}
	}
	return codec{}
}

func timeCodec(mode string, milli bool) codec {
	c := codec{kind: codecTime, number: connect.Int64, unit: 1}
	switch {
	case mode == "connect":
		c.number, c.unit, c.schema = connect.Int32, 1000, debezium.NamedSchema(connect.Int32, connect.TimeName)
	case mode == "isostring":
		return codec{kind: codecTimeText, schema: debezium.NamedSchema(connect.String, "io.debezium.time.IsoTime")}
	case mode == "nanoseconds":
		c.unit, c.schema = -1000, debezium.NamedSchema(connect.Int64, "io.debezium.time.NanoTime")
	case mode == "adaptive" && milli:
		c.number, c.unit, c.schema = connect.Int32, 1000, debezium.NamedSchema(connect.Int32, "io.debezium.time.Time")
	default:
		c.schema = debezium.NamedSchema(connect.Int64, "io.debezium.time.MicroTime")
	}
	return c
}

func timestampCodec(mode string, milli bool) codec {
	c := codec{kind: codecTimestamp, number: connect.Int64, unit: 1}
	switch {
	case mode == "connect":
		c.unit, c.schema = 1000, debezium.NamedSchema(connect.Int64, connect.TimestampName)
	case mode == "isostring":
		return codec{kind: codecTimestampText, digits: -1, schema: debezium.NamedSchema(connect.String, "io.debezium.time.IsoTimestamp")}
	case mode == "nanoseconds":
		c.unit, c.schema = -1000, debezium.NamedSchema(connect.Int64, "io.debezium.time.NanoTimestamp")
	case (mode == "adaptive" || mode == "adaptive_time_microseconds") && milli:
		c.unit, c.schema = 1000, debezium.NamedSchema(connect.Int64, "io.debezium.time.Timestamp")
	default:
		c.schema = debezium.NamedSchema(connect.Int64, "io.debezium.time.MicroTimestamp")
	}
	return c
}
