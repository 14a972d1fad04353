package convert

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

// latin gives the bytes of a text whose characters are bytes.
func latin(s string) []byte {
	out := []byte{}
	for _, r := range s {
		out = append(out, byte(r))
	}
	return out
}

// encodeDeviations are the encodings in which we differ from Java on purpose: "case/encoder", or "case/" for all.
var encodeDeviations = map[string]string{
	"schemaless map/string":    "Java writes the address of a byte array",
	"default bytes/string":     "Java writes the address of a byte array",
	"bytes/string":             "Java writes the address of a byte array",
	"bytes empty/string":       "Java writes the address of a byte array",
	"schemaless bytes/string":  "Java writes the address of a byte array",
	"debezium envelope/string": "Java writes the address of a byte array",
}

func deviates(name, encoder string) bool {
	_, ok := encodeDeviations[name+"/"+strings.TrimSuffix(strings.TrimSuffix(encoder, "-latin1"), "-utf16")]
	return ok
}

// TestEncodeAsJava compares what every converter writes with the recorded answers of the Java classes.
func TestEncodeAsJava(t *testing.T) {
	g := readGolden(t)
	compared := 0
	for _, e := range g.Encoders {
		header := strings.HasSuffix(e.Class, "SimpleHeaderConverter")
		conv, err := New(e.Class, e.Props, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range g.Encode {
			want := g.Answers.Encode[c.Name][e.Name]
			s := c.Schema.schema(t)
			d := connect.DataOf(s, wireValue(t, c.Value))
			if c.Value == nil {
				d = connect.DataOf(s, connect.Value{})
			}
			out, null, err := conv.Encode([]byte("before"), "t", &d)
			if header {
				h, _ := NewHeader(e.Class, e.Props)
				out, null, err = h.Encode([]byte("before"), "t", "h", &d)
			}
			got := ""
			switch {
			case err != nil:
				got = "error"
			case null:
				got = "null"
			default:
				got = "=" + strings.TrimPrefix(string(out), "before")
			}
			if !strings.HasPrefix(string(out), "before") || (err != nil || null) && len(out) != len("before") {
				t.Errorf("%s/%s: dst was not kept: %q", c.Name, e.Name, out)
			}
			wanted := "null"
			if want != nil {
				wanted = string(latin(*want))
			}
			compared++
			if deviates(c.Name, e.Name) {
				if got == wanted {
					t.Errorf("%s/%s: listed as a deviation and the same: %q", c.Name, e.Name, got)
				}
				continue
			}
			if got != wanted {
				t.Errorf("%s/%s: wrote %q (%v)\nJava %q", c.Name, e.Name, got, err, wanted)
			}
		}
	}
	if compared < 1000 {
		t.Fatalf("only %d comparisons", compared)
	}
}

// decodeDeviations are inputs that we read otherwise than Java on purpose, with our answer.
var decodeDeviations = map[string]string{
	// The same number; Java's has a scale other than its schema's.
	`json-schemas {"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"}},"payload":7}`: `{"schema":{"t":"bytes","name":"org.apache.kafka.connect.data.Decimal","ver":1,"params":[["scale","2"]]},"value":{"d":"7.00"}}`,
	"header 1e400": `{"schema":{"t":"bytes","name":"org.apache.kafka.connect.data.Decimal","ver":1,"params":[["scale","0"]]},"value":{"d":"1` + strings.Repeat("0", 400) + `"}}`,
	// Java's converter returns a Java null instead of a null with its schema, which its callers take for null.
	"header null": `{"schema":null,"value":null}`,
}

// TestDecodeAsJava compares what every converter reads with the recorded answers of the Java classes.
func TestDecodeAsJava(t *testing.T) {
	g := readGolden(t)
	for _, c := range g.Decode {
		conv, err := New(c.Class, c.Props, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range c.Inputs {
			b := []byte(in)
			if c.Binary {
				b = latin(in)
			}
			var want any
			mustUnmarshal(t, g.Answers.Decode[c.Name][in], &want)
			d := connect.EncodedData(b, conv.Codec())
			var got any = "error"
			err := d.Decode()
			if err == nil {
				got = map[string]any{"schema": dumpSchema(d.Schema()), "value": dumpValue(d.Schema(), d.Value())}
			}
			id := c.Name + " " + in
			if ours, ok := decodeDeviations[id]; ok {
				want = "error"
				if ours != "error" {
					want = json.RawMessage(ours)
				}
			}
			if a, b := canonical(t, got), canonical(t, want); a != b {
				t.Errorf("%s: read %s (%v)\nJava %s", id, a, err, b)
			}
		}
	}
}

// TestFloatsAsJava leaves out three floats for which the JDK that was asked (17) does not give the shortest text; JDKs
// since 19 do.
func TestFloatsAsJava(t *testing.T) {
	longer := map[string]bool{"1.00000003E16": true, "1.23456791E11": true, "9.999999999999999E22": true}
	for text, want := range readGolden(t).Answers.Floats {
		for i, bits := range []int{64, 32} {
			f, _ := strconv.ParseFloat(text, bits)
			if got := string(appendFloat(nil, f, bits)); got != want[i] && !longer[want[i]] {
				t.Errorf("%s in %d bits: %s, Java %s", text, bits, got, want[i])
			}
		}
	}
}
