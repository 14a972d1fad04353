package convert

import (
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect"
)

// jsonReader reads JSON values. stack is the room in which lists grow before they are copied out at their size.
type jsonReader struct {
	scanner
	stack []connect.Value
}

func (p *jsonReader) reset(s string) { p.scanner, p.stack = scanner{s: s}, p.stack[:0] }

// take copies what was pushed since base and pops it.
func (p *jsonReader) take(base int) []connect.Value {
	out := append(make([]connect.Value, 0, len(p.stack)-base), p.stack[base:]...)
	clear(p.stack[base:])
	p.stack = p.stack[:base]
	return out
}

// schemaless reads a value as it stands: whole numbers are int64, others float64, objects maps.
func (p *jsonReader) schemaless() (connect.Value, error) {
	switch p.peek() {
	case '{':
		return p.schemalessMap()
	case '[':
		return p.array(nil)
	case '"':
		s, err := p.str()
		return connect.StringValue(s), err
	case 't':
		return connect.BoolValue(true), p.word("true")
	case 'f':
		return connect.BoolValue(false), p.word("false")
	case 'n':
		return connect.Value{}, p.word("null")
	}
	text, whole, err := p.number()
	if err != nil {
		return connect.Value{}, err
	}
	if !whole {
		return connect.Float64Value(parseDouble(text)), nil
	}
	return connect.Int64Value(wrappedInt(text)), nil
}

// wrappedInt gives a whole number's low 64 bits, which is what Java makes of one beyond int64.
func wrappedInt(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n
	}
	big, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return 0
	}
	low := uint64(0)
	for i, w := range big.Bits() {
		if i*strconv.IntSize < 64 {
			low |= uint64(w) << (i * strconv.IntSize)
		}
	}
	if big.Sign() < 0 {
		low = -low
	}
	return int64(low)
}

// parseDouble reads a JSON number; one beyond the range is an infinity, as in Java.
func parseDouble(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64) // the text is a number: the only error is the range
	return f
}

// fewPairs is up to where a map's equal names are found by comparing.
const fewPairs = 16

func (p *jsonReader) schemalessMap() (connect.Value, error) {
	pairs, err := p.object(nil)
	return connect.MapValue(pairs), err
}

// object reads an object as pairs; of equal names the last counts, in the place of the first.
func (p *jsonReader) object(elem *plan) ([]connect.Value, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	base := len(p.stack)
	var seen map[string]int
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return nil, err
		}
		if !more {
			return p.take(base), nil
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		v, err := p.orDefault(elem)
		if err != nil {
			return nil, inField(name, err)
		}
		if (len(p.stack)-base)/2 == fewPairs && seen == nil {
			seen = make(map[string]int, 2*fewPairs)
			for i := base; i < len(p.stack); i += 2 {
				seen[p.stack[i].Str()] = i
			}
		}
		if at := p.find(base, name, seen); at >= 0 {
			p.stack[at+1] = v
			continue
		}
		if seen != nil {
			seen[name] = len(p.stack)
		}
		p.stack = append(p.stack, connect.StringValue(name), v)
	}
}

func (p *jsonReader) find(base int, name string, seen map[string]int) int {
	if seen != nil {
		if at, ok := seen[name]; ok {
			return at
		}
		return -1
	}
	for i := base; i < len(p.stack); i += 2 {
		if p.stack[i].Str() == name {
			return i
		}
	}
	return -1
}

func (p *jsonReader) array(elem *plan) (connect.Value, error) {
	if err := p.open(); err != nil {
		return connect.Value{}, err
	}
	base := len(p.stack)
	for first := true; ; first = false {
		more, err := p.next(']', first)
		if err != nil {
			return connect.Value{}, err
		}
		if !more {
			return connect.ArrayValue(p.take(base)), nil
		}
		v, err := p.orDefault(elem)
		if err != nil {
			return connect.Value{}, inField(strconv.Itoa(len(p.stack)-base), err)
		}
		p.stack = append(p.stack, v)
	}
}

// orDefault reads a value under a plan (nil: schemaless) and gives what stands in for null.
func (p *jsonReader) orDefault(pl *plan) (connect.Value, error) {
	if pl == nil {
		return p.schemaless()
	}
	v, err := p.value(pl)
	if err == nil && v.IsNull() {
		return pl.orDefault()
	}
	return v, err
}

// value reads a value under a plan; null stays null. Where Java turns what does not fit the schema into 0, false or
// another number, this is an error.
func (p *jsonReader) value(pl *plan) (connect.Value, error) {
	c := p.peek()
	if c == 'n' {
		return connect.Value{}, p.word("null")
	}
	switch pl.kind {
	case connect.Struct:
		if c != '{' {
			return connect.Value{}, p.fail("expected an object for a struct")
		}
		return p.structure(pl)
	case connect.Array:
		if c != '[' {
			return connect.Value{}, p.fail("expected an array")
		}
		return p.array(pl.elem)
	case connect.Map:
		return p.mapping(pl, c)
	case connect.String:
		if c != '"' {
			return connect.Value{}, p.fail("expected a string")
		}
		s, err := p.str()
		return connect.StringValue(s), err
	case connect.Bool:
		switch c {
		case 't':
			return connect.BoolValue(true), p.word("true")
		case 'f':
			return connect.BoolValue(false), p.word("false")
		}
		return connect.Value{}, p.fail("expected true or false")
	case connect.Bytes:
		return p.bytes(pl, c)
	case connect.Float32, connect.Float64:
		return p.float(pl.kind, c)
	}
	return p.integer(pl)
}

func (p *jsonReader) structure(pl *plan) (connect.Value, error) {
	if err := p.open(); err != nil {
		return connect.Value{}, err
	}
	out := make([]connect.Value, len(pl.fields))
	hint := 0
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return connect.Value{}, err
		}
		if !more {
			break
		}
		name, err := p.name()
		if err != nil {
			return connect.Value{}, err
		}
		at := pl.field(name, hint)
		if at < 0 {
			if _, err := p.skip(); err != nil {
				return connect.Value{}, err
			}
			continue
		}
		if out[at], err = p.value(pl.fields[at].plan); err != nil {
			return connect.Value{}, inField(name, err)
		}
		hint = at + 1
	}
	for i := range out {
		if out[i].IsNull() {
			v, err := pl.fields[i].plan.orDefault()
			if err != nil {
				return connect.Value{}, inField(pl.fields[i].name, err)
			}
			out[i] = v
		}
	}
	return connect.StructValue(out), nil
}

// mapping reads a map: an object where keys are strings, else an array of pairs.
func (p *jsonReader) mapping(pl *plan, c byte) (connect.Value, error) {
	if pl.key == nil || pl.key.kind == connect.String {
		if c != '{' {
			return connect.Value{}, p.fail("expected an object for a map with string keys")
		}
		pairs, err := p.object(pl.elem)
		return connect.MapValue(pairs), err
	}
	if c != '[' {
		return connect.Value{}, p.fail("expected an array of pairs for a map without string keys")
	}
	if err := p.open(); err != nil {
		return connect.Value{}, err
	}
	base := len(p.stack)
	for first := true; ; first = false {
		more, err := p.next(']', first)
		if err != nil {
			return connect.Value{}, err
		}
		if !more {
			return connect.MapValue(p.take(base)), nil
		}
		k, v, err := p.pair(pl)
		if err != nil {
			return connect.Value{}, err
		}
		p.stack = append(p.stack, k, v)
	}
}

func (p *jsonReader) pair(pl *plan) (k, v connect.Value, err error) {
	if p.peek() != '[' {
		return k, v, p.fail("expected a pair")
	}
	if err = p.open(); err != nil {
		return k, v, err
	}
	if k, err = p.orDefault(pl.key); err != nil {
		return k, v, err
	}
	if !p.accept(',') {
		return k, v, p.fail("expected a pair")
	}
	if v, err = p.orDefault(pl.elem); err != nil {
		return k, v, err
	}
	if !p.accept(']') {
		return k, v, p.fail("expected a pair")
	}
	p.depth--
	return k, v, nil
}

func (p *jsonReader) integer(pl *plan) (connect.Value, error) {
	text, whole, err := p.number()
	if err != nil {
		return connect.Value{}, err
	}
	if !whole {
		f := parseDouble(text)
		if pl.logical != noLogical || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return connect.Value{}, dataErrorf("%s where the schema says %s", text, pl.kind)
		}
		text = strconv.FormatInt(int64(f), 10)
	}
	bits := 8 << (pl.kind - connect.Int8)
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return connect.Value{}, dataErrorf("%s is beyond %s", text, pl.kind)
	}
	return connect.IntValue(pl.kind, n), nil
}

// float reads a number, or one of the words that the converter writes for what JSON has no number for.
func (p *jsonReader) float(k connect.Kind, c byte) (connect.Value, error) {
	f := 0.0
	if c == '"' {
		s, err := p.str()
		if err != nil {
			return connect.Value{}, err
		}
		switch s {
		case "NaN":
			f = math.NaN()
		case "Infinity":
			f = math.Inf(1)
		case "-Infinity":
			f = math.Inf(-1)
		default:
			return connect.Value{}, dataErrorf("a string where the schema says %s", k)
		}
	} else {
		text, _, err := p.number()
		if err != nil {
			return connect.Value{}, err
		}
		f, _ = strconv.ParseFloat(text, floatBits(k))
	}
	if k == connect.Float32 {
		return connect.Float32Value(float32(f)), nil
	}
	return connect.Float64Value(f), nil
}

func (p *jsonReader) bytes(pl *plan, c byte) (connect.Value, error) {
	if c == '"' {
		s, err := p.str()
		if err != nil {
			return connect.Value{}, err
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return connect.Value{}, dataErrorf("not base64")
		}
		if pl.logical == decimalLogical && len(b) == 0 {
			return connect.Value{}, dataErrorf("a Decimal without bytes")
		}
		return connect.BytesValue(b), nil
	}
	if pl.logical != decimalLogical {
		return connect.Value{}, p.fail("expected base64")
	}
	text, _, err := p.number()
	if err != nil {
		return connect.Value{}, err
	}
	return plainDecimal(text, pl.scale)
}

// plainDecimal makes a Decimal of a JSON number: its exponent is worked in, its zeros beyond the scale are cut.
func plainDecimal(text string, scale int) (connect.Value, error) {
	mantissa, exp := text, 0
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		n, err := strconv.Atoi(text[e+1:])
		if err != nil || n > maxNumberLen || n < -maxNumberLen {
			return connect.Value{}, dataErrorf("the decimal %s has too large an exponent", text)
		}
		mantissa, exp = text[:e], n
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	for ; exp > 0; exp-- {
		if fraction == "" {
			whole += strings.Repeat("0", exp)
			break
		}
		whole, fraction = whole+fraction[:1], fraction[1:]
	}
	if exp < 0 {
		whole = strings.Repeat("0", max(0, 1-exp-len(whole))) + whole
		cut := len(whole) + exp
		whole, fraction = whole[:cut], whole[cut:]+fraction
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	for len(fraction) > max(scale, 0) && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if len(fraction) > max(scale, 0) {
		return connect.Value{}, dataErrorf("the decimal %s has more than %d fraction digits", text, scale)
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return connect.DecimalText(sign + whole), nil
}
