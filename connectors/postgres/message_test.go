package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// golden are the messages of one transaction of a real server (PostgreSQL 15): begin, relation, insert, relation again
// with REPLICA IDENTITY FULL, update, delete, truncate, commit.
var golden = []string{
	"420000000001925fd800030487b9b1552b000002d7",
	"52000040017075626c6963007466006400030169640000000017ffffffff00760000000019ffffffff006e00000006a4000a0006",
	"49000040014e000374000000013174000000036162636e",
	"52000040017075626c6963007466006600030169640000000017ffffffff01760000000019ffffffff016e00000006a4000a0006",
	"55000040014f000374000000013174000000036162636e4e000374000000013174000000036162637400000004312e3530",
	"44000040014f000374000000013174000000036162637400000004312e3530",
	"54000000010000004001",
	"43000000000001925fd8000000000192619000030487b9b1552b",
}

func goldenBytes(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, h := range golden {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// testDecoder is a decoder without a server.
func testDecoder(t testing.TB) *decoder {
	t.Helper()
	s, err := parseSettings(connect.Config{"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "skipped.operations": "none"})
	if err != nil {
		t.Fatal(err)
	}
	shared := newSchemas()
	types := typeMapper{modes: s.types, types: map[uint32]*typeInfo{}}
	return &decoder{settings: s, batch: &batchBuilder{Batch: s.NewBatch("postgresql", 0)}, relations: map[uint32]*relation{}, done: position{commit: 1},
		resolve: func(_ context.Context, m *relationMessage) (*relation, error) {
			return buildRelation(s, &types, shared, m, &tableShape{name: m.name, keys: [][]string{{"id"}}}, nil), nil
		}}
}

func TestGoldenMessages(t *testing.T) {
	d := testDecoder(t)
	for i, b := range goldenBytes(t) {
		if err := d.message(context.Background(), &xlogData{startLSN: uint64(100 + i), data: b}); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	var got []string
	for _, r := range d.batch.Records() {
		text := r.Key.Value().String()
		if !r.Value.IsNull() {
			v := r.Value.Value().Items()
			text += fmt.Sprint(" ", v[debezium.EnvelopeOp], v[debezium.EnvelopeBefore], v[debezium.EnvelopeAfter])
		}
		got = append(got, text)
	}
	want := []string{`[1] "c" null [1 "abc" null]`, `[1] "u" [1 "abc" null] [1 "abc" 1.50]`, `[1] "d" [1 "abc" 1.50] null`, `[1]`, `null "t" null null`}
	if !slices.Equal(got, want) {
		t.Errorf("records\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d.done.commit != 0x1926190 || d.done.inside || d.done.xid != 0x2d7 {
		t.Errorf("position %+v", d.done)
	}
}

// FuzzWALMessage: any bytes give records or an error, never a panic; what pglogrepl reads as a change, we read alike.
func FuzzWALMessage(f *testing.F) {
	for _, b := range goldenBytes(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := testDecoder(t)
		for i, b := range goldenBytes(t)[:2] { // inside a transaction, with a relation
			if err := d.message(context.Background(), &xlogData{startLSN: uint64(i), data: b}); err != nil {
				t.Fatal(err)
			}
		}
		if len(data) == 0 {
			return
		}
		err := d.message(context.Background(), &xlogData{startLSN: 99, data: data})
		for _, r := range d.batch.Records() {
			_ = r.Value.Value().String()
		}
		if err == nil && (data[0] == 'I' || data[0] == 'U') { // what we refuse may make pglogrepl take gigabytes
			compareChange(t, data)
		}
	})
}

func compareChange(t *testing.T, data []byte) {
	t.Helper()
	m, err := pglogrepl.Parse(bytes.Clone(data))
	if err != nil {
		return
	}
	var theirs *pglogrepl.TupleData
	var reader changeReader
	switch m := m.(type) {
	case *pglogrepl.InsertMessage:
		theirs = m.Tuple
	case *pglogrepl.UpdateMessage:
		theirs = m.NewTuple
	}
	ours, err := reader.read(data[0], data[1:])
	if err != nil || theirs == nil {
		return
	}
	if len(ours.new) != len(theirs.Columns) {
		t.Fatalf("%d columns, pglogrepl has %d", len(ours.new), len(theirs.Columns))
	}
	for i, c := range theirs.Columns {
		if c.DataType != ours.new[i].kind || !bytes.Equal(c.Data, ours.new[i].text) {
			t.Fatalf("column %d: %c %q, pglogrepl has %c %q", i, ours.new[i].kind, ours.new[i].text, c.DataType, c.Data)
		}
	}
}

// FuzzValues: the text of no type makes its decoder panic.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"1", "-12.50", "{1,NULL,\"a\\\"b\"}", `"a"=>"1", "b"=>NULL`, "2020-01-02 03:04:05.6+02 BC", "P1Y2M3DT4H5M6.7S", `\x00ff`, "(1,2)", "-$1,234.50", "24:00:00+05:30:15", "[0:1]={1,2}"} {
		f.Add([]byte(s))
	}
	modes := []typeModes{
		{decimal: "precise", time: "adaptive", binary: "bytes", hstore: "json", interval: "numeric", moneyScale: 2},
		{decimal: "string", time: "isostring", binary: "base64", hstore: "map", interval: "string"},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range modes {
			mapper := typeMapper{modes: m, types: map[uint32]*typeInfo{20000: {oid: 20000, name: "hstore", kind: "b"}}}
			for _, oid := range []uint32{16, 17, 20, 21, 23, 25, 114, 600, 700, 701, 790, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700, 1231, 1007, 1009, 1185, 1001, 20000} {
				c := mapper.codec(oid, -1)
				if c.kind == codecDrop {
					t.Fatalf("type %d has no codec", oid)
				}
				v, err := c.decode(bytes.Clone(text), &debezium.Arena{})
				if err == nil {
					_ = v.String()
				}
			}
		}
		_, _ = copyRow(bytes.Clone(text), nil)
		_, _ = literalDefault(string(text))
	})
}

func BenchmarkDecodeInsert(b *testing.B) {
	d := testDecoder(b)
	messages := goldenBytes(b)
	row := append([]byte{'I'}, binary.BigEndian.AppendUint32(nil, 0x4001)...)
	row = append(row, 'N', 0, 3)
	for _, text := range []string{"123456789", "a text of a usual length, some forty bytes", "12345.67"} {
		row = append(append(append(row, 't'), binary.BigEndian.AppendUint32(nil, uint32(len(text)))...), text...)
	}
	for i := range 2 {
		if err := d.message(context.Background(), &xlogData{startLSN: uint64(i), data: messages[i]}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(row)))
	n := 0
	for b.Loop() {
		if n++; n%2048 == 0 {
			d.batch.Release()
		}
		if err := d.message(context.Background(), &xlogData{startLSN: uint64(100 + n), data: row}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
