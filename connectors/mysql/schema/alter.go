package schema

// alter reads ALTER …
func (p *parser) alter() error {
	from := p.at
	p.next()
	p.acceptOne("ONLINE", "IGNORE")
	p.accept("IGNORE")
	p.definer()
	switch {
	case p.accept("TABLE"):
		return p.alterTable(from)
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		return p.alterDatabase()
	case p.accept("EVENT"), p.accept("TABLESPACE"), p.accept("SERVER"), p.accept("SEQUENCE"), p.accept("INSTANCE"),
		p.accept("LOGFILE"), p.accept("UNDO"):
		return p.other()
	}
	return p.ignored()
}

func (p *parser) alterDatabase() error {
	name := p.statement.Database
	if t := p.peek(); t.named() && !t.is("CHARACTER") && !t.is("CHARSET") && !t.is("COLLATE") && !t.is("DEFAULT") {
		name, _ = p.name()
	}
	if charset := p.databaseCharset(); charset != "" && name != "" {
		p.edits = append(p.edits, edit{database: name, charset: charset})
	}
	nothing := ""
	p.changes = append(p.changes, Change{Type: ChangeDatabase, Database: name, DDL: p.statement.Text, SourceTable: &nothing})
	return nil
}

// alterTable reads ALTER TABLE …, its first token being at from.
func (p *parser) alterTable(from int) error {
	p.exists()
	id, ok := p.table(p.statement.Database)
	if !ok {
		return p.unparsed(TableID{})
	}
	if p.acceptOne("WAIT") != "" {
		p.next()
	}
	p.accept("NOWAIT")
	old := p.find(id)
	if old == nil {
		return p.other()
	}
	p.altering = true
	b := edited(old)
	for !p.ended() {
		if !p.alteration(b) {
			return p.unparsed(id)
		}
		p.accept(",")
	}
	t := b.table()
	if t == nil || len(t.Columns) == 0 {
		return p.unparsed(id)
	}
	change := Change{Type: ChangeAlter, Database: t.ID.Database, ID: t.ID, Table: t, DDL: p.body(from)}
	if p.catalog.key(t.ID) != p.catalog.key(id) {
		change.Previous = id
		p.edits = append(p.edits, edit{id: id})
	}
	p.edits = append(p.edits, edit{id: t.ID, table: t})
	p.changes = append(p.changes, change)
	return nil
}

// alteration reads one item of ALTER TABLE's list. Items that don't change what rows
// hold are passed over.
func (p *parser) alteration(b *builder) bool {
	switch {
	case p.accept("ADD"):
		return p.alterAdd(b)
	case p.accept("CHANGE"):
		p.accept("COLUMN")
		p.exists()
		return p.alterChange(b, true)
	case p.accept("MODIFY"):
		p.accept("COLUMN")
		p.exists()
		return p.alterChange(b, false)
	case p.accept("DROP"):
		return p.alterDrop(b)
	case p.accept("RENAME"):
		return p.alterRename(b)
	case p.accept("ALTER"):
		return p.alterColumn(b)
	case p.accept("CONVERT", "TO"):
		return p.alterConvert(b)
	case p.accept("PARTITION", "BY"), p.accept("ORDER", "BY"):
		for !p.ended() {
			p.next()
		}
		return true
	}
	return p.alterOption(b)
}

// alterOption reads a table option, of which several may follow one another.
func (p *parser) alterOption(b *builder) bool {
	if p.tableOption(b) {
		return true
	}
	if p.peek().is("(") {
		return p.parens()
	}
	if p.peek().is(")") {
		return false
	}
	p.next()
	return true
}

// alterAdd reads what follows ADD: columns, keys, partitions, or what matters to no row.
func (p *parser) alterAdd(b *builder) bool {
	if p.key(b) {
		return true
	}
	if p.accept("SYSTEM", "VERSIONING") {
		return true
	}
	p.accept("COLUMN")
	onlyNew := p.peek().is("IF")
	p.exists()
	if !p.accept("(") {
		return p.addColumn(b, onlyNew)
	}
	for {
		if !p.key(b) && !p.addColumn(b, onlyNew) {
			return false
		}
		if p.accept(")") {
			return true
		}
		if !p.accept(",") {
			return false
		}
	}
}

func (p *parser) addColumn(b *builder, onlyNew bool) bool {
	name, ok := p.name()
	if !ok {
		return false
	}
	c, ok := p.column(name)
	if !ok {
		return false
	}
	if onlyNew && b.index(name) >= 0 {
		return p.position(b, -1)
	}
	b.add(c, p.primary, p.unique)
	return p.position(b, b.index(name))
}

// position reads FIRST or AFTER column and moves the column at i there, -1 for none.
func (p *parser) position(b *builder, i int) bool {
	after, ok := "", true
	switch {
	case p.accept("FIRST"):
	case p.accept("AFTER"):
		after, ok = p.name()
	default:
		return true
	}
	return ok && (i < 0 || b.place(i, after))
}

// alterChange reads what follows CHANGE or MODIFY.
func (p *parser) alterChange(b *builder, rename bool) bool {
	optional := p.at > 0 && p.tokens[p.at-1].is("EXISTS")
	name, ok := p.name()
	to := name
	if rename && ok {
		to, ok = p.name()
	}
	if !ok {
		return false
	}
	c, ok := p.column(to)
	if !ok {
		return false
	}
	i := b.named(name)
	if i < 0 {
		return optional && p.position(b, -1)
	}
	if name != to {
		b.rename(name, to)
	}
	b.Columns[i] = c
	if p.primary {
		b.primary([]string{to})
	}
	if p.unique {
		b.addUnique("", []string{to})
	}
	return p.position(b, i)
}

// alterDrop reads what follows DROP.
func (p *parser) alterDrop(b *builder) bool {
	switch {
	case p.accept("PRIMARY", "KEY"):
		b.key = nil
		return true
	case p.accept("INDEX"), p.accept("KEY"), p.accept("CONSTRAINT"):
		p.exists()
		name, ok := p.name()
		if ok {
			b.dropIndex(name)
		}
		return ok
	case p.accept("FOREIGN", "KEY"), p.accept("CHECK"), p.accept("PARTITION"), p.accept("SYSTEM", "VERSIONING"), p.accept("PERIOD", "FOR"):
		p.skipPartitions()
		return true
	}
	p.accept("COLUMN")
	optional := p.peek().is("IF")
	p.exists()
	name, ok := p.name()
	if !ok || !b.drop(name) && !optional {
		return false
	}
	p.acceptOne("RESTRICT", "CASCADE")
	return true
}

// skipPartitions passes over names with commas, as in DROP PARTITION p0, p1.
func (p *parser) skipPartitions() {
	p.exists()
	for p.peek().named() {
		p.next()
		if p.peek().is(",") && p.ahead(1).named() && (p.ahead(2).is(",") || p.ahead(2).kind == endToken) {
			p.next()
		}
	}
}

// alterRename reads what follows RENAME: a table's, column's or index's new name.
func (p *parser) alterRename(b *builder) bool {
	switch {
	case p.accept("COLUMN"):
		optional := p.peek().is("IF")
		p.exists()
		from, _ := p.name()
		p.accept("TO")
		to, ok := p.name()
		return ok && (b.rename(from, to) || optional)
	case p.accept("INDEX"), p.accept("KEY"):
		p.exists()
		from, _ := p.name()
		p.accept("TO")
		to, ok := p.name()
		if i := b.indexNamed(from); i >= 0 {
			b.unique[i].name = to
		}
		return ok
	}
	p.acceptOne("TO", "AS", "=")
	id, ok := p.table(p.statement.Database)
	if ok {
		b.ID = id
	}
	return ok
}

// alterColumn reads what follows ALTER: a column's default or visibility.
func (p *parser) alterColumn(b *builder) bool {
	if p.peek().kind == wordToken && (p.peek().is("INDEX") || p.peek().is("CHECK") || p.peek().is("CONSTRAINT") || p.peek().is("KEY")) {
		p.skipItem()
		return true
	}
	p.accept("COLUMN")
	optional := p.peek().is("IF")
	p.exists()
	name, ok := p.name()
	i := b.named(name)
	if !ok || i < 0 {
		p.skipItem()
		return ok && optional
	}
	c := &b.Columns[i]
	switch {
	case p.accept("SET", "DEFAULT"):
		ok = p.defaultValue(c)
		if !c.HasDefault { // DEFAULT NULL
			c.HasDefault = true
		}
		return ok
	case p.accept("DROP", "DEFAULT"):
		c.HasDefault, c.Default, c.DefaultIsExpression = c.Optional, nil, false
	case p.accept("SET", "VISIBLE"):
		c.Invisible = false
	case p.accept("SET", "INVISIBLE"):
		c.Invisible = true
	default:
		return false
	}
	return true
}

// alterConvert reads what follows CONVERT TO: all columns of text get the charset.
func (p *parser) alterConvert(b *builder) bool {
	if !p.tableOption(b) {
		return false
	}
	p.tableOption(b) // COLLATE
	for i := range b.Columns {
		if c := &b.Columns[i]; c.Kind.IsString() {
			c.Charset, c.Collation = b.Charset, b.Collation
			if c.Charset == "binary" {
				c.setBinary()
			}
		}
	}
	return true
}
