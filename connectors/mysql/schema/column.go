package schema

import (
	"strconv"
	"strings"
)

// epochDefault is what Debezium writes for a default of CURRENT_TIMESTAMP.
const epochDefault = "1970-01-01 00:00:00"

// column reads a column's definition behind its name. In ALTER TABLE it ends before
// FIRST or AFTER.
func (p *parser) column(name string) (Column, bool) {
	c := Column{Name: name}
	p.notNull, p.unique, p.primary, p.number = false, false, false, false
	if !p.columnType(&c) {
		return c, false
	}
	for !p.ended() && !p.peek().is(",") && !p.peek().is(")") && !p.placed() {
		if !p.attribute(&c) {
			return c, false
		}
	}
	c.Optional = !p.notNull
	if c.Optional {
		c.HasDefault = true // NULL, if nothing else
	}
	return c, true
}

// placed says whether FIRST or AFTER column comes next.
func (p *parser) placed() bool {
	return p.altering && (p.peek().is("FIRST") || p.peek().is("AFTER"))
}

// attribute reads one attribute of a column. Words that it doesn't know are passed
// over: they don't change what a row holds.
func (p *parser) attribute(c *Column) bool {
	switch {
	case p.accept("NOT", "NULL"):
		p.notNull = true
	case p.accept("NULL"):
		p.notNull = false
	case p.accept("DEFAULT"):
		return p.defaultValue(c)
	case p.accept("AUTO_INCREMENT"):
		c.AutoIncrement, p.notNull = true, true
	case p.accept("ON", "UPDATE"):
		p.onUpdate(c)
	case p.accept("PRIMARY", "KEY"), p.accept("PRIMARY"), p.accept("KEY"):
		p.primary, p.notNull = true, true
	case p.accept("UNIQUE"):
		p.accept("KEY")
		p.unique = true
	case p.accept("SERIAL", "DEFAULT", "VALUE"):
		p.notNull, p.unique, c.AutoIncrement = true, true, true
	case p.accept("COMMENT"):
		c.Comment = p.next().text
	case p.accept("COLLATE"):
		p.accept("=")
		c.collate(p.next().text)
	case p.accept("INVISIBLE"):
		c.Invisible = true
	case p.accept("VISIBLE"):
		c.Invisible = false
	case p.accept("GENERATED", "ALWAYS", "AS"), p.accept("AS"):
		return p.generated(c)
	case p.accept("REFERENCES"):
		p.references()
	case p.accept("COLUMN_FORMAT"), p.accept("STORAGE"):
		p.next()
	case p.peek().is("("):
		return p.parens()
	default:
		p.next()
	}
	return true
}

// collate sets a column's collation, and the charset that its name begins with.
func (c *Column) collate(name string) {
	if !c.Kind.IsString() || strings.EqualFold(name, "DEFAULT") {
		return
	}
	c.Collation = strings.ToLower(name)
	if charset := charsetOfCollation(c.Collation); c.Charset == "" && charset != "" {
		c.Charset = charset
	}
}

// generated reads what follows AS: an expression, or ROW START and ROW END of a
// versioned table.
func (p *parser) generated(c *Column) bool {
	if p.accept("ROW", "START") || p.accept("ROW", "END") {
		p.notNull, c.Generated = true, Stored
		return true
	}
	if !p.parens() {
		return false
	}
	c.Generated = Virtual
	switch p.acceptOne("VIRTUAL", "STORED", "PERSISTENT") {
	case "STORED", "PERSISTENT":
		c.Generated = Stored
	}
	return true
}

// onUpdate reads what follows ON UPDATE: a clock, or an action of a foreign key.
func (p *parser) onUpdate(c *Column) {
	if p.clock() {
		c.OnUpdateNow = true
		return
	}
	p.next()
}

// clock passes over CURRENT_TIMESTAMP and what means the same.
func (p *parser) clock() bool {
	if p.acceptOne("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP") == "" {
		return false
	}
	if p.peek().is("(") {
		p.parens()
	}
	return true
}

// references passes over a foreign key's target and actions.
func (p *parser) references() {
	p.table("")
	if p.peek().is("(") {
		p.parens()
	}
	for {
		switch {
		case p.accept("MATCH"):
			p.next()
		case p.accept("ON", "DELETE"), p.accept("ON", "UPDATE"):
			if !p.accept("SET", "NULL") && !p.accept("SET", "DEFAULT") && !p.accept("NO", "ACTION") {
				p.next() // RESTRICT, CASCADE
			}
		default:
			return
		}
	}
}

// defaultValue reads what follows DEFAULT.
func (p *parser) defaultValue(c *Column) bool {
	c.HasDefault, c.Default, c.DefaultIsExpression = false, nil, false
	from := p.at
	switch t := p.peek(); {
	case t.is("("):
		c.HasDefault, c.DefaultIsExpression = true, true
		return p.parens()
	case t.is("NULL"):
		p.next()
		return true
	case p.clock():
		text := epochDefault
		c.HasDefault, c.Default, c.DefaultIsExpression = true, &text, true
	default:
		if text, ok := p.literal(c.Kind); ok {
			c.HasDefault, c.Default = true, &text
		} else if p.at = from; !p.call() {
			return false
		} else {
			c.HasDefault, c.DefaultIsExpression = true, true
		}
	}
	// MariaDB takes expressions without brackets: what goes on with an operator isn't
	// the literal that it began with.
	for p.peek().kind == punctToken && !p.peek().is(",") && !p.peek().is(")") {
		p.next()
		if p.peek().is("(") {
			p.parens()
		} else {
			p.next()
		}
		c.Default, c.DefaultIsExpression = nil, true
	}
	return true
}

// call passes over a function's call, and NEXT VALUE FOR sequence.
func (p *parser) call() bool {
	if p.accept("NEXT", "VALUE", "FOR") {
		_, ok := p.table("")
		return ok
	}
	if p.next().kind != wordToken {
		return false
	}
	if p.peek().is("(") {
		return p.parens()
	}
	return true
}

// literal reads a literal with its sign and gives its text: a string's content, a
// number as it is written, the digits of a bit literal. A hexadecimal one is a number
// where the column is, and a number is one of bits where the column is.
func (p *parser) literal(kind Kind) (string, bool) {
	sign := ""
	if p.peek().is("+") || p.peek().is("-") {
		sign = p.next().text
	}
	t := p.next()
	switch t.kind {
	case numberToken:
		if n, err := strconv.ParseUint(t.text, 10, 64); err == nil && kind == Bit {
			return strconv.FormatUint(n, 2), true
		}
		return sign + t.text, true
	case bitsToken:
		return t.text, true
	case hexToken:
		if kind <= Double {
			n, err := strconv.ParseUint(t.text, 16, 64)
			return strconv.FormatUint(n, 10), err == nil
		}
		return unhex(t.text), true
	case stringToken:
		return sign + p.joined(t), true
	case wordToken:
		if p.peek().kind == stringToken && (strings.HasPrefix(t.text, "_") || t.is("DATE") || t.is("TIME") || t.is("TIMESTAMP")) {
			return p.joined(p.next()), true
		}
		if t.is("TRUE") || t.is("FALSE") {
			return t.text, true
		}
		if strings.HasPrefix(t.text, "_") && (p.peek().kind == hexToken || p.peek().kind == bitsToken) {
			return unhex(p.next().text), true
		}
	}
	return "", false
}

// joined reads the strings that follow a string and gives them as one.
func (p *parser) joined(t token) string {
	text := t.text
	for p.peek().kind == stringToken {
		text += p.next().text
	}
	return text
}
