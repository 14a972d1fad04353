package schema

import (
	"slices"
	"strings"
)

// createTable reads CREATE TABLE …, its first token being at from.
func (p *parser) createTable(from int, replace bool) error {
	onlyNew := p.peek().is("IF")
	p.exists()
	id, ok := p.table(p.statement.Database)
	if !ok {
		return p.unparsed(TableID{})
	}
	if old := p.find(id); old != nil && onlyNew && !replace {
		return p.other() // the table is there: nothing happened
	}
	var t *Table
	if p.accept("LIKE") {
		t = p.like(id)
	} else if p.peek().is("(") && p.ahead(1).is("LIKE") {
		p.next()
		p.next()
		t = p.like(id)
	} else if t = p.tableBody(id); t == nil {
		return p.unparsed(id)
	}
	if t == nil {
		return p.other()
	}
	p.edits = append(p.edits, edit{id: id, table: t})
	p.changes = append(p.changes, Change{Type: ChangeCreate, Database: id.Database, ID: id, Table: t, DDL: p.body(from)})
	return nil
}

// like copies another table's structure; nil where that isn't known.
func (p *parser) like(id TableID) *Table {
	other, ok := p.table(p.statement.Database)
	if !ok {
		return nil
	}
	old := p.find(other)
	if old == nil {
		return nil
	}
	t := *old
	t.ID = id
	return &t
}

// tableBody reads the columns, keys and options of CREATE TABLE. It gives nil where it
// doesn't understand them, and for a table whose columns come from a query: with
// row-based logging the server writes them out.
func (p *parser) tableBody(id TableID) *Table {
	b := &builder{Table: Table{ID: id}}
	if !p.accept("(") {
		return nil
	}
	for {
		if !p.element(b) {
			return nil
		}
		if p.accept(")") {
			break
		}
		if !p.accept(",") {
			return nil
		}
	}
	if len(b.Columns) == 0 || !p.tableOptions(b) {
		return nil
	}
	if b.Charset == "" {
		if b.Charset = charsetOfCollation(b.Collation); b.Charset == "" {
			b.Charset = p.charset(id.Database)
		}
	}
	return b.table()
}

// element reads one column, key or constraint.
func (p *parser) element(b *builder) bool {
	if p.key(b) {
		return true
	}
	name, ok := p.name()
	if !ok {
		return false
	}
	column, ok := p.column(name)
	if !ok {
		return false
	}
	b.add(column, p.primary, p.unique)
	return true
}

// key reads a key, an index or a constraint, and says whether one stood there. Words
// that begin them are reserved, so no column is called so without quotes.
func (p *parser) key(b *builder) bool {
	t := p.peek()
	if t.kind != wordToken {
		return false
	}
	name := ""
	constraint := p.accept("CONSTRAINT")
	if constraint {
		p.exists()
		if !p.peek().is("PRIMARY") && !p.peek().is("UNIQUE") && !p.peek().is("FOREIGN") && !p.peek().is("CHECK") {
			name, _ = p.name()
		}
		t = p.peek()
	}
	switch {
	case p.accept("PRIMARY", "KEY"):
		onlyNew := p.peek().is("IF") // MariaDB; "new" to the table as it was before
		if columns, ok := p.keyParts(nil); ok && !(onlyNew && b.hadKey) {
			b.primary(columns)
		}
	case p.accept("PERIOD", "FOR"):
		p.name()
		if columns, ok := p.keyParts(nil); ok {
			for _, name := range columns {
				b.require(name)
			}
		}
	case p.accept("UNIQUE"):
		p.acceptOne("INDEX", "KEY")
		if columns, ok := p.keyParts(&name); ok {
			b.addUnique(name, columns)
		}
	case t.is("INDEX"), t.is("KEY"), t.is("FULLTEXT"), t.is("SPATIAL"), t.is("FOREIGN"), t.is("CHECK"),
		t.is("VECTOR") && (p.ahead(1).is("INDEX") || p.ahead(1).is("KEY")),
		t.is("PARTITION") && p.altering:
	default:
		if !constraint {
			return false
		}
	}
	p.skipItem()
	return true
}

// keyParts reads an index's name, where one may stand, and its columns. It fails for
// an index with an expression, which is no key, and then stands before its brackets.
func (p *parser) keyParts(name *string) ([]string, bool) {
	if p.accept("IF", "NOT", "EXISTS"); name != nil && p.peek().named() && !p.peek().is("USING") {
		*name, _ = p.name()
	}
	for !p.ended() && !p.peek().is("(") { // USING BTREE, TYPE HASH, a primary key's name
		p.next()
	}
	from := p.at
	p.next()
	var columns []string
	for {
		column, ok := p.name()
		if !ok || p.peek().is("(") && p.ahead(1).kind != numberToken {
			break
		}
		if p.peek().is("(") {
			p.parens()
		}
		p.acceptOne("ASC", "DESC")
		columns = append(columns, column)
		if p.accept(")") {
			return columns, true
		}
		if !p.accept(",") { // MariaDB: WITHOUT OVERLAPS is unique together with a period
			break
		}
	}
	p.at = from
	return nil, false
}

// tableOptions reads what follows a table's columns. A query there gives more columns,
// of which nothing is known.
func (p *parser) tableOptions(b *builder) bool {
	for !p.ended() {
		switch {
		case p.peek().is("SELECT"), p.peek().is("VALUES"), p.peek().is("WITH") && !p.ahead(1).is("SYSTEM"):
			return false
		case p.accept("PARTITION", "BY"), p.accept("START", "TRANSACTION"):
			return true
		case p.tableOption(b):
		case p.peek().is("("):
			if p.ahead(1).is("SELECT") || !p.parens() {
				return false
			}
		default:
			p.next()
		}
	}
	return true
}

// tableOption reads an option of a table that matters here.
func (p *parser) tableOption(b *builder) bool {
	switch {
	case p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"), p.accept("CHARSET"):
		p.accept("=")
		if name := charsetName(p.next().text); name != "default" {
			b.Charset, b.Collation = name, ""
		} else {
			b.Charset = p.charset(b.ID.Database)
		}
	case p.accept("COLLATE"):
		p.accept("=")
		b.Collation = strings.ToLower(p.next().text)
		if charset := charsetOfCollation(b.Collation); charset != "" {
			b.Charset = charset
		}
	case p.accept("COMMENT"):
		p.accept("=")
		b.Comment = p.next().text
	default:
		return false
	}
	return true
}

// createUnique reads CREATE UNIQUE INDEX …; its part of the statement begins at from.
func (p *parser) createUnique(from int) error {
	p.exists()
	name, _ := p.name()
	for !p.ended() && !p.accept("ON") {
		p.next()
	}
	id, ok := p.table(p.statement.Database)
	if !ok {
		return p.unparsed(TableID{})
	}
	old := p.find(id)
	columns, plain := p.keyParts(nil)
	if old == nil || !plain {
		return p.other()
	}
	b := edited(old)
	b.addUnique(name, columns)
	t := b.table()
	p.edits = append(p.edits, edit{id: id, table: t})
	if len(old.PrimaryKey) > 0 && slices.Equal(old.PrimaryKey, t.PrimaryKey) {
		return p.other()
	}
	p.changes = append(p.changes, Change{Type: ChangeAlter, Database: id.Database, ID: id, Table: t, DDL: p.body(from)})
	return nil
}

// dropIndex reads DROP INDEX name ON table.
func (p *parser) dropIndex(from int) error {
	p.exists()
	name, _ := p.name()
	if !p.accept("ON") {
		return p.other()
	}
	id, ok := p.table(p.statement.Database)
	if !ok {
		return p.unparsed(TableID{})
	}
	old := p.find(id)
	if old == nil {
		return p.other()
	}
	b := edited(old)
	b.dropIndex(name)
	t := b.table()
	p.edits = append(p.edits, edit{id: id, table: t})
	if slices.Equal(old.PrimaryKey, t.PrimaryKey) {
		return p.other()
	}
	p.changes = append(p.changes, Change{Type: ChangeAlter, Database: id.Database, ID: id, Table: t, DDL: p.body(from)})
	return nil
}
