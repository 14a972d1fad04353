package convert

import (
	"errors"
	"strings"

	"github.com/weirlog/weir/connect"
)

// typed is a value with its schema; a nil *typed is null.
type typed struct {
	schema *connect.Schema
	value  connect.Value
}

// Schemas of literals; never changed.
var (
	literalString = &connect.Schema{Type: connect.String}
	literalBool   = &connect.Schema{Type: connect.Bool}
)

// errNoLiteral says that the text is no list or map and is to be taken as a string.
var errNoLiteral = errors.New("no literal")

// maxLiteralDepth bounds nesting of lists and maps; what is deeper is a string.
const maxLiteralDepth = 200

// parseLiteral infers the type of a text as Kafka Connect's Values does: null, booleans, whole numbers of the narrowest
// type, floats, decimals, dates, times, lists and maps; anything else is a string.
func parseLiteral(text string) (*connect.Schema, connect.Value) {
	if text == "" {
		return literalString, connect.StringValue(text)
	}
	p := &literalParser{text: text}
	t, err := p.parse(false, 0)
	switch {
	case err != nil:
		return literalString, connect.StringValue(text)
	case t == nil:
		return nil, connect.Value{}
	}
	return t.schema, t.value
}

// literalParser splits a text at unescaped : , { } [ ] and " and reads the tokens. A token may have been looked at
// without being taken.
type literalParser struct {
	text     string
	at       int
	token    string // looked at, not taken
	has      bool
	previous string // taken last
}

func (p *literalParser) mark() int     { return p.at - len(p.token) }
func (p *literalParser) rewind(to int) { p.at, p.token, p.has, p.previous = to, "", false, "" }
func (p *literalParser) more() bool    { return p.has || p.at < len(p.text) }

func (p *literalParser) next() string {
	if p.has {
		p.previous, p.token, p.has = p.token, "", false
	} else {
		p.previous = p.scan()
	}
	return p.previous
}

func (p *literalParser) scan() string {
	escaped := false
	start := p.at
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			escaped = !escaped
		case ':', ',', '{', '}', '[', ']', '"':
			if !escaped {
				if start == p.at {
					p.at++
				}
				return p.text[start:p.at]
			}
			escaped = false
		default:
			escaped = false
		}
	}
	return p.text[start:p.at]
}

// take takes the next token if it is want, apart from white space around it.
func (p *literalParser) take(want string) bool {
	if !p.has {
		if !p.more() {
			return false
		}
		p.token, p.has = p.scan(), true
	}
	for strings.TrimSpace(p.token) == "" && p.at < len(p.text) {
		p.token = p.scan()
	}
	if strings.TrimSpace(p.token) != want {
		return false
	}
	p.token, p.has = "", false
	return true
}

// takeWord takes a word that is all there is, or within a list any such token.
func (p *literalParser) takeWord(word string, embedded bool) bool {
	start := p.mark()
	if p.take(word) && (embedded || !p.more()) {
		return true
	}
	p.rewind(start)
	return false
}

func (p *literalParser) parse(embedded bool, depth int) (*typed, error) {
	switch {
	case depth > maxLiteralDepth:
		return nil, errNoLiteral
	case !p.more():
		return nil, nil
	case embedded && p.take(`"`):
		return p.quoted(), nil
	case p.takeWord("null", embedded):
		return nil, nil
	case p.takeWord("true", embedded):
		return &typed{literalBool, connect.BoolValue(true)}, nil
	case p.takeWord("false", embedded):
		return &typed{literalBool, connect.BoolValue(false)}, nil
	}
	start := p.mark()
	list := p.take("[")
	if list || p.take("{") {
		read := p.mapping
		if list {
			read = p.list
		}
		if t, err := read(depth); err == nil {
			return t, nil
		}
		p.rewind(start)
	}
	token := p.next()
	trimmed := strings.TrimSpace(token)
	if trimmed == "" {
		return &typed{literalString, connect.StringValue(token)}, nil
	}
	return p.scalar(trimmed, embedded)
}

func (p *literalParser) scalar(token string, embedded bool) (*typed, error) {
	digit := token[0] >= '0' && token[0] <= '9'
	if digit {
		if t := p.temporal(token); t != nil {
			return t, nil
		}
	}
	if digit || token[0] == '+' || token[0] == '-' {
		if t := numberLiteral(token); t != nil {
			return t, nil
		}
	}
	if embedded {
		return nil, errNoLiteral
	}
	return &typed{literalString, connect.StringValue(p.text)}, nil
}

// temporal reads a time, whose colons split it into five tokens, or a date.
func (p *literalParser) temporal(token string) *typed {
	start := p.mark()
	full := token
	for range 4 {
		if !p.more() {
			full = ""
			break
		}
		full += p.next()
	}
	if full != "" {
		if t := temporalLiteral(full); t != nil {
			return t
		}
	}
	p.rewind(start)
	return temporalLiteral(token)
}

func (p *literalParser) quoted() *typed {
	var b strings.Builder
	for p.more() && !p.take(`"`) {
		b.WriteString(p.next())
	}
	if t := temporalLiteral(b.String()); t != nil {
		return t
	}
	return &typed{literalString, connect.StringValue(b.String())}
}

func (p *literalParser) list(depth int) (*typed, error) {
	var items []connect.Value
	var elems schemaMerger
	for p.more() {
		if p.take("]") {
			items, err := elems.align(items)
			return &typed{&connect.Schema{Type: connect.Array, Elem: elems.schema()}, connect.ArrayValue(items)}, err
		}
		if p.take(",") {
			return nil, errNoLiteral
		}
		t, err := p.parse(true, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, elems.add(t))
		here := p.mark()
		if p.take("]") {
			p.rewind(here)
		} else if !p.take(",") {
			return nil, errNoLiteral
		}
	}
	return nil, errNoLiteral
}

func (p *literalParser) mapping(depth int) (*typed, error) {
	var names, values []connect.Value
	var keys, elems schemaMerger
	for p.more() {
		if p.take("}") {
			s := &connect.Schema{Type: connect.Map, Key: keys.schema()}
			names, err := keys.align(names)
			if err == nil && s.Key != nil {
				s.Elem = elems.schema()
				values, err = elems.align(values)
			}
			if err != nil {
				return nil, err
			}
			return &typed{s, connect.MapValue(zip(names, values))}, nil
		}
		if p.take(",") {
			return nil, errNoLiteral
		}
		k, err := p.parse(true, depth+1)
		if err != nil {
			return nil, err
		}
		if k == nil || !p.take(":") {
			return nil, errNoLiteral
		}
		v, err := p.parse(true, depth+1)
		if err != nil {
			return nil, err
		}
		names, values = append(names, keys.add(k)), append(values, elems.add(v))
		p.take(",")
	}
	return nil, errNoLiteral
}

// zip makes the pairs of a map; of equal keys the last counts, in the place of the first.
func zip(names, values []connect.Value) []connect.Value {
	pairs := make([]connect.Value, 0, 2*len(names))
	at := map[string]int{}
	for i, n := range names {
		id := n.Kind().String() + n.String()
		if j, ok := at[id]; ok {
			pairs[j+1] = values[i]
			continue
		}
		at[id] = len(pairs)
		pairs = append(pairs, n, values[i])
	}
	return pairs
}

// schemaMerger finds the one schema of a list's elements: numbers widen, anything else must be the same.
type schemaMerger struct {
	common *connect.Schema
	mixed  bool
}

// add takes an element in and gives its value.
func (m *schemaMerger) add(t *typed) connect.Value {
	if t == nil {
		return connect.Value{}
	}
	switch {
	case m.mixed:
	case m.common == nil:
		m.common = t.schema
	case isPlainNumber(m.common) && isPlainNumber(t.schema):
		if t.schema.Type > m.common.Type {
			m.common = t.schema
		}
	case !m.common.Equal(t.schema):
		m.common, m.mixed = nil, true
	}
	return t.value
}

func isPlainNumber(s *connect.Schema) bool {
	return s.Type >= connect.Int8 && s.Type <= connect.Float64 && s.Name == ""
}

// schema gives the common schema, nil for none.
func (m *schemaMerger) schema() *connect.Schema { return m.common }

// align gives numbers the common type. Nulls beside values of a common type make no list: the types of literals are not
// optional.
func (m *schemaMerger) align(items []connect.Value) ([]connect.Value, error) {
	if m.common == nil {
		return items, nil
	}
	for i, v := range items {
		switch {
		case v.IsNull():
			return nil, errNoLiteral
		case v.Kind() == m.common.Type:
		case m.common.Type == connect.Float32:
			items[i] = connect.Float32Value(float32(v.Float()))
		case m.common.Type == connect.Float64:
			items[i] = connect.Float64Value(v.Float())
		default:
			items[i] = connect.IntValue(m.common.Type, v.Int())
		}
	}
	return items, nil
}
