package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// builder makes a Table, new or from an older version of it. Its slices are its own.
type builder struct {
	Table
	key      []string // of the primary key itself
	keyIsOld bool     // the key is from before the statement
	hadKey   bool     // there was one
	dropped  []string // columns that are gone: their places in older keys too, once all is done
	// renamed maps columns' names before the statement to those after it. All items of
	// ALTER TABLE speak of columns by their names before it: names can be swapped.
	renamed map[string]string
	before  []string // the name before it of each column, "" of new ones; beside Columns
}

// edited begins a new version of a table.
func edited(old *Table) *builder {
	b := &builder{Table: *old, renamed: map[string]string{}}
	b.Columns = slices.Clone(old.Columns)
	for i := range b.Columns {
		b.before = append(b.before, b.Columns[i].Name)
	}
	b.unique = slices.Clone(old.unique)
	for i := range b.unique {
		b.unique[i].old = true
	}
	if !old.KeyIsUnique {
		b.key = slices.Clone(old.PrimaryKey)
	}
	b.hadKey = len(b.key) > 0
	b.keyIsOld = b.hadKey
	return b
}

// named finds a column by its name before the statement, or one that is new in it.
func (b *builder) named(name string) int {
	if i := slices.IndexFunc(b.before, func(n string) bool { return n != "" && sameName(n, name) }); i >= 0 {
		return i
	}
	return b.index(name)
}

// add appends a column, or puts it in the place of one with its name.
func (b *builder) add(c Column, primary, unique bool) {
	if i := b.index(c.Name); i >= 0 {
		b.Columns[i] = c
	} else {
		b.Columns = append(b.Columns, c)
		b.before = append(b.before, "")
	}
	if primary {
		b.primary([]string{c.Name})
	}
	if unique {
		b.addUnique("", []string{c.Name})
	}
}

func (b *builder) primary(columns []string) { b.key, b.keyIsOld = columns, false }

// addUnique adds a unique index. Without a name it gets the one that the server gives:
// its first column's, with a number if that is taken.
func (b *builder) addUnique(name string, columns []string) {
	if name == "" {
		name = columns[0]
		for n := 2; b.indexNamed(name) >= 0; n++ {
			name = columns[0] + "_" + strconv.Itoa(n)
		}
	}
	b.unique = append(b.unique, index{name: name, columns: columns})
}

func (b *builder) indexNamed(name string) int {
	return slices.IndexFunc(b.unique, func(i index) bool { return sameName(i.name, name) })
}

func (b *builder) dropIndex(name string) {
	if sameName(name, "PRIMARY") {
		b.key = nil
	} else if i := b.indexNamed(name); i >= 0 {
		b.unique = slices.Delete(b.unique, i, i+1)
	}
}

// drop removes a column. Its keys lose it in the end only: a statement that drops a
// column and adds one of that name keeps them.
func (b *builder) drop(name string) bool {
	i := b.named(name)
	if i < 0 {
		return false
	}
	b.dropped = append(b.dropped, b.Columns[i].Name)
	b.Columns = slices.Delete(b.Columns, i, i+1)
	b.before = slices.Delete(b.before, i, i+1)
	return true
}

// rename gives a column a new name.
func (b *builder) rename(from, to string) bool {
	i := b.named(from)
	if i < 0 {
		return false
	}
	b.renamed[strings.ToLower(b.Columns[i].Name)] = to
	b.Columns[i].Name = to
	return true
}

// carryKeys gives the keys from before the statement their columns' new names, without
// the columns that are gone.
func (b *builder) carryKeys() {
	carry := func(columns []string) []string {
		out := make([]string, 0, len(columns))
		for _, name := range columns {
			to, renamed := b.renamed[strings.ToLower(name)]
			gone := slices.ContainsFunc(b.dropped, func(d string) bool { return sameName(d, name) }) && b.index(name) < 0
			switch {
			case renamed:
				out = append(out, to)
			case !gone:
				out = append(out, name)
			}
		}
		return out
	}
	if b.keyIsOld {
		b.key = carry(b.key)
	}
	kept := make([]index, 0, len(b.unique))
	for _, i := range b.unique {
		if i.old {
			i.columns = carry(i.columns)
		}
		if i.old = false; len(i.columns) > 0 {
			kept = append(kept, i)
		}
	}
	b.unique = kept
}

// place moves the column at i to the front, or behind another where after isn't "".
func (b *builder) place(i int, after string) bool {
	c, before := b.Columns[i], b.before[i]
	b.Columns = slices.Delete(b.Columns, i, i+1)
	b.before = slices.Delete(b.before, i, i+1)
	to := 0
	if after != "" {
		if to = b.index(after) + 1; to == 0 {
			return false
		}
	}
	b.Columns = slices.Insert(b.Columns, to, c)
	b.before = slices.Insert(b.before, to, before)
	return true
}

// table finishes the new version: positions, inherited charsets, and the key by which
// events are keyed. A key of columns that aren't there makes it nil.
func (b *builder) table() *Table {
	b.carryKeys()
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Position = i + 1
		if c.Kind.IsString() && c.Charset == "" {
			c.Charset = b.Charset
			if c.Collation == "" {
				c.Collation = b.Collation
			}
		}
	}
	for _, name := range b.key {
		if !b.require(name) {
			return nil
		}
	}
	// The server keeps the unique indices without nullable columns before the others.
	slices.SortStableFunc(b.unique, func(i, j index) int {
		return cmp.Compare(len(b.notNull(j.columns)), 0) - cmp.Compare(len(b.notNull(i.columns)), 0)
	})
	b.UniqueKeys = nil
	for _, i := range b.unique {
		if columns := b.notNull(i.columns); columns != nil {
			b.UniqueKeys = append(b.UniqueKeys, columns)
		}
	}
	b.PrimaryKey, b.KeyIsUnique = b.names(b.key), false
	if len(b.PrimaryKey) == 0 && len(b.UniqueKeys) > 0 {
		b.PrimaryKey, b.KeyIsUnique = b.UniqueKeys[0], true
	}
	t := b.Table
	return &t
}

// require makes a column NOT NULL, as that of a primary key is.
func (b *builder) require(name string) bool {
	c := b.Column(name)
	if c == nil {
		return false
	}
	if c.Optional = false; c.Default == nil && !c.DefaultIsExpression {
		c.HasDefault = false
	}
	return true
}

// names gives columns as the table spells them.
func (b *builder) names(columns []string) []string {
	out := make([]string, 0, len(columns))
	for _, name := range columns {
		out = append(out, b.Column(name).Name)
	}
	return out
}

// notNull gives a unique index's columns if none of them can be NULL, else nil.
func (b *builder) notNull(columns []string) []string {
	for _, name := range columns {
		if c := b.Column(name); c == nil || c.Optional {
			return nil
		}
	}
	return b.names(columns)
}
