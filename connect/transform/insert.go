package transform

import (
	"strings"

	"github.com/weirlog/weir/connect"
)

func insertFieldFields() []connect.Field {
	name := func(key, doc string) connect.Field {
		return connect.Field{Name: key, Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Doc: doc + " A ! at the end makes the field required, a ? optional (as without)."}
	}
	static := connect.Field{Name: "static.value", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Doc: "The value of static.field."}
	return []connect.Field{
		name("topic.field", "The field to hold the topic."),
		name("partition.field", "The field to hold the partition."),
		name("offset.field", "The field to hold the offset; sinks only."),
		name("timestamp.field", "The field to hold the record's time."),
		name("static.field", "The field to hold static.value."),
		static, replaceNull(),
	}
}

// insertion is one field that insertField adds: of gives its value, in the form for schemas and the one without.
type insertion struct {
	name   string
	schema *connect.Schema
	of     func(r *connect.Record) (connect.Value, error)
}

// insertField adds fields that hold a record's origin or a fixed text.
func insertField(s *connect.Settings, of side) (applyFunc, []string, error) {
	static := s.String("static.value")
	if s.Has("static.field") && !s.Has("static.value") {
		return nil, nil, badKey("static.value", "No value specified for static field: %s", s.String("static.field"))
	}
	var ins []insertion
	for _, c := range []struct {
		key    string
		schema connect.Schema
		of     func(r *connect.Record) (connect.Value, error)
	}{
		{"topic.field", connect.Schema{Type: connect.String}, func(r *connect.Record) (connect.Value, error) { return connect.StringValue(r.Topic), nil }},
		{"partition.field", connect.Schema{Type: connect.Int32}, partitionOf},
		{"offset.field", connect.Schema{Type: connect.Int64}, offsetOf},
		{"timestamp.field", connect.Schema{Type: connect.Int64, Name: connect.TimestampName, Version: 1}, timestampOf},
		{"static.field", connect.Schema{Type: connect.String}, func(*connect.Record) (connect.Value, error) { return connect.StringValue(static), nil }},
	} {
		if !s.Has(c.key) {
			continue
		}
		name, required := strings.CutSuffix(s.String(c.key), "!")
		if !required {
			name = strings.TrimSuffix(name, "?")
		}
		schema := c.schema
		schema.Optional = !required
		ins = append(ins, insertion{name, &schema, c.of})
	}
	if len(ins) == 0 {
		return nil, nil, badKey("static.field", "No field insertion configured")
	}
	f := &fieldInserter{ins: ins, replaceNull: s.Bool("replace.null.with.default")}
	return onData(of, f.apply), nil, nil
}

func partitionOf(r *connect.Record) (connect.Value, error) {
	if r.Partition == connect.AnyPartition {
		return connect.Value{}, nil
	}
	return connect.Int32Value(r.Partition), nil
}

func offsetOf(r *connect.Record) (connect.Value, error) {
	if r.Origin.Topic == "" {
		return connect.Value{}, recordErrorf("only records of a sink have an offset")
	}
	return connect.Int64Value(r.Origin.Offset), nil
}

func timestampOf(r *connect.Record) (connect.Value, error) {
	if r.Timestamp == connect.NoTimestamp {
		return connect.Value{}, nil
	}
	return connect.Int64Value(r.Timestamp), nil
}

type fieldInserter struct {
	ins         []insertion
	replaceNull bool
	schemas     derived[*connect.Schema]
}

func (f *fieldInserter) apply(r *connect.Record, d *connect.Data) error {
	if d.IsNull() {
		return nil
	}
	if err := requireStruct(d, "field insertion"); err != nil {
		return err
	}
	if d.Schema() == nil {
		pairs := copied(d.Value(), 2*len(f.ins))
		for _, in := range f.ins {
			v, err := in.of(r)
			if err != nil {
				return err
			}
			if !v.IsNull() {
				pairs = with(pairs, in.name, v)
			}
		}
		d.Set(nil, connect.MapValue(pairs))
		return nil
	}
	s, err := f.schemas.of(d.Schema(), f.schema)
	if err != nil {
		return err
	}
	values := copied(d.Value(), len(f.ins))
	for i := range values {
		values[i] = orDefault(s.Fields[i].Schema, values[i], f.replaceNull)
	}
	for _, in := range f.ins {
		v, err := in.of(r)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	d.Set(s, connect.StructValue(values))
	return nil
}

func (f *fieldInserter) schema(s *connect.Schema) (*connect.Schema, error) {
	fields := append([]connect.StructField(nil), s.Fields...)
	for _, in := range f.ins {
		for _, have := range fields {
			if have.Name == in.name {
				return nil, recordErrorf("the field %s is there already", in.name)
			}
		}
		fields = append(fields, connect.StructField{Name: in.name, Schema: in.schema})
	}
	return basics(s, fields), nil
}
