package transform

import (
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
)

// isEventMap reports whether a map without a schema is a change event: op, source and one of before and after.
func isEventMap(v connect.Value) bool {
	op, _ := v.Lookup("op")
	source, _ := v.Lookup("source")
	_, hasBefore := v.Lookup("before")
	_, hasAfter := v.Lookup("after")
	return op.Kind() == connect.String && source.Kind() == connect.Map && (hasBefore || hasAfter)
}

// applyMap is applyStruct for an event without a schema.
func (u *unwrap) applyMap(r *connect.Record, v connect.Value) (bool, error) {
	for _, f := range u.addHeaders {
		if x, ok := lookupEventField(v, f); ok {
			addHeader(r, f.as, connect.DataOf(nil, x))
		}
	}
	row, _ := v.Lookup("after")
	deleted := "false"
	if row.IsNull() {
		row, _ = v.Lookup("before")
		deleted = "true"
		switch {
		case row.Kind() != connect.Map, u.mode == modeDrop:
			return false, nil
		case !u.rewrites():
			u.routeMap(r, row)
			r.Value.Set(nil, connect.Value{})
			return true, u.dropKeyOnly(r)
		}
	}
	if row.Kind() != connect.Map {
		return false, recordErrorf("after is a %s", row.Kind())
	}
	u.routeMap(r, row)
	pairs := copied(row, 2+2*len(u.addFields))
	if u.rewrites() {
		pairs = with(pairs, deletedField, connect.StringValue(deleted))
	}
	for _, f := range u.addFields {
		if x, ok := lookupEventField(v, f); ok {
			pairs = with(pairs, f.as, x)
		}
	}
	r.Value.Set(nil, connect.MapValue(pairs))
	return true, u.dropFields(r)
}

func (u *unwrap) routeMap(r *connect.Record, row connect.Value) {
	if u.routeBy != "" {
		v, _ := row.Lookup(u.routeBy)
		route(r, v)
	}
}

func lookupEventField(v connect.Value, f eventField) (connect.Value, bool) {
	if f.parent != "" {
		parent, _ := v.Lookup(f.parent)
		if x, ok := parent.Lookup(f.name); ok {
			return x, true
		}
	}
	return v.Lookup(f.name)
}

// dropFields drops the fields that the header named by drop.fields.header.name lists from the value, and the key if told.
func (u *unwrap) dropFields(r *connect.Record) error {
	names, err := u.dropped(r)
	if err != nil || names == nil {
		return err
	}
	if u.dropFromKey {
		if err := u.drop(&r.Key, names); err != nil {
			return err
		}
	}
	return u.drop(&r.Value, names)
}

// dropKeyOnly is dropFields for a record without a value.
func (u *unwrap) dropKeyOnly(r *connect.Record) error {
	names, err := u.dropped(r)
	if err != nil || names == nil || !u.dropFromKey {
		return err
	}
	return u.drop(&r.Key, names)
}

// dropped gives the names in the header, nil for none.
func (u *unwrap) dropped(r *connect.Record) ([]string, error) {
	if u.dropHeader == "" {
		return nil, nil
	}
	for i := range r.Headers {
		if r.Headers[i].Key != u.dropHeader {
			continue
		}
		d := r.Headers[i].Value // a copy: the record's own stays as it came
		if err := d.Decode(); err != nil {
			return nil, err
		}
		if d.Value().IsNull() {
			return nil, nil
		}
		if d.Value().Kind() != connect.Array {
			return nil, recordErrorf("the header %s is no list", u.dropHeader)
		}
		var names []string
		for _, item := range d.Value().Items() {
			names = append(names, item.Str())
		}
		return names, nil
	}
	return nil, nil
}

func (u *unwrap) drop(d *connect.Data, names []string) error {
	if err := d.Decode(); err != nil || d.IsNull() {
		return err
	}
	id := strings.Join(names, "\x00")
	f := u.droppers[id]
	if f == nil {
		f = &fieldReplacer{replaceNull: true, keep: func(name string, s *connect.Schema) bool {
			return !slices.Contains(names, name) || u.dropKeep && s != nil && !s.Optional
		}}
		if u.droppers == nil || len(u.droppers) >= maxDroppers {
			u.droppers = map[string]*fieldReplacer{}
		}
		u.droppers[id] = f
	}
	if s := d.Schema(); s != nil && !slices.ContainsFunc(s.Fields, func(field connect.StructField) bool { return !f.keep(field.Name, field.Schema) }) {
		return nil // as it was, nulls and all
	}
	return f.apply(d)
}

// maxDroppers bounds the lists of names for which schemas are kept.
const maxDroppers = 64
