package convert

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

// simpleHeaders is Kafka Connect's SimpleHeaderConverter: it writes values as literals and infers types when it reads.
type simpleHeaders struct {
	codec connect.Codec
}

func newSimpleHeaders() *simpleHeaders {
	return &simpleHeaders{codec: connect.Codec{Format: formatHeader, Decode: func(b []byte) (*connect.Schema, connect.Value, error) {
		s, v := parseLiteral(strings.ToValidUTF8(string(b), "\uFFFD"))
		return s, v, nil
	}}}
}

// Codec is [HeaderConverter.Codec].
func (h *simpleHeaders) Codec() *connect.Codec { return &h.codec }

// Encode is [HeaderConverter.Encode].
func (h *simpleHeaders) Encode(dst []byte, _, _ string, d *connect.Data) ([]byte, bool, error) {
	if b, format, ok := d.Encoded(); ok && format == formatHeader {
		return append(dst, b...), false, nil
	}
	if err := d.Decode(); err != nil {
		return dst, false, err
	}
	if d.IsNull() {
		return dst, true, nil
	}
	out, err := appendLiteral(dst, d.Schema(), d.Value(), false, 0)
	if err != nil {
		return dst, false, err
	}
	return out, false, nil
}

// simpleConverter is the SimpleHeaderConverter as a converter of keys or values, which Java allows too.
type simpleConverter struct{ *simpleHeaders }

// Encode is [Converter.Encode].
func (c simpleConverter) Encode(dst []byte, topic string, d *connect.Data) ([]byte, bool, error) {
	return c.simpleHeaders.Encode(dst, topic, "", d)
}

// appendLiteral appends a value as a literal; embedded says that it stands within a list, where strings are quoted.
func appendLiteral(dst []byte, s *connect.Schema, v connect.Value, embedded bool, depth int) (out []byte, err error) {
	if depth > maxSchemaDepth {
		return dst, dataErrorf("nested deeper than %d", maxSchemaDepth)
	}
	switch v.Kind() {
	case connect.String:
		return appendLiteralString(dst, strings.ToValidUTF8(v.Str(), "\uFFFD"), embedded), nil
	case connect.Bytes:
		if s != nil && logicalOf(s) == decimalLogical {
			return appendJavaScalar(dst, s, v)
		}
		return appendLiteralString(dst, base64.StdEncoding.EncodeToString(v.Bytes()), embedded), nil
	case connect.Array:
		dst = append(dst, '[')
		for i, item := range v.Items() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendLiteral(dst, elemOf(s), item, true, depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case connect.Map:
		items := v.Items()
		dst = append(dst, '{')
		for i := 0; i+1 < len(items); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendLiteral(dst, keyOf(s), items[i], true, depth+1); err != nil {
				return dst, err
			}
			if dst, err = appendLiteral(append(dst, ':'), elemOf(s), items[i+1], true, depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case connect.Struct:
		return appendLiteralStruct(dst, s, v.Items(), depth)
	case connect.Null:
		return append(dst, "null"...), nil
	}
	if s != nil {
		switch logicalOf(s) {
		case dateLogical:
			return appendLiteralDate(dst, v.Int()*millisPerDay), nil
		case timeLogical, timestampLogical:
			return appendLiteralDate(dst, v.Int()), nil
		}
	}
	return appendJavaScalar(dst, nil, v)
}

func appendLiteralStruct(dst []byte, s *connect.Schema, items []connect.Value, depth int) (out []byte, err error) {
	if s == nil || len(s.Fields) != len(items) {
		return dst, dataErrorf("a struct without its schema")
	}
	dst = append(dst, '{')
	for i, f := range s.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := items[i]
		if v.IsNull() && f.Schema != nil && f.Schema.Default != nil {
			v = *f.Schema.Default
		}
		dst = append(appendLiteralString(dst, f.Name, true), ':')
		if dst, err = appendLiteral(dst, f.Schema, v, true, depth+1); err != nil {
			return dst, inField(f.Name, err)
		}
	}
	return append(dst, '}'), nil
}

func appendLiteralString(dst []byte, s string, embedded bool) []byte {
	if !embedded {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// Layouts of times in literals.
const (
	dateLayout      = "2006-01-02"
	timeLayout      = "15:04:05.000Z"
	timestampLayout = dateLayout + "T" + timeLayout
)

// appendLiteralDate appends a time in the layout that Java chooses by its value: a time of the day before the end of the
// first day, a date at midnight, a timestamp else.
func appendLiteralDate(dst []byte, millis int64) []byte {
	t := time.UnixMilli(millis).UTC()
	switch {
	case millis < millisPerDay:
		return t.AppendFormat(dst, timeLayout)
	case millis%millisPerDay == 0:
		return t.AppendFormat(dst, dateLayout)
	}
	return t.AppendFormat(dst, timestampLayout)
}
