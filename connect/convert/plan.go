package convert

import (
	"strconv"

	"github.com/weirlog/weir/connect"
)

// logical is the meaning of a schema's name, where a converter cares.
type logical uint8

const (
	noLogical logical = iota
	decimalLogical
	dateLogical
	timeLogical
	timestampLogical
)

// maxSchemaDepth bounds nesting of schemas; a cycle of pointers ends here.
const maxSchemaDepth = 1000

// plan is a schema compiled for encoding and decoding JSON.
type plan struct {
	schema  *connect.Schema
	kind    connect.Kind
	logical logical
	scale   int
	def     *connect.Value // what stands in for null, nil for nothing
	fields  []fieldPlan
	index   map[string]int // of fields, when there are many
	key     *plan          // nil where the schema has none
	elem    *plan
	head    []byte // `{"schema":…,"payload":` with schemas.enable
}

// fieldPlan is one field of a struct; comma is `,"name":`.
type fieldPlan struct {
	name  string
	comma []byte
	plan  *plan
}

// manyFields is from where a struct's fields are found by a map.
const manyFields = 8

// compile makes the plan of a schema, whose nil gives nil. replaceNull says that defaults stand in for null.
func compile(s *connect.Schema, replaceNull bool) (*plan, error) {
	return compileAt(s, replaceNull, 0)
}

func compileAt(s *connect.Schema, replaceNull bool, depth int) (p *plan, err error) {
	if s == nil {
		return nil, nil
	}
	if depth > maxSchemaDepth {
		return nil, dataErrorf("the schema is nested deeper than %d", maxSchemaDepth)
	}
	p = &plan{schema: s, kind: s.Type, logical: logicalOf(s)}
	if replaceNull && s.Default != nil && !s.Default.IsNull() {
		p.def = s.Default
	}
	if p.logical == decimalLogical {
		if p.scale, err = strconv.Atoi(s.Param("scale")); err != nil || p.scale < -maxScale || p.scale > maxScale {
			return nil, dataErrorf("a Decimal's schema has no usable parameter scale: %q", s.Param("scale"))
		}
	}
	switch s.Type {
	case connect.Array, connect.Map:
		if p.key, err = compileAt(s.Key, replaceNull, depth+1); err != nil {
			return nil, err
		}
		if p.elem, err = compileAt(s.Elem, replaceNull, depth+1); err != nil {
			return nil, err
		}
	case connect.Struct:
		if err := p.compileFields(replaceNull, depth); err != nil {
			return nil, err
		}
	case connect.Null:
		return nil, dataErrorf("the schema has no type")
	}
	return p, nil
}

func (p *plan) compileFields(replaceNull bool, depth int) error {
	fields := p.schema.Fields
	p.fields = make([]fieldPlan, len(fields))
	for i, f := range fields {
		fp, err := compileAt(f.Schema, replaceNull, depth+1)
		if err == nil && fp == nil {
			err = dataErrorf("the field has no schema")
		}
		if err != nil {
			return inField(f.Name, err)
		}
		p.fields[i] = fieldPlan{name: f.Name, comma: append(appendQuoted([]byte{','}, f.Name), ':'), plan: fp}
	}
	if len(fields) > manyFields {
		p.index = make(map[string]int, len(fields))
		for i, f := range fields {
			p.index[f.Name] = i
		}
	}
	return nil
}

// maxScale bounds a Decimal's scale, so that a hostile schema can't ask for a text of gigabytes.
const maxScale = 100_000

// logicalOf tells the logical type of a schema whose base type fits it.
func logicalOf(s *connect.Schema) logical {
	switch {
	case s.Name == "":
	case s.Name == connect.DecimalName && s.Type == connect.Bytes:
		return decimalLogical
	case s.Name == connect.DateName && s.Type == connect.Int32:
		return dateLogical
	case s.Name == connect.TimeName && s.Type == connect.Int32:
		return timeLogical
	case s.Name == connect.TimestampName && s.Type == connect.Int64:
		return timestampLogical
	}
	return noLogical
}

// field finds a field by name; hint is where it is expected. It gives -1 for none.
func (p *plan) field(name string, hint int) int {
	if hint < len(p.fields) && p.fields[hint].name == name {
		return hint
	}
	if p.index != nil {
		if i, ok := p.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range p.fields {
		if p.fields[i].name == name {
			return i
		}
	}
	return -1
}

// orDefault gives what stands in for a null: the default, or null where the schema allows it.
func (p *plan) orDefault() (connect.Value, error) {
	if p.def != nil {
		return *p.def, nil
	}
	if p.schema.Optional {
		return connect.Value{}, nil
	}
	return connect.Value{}, dataErrorf("null for a required %s without a default", p.kind)
}
