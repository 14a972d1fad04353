package transform

import (
	"fmt"
	"regexp"
	"strings"
)

// javaRegex compiles a Java regular expression for whole texts and for searching. Go's expressions have no lookaround,
// back-references, atomic groups or possessive quantifiers; these are refused by name.
func javaRegex(text string) (whole, anywhere *regexp.Regexp, err error) {
	if what := unsupported(text); what != "" {
		return nil, nil, fmt.Errorf("the regular expression %q uses %s, which are not supported; write it without", text, what)
	}
	if anywhere, err = regexp.Compile(text); err != nil {
		return nil, nil, fmt.Errorf("the regular expression %q is malformed: %w", text, err)
	}
	whole, err = regexp.Compile(`\A(?:` + text + `)\z`)
	return whole, anywhere, err
}

// unsupported names the construct of a Java expression that Go's do not have, "" for none.
func unsupported(text string) string {
	class := 0
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, `\Q`):
			if end := strings.Index(rest, `\E`); end >= 0 {
				i += end + 1
			} else {
				return ""
			}
		case text[i] == '\\':
			i++
			if class == 0 && i < len(text) && (text[i] >= '1' && text[i] <= '9' || text[i] == 'k') {
				return "back-references"
			}
		case text[i] == '[':
			class++
		case text[i] == ']' && class > 0:
			class--
		case class > 0:
			if strings.HasPrefix(rest, "&&") {
				return "intersections of classes"
			}
		case strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!"):
			return "lookaheads"
		case strings.HasPrefix(rest, "(?<=") || strings.HasPrefix(rest, "(?<!"):
			return "lookbehinds"
		case strings.HasPrefix(rest, "(?>"):
			return "atomic groups"
		case text[i] == '+' && i > 0 && strings.IndexByte("*+?}", text[i-1]) >= 0 && (i < 2 || text[i-2] != '\\'):
			return "possessive quantifiers"
		}
	}
	return ""
}

// javaReplacement compiles the replacement of a Java expression, $1 and ${name} for groups and \ before a character that
// stands for itself, into parts: a text, or a group's number.
func javaReplacement(text string, re *regexp.Regexp) ([]replacementPart, error) {
	var parts []replacementPart
	var literal strings.Builder
	group := func(n int) {
		parts = append(parts, replacementPart{text: literal.String(), group: n})
		literal.Reset()
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return nil, fmt.Errorf("the replacement %q ends with a backslash", text)
			}
			literal.WriteByte(text[i])
		case '$':
			n, end, err := groupAt(text, i+1, re)
			if err != nil {
				return nil, err
			}
			group(n)
			i = end - 1
		default:
			literal.WriteByte(text[i])
		}
	}
	return append(parts, replacementPart{text: literal.String(), group: -1}), nil
}

// replacementPart is a text followed by a group (-1: none).
type replacementPart struct {
	text  string
	group int
}

// groupAt reads the group after a dollar: as many digits as still name a group, or a name in braces.
func groupAt(text string, i int, re *regexp.Regexp) (group, end int, err error) {
	if i < len(text) && text[i] == '{' {
		length := strings.IndexByte(text[i:], '}')
		if length < 0 {
			return 0, 0, fmt.Errorf("the replacement %q has a group without '}'", text)
		}
		name := text[i+1 : i+length]
		if group = re.SubexpIndex(name); group < 0 {
			return 0, 0, fmt.Errorf("the replacement %q names the group %q, which the expression does not have", text, name)
		}
		return group, i + length + 1, nil
	}
	if i >= len(text) || text[i] < '0' || text[i] > '9' {
		return 0, 0, fmt.Errorf("the replacement %q has a '$' without a group; write \\$ for the character", text)
	}
	group, end = int(text[i]-'0'), i+1
	for end < len(text) && text[end] >= '0' && text[end] <= '9' && group*10+int(text[end]-'0') <= re.NumSubexp() {
		group, end = group*10+int(text[end]-'0'), end+1
	}
	if group > re.NumSubexp() {
		return 0, 0, fmt.Errorf("the replacement %q names the group %d, and the expression has %d", text, group, re.NumSubexp())
	}
	return group, end, nil
}
