package convert

import (
	"fmt"
	"testing"

	"github.com/weirlog/weir/connect"
)

// benchEvent is an update of a table with 20 columns in Debezium's envelope, numbers held as a database sends them.
func benchEvent() (*connect.Schema, connect.Value) {
	opt := func(k connect.Kind) *connect.Schema { return &connect.Schema{Type: k, Optional: true} }
	row := &connect.Schema{Type: connect.Struct, Optional: true, Name: "srv.public.orders.Value"}
	var items []connect.Value
	add := func(s *connect.Schema, v connect.Value) {
		row.Fields = append(row.Fields, connect.StructField{Name: fmt.Sprintf("column_%d", len(items)), Schema: s})
		items = append(items, v)
	}
	decimal := &connect.Schema{Type: connect.Bytes, Optional: true, Name: connect.DecimalName, Version: 1, Params: []connect.Param{{Name: "scale", Value: "2"}}}
	for i := range 4 {
		add(opt(connect.Int64), connect.NumberText(connect.Int64, fmt.Sprint(1_000_000+i)))
		add(opt(connect.String), connect.StringValue("some text of a row, not very long"))
		add(decimal, connect.DecimalText("12345.67"))
		add(opt(connect.Float64), connect.NumberText(connect.Float64, "3.25"))
		add(&connect.Schema{Type: connect.Int64, Name: "io.debezium.time.MicroTimestamp", Version: 1}, connect.Int64Value(1700000000123456))
	}
	str, i64 := &connect.Schema{Type: connect.String}, opt(connect.Int64)
	src := &connect.Schema{Type: connect.Struct, Name: "io.debezium.connector.postgresql.Source"}
	for _, n := range []string{"version", "connector", "name", "db", "schema", "table"} {
		src.Fields = append(src.Fields, connect.StructField{Name: n, Schema: str})
	}
	for _, n := range []string{"ts_ms", "lsn", "txId"} {
		src.Fields = append(src.Fields, connect.StructField{Name: n, Schema: i64})
	}
	s := &connect.Schema{Type: connect.Struct, Name: "srv.public.orders.Envelope", Version: 2, Fields: []connect.StructField{
		{Name: "before", Schema: row}, {Name: "after", Schema: row}, {Name: "source", Schema: src}, {Name: "op", Schema: str}, {Name: "ts_ms", Schema: i64}}}
	sv := connect.StringValue
	source := connect.StructValue([]connect.Value{sv("3.6.1.Final"), sv("postgresql"), sv("srv"), sv("db"), sv("public"), sv("orders"), connect.Int64Value(1700000000123), connect.Int64Value(24023136), connect.Int64Value(771)})
	return s, connect.StructValue([]connect.Value{{}, connect.StructValue(items), source, sv("u"), connect.Int64Value(1700000000500)})
}

// TestEncodeAllocates: the hot path makes nothing.
func TestEncodeAllocates(t *testing.T) {
	s, v := benchEvent()
	for _, props := range []map[string]string{{"schemas.enable": "false"}, {"schemas.enable": "true"}, {"schemas.enable": "false", "decimal.format": "NUMERIC"}} {
		c := open(t, "json", props)
		d := connect.DataOf(s, v)
		buf := make([]byte, 0, 64<<10)
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := c.Encode(buf, "t", &d); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations per event", props, n)
		}
	}
}

func BenchmarkEncodePlain(b *testing.B)   { benchEncode(b, "false") }
func BenchmarkEncodeSchemas(b *testing.B) { benchEncode(b, "true") }

func benchEncode(b *testing.B, schemas string) {
	s, v := benchEvent()
	c := open(b, "json", map[string]string{"schemas.enable": schemas})
	d := connect.DataOf(s, v)
	buf := make([]byte, 0, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		out, _, err := c.Encode(buf, "t", &d)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(out)))
	}
}

func BenchmarkDecodePlain(b *testing.B)   { benchDecode(b, "false") }
func BenchmarkDecodeSchemas(b *testing.B) { benchDecode(b, "true") }

func benchDecode(b *testing.B, schemas string) {
	s, v := benchEvent()
	c := open(b, "json", map[string]string{"schemas.enable": schemas})
	in := connect.DataOf(s, v)
	text, _, err := c.Encode(nil, "t", &in)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d := connect.EncodedData(text, c.Codec())
		if err := d.Decode(); err != nil {
			b.Fatal(err)
		}
	}
}
