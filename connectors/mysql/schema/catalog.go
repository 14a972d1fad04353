package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Dialect is the server's kind of SQL.
type Dialect uint8

// The dialects.
const (
	MySQL Dialect = iota
	MariaDB
)

// Catalog holds the present structure of all tables that it was told of. It is used by
// one goroutine; the Tables that it hands out are immutable and may be kept.
type Catalog struct {
	dialect   Dialect
	foldNames bool // lower_case_table_names isn't 0
	tables    map[TableID]*Table
	charsets  map[string]string // a database's default charset
	server    string            // the server's, for databases that aren't in charsets
}

// NewCatalog makes an empty catalog. foldNames says that the server compares names of
// databases and tables without regard to case (lower_case_table_names is 1 or 2);
// charset is the server's default charset, which tables get that name none.
func NewCatalog(dialect Dialect, foldNames bool, charset string) *Catalog {
	return &Catalog{dialect: dialect, foldNames: foldNames, tables: map[TableID]*Table{}, charsets: map[string]string{}, server: charset}
}

// Table gives a table's present structure, nil where there is none.
func (c *Catalog) Table(id TableID) *Table { return c.tables[c.key(id)] }

// Tables gives all tables, ordered by database and name.
func (c *Catalog) Tables() []*Table {
	all := make([]*Table, 0, len(c.tables))
	for _, t := range c.tables {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Table) int {
		return cmp.Or(cmp.Compare(a.ID.Database, b.ID.Database), cmp.Compare(a.ID.Name, b.ID.Name))
	})
	return all
}

// Put sets a table's structure: what SHOW CREATE TABLE or a TABLE_MAP event told.
func (c *Catalog) Put(t *Table) { c.tables[c.key(t.ID)] = t }

// Drop forgets a table.
func (c *Catalog) Drop(id TableID) { delete(c.tables, c.key(id)) }

// SetCharset sets a database's default charset, which its new tables get.
func (c *Catalog) SetCharset(database, charset string) {
	c.charsets[c.fold(database)] = charsetName(charset)
}

// SetServerCharset sets the server's default charset.
func (c *Catalog) SetServerCharset(charset string) { c.server = charsetName(charset) }

// Charset is the charset that a new table of the database gets.
func (c *Catalog) Charset(database string) string {
	if charset, ok := c.charsets[c.fold(database)]; ok {
		return charset
	}
	return c.server
}

func (c *Catalog) key(id TableID) TableID {
	return TableID{c.fold(id.Database), c.fold(id.Name)}
}

func (c *Catalog) fold(name string) string {
	if c.foldNames {
		return strings.ToLower(name)
	}
	return name
}

// dropDatabase forgets a database with its tables.
func (c *Catalog) dropDatabase(database string) {
	delete(c.charsets, c.fold(database))
	for id := range c.tables {
		if id.Database == c.fold(database) {
			delete(c.tables, id)
		}
	}
}

// FromCreate reads the text that SHOW CREATE TABLE gave for the table id. The catalog
// is only asked for the database's charset; Put takes the table into it.
func (c *Catalog) FromCreate(id TableID, text string) (*Table, error) {
	p := c.parser(Statement{Database: id.Database, Text: text})
	if p.accept("CREATE") {
		p.acceptOne("TEMPORARY")
		if p.accept("TABLE") {
			if _, ok := p.table(id.Database); ok {
				if t := p.tableBody(id); t != nil {
					return t, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("read the structure of %s: %w", id, p.unparsed(id))
}
