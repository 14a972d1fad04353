package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// OffsetMap is a source partition or a source offset: named scalars in a fixed order, as Kafka Connect stores them as a
// flat JSON object (KIP-875). The order matters for a partition: Java finds a stored offset by the key's bytes.
// A nil OffsetMap is JSON null: an offset that was forgotten.
type OffsetMap []OffsetEntry

// OffsetEntry is one named scalar: null, boolean, integer, float or string.
type OffsetEntry struct {
	Name  string
	Value Value
}

// ErrNotFlat is returned for an offset that is not a flat JSON object.
var ErrNotFlat = errors.New("connect: an offset must be a flat JSON object of scalars")

// Get gives an entry's value, or null.
func (m OffsetMap) Get(name string) Value {
	for i := range m {
		if m[i].Name == name {
			return m[i].Value
		}
	}
	return Value{}
}

// Has reports whether an entry is there, though it may be null.
func (m OffsetMap) Has(name string) bool {
	for i := range m {
		if m[i].Name == name {
			return true
		}
	}
	return false
}

// With gives a copy in which name has the value v, in its old place or at the end.
func (m OffsetMap) With(name string, v Value) OffsetMap {
	out := append(make(OffsetMap, 0, len(m)+1), m...)
	for i := range out {
		if out[i].Name == name {
			out[i].Value = v
			return out
		}
	}
	return append(out, OffsetEntry{name, v})
}

// Equal reports whether two maps mean the same: same names and values in any order, integers compared by number.
func (m OffsetMap) Equal(o OffsetMap) bool {
	if len(m) != len(o) || (m == nil) != (o == nil) {
		return false
	}
	for i := range m {
		if !o.Has(m[i].Name) || !sameScalar(m[i].Value, o.Get(m[i].Name)) {
			return false
		}
	}
	return true
}

func sameScalar(a, b Value) bool {
	if isInt(a.kind) && isInt(b.kind) {
		return a.Int() == b.Int()
	}
	return a.Equal(b)
}

func isInt(k Kind) bool { return k >= Int8 && k <= Int64 }

// AppendJSON appends the map as compact JSON in its own order.
func (m OffsetMap) AppendJSON(dst []byte) []byte {
	if m == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i := range m {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, m[i].Name)
		dst = append(dst, ':')
		switch v := m[i].Value; v.kind {
		case Bool:
			dst = strconv.AppendBool(dst, v.Bool())
		case Int8, Int16, Int32, Int64:
			dst = strconv.AppendInt(dst, v.Int(), 10)
		case Float32, Float64:
			b, err := json.Marshal(v.Float())
			if err != nil {
				b = []byte("null") // NaN and infinities have no JSON
			}
			dst = append(dst, b...)
		case String:
			dst = appendQuoted(dst, v.Str())
		default:
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

func appendQuoted(dst []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// String gives the map as JSON.
func (m OffsetMap) String() string { return string(m.AppendJSON(nil)) }

// MarshalJSON and UnmarshalJSON keep the order of entries.
func (m OffsetMap) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads a flat JSON object or null.
func (m *OffsetMap) UnmarshalJSON(b []byte) error {
	got, err := ParseOffsetMap(b)
	*m = got
	return err
}

// ParseOffsetMap reads a flat JSON object of scalars, keeping its order, or null. Integers become Int64, other numbers
// Float64. It returns [ErrNotFlat] for anything else.
func ParseOffsetMap(b []byte) (OffsetMap, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	tok, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFlat, err)
	}
	if tok == nil {
		return nil, nil
	}
	if tok != json.Delim('{') {
		return nil, ErrNotFlat
	}
	m := OffsetMap{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotFlat, err)
		}
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotFlat, err)
		}
		v, err := scalar(tok)
		if err != nil {
			return nil, err
		}
		key, ok := name.(string)
		if !ok {
			return nil, ErrNotFlat
		}
		m = append(m, OffsetEntry{key, v})
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFlat, err)
	}
	return m, nil
}

func scalar(tok json.Token) (Value, error) {
	switch t := tok.(type) {
	case nil:
		return Value{}, nil
	case bool:
		return BoolValue(t), nil
	case string:
		return StringValue(t), nil
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return Int64Value(n), nil
		}
		f, err := t.Float64()
		if err != nil {
			return Value{}, fmt.Errorf("%w: %w", ErrNotFlat, err)
		}
		return Float64Value(f), nil
	}
	return Value{}, ErrNotFlat
}
