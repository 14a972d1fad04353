package transform

import (
	"time"

	"github.com/weirlog/weir/connect"
)

func timestampConverterFields() []connect.Field {
	return []connect.Field{
		{Name: "field", Type: connect.TypeString, Importance: connect.High, Doc: "The field that holds the time, or empty for the whole."},
		{Name: "target.type", Type: connect.TypeString, Required: true, Valid: []string{"string", "unix", "Date", "Time", "Timestamp"}, Importance: connect.High, Doc: "What the time becomes."},
		{Name: "format", Type: connect.TypeString, Importance: connect.Medium, Doc: "The pattern of texts, as of Java's SimpleDateFormat, in UTC."},
		{Name: "unix.precision", Type: connect.TypeString, Default: "milliseconds", Valid: []string{"seconds", "milliseconds", "microseconds", "nanoseconds"}, Importance: connect.Low, Doc: "What unix times count."},
		replaceNull(),
	}
}

// timeForm is a way in which a time is held.
type timeForm string

const (
	stringForm    timeForm = "string"
	unixForm      timeForm = "unix"
	dateForm      timeForm = "Date"
	timeOfDayForm timeForm = "Time"
	timestampForm timeForm = "Timestamp"
)

// timeConverter changes how times are held.
type timeConverter struct {
	field       string
	target      timeForm
	pattern     *datePattern // nil for none
	unit        time.Duration
	replaceNull bool
	schemas     derived[*connect.Schema]
}

func timestampConverter(s *connect.Settings, of side) (applyFunc, []string, error) {
	c := &timeConverter{field: s.String("field"), target: timeForm(s.String("target.type")), replaceNull: s.Bool("replace.null.with.default")}
	switch s.String("unix.precision") {
	case "seconds":
		c.unit = time.Second
	case "microseconds":
		c.unit = time.Microsecond
	case "nanoseconds":
		c.unit = time.Nanosecond
	default:
		c.unit = time.Millisecond
	}
	if format := s.String("format"); format != "" {
		var err error
		if c.pattern, err = parseDatePattern(format); err != nil {
			return nil, nil, badKey("format", "%w", err)
		}
	} else if c.target == stringForm {
		return nil, nil, badKey("format", "TimestampConverter requires format option to be specified when using string timestamps")
	}
	return onData(of, c.apply), nil, nil
}

func (c *timeConverter) apply(_ *connect.Record, d *connect.Data) error {
	s := d.Schema()
	if c.field == "" {
		var out *connect.Schema
		var err error
		if s != nil {
			if out, err = c.schemas.of(s, func(in *connect.Schema) (*connect.Schema, error) { return c.schema(in.Optional), nil }); err != nil {
				return err
			}
		}
		v, err := c.convert(s, d.Value())
		d.Set(out, v)
		return err
	}
	if d.IsNull() && s == nil {
		return nil
	}
	if !d.IsNull() {
		if err := requireStruct(d, "converting timestamp formats"); err != nil {
			return err
		}
	}
	if s == nil {
		old, _ := d.Value().Lookup(c.field)
		v, err := c.convert(nil, old)
		if err != nil {
			return err
		}
		d.Set(nil, connect.MapValue(with(copied(d.Value(), 2), c.field, v)))
		return nil
	}
	out, err := c.schemas.of(s, c.structSchema)
	if err != nil {
		return err
	}
	if d.IsNull() {
		d.Set(out, connect.Value{})
		return nil
	}
	items := copied(d.Value(), 0)
	for i, f := range s.Fields {
		items[i] = orDefault(f.Schema, items[i], c.replaceNull)
		if f.Name == c.field {
			if items[i], err = c.convert(f.Schema, items[i]); err != nil {
				return err
			}
		}
	}
	d.Set(out, connect.StructValue(items))
	return nil
}

func (c *timeConverter) structSchema(s *connect.Schema) (*connect.Schema, error) {
	if s.Type != connect.Struct {
		return nil, recordErrorf("only a struct is supported for converting timestamp formats, found %s", s.Type)
	}
	fields := append([]connect.StructField(nil), s.Fields...)
	for i := range fields {
		if fields[i].Name == c.field {
			fields[i].Schema = c.schema(fields[i].Schema.Optional)
		}
	}
	out := basics(s, fields)
	out.Optional = s.Optional
	return out, nil
}

// schema is the target's.
func (c *timeConverter) schema(optional bool) *connect.Schema {
	switch c.target {
	case stringForm:
		return &connect.Schema{Type: connect.String, Optional: optional}
	case unixForm:
		return &connect.Schema{Type: connect.Int64, Optional: optional}
	case dateForm:
		return &connect.Schema{Type: connect.Int32, Optional: optional, Name: connect.DateName, Version: 1}
	case timeOfDayForm:
		return &connect.Schema{Type: connect.Int32, Optional: optional, Name: connect.TimeName, Version: 1}
	}
	return &connect.Schema{Type: connect.Int64, Optional: optional, Name: connect.TimestampName, Version: 1}
}

// formOf tells how a value holds its time.
func formOf(s *connect.Schema, v connect.Value) (timeForm, bool) {
	k := v.Kind()
	if s != nil {
		switch s.Name {
		case connect.DateName:
			return dateForm, k == connect.Int32
		case connect.TimeName:
			return timeOfDayForm, k == connect.Int32
		case connect.TimestampName:
			return timestampForm, k == connect.Int64
		}
	}
	switch k {
	case connect.String:
		return stringForm, true
	case connect.Int64:
		return unixForm, true
	}
	return "", false
}

func (c *timeConverter) convert(s *connect.Schema, v connect.Value) (connect.Value, error) {
	if v.IsNull() {
		return v, nil
	}
	form, ok := formOf(s, v)
	if !ok {
		return v, recordErrorf("a %s does not correspond to a known timestamp type format", v.Kind())
	}
	millis := v.Int()
	switch form {
	case stringForm:
		if c.pattern == nil {
			return v, recordErrorf("a text needs the key format to be read as a time")
		}
		t, err := c.pattern.parse(v.Str())
		if err != nil {
			return v, recordErrorf("%v", err)
		}
		millis = t.UnixMilli()
	case unixForm:
		if c.unit >= time.Millisecond {
			millis *= int64(c.unit / time.Millisecond)
		} else {
			millis /= int64(time.Millisecond / c.unit)
		}
	case dateForm:
		millis *= millisPerDay
	}
	return c.held(millis), nil
}

// held gives a time in the target's form.
func (c *timeConverter) held(millis int64) connect.Value {
	day := millis / millisPerDay
	if millis%millisPerDay < 0 {
		day--
	}
	switch c.target {
	case stringForm:
		return connect.StringValue(c.pattern.format(time.UnixMilli(millis).UTC()))
	case unixForm:
		if c.unit >= time.Millisecond {
			return connect.Int64Value(millis / int64(c.unit/time.Millisecond))
		}
		return connect.Int64Value(millis * int64(time.Millisecond/c.unit))
	case dateForm:
		return connect.Int32Value(int32(day))
	case timeOfDayForm:
		return connect.Int32Value(int32(millis - day*millisPerDay))
	}
	return connect.Int64Value(millis)
}
