package postgres

import (
	"fmt"
	"regexp"
	"strings"
)

// patterns is one of Debezium's lists of regular expressions: anchored, without regard to case.
type patterns struct {
	texts    []string
	compiled []*regexp.Regexp
}

// parsePatterns reads a comma-separated list; a comma of an expression is written \,.
func parsePatterns(key, list string) (*patterns, error) {
	p := &patterns{}
	for _, text := range splitUnescaped(list, ',') {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		re, err := compilePattern(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a usable regular expression: %w", key, text, err)
		}
		p.texts = append(p.texts, text)
		p.compiled = append(p.compiled, re)
	}
	if len(p.texts) == 0 {
		return nil, nil
	}
	return p, nil
}

// compilePattern compiles one expression written for Java. RE2 has no look-around, back-references and possessive
// quantifiers; an expression with one of them is refused by its compiler.
func compilePattern(text string) (*regexp.Regexp, error) {
	return regexp.Compile("(?i)^(?:" + text + ")$")
}

func splitUnescaped(s string, sep byte) []string {
	var out []string
	var part []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == sep:
			part = append(part, sep)
			i++
		case s[i] == sep:
			out = append(out, string(part))
			part = part[:0]
		default:
			part = append(part, s[i])
		}
	}
	return append(out, string(part))
}

func (p *patterns) match(name string) bool {
	for _, re := range p.compiled {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// literal reports whether an expression of the list names one thing only: it has no operator but the dot.
func literal(text string) (name string, ok bool) {
	text = strings.ReplaceAll(text, `\.`, ".")
	return text, !strings.ContainsAny(text, `\*+?[](){}|^$`)
}

// choice is a pair of include and exclude lists, at most one of which is set.
type choice struct{ include, exclude *patterns }

func parseChoice(lookup func(string) string, kind string) (choice, error) {
	var c choice
	var err error
	in, out := kind+".include.list", kind+".exclude.list"
	if c.include, err = parsePatterns(in, lookup(in)); err != nil {
		return c, err
	}
	if c.exclude, err = parsePatterns(out, lookup(out)); err != nil {
		return c, err
	}
	if c.include != nil && c.exclude != nil {
		return c, fmt.Errorf("%s and %s exclude each other; remove one", in, out)
	}
	return c, nil
}

func (c choice) takes(name string) bool {
	switch {
	case c.include != nil:
		return c.include.match(name)
	case c.exclude != nil:
		return !c.exclude.match(name)
	}
	return true
}

// filter decides which tables and columns are captured.
type filter struct {
	schemas, tables, columns choice
	builtin                  bool // the server's own schemas too
}

func (f *filter) takesTable(t tableName) bool {
	if !f.builtin && builtinSchema(t.schema) {
		return false
	}
	return f.schemas.takes(t.schema) && f.tables.takes(t.String())
}

func (f *filter) takesColumn(t tableName, column string) bool {
	return f.columns.takes(t.String() + "." + column)
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

// keyRule is one part of message.key.columns.
type keyRule struct {
	table   *regexp.Regexp
	columns []string
}

func parseKeyRules(text string) ([]keyRule, error) {
	var rules []keyRule
	for _, part := range strings.Split(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		i := strings.LastIndexByte(part, ':')
		if i <= 0 || i == len(part)-1 {
			return nil, fmt.Errorf("%q: expected table:column,column", part)
		}
		re, err := compilePattern(strings.TrimSpace(part[:i]))
		if err != nil {
			return nil, fmt.Errorf("%q is not a usable regular expression: %w", part[:i], err)
		}
		rule := keyRule{table: re}
		for _, c := range strings.Split(part[i+1:], ",") {
			if c = strings.TrimSpace(c); c != "" {
				rule.columns = append(rule.columns, c)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
