package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// jsonNode is a value of a document that changes are applied to. Scalars stay as bytes.
type jsonNode struct {
	kind  byte   // object, array (small or large) or a scalar's type
	data  []byte // of a scalar
	keys  [][]byte
	items []*jsonNode
}

func (n *jsonNode) isObject() bool { return n.kind <= jsonLargeObject }
func (n *jsonNode) isArray() bool  { return n.kind == jsonSmallArray || n.kind == jsonLargeArray }

// jsonTree reads a binary value.
func jsonTree(kind byte, data []byte, depth int, left *int) (*jsonNode, error) {
	if *left--; *left < 0 || depth > maxJSONDepth {
		return nil, fmt.Errorf("a JSON document nested deeper than %d, or with values that share bytes", maxJSONDepth)
	}
	n := &jsonNode{kind: kind, data: data}
	if !n.isObject() && !n.isArray() {
		return n, nil
	}
	list, err := jsonListOf(kind, data)
	if err != nil {
		return nil, err
	}
	for i := range list.count {
		if list.object {
			key, err := list.key(i)
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, key)
		}
		kind, data, err := list.value(i)
		if err != nil {
			return nil, err
		}
		item, err := jsonTree(kind, data, depth+1, left)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	return n, nil
}

func (n *jsonNode) appendTo(out []byte, depth int) ([]byte, error) {
	if !n.isObject() && !n.isArray() {
		left := 1
		return appendJSON(out, n.kind, n.data, depth, &left)
	}
	opening, closing := byte('['), byte(']')
	if n.isObject() {
		opening, closing = '{', '}'
	}
	out = append(out, opening)
	var err error
	for i, item := range n.items {
		if i > 0 {
			out = append(out, ',', ' ')
		}
		if n.isObject() {
			out = append(appendJSONString(out, n.keys[i]), ':', ' ')
		}
		if out, err = item.appendTo(out, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, closing), nil
}

// Operations of a JSON diff.
const jsonReplace, jsonInsert, jsonRemove = 0, 1, 2

var errPatch = errors.New("a JSON diff does not fit the document before it")

// patched applies diffs to the before image's document and gives the text of the result. A diff is
//
//	operation | path, a text with its packed length | but for a removal: the value, with its packed length
func patched(before, diffs []byte, a *debezium.Arena) (connect.Value, error) {
	if before == nil {
		return connect.Value{}, errors.New("a JSON diff whose document is not in the before image (binlog_row_image is not FULL)")
	}
	kind, data := byte(jsonLiteral), []byte{0}
	if len(before) > 0 {
		kind, data = before[0], before[1:]
	}
	left := len(data) + 1
	root, err := jsonTree(kind, data, 0, &left)
	for err == nil && len(diffs) > 0 {
		diffs, err = root.apply(diffs)
	}
	if err != nil {
		return connect.Value{}, err
	}
	out, err := root.appendTo(a.Scratch(2*len(before)), 0)
	if err != nil {
		return connect.Value{}, err
	}
	return connect.StringValue(a.KeepString(out)), nil
}

// apply applies the first of diffs to the document.
func (n *jsonNode) apply(diffs []byte) (rest []byte, err error) {
	operation := diffs[0]
	path, rest, err := packedBytes(diffs[1:])
	if err != nil {
		return nil, err
	}
	var item *jsonNode
	if operation != jsonRemove {
		var raw []byte
		if raw, rest, err = packedBytes(rest); err != nil || len(raw) == 0 {
			return nil, errJSON
		}
		left := len(raw)
		if item, err = jsonTree(raw[0], raw[1:], 0, &left); err != nil {
			return nil, err
		}
	}
	legs, err := jsonPath(path)
	if err != nil {
		return nil, err
	}
	if len(legs) == 0 {
		if operation != jsonReplace {
			return nil, errPatch
		}
		*n = *item
		return rest, nil
	}
	for _, l := range legs[:len(legs)-1] {
		at, found := n.find(l)
		if !found {
			return nil, errPatch
		}
		if at >= 0 {
			n = n.items[at]
		}
	}
	return rest, n.change(operation, legs[len(legs)-1], item)
}

// change does one operation at a member or cell of n.
func (n *jsonNode) change(operation byte, l jsonLeg, item *jsonNode) error {
	at, found := n.find(l)
	switch {
	case operation == jsonInsert && n.isObject() && l.key != nil && !found:
		n.keys = slices.Insert(n.keys, at, l.key)
		n.items = slices.Insert(n.items, at, item)
	case operation == jsonInsert && n.isArray() && l.key == nil:
		n.items = slices.Insert(n.items, min(l.index, len(n.items)), item)
	case operation == jsonReplace && found && at < 0:
		*n = *item
	case operation == jsonReplace && found:
		n.items[at] = item
	case operation == jsonRemove && found && at >= 0:
		n.items = slices.Delete(n.items, at, at+1)
		if n.isObject() {
			n.keys = slices.Delete(n.keys, at, at+1)
		}
	default:
		return errPatch
	}
	return nil
}

// find gives the place of a leg's item, -1 for n itself (the only cell of what is no array), or where it would stand.
func (n *jsonNode) find(l jsonLeg) (at int, found bool) {
	switch {
	case l.key != nil && n.isObject():
		return slices.BinarySearchFunc(n.keys, l.key, compareKeys)
	case l.key == nil && n.isArray():
		return l.index, l.index < len(n.items)
	case l.key == nil && l.index == 0:
		return -1, true
	}
	return 0, false
}

// compareKeys is the order of an object's keys: the shorter first.
func compareKeys(a, b []byte) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

// jsonLeg is one step of a path: a member's key, or, if nil, a cell's index.
type jsonLeg struct {
	key   []byte
	index int
}

// jsonPath reads a path: $ and then .name, ."quoted name" and [index] in any order.
func jsonPath(path []byte) (legs []jsonLeg, err error) {
	bad := func() ([]jsonLeg, error) { return nil, fmt.Errorf("the JSON path %q can't be read", path) }
	if len(path) == 0 || path[0] != '$' {
		return bad()
	}
	for rest := path[1:]; len(rest) > 0; {
		switch {
		case rest[0] == '[':
			end := bytes.IndexByte(rest, ']')
			if end < 0 {
				return bad()
			}
			index, err := strconv.Atoi(string(rest[1:end]))
			if err != nil || index < 0 {
				return bad()
			}
			legs, rest = append(legs, jsonLeg{index: index}), rest[end+1:]
		case rest[0] == '.' && len(rest) > 1 && rest[1] == '"':
			end := quoteEnd(rest[1:])
			var key string
			if end < 0 || json.Unmarshal(rest[1:1+end], &key) != nil {
				return bad()
			}
			legs, rest = append(legs, jsonLeg{key: append([]byte{}, key...)}), rest[1+end:]
		case rest[0] == '.':
			end := 1
			for end < len(rest) && rest[end] != '.' && rest[end] != '[' {
				end++
			}
			legs, rest = append(legs, jsonLeg{key: rest[1:end:end]}), rest[end:]
		default:
			return bad()
		}
	}
	return legs, nil
}

// quoteEnd gives the length of the quoted text that begins b, -1 if it has no end.
func quoteEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// packedBytes reads bytes behind their packed length: one byte below 251, else 252, 253 or 254 and 2, 3 or 8 bytes.
func packedBytes(data []byte) (b, rest []byte, err error) {
	if len(data) == 0 {
		return nil, nil, errJSON
	}
	size := 0
	n := uint64(data[0])
	switch data[0] {
	case 252:
		size = 2
	case 253:
		size = 3
	case 254:
		size = 8
	case 251, 255:
		return nil, nil, errJSON
	}
	if data = data[1:]; size > 0 {
		if len(data) < size {
			return nil, nil, errJSON
		}
		n, data = littleEndian(data[:size]), data[size:]
	}
	if n > uint64(len(data)) {
		return nil, nil, errJSON
	}
	return data[:n:n], data[n:], nil
}
