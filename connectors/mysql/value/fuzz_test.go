package value

import (
	"encoding/json"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// FuzzRow decodes any bytes as row images of every recorded table: no panic, and no more is left than was there.
func FuzzRow(f *testing.F) {
	var plans []*Plan
	for _, server := range servers {
		for name, table := range recorded(f, server) {
			_, plan := table.compiled(f, server, name, Modes{})
			for _, e := range table.Events {
				f.Add(uint8(len(plans)), e.Present, e.Data)
			}
			plans = append(plans, plan)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, present, data []byte) {
		plan := plans[int(which)%len(plans)]
		var a debezium.Arena
		out := make([]connect.Value, len(plan.codecs))
		for _, decode := range []func([]byte, []byte, *debezium.Arena, []connect.Value) ([]byte, error){plan.Row, plan.PartialRow} {
			if rest, err := decode(data, present, &a, out); err == nil && len(rest) > len(data) {
				t.Fatalf("%d bytes left of %d", len(rest), len(data))
			}
		}
	})
}

// FuzzText gives any bytes to every codec as a field of a result set.
func FuzzText(f *testing.F) {
	var codecs []*Codec
	for _, server := range servers {
		for name, table := range recorded(f, server) {
			list, _ := table.compiled(f, server, name, Modes{Time: "isostring"})
			codecs = append(codecs, list...)
			for _, row := range table.Select[:1] {
				for i, field := range row {
					f.Add(uint16(len(codecs)-len(list)+i), field)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint16, data []byte) {
		c := codecs[int(which)%len(codecs)]
		var a debezium.Arena
		if v, err := c.Text(data, &a); err == nil && !v.IsNull() && v.Kind() != c.Schema.Type {
			t.Fatalf("%v of the schema %v", v, c.Schema.Type)
		}
	})
}

// FuzzJSON decodes any bytes as a binary document: what is decoded is JSON.
func FuzzJSON(f *testing.F) {
	table := recorded(f, "mysql")["beyond.documents"]
	_, plan := table.compiled(f, "mysql", "beyond.documents", Modes{})
	var a debezium.Arena
	out := make([]connect.Value, 2)
	for _, e := range table.Events {
		for data := e.Data; len(data) > 0; {
			var err error
			if data, err = plan.Row(data, e.Present, &a, out); err != nil {
				f.Fatal(err)
			}
			f.Add(plan.docs[0], []byte("\x00\x03$.a\x02\x0c\x00"))
		}
	}
	f.Fuzz(func(t *testing.T, doc, diffs []byte) {
		var a debezium.Arena
		v, err := jsonText(doc, &a)
		if err == nil && !json.Valid(v.Bytes()) {
			t.Fatalf("%q is not JSON", v.Str())
		}
		if v, err = patched(doc, diffs, &a); err == nil && !json.Valid(v.Bytes()) {
			t.Fatalf("patched: %q is not JSON", v.Str())
		}
	})
}
