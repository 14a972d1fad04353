package transform

import (
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
)

func replaceFieldFields() []connect.Field {
	return []connect.Field{
		{Name: "exclude", Aliases: []string{"blacklist"}, Type: connect.TypeList, Importance: connect.Medium, Doc: "Fields to leave out; stronger than include."},
		{Name: "include", Aliases: []string{"whitelist"}, Type: connect.TypeList, Importance: connect.Medium, Doc: "The only fields to keep; empty for all."},
		{Name: "renames", Type: connect.TypeList, Importance: connect.Medium, Doc: "Fields to rename: old:new,…"},
		replaceNull(),
	}
}

// replaceField leaves out and renames fields.
func replaceField(s *connect.Settings, of side) (applyFunc, []string, error) {
	exclude, include := s.List("exclude"), s.List("include")
	renames := map[string]string{}
	for _, pair := range s.List("renames") {
		from, to, ok := strings.Cut(pair, ":")
		if !ok || from == "" || to == "" || strings.Contains(to, ":") {
			return nil, nil, badKey("renames", "Invalid rename mapping: %s", pair)
		}
		renames[from] = to
	}
	f := &fieldReplacer{
		replaceNull: s.Bool("replace.null.with.default"),
		keep: func(name string, _ *connect.Schema) bool {
			return !slices.Contains(exclude, name) && (len(include) == 0 || slices.Contains(include, name))
		},
		renames: renames,
	}
	return onData(of, func(_ *connect.Record, d *connect.Data) error {
		if d.IsNull() {
			return nil
		}
		return f.apply(d)
	}), nil, nil
}

// fieldReplacer keeps some fields of structs and maps, under new names.
type fieldReplacer struct {
	keep        func(name string, s *connect.Schema) bool // s is nil without a schema
	renames     map[string]string
	replaceNull bool
	plans       derived[*replacePlan]
}

// replacePlan is a changed schema with the indices in the old one of its fields.
type replacePlan struct {
	schema *connect.Schema
	from   []int
}

func (f *fieldReplacer) renamed(name string) string {
	if to, ok := f.renames[name]; ok {
		return to
	}
	return name
}

func (f *fieldReplacer) apply(d *connect.Data) error {
	if err := requireStruct(d, "field replacement"); err != nil {
		return err
	}
	items := d.Value().Items()
	if d.Schema() == nil {
		pairs := make([]connect.Value, 0, len(items))
		for i := 0; i+1 < len(items); i += 2 {
			if name := items[i].Str(); f.keep(name, nil) {
				pairs = with(pairs, f.renamed(name), items[i+1])
			}
		}
		d.Set(nil, connect.MapValue(pairs))
		return nil
	}
	p, err := f.plans.of(d.Schema(), f.plan)
	if err != nil {
		return err
	}
	values := make([]connect.Value, len(p.from))
	for i, from := range p.from {
		values[i] = orDefault(p.schema.Fields[i].Schema, items[from], f.replaceNull)
	}
	d.Set(p.schema, connect.StructValue(values))
	return nil
}

func (f *fieldReplacer) plan(s *connect.Schema) (*replacePlan, error) {
	p := &replacePlan{}
	var fields []connect.StructField
	seen := map[string]bool{}
	for i, field := range s.Fields {
		if !f.keep(field.Name, field.Schema) {
			continue
		}
		name := f.renamed(field.Name)
		if seen[name] {
			return nil, recordErrorf("two fields would be named %s", name)
		}
		seen[name] = true
		fields = append(fields, connect.StructField{Name: name, Schema: field.Schema})
		p.from = append(p.from, i)
	}
	p.schema = basics(s, fields)
	return p, nil
}
