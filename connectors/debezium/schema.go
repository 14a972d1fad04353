package debezium

import (
	"strconv"

	"github.com/weirlog/weir/connect"
)

// PlainSchema gives a schema without a name, not optional.
func PlainSchema(k connect.Kind) *connect.Schema { return &connect.Schema{Type: k} }

// NamedSchema gives a schema of version 1, not optional.
func NamedSchema(k connect.Kind, name string, params ...connect.Param) *connect.Schema {
	return &connect.Schema{Type: k, Name: name, Version: 1, Params: params}
}

// DecimalSchema gives Connect's Decimal; a precision of 0 is not known.
func DecimalSchema(scale, precision int) *connect.Schema {
	s := NamedSchema(connect.Bytes, connect.DecimalName, connect.Param{Name: "scale", Value: strconv.Itoa(scale)})
	if precision > 0 {
		s.Params = append(s.Params, connect.Param{Name: "connect.decimal.precision", Value: strconv.Itoa(precision)})
	}
	return s
}

// PointSchema gives Debezium's point.
func PointSchema() *connect.Schema {
	s := NamedSchema(connect.Struct, "io.debezium.data.geometry.Point")
	s.Doc = "Geometry (POINT)"
	s.Fields = []connect.StructField{
		{Name: "x", Schema: PlainSchema(connect.Float64)}, {Name: "y", Schema: PlainSchema(connect.Float64)},
		{Name: "wkb", Schema: PlainSchema(connect.Bytes).AsOptional()}, {Name: "srid", Schema: PlainSchema(connect.Int32).AsOptional()},
	}
	return s
}

// ZeroValue is what stands for a required value that is not there.
func ZeroValue(s *connect.Schema) connect.Value {
	switch s.Type {
	case connect.Bool:
		return connect.BoolValue(false)
	case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
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
				fields[i] = ZeroValue(s.Fields[i].Schema)
			}
		}
		return connect.StructValue(fields)
	}
	return connect.StringValue("")
}
