package convert

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"testing"

	"github.com/weirlog/weir/connect"
)

// The notation of testdata/cases.json and answers.json: schemas and values in JSON that encoding/json reads, so that no
// converter of ours stands between the Java answers and the tests. Golden.java reads and writes the same.

type wireSchema struct {
	Type   string            `json:"t"`
	Opt    bool              `json:"opt,omitempty"`
	Name   string            `json:"name,omitempty"`
	Ver    int               `json:"ver,omitempty"`
	Doc    string            `json:"doc,omitempty"`
	Params [][2]string       `json:"params,omitempty"`
	Def    json.RawMessage   `json:"def,omitempty"`
	Fields []json.RawMessage `json:"f,omitempty"`
	Key    *wireSchema       `json:"k,omitempty"`
	Elem   *wireSchema       `json:"v,omitempty"`
}

func (w *wireSchema) schema(t *testing.T) *connect.Schema {
	if w == nil {
		return nil
	}
	s := &connect.Schema{Type: typeOf(w.Type), Optional: w.Opt, Name: w.Name, Version: w.Ver, Doc: w.Doc, Key: w.Key.schema(t), Elem: w.Elem.schema(t)}
	for _, p := range w.Params {
		s.Params = append(s.Params, connect.Param{Name: p[0], Value: p[1]})
	}
	for _, f := range w.Fields {
		var name string
		var fs wireSchema
		mustUnmarshal(t, f, &[]any{&name, &fs})
		s.Fields = append(s.Fields, connect.StructField{Name: name, Schema: fs.schema(t)})
	}
	if w.Def != nil {
		v := wireValue(t, w.Def)
		s.Default = &v
	}
	return s
}

func mustUnmarshal(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
}

func wireValue(t *testing.T, raw json.RawMessage) connect.Value {
	var one map[string]json.RawMessage
	mustUnmarshal(t, raw, &one)
	for kind, body := range one {
		var s string
		_ = json.Unmarshal(body, &s)
		n, _ := strconv.ParseInt(s, 10, 64)
		switch kind {
		case "b":
			return connect.BoolValue(string(body) == "true")
		case "i8":
			return connect.Int8Value(int8(n))
		case "i16":
			return connect.Int16Value(int16(n))
		case "i32":
			return connect.Int32Value(int32(n))
		case "i64":
			return connect.Int64Value(n)
		case "f32":
			f, _ := strconv.ParseFloat(s, 32)
			return connect.Float32Value(float32(f))
		case "f64":
			f, _ := strconv.ParseFloat(s, 64)
			return connect.Float64Value(f)
		case "s":
			return connect.StringValue(s)
		case "x":
			b, err := hex.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			return connect.BytesValue(b)
		case "d":
			return connect.DecimalText(s)
		case "m":
			var pairs [][2]json.RawMessage
			mustUnmarshal(t, body, &pairs)
			var items []connect.Value
			for _, p := range pairs {
				items = append(items, wireValue(t, p[0]), wireValue(t, p[1]))
			}
			return connect.MapValue(items)
		}
		var list []json.RawMessage
		mustUnmarshal(t, body, &list)
		items := make([]connect.Value, len(list))
		for i := range list {
			items[i] = wireValue(t, list[i])
		}
		if kind == "a" {
			return connect.ArrayValue(items)
		}
		return connect.StructValue(items)
	}
	return connect.Value{}
}

// dumpSchema and dumpValue give the notation, as text that compares.
func dumpSchema(s *connect.Schema) any {
	if s == nil {
		return nil
	}
	m := map[string]any{"t": s.Type.String()}
	put := func(k string, v any, ok bool) {
		if ok {
			m[k] = v
		}
	}
	put("opt", true, s.Optional)
	put("name", s.Name, s.Name != "")
	put("ver", s.Version, s.Version != 0)
	put("doc", s.Doc, s.Doc != "")
	var params []any
	for _, p := range s.Params {
		params = append(params, []string{p.Name, p.Value})
	}
	put("params", params, params != nil)
	if s.Default != nil {
		m["def"] = dumpValue(s, *s.Default)
	}
	if s.Type == connect.Struct {
		fields := []any{}
		for _, f := range s.Fields {
			fields = append(fields, []any{f.Name, dumpSchema(f.Schema)})
		}
		m["f"] = fields
	}
	put("k", dumpSchema(s.Key), s.Type == connect.Map)
	put("v", dumpSchema(s.Elem), s.Type == connect.Map || s.Type == connect.Array)
	return m
}

func dumpValue(s *connect.Schema, v connect.Value) any {
	one := func(k string, v any) any { return map[string]any{k: v} }
	switch v.Kind() {
	case connect.Null:
		return nil
	case connect.Bool:
		return one("b", v.Bool())
	case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
		return one("i"+strconv.Itoa(8<<(v.Kind()-connect.Int8)), strconv.FormatInt(v.Int(), 10))
	case connect.Float32, connect.Float64:
		bits := floatBits(v.Kind())
		return one("f"+strconv.Itoa(bits), string(appendFloat(nil, v.Float(), bits)))
	case connect.String:
		return one("s", v.Str())
	case connect.Bytes:
		if s != nil && s.Name == connect.DecimalName {
			scale, _ := strconv.Atoi(s.Param("scale"))
			d, err := v.Decimal(scale)
			if err != nil {
				d = err.Error()
			}
			return one("d", d)
		}
		return one("x", hex.EncodeToString(v.Bytes()))
	}
	list := []any{}
	for i, item := range v.Items() {
		switch v.Kind() {
		case connect.Struct:
			list = append(list, dumpValue(s.Fields[i].Schema, item))
		case connect.Array:
			list = append(list, dumpValue(elemOf(s), item))
		case connect.Map:
			if i%2 == 0 {
				list = append(list, []any{dumpValue(keyOf(s), item), dumpValue(elemOf(s), v.Items()[i+1])})
			}
		}
	}
	switch v.Kind() {
	case connect.Struct:
		return one("o", list)
	case connect.Array:
		return one("a", list)
	}
	sort.Slice(list, func(i, j int) bool { return fmt.Sprint(list[i]) < fmt.Sprint(list[j]) })
	return one("m", list)
}

// canonical gives JSON with sorted names.
func canonical(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var again any
	mustUnmarshal(t, b, &again)
	if b, err = json.Marshal(again); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// golden is both files.
type golden struct {
	Encoders []struct {
		Name, Class string
		Props       map[string]string
	}
	Encode []struct {
		Name   string
		Schema *wireSchema
		Value  json.RawMessage
	}
	Decode []struct {
		Name, Class string
		Props       map[string]string
		Inputs      []string
		Binary      bool
	}
	Answers struct {
		Encode map[string]map[string]*string
		Decode map[string]map[string]json.RawMessage
		Floats map[string][2]string
	}
}

func readGolden(t *testing.T) *golden {
	t.Helper()
	g := &golden{}
	for name, into := range map[string]any{"testdata/cases.json": g, "testdata/answers.json": &g.Answers} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		mustUnmarshal(t, b, into)
	}
	return g
}
