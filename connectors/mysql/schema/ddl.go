package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// Statement is one statement as the binlog tells it.
type Statement struct {
	Database    string // the session's default database; "" for none
	Text        string
	AnsiQuotes  bool // sql_mode has ANSI_QUOTES
	NoBackslash bool // sql_mode has NO_BACKSLASH_ESCAPES
	// Charset is the default charset that the session had for new tables of a database
	// that the catalog doesn't know; "" for the server's.
	Charset string
}

// ChangeType says what a statement did.
type ChangeType uint8

// The types of changes.
const (
	// ChangeDatabase is everything without a table's structure: databases, indices that
	// are no keys, tables that the catalog doesn't have.
	ChangeDatabase ChangeType = iota
	ChangeCreate
	ChangeAlter
	ChangeDrop
	ChangeTruncate
	// ChangeRows is a statement that writes rows (INSERT, UPDATE, DELETE, REPLACE, LOAD
	// DATA): with row-based logging it may not be here. ID is its table, where it is
	// easily told.
	ChangeRows
)

// Change is what a statement did to one table or database.
type Change struct {
	Type     ChangeType
	Database string  // that it belongs to: of the table, the database or the session
	ID       TableID // of the table; zero for ChangeDatabase
	Previous TableID // of a renamed table: its name before; else zero
	Table    *Table  // its structure now; nil where it is gone or unknown
	// DDL is the part of the statement that made this change, as Debezium cuts it: the
	// whole without comments around it; one table's part of a DROP or RENAME of many.
	DDL string
	// SourceTable is the field table of the source block: the names of all tables that
	// the statement changed in this database, nil where it is about a database, ""
	// where it changed nothing that is known.
	SourceTable *string
}

// UnparsedError says that a statement wasn't understood.
type UnparsedError struct {
	ID   TableID // of the table that it is about; zero where even that isn't known
	Near string  // the text from where on it wasn't understood
}

func (e *UnparsedError) Error() string {
	if e.ID == (TableID{}) {
		return fmt.Sprintf("statement not understood near %q", e.Near)
	}
	return fmt.Sprintf("statement about %s not understood near %q", e.ID, e.Near)
}

// parser reads one statement against a catalog. Its effects are kept aside until the
// whole statement is understood (invariant 2).
type parser struct {
	cursor
	catalog   *Catalog
	statement Statement
	edits     []edit
	changes   []Change

	// Of the column being read: what its definition says about more than itself.
	notNull, unique, primary, number bool
	altering                         bool
}

// edit is one effect on the catalog: a table's new structure (nil: it is gone) or a
// database's charset.
type edit struct {
	id       TableID
	table    *Table
	database string // "" for an edit of a table
	charset  string
	drop     bool // of the database
	server   bool // charset is the server's
}

func (c *Catalog) parser(s Statement) *parser {
	tokens := lex(s.Text, lexer{mariadb: c.dialect == MariaDB, ansiQuotes: s.AnsiQuotes, noBackslash: s.NoBackslash})
	return &parser{cursor: cursor{text: s.Text, tokens: tokens}, catalog: c, statement: s}
}

// Apply reads a statement and moves the catalog on. It gives the changes in the order
// of the statement's tables: none for statements that are not about structure (rights,
// views, routines, locks), exactly one of ChangeDatabase for a statement about
// structure that changes no known table. The error is an *UnparsedError: the catalog is
// as it was, but that the table is Doubtful, and the one change has the whole text, so
// that the history keeps it.
func (c *Catalog) Apply(s Statement) ([]Change, error) {
	p := c.parser(s)
	if err := p.run(); err != nil {
		return c.doubt(p, err)
	}
	for _, e := range p.edits {
		switch {
		case e.server:
			c.SetServerCharset(e.charset)
		case e.drop:
			c.dropDatabase(e.database)
		case e.database != "":
			c.SetCharset(e.database, e.charset)
		case e.table == nil:
			c.Drop(e.id)
		default:
			c.Put(e.table)
		}
	}
	nameTables(p.changes)
	for i := range p.changes {
		if t := p.changes[i].Table; t != nil && t.Doubtful {
			p.changes[i].Table = nil // the history gets the text alone
		}
	}
	return p.changes, nil
}

// doubt takes in that a statement wasn't understood.
func (c *Catalog) doubt(p *parser, err error) ([]Change, error) {
	var unparsed *UnparsedError
	if errors.As(err, &unparsed) {
		if old := c.Table(unparsed.ID); old != nil && !old.Doubtful {
			t := *old
			t.Doubtful = true
			c.Put(&t)
		}
	}
	p.changes = nil
	_ = p.other()
	return p.changes, err
}

// nameTables sets SourceTable of the changes of tables.
func nameTables(changes []Change) {
	for i := range changes {
		c := &changes[i]
		if c.Type == ChangeDatabase || c.SourceTable != nil {
			continue
		}
		var ids []TableID
		for j := range changes {
			if other := &changes[j]; other.Type != ChangeDatabase && other.Database == c.Database && !slices.Contains(ids, other.ID) {
				ids = append(ids, other.ID)
			}
		}
		slices.SortStableFunc(ids, func(a, b TableID) int { return cmp.Compare(javaBucket(a.String()), javaBucket(b.String())) })
		names := make([]string, len(ids))
		for j := range ids {
			names[j] = ids[j].Name
		}
		joined := strings.Join(names, ",")
		c.SourceTable = &joined
	}
}

// javaBucket orders a string as a small HashSet of Java does: Debezium lists the tables
// of a statement in that order.
func javaBucket(s string) uint32 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(unit)
	}
	return (h ^ h>>16) & 15
}

// run reads the statement. MariaDB's SET STATEMENT … FOR goes before any other.
func (p *parser) run() error {
	if p.accept("SET", "STATEMENT") {
		for !p.ended() && !p.accept("FOR") {
			p.next()
		}
	}
	switch strings.ToUpper(p.peek().text) {
	case "CREATE":
		return p.create()
	case "ALTER":
		return p.alter()
	case "DROP":
		return p.drop()
	case "RENAME":
		return p.rename()
	case "TRUNCATE":
		return p.truncate()
	case "INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD":
		p.rows()
	case "SET":
		p.setCharset()
	}
	return nil
}

// setCharset reads SET character_set_server=…, which the history of a snapshot begins
// with; no binlog has it.
func (p *parser) setCharset() {
	if p.next(); p.accept("character_set_server", "=") {
		p.edits = append(p.edits, edit{server: true, charset: p.next().text})
	}
}

// unparsed makes the error of a statement about the table id.
func (p *parser) unparsed(id TableID) error { return &UnparsedError{ID: id, Near: p.near()} }

// part gives the statement's text from one token to another, without what stands
// around them. Debezium reads MySQL's statements with their strings in single quotes.
func (p *parser) part(from, to int) string {
	if to < from {
		return ""
	}
	start, end := p.tokens[from].start, p.tokens[to].end
	if p.catalog.dialect != MySQL || p.statement.AnsiQuotes || strings.IndexByte(p.text[start:end], '"') < 0 {
		return p.text[start:end]
	}
	var b strings.Builder
	at := start
	for _, t := range p.tokens[from : to+1] {
		if t.kind == stringToken && p.text[t.start] == '"' {
			b.WriteString(p.text[at:t.start])
			b.WriteByte('\'')
			b.WriteString(strings.ReplaceAll(p.text[t.start+1:t.end-1], "'", "''"))
			b.WriteByte('\'')
			at = t.end
		}
	}
	b.WriteString(p.text[at:end])
	return b.String()
}

// body gives the whole statement's text from a token on. A comment that is executed
// and goes on to its end is taken with its closing mark.
func (p *parser) body(from int) string {
	last := len(p.tokens) - 2
	text := p.part(from, last)
	if rest := strings.TrimSpace(p.text[p.tokens[last].end:]); strings.HasPrefix(rest, "*/") {
		text += " */"
	}
	return text
}

// find gives a table as the statement has left it so far.
func (p *parser) find(id TableID) *Table {
	for i := len(p.edits) - 1; i >= 0; i-- {
		if e := p.edits[i]; e.database == "" && !e.server && p.catalog.key(e.id) == p.catalog.key(id) {
			return e.table
		}
	}
	return p.catalog.Table(id)
}

// database notes a statement about a database.
func (p *parser) database(name, ddl string) {
	p.changes = append(p.changes, Change{Type: ChangeDatabase, Database: name, DDL: ddl})
}

// other notes a statement that changed nothing we know of, as Debezium does: with its
// whole text, for the session's database.
func (p *parser) other() error {
	nothing := ""
	p.changes = append(p.changes, Change{Type: ChangeDatabase, Database: p.statement.Database, DDL: p.statement.Text, SourceTable: &nothing})
	return nil
}

func (p *parser) charset(database string) string {
	if charset, ok := p.catalog.charsets[p.catalog.fold(database)]; ok {
		return charset
	}
	if p.statement.Charset != "" {
		return charsetName(p.statement.Charset)
	}
	return p.catalog.server
}

// create reads CREATE …
func (p *parser) create() error {
	from := p.at
	p.next()
	replace := p.accept("OR", "REPLACE")
	p.definer()
	switch {
	case p.accept("TEMPORARY"):
		return nil
	case p.accept("TABLE"):
		return p.createTable(from, replace)
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		return p.createDatabase(from)
	case p.accept("UNIQUE"):
		p.accept("INDEX")
		if p.catalog.dialect == MySQL { // Debezium leaves CREATE out
			from = p.at - 2
		}
		return p.createUnique(from)
	case p.accept("INDEX"), p.accept("FULLTEXT"), p.accept("SPATIAL"), p.accept("VECTOR"), p.accept("SEQUENCE"),
		p.accept("EVENT"), p.accept("TABLESPACE"), p.accept("SERVER"), p.accept("LOGFILE"), p.accept("UNDO"):
		return p.other()
	}
	return p.ignored()
}

// definer passes over DEFINER = 'user'@'host'.
func (p *parser) definer() {
	if !p.accept("DEFINER", "=") {
		return
	}
	p.next()
	if p.peek().is("(") {
		p.parens()
	}
	if p.accept("@") {
		p.next()
	}
}

// ignored takes in a statement about something without rows: views, routines,
// triggers, accounts and rights change no structure and are told to nobody.
func (p *parser) ignored() error { return nil }

func (p *parser) exists() {
	if !p.accept("IF", "NOT", "EXISTS") {
		p.accept("IF", "EXISTS")
	}
}

func (p *parser) createDatabase(from int) error {
	p.exists()
	name, ok := p.name()
	if !ok {
		return p.unparsed(TableID{})
	}
	charset := p.databaseCharset()
	if charset == "" {
		charset = p.catalog.server
		if p.statement.Charset != "" {
			charset = charsetName(p.statement.Charset)
		}
	}
	p.edits = append(p.edits, edit{database: name, charset: charset})
	p.database(name, p.body(from))
	return nil
}

// databaseCharset reads the options of a database and gives its charset; "" where the
// options name none.
func (p *parser) databaseCharset() string {
	charset := ""
	for !p.ended() {
		switch {
		case p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"), p.accept("CHARSET"):
			p.accept("=")
			charset = charsetName(p.next().text)
		case p.accept("COLLATE"):
			p.accept("=")
			if of := charsetOfCollation(p.next().text); charset == "" {
				charset = of
			}
		default:
			p.next()
		}
	}
	if charset == "default" {
		return ""
	}
	return charset
}

// drop reads DROP …
func (p *parser) drop() error {
	from := p.at
	p.next()
	switch {
	case p.accept("TEMPORARY"):
		return nil
	case p.accept("TABLE"), p.accept("TABLES"):
		return p.dropTables(from)
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		p.exists()
		name, ok := p.name()
		if !ok {
			return p.unparsed(TableID{})
		}
		p.edits = append(p.edits, edit{database: name, drop: true})
		p.database(name, p.body(from))
		return nil
	case p.accept("INDEX"):
		return p.dropIndex(from)
	case p.accept("SEQUENCE"), p.accept("EVENT"), p.accept("TABLESPACE"), p.accept("SERVER"), p.accept("UNDO"), p.accept("LOGFILE"):
		return p.other()
	}
	return p.ignored()
}

func (p *parser) dropTables(from int) error {
	p.exists()
	prefix := p.text[p.tokens[from].start:p.peek().start]
	for {
		id, ok := p.table(p.statement.Database)
		if !ok {
			return p.unparsed(TableID{})
		}
		p.edits = append(p.edits, edit{id: id})
		p.changes = append(p.changes, Change{Type: ChangeDrop, Database: id.Database, ID: id, DDL: prefix + quoteID(id)})
		if !p.accept(",") {
			break
		}
	}
	if how := p.acceptOne("RESTRICT", "CASCADE"); how != "" {
		for i := range p.changes {
			p.changes[i].DDL += " " + how
		}
	}
	return nil
}

// quoteID writes a table's name as SQL.
func quoteID(id TableID) string {
	return "`" + strings.ReplaceAll(id.Database, "`", "``") + "`.`" + strings.ReplaceAll(id.Name, "`", "``") + "`"
}

func (p *parser) truncate() error {
	from := p.at
	p.next()
	p.accept("TABLE")
	id, ok := p.table(p.statement.Database)
	if !ok {
		return p.unparsed(TableID{})
	}
	p.changes = append(p.changes, Change{Type: ChangeTruncate, Database: id.Database, ID: id, Table: p.find(id), DDL: p.body(from)})
	return nil
}

// rename reads RENAME TABLE a TO b, c TO d.
func (p *parser) rename() error {
	from := p.at
	p.next()
	if !p.accept("TABLE") && !p.accept("TABLES") {
		return p.ignored() // RENAME USER
	}
	p.exists()
	prefix := p.text[p.tokens[from].start:p.peek().start]
	for {
		pair := p.at
		previous, ok := p.table(p.statement.Database)
		if ok && (p.acceptOne("WAIT") != "" || p.accept("NOWAIT")) && p.peek().kind == numberToken {
			p.next()
		}
		if !ok || !p.accept("TO") {
			return p.unparsed(previous)
		}
		id, ok := p.table(p.statement.Database)
		if !ok {
			return p.unparsed(previous)
		}
		p.renamed(previous, id)
		p.changes = append(p.changes, Change{Type: ChangeAlter, Database: id.Database, ID: id, Previous: previous, DDL: prefix + p.part(pair, p.at-1)})
		if !p.accept(",") {
			break
		}
	}
	// A table that is renamed on in the same statement is told of where it ends.
	for i := range p.changes {
		p.changes[i].Table = p.find(p.changes[i].ID)
	}
	return nil
}

// renamed gives a table that is known a new name.
func (p *parser) renamed(previous, id TableID) {
	old := p.find(previous)
	if old == nil {
		return
	}
	t := *old
	t.ID = id
	p.edits = append(p.edits, edit{id: previous}, edit{id: id, table: &t})
}

// rows reads the table of a statement that writes rows.
func (p *parser) rows() {
	change := Change{Type: ChangeRows, Database: p.statement.Database, DDL: p.statement.Text}
	if p.next().is("LOAD") { // DATA INFILE 'name' INTO TABLE t
		for !p.ended() && !p.accept("TABLE") {
			p.next()
		}
	}
	for p.acceptOne("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE", "INTO", "FROM") != "" {
	}
	if id, ok := p.table(p.statement.Database); ok {
		change.ID, change.Database = id, id.Database
	}
	p.changes = append(p.changes, change)
}
