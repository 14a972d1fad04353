package connect

import (
	"encoding/json"
	"math"
	"testing"
)

func TestJSONText(t *testing.T) {
	decimalSchema := &Schema{Type: Bytes, Name: DecimalName, Version: 1, Params: []Param{{"scale", "2"}}}
	row := &Schema{Type: Struct, Fields: []StructField{{"a", &Schema{Type: Int32}}, {"d", decimalSchema}}}
	pairs := MapValue([]Value{StringValue("x"), Int64Value(1), StringValue("y"), {}})
	for _, c := range []struct {
		name   string
		format JSONText
		schema *Schema
		value  Value
		want   string
	}{
		{"null", JSONText{}, nil, Value{}, `null`},
		{"text", JSONText{}, nil, StringValue("a\"\\\n\x01é\xff<"), `"a\"\\\n\u0001é` + "\uFFFD" + `<"`},
		{"number as text", JSONText{}, nil, NumberText(Float64, "1.50"), `1.50`},
		{"NaN as text", JSONText{}, nil, NumberText(Float64, "NaN"), `"NaN"`},
		{"infinity", JSONText{}, nil, Float64Value(math.Inf(-1)), `"-Infinity"`},
		{"float32", JSONText{}, nil, Float32Value(0.1), `0.1`},
		{"large float", JSONText{}, nil, Float64Value(1e300), `1e+300`},
		{"bytes", JSONText{}, nil, BytesValue([]byte{1, 2}), `"AQI="`},
		{"decimal", JSONText{}, decimalSchema, DecimalText("1.5"), `"AJY="`},
		{"decimal as number", JSONText{DecimalNumbers: true}, decimalSchema, DecimalText("1.5"), `1.50`},
		{"struct", JSONText{}, row, StructValue([]Value{Int32Value(7), {}}), `{"a":7,"d":null}`},
		{"map", JSONText{}, nil, pairs, `{"x":1,"y":null}`},
		{"map entries", JSONText{MapEntries: true}, nil, pairs, `[{"key":"x","value":1},{"key":"y","value":null}]`},
		{"map by numbers", JSONText{}, nil, MapValue([]Value{Int64Value(1), BoolValue(true)}), `[[1,true]]`},
		{"array", JSONText{}, nil, ArrayValue([]Value{Int64Value(1), StringValue("b")}), `[1,"b"]`},
	} {
		got, err := c.format.Append(nil, c.schema, c.value)
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	if got, err := (JSONText{}).Append([]byte("kept"), nil, StructValue([]Value{{}})); err == nil || string(got) != "kept" {
		t.Errorf("a struct without a schema: %s, %v", got, err)
	}
}

func FuzzAppendJSONString(f *testing.F) {
	f.Add("a\"\\\x00\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendJSONString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %s: %v", s, got, err)
		}
		if want := string([]rune(s)); back != want {
			t.Fatalf("%q came back as %q", want, back)
		}
	})
}

func TestAppendDataCopiesJSON(t *testing.T) {
	codec := &Codec{Format: "json", Decode: func(b []byte) (*Schema, Value, error) { return nil, StringValue("decoded"), nil }}
	for text, want := range map[string]string{
		`{"n":1.50}`:                     `{"n":1.50}`,
		"{\n \"a\" : 1 }":                `{"a":1}`,
		`{"schema":null,"payload":1.50}`: `{"schema":null,"payload":1.50}`,
		`{"cut":`:                        ``,
	} {
		d := EncodedData([]byte(text), codec)
		got, err := (JSONText{}).AppendData(nil, &d)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	enveloped := EncodedData([]byte(`{"schema":null,"payload":{}}`), &Codec{Format: "json-schema", Decode: codec.Decode})
	if got, err := (JSONText{}).AppendData(nil, &enveloped); string(got) != `"decoded"` || err != nil {
		t.Errorf("another format was not decoded: %s, %v", got, err)
	}
	for text, want := range map[string]bool{` null `: true, `{}`: false, `"null"`: false} {
		d := EncodedData([]byte(text), codec)
		if got, err := d.IsNullJSON(); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
