package convert

import (
	"github.com/weirlog/weir/connect"
)

// parseSchema reads a schema in the JsonConverter's form; null gives nil.
func parseSchema(text string) (*connect.Schema, error) {
	var p jsonReader
	p.reset(text)
	v, err := p.schemaless()
	if err != nil {
		return nil, err
	}
	return schemaFrom(v)
}

// typeOf gives the kind that a schema's "type" names.
func typeOf(name string) connect.Kind {
	for k := connect.Bool; k <= connect.Struct; k++ {
		if k.String() == name {
			return k
		}
	}
	return connect.Null
}

func schemaFrom(v connect.Value) (*connect.Schema, error) {
	if v.IsNull() {
		return nil, nil
	}
	name, ok := v.Lookup("type")
	if !ok || name.Kind() != connect.String {
		return nil, dataErrorf(`a schema without "type"`)
	}
	s := &connect.Schema{Type: typeOf(name.Str())}
	var err error
	switch s.Type {
	case connect.Null:
		err = dataErrorf("unknown schema type %q", name.Str())
	case connect.Array:
		s.Elem, err = partFrom(v, "items")
	case connect.Map:
		if s.Key, err = partFrom(v, "keys"); err == nil {
			s.Elem, err = partFrom(v, "values")
		}
	case connect.Struct:
		s.Fields, err = fieldsFrom(v)
	}
	if err != nil {
		return nil, err
	}
	return s, detailsFrom(s, v)
}

func partFrom(v connect.Value, name string) (*connect.Schema, error) {
	part, _ := v.Lookup(name)
	s, err := schemaFrom(part)
	if err != nil {
		return nil, inField(name, err)
	}
	if s == nil {
		return nil, dataErrorf("a schema without %q", name)
	}
	return s, nil
}

func fieldsFrom(v connect.Value) ([]connect.StructField, error) {
	list, _ := v.Lookup("fields")
	if list.Kind() != connect.Array {
		return nil, dataErrorf(`a struct's schema without an array "fields"`)
	}
	fields := make([]connect.StructField, 0, len(list.Items()))
	seen := map[string]bool{}
	for _, item := range list.Items() {
		name, _ := item.Lookup("field")
		if name.Kind() != connect.String {
			return nil, dataErrorf(`a struct's field without its name in "field"`)
		}
		if seen[name.Str()] {
			return nil, dataErrorf("two fields named %q", name.Str())
		}
		seen[name.Str()] = true
		s, err := schemaFrom(item)
		if err != nil {
			return nil, inField(name.Str(), err)
		}
		fields = append(fields, connect.StructField{Name: name.Str(), Schema: s})
	}
	return fields, nil
}

// detailsFrom reads what all types have: optional, name, version, doc, parameters and default.
func detailsFrom(s *connect.Schema, v connect.Value) error {
	optional, _ := v.Lookup("optional")
	s.Optional = optional.Bool()
	name, _ := v.Lookup("name")
	s.Name = name.Str()
	if version, _ := v.Lookup("version"); version.Kind() == connect.Int64 {
		s.Version = int(int32(version.Int()))
	}
	doc, _ := v.Lookup("doc")
	s.Doc = doc.Str()
	if params, _ := v.Lookup("parameters"); params.Kind() == connect.Map {
		items := params.Items()
		for i := 0; i+1 < len(items); i += 2 {
			if items[i+1].Kind() != connect.String {
				return dataErrorf("a schema's parameters must be strings")
			}
			s.Params = append(s.Params, connect.Param{Name: items[i].Str(), Value: items[i+1].Str()})
		}
	}
	if def, ok := v.Lookup("default"); ok {
		return defaultFrom(s, def)
	}
	return nil
}

// defaultFrom reads a default under its own schema: it is written out and read again by the plan.
func defaultFrom(s *connect.Schema, def connect.Value) error {
	p, err := compile(s, false)
	if err != nil {
		return err
	}
	text, err := jsonWriter{}.schemaless(nil, def)
	if err != nil {
		return err
	}
	var r jsonReader
	r.reset(string(text))
	v, err := r.orDefault(p)
	if err != nil {
		return inField("default", err)
	}
	if !v.IsNull() {
		s.Default = &v
	}
	return nil
}
