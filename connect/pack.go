package connect

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// The packed form: how records cross a process border, in one bytes field. It is not stored on disk.
//
//	packed   = version(1 byte, = 1) schemas records
//	batch    = version seq:uvarint sources:n×map schemas records marks:n×(after:uvarint source:uvarint endsTxn:byte map)
//	schemas  = n:uvarint, n × schema            children come before their parents and are named by their index
//	schema   = kind:byte flags:byte name:str version:varint doc:str params:n×(str str) default:value?
//	           fields:n×(str index) key:index+1 elem:index+1            flags: 1 optional, 2 has default
//	records  = n:uvarint, n × record
//	record   = flags:byte topic:ref partition:varint timestamp:varint source:uvarint
//	           [origin: ref varint varint] key:data value:data headers:n×(ref data)
//	           [fault: str str] [raw: str varint varint uvarint]        flags: 1 origin, 2 fault, 4 raw, 8 LogAppendTime
//	data     = 0 | 1 schemaIndex+1:uvarint value | 2 format:ref str     null, a value, encoded bytes
//	value    = tag:byte …    low 4 bits kind, 0x10 true, 0x20 held as text
//	ref      = 0 str | k     a string seen for the first time, or the k-th of those
//	str      = length:uvarint bytes
//
// varint is zigzag. A value's numbers are a varint (integers) or 4 or 8 little-endian bytes (floats).
const packVersion = 1

// AppendRecords appends records in the packed form. Data that is still encoded stays encoded.
func AppendRecords(dst []byte, records []Record) []byte {
	p := packer{}
	body := p.records(nil, records)
	dst = append(dst, packVersion)
	dst = p.schemaTable(dst)
	return append(dst, body...)
}

// AppendBatch appends a source's batch in the packed form.
func AppendBatch(dst []byte, b *Batch) []byte {
	p := packer{}
	body := p.records(nil, b.Records)
	dst = append(dst, packVersion)
	dst = binary.AppendUvarint(dst, b.Seq)
	dst = binary.AppendUvarint(dst, uint64(len(b.Sources)))
	for _, m := range b.Sources {
		dst = appendMap(dst, m)
	}
	dst = p.schemaTable(dst)
	dst = append(dst, body...)
	dst = binary.AppendUvarint(dst, uint64(len(b.Marks)))
	for i := range b.Marks {
		m := &b.Marks[i]
		dst = binary.AppendUvarint(dst, uint64(m.After))
		dst = binary.AppendUvarint(dst, uint64(m.Source))
		dst = append(dst, boolByte(m.EndsTxn))
		dst = appendMap(dst, m.Offset)
	}
	return dst
}

// packer holds the tables of one packed text.
type packer struct {
	index   map[*Schema]uint64
	schemas []*Schema
	last    *Schema // the schema looked up last, and its index
	lastAt  uint64
	refs    map[string]uint64
}

// schema gives a schema's index, adding it after its children.
func (p *packer) schema(s *Schema) uint64 {
	if s == p.last && s != nil {
		return p.lastAt
	}
	at, ok := p.index[s]
	if !ok {
		for i := range s.Fields {
			p.schema(s.Fields[i].Schema)
		}
		if s.Key != nil {
			p.schema(s.Key)
		}
		if s.Elem != nil {
			p.schema(s.Elem)
		}
		if p.index == nil {
			p.index = make(map[*Schema]uint64)
		}
		at = uint64(len(p.schemas))
		p.schemas = append(p.schemas, s)
		p.index[s] = at
	}
	p.last, p.lastAt = s, at
	return at
}

func (p *packer) schemaTable(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.schemas)))
	for _, s := range p.schemas {
		flags := boolByte(s.Optional)
		if s.Default != nil {
			flags |= 2
		}
		dst = append(dst, byte(s.Type), flags)
		dst = appendStr(dst, s.Name)
		dst = binary.AppendVarint(dst, int64(s.Version))
		dst = appendStr(dst, s.Doc)
		dst = binary.AppendUvarint(dst, uint64(len(s.Params)))
		for _, q := range s.Params {
			dst = appendStr(appendStr(dst, q.Name), q.Value)
		}
		if s.Default != nil {
			dst = appendValue(dst, *s.Default)
		}
		dst = binary.AppendUvarint(dst, uint64(len(s.Fields)))
		for i := range s.Fields {
			dst = appendStr(dst, s.Fields[i].Name)
			dst = binary.AppendUvarint(dst, p.index[s.Fields[i].Schema])
		}
		dst = p.child(dst, s.Key)
		dst = p.child(dst, s.Elem)
	}
	return dst
}

func (p *packer) child(dst []byte, s *Schema) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, p.index[s]+1)
}

func (p *packer) records(dst []byte, records []Record) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	for i := range records {
		dst = p.record(dst, &records[i])
	}
	return dst
}

func (p *packer) record(dst []byte, r *Record) []byte {
	var flags byte
	if r.Origin != (Origin{}) {
		flags |= 1
	}
	if r.Fault != nil {
		flags |= 2
	}
	if r.Raw != nil {
		flags |= 4
	}
	if r.LogAppendTime {
		flags |= 8
	}
	dst = append(dst, flags)
	dst = p.ref(dst, r.Topic)
	dst = binary.AppendVarint(dst, int64(r.Partition))
	dst = binary.AppendVarint(dst, r.Timestamp)
	dst = binary.AppendUvarint(dst, uint64(r.Source))
	if flags&1 != 0 {
		dst = p.ref(dst, r.Origin.Topic)
		dst = binary.AppendVarint(dst, int64(r.Origin.Partition))
		dst = binary.AppendVarint(dst, r.Origin.Offset)
	}
	dst = p.data(dst, &r.Key)
	dst = p.data(dst, &r.Value)
	dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
	for i := range r.Headers {
		dst = p.ref(dst, r.Headers[i].Key)
		dst = p.data(dst, &r.Headers[i].Value)
	}
	if r.Fault != nil {
		dst = appendStr(dst, r.Fault.Reason)
		dst = appendStr(dst, unsafeString(r.Fault.Bytes))
	}
	if r.Raw != nil {
		dst = appendStr(dst, unsafeString(r.Raw.Bytes))
		dst = binary.AppendVarint(dst, r.Raw.First)
		dst = binary.AppendVarint(dst, r.Raw.Last)
		dst = binary.AppendUvarint(dst, uint64(r.Raw.Count))
	}
	return dst
}

func (p *packer) data(dst []byte, d *Data) []byte {
	if b, format, ok := d.Encoded(); ok && !d.decoded {
		dst = p.ref(append(dst, 2), format)
		return appendStr(dst, unsafeString(b))
	}
	if d.schema == nil && d.value.IsNull() {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	if d.schema == nil {
		dst = append(dst, 0)
	} else {
		dst = binary.AppendUvarint(dst, p.schema(d.schema)+1)
	}
	return appendValue(dst, d.value)
}

func (p *packer) ref(dst []byte, s string) []byte {
	if k, ok := p.refs[s]; ok {
		return binary.AppendUvarint(dst, k)
	}
	if p.refs == nil {
		p.refs = make(map[string]uint64)
	}
	p.refs[s] = uint64(len(p.refs) + 1)
	return appendStr(append(dst, 0), s)
}

func appendMap(dst []byte, m OffsetMap) []byte {
	if m == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m))+1)
	for i := range m {
		dst = appendValue(appendStr(dst, m[i].Name), m[i].Value)
	}
	return dst
}

func appendValue(dst []byte, v Value) []byte {
	tag := byte(v.kind)
	if v.form != plain {
		return appendStr(append(dst, tag|0x20), v.str())
	}
	switch v.kind {
	case Bool:
		if v.num != 0 {
			tag |= 0x10
		}
		return append(dst, tag)
	case Int8, Int16, Int32, Int64:
		return binary.AppendVarint(append(dst, tag), int64(v.num))
	case Float32:
		return binary.LittleEndian.AppendUint32(append(dst, tag), math.Float32bits(float32(v.Float())))
	case Float64:
		return binary.LittleEndian.AppendUint64(append(dst, tag), v.num)
	case String, Bytes:
		return appendStr(append(dst, tag), v.str())
	case Array, Map, Struct:
		items := v.Items()
		dst = binary.AppendUvarint(append(dst, tag), uint64(len(items)))
		for i := range items {
			dst = appendValue(dst, items[i])
		}
		return dst
	}
	return append(dst, tag)
}

func appendStr(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
