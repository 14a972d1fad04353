package transform

import (
	"slices"
	"strconv"

	"github.com/weirlog/weir/connect"
)

func maskFieldFields() []connect.Field {
	return []connect.Field{
		{Name: "fields", Type: connect.TypeList, Required: true, Importance: connect.High, Doc: "Fields to mask."},
		{Name: "replacement", Type: connect.TypeString, NoDefault: true, Importance: connect.Low, Doc: "What stands in the place of numbers and texts, instead of 0 and the empty text."},
		replaceNull(),
	}
}

// masker hides the values of fields.
type masker struct {
	names       []string
	replacement string
	custom      bool
	replaceNull bool
}

// maskField hides fields. A tombstone passes, where the Java class fails the task.
func maskField(s *connect.Settings, of side) (applyFunc, []string, error) {
	m := &masker{names: s.List("fields"), replacement: s.String("replacement"), custom: s.Has("replacement"), replaceNull: s.Bool("replace.null.with.default")}
	switch {
	case len(m.names) == 0:
		return nil, nil, badKey("fields", "Missing required configuration %q which has no default value.", "fields")
	case m.custom && m.replacement == "":
		return nil, nil, badKey("replacement", "Invalid value for configuration replacement: String must be non-empty")
	}
	return onData(of, m.apply), nil, nil
}

func (m *masker) apply(_ *connect.Record, d *connect.Data) error {
	if d.IsNull() {
		return nil
	}
	if err := requireStruct(d, "mask fields"); err != nil {
		return err
	}
	items := copied(d.Value(), 0)
	if s := d.Schema(); s != nil {
		for i, f := range s.Fields {
			items[i] = orDefault(f.Schema, items[i], m.replaceNull)
			if slices.Contains(m.names, f.Name) {
				v, err := m.masked(f.Schema, items[i])
				if err != nil {
					return err
				}
				items[i] = v
			}
		}
		d.Set(s, connect.StructValue(items))
		return nil
	}
	for _, name := range m.names {
		old, _ := d.Value().Lookup(name)
		v, err := m.masked(nil, old)
		if err != nil {
			return err
		}
		items = with(items, name, v)
	}
	d.Set(nil, connect.MapValue(items))
	return nil
}

func (m *masker) masked(s *connect.Schema, v connect.Value) (connect.Value, error) {
	k := v.Kind()
	isDecimal := s != nil && s.Name == connect.DecimalName && k == connect.Bytes
	if !m.custom {
		switch k {
		case connect.Null:
			return v, nil
		case connect.Bool:
			return connect.BoolValue(false), nil
		case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
			return connect.IntValue(k, 0), nil
		case connect.Float32:
			return connect.Float32Value(0), nil
		case connect.Float64:
			return connect.Float64Value(0), nil
		case connect.String:
			return connect.StringValue(""), nil
		case connect.Array:
			return connect.ArrayValue(nil), nil
		case connect.Map:
			return connect.MapValue(nil), nil
		}
		if isDecimal {
			return connect.DecimalText("0"), nil
		}
		return v, recordErrorf("cannot mask a %s", k)
	}
	logical := s != nil && (s.Name == connect.DateName || s.Name == connect.TimeName || s.Name == connect.TimestampName)
	switch {
	case k == connect.Null:
		return v, nil
	case k == connect.String:
		return connect.StringValue(m.replacement), nil
	case logical, k != connect.Float32 && k != connect.Float64 && (k < connect.Int8 || k > connect.Int64) && !isDecimal:
		return v, recordErrorf("cannot mask a %s with a replacement", k)
	}
	f, err := strconv.ParseFloat(m.replacement, 64)
	if err != nil {
		return v, recordErrorf("the replacement %q is no number", m.replacement)
	}
	switch k {
	case connect.Float32:
		return connect.Float32Value(float32(f)), nil
	case connect.Float64:
		return connect.Float64Value(f), nil
	case connect.Bytes:
		return connect.DecimalText(m.replacement), nil
	}
	n, err := strconv.ParseInt(m.replacement, 10, 8<<(k-connect.Int8))
	if err != nil {
		return v, recordErrorf("the replacement %q is no %s", m.replacement, k)
	}
	return connect.IntValue(k, n), nil
}
