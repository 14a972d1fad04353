package transform

import (
	"fmt"
	"strings"

	"github.com/weirlog/weir/connect"
)

// unwrap is Debezium's ExtractNewRecordState: of a change event it leaves the row after the change. Records that are no
// change events (heartbeats, schema changes) pass unchanged. It works on events with a schema, by its name's ending, and
// on maps that look like one, which the Java class passes unchanged.
type unwrap struct {
	mode        string // of delete.tombstone.handling.mode
	addFields   []eventField
	addHeaders  []eventField
	routeBy     string
	dropHeader  string
	dropFromKey bool
	dropKeep    bool // drop.fields.keep.schema.compatible: only optional fields are dropped
	replaceNull bool

	plans    derived[*unwrapPlan]
	droppers map[string]*fieldReplacer // by the names that a header listed
}

// The modes of delete.tombstone.handling.mode.
const (
	modeDrop             = "drop"
	modeTombstone        = "tombstone"
	modeRewrite          = "rewrite"
	modeRewriteTombstone = "rewrite-with-tombstone"
	modeDeleteTombstone  = "delete-to-tombstone"
)

const deletedField = "__deleted"

func unwrapFields() []connect.Field {
	str := func(name, def, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeString, Default: def, Importance: connect.Medium, Doc: doc}
	}
	flag := func(name, def, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeBool, Default: def, Importance: connect.Low, Doc: doc}
	}
	mode := str("delete.tombstone.handling.mode", modeTombstone, "What becomes of deletes and tombstones.")
	mode.Valid = []string{modeDrop, modeTombstone, modeRewrite, modeRewriteTombstone, modeDeleteTombstone}
	old := str("delete.handling.mode", "", "Older name of a part of delete.tombstone.handling.mode: none, drop or rewrite.")
	old.Valid, old.NoDefault = []string{"none", "drop", "rewrite"}, true
	oldDrop := flag("drop.tombstones", "", "Older name of a part of delete.tombstone.handling.mode.")
	oldDrop.NoDefault = true
	return []connect.Field{
		mode, old, oldDrop,
		str("route.by.field", "", "The field of the row whose value is the topic."),
		str("add.fields", "", "Fields of the event (op, ts_ms, source.lsn, table, name:newname) to add to the row."),
		str("add.fields.prefix", "__", "What the names of added fields begin with."),
		str("add.headers", "", "Fields of the event to add as headers."),
		str("add.headers.prefix", "__", "What the names of added headers begin with."),
		str("drop.fields.header.name", "", "The header that lists fields to drop."),
		flag("drop.fields.from.key", "false", "Drop these fields from the key too."),
		flag("drop.fields.keep.schema.compatible", "true", "Drop optional fields only."),
		replaceNull(),
	}
}

func newUnwrap(s *connect.Settings) (applyFunc, []string, error) {
	u := &unwrap{
		mode:        strings.ToLower(s.String("delete.tombstone.handling.mode")),
		routeBy:     s.String("route.by.field"),
		dropHeader:  strings.TrimSpace(s.String("drop.fields.header.name")),
		dropFromKey: s.Bool("drop.fields.from.key"),
		dropKeep:    s.Bool("drop.fields.keep.schema.compatible"),
		replaceNull: s.Bool("replace.null.with.default"),
	}
	var warnings []string
	if s.Has("delete.handling.mode") || s.Has("drop.tombstones") {
		if s.Has("delete.tombstone.handling.mode") {
			warnings = append(warnings, "delete.handling.mode and drop.tombstones are left aside: delete.tombstone.handling.mode is set")
		} else {
			u.mode = olderMode(s)
			warnings = append(warnings, "delete.handling.mode and drop.tombstones are older names: taken as delete.tombstone.handling.mode="+u.mode)
		}
	}
	var err error
	if u.addFields, err = eventFields(s.String("add.fields"), s.String("add.fields.prefix")); err != nil {
		return nil, nil, badKey("add.fields", "%w", err)
	}
	if u.addHeaders, err = eventFields(s.String("add.headers"), s.String("add.headers.prefix")); err != nil {
		return nil, nil, badKey("add.headers", "%w", err)
	}
	return u.apply, warnings, nil
}

// olderMode gives what stands for the keys of Debezium before 2.5. Where they kept Debezium's own tombstones and dropped
// the delete before each, one tombstone is made of the delete.
func olderMode(s *connect.Settings) string {
	drop := !s.Has("drop.tombstones") || s.Bool("drop.tombstones")
	switch strings.ToLower(s.String("delete.handling.mode")) {
	case "none":
		return modeTombstone
	case "rewrite":
		if drop {
			return modeRewrite
		}
		return modeRewriteTombstone
	}
	if drop {
		return modeDrop
	}
	return modeDeleteTombstone
}

// eventField is a field of an event that is added to the row or the headers.
type eventField struct {
	parent string // "source", "transaction" or "": the event itself
	name   string
	as     string
}

// eventFields reads a list as "op,source.lsn,table:t": a field without a parent belongs to source, unless it is one of
// the event's or the transaction's own.
func eventFields(text, prefix string) ([]eventField, error) {
	var out []eventField
	for _, item := range list(text) {
		path, as, renamed := strings.Cut(item, ":")
		if strings.Contains(as, ":") || path == "" {
			return nil, fmt.Errorf("unexpected field %q", item)
		}
		parts := strings.Split(path, ".")
		f := eventField{name: parts[0]}
		if len(parts) > 1 {
			f.parent, f.name = parts[0], parts[1]
			f.as = f.parent + "_" + f.name
		} else {
			f.as = f.name
			switch f.name {
			case "op", "ts_ms", "ts_us", "ts_ns":
			case "id", "data_collection_order", "total_order":
				f.parent = "transaction"
			default:
				f.parent = "source"
			}
		}
		if renamed {
			f.as = as
		}
		f.as = prefix + f.as
		out = append(out, f)
	}
	return out, nil
}

func (u *unwrap) apply(r *connect.Record) (bool, error) {
	if err := r.Value.Decode(); err != nil {
		return false, err
	}
	if r.Value.IsNull() {
		for _, f := range u.addHeaders {
			if f.name == "op" {
				addHeader(r, f.as, connect.DataOf(stringSchema, connect.StringValue("d")))
			}
		}
		return u.mode == modeRewriteTombstone, nil
	}
	s, v := r.Value.Schema(), r.Value.Value()
	switch {
	case s == nil:
		if isEventMap(v) {
			return u.applyMap(r, v)
		}
	case v.Kind() == connect.Struct && strings.HasSuffix(s.Name, ".Envelope") && len(v.Items()) == len(s.Fields):
		return u.applyStruct(r, s, v)
	}
	return true, nil
}

// stringSchema is the schema of a text that is always there; never changed.
var stringSchema = &connect.Schema{Type: connect.String}

// route sets the topic from a field's value, unless that is blank.
func route(r *connect.Record, v connect.Value) {
	if strings.TrimSpace(v.Str()) != "" {
		r.Topic = v.Str()
	}
}

func (u *unwrap) rewrites() bool { return u.mode == modeRewrite || u.mode == modeRewriteTombstone }

func (u *unwrap) applyStruct(r *connect.Record, s *connect.Schema, v connect.Value) (bool, error) {
	p, err := u.plans.of(s, u.plan)
	if err != nil {
		return false, err
	}
	items := v.Items()
	for i := range p.headers {
		h := &p.headers[i]
		addHeader(r, h.as, connect.DataOf(h.schema, h.of(items)))
	}
	row, rowSchema, deleted := items[p.after], p.afterSchema, "false"
	if row.IsNull() {
		row, rowSchema, deleted = p.valueOf(items, p.before), p.beforeSchema, "true"
		switch {
		case row.IsNull(): // a truncate
			return false, nil
		case u.mode == modeDrop:
			return false, nil
		case u.mode == modeDeleteTombstone:
			u.routeStruct(r, rowSchema, row)
			r.Value.Set(nil, connect.Value{})
			return true, u.dropKeyOnly(r)
		case u.mode == modeTombstone:
			u.routeStruct(r, rowSchema, row)
			r.Value.Set(p.afterSchema, connect.Value{})
			return true, u.dropKeyOnly(r)
		}
	}
	u.routeStruct(r, rowSchema, row)
	out, err := p.rows.of(rowSchema, func(*connect.Schema) (*connect.Schema, error) { return u.rowSchema(p, rowSchema), nil })
	if err != nil {
		return false, err
	}
	values := copied(row, 1+len(p.fields))
	if u.rewrites() {
		for i := range values {
			values[i] = orDefault(rowSchema.Fields[i].Schema, values[i], u.replaceNull)
		}
		values = append(values, connect.StringValue(deleted))
	}
	for i := range p.fields {
		values = append(values, p.fields[i].of(items))
	}
	r.Value.Set(out, connect.StructValue(values))
	return true, u.dropFields(r)
}

func (u *unwrap) routeStruct(r *connect.Record, s *connect.Schema, row connect.Value) {
	if u.routeBy == "" {
		return
	}
	if i := s.Field(u.routeBy); i >= 0 && i < len(row.Items()) {
		route(r, orDefault(s.Fields[i].Schema, row.Items()[i], true))
	}
}

// rowSchema gives the schema of a row with what is added: required, as Debezium makes it.
func (u *unwrap) rowSchema(p *unwrapPlan, row *connect.Schema) *connect.Schema {
	fields := append([]connect.StructField(nil), row.Fields...)
	if u.rewrites() {
		fields = append(fields, connect.StructField{Name: deletedField, Schema: &connect.Schema{Type: connect.String, Optional: true}})
	}
	for _, f := range p.fields {
		fields = append(fields, connect.StructField{Name: f.as, Schema: f.schema})
	}
	return basics(row, fields)
}

// unwrapPlan is what is worked out once of an envelope's schema.
type unwrapPlan struct {
	before, after             int // indices of fields; before is -1 where there is none
	beforeSchema, afterSchema *connect.Schema
	fields, headers           []eventValue
	rows                      derived[*connect.Schema] // by the schema of the row
}

func (p *unwrapPlan) valueOf(items []connect.Value, i int) connect.Value {
	if i < 0 {
		return connect.Value{}
	}
	return items[i]
}

// eventValue finds an eventField in an event's struct.
type eventValue struct {
	as     string
	schema *connect.Schema
	parent int // -1: the event itself
	index  int
}

func (e *eventValue) of(items []connect.Value) connect.Value {
	if e.parent >= 0 {
		if items = items[e.parent].Items(); e.index >= len(items) {
			return connect.Value{} // the parent is null
		}
	}
	return items[e.index]
}

func (u *unwrap) plan(s *connect.Schema) (*unwrapPlan, error) {
	p := &unwrapPlan{before: s.Field("before"), after: s.Field("after")}
	if p.after < 0 || s.Fields[p.after].Schema.Type != connect.Struct {
		return nil, recordErrorf("the envelope %s has no struct named after", s.Name)
	}
	p.afterSchema = s.Fields[p.after].Schema
	if p.before >= 0 {
		if p.beforeSchema = s.Fields[p.before].Schema; p.beforeSchema.Type != connect.Struct {
			return nil, recordErrorf("before of the envelope %s is no struct", s.Name)
		}
	}
	find := func(refs []eventField) (out []eventValue) {
		for _, f := range refs {
			if e, ok := findEventField(s, f); ok {
				out = append(out, e)
			}
		}
		return out
	}
	p.fields, p.headers = find(u.addFields), find(u.addHeaders)
	return p, nil
}

// findEventField finds a field in its parent, or else in the event itself; a field that is nowhere is left out.
func findEventField(s *connect.Schema, f eventField) (eventValue, bool) {
	e := eventValue{as: f.as, parent: -1}
	in := s
	if f.parent != "" {
		if e.parent = s.Field(f.parent); e.parent >= 0 && s.Fields[e.parent].Schema.Type == connect.Struct {
			in = s.Fields[e.parent].Schema
		} else {
			e.parent = -1
		}
	}
	if e.index = in.Field(f.name); e.index < 0 {
		e.parent, in = -1, s
		if e.index = in.Field(f.name); e.index < 0 {
			return e, false
		}
	}
	c := *in.Fields[e.index].Schema
	c.Optional, c.Default = true, nil
	e.schema = &c
	return e, true
}
