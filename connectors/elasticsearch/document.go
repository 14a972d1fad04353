package elasticsearch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect"
)

// maxIDBytes is the server's limit.
const maxIDBytes = 512

var (
	errNullKey   = errors.New("the key is null: set key.ignore=true for ids made of topic, partition and offset")
	errNullValue = errors.New("the value is null: set behavior.on.null.values to delete or ignore")
	errNoObject  = errors.New("a document must be a JSON object")
)

// documentID makes the id of a key: see the package comment.
func documentID(key *connect.Data) (string, error) {
	if err := key.Decode(); err != nil {
		return "", err
	}
	id, err := idText(key.Schema(), key.Value())
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", errors.New("the key is empty")
	case len(id) > maxIDBytes:
		return "", fmt.Errorf("the key makes an id of %d bytes, the limit is %d", len(id), maxIDBytes)
	}
	return id, nil
}

func idText(s *connect.Schema, v connect.Value) (string, error) {
	var names, texts []string
	switch v.Kind() {
	case connect.Null:
		return "", errNullKey
	case connect.Struct:
		if s == nil || len(s.Fields) != len(v.Items()) {
			return "", errors.New("the key does not fit its schema")
		}
		for i, item := range v.Items() {
			text, err := scalarText(s.Fields[i].Schema, item)
			if err != nil {
				return "", fmt.Errorf("key field %s: %w", s.Fields[i].Name, err)
			}
			names, texts = append(names, s.Fields[i].Name), append(texts, text)
		}
	case connect.Map:
		items := v.Items()
		for i := 0; i+1 < len(items); i += 2 {
			text, err := scalarText(nil, items[i+1])
			if err != nil {
				return "", fmt.Errorf("key field %s: %w", items[i].Str(), err)
			}
			names, texts = append(names, items[i].Str()), append(texts, text)
		}
	default:
		if text, err := scalarText(s, v); err != nil || text != nullText {
			return text, err
		}
		return "", errNullKey
	}
	if len(texts) == 1 {
		if texts[0] == nullText {
			return "", errNullKey
		}
		return texts[0], nil
	}
	return joinFields(names, texts), nil
}

// nullText stands for null where a text is wanted; no text of UTF-8 is equal to it.
const nullText = "\xff"

func joinFields(names, texts []string) string {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	escape := strings.NewReplacer("%", "%25", "+", "%2B")
	var b strings.Builder
	for n, i := range order {
		if n > 0 {
			b.WriteByte('+')
		}
		if texts[i] == nullText {
			b.WriteString("%00") // escaping keeps it apart from every text
		} else {
			escape.WriteString(&b, texts[i]) //nolint:errcheck // a Builder takes everything
		}
	}
	return b.String()
}

func scalarText(s *connect.Schema, v connect.Value) (string, error) {
	switch v.Kind() {
	case connect.Null:
		return nullText, nil
	case connect.String:
		return v.Str(), nil
	case connect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case connect.Float32, connect.Float64, connect.Bytes:
		text, err := connect.JSONText{DecimalNumbers: true}.Append(nil, s, v)
		return strings.Trim(string(text), `"`), err
	}
	return "", fmt.Errorf("a %s can't be part of an id", v.Kind())
}

// action appends an operation's first line.
func (s *sink) action(dst []byte, op, index, id string, version int64) []byte {
	dst = append(dst, `{"`...)
	dst = append(dst, op...)
	dst = append(dst, `":{"_index":`...)
	dst = connect.AppendJSONString(dst, index)
	if id != "" {
		dst = append(dst, `,"_id":`...)
		dst = connect.AppendJSONString(dst, id)
	}
	switch {
	case version >= 0:
		dst = append(dst, `,"version":`...)
		dst = strconv.AppendInt(dst, version, 10)
		dst = append(dst, `,"version_type":"external"`...)
	case op == "update":
		dst = append(dst, `,"retry_on_conflict":5`...)
	}
	return append(dst, "}}\n"...)
}

// document appends a record's value as the second line.
func (s *sink) document(dst []byte, d *connect.Data) ([]byte, error) {
	start := len(dst)
	if s.upsert {
		dst = append(dst, `{"doc":`...)
	}
	from := len(dst)
	dst, err := s.text.AppendData(dst, d)
	if err != nil {
		return dst[:start], err
	}
	if b := bytes.TrimLeft(dst[from:], " \t"); len(b) == 0 || b[0] != '{' {
		return dst[:start], errNoObject
	}
	if s.upsert {
		dst = append(dst, `,"doc_as_upsert":true}`...)
	}
	return append(dst, '\n'), nil
}

// indexName makes the index of a topic.
func indexName(topic string) (string, error) {
	name := strings.TrimLeft(strings.ToLower(topic), "-_+")
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`\/*?"<>| ,#:`, r) {
			return '_'
		}
		return r
	}, name)
	if name == "" || name == "." || name == ".." || len(name) > 255 {
		return "", fmt.Errorf("topic %q makes no valid index name", topic)
	}
	return name, nil
}
