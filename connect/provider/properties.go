package provider

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// parseProperties reads the text of a Java .properties file: comments with # and !, = or : or white space after a key,
// lines that go on after a backslash, and escapes. Of equal keys the last counts. A malformed escape stands for its
// character; no text is refused.
func parseProperties(text string) map[string]string {
	values := map[string]string{}
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for goesOn(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		if goesOn(line) {
			line = line[:len(line)-1]
		}
		key, value := splitProperty(line)
		values[unescape(key)] = unescape(value)
	}
	return values
}

// goesOn reports whether a line ends with an odd number of backslashes.
func goesOn(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

func splitProperty(line string) (key, value string) {
	i := 0
	for i < len(line) && !strings.ContainsRune("=: \t\f", rune(line[i])) {
		if line[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(line))
	key, value = line[:i], strings.TrimLeft(line[i:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	var units []uint16
	flush := func() {
		out.WriteString(string(utf16.Decode(units)))
		units = units[:0]
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			flush()
			out.WriteByte(s[i])
			continue
		}
		i++
		if s[i] == 'u' && i+4 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil {
				units = append(units, uint16(n))
				i += 4
				continue
			}
		}
		flush()
		if at := strings.IndexByte("tnrf", s[i]); at >= 0 {
			out.WriteByte("\t\n\r\f"[at])
		} else {
			out.WriteByte(s[i])
		}
	}
	flush()
	return out.String()
}
