package transform

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

func chainOf(t testing.TB, config connect.Config) *Chain {
	t.Helper()
	c, results := New(config)
	if c == nil {
		t.Fatalf("not accepted: %v", faults(results))
	}
	return c
}

func faults(results []connect.FieldResult) (out []string) {
	for _, r := range results {
		for _, e := range r.Errors {
			out = append(out, r.Name+": "+e)
		}
	}
	return out
}

func TestEveryClassOpensByAllItsNames(t *testing.T) {
	table := classes()
	for _, info := range Classes() {
		for _, name := range append([]string{info.Class, strings.ReplaceAll(info.Class, "$", ".")}, info.Aliases...) {
			c := find(table, info.Kind, name)
			if c == nil || c.info.Class != info.Class {
				t.Errorf("%s does not find %s", name, info.Class)
			}
		}
	}
	if c := chainOf(t, nil); !c.Empty() {
		t.Error("a chain of nothing is not empty")
	}
}

func TestFaultsNameTheirKeys(t *testing.T) {
	for want, config := range map[string]connect.Config{
		"transforms.a.type: ":              {"transforms": "a", "transforms.a.type": "com.example.Nothing"},
		"transforms.b.type: Missing":       {"transforms": "b"},
		"transforms: Invalid":              {"transforms": "c,c", "transforms.c.type": "filter"},
		"transforms.d.predicate: ":         {"transforms": "d", "transforms.d.type": "filter", "transforms.d.predicate": "p"},
		"transforms.e.regex: the regular":  {"transforms": "e", "transforms.e.type": "RegexRouter", "transforms.e.regex": "a(?=b)", "transforms.e.replacement": ""},
		"transforms.f.replacement: the re": {"transforms": "f", "transforms.f.type": "RegexRouter", "transforms.f.regex": "a", "transforms.f.replacement": "$1"},
		"predicates.g.pattern: Missing":    {"predicates": "g", "predicates.g.type": "TopicNameMatches"},
		"transforms.h.static.value: No":    {"transforms": "h", "transforms.h.type": "InsertField$Value", "transforms.h.static.field": "x"},
		"transforms.i.spec: Invalid type":  {"transforms": "i", "transforms.i.type": "Cast$Key", "transforms.i.spec": "a:decimal"},
		"transforms.j.delete.tombstone.ha": {"transforms": "j", "transforms.j.type": "unwrap", "transforms.j.delete.tombstone.handling.mode": "keep"},
		"transforms.k.format: Timestamp":   {"transforms": "k", "transforms.k.type": "TimestampConverter$Value", "transforms.k.target.type": "string"},
	} {
		c, results := New(config)
		if got := strings.Join(faults(results), "\n"); c != nil || !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", config, got, want)
		}
	}
	all := connect.Config{"transforms": "a,b", "transforms.a.type": "x", "transforms.b.type": "y", "predicates": "p", "predicates.p.type": "z"}
	if _, results := New(all); len(faults(results)) != 3 {
		t.Errorf("not all faults at once: %v", faults(results))
	}
}

func TestFieldsHaveFullNames(t *testing.T) {
	config := connect.Config{"transforms": "a,b", "transforms.a.type": "ReplaceField$Value", "transforms.b.type": "ReplaceField$Value", "predicates": "p", "predicates.p.type": "HasHeaderKey"}
	names := map[string]bool{}
	for _, f := range Fields(config) {
		names[f.Name] = true
		for _, a := range f.Aliases {
			names[a] = true
		}
	}
	for _, want := range []string{"transforms", "predicates", "transforms.a.type", "transforms.b.negate", "transforms.a.exclude", "transforms.b.blacklist", "transforms.b.predicate", "predicates.p.name"} {
		if !names[want] {
			t.Errorf("no field %s in %v", want, names)
		}
	}
	config["transforms.b.blacklist"] = "x"
	if unknown := connect.Unknown(Fields(config), config); len(unknown) != 0 {
		t.Errorf("unknown: %v", unknown)
	}
}

func TestPredicatesAndNegation(t *testing.T) {
	config := connect.Config{"transforms": "f,r", "transforms.f.type": "Filter", "transforms.f.predicate": "p", "predicates": "p",
		"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "keep.*", "transforms.f.negate": "true",
		"transforms.r.type": "RegexRouter", "transforms.r.regex": "keep-(.*)", "transforms.r.replacement": "$1"}
	c := chainOf(t, config)
	for topic, want := range map[string]string{"keep-a": "a", "drop-a": "", "keep": "keep"} {
		r := &connect.Record{Topic: topic}
		keep, err := c.Apply(r)
		if err != nil || keep != (want != "") || keep && r.Topic != want {
			t.Errorf("%s: %v %s %v", topic, keep, r.Topic, err)
		}
	}
}

func TestRegexRouterNeedsTheWholeTopic(t *testing.T) {
	c := chainOf(t, connect.Config{"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "a.", "transforms.r.replacement": "x"})
	for topic, want := range map[string]string{"ab": "x", "abc": "abc", "cab": "cab", "": ""} {
		r := &connect.Record{Topic: topic}
		if _, err := c.Apply(r); err != nil || r.Topic != want {
			t.Errorf("%q became %q, want %q", topic, r.Topic, want)
		}
	}
}

// TestRoutingDoesNotDecode: a chain that only routes passes bytes through, decodable or not.
func TestRoutingDoesNotDecode(t *testing.T) {
	c := chainOf(t, connect.Config{"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "x"})
	codec := &connect.Codec{Format: "json", Decode: func([]byte) (*connect.Schema, connect.Value, error) {
		return nil, connect.Value{}, errors.New("was decoded")
	}}
	r := &connect.Record{Topic: "t", Value: connect.EncodedData([]byte("{"), codec)}
	if keep, err := c.Apply(r); !keep || err != nil || r.Topic != "x" {
		t.Errorf("%v %v", keep, err)
	}
	if _, _, ok := r.Value.Encoded(); !ok {
		t.Error("the bytes are gone")
	}
	c = chainOf(t, connect.Config{"transforms": "u", "transforms.u.type": "unwrap"})
	if _, err := c.Apply(r); !errors.Is(err, connect.ErrNotDecoded) || !strings.Contains(err.Error(), "transform u") {
		t.Errorf("undecodable: %v", err)
	}
}

// envelope makes the schema and a create event of a table.
func envelope() (*connect.Schema, connect.Value) {
	str, i64 := &connect.Schema{Type: connect.String}, &connect.Schema{Type: connect.Int64}
	row := &connect.Schema{Type: connect.Struct, Optional: true, Name: "t.Value", Fields: []connect.StructField{{Name: "id", Schema: i64}, {Name: "name", Schema: str}}}
	src := &connect.Schema{Type: connect.Struct, Name: "Source", Fields: []connect.StructField{{Name: "lsn", Schema: i64}}}
	s := &connect.Schema{Type: connect.Struct, Name: "t.Envelope", Fields: []connect.StructField{{Name: "before", Schema: row}, {Name: "after", Schema: row}, {Name: "source", Schema: src}, {Name: "op", Schema: str}}}
	v := connect.StructValue([]connect.Value{{}, connect.StructValue([]connect.Value{connect.Int64Value(1), connect.StringValue("n")}), connect.StructValue([]connect.Value{connect.Int64Value(7)}), connect.StringValue("c")})
	return s, v
}

// TestSchemaPointersSurvive: the same input schema gives the same output schema, through a whole chain; and what came in
// is not written to.
func TestSchemaPointersSurvive(t *testing.T) {
	c := chainOf(t, connect.Config{"transforms": "u,i,r,m,f,s", "transforms.u.type": "unwrap", "transforms.u.add.fields": "op,lsn",
		"transforms.i.type": "InsertField$Value", "transforms.i.topic.field": "topic", "transforms.r.type": "ReplaceField$Value", "transforms.r.renames": "name:title",
		"transforms.m.type": "MaskField$Value", "transforms.m.fields": "title", "transforms.f.type": "Flatten$Value",
		"transforms.s.type": "SetSchemaMetadata$Value", "transforms.s.schema.name": "row"})
	s, v := envelope()
	before := v.Clone()
	var first *connect.Schema
	other := *s
	for range 3 {
		between := &connect.Record{Topic: "t", Value: connect.DataOf(&other, v)}
		if _, err := c.Apply(between); err != nil || between.Value.Schema() == first {
			t.Fatal("another schema in between:", err)
		}
		r := &connect.Record{Topic: "t", Value: connect.DataOf(s, v)}
		if keep, err := c.Apply(r); !keep || err != nil {
			t.Fatal(keep, err)
		}
		if first == nil {
			first = r.Value.Schema()
		}
		if r.Value.Schema() != first {
			t.Error("a new schema for the same input")
		}
		if got := r.Value.Value().String(); got != `[1 "" "c" 7 "t"]` {
			t.Errorf("gave %s", got)
		}
	}
	if !v.Equal(before) {
		t.Error("the input was written to")
	}
}

func TestOlderKeysOfUnwrap(t *testing.T) {
	for _, c := range []struct{ handling, tombstones, want string }{
		{"", "true", modeDrop}, {"", "false", modeDeleteTombstone}, {"rewrite", "", modeRewrite},
		{"rewrite", "false", modeRewriteTombstone}, {"none", "", modeTombstone}, {"drop", "", modeDrop},
	} {
		config := connect.Config{"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"}
		if c.handling != "" {
			config["transforms.u.delete.handling.mode"] = c.handling
		}
		if c.tombstones != "" {
			config["transforms.u.drop.tombstones"] = c.tombstones
		}
		chain := chainOf(t, config)
		if w := chain.Warnings(); len(w) != 1 || !strings.HasSuffix(w[0], "="+c.want) {
			t.Errorf("%+v: %v", c, w)
		}
	}
}

// TestUnwrapMaps: events without a schema, which a sink reads from plain JSON, are unwrapped too.
func TestUnwrapMaps(t *testing.T) {
	s, i := connect.StringValue, connect.Int64Value
	m := func(pairs ...connect.Value) connect.Value { return connect.MapValue(pairs) }
	event := func(before, after connect.Value, op string) connect.Value {
		return m(s("before"), before, s("after"), after, s("source"), m(s("table"), s("t")), s("op"), s(op))
	}
	row := m(s("id"), i(1))
	c := chainOf(t, connect.Config{"transforms": "u", "transforms.u.type": "unwrap", "transforms.u.add.fields": "op,table", "transforms.u.delete.tombstone.handling.mode": "rewrite"})
	for _, x := range []struct {
		in   connect.Value
		want string
	}{
		{event(connect.Value{}, row, "c"), `["id" 1 "__deleted" "false" "__op" "c" "__table" "t"]`},
		{event(row, connect.Value{}, "d"), `["id" 1 "__deleted" "true" "__op" "d" "__table" "t"]`},
		{event(connect.Value{}, connect.Value{}, "t"), ""},
		{connect.Value{}, ""},
		{row, `["id" 1]`},
	} {
		r := &connect.Record{Topic: "t", Value: connect.DataOf(nil, x.in)}
		keep, err := c.Apply(r)
		got := ""
		if keep {
			got = r.Value.Value().String()
		}
		if err != nil || got != x.want {
			t.Errorf("%v gave %s, %v; want %s", x.in, got, err, x.want)
		}
	}
}

// TestHeadersAreNotShared: a header is added to a copy of the list, which others may hold.
func TestHeadersAreNotShared(t *testing.T) {
	c := chainOf(t, connect.Config{"transforms": "h,d", "transforms.h.type": "InsertHeader", "transforms.h.header": "new", "transforms.h.value.literal": "1",
		"transforms.d.type": "DropHeaders", "transforms.d.headers": "a"})
	shared := []connect.Header{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	r := &connect.Record{Headers: shared[:2]}
	if _, err := c.Apply(r); err != nil || len(r.Headers) != 2 || r.Headers[1].Key != "new" {
		t.Errorf("%v %v", r.Headers, err)
	}
	if shared[0].Key != "a" || shared[1].Key != "b" || shared[2].Key != "c" {
		t.Errorf("the list that came in was written to: %v", shared)
	}
}

func TestDerivedIsBounded(t *testing.T) {
	var d derived[int]
	for range 3 * maxDerived {
		if _, err := d.of(&connect.Schema{}, func(*connect.Schema) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.all) > maxDerived {
		t.Errorf("%d schemas are kept", len(d.all))
	}
}

func TestUnsupportedRegex(t *testing.T) {
	for text, want := range map[string]string{
		`a(?!b)`: "lookaheads", `(?<=a)b`: "lookbehinds", `(?<name>a)`: "", `(?>a)`: "atomic", `a++`: "possessive", `a\++`: "", `[+?+]`: "",
		`(a)\1`: "back-references", `\Qa(?=\E+`: "", `[a&&b]`: "intersections", `\\1`: "", `a{2}+`: "possessive",
	} {
		_, _, err := javaRegex(text)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzDatePattern(f *testing.F) {
	f.Add("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2023-11-14T22:13:20.123+01:00")
	f.Add("EEE, d MMM yyyy", "Tue, 14 Nov 2023")
	f.Fuzz(func(_ *testing.T, pattern, text string) {
		if p, err := parseDatePattern(pattern); err == nil {
			if t, err := p.parse(text); err == nil {
				p.format(t)
			}
		}
	})
}

func BenchmarkUnwrap(b *testing.B) {
	c := chainOf(b, connect.Config{"transforms": "u", "transforms.u.type": "unwrap", "transforms.u.add.fields": "op,lsn"})
	s, v := envelope()
	b.ReportAllocs()
	for b.Loop() {
		r := connect.Record{Topic: "t", Value: connect.DataOf(s, v)}
		if _, err := c.Apply(&r); err != nil {
			b.Fatal(err)
		}
	}
}
