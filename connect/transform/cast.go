package transform

import (
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

func castFields() []connect.Field {
	return []connect.Field{
		{Name: "spec", Type: connect.TypeList, Required: true, Importance: connect.High, Doc: "field:type,… or one type for the whole; types are int8, int16, int32, int64, float32, float64, boolean, string."},
		replaceNull(),
	}
}

// caster changes the types of fields, or of the whole.
type caster struct {
	fields      map[string]connect.Kind
	order       []string
	whole       connect.Kind // Null for none
	replaceNull bool
	schemas     derived[*connect.Schema]
}

func castKind(name string) (connect.Kind, bool) {
	switch name {
	case "float32":
		return connect.Float32, true
	case "float64":
		return connect.Float64, true
	}
	for _, k := range []connect.Kind{connect.Int8, connect.Int16, connect.Int32, connect.Int64, connect.Bool, connect.String} {
		if k.String() == name {
			return k, true
		}
	}
	return connect.Null, false
}

// cast changes types as Java casts numbers: to integers by cutting off, from floats at the bounds.
func cast(s *connect.Settings, of side) (applyFunc, []string, error) {
	c := &caster{fields: map[string]connect.Kind{}, replaceNull: s.Bool("replace.null.with.default")}
	for _, item := range s.List("spec") {
		name, typeName, hasField := strings.Cut(item, ":")
		if !hasField {
			typeName = name
		}
		k, ok := castKind(strings.ToLower(strings.TrimSpace(typeName)))
		if !ok || strings.Contains(typeName, ":") {
			return nil, nil, badKey("spec", "Invalid type found in casting spec: %s", item)
		}
		if !hasField {
			c.whole = k
			continue
		}
		name = strings.TrimSpace(name)
		c.fields[name], c.order = k, append(c.order, name)
	}
	switch {
	case c.whole == connect.Null && len(c.fields) == 0:
		return nil, nil, badKey("spec", "Must specify at least one field to cast.")
	case c.whole != connect.Null && len(c.fields) > 0:
		return nil, nil, badKey("spec", "Cast transformations that specify a type to cast the entire value to may ony specify a single cast in their spec")
	}
	return onData(of, c.apply), nil, nil
}

func (c *caster) apply(_ *connect.Record, d *connect.Data) error {
	if d.IsNull() {
		return nil
	}
	s := d.Schema()
	if c.whole == connect.Null {
		if err := requireStruct(d, "cast types"); err != nil {
			return err
		}
	}
	var out *connect.Schema
	var err error
	if s != nil {
		if out, err = c.schemas.of(s, c.schema); err != nil {
			return err
		}
	}
	if c.whole != connect.Null {
		v, err := castValue(s, d.Value(), c.whole)
		d.Set(out, v)
		return err
	}
	items := copied(d.Value(), 2*len(c.fields))
	if s == nil {
		for _, name := range c.order {
			old, _ := d.Value().Lookup(name)
			v, err := castValue(nil, old, c.fields[name])
			if err != nil {
				return err
			}
			items = with(items, name, v)
		}
		d.Set(nil, connect.MapValue(items))
		return nil
	}
	for i, f := range s.Fields {
		items[i] = orDefault(f.Schema, items[i], c.replaceNull)
		if k, ok := c.fields[f.Name]; ok {
			if items[i], err = castValue(f.Schema, items[i], k); err != nil {
				return err
			}
		}
	}
	d.Set(out, connect.StructValue(items))
	return nil
}

func (c *caster) schema(s *connect.Schema) (*connect.Schema, error) {
	if c.whole != connect.Null {
		out := &connect.Schema{Type: c.whole, Optional: s.Optional, Name: s.Name, Version: s.Version, Doc: s.Doc, Params: s.Params}
		return out, castDefault(out, s)
	}
	fields := append([]connect.StructField(nil), s.Fields...)
	for i := range fields {
		if k, ok := c.fields[fields[i].Name]; ok {
			old := fields[i].Schema
			fields[i].Schema = &connect.Schema{Type: k, Optional: old.Optional}
			if err := castDefault(fields[i].Schema, old); err != nil {
				return nil, err
			}
		}
	}
	out := basics(s, fields)
	out.Optional = s.Optional
	return out, nil
}

func castDefault(out, old *connect.Schema) error {
	if old.Default == nil {
		return nil
	}
	v, err := castValue(old, *old.Default, out.Type)
	out.Default = &v
	return err
}

func castValue(s *connect.Schema, v connect.Value, to connect.Kind) (connect.Value, error) {
	if v.IsNull() {
		return v, nil
	}
	if v.Kind() >= connect.Array {
		return v, recordErrorf("a %s can't be cast", v.Kind())
	}
	switch to {
	case connect.String:
		text, err := castString(s, v)
		return connect.StringValue(text), err
	case connect.Bool:
		if v.Kind() == connect.String {
			return connect.BoolValue(strings.EqualFold(v.Str(), "true")), nil
		}
		n, err := castInt(s, v, connect.Int64)
		return connect.BoolValue(n != 0), err
	case connect.Float32, connect.Float64:
		f, err := castFloat(s, v, to)
		if to == connect.Float32 {
			return connect.Float32Value(float32(f)), err
		}
		return connect.Float64Value(f), err
	}
	n, err := castInt(s, v, to)
	switch to {
	case connect.Int8:
		return connect.Int8Value(int8(n)), err
	case connect.Int16:
		return connect.Int16Value(int16(n)), err
	case connect.Int32:
		return connect.Int32Value(int32(n)), err
	}
	return connect.Int64Value(n), err
}

// castInt gives an integer whose low bits count: floats are first brought within int32 (int64 for int64), as Java does.
func castInt(s *connect.Schema, v connect.Value, to connect.Kind) (int64, error) {
	switch v.Kind() {
	case connect.Bool:
		if v.Bool() {
			return 1, nil
		}
		return 0, nil
	case connect.String:
		n, err := strconv.ParseInt(v.Str(), 10, 8<<(to-connect.Int8))
		if err != nil {
			return 0, recordErrorf("value (%s) was out of range for requested data type", v.Str())
		}
		return n, nil
	case connect.Float32, connect.Float64:
		low, high := float64(math.MinInt32), float64(math.MaxInt32)
		if to == connect.Int64 {
			low, high = math.MinInt64, math.MaxInt64
		}
		switch f := v.Float(); {
		case math.IsNaN(f):
			return 0, nil
		case f <= low:
			return int64(low), nil
		case f >= high && to == connect.Int64:
			return math.MaxInt64, nil
		case f >= high:
			return math.MaxInt32, nil
		default:
			return int64(f), nil
		}
	case connect.Bytes:
		text, err := decimalText(s, v)
		if err != nil {
			return 0, err
		}
		whole, _, _ := strings.Cut(text, ".")
		n, _ := new(big.Int).SetString(whole, 10)
		return int64(new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()), nil
	}
	return v.Int(), nil
}

func castFloat(s *connect.Schema, v connect.Value, to connect.Kind) (float64, error) {
	text := v.Str()
	switch v.Kind() {
	case connect.Bool:
		if v.Bool() {
			return 1, nil
		}
		return 0, nil
	case connect.Bytes:
		var err error
		if text, err = decimalText(s, v); err != nil {
			return 0, err
		}
	case connect.String:
	default:
		return v.Float(), nil
	}
	bits := 64
	if to == connect.Float32 {
		bits = 32
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(text), bits)
	if err != nil && !math.IsInf(f, 0) {
		return 0, recordErrorf("value (%s) was out of range for requested data type", text)
	}
	return f, nil
}

// decimalText gives a Decimal's text; other bytes are no number.
func decimalText(s *connect.Schema, v connect.Value) (string, error) {
	if s == nil || s.Name != connect.DecimalName {
		return "", recordErrorf("bytes can be cast to a string only")
	}
	scale, err := strconv.Atoi(s.Param("scale"))
	if err != nil || scale < 0 || scale > maxScale {
		return "", recordErrorf("the scale %q of a Decimal's schema is not supported", s.Param("scale"))
	}
	return v.Decimal(scale)
}

// maxScale bounds the texts that decimals are written out to.
const maxScale = 100_000

func castString(s *connect.Schema, v connect.Value) (string, error) {
	name := ""
	if s != nil {
		name = s.Name
	}
	switch v.Kind() {
	case connect.String:
		return v.Str(), nil
	case connect.Bytes:
		if name == connect.DecimalName {
			return decimalText(s, v)
		}
		return base64.StdEncoding.EncodeToString(v.Bytes()), nil
	case connect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case connect.Float32:
		return javaFloat(v.Float(), 32), nil
	case connect.Float64:
		return javaFloat(v.Float(), 64), nil
	}
	switch name {
	case connect.DateName:
		return dateText(v.Int() * millisPerDay), nil
	case connect.TimeName, connect.TimestampName:
		return dateText(v.Int()), nil
	}
	return strconv.FormatInt(v.Int(), 10), nil
}

const millisPerDay = 24 * 60 * 60 * 1000

// dateText writes a time in the layout that Kafka Connect chooses by its value.
func dateText(millis int64) string {
	t := time.UnixMilli(millis).UTC()
	switch {
	case millis < millisPerDay:
		return t.Format("15:04:05.000Z")
	case millis%millisPerDay == 0:
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

// javaFloat writes a float as Java's toString: "1.0", "1.0E7", "NaN", "Infinity".
func javaFloat(f float64, bits int) string {
	switch abs := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64)+"inity", "+")
	case abs == 0 || abs >= 1e-3 && abs < 1e7:
		text := strconv.FormatFloat(f, 'f', -1, bits)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	if !strings.Contains(mantissa, ".") {
		// Java gives two digits at least, the nearest two: 4.9E-324 where the shortest text is 5E-324.
		two := strconv.FormatFloat(f, 'e', 1, bits)
		if g, _ := strconv.ParseFloat(two, bits); g == f {
			mantissa, exp, _ = strings.Cut(two, "e")
		} else {
			mantissa += ".0"
		}
	}
	n, _ := strconv.Atoi(exp)
	return mantissa + "E" + strconv.Itoa(n)
}
