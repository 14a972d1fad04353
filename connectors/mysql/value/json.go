package value

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// Types of MySQL's binary JSON. A document is a type byte and a value; objects and arrays are
//
//	count size entry… data…
//
// in two bytes each (small) or four (large), where an object has for each key its offset and length (2), then for each
// value its type and, in as many bytes as count has, its offset or, if it fits, the value. Offsets are from count.
const (
	jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray = 0, 1, 2, 3
	jsonLiteral, jsonInt16, jsonUint16, jsonInt32, jsonUint32        = 4, 5, 6, 7, 8
	jsonInt64, jsonUint64, jsonDouble, jsonString, jsonOpaque        = 9, 10, 11, 12, 15
)

// maxJSONDepth is the server's own limit.
const maxJSONDepth = 100

var errJSON = errors.New("a JSON document ends too early")

// jsonText gives a binary document as the text that the server prints.
func jsonText(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if len(raw) == 0 { // what INSERT IGNORE makes of NULL in a required column
		return connect.StringValue("null"), nil
	}
	left := len(raw)
	out, err := appendJSON(a.Scratch(2*len(raw)), raw[0], raw[1:], 0, &left)
	if err != nil {
		return connect.Value{}, err
	}
	return connect.StringValue(a.KeepString(out)), nil
}

// appendJSON appends the value whose bytes begin data. left is how many values there may still be: each takes a byte at
// least, so more of them are one that is pointed to again and again.
func appendJSON(out []byte, kind byte, data []byte, depth int, left *int) ([]byte, error) {
	if *left--; *left < 0 || depth > maxJSONDepth {
		return nil, fmt.Errorf("a JSON document nested deeper than %d, or with values that share bytes", maxJSONDepth)
	}
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		list, err := jsonListOf(kind, data)
		if err != nil {
			return nil, err
		}
		return list.appendTo(out, depth, left)
	case jsonLiteral:
		return appendLiteral(out, data)
	case jsonString:
		text, err := jsonBytes(data)
		return appendJSONString(out, text), err
	case jsonOpaque:
		return appendOpaque(out, data)
	}
	size := jsonNumberBytes(kind)
	if size == 0 {
		return nil, fmt.Errorf("a JSON value of the unknown type %d", kind)
	}
	if len(data) < size {
		return nil, errJSON
	}
	n := littleEndian(data[:size])
	switch kind {
	case jsonInt16:
		return strconv.AppendInt(out, int64(int16(n)), 10), nil
	case jsonInt32:
		return strconv.AppendInt(out, int64(int32(n)), 10), nil
	case jsonInt64:
		return strconv.AppendInt(out, int64(n), 10), nil
	case jsonDouble:
		return appendDouble(out, math.Float64frombits(n)), nil
	}
	return strconv.AppendUint(out, n, 10), nil
}

func jsonNumberBytes(kind byte) int {
	switch kind {
	case jsonInt16, jsonUint16:
		return 2
	case jsonInt32, jsonUint32:
		return 4
	case jsonInt64, jsonUint64, jsonDouble:
		return 8
	}
	return 0
}

func appendLiteral(out, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errJSON
	}
	switch data[0] {
	case 0:
		return append(out, "null"...), nil
	case 1:
		return append(out, "true"...), nil
	case 2:
		return append(out, "false"...), nil
	}
	return nil, fmt.Errorf("the unknown JSON literal %d", data[0])
}

// jsonList is an object or array of a binary document.
type jsonList struct {
	data   []byte // from count to the end of the list
	count  int
	word   int // bytes of an offset
	object bool
}

func jsonListOf(kind byte, data []byte) (jsonList, error) {
	l := jsonList{word: 2, object: kind <= jsonLargeObject}
	if kind == jsonLargeObject || kind == jsonLargeArray {
		l.word = 4
	}
	if len(data) < 2*l.word {
		return l, errJSON
	}
	l.count = int(littleEndian(data[:l.word]))
	size := int(littleEndian(data[l.word : 2*l.word]))
	entry := 1 + l.word
	if l.object {
		entry += l.word + 2
	}
	if size > len(data) || l.count > size/entry || 2*l.word+l.count*entry > size {
		return l, errJSON
	}
	l.data = data[:size]
	return l, nil
}

// key gives an object's i-th key.
func (l *jsonList) key(i int) ([]byte, error) {
	at := 2*l.word + i*(l.word+2)
	offset := int(littleEndian(l.data[at : at+l.word]))
	n := int(binary.LittleEndian.Uint16(l.data[at+l.word:]))
	if offset > len(l.data) || n > len(l.data)-offset {
		return nil, errJSON
	}
	return l.data[offset : offset+n], nil
}

// value gives the type and bytes of the i-th value.
func (l *jsonList) value(i int) (kind byte, data []byte, err error) {
	at := 2*l.word + i*(1+l.word)
	if l.object {
		at += l.count * (l.word + 2)
	}
	kind = l.data[at]
	slot := l.data[at+1 : at+1+l.word]
	if kind == jsonLiteral || kind == jsonInt16 || kind == jsonUint16 || l.word == 4 && (kind == jsonInt32 || kind == jsonUint32) {
		return kind, slot, nil
	}
	offset := int(littleEndian(slot))
	if offset < 2*l.word || offset >= len(l.data) { // a list that holds itself would have no end
		return 0, nil, errJSON
	}
	return kind, l.data[offset:], nil
}

func (l *jsonList) appendTo(out []byte, depth int, left *int) ([]byte, error) {
	opening, closing := byte('['), byte(']')
	if l.object {
		opening, closing = '{', '}'
	}
	out = append(out, opening)
	for i := range l.count {
		if i > 0 {
			out = append(out, ',', ' ')
		}
		if l.object {
			key, err := l.key(i)
			if err != nil {
				return nil, err
			}
			out = append(appendJSONString(out, key), ':', ' ')
		}
		kind, data, err := l.value(i)
		if err == nil {
			out, err = appendJSON(out, kind, data, depth+1, left)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(out, closing), nil
}

// jsonLength reads a length of seven bits a byte, the lowest first.
func jsonLength(data []byte) (n int, rest []byte, err error) {
	for i := 0; i < len(data) && i < 5; i++ {
		n |= int(data[i]&0x7F) << (7 * i)
		if data[i] < 0x80 {
			return n, data[i+1:], nil
		}
	}
	return 0, nil, errJSON
}

// jsonBytes reads bytes with their length before them.
func jsonBytes(data []byte) ([]byte, error) {
	n, rest, err := jsonLength(data)
	if err != nil || n > len(rest) {
		return nil, errJSON
	}
	return rest[:n], nil
}

const lowerHex = "0123456789abcdef"

// appendJSONString quotes as the server does.
func appendJSONString(out, text []byte) []byte {
	out = append(out, '"')
	start := 0
	for i, b := range text {
		if b >= 0x20 && b != '"' && b != '\\' {
			continue
		}
		out = append(out, text[start:i]...)
		start = i + 1
		switch b {
		case '"', '\\':
			out = append(out, '\\', b)
		case '\b':
			out = append(out, '\\', 'b')
		case '\f':
			out = append(out, '\\', 'f')
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', lowerHex[b>>4], lowerHex[b&15])
		}
	}
	return append(append(out, text[start:]...), '"')
}

// appendDouble prints a double as the server does in JSON: plain where the point is near, with a fraction always.
func appendDouble(out []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(out, "null"...) // no document can hold one
	}
	start := len(out)
	var scratch [32]byte
	text := strconv.AppendFloat(scratch[:0], f, 'e', -1, 64)
	e := len(text) - 1
	for text[e] != 'e' {
		e--
	}
	exponent, _ := strconv.Atoi(string(text[e+1:])) // as AppendFloat wrote it
	if f == 0 || exponent >= -15 && exponent <= 14 {
		out = strconv.AppendFloat(out, f, 'f', -1, 64)
		for _, b := range out[start:] {
			if b == '.' {
				return out
			}
		}
		return append(out, '.', '0')
	}
	return strconv.AppendInt(append(append(out, text[:e]...), 'e'), int64(exponent), 10)
}

// appendOpaque appends a value of a type that JSON has not: numbers and times as such, others in base64.
func appendOpaque(out, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errJSON
	}
	kind := data[0]
	raw, err := jsonBytes(data[1:])
	if err != nil {
		return nil, err
	}
	switch kind {
	case typeNewDecimal:
		if len(raw) < 2 {
			return nil, errJSON
		}
		precision, scale := int(raw[0]), int(raw[1])
		f, err := decimalFrame(precision, scale)
		if err != nil || f.fixed > len(raw)-2 {
			return nil, errJSON
		}
		return appendDecimal(out, raw[2:], precision, scale), nil
	case typeDate, typeDateTime, typeTimestamp, typeTime:
		if len(raw) != 8 {
			return nil, errJSON
		}
		return append(appendPackedTime(append(out, '"'), kind, int64(binary.LittleEndian.Uint64(raw))), '"'), nil
	}
	out = append(out, `"base64:type`...)
	out = append(strconv.AppendUint(out, uint64(kind), 10), ':')
	for ; len(raw) > base64Line; raw = raw[base64Line:] {
		out = append(base64.StdEncoding.AppendEncode(out, raw[:base64Line]), '\\', 'n')
	}
	return append(base64.StdEncoding.AppendEncode(out, raw), '"'), nil
}

// base64Line is how many bytes the server puts on a line of base64: 76 characters.
const base64Line = 57

// appendPackedTime prints a time in the form in which the server computes: microseconds in the low 24 bits, above them
// the bits of DATETIME2 or TIME2.
func appendPackedTime(out []byte, kind byte, packed int64) []byte {
	if packed < 0 {
		out, packed = append(out, '-'), -packed
	}
	micros, whole := packed&0xFFFFFF, packed>>24
	if kind == typeTime {
		return debezium.AppendClock(out, clock(whole>>12&0x3FF, whole>>6&63, whole&63)+micros, 6)
	}
	months := whole >> 22 & 0x1FFFF
	out = debezium.AppendDate(out, months/13, int(months%13), int(whole>>17&31))
	if kind == typeDate {
		return out
	}
	return debezium.AppendClock(append(out, ' '), clock(whole>>12&31, whole>>6&63, whole&63)+micros, 6)
}
