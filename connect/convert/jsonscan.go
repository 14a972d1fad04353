package convert

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of what is read, those of Jackson.
const (
	maxDepth     = 1000 // nesting
	maxNumberLen = 1000 // characters of a number
)

// scanner reads JSON tokens from a text. It accepts what Jackson does as Kafka configures it: RFC 8259 and numbers with
// leading zeros.
type scanner struct {
	s     string
	i     int
	depth int
}

func (p *scanner) fail(what string) error {
	return dataErrorf("JSON: %s at byte %d", what, p.i)
}

func (p *scanner) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// peek skips white space and gives the next byte, 0 at the end.
func (p *scanner) peek() byte {
	p.space()
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

// accept skips white space and c, if c is next.
func (p *scanner) accept(c byte) bool {
	if p.peek() == c && p.i < len(p.s) {
		p.i++
		return true
	}
	return false
}

// open enters an array or object whose bracket is next.
func (p *scanner) open() error {
	p.i++
	if p.depth++; p.depth > maxDepth {
		return p.fail("nested deeper than 1000")
	}
	return nil
}

// next goes to the next element of an array or object that ends with end: more is false when it has ended. first says
// that none was read yet.
func (p *scanner) next(end byte, first bool) (more bool, err error) {
	if p.accept(end) {
		p.depth--
		return false, nil
	}
	if first {
		return true, nil
	}
	if !p.accept(',') {
		return false, p.fail("expected ',' or '" + string(end) + "'")
	}
	if p.peek() == end {
		return false, p.fail("nothing after ','")
	}
	return true, nil
}

// word reads true, false or null.
func (p *scanner) word(w string) error {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return p.fail("unknown word")
	}
	p.i += len(w)
	return p.boundary()
}

// boundary checks that a word or number ends here.
func (p *scanner) boundary() error {
	if p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r', ',', ']', '}':
		default:
			return p.fail("unexpected character")
		}
	}
	return nil
}

// number reads a number's text; whole says that it has neither fraction nor exponent.
func (p *scanner) number() (text string, whole bool, err error) {
	start := p.i
	if p.i < len(p.s) && p.s[p.i] == '-' {
		p.i++
	}
	if p.digits() == 0 {
		return "", false, p.fail("not a number")
	}
	whole = true
	if p.i < len(p.s) && p.s[p.i] == '.' {
		whole = false
		p.i++
		if p.digits() == 0 {
			return "", false, p.fail("no digit after the point")
		}
	}
	if p.i < len(p.s) && (p.s[p.i] == 'e' || p.s[p.i] == 'E') {
		whole = false
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if p.digits() == 0 {
			return "", false, p.fail("no digit in the exponent")
		}
	}
	if p.i-start > maxNumberLen {
		return "", false, p.fail("number of more than 1000 characters")
	}
	return p.s[start:p.i], whole, p.boundary()
}

func (p *scanner) digits() (n int) {
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
		n++
	}
	return n
}

// str reads a string whose quote is next. The result shares the text's memory where nothing was escaped.
func (p *scanner) str() (string, error) {
	p.i++
	start := p.i
	ascii := true
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			s := p.s[start:p.i]
			p.i++
			if !ascii && !utf8.ValidString(s) {
				return "", p.fail("not UTF-8")
			}
			return s, nil
		case c == '\\':
			return p.escaped(start)
		case c < 0x20:
			return "", p.fail("control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		p.i++
	}
	return "", p.fail("string without an end")
}

// escaped is str from the first backslash on.
func (p *scanner) escaped(start int) (string, error) {
	out := append(make([]byte, 0, 2*(p.i-start)+16), p.s[start:p.i]...)
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case c == '"':
			p.i++
			if !utf8.Valid(out) {
				return "", p.fail("not UTF-8")
			}
			return string(out), nil
		case c < 0x20:
			return "", p.fail("control character in a string")
		case c != '\\':
			out = append(out, c)
			p.i++
			continue
		}
		p.i++
		if p.i >= len(p.s) {
			break
		}
		c = p.s[p.i]
		p.i++
		if c == 'u' {
			r, err := p.unicode()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		at := strings.IndexByte(`"\/bfnrt`, c)
		if at < 0 {
			return "", p.fail("unknown escape")
		}
		out = append(out, "\"\\/\b\f\n\r\t"[at])
	}
	return "", p.fail("string without an end")
}

// unicode reads the digits of \uXXXX, and a second escape where the two are a surrogate pair; a lone half gives U+FFFD.
func (p *scanner) unicode() (rune, error) {
	r, err := p.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if strings.HasPrefix(p.s[p.i:], `\u`) {
		mark := p.i
		p.i += 2
		low, err := p.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
		p.i = mark
	}
	return utf8.RuneError, nil
}

func (p *scanner) hex4() (rune, error) {
	if p.i+4 > len(p.s) {
		return 0, p.fail("short \\u escape")
	}
	n, err := strconv.ParseUint(p.s[p.i:p.i+4], 16, 32)
	if err != nil {
		return 0, p.fail("bad \\u escape")
	}
	p.i += 4
	return rune(n), nil
}

// name reads an object's next name and its colon.
func (p *scanner) name() (string, error) {
	if p.peek() != '"' {
		return "", p.fail("expected a name")
	}
	s, err := p.str()
	if err == nil && !p.accept(':') {
		err = p.fail("expected ':'")
	}
	return s, err
}

// skip reads one value and gives its text.
func (p *scanner) skip() (string, error) {
	c := p.peek()
	start := p.i
	var err error
	switch c {
	case '{', '[':
		err = p.skipList(c)
	case '"':
		_, err = p.str()
	case 't':
		err = p.word("true")
	case 'f':
		err = p.word("false")
	case 'n':
		err = p.word("null")
	default:
		_, _, err = p.number()
	}
	return p.s[start:p.i], err
}

func (p *scanner) skipList(open byte) error {
	end := open + 2 // '[' + 2 is ']', '{' + 2 is '}'
	if err := p.open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := p.next(end, first)
		if err != nil || !more {
			return err
		}
		if open == '{' {
			if _, err := p.name(); err != nil {
				return err
			}
		}
		if _, err := p.skip(); err != nil {
			return err
		}
	}
}
