package postgres

import (
	"fmt"
	"unicode/utf8"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// array reads {1,NULL,"a b",{…}}: nested arrays are given flat. An array with own bounds starts with [l:u]=.
func (c *codec) array(text []byte, a *debezium.Arena) (connect.Value, error) {
	i := 0
	if len(text) > 0 && text[0] == '[' {
		for i < len(text) && text[i] != '=' {
			i++
		}
		i++
	}
	items := a.Take(countElements(text))[:0]
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '{':
			depth++
			i++
			continue
		case '}':
			depth--
			i++
			continue
		case ',':
			i++
			continue
		}
		if depth <= 0 {
			return connect.Value{}, fmt.Errorf("%q is not an array", text)
		}
		item, quoted, end, err := arrayItem(text, i, a)
		if err != nil {
			return connect.Value{}, err
		}
		i = end
		if !quoted && debezium.AsString(item) == "NULL" {
			items = append(items, connect.Value{})
			continue
		}
		v, err := c.elem.decode(item, a)
		if err != nil {
			return connect.Value{}, err
		}
		items = append(items, v)
	}
	if depth != 0 || len(text) == 0 {
		return connect.Value{}, fmt.Errorf("%q is not an array", text)
	}
	return connect.ArrayValue(items), nil
}

// countElements gives an upper bound of an array's elements.
func countElements(text []byte) int {
	n := 1
	for _, b := range text {
		if b == ',' {
			n++
		}
	}
	return n
}

// arrayItem reads the element at i, without its quotes and escapes, and where it ends.
func arrayItem(text []byte, i int, a *debezium.Arena) (item []byte, quoted bool, end int, err error) {
	if text[i] != '"' {
		start := i
		for i < len(text) && text[i] != ',' && text[i] != '}' {
			i++
		}
		return text[start:i:i], false, i, nil
	}
	item, end, err = quotedText(text, i, a)
	return item, true, end, err
}

// quotedText reads the text in quotes at i; a backslash escapes the next character.
func quotedText(text []byte, i int, a *debezium.Arena) ([]byte, int, error) {
	start := i + 1
	escaped := false
	for i = start; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			escaped = true
			i++
		}
	}
	if i >= len(text) {
		return nil, 0, fmt.Errorf("%q has an open quote", text)
	}
	raw := text[start:i:i]
	if !escaped {
		return raw, i + 1, nil
	}
	out := a.Scratch(len(raw))
	for k := 0; k < len(raw); k++ {
		if raw[k] == '\\' {
			k++
		}
		out = append(out, raw[k])
	}
	return a.Keep(out), i + 1, nil
}

// hstore reads "a"=>"1", "b"=>NULL.
func (c *codec) hstore(text []byte, a *debezium.Arena) (connect.Value, error) {
	var pairs []connect.Value
	bad := fmt.Errorf("%q is not an hstore", text)
	for i := 0; i < len(text); {
		if text[i] == ',' || text[i] == ' ' {
			i++
			continue
		}
		if text[i] != '"' {
			return connect.Value{}, bad
		}
		key, end, err := quotedText(text, i, a)
		if err != nil {
			return connect.Value{}, err
		}
		if i = end + 2; i > len(text) || string(text[end:i]) != "=>" {
			return connect.Value{}, bad
		}
		var value connect.Value
		switch {
		case i < len(text) && text[i] == '"':
			var b []byte
			if b, i, err = quotedText(text, i, a); err != nil {
				return connect.Value{}, err
			}
			value = connect.StringValue(debezium.AsString(b))
		case i+4 <= len(text) && string(text[i:i+4]) == "NULL":
			i += 4
		default:
			return connect.Value{}, bad
		}
		pairs = append(pairs, connect.StringValue(debezium.AsString(key)), value)
	}
	if c.kind == codecHstoreMap {
		return connect.MapValue(pairs), nil
	}
	return connect.StringValue(hstoreJSON(pairs)), nil
}

func hstoreJSON(pairs []connect.Value) string {
	out := []byte{'{'}
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendJSONString(out, pairs[i].Str())
		out = append(out, ':')
		if pairs[i+1].IsNull() {
			out = append(out, "null"...)
			continue
		}
		out = appendJSONString(out, pairs[i+1].Str())
	}
	return string(append(out, '}'))
}

func appendJSONString(out []byte, s string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, '\\', 'n')
		case r == '\r':
			out = append(out, '\\', 'r')
		case r == '\t':
			out = append(out, '\\', 't')
		case r < 0x20:
			out = append(out, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}
