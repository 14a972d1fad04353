package schema

import "strings"

// Database is a database as a snapshot finds it.
type Database struct{ Name, Charset, Collation string }

// Creation is what SHOW CREATE TABLE gave for a table.
type Creation struct {
	ID   TableID
	Text string
}

// Snapshot puts the structure that a snapshot found into the catalog and gives the
// changes that Debezium makes of it: the server's charset, a DROP of every table, then
// of each database, in the order of its first table, a DROP, a CREATE, USE and the CREATE
// of its tables. A table whose text isn't understood has a change without its structure,
// and is in unparsed.
func (c *Catalog) Snapshot(charset, collation string, databases []Database, tables []Creation) (changes []Change, unparsed []error) {
	c.SetServerCharset(charset)
	add := func(database, ddl string) {
		changes = append(changes, Change{Type: ChangeDatabase, Database: database, DDL: ddl})
	}
	add("", "SET character_set_server="+charset+", collation_server="+collation)
	var order []string
	of := make(map[string][]Creation)
	for _, t := range tables {
		if of[t.ID.Database] == nil {
			order = append(order, t.ID.Database)
		}
		of[t.ID.Database] = append(of[t.ID.Database], t)
		changes = append(changes, Change{Type: ChangeDrop, Database: t.ID.Database, ID: t.ID, DDL: "DROP TABLE IF EXISTS " + quoteID(t.ID), SourceTable: &t.ID.Name})
	}
	known := make(map[string]Database)
	for _, d := range databases {
		known[d.Name] = d
		c.SetCharset(d.Name, d.Charset)
	}
	for _, name := range order {
		quoted := "`" + strings.ReplaceAll(name, "`", "``") + "`"
		create := "CREATE DATABASE " + quoted
		if d, ok := known[name]; ok {
			create += " CHARSET " + d.Charset + " COLLATE " + d.Collation
		}
		add(name, "DROP DATABASE IF EXISTS "+quoted)
		add(name, create)
		add(name, "USE "+quoted)
		for _, t := range of[name] {
			change := Change{Type: ChangeCreate, Database: name, ID: t.ID, DDL: t.Text, SourceTable: &t.ID.Name}
			table, err := c.FromCreate(t.ID, t.Text)
			if err != nil {
				unparsed = append(unparsed, err)
			} else {
				c.Put(table)
				change.Table = table
			}
			changes = append(changes, change)
		}
	}
	return changes, unparsed
}
