package s3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirlog/weir/connect"
)

// format turns a record into the bytes of its object.
type format struct {
	raw       bool // ByteArrayFormat
	separator []byte
	envelope  bool
	text      connect.JSONText
	extension string
}

var errNotBytes = errors.New("ByteArrayFormat writes bytes only: use ByteArrayConverter as value.converter")

// isNull tells whether a record's value is null. It decodes the value if nothing else can tell.
func isNull(d *connect.Data) (bool, error) {
	b, kind, ok := d.Encoded()
	if !ok {
		return d.IsNull(), nil
	}
	if kind == "json" && !hasSchema(b) {
		return string(bytes.TrimSpace(b)) == "null", nil
	}
	if err := d.Decode(); err != nil {
		return false, err
	}
	return d.IsNull(), nil
}

// record appends a record's line to dst. After an error dst is as it was.
func (f *format) record(dst []byte, r *connect.Record) ([]byte, error) {
	start := len(dst)
	var err error
	switch {
	case f.raw:
		return f.bytes(dst, &r.Value)
	case f.envelope:
		dst, err = f.enveloped(dst, r)
	default:
		dst, err = f.data(dst, &r.Value)
	}
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '\n'), nil
}

func (f *format) bytes(dst []byte, d *connect.Data) ([]byte, error) {
	if err := d.Decode(); err != nil {
		return dst, err
	}
	if d.Value().Kind() != connect.Bytes {
		return dst, errNotBytes
	}
	return append(append(dst, d.Value().Bytes()...), f.separator...), nil
}

// enveloped writes the whole record:
//
//	{"topic":"t","partition":0,"offset":17,"timestamp":1700000000000,"key":…,"value":…,"headers":[{"key":"k","value":…}]}
func (f *format) enveloped(dst []byte, r *connect.Record) ([]byte, error) {
	dst = append(dst, `{"topic":`...)
	dst = connect.AppendJSONString(dst, r.Origin.Topic)
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(r.Origin.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, r.Origin.Offset, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, r.Timestamp, 10)
	dst = append(dst, `,"key":`...)
	dst, err := f.data(dst, &r.Key)
	if err != nil {
		return dst, fmt.Errorf("key: %w", err)
	}
	dst = append(dst, `,"value":`...)
	if dst, err = f.data(dst, &r.Value); err != nil {
		return dst, err
	}
	dst = append(dst, `,"headers":`...)
	if dst, err = f.headers(dst, r); err != nil {
		return dst, err
	}
	return append(dst, '}'), nil
}

// headers writes a record's headers as an array, which keeps their order and repeated keys.
func (f *format) headers(dst []byte, r *connect.Record) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = connect.AppendJSONString(dst, r.Headers[i].Key)
		dst = append(dst, `,"value":`...)
		if dst, err = f.data(dst, &r.Headers[i].Value); err != nil {
			return dst, fmt.Errorf("header %s: %w", r.Headers[i].Key, err)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

// data writes a key's or value's payload as JSON on one line. JSON that nobody has changed is copied.
func (f *format) data(dst []byte, d *connect.Data) ([]byte, error) {
	if b, kind, ok := d.Encoded(); ok && kind == "json" && !hasSchema(b) {
		return appendLine(dst, b)
	}
	if err := d.Decode(); err != nil {
		return dst, err
	}
	return f.text.Append(dst, d.Schema(), d.Value())
}

// hasSchema tells whether JSON looks like JsonConverter's {"schema": …, "payload": …}: its payload is what counts.
func hasSchema(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	b = bytes.TrimLeft(b[1:], " \t\r\n")
	return bytes.HasPrefix(b, []byte(`"schema"`)) || bytes.HasPrefix(b, []byte(`"payload"`))
}

// appendLine copies a JSON text, without line feeds if it has any.
func appendLine(dst, b []byte) ([]byte, error) {
	if !json.Valid(b) {
		return dst, fmt.Errorf("%w: not JSON: %.80q", connect.ErrNotDecoded, b)
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
