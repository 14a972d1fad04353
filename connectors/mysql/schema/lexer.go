package schema

import "strings"

// tokenKind is the kind of one token of a statement.
type tokenKind uint8

const (
	endToken tokenKind = iota
	wordToken
	nameToken   // `quoted`, or "quoted" under ANSI_QUOTES
	stringToken // 'text' or "text"
	numberToken // 1, 1.5, .5, 1e3
	bitsToken   // b'101', 0b101
	hexToken    // x'4d', 0x4d
	punctToken  // one character
)

// token is one token; text is what it means (a string's content, a name without its
// quotes, the digits of a bit literal), start and end are its bytes in the statement.
type token struct {
	kind       tokenKind
	text       string
	start, end int
}

// is compares a keyword or a character.
func (t token) is(word string) bool {
	switch t.kind {
	case wordToken:
		return strings.EqualFold(t.text, word)
	case punctToken:
		return t.text == word
	default:
		return false
	}
}

// named says whether the token can be an identifier. MySQL takes most keywords as
// names, so that a reader that knows where names stand takes every word.
func (t token) named() bool { return t.kind == wordToken || t.kind == nameToken }

// lexer cuts a statement into tokens, and comments out of it.
type lexer struct {
	text        string
	at          int
	mariadb     bool
	ansiQuotes  bool // "x" is a name
	noBackslash bool // \ is an ordinary character of strings
	open        int  // executable comments that are open
	nameEnd     int  // where the last name ended: a dot there divides names, also in db.1st
}

// lex cuts the whole statement; it ends at the first semicolon outside of quotes.
func lex(text string, options lexer) []token {
	l := options
	l.text, l.nameEnd = text, -1
	tokens := make([]token, 0, len(text)/5+8)
	for {
		t := l.next()
		if t.kind == punctToken && t.text == ";" {
			t = token{kind: endToken, start: t.start, end: t.start}
		}
		tokens = append(tokens, t)
		if t.named() {
			l.nameEnd = t.end
		}
		if t.kind == endToken {
			return tokens
		}
	}
}

func (l *lexer) next() token {
	l.skip()
	if l.at >= len(l.text) {
		return token{kind: endToken, start: len(l.text), end: len(l.text)}
	}
	start := l.at
	c := l.text[start]
	switch {
	case c == '`' || c == '"' && l.ansiQuotes:
		return token{nameToken, l.quoted(c, false), start, l.at}
	case c == '\'' || c == '"':
		return token{stringToken, l.quoted(c, !l.noBackslash), start, l.at}
	case (c == 'x' || c == 'X' || c == 'b' || c == 'B') && l.peek(1) == '\'':
		l.at++
		kind := hexToken
		if c == 'b' || c == 'B' {
			kind = bitsToken
		}
		return token{kind, l.quoted('\'', false), start, l.at}
	case (c == 'n' || c == 'N') && l.peek(1) == '\'':
		l.at++
		return token{stringToken, l.quoted('\'', !l.noBackslash), start, l.at}
	case c == '0' && (l.peek(1) == 'x' || l.peek(1) == 'b') && isWord(l.peek(2)):
		kind := hexToken
		if l.peek(1) == 'b' {
			kind = bitsToken
		}
		l.at += 2
		return token{kind, l.word(), start, l.at}
	case isDigit(c) || c == '.' && isDigit(l.peek(1)) && l.nameEnd != start:
		return l.number()
	case isWord(c):
		return token{wordToken, l.word(), start, l.at}
	default:
		l.at++
		return token{punctToken, l.text[start:l.at], start, l.at}
	}
}

func (l *lexer) peek(n int) byte {
	if l.at+n < len(l.text) {
		return l.text[l.at+n]
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.text) && isWord(l.text[l.at]) {
		l.at++
	}
	return l.text[start:l.at]
}

// number reads a number; what begins with digits and goes on with letters is a name
// (1st), as the server has it.
func (l *lexer) number() token {
	start := l.at
	for isDigit(l.peek(0)) {
		l.at++
	}
	if c := l.peek(0); l.at > start && isWord(c) && !exponent(l.text[l.at:]) {
		l.word()
		return token{wordToken, l.text[start:l.at], start, l.at}
	}
	if l.peek(0) == '.' {
		l.at++
		for isDigit(l.peek(0)) {
			l.at++
		}
	}
	if exponent(l.text[l.at:]) {
		l.at += 2
		for isDigit(l.peek(0)) {
			l.at++
		}
	}
	return token{numberToken, l.text[start:l.at], start, l.at}
}

// exponent says whether text goes on with e5, e+5 or e-5.
func exponent(text string) bool {
	if len(text) < 2 || text[0] != 'e' && text[0] != 'E' {
		return false
	}
	return isDigit(text[1]) || (text[1] == '+' || text[1] == '-') && len(text) > 2 && isDigit(text[2])
}

// quoted reads what stands in quotes, from the opening one, and gives its meaning.
func (l *lexer) quoted(quote byte, escapes bool) string {
	l.at++
	start := l.at
	var b []byte // nil while the text can be shared
	for l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case c == quote && l.peek(1) == quote:
			b = append(b, l.text[start:l.at+1]...)
			l.at += 2
			start = l.at
		case c == quote:
			text := l.text[start:l.at]
			l.at++
			if b == nil {
				return text
			}
			return string(append(b, text...))
		case c == '\\' && escapes && l.at+1 < len(l.text):
			b = append(b, l.text[start:l.at]...)
			b = appendEscaped(b, l.text[l.at+1])
			l.at += 2
			start = l.at
		default:
			l.at++
		}
	}
	return string(append(b, l.text[start:]...))
}

// appendEscaped appends what \c means in a string.
func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '0':
		return append(b, 0)
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'b':
		return append(b, '\b')
	case 'Z':
		return append(b, 0x1a)
	case '%', '_': // kept for LIKE
		return append(b, '\\', c)
	default:
		return append(b, c)
	}
}

// skip passes over blanks and comments. An executable comment's content is read as if
// its marks were blanks, where the server's dialect executes it.
func (l *lexer) skip() {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n' || rest[0] == '\r' || rest[0] == '\v' || rest[0] == '\f':
			l.at++
		case rest[0] == '#':
			l.pass("\n")
		case strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			l.pass("\n")
		case strings.HasPrefix(rest, "/*"):
			l.comment(rest)
		case strings.HasPrefix(rest, "*/") && l.open > 0:
			l.open--
			l.at += 2
		default:
			return
		}
	}
}

// pass moves behind the next end, or to the end of the statement.
func (l *lexer) pass(end string) {
	if i := strings.Index(l.text[l.at:], end); i >= 0 {
		l.at += i + len(end)
	} else {
		l.at = len(l.text)
	}
}

func (l *lexer) comment(rest string) {
	mark := 0
	switch {
	case strings.HasPrefix(rest, "/*!"):
		mark = 3
	case strings.HasPrefix(rest, "/*M!") && l.mariadb:
		mark = 4
	default:
		l.at += 2
		l.pass("*/")
		return
	}
	digits := mark
	for digits < len(rest) && isDigit(rest[digits]) {
		digits++
	}
	// MariaDB leaves comments for MySQL's versions 5.7 to 9 alone.
	if version := rest[mark:digits]; l.mariadb && len(version) == 5 && version >= "50700" {
		l.at += 2
		l.pass("*/")
		return
	}
	l.open++
	l.at += digits
}
