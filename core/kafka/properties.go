package kafka

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// ErrSyntax marks a .properties file that Java would not read.
var ErrSyntax = errors.New("malformed properties")

// maxPropertiesBytes bounds what ParseProperties reads.
const maxPropertiesBytes = 16 << 20

// ParseProperties reads a file in the format of java.util.Properties: "key=value",
// "key: value" or "key value", comments with # or !, a backslash at the end of a line
// continues it, escapes \t \n \r \f \uXXXX, any other escaped character stands for
// itself. The text is taken as UTF-8. The last of several equal keys wins, as in Java.
func ParseProperties(r io.Reader) (map[string]string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPropertiesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	if len(text) > maxPropertiesBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrSyntax, maxPropertiesBytes)
	}
	props := make(map[string]string)
	lines := physicalLines(strings.TrimPrefix(string(text), "\ufeff"))
	for i := 0; i < len(lines); {
		number := i + 1
		line := trimLeftBlank(lines[i])
		i++
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) {
			line = line[:len(line)-1]
			if i == len(lines) {
				break
			}
			line += trimLeftBlank(lines[i])
			i++
		}
		rawKey, rawValue := splitPair(line)
		key, err := unescape(rawKey)
		if err == nil {
			props[key], err = unescape(rawValue)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrSyntax, number, err)
		}
	}
	return props, nil
}

func physicalLines(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
}

func trimLeftBlank(s string) string { return strings.TrimLeft(s, " \t\f") }

// continues reports whether line ends in an odd number of backslashes.
func continues(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// splitPair cuts a logical line at the first unescaped separator.
func splitPair(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	rest := trimLeftBlank(line[end:])
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = trimLeftBlank(rest[1:])
	}
	return line[:end], rest
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out strings.Builder
	var surrogate rune
	flush := func() {
		if surrogate != 0 {
			out.WriteRune('\uFFFD')
			surrogate = 0
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			flush()
			if s[i] != '\\' {
				out.WriteByte(s[i])
			}
			continue
		}
		i++
		if s[i] != 'u' {
			flush()
			out.WriteByte(escaped(s[i]))
			continue
		}
		if i+5 > len(s) {
			return "", errors.New(`\u needs four hexadecimal digits`)
		}
		code, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
		if err != nil {
			return "", errors.New(`\u needs four hexadecimal digits`)
		}
		i += 4
		switch r := rune(code); {
		case surrogate != 0 && utf16.DecodeRune(surrogate, r) != '\uFFFD':
			out.WriteRune(utf16.DecodeRune(surrogate, r))
			surrogate = 0
		case r >= 0xD800 && r < 0xDC00:
			flush()
			surrogate = r
		default:
			flush()
			out.WriteRune(r)
		}
	}
	flush()
	return out.String(), nil
}

func escaped(c byte) byte {
	switch c {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 'f':
		return '\f'
	default:
		return c
	}
}
