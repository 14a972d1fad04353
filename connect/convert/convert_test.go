package convert

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

func open(t testing.TB, class string, props map[string]string) Converter {
	t.Helper()
	c, err := New(class, props, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClassesAnswerToAllTheirNames(t *testing.T) {
	seen := map[string]bool{}
	for _, info := range Classes() {
		for _, name := range append([]string{info.Class}, info.Aliases...) {
			var err error
			if info.Kind == KindConverter {
				_, err = New(name, nil, true)
			} else {
				_, err = NewHeader(name, nil)
			}
			if err != nil {
				t.Errorf("%s %s: %v", info.Kind, name, err)
			}
			if id := string(info.Kind) + name; seen[id] {
				t.Errorf("two classes answer to %s", name)
			} else {
				seen[id] = true
			}
		}
	}
	if _, err := New("io.confluent.connect.avro.AvroConverter", nil, false); !errors.Is(err, ErrUnknownClass) {
		t.Errorf("an unknown class gave %v", err)
	}
	var e *connect.Error
	if _, err := New("json", map[string]string{"decimal.format": "HEX"}, false); !errors.As(err, &e) || e.Field != "decimal.format" {
		t.Errorf("a bad property gave %v", err)
	}
}

// TestNumbersHeldAsText: what a database sent as text is written as Java writes the number.
func TestNumbersHeldAsText(t *testing.T) {
	c := open(t, "json", map[string]string{"schemas.enable": "false"})
	for _, x := range []struct {
		v    connect.Value
		want string
	}{
		{connect.NumberText(connect.Int64, "-9223372036854775808"), "-9223372036854775808"},
		{connect.NumberText(connect.Float64, "100"), "100.0"},
		{connect.NumberText(connect.Float64, "1e+30"), "1.0E30"},
		{connect.NumberText(connect.Float64, "NaN"), `"NaN"`},
		{connect.NumberText(connect.Float32, "-Infinity"), `"-Infinity"`},
		{connect.StringValue("a\xffb"), "\"a\uFFFDb\""},
	} {
		d := connect.DataOf(nil, x.v)
		got, _, err := c.Encode(nil, "", &d)
		if err != nil || string(got) != x.want {
			t.Errorf("%v: %s %v, want %s", x.v, got, err, x.want)
		}
	}
}

// TestBytesPassThrough: data read by a converter of the same format is not decoded to be written.
func TestBytesPassThrough(t *testing.T) {
	plain := open(t, "json", map[string]string{"schemas.enable": "false"})
	withSchemas := open(t, "json", nil)
	text := []byte(`{ "a" : 1.50 }`)
	d := connect.EncodedData(text, plain.Codec())
	if got, _, err := plain.Encode(nil, "", &d); err != nil || !bytes.Equal(got, text) {
		t.Errorf("passed through as %s, %v", got, err)
	}
	if got, _, err := withSchemas.Encode(nil, "", &d); err != nil || string(got) != `{"schema":null,"payload":{"a":1.5}}` {
		t.Errorf("between two formats: %s, %v", got, err)
	}
	d = connect.EncodedData(text, withSchemas.Codec())
	if got, _, err := plain.Encode([]byte("x"), "", &d); !errors.Is(err, connect.ErrNotDecoded) || string(got) != "x" {
		t.Errorf("undecodable data: %q, %v", got, err)
	}
}

// TestSchemaPointersSurvive: records with the same schema text share one schema, in whatever order the envelope is.
func TestSchemaPointersSurvive(t *testing.T) {
	c := open(t, "json", nil)
	const s = `{"type":"struct","fields":[{"type":"int32","field":"a"}],"optional":false}`
	var first *connect.Schema
	for i, text := range []string{
		`{"schema":` + s + `,"payload":{"a":1}}`, `{"schema":` + s + `,"payload":{"a":2}}`,
		`{"payload":{"a":3},"schema":` + s + `}`, ` { "schema" : ` + s + ` , "payload" : {"a":4} } `,
	} {
		d := connect.EncodedData([]byte(text), c.Codec())
		if err := d.Decode(); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = d.Schema()
		}
		if d.Schema() != first || d.Value().Items()[0].Int() != int64(i+1) {
			t.Errorf("%s: schema %p, want %p; value %v", text, d.Schema(), first, d.Value())
		}
	}
	bad := connect.EncodedData([]byte(`{"schema":`+s+`,"payload":{"a":1},"more":2}`), c.Codec())
	if err := bad.Decode(); err == nil {
		t.Error("an envelope with a third field was read")
	}
}

// TestCachesAreBounded: a source or topic that brings a new schema with every record costs no memory.
func TestCachesAreBounded(t *testing.T) {
	c := open(t, "json", nil).(*jsonConverter)
	for i := range 10 * maxPlans {
		d := connect.DataOf(&connect.Schema{Type: connect.Int32}, connect.Int32Value(1))
		if _, _, err := c.Encode(nil, "", &d); err != nil {
			t.Fatal(err)
		}
		e := connect.EncodedData(fmt.Appendf(nil, `{"schema":{"type":"int32","version":%d},"payload":1}`, i+1), c.Codec())
		if err := e.Decode(); err != nil {
			t.Fatal(err)
		}
	}
	if c.plans.len() > maxPlans || c.parsed.len() > maxPlans {
		t.Errorf("%d plans and %d schemas are kept", c.plans.len(), c.parsed.len())
	}
	big := newCache[int, string](1000, 100)
	for i := range 1000 {
		big.put(i, "", 30)
	}
	if big.len() > 6 {
		t.Errorf("%d entries of weight 30 are kept in a cache of weight 100", big.len())
	}
}

func TestStrictWhereJavaCorrupts(t *testing.T) {
	c := open(t, "json", nil)
	for _, text := range []string{
		`{"schema":{"type":"int8"},"payload":300}`, `{"schema":{"type":"int64"},"payload":9223372036854775808}`,
		`{"schema":{"type":"int32"},"payload":"1"}`, `{"schema":{"type":"boolean"},"payload":1}`,
		`{"schema":{"type":"string"},"payload":1}`, `{"schema":{"type":"double"},"payload":"x"}`,
		`{"schema":{"type":"array","items":{"type":"int32"}},"payload":{}}`, `{"schema":{"type":"int32"},"payload":1.5}`,
		`{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"},{"type":"int32","field":"a"}]},"payload":{"a":1}}`,
		`{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"1"}},"payload":1e999999}`,
		`{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2000000000"}},"payload":1}`,
	} {
		d := connect.EncodedData([]byte(text), c.Codec())
		if err := d.Decode(); !errors.Is(err, ErrData) {
			t.Errorf("%s: read as %v, %v", text, d.Value(), err)
		}
	}
	d := connect.EncodedData([]byte(`{"schema":{"type":"double"},"payload":"NaN"}`), c.Codec())
	if err := d.Decode(); err != nil || d.Value().String() != "NaN" {
		t.Errorf("NaN came back as %v, %v", d.Value(), err)
	}
}

func TestHostileNesting(t *testing.T) {
	for _, open := range []string{"[", `{"a":`, "[{\"a\":"} {
		for _, c := range []Converter{open1(t, "false"), open1(t, "true")} {
			d := connect.EncodedData([]byte(strings.Repeat(open, 200_000)), c.Codec())
			if err := d.Decode(); !errors.Is(err, ErrData) {
				t.Errorf("%d times %s: %v", 200_000, open, err)
			}
		}
		h, _ := NewHeader("simple", nil)
		text := strings.Repeat(open, 200_000)
		d := connect.EncodedData([]byte(text), h.Codec())
		if err := d.Decode(); err != nil || d.Value().Str() != text {
			t.Errorf("a header of deep nesting is not taken as a string: %v", err)
		}
	}
	loop := &connect.Schema{Type: connect.Array}
	loop.Elem = loop
	d := connect.DataOf(loop, connect.ArrayValue(nil))
	if _, _, err := open1(t, "true").Encode(nil, "", &d); err == nil {
		t.Error("a schema that holds itself was accepted")
	}
}

func open1(t *testing.T, schemas string) Converter {
	return open(t, "json", map[string]string{"schemas.enable": schemas})
}

func TestErrorsNameTheField(t *testing.T) {
	inner := &connect.Schema{Type: connect.Struct, Fields: []connect.StructField{{Name: "b", Schema: &connect.Schema{Type: connect.Int32}}}}
	s := &connect.Schema{Type: connect.Struct, Fields: []connect.StructField{{Name: "a", Schema: inner}}}
	d := connect.DataOf(s, connect.StructValue([]connect.Value{connect.StructValue([]connect.Value{{}})}))
	_, _, err := open1(t, "true").Encode(nil, "", &d)
	if err == nil || !strings.Contains(err.Error(), "a.b") {
		t.Errorf("the error does not name a.b: %v", err)
	}
}

// TestFloatTextIsCopiedOnlyWhereJavaWritesTheSame goes through texts at the borders of the shortcut.
func TestFloatTextIsCopiedOnlyWhereJavaWritesTheSame(t *testing.T) {
	copied := 0
	for _, k := range []connect.Kind{connect.Float32, connect.Float64} {
		for _, text := range []string{"0.0", "-0.0", "0.00", "1.0", "1.50", "01.5", "1.", ".5", "1", "0.001", "0.0009", "0.0010", "9999999.5", "10000000.5",
			"123.456", "123.4567", "16777217.0", "1e5", "1.5e3", "NaN", "-Infinity", "3.14159265358979", "3.141592653589793", "-12.25", "0.1", "100.0", "999.999", "0.30000000000000004"} {
			v := connect.NumberText(k, text)
			if isJavaFloat(text, k) {
				copied++
				if want := string(appendFloat(nil, v.Float(), floatBits(k))); want != text {
					t.Errorf("%s %s would be copied; Java writes %s", k, text, want)
				}
			}
		}
	}
	if copied < 10 {
		t.Errorf("only %d texts are copied", copied)
	}
}

func TestCharsets(t *testing.T) {
	for _, name := range []string{"UTF-8", "UTF-16", "utf_16le", "UTF-16BE"} {
		c := open(t, "string", map[string]string{"converter.encoding": name})
		text := "a Grüße 😀"
		d := connect.DataOf(nil, connect.StringValue(text))
		b, _, err := c.Encode(nil, "", &d)
		if err != nil {
			t.Fatal(err)
		}
		e := connect.EncodedData(b, c.Codec())
		if err := e.Decode(); err != nil || e.Value().Str() != text {
			t.Errorf("%s: %q came back as %q, %v", name, text, e.Value().Str(), err)
		}
	}
	for name, want := range map[string]string{"US-ASCII": "Gr\uFFFD", "latin1": "Grü", "UTF-8": "Gr\uFFFD", "UTF-16BE": "\u4772\uFFFD"} {
		c := open(t, "string", map[string]string{"converter.encoding": name})
		d := connect.EncodedData([]byte("Gr\xfc"), c.Codec())
		if err := d.Decode(); err != nil || d.Value().Str() != want {
			t.Errorf("%s: %q, want %q", name, d.Value().Str(), want)
		}
	}
	if _, err := New("string", map[string]string{"converter.encoding": "EBCDIC"}, false); err == nil {
		t.Error("an unknown character set was accepted")
	}
}
