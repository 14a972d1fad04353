package connect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// JSONText writes data as plain JSON without its schema, for sinks whose target holds JSON documents. The zero JSONText
// writes what Kafka Connect's JsonConverter writes with schemas.enable=false: bytes and decimals as base64, maps with
// string keys as objects, other maps as arrays of pairs, NaN and infinities as strings.
type JSONText struct {
	DecimalNumbers bool // decimals as JSON numbers instead of base64
	MapEntries     bool // every map as an array of {"key": …, "value": …}
}

// Append appends v, described by s (nil for none), to dst as compact JSON on one line. It fails for a struct without a
// schema or one that does not fit it, and then returns dst as it was.
func (j JSONText) Append(dst []byte, s *Schema, v Value) ([]byte, error) {
	out, err := j.append(dst, s, v)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendData is Append for data that may still be encoded. Plain JSON (the format "json") that nobody has changed is
// checked and copied, without line feeds.
func (j JSONText) AppendData(dst []byte, d *Data) ([]byte, error) {
	if b, format, ok := d.Encoded(); ok && format == "json" {
		return appendJSONLine(dst, b)
	}
	if err := d.Decode(); err != nil {
		return dst, err
	}
	return j.Append(dst, d.Schema(), d.Value())
}

// IsNullJSON is [Data.IsNull] for data that may still be encoded; it decodes only what it has to.
func (d *Data) IsNullJSON() (bool, error) {
	b, format, ok := d.Encoded()
	if ok && format == "json" {
		return string(bytes.TrimSpace(b)) == "null", nil
	}
	if err := d.Decode(); err != nil {
		return false, err
	}
	return d.IsNull(), nil
}

func appendJSONLine(dst, b []byte) ([]byte, error) {
	if !json.Valid(b) {
		return dst, fmt.Errorf("%w: not JSON: %.80q", ErrNotDecoded, b)
	}
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return append(dst, b...), nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, b); err != nil {
		return dst, err
	}
	return append(dst, line.Bytes()...), nil
}

func (j JSONText) append(dst []byte, s *Schema, v Value) ([]byte, error) {
	switch v.kind {
	case Null:
		return append(dst, "null"...), nil
	case Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case Int8, Int16, Int32, Int64:
		if v.form == text {
			return append(dst, v.str()...), nil
		}
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case Float32, Float64:
		return appendFloat(dst, v), nil
	case String:
		return AppendJSONString(dst, v.str()), nil
	case Bytes:
		return j.appendBytes(dst, s, v)
	case Array:
		return j.appendArray(dst, s, v)
	case Map:
		return j.appendMap(dst, s, v)
	case Struct:
		return j.appendStruct(dst, s, v)
	}
	return dst, fmt.Errorf("connect: %s has no JSON", v.kind)
}

func appendFloat(dst []byte, v Value) []byte {
	f, bits := v.Float(), 64
	if v.kind == Float32 {
		bits = 32
	}
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	start := len(dst)
	if a := math.Abs(f); v.form == text {
		dst = append(dst, v.str()...)
	} else if a != 0 && (a < 1e-6 || a >= 1e21) {
		dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	} else {
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	// A whole number keeps its point, as Java writes it: who infers types from the text (a search index) must see a float.
	if !bytes.ContainsAny(dst[start:], ".eE") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func (j JSONText) appendBytes(dst []byte, s *Schema, v Value) ([]byte, error) {
	if s == nil || s.Name != DecimalName {
		if v.form == decimal {
			return append(dst, v.str()...), nil
		}
		return appendBase64(dst, v.Bytes()), nil
	}
	scale, err := strconv.Atoi(s.Param("scale"))
	if err != nil {
		return dst, fmt.Errorf("connect: a decimal's schema has the scale %q", s.Param("scale"))
	}
	if j.DecimalNumbers {
		number, err := v.Decimal(scale)
		return append(dst, number...), err
	}
	b, err := v.Unscaled(scale)
	if err != nil {
		return dst, err
	}
	return appendBase64(dst, b), nil
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func (j JSONText) appendArray(dst []byte, s *Schema, v Value) ([]byte, error) {
	var elem *Schema
	if s != nil {
		elem = s.Elem
	}
	var err error
	dst = append(dst, '[')
	for i, item := range v.Items() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = j.append(dst, elem, item); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (j JSONText) appendMap(dst []byte, s *Schema, v Value) ([]byte, error) {
	var key, elem *Schema
	if s != nil {
		key, elem = s.Key, s.Elem
	}
	items := v.Items()
	named := !j.MapEntries
	for i := 0; named && i < len(items); i += 2 {
		named = items[i].kind == String
	}
	before, after := "[", "]"
	open, between, end := "[", ",", "]"
	switch {
	case j.MapEntries:
		open, between, end = `{"key":`, `,"value":`, "}"
	case named:
		before, after = "{", "}"
		open, between, end = "", ":", ""
	}
	var err error
	dst = append(dst, before...)
	for i := 0; i+1 < len(items); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, open...)
		if dst, err = j.append(dst, key, items[i]); err != nil {
			return dst, err
		}
		dst = append(dst, between...)
		if dst, err = j.append(dst, elem, items[i+1]); err != nil {
			return dst, err
		}
		dst = append(dst, end...)
	}
	return append(dst, after...), nil
}

func (j JSONText) appendStruct(dst []byte, s *Schema, v Value) ([]byte, error) {
	items := v.Items()
	if s == nil || len(s.Fields) != len(items) {
		return dst, fmt.Errorf("connect: a struct of %d values does not fit its schema", len(items))
	}
	var err error
	dst = append(dst, '{')
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSONString(dst, s.Fields[i].Name)
		dst = append(dst, ':')
		if dst, err = j.append(dst, s.Fields[i].Schema, items[i]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// AppendJSONString appends s as a JSON string; what is not UTF-8 becomes U+FFFD.
func AppendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[from:i]...)
				dst = append(dst, "\uFFFD"...)
				from = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
