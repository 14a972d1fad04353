package schema

import "strings"

// cursor reads a statement's tokens one after the other. Reading beyond the end gives
// the end token again.
type cursor struct {
	text   string
	tokens []token
	at     int
}

func (c *cursor) peek() token { return c.ahead(0) }

func (c *cursor) ahead(n int) token {
	if c.at+n < len(c.tokens) {
		return c.tokens[c.at+n]
	}
	return c.tokens[len(c.tokens)-1]
}

func (c *cursor) next() token {
	t := c.peek()
	if c.at < len(c.tokens)-1 {
		c.at++
	}
	return t
}

func (c *cursor) ended() bool { return c.peek().kind == endToken }

// accept passes over the words (or characters) if they are next, all of them.
func (c *cursor) accept(words ...string) bool {
	for i, word := range words {
		if !c.ahead(i).is(word) {
			return false
		}
	}
	c.at += len(words)
	return true
}

// acceptOne passes over one of the words and says which; "" for none.
func (c *cursor) acceptOne(words ...string) string {
	for _, word := range words {
		if c.accept(word) {
			return word
		}
	}
	return ""
}

// name reads an identifier.
func (c *cursor) name() (string, bool) {
	t := c.peek()
	if !t.named() {
		return "", false
	}
	c.next()
	return t.text, true
}

// table reads a table's name with or without its database.
func (c *cursor) table(database string) (TableID, bool) {
	first, ok := c.name()
	if !ok {
		return TableID{}, false
	}
	if c.accept(".") {
		second, ok := c.name()
		return TableID{first, second}, ok
	}
	return TableID{database, first}, true
}

// parens passes over what stands in brackets, the opening one being next.
func (c *cursor) parens() bool {
	if !c.peek().is("(") {
		return false
	}
	depth := 0
	for !c.ended() {
		switch t := c.next(); {
		case t.is("("):
			depth++
		case t.is(")"):
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

// skipItem passes over the rest of a list's item: to the next comma or closing bracket
// that isn't inside brackets.
func (c *cursor) skipItem() {
	for !c.ended() {
		switch t := c.peek(); {
		case t.is(",") || t.is(")"):
			return
		case t.is("("):
			c.parens()
		default:
			c.next()
		}
	}
}

// near gives a few words from here on, for errors.
func (c *cursor) near() string {
	text := c.text[min(c.peek().start, len(c.text)):]
	if len(text) > 60 {
		text = text[:60]
	}
	return strings.ToValidUTF8(text, "")
}
