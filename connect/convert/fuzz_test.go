package convert

import (
	"bytes"
	"testing"

	"github.com/weirlog/weir/connect"
)

// FuzzJSONDecode: reading never panics, and what was read is written to bytes that read and write to themselves.
func FuzzJSONDecode(f *testing.F) {
	for _, seed := range []string{`{"schema":{"type":"struct","fields":[{"type":"string","optional":true,"default":"x","field":"a"},{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"},"field":"d"}],"optional":false,"name":"n","version":1},"payload":{"a":"\ud83d\ude00","d":1.5e0}}`,
		`{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"float","optional":true}},"payload":[[1,1.5],[2,null]]}`,
		`{"a":[1,2.5,-0,1e400,null,true,"x\n",{"b":{}}],"a":0}`, `[[[[]]]]`, `123456789012345678901234567890`, "null", ""} {
		f.Add([]byte(seed))
	}
	plain := open(f, "json", map[string]string{"schemas.enable": "false"})
	schemas := open(f, "json", nil)
	numeric := open(f, "json", map[string]string{"decimal.format": "NUMERIC", "replace.null.with.default": "false"})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range []Converter{plain, schemas, numeric} {
			once, ok := rewrite(t, c, b)
			if !ok {
				continue
			}
			twice, ok := rewrite(t, c, once)
			if !ok || !bytes.Equal(once, twice) {
				t.Errorf("%q was read and written as %q, and that as %q", b, once, twice)
			}
		}
	})
}

// rewrite reads b and writes what was read.
func rewrite(t *testing.T, c Converter, b []byte) ([]byte, bool) {
	d := connect.EncodedData(b, c.Codec())
	if d.Decode() != nil {
		return nil, false
	}
	d.Set(d.Schema(), d.Value())
	out, null, err := c.Encode(nil, "", &d)
	if err != nil {
		t.Errorf("%q was read as %v, which can't be written: %v", b, d.Value(), err)
	}
	return out, err == nil && !null
}

// FuzzLiteral: any header value reads as something, and without a panic.
func FuzzLiteral(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,null]}`, "2019-08-23T14:34:54.346Z", `[1e999999999]`, `"\"`, "[{[", "-.e1"} {
		f.Add([]byte(seed))
	}
	h, err := NewHeader("simple", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := connect.EncodedData(b, h.Codec())
		if err := d.Decode(); err != nil {
			t.Fatal(err)
		}
		s, v := d.Schema(), d.Value()
		d.Set(s, v)
		if _, _, err := h.Encode(nil, "", "", &d); err != nil {
			t.Fatalf("%q was read as %v, which can't be written: %v", b, v, err)
		}
	})
}
