package kafka

import (
	"errors"
	"fmt"
	"strings"
)

// jaasEntry is the one login module of a sasl.jaas.config.
type jaasEntry struct {
	class   string
	options map[string]string
}

// parseJAAS reads "class flag key=value … ;" as Java's client does: values may be quoted
// with single or double quotes, a backslash escapes inside quotes, comments are allowed.
// Errors hold no option's value.
func parseJAAS(text string) (jaasEntry, error) {
	if text == "" {
		return jaasEntry{}, errors.New("is missing")
	}
	tokens, err := jaasTokens(text)
	if err != nil {
		return jaasEntry{}, err
	}
	if len(tokens) < 3 || tokens[len(tokens)-1] != ";" {
		return jaasEntry{}, errors.New(`must read "LoginModuleClass required key=value …;" with the semicolon`)
	}
	entry := jaasEntry{class: tokens[0], options: make(map[string]string)}
	switch strings.ToLower(tokens[1]) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return jaasEntry{}, errors.New("the login module's class must be followed by required")
	}
	rest := tokens[2 : len(tokens)-1]
	for len(rest) > 0 {
		if rest[0] == ";" {
			return jaasEntry{}, errors.New("holds more than one login module")
		}
		if len(rest) < 3 || rest[1] != "=" {
			return jaasEntry{}, fmt.Errorf("option %d is not key=value", len(entry.options)+1)
		}
		entry.options[rest[0]] = rest[2]
		rest = rest[3:]
	}
	return entry, nil
}

// jaasTokens cuts the text into words, quoted strings, "=" and ";".
func jaasTokens(text string) ([]string, error) {
	var tokens []string
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
		case c == '=' || c == ';':
			tokens = append(tokens, string(c))
			i++
		case c == '"' || c == '\'':
			word, n, err := jaasQuoted(text[i:])
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, word)
			i += n
		case strings.HasPrefix(text[i:], "//"):
			i += lengthUntil(text[i:], "\n")
		case strings.HasPrefix(text[i:], "/*"):
			i += lengthUntil(text[i:], "*/")
		default:
			n := strings.IndexAny(text[i:], " \t\r\n=;\"'")
			if n < 0 {
				n = len(text) - i
			}
			tokens = append(tokens, text[i:i+n])
			i += n
		}
	}
	return tokens, nil
}

// lengthUntil returns the length of text up to and with end, or all of it.
func lengthUntil(text, end string) int {
	if n := strings.Index(text, end); n >= 0 {
		return n + len(end)
	}
	return len(text)
}

func jaasQuoted(text string) (word string, length int, err error) {
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return out.String(), i + 1, nil
		case text[i] == '\\' && i+1 < len(text):
			i++
			out.WriteByte(escaped(text[i]))
		default:
			out.WriteByte(text[i])
		}
	}
	return "", 0, errors.New("a quoted value has no end")
}
