package value

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// shape decodes what has the same bytes in both forms: geometries and vectors.
func (c *Codec) shape(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if c.op == opVector {
		return vector(raw, a)
	}
	if len(raw) < 4 {
		return connect.Value{}, errors.New("a geometry of less than 4 bytes")
	}
	srid, wkb := connect.Value{}, raw[4:]
	if id := binary.LittleEndian.Uint32(raw); id != 0 {
		srid = connect.Int32Value(int32(id))
	}
	if c.op == opGeometry {
		out := a.Take(2)
		out[0], out[1] = connect.BytesValue(wkb), srid
		return connect.StructValue(out), nil
	}
	x, y, err := pointOf(wkb)
	if err != nil {
		return connect.Value{}, err
	}
	out := a.Take(4)
	out[0], out[1], out[2], out[3] = connect.Float64Value(x), connect.Float64Value(y), connect.BytesValue(wkb), srid
	return connect.StructValue(out), nil
}

// pointOf reads the well-known binary form of a point: byte order, type 1, x, y.
func pointOf(wkb []byte) (x, y float64, err error) {
	if len(wkb) != 21 || wkb[0] > 1 {
		return 0, 0, fmt.Errorf("a point of %d bytes", len(wkb))
	}
	if wkb[0] == 0 {
		return math.Float64frombits(binary.BigEndian.Uint64(wkb[5:])), math.Float64frombits(binary.BigEndian.Uint64(wkb[13:])), nil
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(wkb[5:])), math.Float64frombits(binary.LittleEndian.Uint64(wkb[13:])), nil
}

// vector reads little-endian float32s.
func vector(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if len(raw)%4 != 0 {
		return connect.Value{}, fmt.Errorf("a vector of %d bytes", len(raw))
	}
	out := a.Take(len(raw) / 4)
	for i := range out {
		out[i] = connect.Float32Value(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return connect.ArrayValue(out), nil
}
