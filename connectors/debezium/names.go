package debezium

import (
	"fmt"
	"strings"
)

const maxTopicBytes = 249 // as Kafka has it

// SanitizeTopic makes a legal topic name: other characters than letters, digits, '.', '_' and '-' become '_'.
func SanitizeTopic(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			b.WriteRune(r)
			continue
		}
		b.WriteByte('_')
	}
	s := b.String()
	switch {
	case s == ".":
		return "_"
	case s == "..":
		return "__"
	case len(s) > maxTopicBytes:
		return s[:maxTopicBytes]
	}
	return s
}

// Topic gives the topic of what the parts name: the prefix and they, with the delimiter between.
func (s *Common) Topic(parts ...string) string {
	return SanitizeTopic(strings.Join(append([]string{s.Prefix}, parts...), s.Delimiter))
}

// AdjustName makes a schema's or field's name fit for Avro, as the mode says.
func AdjustName(mode, name string) string {
	if mode != "avro" && mode != "avro_unicode" {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' && mode == "avro"
		digit := r >= '0' && r <= '9'
		switch {
		case letter, digit && i > 0, r == '.':
			b.WriteRune(r)
		case mode == "avro":
			b.WriteByte('_')
			if digit {
				b.WriteRune(r)
			}
		default:
			for _, u := range utf16Units(r) {
				fmt.Fprintf(&b, "_u%04x", u)
			}
		}
	}
	return b.String()
}

// AdjustFieldName is AdjustName for a field, whose name has no parts.
func AdjustFieldName(mode, name string) string {
	if mode != "avro" && mode != "avro_unicode" {
		return name
	}
	parts := strings.Split(AdjustName(mode, name), ".")
	if mode == "avro" {
		return strings.Join(parts, "_")
	}
	return strings.Join(parts, "_u002e")
}

func utf16Units(r rune) []uint16 {
	if r < 0x10000 {
		return []uint16{uint16(r)}
	}
	r -= 0x10000
	return []uint16{0xd800 + uint16(r>>10), 0xdc00 + uint16(r&0x3ff)}
}
