package connect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// ErrPacked is returned for bytes that are not the packed form.
var ErrPacked = errors.New("connect: malformed packed records")

const (
	maxPackedDepth   = 64   // nesting of values
	maxKnownSchemas  = 4096 // schemas an Unpacker remembers before it starts afresh
	unpackedSlabSize = 512  // Values allocated at a time
)

// Unpacker reads the packed form. It gives the same *Schema for the same schema in every call, so that what others
// compile per schema is found again. The zero value is ready; it is for one goroutine at a time.
type Unpacker struct {
	// Codec gives the decoder of a format for data that crossed encoded; nil, or a nil answer, makes Decode fail.
	Codec func(format string) *Codec

	known map[string]*Schema
	ids   map[*Schema]uint64
}

// Records reads what [AppendRecords] wrote. The records share b.
func (u *Unpacker) Records(b []byte) (records []Record, err error) {
	r := reader{b: b, u: u}
	defer r.recoverTo(&err)
	r.version()
	r.schemaTable()
	records = r.records()
	r.end()
	return records, nil
}

// Batch reads what [AppendBatch] wrote. The batch shares b.
func (u *Unpacker) Batch(b []byte) (batch Batch, err error) {
	r := reader{b: b, u: u}
	defer r.recoverTo(&err)
	r.version()
	batch.Seq = r.uvarint()
	if n := r.count(1); n > 0 {
		batch.Sources = make([]OffsetMap, n)
		for i := range batch.Sources {
			batch.Sources[i] = r.offsetMap()
		}
	}
	r.schemaTable()
	batch.Records = r.records()
	if n := r.count(4); n > 0 {
		batch.Marks = make([]Mark, n)
	}
	for i := range batch.Marks {
		m := &batch.Marks[i]
		m.After, m.Source, m.EndsTxn = int(r.uvarint()), int(r.uvarint()), r.byte() == 1
		m.Offset = r.offsetMap()
		if m.After < 0 || m.After > len(batch.Records) || m.Source < 0 || m.Source >= len(batch.Sources) {
			r.fail("mark out of range")
		}
	}
	for i := range batch.Records {
		if s := batch.Records[i].Source; s != 0 && s >= len(batch.Sources) {
			r.fail("source out of range")
		}
	}
	r.end()
	return batch, nil
}

// reader walks one packed text; a fault unwinds to recoverTo.
type reader struct {
	b       []byte
	at      int
	u       *Unpacker
	schemas []*Schema
	refs    []string
	slab    []Value
}

type packedFault struct{ what string }

func (r *reader) fail(what string) { panic(packedFault{what}) }

//nolint:revive // it is deferred itself, by Records and Batch
func (r *reader) recoverTo(err *error) {
	switch f := recover().(type) {
	case nil:
	case packedFault:
		*err = fmt.Errorf("%w: %s at byte %d of %d", ErrPacked, f.what, r.at, len(r.b))
	default:
		panic(f)
	}
}

func (r *reader) version() {
	if v := r.byte(); v != packVersion {
		r.fail(fmt.Sprintf("version %d", v))
	}
}

func (r *reader) end() {
	if r.at != len(r.b) {
		r.fail("bytes left over")
	}
}

func (r *reader) byte() byte {
	if r.at >= len(r.b) {
		r.fail("cut short")
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail("bad varint")
	}
	r.at += n
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b[r.at:])
	if n <= 0 {
		r.fail("bad varint")
	}
	r.at += n
	return v
}

// count reads a number of things that take at least minBytes each.
func (r *reader) count(minBytes int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)-r.at)/uint64(minBytes) {
		r.fail("count larger than what follows")
	}
	return int(n)
}

func (r *reader) take(n int) []byte {
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *reader) bytes() []byte { return r.take(r.count(1)) }

func (r *reader) str() string { return unsafeString(r.bytes()) }

// kept reads a string that outlives b.
func (r *reader) kept() string { return strings.Clone(r.str()) }

func (r *reader) ref() string {
	k := r.uvarint()
	if k == 0 {
		s := r.str()
		r.refs = append(r.refs, s)
		return s
	}
	if k > uint64(len(r.refs)) {
		r.fail("string reference out of range")
	}
	return r.refs[k-1]
}

func (r *reader) offsetMap() OffsetMap {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if n-1 > uint64(len(r.b)-r.at)/2 {
		r.fail("count larger than what follows")
	}
	m := make(OffsetMap, n-1)
	for i := range m {
		m[i].Name = r.kept()
		m[i].Value = r.value(0).Clone()
	}
	return m
}

func (r *reader) schemaTable() {
	n := r.count(9)
	r.schemas = make([]*Schema, 0, n)
	if r.u.known == nil || len(r.u.known) > maxKnownSchemas {
		r.u.known, r.u.ids = make(map[string]*Schema), make(map[*Schema]uint64)
	}
	for range n {
		r.schemas = append(r.schemas, r.schema())
	}
}

// schema reads one schema and gives the one known from before, if any. Two are the same when their own bytes are and
// their children are the same pointers.
func (r *reader) schema() *Schema {
	from := r.at
	s := &Schema{Type: Kind(r.byte())}
	flags := r.byte()
	s.Optional = flags&1 != 0
	s.Name, s.Version, s.Doc = r.kept(), int(r.varint()), r.kept()
	if n := r.count(2); n > 0 {
		s.Params = make([]Param, n)
		for i := range s.Params {
			s.Params[i] = Param{r.kept(), r.kept()}
		}
	}
	if flags&2 != 0 {
		v := r.value(0).Clone()
		s.Default = &v
	}
	var identity []byte
	if n := r.count(2); n > 0 {
		s.Fields = make([]StructField, n)
		for i := range s.Fields {
			s.Fields[i].Name = r.kept()
			s.Fields[i].Schema = r.schemaAt(r.uvarint())
			identity = binary.AppendUvarint(identity, r.u.ids[s.Fields[i].Schema])
		}
	}
	for _, child := range []**Schema{&s.Key, &s.Elem} {
		if k := r.uvarint(); k > 0 {
			*child = r.schemaAt(k - 1)
			identity = binary.AppendUvarint(identity, r.u.ids[*child])
		}
	}
	if s.Type > Struct {
		r.fail("unknown kind")
	}
	key := string(r.b[from:r.at]) + string(identity)
	if old := r.u.known[key]; old != nil {
		return old
	}
	r.u.known[key], r.u.ids[s] = s, uint64(len(r.u.ids))
	return s
}

func (r *reader) schemaAt(i uint64) *Schema {
	if i >= uint64(len(r.schemas)) {
		r.fail("schema index out of range")
	}
	return r.schemas[i]
}

func (r *reader) records() []Record {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	out := make([]Record, n)
	for i := range out {
		r.record(&out[i])
	}
	return out
}

func (r *reader) record(rec *Record) {
	flags := r.byte()
	rec.LogAppendTime = flags&8 != 0
	rec.Topic, rec.Partition, rec.Timestamp, rec.Source = r.ref(), int32(r.varint()), r.varint(), int(r.uvarint())
	if rec.Source < 0 {
		r.fail("source out of range")
	}
	if flags&1 != 0 {
		rec.Origin = Origin{r.ref(), int32(r.varint()), r.varint()}
	}
	r.data(&rec.Key)
	r.data(&rec.Value)
	if n := r.count(2); n > 0 {
		rec.Headers = make([]Header, n)
		for i := range rec.Headers {
			rec.Headers[i].Key = r.ref()
			r.data(&rec.Headers[i].Value)
		}
	}
	if flags&2 != 0 {
		rec.Fault = &Fault{Reason: r.str(), Bytes: r.bytes()}
	}
	if flags&4 != 0 {
		rec.Raw = &Raw{Bytes: r.bytes(), First: r.varint(), Last: r.varint(), Count: int(r.uvarint())}
	}
}

func (r *reader) data(d *Data) {
	switch r.byte() {
	case 0:
	case 1:
		if k := r.uvarint(); k > 0 {
			d.schema = r.schemaAt(k - 1)
		}
		d.value = r.value(0)
		if d.schema != nil && !fits(d.schema, d.value) {
			r.fail("value does not fit its schema")
		}
	case 2:
		format := r.ref()
		b := r.bytes()
		if r.u.Codec != nil {
			d.codec = r.u.Codec(format)
		}
		if d.codec == nil {
			d.codec = &Codec{Format: format, Decode: func([]byte) (*Schema, Value, error) {
				return nil, Value{}, fmt.Errorf("no decoder of format %q in this process", format)
			}}
		}
		d.bytes = b
	default:
		r.fail("unknown data tag")
	}
}

func (r *reader) value(depth int) Value {
	tag := r.byte()
	k := Kind(tag & 0x0f)
	if tag&0x20 != 0 {
		switch {
		case k >= Int8 && k <= Float64:
			return NumberText(k, r.str())
		case k == Bytes:
			return DecimalText(r.str())
		}
		r.fail("unknown value tag")
	}
	switch k {
	case Null:
		return Value{}
	case Bool:
		return BoolValue(tag&0x10 != 0)
	case Int8, Int16, Int32, Int64:
		return IntValue(k, r.varint())
	case Float32:
		r.need(4)
		return Float32Value(math.Float32frombits(binary.LittleEndian.Uint32(r.take(4))))
	case Float64:
		r.need(8)
		return Float64Value(math.Float64frombits(binary.LittleEndian.Uint64(r.take(8))))
	case String:
		return StringValue(r.str())
	case Bytes:
		return BytesValue(r.bytes())
	case Array, Map, Struct:
		return r.items(k, depth+1)
	}
	r.fail("unknown value tag")
	return Value{}
}

func (r *reader) need(n int) {
	if len(r.b)-r.at < n {
		r.fail("cut short")
	}
}

func (r *reader) items(k Kind, depth int) Value {
	n := r.count(1)
	if depth > maxPackedDepth || k == Map && n%2 != 0 {
		r.fail("list too deep or uneven")
	}
	if len(r.slab) < n {
		r.slab = make([]Value, max(n, unpackedSlabSize))
	}
	items := r.slab[:n:n]
	r.slab = r.slab[n:]
	for i := range items {
		items[i] = r.value(depth)
	}
	return Value{kind: k, ptr: unsafe.Pointer(unsafe.SliceData(items)), n: n}
}

// fits reports whether a value has the shape of its schema, so that users may index a struct by its schema's fields.
func fits(s *Schema, v Value) bool {
	if v.kind == Null {
		return true
	}
	if v.kind != s.Type {
		return false
	}
	items := v.Items()
	switch s.Type {
	case Struct:
		if len(items) != len(s.Fields) {
			return false
		}
		for i := range items {
			if items[i].kind >= Array && !fits(s.Fields[i].Schema, items[i]) || items[i].kind != Null && items[i].kind != s.Fields[i].Schema.Type {
				return false
			}
		}
	case Array, Map:
		for i := range items {
			elem := s.Elem
			if s.Type == Map && i%2 == 0 {
				elem = s.Key
			}
			if elem == nil || !fits(elem, items[i]) {
				return false
			}
		}
	}
	return true
}
