package transform

import (
	"slices"
	"strconv"

	"github.com/weirlog/weir/connect"
)

// dropHeaders removes headers by name.
func dropHeaders(s *connect.Settings) (applyFunc, []string, error) {
	names := s.List("headers")
	return func(r *connect.Record) (bool, error) {
		drop := func(h connect.Header) bool { return slices.Contains(names, h.Key) }
		if slices.ContainsFunc(r.Headers, drop) {
			r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), drop)
		}
		return true, nil
	}, nil, nil
}

// insertHeader adds a header with a fixed value, whose type is inferred for booleans and numbers; anything else is a
// string, which the SimpleHeaderConverter writes as it stands.
func insertHeader(s *connect.Settings) (applyFunc, []string, error) {
	name, d := s.String("header"), literal(s.String("value.literal"))
	return func(r *connect.Record) (bool, error) {
		addHeader(r, name, d)
		return true, nil
	}, nil, nil
}

func literal(text string) connect.Data {
	of := func(v connect.Value) connect.Data { return connect.DataOf(&connect.Schema{Type: v.Kind()}, v) }
	switch text {
	case "null":
		return connect.Data{}
	case "true", "false":
		return of(connect.BoolValue(text == "true"))
	}
	for i, k := range []connect.Kind{connect.Int8, connect.Int16, connect.Int32, connect.Int64} {
		if n, err := strconv.ParseInt(text, 10, 8<<i); err == nil {
			return of(connect.IntValue(k, n))
		}
	}
	if c := text; c != "" && (c[0] == '-' || c[0] == '+' || c[0] >= '0' && c[0] <= '9') {
		if f, err := strconv.ParseFloat(text, 32); err == nil {
			return of(connect.Float32Value(float32(f)))
		}
	}
	return of(connect.StringValue(text))
}

func headerFromFields() []connect.Field {
	return []connect.Field{
		{Name: "fields", Type: connect.TypeList, Required: true, Importance: connect.High, Doc: "Fields whose values become headers."},
		{Name: "headers", Type: connect.TypeList, Required: true, Importance: connect.High, Doc: "The headers' names, in the order of fields."},
		{Name: "operation", Type: connect.TypeString, Required: true, Valid: []string{"move", "copy"}, Importance: connect.High, Doc: "move takes the fields away, copy leaves them."},
		replaceNull(),
	}
}

// headerFrom makes headers of fields.
func headerFrom(s *connect.Settings, of side) (applyFunc, []string, error) {
	fields, headers := s.List("fields"), s.List("headers")
	if len(fields) != len(headers) || len(fields) == 0 {
		return nil, nil, badKey("headers", "fields has %d names and headers has %d", len(fields), len(headers))
	}
	replace := s.Bool("replace.null.with.default")
	rest := &fieldReplacer{replaceNull: replace, keep: func(name string, _ *connect.Schema) bool { return !slices.Contains(fields, name) }}
	move := s.String("operation") == "move"
	return onData(of, func(r *connect.Record, d *connect.Data) error {
		if err := requireStruct(d, "header "+s.String("operation")); err != nil {
			return err
		}
		for i, name := range fields {
			var h connect.Data
			if d.Schema() == nil {
				v, _ := d.Value().Lookup(name)
				h = connect.DataOf(nil, v)
			} else {
				at := d.Schema().Field(name)
				if at < 0 {
					return recordErrorf("unknown field: %s", name)
				}
				fs := d.Schema().Fields[at].Schema
				h = connect.DataOf(fs, orDefault(fs, d.Value().Items()[at], replace))
			}
			addHeader(r, headers[i], h)
		}
		if move {
			return rest.apply(d)
		}
		return nil
	}), nil, nil
}
