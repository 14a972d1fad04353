package transform

import (
	"strings"

	"github.com/weirlog/weir/connect"
)

func extractFieldFields() []connect.Field {
	return []connect.Field{
		{Name: "field", Type: connect.TypeString, Required: true, Importance: connect.Medium, Doc: "The field that becomes the whole."},
		{Name: "field.syntax.version", Type: connect.TypeString, Default: "V1", Valid: []string{"V1", "V2"}, Importance: connect.High, Doc: "V2 lets dots descend into nested fields; backticks quote a name that holds dots."},
		replaceNull(),
	}
}

// fieldPath takes a field's name apart as its syntax version says.
func fieldPath(text, version string) ([]string, error) {
	if !strings.EqualFold(version, "V2") {
		return []string{text}, nil
	}
	var path []string
	for text != "" {
		if text[0] == '`' {
			end := strings.Index(text[1:], "`.")
			switch {
			case end >= 0:
				path, text = append(path, text[1:1+end]), text[end+3:]
				continue
			case len(text) > 1 && text[len(text)-1] == '`':
				return append(path, text[1:len(text)-1]), nil
			}
			return nil, badKey("field", "the field path has a backtick without an end: %s", text)
		}
		name, rest, _ := strings.Cut(text, ".")
		path, text = append(path, name), rest
	}
	return path, nil
}

// extractField replaces a struct or map by one of its fields.
func extractField(s *connect.Settings, of side) (applyFunc, []string, error) {
	path, err := fieldPath(s.String("field"), s.String("field.syntax.version"))
	if err != nil {
		return nil, nil, err
	}
	replace := s.Bool("replace.null.with.default")
	return onData(of, func(_ *connect.Record, d *connect.Data) error {
		if !d.IsNull() {
			if err := requireStruct(d, "field extraction"); err != nil {
				return err
			}
		}
		schema, v := d.Schema(), d.Value()
		if schema == nil {
			for _, name := range path {
				v, _ = v.Lookup(name)
			}
			d.Set(nil, v)
			return nil
		}
		for _, name := range path {
			i := schema.Field(name)
			if i < 0 {
				return recordErrorf("unknown field: %s", strings.Join(path, "."))
			}
			if schema = schema.Fields[i].Schema; !v.IsNull() {
				v = orDefault(schema, v.Items()[i], replace)
			}
		}
		d.Set(schema, v)
		return nil
	}), nil, nil
}

// hoistField makes a struct or map of one field that holds the whole.
func hoistField(s *connect.Settings, of side) (applyFunc, []string, error) {
	name := s.String("field")
	var schemas derived[*connect.Schema]
	return onData(of, func(_ *connect.Record, d *connect.Data) error {
		if d.Schema() == nil {
			d.Set(nil, connect.MapValue([]connect.Value{connect.StringValue(name), d.Value()}))
			return nil
		}
		out, err := schemas.of(d.Schema(), func(in *connect.Schema) (*connect.Schema, error) {
			return &connect.Schema{Type: connect.Struct, Fields: []connect.StructField{{Name: name, Schema: in}}}, nil
		})
		d.Set(out, connect.StructValue([]connect.Value{d.Value()}))
		return err
	}), nil, nil
}

// valueToKey makes the key of fields of the value.
func valueToKey(s *connect.Settings) (applyFunc, []string, error) {
	names, replace := s.List("fields"), s.Bool("replace.null.with.default")
	if len(names) == 0 {
		return nil, nil, badKey("fields", "Missing required configuration %q which has no default value.", "fields")
	}
	var plans derived[*replacePlan]
	plan := func(s *connect.Schema) (*replacePlan, error) {
		p := &replacePlan{schema: &connect.Schema{Type: connect.Struct}}
		for _, name := range names {
			i := s.Field(name)
			if i < 0 {
				return nil, recordErrorf("field does not exist: %s", name)
			}
			p.from = append(p.from, i)
			p.schema.Fields = append(p.schema.Fields, s.Fields[i])
		}
		return p, nil
	}
	return onData(valueSide, func(r *connect.Record, d *connect.Data) error {
		if err := requireStruct(d, "copying fields from value to key"); err != nil {
			return err
		}
		if d.Schema() == nil {
			var pairs []connect.Value
			for _, name := range names {
				v, _ := d.Value().Lookup(name)
				pairs = with(pairs, name, v)
			}
			r.Key.Set(nil, connect.MapValue(pairs))
			return nil
		}
		p, err := plans.of(d.Schema(), plan)
		if err != nil {
			return err
		}
		values := make([]connect.Value, len(p.from))
		for i, from := range p.from {
			values[i] = orDefault(p.schema.Fields[i].Schema, d.Value().Items()[from], replace)
		}
		r.Key.Set(p.schema, connect.StructValue(values))
		return nil
	}), nil, nil
}

// setSchemaMetadata names a schema.
func setSchemaMetadata(s *connect.Settings, of side) (applyFunc, []string, error) {
	if !s.Has("schema.name") && !s.Has("schema.version") {
		return nil, nil, badKey("schema.name", "Neither schema name nor version configured")
	}
	replace := s.Bool("replace.null.with.default")
	var schemas derived[*connect.Schema]
	return onData(of, func(_ *connect.Record, d *connect.Data) error {
		if d.Schema() == nil {
			if d.IsNull() {
				return nil
			}
			return recordErrorf("a schema is required for updating schema metadata")
		}
		out, err := schemas.of(d.Schema(), func(in *connect.Schema) (*connect.Schema, error) {
			c := *in
			if s.Has("schema.name") {
				c.Name = s.String("schema.name")
			}
			if s.Has("schema.version") {
				c.Version = int(s.Int("schema.version"))
			}
			return &c, nil
		})
		if err != nil {
			return err
		}
		v := d.Value()
		if v.Kind() == connect.Struct && len(v.Items()) == len(out.Fields) {
			items := copied(v, 0)
			for i := range items {
				items[i] = orDefault(out.Fields[i].Schema, items[i], replace)
			}
			v = connect.StructValue(items)
		}
		d.Set(out, v)
		return nil
	}), nil, nil
}
