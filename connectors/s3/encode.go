package s3

import (
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
		dst, err = f.text.AppendData(dst, &r.Value)
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
	dst, err := f.text.AppendData(dst, &r.Key)
	if err != nil {
		return dst, fmt.Errorf("key: %w", err)
	}
	dst = append(dst, `,"value":`...)
	if dst, err = f.text.AppendData(dst, &r.Value); err != nil {
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
		if dst, err = f.text.AppendData(dst, &r.Headers[i].Value); err != nil {
			return dst, fmt.Errorf("header %s: %w", r.Headers[i].Key, err)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}
