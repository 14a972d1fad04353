package transform

import (
	"github.com/weirlog/weir/connect"
)

// side picks the key or the value of a record.
type side func(r *connect.Record) *connect.Data

func keySide(r *connect.Record) *connect.Data   { return &r.Key }
func valueSide(r *connect.Record) *connect.Data { return &r.Value }

// onData makes a transform of one side; f is given decoded data.
func onData(of side, f func(r *connect.Record, d *connect.Data) error) applyFunc {
	return func(r *connect.Record) (bool, error) {
		d := of(r)
		if err := d.Decode(); err != nil {
			return false, err
		}
		return true, f(r, d)
	}
}

// maxDerived bounds the schemas that one transform keeps.
const maxDerived = 1024

// derived keeps what was made of a schema, by its pointer. Beyond [maxDerived] it begins anew. The zero value is ready.
type derived[V any] struct {
	schema *connect.Schema
	last   V
	all    map[*connect.Schema]V
}

// of gives what make makes of s, made once.
func (d *derived[V]) of(s *connect.Schema, make func(*connect.Schema) (V, error)) (V, error) {
	if d.schema == s && s != nil {
		return d.last, nil
	}
	v, ok := d.all[s]
	if !ok {
		var err error
		if v, err = make(s); err != nil {
			return v, err
		}
		if d.all == nil || len(d.all) >= maxDerived {
			d.all = map[*connect.Schema]V{}
		}
		d.all[s] = v
	}
	d.schema, d.last = s, v
	return v, nil
}

// basics gives a struct's schema with the name, version, doc and parameters of s, required and without fields: what
// Kafka's transforms start a changed schema from.
func basics(s *connect.Schema, fields []connect.StructField) *connect.Schema {
	return &connect.Schema{Type: connect.Struct, Name: s.Name, Version: s.Version, Doc: s.Doc, Params: s.Params, Fields: fields}
}

// requireStruct checks that data with a schema is a struct, or without one a map.
func requireStruct(d *connect.Data, what string) error {
	s, v := d.Schema(), d.Value()
	switch {
	case s == nil && v.Kind() == connect.Map:
	case s != nil && s.Type == connect.Struct && v.Kind() == connect.Struct && len(v.Items()) == len(s.Fields):
	case s == nil:
		return recordErrorf("only a map is supported without a schema for %s, found %s", what, v.Kind())
	default:
		return recordErrorf("only a struct is supported for %s, found %s", what, v.Kind())
	}
	return nil
}

// orDefault gives a field's value with its default in the place of null, if replace says so.
func orDefault(s *connect.Schema, v connect.Value, replace bool) connect.Value {
	if replace && v.IsNull() && s.Default != nil {
		return *s.Default
	}
	return v
}

// with gives a map's pairs with one set: in its place, or at the end. pairs is the caller's own.
func with(pairs []connect.Value, name string, v connect.Value) []connect.Value {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Kind() == connect.String && pairs[i].Str() == name {
			pairs[i+1] = v
			return pairs
		}
	}
	return append(pairs, connect.StringValue(name), v)
}

// copied gives a list's items in a new slice with room for more.
func copied(v connect.Value, more int) []connect.Value {
	items := v.Items()
	return append(make([]connect.Value, 0, len(items)+more), items...)
}

// addHeader adds a header without writing to the list that the record came with.
func addHeader(r *connect.Record, name string, d connect.Data) {
	r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], connect.Header{Key: name, Value: d})
}

// replaceNull is the key that most transforms have.
func replaceNull() connect.Field {
	return connect.Field{Name: "replace.null.with.default", Type: connect.TypeBool, Default: "true", Importance: connect.Medium, Doc: "Put a field's default in the place of null."}
}
