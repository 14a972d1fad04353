package connect

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unsafe"
)

// Kind is the type of a [Value] and of a [Schema]: the types of Kafka Connect's data API, and Null.
type Kind uint8

// The kinds. Their numbers are part of the packed form and never change.
const (
	Null    Kind = 0
	Bool    Kind = 1
	Int8    Kind = 2
	Int16   Kind = 3
	Int32   Kind = 4
	Int64   Kind = 5
	Float32 Kind = 6
	Float64 Kind = 7
	String  Kind = 8
	Bytes   Kind = 9
	Array   Kind = 10 // of Elem
	Map     Kind = 11 // pairs; without a schema this is how an object is held
	Struct  Kind = 12 // values in the order of the schema's fields
)

var kindNames = [...]string{"null", "boolean", "int8", "int16", "int32", "int64", "float", "double", "string", "bytes", "array", "map", "struct"}

// String gives the kind's name as Kafka Connect's JSON schemas spell it ("float", "double", not float32, float64).
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// form says how a Value of a kind is held.
type form uint8

const (
	plain   form = 0 // numbers in num, strings and bytes behind ptr, lists behind ptr
	text    form = 1 // a number as the text behind ptr
	decimal form = 2 // kind Bytes: a Decimal as the decimal text behind ptr
)

// Value is one datum: a small tagged struct of 32 bytes, so that no number is boxed. The zero Value is null.
//
// A Value is immutable; copying it is cheap and shares the memory behind strings, bytes and lists. A number may be held
// as the text in which a database sent it; the accessors parse it and writers of text formats copy it (see [Value.Text]).
//
// A struct holds its fields' values in the order of its schema, which travels beside it. A map holds pairs in the order
// in which they were given.
type Value struct {
	ptr  unsafe.Pointer // string or bytes data, or the first of n Values
	n    int            // bytes, or Values (a map of two pairs has 4)
	num  uint64
	kind Kind
	form form
}

// BoolValue, Int…Value, Float…Value, StringValue and BytesValue make a Value of that kind.
// Strings and bytes are shared, not copied.
func BoolValue(v bool) Value {
	if v {
		return Value{kind: Bool, num: 1}
	}
	return Value{kind: Bool}
}

// Int8Value makes an int8.
func Int8Value(v int8) Value { return Value{kind: Int8, num: uint64(v)} }

// Int16Value makes an int16.
func Int16Value(v int16) Value { return Value{kind: Int16, num: uint64(v)} }

// Int32Value makes an int32.
func Int32Value(v int32) Value { return Value{kind: Int32, num: uint64(v)} }

// Int64Value makes an int64.
func Int64Value(v int64) Value { return Value{kind: Int64, num: uint64(v)} }

// IntValue makes an integer of the kind k (Int8 … Int64); v is cut to its width.
func IntValue(k Kind, v int64) Value { return Value{kind: k, num: uint64(v)} }

// Float32Value makes a float32.
func Float32Value(v float32) Value { return Value{kind: Float32, num: math.Float64bits(float64(v))} }

// Float64Value makes a float64.
func Float64Value(v float64) Value { return Value{kind: Float64, num: math.Float64bits(v)} }

// StringValue makes a string; v must be UTF-8 (writers replace what is not).
func StringValue(v string) Value {
	return Value{kind: String, ptr: unsafe.Pointer(unsafe.StringData(v)), n: len(v)}
}

// BytesValue makes bytes; the Value shares v, which must not change afterwards.
func BytesValue(v []byte) Value {
	return Value{kind: Bytes, ptr: unsafe.Pointer(unsafe.SliceData(v)), n: len(v)}
}

// NumberText makes a number of kind k held as its text, which must be a valid literal of that kind in the syntax of
// [strconv] that is also a JSON number, except for the words NaN, Infinity and -Infinity of floats.
func NumberText(k Kind, v string) Value {
	return Value{kind: k, form: text, ptr: unsafe.Pointer(unsafe.StringData(v)), n: len(v)}
}

// DecimalText makes a Decimal (kind Bytes under a schema named [DecimalName]) held as decimal text such as "-12.340";
// the text must have no exponent and no more fraction digits than the schema's scale.
func DecimalText(v string) Value {
	return Value{kind: Bytes, form: decimal, ptr: unsafe.Pointer(unsafe.StringData(v)), n: len(v)}
}

// ArrayValue makes an array that shares items.
func ArrayValue(items []Value) Value { return list(Array, items) }

// StructValue makes a struct that shares fields: one value per field of its schema, in order.
func StructValue(fields []Value) Value { return list(Struct, fields) }

// MapValue makes a map that shares pairs: key, value, key, value, …
func MapValue(pairs []Value) Value { return list(Map, pairs) }

func list(k Kind, items []Value) Value {
	return Value{kind: k, ptr: unsafe.Pointer(unsafe.SliceData(items)), n: len(items)}
}

// Kind gives the value's kind.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool gives a boolean, false for other kinds.
func (v Value) Bool() bool { return v.kind == Bool && v.num != 0 }

// Int gives an integer of any width; a float is truncated, other kinds give 0.
func (v Value) Int() int64 {
	switch v.kind {
	case Int8, Int16, Int32, Int64:
		if v.form == text {
			n, _ := strconv.ParseInt(v.str(), 10, 64)
			return n
		}
		return int64(v.num)
	case Float32, Float64:
		return int64(v.Float())
	}
	return 0
}

// Float gives a float of either width, or an integer as a float; other kinds give 0.
func (v Value) Float() float64 {
	switch v.kind {
	case Float32, Float64:
		if v.form == text {
			size := 64
			if v.kind == Float32 {
				size = 32
			}
			f, _ := strconv.ParseFloat(v.str(), size)
			return f
		}
		return math.Float64frombits(v.num)
	case Int8, Int16, Int32, Int64:
		return float64(v.Int())
	}
	return 0
}

// Str gives a string, or bytes as a string that shares their memory; "" for other kinds.
func (v Value) Str() string {
	if v.kind == String || v.kind == Bytes && v.form == plain {
		return v.str()
	}
	return ""
}

// Bytes gives bytes or a string's bytes, shared: not to be changed. A decimal held as text gives nil: see [Value.Unscaled].
func (v Value) Bytes() []byte {
	if (v.kind == String || v.kind == Bytes) && v.form == plain {
		return unsafe.Slice((*byte)(v.ptr), v.n)
	}
	return nil
}

// Text gives the text in which a number or decimal is held, and false when it is not held as text.
func (v Value) Text() (string, bool) { return v.str(), v.form != plain }

// Items gives the values of an array or struct, or the keys and values of a map in turn; shared, not to be changed.
func (v Value) Items() []Value {
	if v.kind < Array {
		return nil
	}
	return unsafe.Slice((*Value)(v.ptr), v.n)
}

// Lookup gives the value of a map's string key, or null and false.
func (v Value) Lookup(key string) (Value, bool) {
	if v.kind == Map {
		items := v.Items()
		for i := 0; i+1 < len(items); i += 2 {
			if items[i].kind == String && items[i].str() == key {
				return items[i+1], true
			}
		}
	}
	return Value{}, false
}

// Unscaled gives a Decimal's unscaled number as big-endian two's complement, the way Kafka Connect's Decimal holds it.
// Bytes held plainly are returned as they are.
func (v Value) Unscaled(scale int) ([]byte, error) {
	if v.form != decimal {
		return v.Bytes(), nil
	}
	n, err := unscaled(v.str(), scale)
	if err != nil {
		return nil, err
	}
	return twosComplement(n), nil
}

// Decimal gives a Decimal as decimal text with the schema's scale.
func (v Value) Decimal(scale int) (string, error) {
	if v.form == decimal {
		n, err := unscaled(v.str(), scale)
		if err != nil {
			return "", err
		}
		return scaledText(n, scale), nil
	}
	return scaledText(fromTwosComplement(v.Bytes()), scale), nil
}

func (v Value) str() string { return unsafe.String((*byte)(v.ptr), v.n) }

// Equal reports whether two values are the same datum, however they are held.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case Null:
		return true
	case Bool:
		return v.num == w.num
	case Int8, Int16, Int32, Int64:
		return v.Int() == w.Int()
	case Float32, Float64:
		return math.Float64bits(v.Float()) == math.Float64bits(w.Float())
	case String, Bytes:
		if v.form == w.form {
			return v.str() == w.str()
		}
		return equalDecimals(v, w)
	}
	a, b := v.Items(), w.Items()
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

// equalDecimals compares a decimal held as text with one held as bytes, at the text's own scale.
func equalDecimals(v, w Value) bool {
	if v.form != decimal {
		v, w = w, v
	}
	scale := 0
	if i := bytes.IndexByte([]byte(v.str()), '.'); i >= 0 {
		scale = v.n - i - 1
	}
	b, err := v.Unscaled(scale)
	return err == nil && bytes.Equal(b, w.Bytes())
}

// Clone gives a copy that shares no memory with v: what a task keeps beyond the life of a batch.
func (v Value) Clone() Value {
	switch v.kind {
	case Array, Map, Struct:
		items := v.Items()
		out := make([]Value, len(items))
		for i := range items {
			out[i] = items[i].Clone()
		}
		return list(v.kind, out)
	}
	if v.ptr != nil {
		b := append([]byte(nil), v.str()...)
		v.ptr = unsafe.Pointer(unsafe.SliceData(b))
	}
	return v
}

// String gives the value for people and logs: strings quoted, lists in brackets, bytes by length.
func (v Value) String() string {
	switch v.kind {
	case Null:
		return "null"
	case Bool:
		return strconv.FormatBool(v.Bool())
	case Int8, Int16, Int32, Int64:
		return strconv.FormatInt(v.Int(), 10)
	case Float32, Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case String:
		return strconv.Quote(v.str())
	case Bytes:
		if v.form == decimal {
			return v.str()
		}
		return fmt.Sprintf("bytes(%d)", v.n)
	}
	return fmt.Sprint(v.Items())
}

func unscaled(s string, scale int) (*big.Int, error) {
	digits := make([]byte, 0, len(s)+scale)
	fraction, seen, digit := 0, false, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' && !seen:
			seen = true
		case c >= '0' && c <= '9', (c == '-' || c == '+') && i == 0:
			digits = append(digits, c)
			digit = digit || c >= '0'
			if seen {
				fraction++
			}
		default:
			return nil, fmt.Errorf("connect: %q is not a decimal", s)
		}
	}
	if !digit {
		return nil, fmt.Errorf("connect: %q is not a decimal", s)
	}
	if fraction > scale {
		return nil, fmt.Errorf("connect: decimal %q has more than %d fraction digits", s, scale)
	}
	for ; fraction < scale; fraction++ {
		digits = append(digits, '0')
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return nil, fmt.Errorf("connect: %q is not a decimal", s)
	}
	return n, nil
}

func scaledText(n *big.Int, scale int) string {
	s := new(big.Int).Abs(n).String()
	if scale > 0 {
		for len(s) <= scale {
			s = "0" + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// twosComplement is java.math.BigInteger.toByteArray: the shortest big-endian two's complement, at least one byte.
func twosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	length := new(big.Int).Not(n).BitLen()/8 + 1
	b := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(length)*8)).Bytes()
	return b
}

func fromTwosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n
}
