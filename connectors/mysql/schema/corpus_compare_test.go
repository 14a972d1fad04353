package schema

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// replay runs what the binlog had of each step through a catalog and calls check after
// each with the changes.
func replay(t *testing.T, dialect Dialect, steps []step, check func(c *Catalog, s *step, changes []Change, errs []error)) {
	c := NewCatalog(dialect, false, "utf8mb4")
	c.SetCharset("ddl", "utf8mb4")
	for i := range steps {
		s := &steps[i]
		if s.Error != "" && len(s.Queries) == 0 { // the server refused it: it must not harm ours
			_, _ = c.parser(Statement{Database: "ddl", Text: s.SQL, AnsiQuotes: s.AnsiQuotes}).peek(), 0
			continue
		}
		var changes []Change
		var errs []error
		for _, q := range s.Queries {
			got, err := c.Apply(Statement{Database: q.Database, Text: q.Text, AnsiQuotes: s.AnsiQuotes})
			changes = append(changes, got...)
			if err != nil {
				errs = append(errs, err)
			}
		}
		check(c, s, changes, errs)
	}
}

func eachDialect(t *testing.T, f func(t *testing.T, dialect Dialect, steps []step)) {
	for dialect, name := range map[Dialect]string{MySQL: "mysql", MariaDB: "mariadb"} {
		t.Run(name, func(t *testing.T) { f(t, dialect, recorded(t, name)) })
	}
}

// knownFaults are the differences to the server that stay, by table and column, and why.
var knownFaults = map[string]string{
	"ddl.maria_compressed: b default": "MariaDB shows a default that nobody gave",
	"ddl.maria_oracle: e kind":        "sql_mode ORACLE: NUMBER is DOUBLE; the table map says so when rows come",
	"ddl.maria_oracle: e length":      "as above",
	"ddl.maria_oracle: f kind":        "sql_mode ORACLE: DATE is DATETIME; the table map says so when rows come",
}

// After each statement the catalog must say of each table that changed what the server
// says of it: in SHOW CREATE TABLE and in information_schema.
func TestCatalogIsTheServers(t *testing.T) {
	eachDialect(t, func(t *testing.T, dialect Dialect, steps []step) {
		replay(t, dialect, steps, func(c *Catalog, s *step, _ []Change, errs []error) {
			for _, err := range errs {
				t.Errorf("%s\n\t%v", s.SQL, err)
			}
			for name, facts := range s.Tables {
				database, table, _ := strings.Cut(name, ".")
				id := TableID{database, table}
				if table == "a_first_table" { // older than the record
					continue
				}
				got := c.Table(id)
				if facts == nil {
					if got != nil {
						t.Errorf("%s\n\t%s is still there", s.SQL, id)
					}
					continue
				}
				if got == nil {
					t.Errorf("%s\n\t%s is not there", s.SQL, id)
					continue
				}
				want, err := c.FromCreate(id, facts.Create)
				if err != nil {
					t.Errorf("%s\n\t%v", facts.Create, err)
					continue
				}
				for _, fault := range append(compareTables(got, want), compareFacts(want, facts)...) {
					what, _, _ := strings.Cut(fault, ": ")
					if knownFaults[id.String()+": "+what] == "" {
						t.Errorf("%s\n\t%s: %s", s.SQL, id, fault)
					}
				}
				if t.Failed() {
					c.Put(want) // so that the next faults are of their own
				}
			}
		})
	})
}

// compareTables compares what decides how rows are read and what events look like.
func compareTables(got, want *Table) (faults []string) {
	differ := func(what string, a, b any) {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			faults = append(faults, fmt.Sprintf("%s: %v, by SHOW CREATE TABLE %v", what, a, b))
		}
	}
	differ("charset", got.Charset, want.Charset)
	differ("key", got.PrimaryKey, want.PrimaryKey)
	differ("unique keys", sorted(got.UniqueKeys), sorted(want.UniqueKeys))
	differ("comment", got.Comment, want.Comment)
	if len(got.Columns) != len(want.Columns) {
		differ("columns", columnNames(got), columnNames(want))
		return faults
	}
	for i := range got.Columns {
		a, b := plain(got.Columns[i]), plain(want.Columns[i])
		differ(a.Name+" kind", a.storedKind(), b.storedKind())
		if a.Kind != JSON {
			differ(a.Name+" charset", a.Charset, b.Charset)
		}
		differ(a.Name, [...]any{a.Name, a.Position, a.Optional, a.AutoIncrement, a.Unsigned, a.ZeroFill, a.Generated, a.Invisible, a.OnUpdateNow, a.EnumValues, a.Comment},
			[...]any{b.Name, b.Position, b.Optional, b.AutoIncrement, b.Unsigned, b.ZeroFill, b.Generated, b.Invisible, b.OnUpdateNow, b.EnumValues, b.Comment})
		if a.DefaultIsExpression != b.DefaultIsExpression {
			continue // MariaDB folds constant expressions
		}
		differ(a.Name+" default", [...]any{a.HasDefault, text(a.Default)}, [...]any{b.HasDefault, text(b.Default)})
		if a.Kind == Decimal || a.Kind == Bit || a.Kind == Time || a.Kind == DateTime || a.Kind == Timestamp || a.Kind == Char && b.HasLength || a.Kind == VarChar {
			differ(a.Name+" length", [...]any{a.Length, a.Scale}, [...]any{b.Length, b.Scale})
		}
	}
	return faults
}

// plain takes away in what a statement's text and SHOW CREATE TABLE may differ without
// a meaning.
func plain(c Column) Column {
	if c.Charset == "utf8" {
		c.Charset = "utf8mb3"
	}
	if !c.Kind.IsString() {
		c.Charset = ""
	}
	if c.Kind == Char && !c.HasLength {
		c.Length, c.HasLength = 1, true
	}
	if c.Optional && c.Default == nil {
		c.HasDefault = true
	}
	if c.Default == nil {
		return c
	}
	value := *c.Default
	switch {
	case value == "true" || value == "false":
		value = map[string]string{"true": "1", "false": "0"}[value]
	case c.Kind <= Double:
		n, ok := new(big.Rat).SetString(value)
		if ok {
			value = n.RatString()
		}
	}
	c.Default = &value
	return c
}

func sorted(keys [][]string) [][]string {
	out := slices.Clone(keys)
	slices.SortFunc(out, func(a, b []string) int { return slices.Compare(a, b) })
	return slices.CompactFunc(out, slices.Equal)
}

func text(s *string) string {
	if s == nil {
		return "NULL"
	}
	return "'" + *s + "'"
}

func columnNames(t *Table) (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}

// storedKind is the kind that the server makes of a column's type: a statement may say
// BOOL, or TEXT(5).
func (c *Column) storedKind() Kind {
	switch c.Kind {
	case Boolean:
		return TinyInt
	case TinyText, Text, MediumText, LongText, JSON:
		return Text
	case TinyBlob, Blob, MediumBlob, LongBlob:
		return Blob
	case Float, Double:
		return Double
	}
	return c.Kind
}

// compareFacts compares a table with information_schema, which no parser of ours has
// read.
func compareFacts(got *Table, facts *tableFacts) (faults []string) {
	if len(got.Columns) != len(facts.Columns) {
		return []string{fmt.Sprintf("columns %v, by information_schema %v", columnNames(got), facts.Columns)}
	}
	var key []string
	for i, row := range facts.Columns {
		c := got.Columns[i]
		name, kind, nullable, charset, keyed, extra := row[0], row[1], row[2], row[3], row[4], row[5]
		fact := func(what string, got, want any) {
			if fmt.Sprint(got) != fmt.Sprint(want) {
				faults = append(faults, fmt.Sprintf("%s %s: %v, by information_schema %v (%s)", name, what, got, want, kind))
			}
		}
		fact("name", c.Name, name)
		fact("nullable", c.Optional, nullable == "YES")
		fact("unsigned", c.Unsigned, strings.Contains(kind, "unsigned"))
		fact("auto increment", c.AutoIncrement, strings.Contains(extra, "auto_increment"))
		fact("on update", c.OnUpdateNow, strings.Contains(strings.ToLower(extra), "on update current_timestamp"))
		fact("generated", c.Generated != NotGenerated, strings.Contains(extra, "VIRTUAL GENERATED") || strings.Contains(extra, "STORED GENERATED"))
		fact("invisible", c.Invisible, strings.Contains(extra, "INVISIBLE"))
		if charset == "\x00" {
			charset = ""
		}
		if c.Kind.IsString() {
			fact("charset", strings.Replace(c.Charset, "utf8mb3", "utf8", 1), strings.Replace(charset, "utf8mb3", "utf8", 1))
		} else if charset != "" && c.Kind != JSON {
			fact("charset", "none", charset)
		}
		if keyed == "PRI" {
			key = append(key, name)
		}
	}
	if want := slices.Clone(got.PrimaryKey); len(key) > 0 && !got.KeyIsUnique {
		slices.Sort(want)
		slices.Sort(key)
		if !slices.Equal(want, key) {
			faults = append(faults, fmt.Sprintf("key %v, by information_schema %v", want, key))
		}
	}
	return faults
}
