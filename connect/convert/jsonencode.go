package convert

import (
	"encoding/base64"
	"strconv"

	"github.com/weirlog/weir/connect"
)

// jsonWriter appends values as JSON; numeric is decimal.format=NUMERIC.
type jsonWriter struct {
	numeric bool
}

// value appends v as the plan p says; a nil plan is schemaless.
func (w jsonWriter) value(dst []byte, p *plan, v connect.Value) ([]byte, error) {
	if p == nil {
		return w.schemaless(dst, v)
	}
	if v.IsNull() {
		d, err := p.orDefault()
		if err != nil || d.IsNull() {
			return append(dst, "null"...), err
		}
		v = d
	}
	if v.Kind() != p.kind {
		return dst, wrongKind(p.kind, v.Kind())
	}
	switch p.kind {
	case connect.Struct:
		return w.structure(dst, p, v.Items())
	case connect.Array:
		return w.array(dst, p.elem, v.Items())
	case connect.Map:
		if p.key != nil && p.key.kind == connect.String {
			return w.object(dst, p.elem, v.Items())
		}
		return w.pairs(dst, p.key, p.elem, v.Items())
	case connect.Bytes:
		if p.logical == decimalLogical {
			return w.decimal(dst, v, p.scale)
		}
	}
	return w.scalar(dst, v)
}

func (w jsonWriter) schemaless(dst []byte, v connect.Value) ([]byte, error) {
	switch v.Kind() {
	case connect.Null:
		return append(dst, "null"...), nil
	case connect.Struct:
		return dst, dataErrorf("a struct without a schema")
	case connect.Array:
		return w.array(dst, nil, v.Items())
	case connect.Map:
		items := v.Items()
		for i := 0; i+1 < len(items); i += 2 {
			if items[i].Kind() != connect.String {
				return w.pairs(dst, nil, nil, items)
			}
		}
		return w.object(dst, nil, items)
	}
	return w.scalar(dst, v)
}

func (w jsonWriter) scalar(dst []byte, v connect.Value) ([]byte, error) {
	switch v.Kind() {
	case connect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
		if text, ok := v.Text(); ok {
			return append(dst, text...), nil
		}
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case connect.Float32, connect.Float64:
		if text, ok := v.Text(); ok && isJavaFloat(text, v.Kind()) {
			return append(dst, text...), nil
		}
		f := v.Float()
		if isFinite(f) {
			return appendFloat(dst, f, floatBits(v.Kind())), nil
		}
		return append(appendFloat(append(dst, '"'), f, 64), '"'), nil
	case connect.String:
		return appendQuoted(dst, v.Str()), nil
	case connect.Bytes:
		if text, ok := v.Text(); ok {
			return dst, dataErrorf("the decimal %s without a Decimal's schema", text)
		}
		return appendBase64(dst, v.Bytes()), nil
	}
	return dst, dataErrorf("a value of unknown kind %s", v.Kind())
}

func (w jsonWriter) structure(dst []byte, p *plan, items []connect.Value) ([]byte, error) {
	if len(items) != len(p.fields) {
		return dst, dataErrorf("a struct of %d values where the schema has %d fields", len(items), len(p.fields))
	}
	dst = append(dst, '{')
	var err error
	for i := range p.fields {
		f := &p.fields[i]
		comma := f.comma
		if i == 0 {
			comma = comma[1:]
		}
		if dst, err = w.value(append(dst, comma...), f.plan, items[i]); err != nil {
			return dst, inField(f.name, err)
		}
	}
	return append(dst, '}'), nil
}

func (w jsonWriter) array(dst []byte, elem *plan, items []connect.Value) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = w.value(dst, elem, items[i]); err != nil {
			return dst, inField(strconv.Itoa(i), err)
		}
	}
	return append(dst, ']'), nil
}

func (w jsonWriter) object(dst []byte, elem *plan, items []connect.Value) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i := 0; i+1 < len(items); i += 2 {
		if items[i].Kind() != connect.String {
			return dst, wrongKind(connect.String, items[i].Kind())
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, items[i].Str()), ':')
		if dst, err = w.value(dst, elem, items[i+1]); err != nil {
			return dst, inField(items[i].Str(), err)
		}
	}
	return append(dst, '}'), nil
}

func (w jsonWriter) pairs(dst []byte, key, elem *plan, items []connect.Value) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i := 0; i+1 < len(items); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = w.value(append(dst, '['), key, items[i]); err != nil {
			return dst, err
		}
		if dst, err = w.value(append(dst, ','), elem, items[i+1]); err != nil {
			return dst, err
		}
		dst = append(dst, ']')
	}
	return append(dst, ']'), nil
}

func (w jsonWriter) decimal(dst []byte, v connect.Value, scale int) ([]byte, error) {
	if w.numeric {
		return appendDecimal(dst, v, scale)
	}
	var scratch [8]byte
	b, err := unscaledBytes(&scratch, v, scale)
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

// schema appends a schema as the JsonConverter writes it; field is the name of the struct's field it belongs to, and
// inField says that there is one.
func (w jsonWriter) schema(dst []byte, s *connect.Schema, field string, inStruct bool) ([]byte, error) {
	if s == nil {
		return append(dst, "null"...), nil
	}
	dst = append(append(append(dst, `{"type":"`...), s.Type.String()...), '"')
	var err error
	switch s.Type {
	case connect.Array:
		dst, err = w.schema(append(dst, `,"items":`...), s.Elem, "", false)
	case connect.Map:
		if dst, err = w.schema(append(dst, `,"keys":`...), s.Key, "", false); err == nil {
			dst, err = w.schema(append(dst, `,"values":`...), s.Elem, "", false)
		}
	case connect.Struct:
		dst = append(dst, `,"fields":[`...)
		for i := range s.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = w.schema(dst, s.Fields[i].Schema, s.Fields[i].Name, true); err != nil {
				return dst, inField(s.Fields[i].Name, err)
			}
		}
		dst = append(dst, ']')
	}
	if err != nil {
		return dst, err
	}
	if dst, err = w.schemaTail(dst, s); err != nil {
		return dst, err
	}
	if inStruct {
		dst = appendQuoted(append(dst, `,"field":`...), field)
	}
	return append(dst, '}'), nil
}

func (w jsonWriter) schemaTail(dst []byte, s *connect.Schema) ([]byte, error) {
	dst = strconv.AppendBool(append(dst, `,"optional":`...), s.Optional)
	if s.Name != "" {
		dst = appendQuoted(append(dst, `,"name":`...), s.Name)
	}
	if s.Version != 0 {
		dst = strconv.AppendInt(append(dst, `,"version":`...), int64(s.Version), 10)
	}
	if s.Doc != "" {
		dst = appendQuoted(append(dst, `,"doc":`...), s.Doc)
	}
	if len(s.Params) > 0 {
		dst = append(dst, `,"parameters":{`...)
		for i, p := range s.Params {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendQuoted(append(appendQuoted(dst, p.Name), ':'), p.Value)
		}
		dst = append(dst, '}')
	}
	if s.Default == nil || s.Default.IsNull() {
		return dst, nil
	}
	p, err := compile(s, true)
	if err != nil {
		return dst, err
	}
	return w.value(append(dst, `,"default":`...), p, *s.Default)
}
