package transform

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/convert"
)

// goldenCase is one record that the Java class was given; Golden.java beside convert's testdata records the answers.
// Keys, values and headers are what the JsonConverter reads and writes, which convert's own tests compare with Java.
type goldenCase struct {
	Name, Class, Predicate string
	Config                 map[string]string
	Topic                  string
	Key, Value             json.RawMessage
	Schemas                bool
	Offset, TS             *int64
	Headers                [][2]json.RawMessage
}

type goldenAnswer struct {
	Topic      string
	TS         *int64
	Key, Value *string
	Headers    [][2]*string
	Dropped    bool
	Test       *bool
	Error      *string
}

func readGolden(t *testing.T) ([]goldenCase, map[string]goldenAnswer) {
	t.Helper()
	var in struct{ Cases []goldenCase }
	var out struct{ Answers map[string]goldenAnswer }
	for name, into := range map[string]any{"testdata/cases.json": &in, "testdata/answers.json": &out} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	return in.Cases, out.Answers
}

func jsonConverter(t *testing.T, schemas bool) convert.Converter {
	t.Helper()
	props := map[string]string{"replace.null.with.default": "false", "schemas.enable": "false"}
	if schemas {
		props["schemas.enable"] = "true"
	}
	c, err := convert.New("json", props, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *goldenCase) record(conv convert.Converter) *connect.Record {
	data := func(raw json.RawMessage) connect.Data {
		if raw == nil || string(raw) == "null" {
			return connect.Data{}
		}
		return connect.EncodedData(raw, conv.Codec())
	}
	r := &connect.Record{Topic: c.Topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp, Key: data(c.Key), Value: data(c.Value)}
	if c.TS != nil {
		r.Timestamp = *c.TS
	}
	if c.Offset != nil {
		r.Partition, r.Origin = 3, connect.Origin{Topic: c.Topic, Partition: 3, Offset: *c.Offset}
	}
	for _, h := range c.Headers {
		var name string
		_ = json.Unmarshal(h[0], &name)
		r.Headers = append(r.Headers, connect.Header{Key: name, Value: data(h[1])})
	}
	return r
}

func (c *goldenCase) chain(t *testing.T) (*Chain, []connect.FieldResult) {
	config := connect.Config{"transforms": "x", "transforms.x.type": c.Class}
	prefix := "transforms.x."
	if c.Predicate != "" {
		prefix = "predicates.p."
		config["transforms.x.type"], config["transforms.x.predicate"] = "Filter", "p"
		config["predicates"], config["predicates.p.type"] = "p", c.Predicate
	}
	for k, v := range c.Config {
		config[prefix+k] = v
	}
	return New(config)
}

// noErrors are the cases in which Java fails and we don't.
var noErrors = map[string]string{
	"MaskField null":                "a tombstone passes",
	"MaskField null with schema":    "a tombstone passes",
	"SetSchemaMetadata on a string": "Java asks any schema for fields",
	"ExtractField null with schema": "Java's answer failed when it was written: a null under a required field's schema",
}

// TestAsJava compares every transform and predicate with the recorded answers of the Java classes.
func TestAsJava(t *testing.T) {
	cases, answers := readGolden(t)
	if len(cases) < 200 || len(answers) != len(cases) {
		t.Fatalf("%d cases and %d answers", len(cases), len(answers))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			chain, results := c.chain(t)
			if chain == nil {
				t.Fatalf("not accepted: %+v", results)
			}
			conv := jsonConverter(t, c.Schemas)
			r := c.record(conv)
			if err := r.Decode(); err != nil {
				t.Fatal(err)
			}
			key, value := r.Key.Value(), r.Value.Value()
			keyBefore, valueBefore := key.Clone(), value.Clone()
			keep, err := chain.Apply(r)
			if !key.Equal(keyBefore) || !value.Equal(valueBefore) {
				t.Error("the record that came in was written to")
			}
			want := answers[c.Name]
			switch {
			case want.Error != nil:
				if _, ok := noErrors[c.Name]; (err == nil) != ok {
					t.Errorf("gave %v; Java: %s", err, *want.Error)
				}
			case err != nil:
				t.Errorf("%v; Java had no error", err)
			case want.Test != nil:
				if keep == *want.Test {
					t.Errorf("the predicate gave %v", !keep)
				}
			case keep == want.Dropped:
				t.Errorf("kept %v, Java %v", keep, !want.Dropped)
			case keep:
				c.compare(t, conv, r, want)
			}
		})
	}
}

func (c *goldenCase) compare(t *testing.T, conv convert.Converter, r *connect.Record, want goldenAnswer) {
	same := func(what string, d connect.Data, want *string) {
		if err := d.Decode(); err != nil {
			t.Fatal(err)
		}
		d.Set(d.Schema(), d.Value()) // or its bytes would be passed through with their spacing
		b, null, err := conv.Encode(nil, "t", &d)
		got, wanted := string(b), "null bytes"
		if null {
			got = wanted
		}
		if want != nil {
			wanted = *want
		}
		if !c.Schemas && !null && want != nil {
			got, wanted = canonical(got), canonical(wanted)
		}
		if err != nil || got != wanted {
			t.Errorf("%s: %s %v\nJava %s", what, got, err, wanted)
		}
	}
	if r.Topic != want.Topic {
		t.Errorf("topic %q, Java %q", r.Topic, want.Topic)
	}
	same("key", r.Key, want.Key)
	same("value", r.Value, want.Value)
	if len(r.Headers) != len(want.Headers) {
		t.Fatalf("%d headers, Java %d", len(r.Headers), len(want.Headers))
	}
	for i, h := range r.Headers {
		if h.Key != *want.Headers[i][0] {
			t.Errorf("header %q, Java %q", h.Key, *want.Headers[i][0])
		}
		same("header "+h.Key, h.Value, want.Headers[i][1])
	}
}

// canonical gives JSON with sorted names, for maps whose order Java does not keep.
func canonical(s string) string {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}
