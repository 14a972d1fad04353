package debezium

import (
	"fmt"
	"regexp"
	"strings"
)

// Patterns is one of Debezium's lists of regular expressions: anchored, without regard to case.
type Patterns struct {
	texts    []string
	compiled []*regexp.Regexp
}

// ParsePatterns reads a comma-separated list; a comma of an expression is written \,.
func ParsePatterns(key, list string) (*Patterns, error) {
	p := &Patterns{}
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

// Match reports whether an expression of the list matches the whole name.
func (p *Patterns) Match(name string) bool {
	for _, re := range p.compiled {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// Literals gives what those expressions name that name one thing only: they have no operator but the dot.
func (p *Patterns) Literals() []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, text := range p.texts {
		if text = strings.ReplaceAll(text, `\.`, "."); !strings.ContainsAny(text, `\*+?[](){}|^$`) {
			names = append(names, text)
		}
	}
	return names
}

// Choice is a pair of include and exclude lists, at most one of which is set.
type Choice struct{ Include, Exclude *Patterns }

// ParseChoice reads kind.include.list and kind.exclude.list; both at once are an error.
func ParseChoice(lookup func(string) string, kind string) (Choice, error) {
	var c Choice
	var err error
	in, out := kind+".include.list", kind+".exclude.list"
	if c.Include, err = ParsePatterns(in, lookup(in)); err != nil {
		return c, err
	}
	if c.Exclude, err = ParsePatterns(out, lookup(out)); err != nil {
		return c, err
	}
	if c.Include != nil && c.Exclude != nil {
		return c, fmt.Errorf("%s and %s exclude each other; remove one", in, out)
	}
	return c, nil
}

// Takes reports whether the lists let a name pass.
func (c Choice) Takes(name string) bool {
	switch {
	case c.Include != nil:
		return c.Include.Match(name)
	case c.Exclude != nil:
		return !c.Exclude.Match(name)
	}
	return true
}

// KeyRule is one part of message.key.columns.
type KeyRule struct {
	table   *regexp.Regexp
	Columns []string
}

// KeyRules are message.key.columns.
type KeyRules []KeyRule

// Columns gives the key columns of the first rule that matches a table, and whether there is one.
func (rules KeyRules) Columns(table string) ([]string, bool) {
	for _, rule := range rules {
		if rule.table.MatchString(table) {
			return rule.Columns, true
		}
	}
	return nil, false
}

// ParseKeyRules reads table:column,column;….
func ParseKeyRules(text string) (KeyRules, error) {
	var rules KeyRules
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
		rule := KeyRule{table: re}
		for _, c := range strings.Split(part[i+1:], ",") {
			if c = strings.TrimSpace(c); c != "" {
				rule.Columns = append(rule.Columns, c)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
