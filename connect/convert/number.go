package convert

import (
	"encoding/binary"
	"math"

	"github.com/weirlog/weir/connect"
)

// fixedConverter writes one scalar kind in big-endian bytes of its width, as Kafka's serializers of these names do.
type fixedConverter struct {
	kind   connect.Kind
	width  int // bytes
	schema *connect.Schema
	codec  connect.Codec
}

func newFixed(k connect.Kind) *fixedConverter {
	c := &fixedConverter{kind: k, schema: &connect.Schema{Type: k, Optional: true}}
	switch k {
	case connect.Bool:
		c.width = 1
	case connect.Int16:
		c.width = 2
	case connect.Int32, connect.Float32:
		c.width = 4
	default:
		c.width = 8
	}
	c.codec = connect.Codec{Format: "fixed-" + k.String(), Decode: c.decode}
	return c
}

// Codec is [Converter.Codec].
func (c *fixedConverter) Codec() *connect.Codec { return &c.codec }

// Encode is [Converter.Encode].
func (c *fixedConverter) Encode(dst []byte, _ string, d *connect.Data) ([]byte, bool, error) {
	if b, format, ok := d.Encoded(); ok && format == c.codec.Format {
		return append(dst, b...), false, nil
	}
	if err := d.Decode(); err != nil {
		return dst, false, err
	}
	if s := d.Schema(); c.kind == connect.Bool && s != nil && s.Type != connect.Bool {
		return dst, false, wrongKind(connect.Bool, s.Type)
	}
	if s := d.Schema(); s != nil && logicalOf(s) != noLogical && !d.IsNull() {
		return dst, false, dataErrorf("a %s for a converter of %s", s.Name, c.kind)
	}
	v := d.Value()
	if v.IsNull() {
		return dst, true, nil
	}
	if v.Kind() != c.kind {
		return dst, false, wrongKind(c.kind, v.Kind())
	}
	switch c.kind {
	case connect.Bool:
		if v.Bool() {
			return append(dst, 1), false, nil
		}
		return append(dst, 0), false, nil
	case connect.Int16:
		return binary.BigEndian.AppendUint16(dst, uint16(v.Int())), false, nil
	case connect.Int32:
		return binary.BigEndian.AppendUint32(dst, uint32(v.Int())), false, nil
	case connect.Float32:
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(v.Float()))), false, nil
	case connect.Float64:
		bits := math.Float64bits(v.Float())
		if math.IsNaN(v.Float()) {
			bits = 0x7ff8 << 48 // Java writes one NaN
		}
		return binary.BigEndian.AppendUint64(dst, bits), false, nil
	}
	return binary.BigEndian.AppendUint64(dst, uint64(v.Int())), false, nil
}

func (c *fixedConverter) decode(b []byte) (*connect.Schema, connect.Value, error) {
	if len(b) != c.width {
		return nil, connect.Value{}, dataErrorf("%d bytes where a %s has %d", len(b), c.kind, c.width)
	}
	switch c.kind {
	case connect.Bool:
		if b[0] > 1 {
			return nil, connect.Value{}, dataErrorf("the byte %#x is no boolean", b[0])
		}
		return c.schema, connect.BoolValue(b[0] == 1), nil
	case connect.Int16:
		return c.schema, connect.Int16Value(int16(binary.BigEndian.Uint16(b))), nil
	case connect.Int32:
		return c.schema, connect.Int32Value(int32(binary.BigEndian.Uint32(b))), nil
	case connect.Float32:
		return c.schema, connect.Float32Value(math.Float32frombits(binary.BigEndian.Uint32(b))), nil
	case connect.Float64:
		return c.schema, connect.Float64Value(math.Float64frombits(binary.BigEndian.Uint64(b))), nil
	}
	return c.schema, connect.Int64Value(int64(binary.BigEndian.Uint64(b))), nil
}

// fixedHeaders is a fixedConverter as a header converter.
type fixedHeaders struct{ *fixedConverter }

// Encode is [HeaderConverter.Encode].
func (h fixedHeaders) Encode(dst []byte, topic, _ string, d *connect.Data) ([]byte, bool, error) {
	return h.fixedConverter.Encode(dst, topic, d)
}

// bytesConverter is Kafka Connect's ByteArrayConverter: bytes as they are.
type bytesConverter struct {
	codec connect.Codec
}

func newBytes() *bytesConverter {
	return &bytesConverter{codec: connect.Codec{Format: formatBytes, Decode: func(b []byte) (*connect.Schema, connect.Value, error) {
		return optionalBytes, connect.BytesValue(append([]byte{}, b...)), nil
	}}}
}

// Codec is [Converter.Codec].
func (c *bytesConverter) Codec() *connect.Codec { return &c.codec }

// Encode is [Converter.Encode].
func (c *bytesConverter) Encode(dst []byte, _ string, d *connect.Data) ([]byte, bool, error) {
	if b, format, ok := d.Encoded(); ok && format == formatBytes {
		return append(dst, b...), false, nil
	}
	if err := d.Decode(); err != nil {
		return dst, false, err
	}
	if s := d.Schema(); s != nil && s.Type != connect.Bytes {
		return dst, false, wrongKind(connect.Bytes, s.Type)
	}
	v := d.Value()
	_, isText := v.Text()
	switch {
	case v.IsNull():
		return dst, true, nil
	case v.Kind() != connect.Bytes:
		return dst, false, wrongKind(connect.Bytes, v.Kind())
	case isText || d.Schema() != nil && logicalOf(d.Schema()) == decimalLogical:
		return dst, false, dataErrorf("a Decimal for a converter of bytes")
	}
	return append(dst, v.Bytes()...), false, nil
}

// bytesHeaders is the ByteArrayConverter as a header converter.
type bytesHeaders struct{ *bytesConverter }

// Encode is [HeaderConverter.Encode].
func (h bytesHeaders) Encode(dst []byte, topic, _ string, d *connect.Data) ([]byte, bool, error) {
	return h.bytesConverter.Encode(dst, topic, d)
}
