package connect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestPackRoundTrip packs random batches and reads them back, in two packings of one Unpacker: the schemas of both must
// be the same pointers.
func TestPackRoundTrip(t *testing.T) {
	seeds := 300
	if s, err := strconv.Atoi(os.Getenv("WEIR_SEEDS")); err == nil {
		seeds = s
	}
	for seed := range seeds {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 1))}
		want := g.batch()
		packed := AppendBatch(nil, &want)
		var u Unpacker
		got, err := u.Batch(packed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := sameBatch(&want, &got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := u.Batch(AppendBatch(nil, &want))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range again.Records {
			if again.Records[i].Value.schema != got.Records[i].Value.schema {
				t.Fatalf("seed %d: record %d: the schema was not found again", seed, i)
			}
		}
	}
}

func TestPackedEncodedDataNeedsACodec(t *testing.T) {
	codec := &Codec{Format: "json", Decode: func(b []byte) (*Schema, Value, error) { return nil, StringValue(string(b)), nil }}
	packed := AppendRecords(nil, []Record{{Topic: "t", Value: EncodedData([]byte(`{"a":1}`), codec)}})

	var without Unpacker
	records, err := without.Records(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := records[0].Decode(); !errors.Is(err, ErrNotDecoded) {
		t.Errorf("without a codec Decode gives %v, want ErrNotDecoded", err)
	}

	with := Unpacker{Codec: func(format string) *Codec { return codec }}
	if records, err = with.Records(packed); err != nil {
		t.Fatal(err)
	}
	if b, format, ok := records[0].Value.Encoded(); !ok || format != "json" || string(b) != `{"a":1}` {
		t.Errorf("encoded bytes arrived as %q %q %v", b, format, ok)
	}
	if err := records[0].Decode(); err != nil || records[0].Value.Value().Str() != `{"a":1}` {
		t.Errorf("decoded to %v, %v", records[0].Value.Value(), err)
	}
}

func TestUnpackRefusesAValueThatDoesNotFitItsSchema(t *testing.T) {
	s := &Schema{Type: Struct, Fields: []StructField{{"a", &Schema{Type: Int32}}, {"b", &Schema{Type: String}}}}
	for _, v := range []Value{
		StructValue([]Value{Int32Value(1)}),
		StructValue([]Value{Int32Value(1), Int32Value(2)}),
		StringValue("x"),
	} {
		var u Unpacker
		if _, err := u.Records(AppendRecords(nil, []Record{{Value: DataOf(s, v)}})); !errors.Is(err, ErrPacked) {
			t.Errorf("%v under a struct of two: got %v, want ErrPacked", v, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	for seed := range uint64(8) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		b := g.batch()
		f.Add(AppendBatch(nil, &b))
		f.Add(AppendRecords(nil, b.Records))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var u Unpacker
		if records, err := u.Records(b); err == nil {
			if _, err := new(Unpacker).Records(AppendRecords(nil, records)); err != nil {
				t.Fatalf("read once, but not after packing again: %v", err)
			}
		} else if !errors.Is(err, ErrPacked) {
			t.Fatal(err)
		}
		if batch, err := u.Batch(b); err == nil {
			if again, err := new(Unpacker).Batch(AppendBatch(nil, &batch)); err != nil {
				t.Fatalf("read once, but not after packing again: %v", err)
			} else if err := sameBatch(&batch, &again); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkPack(b *testing.B) {
	fields := make([]StructField, 20)
	values := make([]Value, 20)
	for i := range fields {
		fields[i] = StructField{fmt.Sprintf("column_%d", i), &Schema{Type: Int64}}
		values[i] = Int64Value(int64(i) << 20)
		if i%3 == 0 {
			fields[i].Schema, values[i] = &Schema{Type: String}, StringValue("some text of a row")
		}
	}
	s := &Schema{Type: Struct, Name: "row", Fields: fields}
	records := make([]Record, 500)
	for i := range records {
		records[i] = Record{Topic: "server.public.table", Partition: AnyPartition, Timestamp: 1, Key: DataOf(fields[1].Schema, values[1]), Value: DataOf(s, StructValue(values))}
	}
	var buf []byte
	var u Unpacker
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRecords(buf[:0], records)
		if got, err := u.Records(buf); err != nil || len(got) != len(records) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(records)*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// generator makes random batches.
type generator struct{ *rand.Rand }

func (g generator) batch() Batch {
	b := Batch{Seq: g.Uint64N(1000), Sources: []OffsetMap{{{"server", StringValue("s")}}, {{"n", Int64Value(7)}, {"f", Float64Value(1.5)}}}}
	var shapes []*Schema
	for range 3 {
		shapes = append(shapes, g.schema(3))
	}
	for range g.IntN(6) {
		r := Record{Topic: g.str(), Partition: int32(g.IntN(9) - 1), Timestamp: int64(g.Uint64()), Source: g.IntN(2)}
		for _, d := range []*Data{&r.Key, &r.Value} {
			if s := shapes[g.IntN(3)]; g.IntN(4) > 0 {
				d.Set(s, g.value(s))
			} else if g.IntN(2) == 0 {
				d.Set(nil, MapValue([]Value{StringValue("k"), ArrayValue([]Value{{}, BoolValue(true)})}))
			}
		}
		for range g.IntN(3) {
			r.Headers = append(r.Headers, Header{g.str(), DataOf(nil, StringValue(g.str()))})
		}
		if g.IntN(3) == 0 {
			r.Origin = Origin{g.str(), 3, int64(g.Uint32())}
		}
		if g.IntN(5) == 0 {
			r.Fault = &Fault{"reason", []byte(g.str())}
		}
		if g.IntN(5) == 0 {
			r.Raw = &Raw{[]byte(g.str()), 4, 9, 3}
		}
		b.Records = append(b.Records, r)
	}
	for range g.IntN(3) {
		b.Marks = append(b.Marks, Mark{g.IntN(len(b.Records) + 1), g.IntN(2), OffsetMap{{"lsn", Int64Value(g.Int64())}, {"s", StringValue(g.str())}, {"x", Value{}}}, g.IntN(2) == 0})
	}
	return b
}

func (g generator) str() string { return []string{"", "a", "topic", "größe", "\x00\xff"}[g.IntN(5)] }

func (g generator) schema(depth int) *Schema {
	s := &Schema{Type: Kind(1 + g.IntN(12)), Optional: g.IntN(2) == 0, Name: g.str(), Version: g.IntN(3), Doc: g.str()}
	if depth == 0 && s.Type >= Array {
		s.Type = String
	}
	if g.IntN(4) == 0 {
		s.Params = []Param{{"scale", "2"}, {g.str(), g.str()}}
	}
	switch s.Type {
	case Array:
		s.Elem = g.schema(depth - 1)
	case Map:
		s.Key, s.Elem = g.schema(0), g.schema(depth-1)
	case Struct:
		for i := range g.IntN(5) {
			s.Fields = append(s.Fields, StructField{"f" + strconv.Itoa(i), g.schema(depth - 1)})
		}
	default:
		if g.IntN(4) == 0 {
			v := g.value(s)
			s.Default = &v
		}
	}
	return s
}

func (g generator) value(s *Schema) Value {
	if g.IntN(6) == 0 {
		return Value{}
	}
	switch s.Type {
	case Bool:
		return BoolValue(g.IntN(2) == 0)
	case Int8:
		return Int8Value(int8(g.Uint32()))
	case Int16:
		return Int16Value(int16(g.Uint32()))
	case Int32:
		return Int32Value(int32(g.Uint32()))
	case Int64:
		if g.IntN(2) == 0 {
			return NumberText(Int64, "-9223372036854775808")
		}
		return Int64Value(int64(g.Uint64()))
	case Float32:
		return Float32Value(g.Float32())
	case Float64:
		if g.IntN(2) == 0 {
			return NumberText(Float64, "NaN")
		}
		return Float64Value(g.NormFloat64())
	case String:
		return StringValue(g.str())
	case Bytes:
		if g.IntN(2) == 0 {
			return DecimalText("-12.50")
		}
		return BytesValue([]byte(g.str()))
	case Array:
		return ArrayValue([]Value{g.value(s.Elem), g.value(s.Elem)})
	case Map:
		return MapValue([]Value{g.value(s.Key), g.value(s.Elem)})
	}
	fields := make([]Value, len(s.Fields))
	for i := range fields {
		fields[i] = g.value(s.Fields[i].Schema)
	}
	return StructValue(fields)
}

func sameBatch(a, b *Batch) error {
	if a.Seq != b.Seq || len(a.Records) != len(b.Records) || len(a.Marks) != len(b.Marks) || len(a.Sources) != len(b.Sources) {
		return fmt.Errorf("batches differ in size: %d %d %d, %d %d %d", a.Seq, len(a.Records), len(a.Marks), b.Seq, len(b.Records), len(b.Marks))
	}
	for i := range a.Sources {
		if a.Sources[i].String() != b.Sources[i].String() {
			return fmt.Errorf("source %d: %v, %v", i, a.Sources[i], b.Sources[i])
		}
	}
	for i := range a.Marks {
		m, n := a.Marks[i], b.Marks[i]
		if m.After != n.After || m.Source != n.Source || m.EndsTxn != n.EndsTxn || m.Offset.String() != n.Offset.String() {
			return fmt.Errorf("mark %d: %v, %v", i, m, n)
		}
	}
	for i := range a.Records {
		if err := sameRecord(&a.Records[i], &b.Records[i]); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

func sameRecord(a, b *Record) error {
	if a.Topic != b.Topic || a.Partition != b.Partition || a.Timestamp != b.Timestamp || a.Source != b.Source || a.Origin != b.Origin || len(a.Headers) != len(b.Headers) {
		return fmt.Errorf("%+v, %+v", a, b)
	}
	pairs := [][2]Data{{a.Key, b.Key}, {a.Value, b.Value}}
	for i := range a.Headers {
		pairs = append(pairs, [2]Data{a.Headers[i].Value, b.Headers[i].Value})
	}
	for _, p := range pairs {
		if !p[0].schema.Equal(p[1].schema) || !p[0].value.Equal(p[1].value) || string(p[0].bytes) != string(p[1].bytes) {
			return fmt.Errorf("data %v %v, %v %v", p[0].schema, p[0].value, p[1].schema, p[1].value)
		}
	}
	if (a.Fault == nil) != (b.Fault == nil) || a.Fault != nil && (a.Fault.Reason != b.Fault.Reason || string(a.Fault.Bytes) != string(b.Fault.Bytes)) {
		return errors.New("faults differ")
	}
	if (a.Raw == nil) != (b.Raw == nil) || a.Raw != nil && (string(a.Raw.Bytes) != string(b.Raw.Bytes) || a.Raw.First != b.Raw.First || a.Raw.Last != b.Raw.Last || a.Raw.Count != b.Raw.Count) {
		return errors.New("raw batches differ")
	}
	return nil
}
