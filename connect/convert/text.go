package convert

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirlog/weir/connect"
)

// stringConverter is Kafka Connect's StringConverter: what Java's toString gives for anything, read back as a string.
// Bytes, for which Java gives an object's address, are written as base64.
type stringConverter struct {
	charset charset
	codec   connect.Codec
	scratch []byte
}

func stringFields() []connect.Field {
	return []connect.Field{
		{Name: "converter.encoding", Type: connect.TypeString, Default: "UTF-8", Importance: connect.High, Doc: "The character set of the bytes: UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16BE or UTF-16LE."},
	}
}

func newString(s *connect.Settings) (*stringConverter, error) {
	cs, err := charsetOf(s.String("converter.encoding"))
	if err != nil {
		return nil, connect.BadConfig("converter.encoding", err)
	}
	c := &stringConverter{charset: cs}
	c.codec = connect.Codec{Format: formatString, Decode: c.decode}
	if cs != utf8Charset {
		c.codec.Format = formatString + "/" + string(cs)
	}
	return c, nil
}

// Codec is [Converter.Codec].
func (c *stringConverter) Codec() *connect.Codec { return &c.codec }

// Encode is [Converter.Encode].
func (c *stringConverter) Encode(dst []byte, _ string, d *connect.Data) ([]byte, bool, error) {
	if b, format, ok := d.Encoded(); ok && format == c.codec.Format {
		return append(dst, b...), false, nil
	}
	if err := d.Decode(); err != nil {
		return dst, false, err
	}
	if d.IsNull() {
		return dst, true, nil
	}
	if c.charset == utf8Charset {
		out, err := appendJavaString(dst, d.Schema(), d.Value(), 0)
		if err != nil {
			return dst, false, err
		}
		return out, false, nil
	}
	text, err := appendJavaString(c.scratch[:0], d.Schema(), d.Value(), 0)
	if err != nil {
		return dst, false, err
	}
	c.scratch = text
	return c.charset.encode(dst, text), false, nil
}

func (c *stringConverter) decode(b []byte) (*connect.Schema, connect.Value, error) {
	return optionalString, connect.StringValue(c.charset.decode(b)), nil
}

// optionalString and optionalBytes are the schemas of what the converters of these names read; never changed.
var (
	optionalString = &connect.Schema{Type: connect.String, Optional: true}
	optionalBytes  = &connect.Schema{Type: connect.Bytes, Optional: true}
)

// stringHeaders is the StringConverter as a header converter.
type stringHeaders struct{ *stringConverter }

// Encode is [HeaderConverter.Encode].
func (h stringHeaders) Encode(dst []byte, topic, _ string, d *connect.Data) ([]byte, bool, error) {
	return h.stringConverter.Encode(dst, topic, d)
}

// appendJavaString appends what Java's toString gives for v.
func appendJavaString(dst []byte, s *connect.Schema, v connect.Value, depth int) (out []byte, err error) {
	if depth > maxSchemaDepth {
		return dst, dataErrorf("nested deeper than %d", maxSchemaDepth)
	}
	switch v.Kind() {
	case connect.Null:
		return append(dst, "null"...), nil
	case connect.String:
		return append(dst, strings.ToValidUTF8(v.Str(), "\uFFFD")...), nil
	case connect.Struct:
		return appendJavaStruct(dst, s, v.Items(), depth)
	case connect.Array:
		dst = append(dst, '[')
		for i, item := range v.Items() {
			if i > 0 {
				dst = append(dst, ',', ' ')
			}
			if dst, err = appendJavaString(dst, elemOf(s), item, depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case connect.Map:
		items := v.Items()
		dst = append(dst, '{')
		for i := 0; i+1 < len(items); i += 2 {
			if i > 0 {
				dst = append(dst, ',', ' ')
			}
			if dst, err = appendJavaString(dst, keyOf(s), items[i], depth+1); err != nil {
				return dst, err
			}
			if dst, err = appendJavaString(append(dst, '='), elemOf(s), items[i+1], depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return appendJavaScalar(dst, s, v)
}

func appendJavaStruct(dst []byte, s *connect.Schema, items []connect.Value, depth int) (out []byte, err error) {
	if s == nil || len(s.Fields) != len(items) {
		return dst, dataErrorf("a struct without its schema")
	}
	dst = append(dst, "Struct{"...)
	first := true
	for i := range items {
		if items[i].IsNull() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, s.Fields[i].Name...), '=')
		if dst, err = appendJavaString(dst, s.Fields[i].Schema, items[i], depth+1); err != nil {
			return dst, inField(s.Fields[i].Name, err)
		}
	}
	return append(dst, '}'), nil
}

func appendJavaScalar(dst []byte, s *connect.Schema, v connect.Value) ([]byte, error) {
	meaning := noLogical
	if s != nil {
		meaning = logicalOf(s)
	}
	switch meaning {
	case decimalLogical:
		scale, err := strconv.Atoi(s.Param("scale"))
		if err != nil || scale < -maxScale || scale > maxScale {
			return dst, dataErrorf("a Decimal's schema has no usable parameter scale: %q", s.Param("scale"))
		}
		return appendDecimal(dst, v, scale)
	case dateLogical:
		return appendJavaDate(dst, v.Int()*millisPerDay), nil
	case timeLogical, timestampLogical:
		return appendJavaDate(dst, v.Int()), nil
	}
	switch v.Kind() {
	case connect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case connect.Float32, connect.Float64:
		return appendFloat(dst, v.Float(), floatBits(v.Kind())), nil
	case connect.Bytes:
		if text, ok := v.Text(); ok {
			return append(dst, text...), nil
		}
		return base64.StdEncoding.AppendEncode(dst, v.Bytes()), nil
	}
	if text, ok := v.Text(); ok {
		return append(dst, text...), nil
	}
	return strconv.AppendInt(dst, v.Int(), 10), nil
}

func elemOf(s *connect.Schema) *connect.Schema {
	if s == nil {
		return nil
	}
	return s.Elem
}

func keyOf(s *connect.Schema) *connect.Schema {
	if s == nil {
		return nil
	}
	return s.Key
}

const millisPerDay = 24 * 60 * 60 * 1000

// appendJavaDate appends java.util.Date.toString in UTC: "Tue Nov 14 22:13:20 UTC 2023", before 15 October 1582 by the
// Julian calendar.
func appendJavaDate(dst []byte, millis int64) []byte {
	t := time.UnixMilli(millis).UTC()
	weekday := t.Weekday().String()[:3]
	year, month, day := t.Date()
	const gregorianStart = -12219292800000
	if millis < gregorianStart {
		year, month, day = julian(floorDiv(millis, millisPerDay))
	}
	dst = append(append(dst, weekday...), ' ')
	dst = append(append(dst, month.String()[:3]...), ' ', byte('0'+day/10), byte('0'+day%10), ' ')
	dst = t.AppendFormat(dst, "15:04:05")
	return strconv.AppendInt(append(dst, " UTC "...), int64(year), 10)
}

// julian gives the date of the Julian calendar of a day since 1970-01-01. Years before 1 count as in Java: 1, 2 … back.
func julian(day int64) (int, time.Month, int) {
	c := day + 2440588 + 32082
	d := floorDiv(4*c+3, 1461)
	e := c - floorDiv(1461*d, 4)
	m := (5*e + 2) / 153
	year := d - 4800 + m/10
	if year <= 0 {
		year = 1 - year
	}
	return int(year), time.Month(m + 3 - 12*(m/10)), int(e - (153*m+2)/5 + 1)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// charset is a character set by its canonical name.
type charset string

const (
	utf8Charset   charset = "UTF-8"
	asciiCharset  charset = "US-ASCII"
	latinCharset  charset = "ISO-8859-1"
	utf16Charset  charset = "UTF-16"
	utf16BE       charset = "UTF-16BE"
	utf16LE       charset = "UTF-16LE"
	replacingByte         = '?'
)

func charsetOf(name string) (charset, error) {
	switch strings.ToUpper(strings.ReplaceAll(name, "_", "-")) {
	case "UTF-8", "UTF8":
		return utf8Charset, nil
	case "US-ASCII", "ASCII":
		return asciiCharset, nil
	case "ISO-8859-1", "ISO8859-1", "LATIN1":
		return latinCharset, nil
	case "UTF-16":
		return utf16Charset, nil
	case "UTF-16BE":
		return utf16BE, nil
	case "UTF-16LE":
		return utf16LE, nil
	}
	return "", dataErrorf("unsupported character set %q", name)
}

// encode appends UTF-8 text in the character set; what it does not have becomes '?'. UTF-16 begins with a mark.
func (c charset) encode(dst, text []byte) []byte {
	if c == utf16Charset && len(text) > 0 {
		dst = append(dst, 0xFE, 0xFF)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch c {
		case asciiCharset, latinCharset:
			limit := rune(0x100)
			if c == asciiCharset {
				limit = utf8.RuneSelf
			}
			if r >= limit {
				r = replacingByte
			}
			dst = append(dst, byte(r))
		default:
			dst = c.appendUTF16(dst, r)
		}
	}
	return dst
}

func (c charset) appendUTF16(dst []byte, r rune) []byte {
	unit := func(u uint16) {
		if c == utf16LE {
			dst = append(dst, byte(u), byte(u>>8))
		} else {
			dst = append(dst, byte(u>>8), byte(u))
		}
	}
	if r > 0xFFFF {
		r -= 0x10000
		unit(0xD800 | uint16(r>>10))
		unit(0xDC00 | uint16(r&0x3FF))
		return dst
	}
	unit(uint16(r))
	return dst
}
