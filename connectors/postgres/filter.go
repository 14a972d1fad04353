package postgres

import "strings"

// takesTable decides whether a table is captured.
func (s *settings) takesTable(t tableName) bool {
	if !s.builtin && builtinSchema(t.schema) {
		return false
	}
	return s.schemas.Takes(t.schema) && s.Tables.Takes(t.String())
}

// takesColumn decides whether a captured table's column is captured.
func (s *settings) takesColumn(t tableName, column string) bool {
	return s.Columns.Takes(t.String() + "." + column)
}

func builtinSchema(name string) bool {
	return name == "pg_catalog" || name == "information_schema" || strings.HasPrefix(name, "pg_toast") || strings.HasPrefix(name, "pg_temp_")
}

// tableName is a table's schema and name.
type tableName struct{ schema, table string }

// String gives schema.table, as lists match it.
func (t tableName) String() string { return t.schema + "." + t.table }

// quoted gives the name for SQL.
func (t tableName) quoted() string { return quoteIdent(t.schema) + "." + quoteIdent(t.table) }

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func quoteLiteral(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}
