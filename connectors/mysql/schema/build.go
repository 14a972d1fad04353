package schema

import (
	"cmp"
	"slices"
	"strconv"
)

// builder makes a Table, new or from an older version of it. Its slices are its own.
type builder struct {
	Table
	key     []string // of the primary key itself
	dropped []string // columns that are gone: their places in keys too, once all is done
	hadKey  bool     // before the statement
}

// edited begins a new version of a table.
func edited(old *Table) *builder {
	b := &builder{Table: *old}
	b.Columns = slices.Clone(old.Columns)
	b.unique = slices.Clone(old.unique)
	if !old.KeyIsUnique {
		b.key = slices.Clone(old.PrimaryKey)
	}
	b.hadKey = len(b.key) > 0
	return b
}

// add appends a column, or puts it in the place of one with its name.
func (b *builder) add(c Column, primary, unique bool) {
	if i := b.index(c.Name); i >= 0 {
		b.Columns[i] = c
	} else {
		b.Columns = append(b.Columns, c)
	}
	if primary {
		b.key = []string{c.Name}
	}
	if unique {
		b.addUnique("", []string{c.Name})
	}
}

func (b *builder) primary(columns []string) { b.key = columns }

// addUnique adds a unique index. Without a name it gets the one that the server gives:
// its first column's, with a number if that is taken.
func (b *builder) addUnique(name string, columns []string) {
	if name == "" {
		name = columns[0]
		for n := 2; b.indexNamed(name) >= 0; n++ {
			name = columns[0] + "_" + strconv.Itoa(n)
		}
	}
	b.unique = append(b.unique, index{name, columns})
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
	i := b.index(name)
	if i < 0 {
		return false
	}
	b.Columns = slices.Delete(b.Columns, i, i+1)
	b.dropped = append(b.dropped, name)
	return true
}

// replaceInKeys gives a column of keys a new name, or takes it out where that is "".
func (b *builder) replaceInKeys(name, with string) {
	replace := func(columns []string) []string {
		out := make([]string, 0, len(columns))
		for _, c := range columns {
			switch {
			case !sameName(c, name):
				out = append(out, c)
			case with != "":
				out = append(out, with)
			}
		}
		return out
	}
	b.key = replace(b.key)
	kept := b.unique[:0]
	for _, i := range b.unique {
		if i.columns = replace(i.columns); len(i.columns) > 0 {
			kept = append(kept, i)
		}
	}
	b.unique = kept
}

func (b *builder) rename(from, to string) bool {
	i := b.index(from)
	if i < 0 {
		return false
	}
	b.Columns[i].Name = to
	b.replaceInKeys(from, to)
	return true
}

// place moves a column to the front, or behind another where after isn't "".
func (b *builder) place(name, after string) bool {
	i := b.index(name)
	if i < 0 {
		return false
	}
	c := b.Columns[i]
	b.Columns = slices.Delete(b.Columns, i, i+1)
	to := 0
	if after != "" {
		if to = b.index(after) + 1; to == 0 {
			return false
		}
	}
	b.Columns = slices.Insert(b.Columns, to, c)
	return true
}

// table finishes the new version: positions, inherited charsets, and the key by which
// events are keyed. A key of columns that aren't there makes it nil.
func (b *builder) table() *Table {
	for _, name := range b.dropped {
		if b.index(name) < 0 {
			b.replaceInKeys(name, "")
		}
	}
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
