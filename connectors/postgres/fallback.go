package postgres

import "strings"

// literalDefault reads a column default as pg_get_expr prints it and gives its text when it is a constant: a string,
// number or boolean, in parentheses and under casts as may be. Anything else (functions, expressions, NULL) is no
// default of a schema.
func literalDefault(expr string) (text string, ok bool) {
	p := literalParser{rest: strings.TrimSpace(expr)}
	text, ok = p.value(0)
	return text, ok && p.rest == ""
}

type literalParser struct{ rest string }

func (p *literalParser) value(depth int) (string, bool) {
	var text string
	ok := false
	switch {
	case p.rest == "" || depth > 16:
		return "", false
	case p.rest[0] == '(':
		p.rest = p.rest[1:]
		if text, ok = p.value(depth + 1); !ok || !strings.HasPrefix(p.rest, ")") {
			return "", false
		}
		p.rest = p.rest[1:]
	case p.rest[0] == '\'':
		text, ok = p.quoted(false)
	case len(p.rest) > 1 && p.rest[1] == '\'' && (p.rest[0] == 'E' || p.rest[0] == 'B'):
		escapes := p.rest[0] == 'E'
		p.rest = p.rest[1:]
		text, ok = p.quoted(escapes)
	case strings.HasPrefix(p.rest, "true"):
		text, ok, p.rest = "t", true, p.rest[4:]
	case strings.HasPrefix(p.rest, "false"):
		text, ok, p.rest = "f", true, p.rest[5:]
	default:
		text, ok = p.number()
	}
	for ok && strings.HasPrefix(p.rest, "::") {
		p.rest = p.rest[2:]
		ok = p.castType()
	}
	return text, ok
}

func (p *literalParser) quoted(escapes bool) (string, bool) {
	var b strings.Builder
	s := p.rest[1:]
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'', escapes && s[i] == '\\' && i+1 < len(s) && s[i+1] == '\\':
			b.WriteByte(s[i])
			i++
		case s[i] == '\'':
			p.rest = s[i+1:]
			return b.String(), true
		default:
			b.WriteByte(s[i])
		}
	}
	return "", false
}

func (p *literalParser) number() (string, bool) {
	i := 0
	for i < len(p.rest) && strings.IndexByte("0123456789.-", p.rest[i]) >= 0 {
		i++
	}
	text := p.rest[:i]
	p.rest = p.rest[i:]
	return text, strings.ContainsAny(text, "0123456789") && strings.LastIndexByte(text, '-') <= 0
}

// castType skips a type's name: words, quoted names, dots, a modifier in parentheses, brackets.
func (p *literalParser) castType() bool {
	i, inQuotes, inModifier := 0, false, false
scan:
	for ; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			inQuotes = !inQuotes
		case inQuotes:
		case c == '(':
			inModifier = true
		case c == ')' && inModifier:
			inModifier = false
		case c == ')' || c == ':':
			break scan
		case c == ' ' || c == '.' || c == '_' || c == '[' || c == ']' || c == ',' || c >= 0x80,
			c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		default:
			return false
		}
	}
	p.rest = p.rest[i:]
	return i > 0 && !inQuotes && !inModifier
}
