package transform

import (
	"github.com/weirlog/weir/connect"
)

// maxFlattenDepth bounds how deep structs and maps are flattened.
const maxFlattenDepth = 1000

// flattener makes one struct or map of nested ones; names are joined by the delimiter.
type flattener struct {
	delimiter string
	schemas   derived[*connect.Schema]
}

func flatten(s *connect.Settings, of side) (applyFunc, []string, error) {
	f := &flattener{delimiter: s.String("delimiter")}
	return onData(of, f.apply), nil, nil
}

func (f *flattener) apply(_ *connect.Record, d *connect.Data) error {
	if d.IsNull() {
		return nil
	}
	if err := requireStruct(d, "flattening"); err != nil {
		return err
	}
	if d.Schema() == nil {
		pairs, err := f.pairs(nil, "", d.Value(), 0)
		d.Set(nil, connect.MapValue(pairs))
		return err
	}
	s, err := f.schemas.of(d.Schema(), f.schema)
	if err != nil {
		return err
	}
	values := f.values(make([]connect.Value, 0, len(s.Fields)), d.Schema(), d.Value())
	d.Set(s, connect.StructValue(values))
	return nil
}

func (f *flattener) name(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + f.delimiter + name
}

func (f *flattener) pairs(out []connect.Value, prefix string, v connect.Value, depth int) ([]connect.Value, error) {
	if depth > maxFlattenDepth {
		return nil, recordErrorf("nested deeper than %d", maxFlattenDepth)
	}
	items := v.Items()
	var err error
	for i := 0; i+1 < len(items); i += 2 {
		name := f.name(prefix, items[i].Str())
		if items[i+1].Kind() == connect.Map {
			if out, err = f.pairs(out, name, items[i+1], depth+1); err != nil {
				return nil, err
			}
			continue
		}
		out = with(out, name, items[i+1])
	}
	return out, nil
}

func (f *flattener) schema(s *connect.Schema) (*connect.Schema, error) {
	fields, err := f.fields(nil, "", s, s.Optional, s.Default, 0)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, field := range fields {
		if seen[field.Name] {
			return nil, recordErrorf("two fields would be named %s", field.Name)
		}
		seen[field.Name] = true
	}
	return basics(s, fields), nil
}

// fields lists the flat fields of a struct: optional where it or one above it is, with the default of one above where it
// has none of its own.
func (f *flattener) fields(out []connect.StructField, prefix string, s *connect.Schema, optional bool, above *connect.Value, depth int) ([]connect.StructField, error) {
	if depth > maxFlattenDepth {
		return nil, recordErrorf("nested deeper than %d", maxFlattenDepth)
	}
	var err error
	for i, field := range s.Fields {
		name := f.name(prefix, field.Name)
		opt, def := optional || field.Schema.Optional, field.Schema.Default
		if def == nil && above != nil && i < len(above.Items()) && !above.Items()[i].IsNull() {
			v := above.Items()[i]
			def = &v
		}
		switch field.Schema.Type {
		case connect.Map:
			return nil, recordErrorf("flattening does not support the map %s", name)
		case connect.Struct:
			if out, err = f.fields(out, name, field.Schema, opt, def, depth+1); err != nil {
				return nil, err
			}
			continue
		}
		c := *field.Schema
		c.Optional, c.Default = opt, def
		out = append(out, connect.StructField{Name: name, Schema: &c})
	}
	return out, nil
}

// values lists the values of a struct, or as many nulls where it is null.
func (f *flattener) values(out []connect.Value, s *connect.Schema, v connect.Value) []connect.Value {
	items := v.Items()
	for i, field := range s.Fields {
		item := connect.Value{}
		if i < len(items) {
			item = items[i]
		}
		if field.Schema.Type == connect.Struct {
			out = f.values(out, field.Schema, item)
			continue
		}
		if !v.IsNull() {
			item = orDefault(field.Schema, item, true)
		}
		out = append(out, item)
	}
	return out
}
