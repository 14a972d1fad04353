package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// errNotFinite says that a numeric is NaN or infinite, which a decimal can't hold.
var errNotFinite = errors.New("not a finite number")

// decode makes a value of a column's text. The value may share text and what it takes from a.
func (c *codec) decode(text []byte, a *debezium.Arena) (connect.Value, error) {
	switch c.kind {
	case codecText:
		return connect.StringValue(debezium.AsString(text)), nil
	case codecNumber:
		return c.integer(text)
	case codecBool:
		return boolean(text, 't', 'f')
	case codecFloat:
		return c.float(text, a)
	case codecDecimal:
		if !finite(text) {
			return connect.Value{}, errNotFinite
		}
		return connect.DecimalText(debezium.AsString(text)), nil
	case codecVarDecimal:
		return varDecimal(text, a)
	case codecNumericFloat:
		f, err := strconv.ParseFloat(debezium.AsString(text), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return connect.Value{}, err
		}
		return connect.Float64Value(f), nil
	case codecNumericText:
		return connect.StringValue(numericName(debezium.AsString(text))), nil
	case codecBytes, codecBytesText:
		return c.bytes(text, a)
	case codecArray:
		return c.array(text, a)
	case codecBit:
		return boolean(text, '1', '0')
	case codecBits:
		return bitString(text, a)
	case codecMoney:
		return c.money(text, a)
	case codecHstoreText, codecHstoreMap:
		return c.hstore(text, a)
	case codecPoint:
		return point(text, a)
	}
	return c.temporal(text, a)
}

func (c *codec) integer(text []byte) (connect.Value, error) {
	for i, d := range text {
		if (d < '0' || d > '9') && (d != '-' || i > 0) {
			return connect.Value{}, fmt.Errorf("%q is not an integer", text)
		}
	}
	if len(text) == 0 || len(text) == 1 && text[0] == '-' {
		return connect.Value{}, fmt.Errorf("%q is not an integer", text)
	}
	return connect.NumberText(c.number, debezium.AsString(text)), nil
}

func boolean(text []byte, yes, no byte) (connect.Value, error) {
	if len(text) == 1 && (text[0] == yes || text[0] == no) {
		return connect.BoolValue(text[0] == yes), nil
	}
	return connect.Value{}, fmt.Errorf("%q is not a boolean", text)
}

// float keeps the text of a number; a whole one gets ".0", so that readers of JSON see a float at the first glance.
func (c *codec) float(text []byte, a *debezium.Arena) (connect.Value, error) {
	whole := len(text) > 0
	for _, d := range text {
		if (d < '0' || d > '9') && d != '-' {
			whole = false
			break
		}
	}
	if whole {
		b := append(a.Scratch(len(text)+2), text...)
		b = append(b, ".0"...)
		return connect.NumberText(c.number, a.KeepString(b)), nil
	}
	s := debezium.AsString(text)
	switch s {
	case "NaN", "Infinity", "-Infinity":
		f, _ := strconv.ParseFloat(s, 64) // these words parse
		if c.number == connect.Float32 {
			return connect.Float32Value(float32(f)), nil
		}
		return connect.Float64Value(f), nil
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return connect.Value{}, fmt.Errorf("%q is not a float", text)
	}
	return connect.NumberText(c.number, s), nil
}

func finite(text []byte) bool {
	return len(text) > 0 && (text[len(text)-1] >= '0' && text[len(text)-1] <= '9')
}

// numericName gives Debezium's words for what is not a number in the string mode.
func numericName(s string) string {
	switch s {
	case "NaN":
		return "NAN"
	case "Infinity":
		return "POSITIVE_INFINITY"
	case "-Infinity":
		return "NEGATIVE_INFINITY"
	}
	return s
}

// varDecimal makes a VariableScaleDecimal: trailing zeros of the fraction are stripped.
func varDecimal(text []byte, a *debezium.Arena) (connect.Value, error) {
	if !finite(text) {
		return connect.Value{}, errNotFinite
	}
	digits := a.Scratch(len(text) + 16)
	scale, seen, significant := 0, false, false
	for i, d := range text {
		switch {
		case d == '.' && !seen:
			seen = true
			continue
		case d == '-' && i == 0:
		case d >= '0' && d <= '9':
			significant = significant || d != '0'
			if seen {
				scale++
			}
		default:
			return connect.Value{}, fmt.Errorf("%q is not a numeric", text)
		}
		digits = append(digits, d)
	}
	if !significant {
		digits, scale = append(digits[:0], '0'), 0
	}
	for scale > 0 && digits[len(digits)-1] == '0' {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	out := a.Take(2)
	out[0] = connect.Int32Value(int32(scale))
	if len(digits) <= 18 {
		n, err := strconv.ParseInt(debezium.AsString(digits), 10, 64)
		if err != nil {
			return connect.Value{}, err
		}
		out[1] = connect.BytesValue(a.Keep(appendTwosComplement(digits[:0], n)))
		return connect.StructValue(out), nil
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return connect.Value{}, fmt.Errorf("%q is not a numeric", text)
	}
	out[1] = connect.BytesValue(bigTwosComplement(n))
	return connect.StructValue(out), nil
}

// appendTwosComplement appends the shortest big-endian two's complement of n.
func appendTwosComplement(b []byte, n int64) []byte {
	size := 1
	for size < 8 && (n < -1<<(8*size-1) || n >= 1<<(8*size-1)) {
		size++
	}
	for i := size - 1; i >= 0; i-- {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

func bigTwosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		return append([]byte{0}, n.Bytes()...)[leadingZero(n):]
	}
	size := new(big.Int).Not(n).BitLen()/8 + 1
	return new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size)*8)).Bytes()
}

// leadingZero is 1 when a non-negative number needs no zero byte before its first.
func leadingZero(n *big.Int) int {
	if n.BitLen()%8 != 0 {
		return 1
	}
	return 0
}

func (c *codec) bytes(text []byte, a *debezium.Arena) (connect.Value, error) {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
		return connect.Value{}, fmt.Errorf("bytea is not in the form \\x…")
	}
	text = text[2:]
	if c.mode == "hex" {
		return connect.StringValue(debezium.AsString(text)), nil
	}
	raw := a.Scratch(len(text)/2 + 1)[:len(text)/2]
	if _, err := hex.Decode(raw, text); err != nil {
		return connect.Value{}, fmt.Errorf("bytea: %w", err)
	}
	if c.kind == codecBytes {
		return connect.BytesValue(a.Keep(raw)), nil
	}
	raw = a.Keep(raw)
	return connect.StringValue(debezium.EncodeBinary(c.mode, raw, a)), nil
}

// bitString gives bits in little-endian order of bytes.
func bitString(text []byte, a *debezium.Arena) (connect.Value, error) {
	n := (len(text) + 7) / 8
	out := a.Scratch(n)[:n]
	clear(out)
	for i, d := range text {
		switch bit := len(text) - 1 - i; d {
		case '1':
			out[bit/8] |= 1 << (bit % 8)
		case '0':
		default:
			return connect.Value{}, fmt.Errorf("%q is not a bit string", text)
		}
	}
	return connect.BytesValue(a.Keep(out)), nil
}

// money reads the text of lc_monetary=C: -$1,234.56. Digits beyond the scale are rounded half up, as Debezium does.
func (c *codec) money(text []byte, a *debezium.Arena) (connect.Value, error) {
	out := a.Scratch(len(text) + c.digits + 2)
	fraction := -1
	rest := byte('0') // the first digit that is cut off
	for _, d := range text {
		switch {
		case d == '-' && len(out) == 0, d >= '0' && d <= '9':
			if fraction >= 0 {
				if fraction == c.digits {
					rest = d
				}
				if fraction++; fraction > c.digits {
					continue
				}
			}
			out = append(out, d)
		case d == '.' && fraction < 0:
			fraction = 0
			if c.digits > 0 {
				out = append(out, d)
			}
		case d == '$' || d == ',':
		default:
			return connect.Value{}, fmt.Errorf("%q is not an amount of money", text)
		}
	}
	if len(out) == 0 || !finite(out) {
		return connect.Value{}, fmt.Errorf("%q is not an amount of money", text)
	}
	if rest >= '5' {
		out = oneMore(out)
	}
	s := a.KeepString(out)
	switch c.mode {
	case "double":
		f, err := strconv.ParseFloat(s, 64)
		return connect.Float64Value(f), err
	case "string":
		return connect.StringValue(s), nil
	}
	return connect.DecimalText(s), nil
}

// oneMore adds one to the last digit of a decimal number, away from zero.
func oneMore(number []byte) []byte {
	first := 0
	for i := len(number) - 1; i >= 0; i-- {
		switch number[i] {
		case '9':
			number[i] = '0'
		case '.':
		case '-':
			first = 1
		default:
			number[i]++
			return number
		}
	}
	return slices.Insert(number, first, '1')
}

// point reads (x,y) and gives it with its well-known binary form.
func point(text []byte, a *debezium.Arena) (connect.Value, error) {
	comma := 0
	for i, d := range text {
		if d == ',' {
			comma = i
		}
	}
	if len(text) < 5 || comma == 0 || text[0] != '(' || text[len(text)-1] != ')' {
		return connect.Value{}, fmt.Errorf("%q is not a point", text)
	}
	x, errX := strconv.ParseFloat(debezium.AsString(text[1:comma]), 64)
	y, errY := strconv.ParseFloat(debezium.AsString(text[comma+1:len(text)-1]), 64)
	if err := errors.Join(errX, errY); err != nil {
		return connect.Value{}, err
	}
	wkb := append(a.Scratch(21), 1, 1, 0, 0, 0)
	wkb = binary.LittleEndian.AppendUint64(wkb, math.Float64bits(x))
	wkb = binary.LittleEndian.AppendUint64(wkb, math.Float64bits(y))
	out := a.Take(4)
	out[0], out[1], out[2] = connect.Float64Value(x), connect.Float64Value(y), connect.BytesValue(a.Keep(wkb))
	return connect.StructValue(out), nil
}
