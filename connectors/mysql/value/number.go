package value

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

var errShort = errors.New("the row image ends within a value")

// integer reads a little-endian integer of 1, 2, 3, 4 or 8 bytes.
func (c *Codec) integer(raw []byte) (connect.Value, error) {
	var n int64
	switch len(raw) {
	case 1:
		if n = int64(raw[0]); !c.unsigned {
			n = int64(int8(raw[0]))
		}
	case 2:
		u := binary.LittleEndian.Uint16(raw)
		if n = int64(u); !c.unsigned {
			n = int64(int16(u))
		}
	case 3:
		n = int64(raw[0]) | int64(raw[1])<<8 | int64(raw[2])<<16
		if !c.unsigned && n >= 1<<23 {
			n -= 1 << 24
		}
	case 4:
		u := binary.LittleEndian.Uint32(raw)
		if n = int64(u); !c.unsigned {
			n = int64(int32(u))
		}
	default:
		n = int64(binary.LittleEndian.Uint64(raw))
	}
	return connect.IntValue(c.number, n), nil
}

// integerText keeps the text but for leading zeros (ZEROFILL) and what only wraps into the kind.
func (c *Codec) integerText(text []byte) (connect.Value, error) {
	if !isInteger(text) {
		return connect.Value{}, fmt.Errorf("%q is not an integer", text)
	}
	for len(text) > 1 && text[0] == '0' {
		text = text[1:]
	}
	if c.unsigned && len(text) >= 19 {
		u, err := strconv.ParseUint(debezium.AsString(text), 10, 64)
		return connect.Int64Value(int64(u)), err
	}
	return connect.NumberText(c.number, debezium.AsString(text)), nil
}

func isInteger(text []byte) bool {
	digits := text
	if len(text) > 0 && text[0] == '-' {
		digits = text[1:]
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return false
		}
	}
	return len(digits) > 0
}

// wide is BIGINT UNSIGNED as a decimal.
func wide(raw []byte, a *debezium.Arena) connect.Value {
	return connect.DecimalText(a.KeepString(strconv.AppendUint(a.Scratch(20), binary.LittleEndian.Uint64(raw), 10)))
}

// float reads a FLOAT or DOUBLE; a FLOAT under a schema of float64 is the float64 of the same number.
func (c *Codec) float(raw []byte) (connect.Value, error) {
	f := 0.0
	if len(raw) == 4 {
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	} else {
		f = math.Float64frombits(binary.LittleEndian.Uint64(raw))
	}
	return c.floatValue(f), nil
}

func (c *Codec) floatText(text []byte) (connect.Value, error) {
	f, err := strconv.ParseFloat(debezium.AsString(text), 64)
	if err != nil {
		return connect.Value{}, fmt.Errorf("%q is not a float", text)
	}
	if c.single {
		f = float64(float32(f))
	}
	return c.floatValue(f), nil
}

func (c *Codec) floatValue(f float64) connect.Value {
	if c.number == connect.Float32 {
		return connect.Float32Value(float32(f))
	}
	return connect.Float64Value(f)
}

// decimalBytes gives the bytes that this many decimal digits of a group of nine take.
func decimalBytes(digits int) int { return (digits*4 + 8) / 9 }

func decimalFrame(precision, scale int) (frame, error) {
	if precision > 65 || scale > precision || precision == 0 {
		return frame{}, fmt.Errorf("DECIMAL(%d,%d)", precision, scale)
	}
	whole := precision - scale
	return frame{fixed: whole/9*4 + decimalBytes(whole%9) + scale/9*4 + decimalBytes(scale%9)}, nil
}

// appendDecimal appends the text of a binary decimal: groups of nine digits in four bytes each, the odd digits outermost,
// all bits inverted of a negative one, the first bit inverted.
func appendDecimal(out, raw []byte, precision, scale int) []byte {
	mask := byte(0)
	if raw[0]&0x80 == 0 {
		mask = 0xFF
		out = append(out, '-')
	}
	start, at := len(out), 0
	group := func(digits int) uint64 {
		n := uint64(0)
		for range decimalBytes(digits) {
			b := raw[at] ^ mask
			if at == 0 {
				b ^= 0x80
			}
			n, at = n<<8|uint64(b), at+1
		}
		return n
	}
	whole := precision - scale
	if odd := whole % 9; odd > 0 {
		if n := group(odd); n > 0 {
			out = strconv.AppendUint(out, n, 10)
		}
	}
	for range whole / 9 {
		switch n := group(9); {
		case len(out) > start:
			out = appendDigits(out, n, 9)
		case n > 0:
			out = strconv.AppendUint(out, n, 10)
		}
	}
	zero := len(out) == start
	if zero {
		out = append(out, '0')
	}
	if scale > 0 {
		out = append(out, '.')
		for range scale / 9 {
			n := group(9)
			zero = zero && n == 0
			out = appendDigits(out, n, 9)
		}
		if odd := scale % 9; odd > 0 {
			n := group(odd)
			zero = zero && n == 0
			out = appendDigits(out, n, odd)
		}
	}
	if zero && mask != 0 { // there is no negative zero
		copy(out[start-1:], out[start:])
		out = out[:len(out)-1]
	}
	return out
}

// appendDigits appends a number with zeros before it up to width digits.
func appendDigits(out []byte, n uint64, width int) []byte {
	start := len(out)
	for range width {
		out = append(out, '0')
	}
	for i := len(out) - 1; i >= start && n > 0; i-- {
		out[i] = byte('0' + n%10)
		n /= 10
	}
	return out
}

func (c *Codec) decimal(raw []byte, a *debezium.Arena) (connect.Value, error) {
	text := appendDecimal(a.Scratch(70), raw, c.precision, c.scale)
	return c.decimalValue(a.KeepString(text))
}

// decimalText strips the zeros that ZEROFILL puts before a number.
func (c *Codec) decimalText(text []byte) (connect.Value, error) {
	for len(text) > 1 && text[0] == '0' && text[1] != '.' {
		text = text[1:]
	}
	for i, d := range text {
		if (d < '0' || d > '9') && (d != '-' || i > 0) && d != '.' {
			return connect.Value{}, fmt.Errorf("%q is not a decimal", text)
		}
	}
	return c.decimalValue(debezium.AsString(text))
}

func (c *Codec) decimalValue(text string) (connect.Value, error) {
	switch c.Schema.Type {
	case connect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		return connect.Float64Value(f), err
	case connect.String:
		return connect.StringValue(text), nil
	}
	return connect.DecimalText(text), nil
}

// bits reads big-endian bits: a boolean of one, else bytes in little-endian order.
func (c *Codec) bits(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if c.Schema.Type == connect.Bool {
		return connect.BoolValue(len(raw) > 0 && raw[len(raw)-1]&1 != 0), nil
	}
	out := a.Scratch(len(raw))
	for i := len(raw) - 1; i >= 0; i-- {
		out = append(out, raw[i])
	}
	return connect.BytesValue(a.Keep(out)), nil
}
