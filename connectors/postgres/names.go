package postgres

import (
	"fmt"
	"strings"
)

const maxTopicBytes = 249 // as Kafka has it

// sanitizeTopic makes a legal topic name: other characters than letters, digits, '.', '_' and '-' become '_'.
func sanitizeTopic(name string) string {
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

// topic gives a table's topic.
func (s *settings) topic(t tableName) string {
	return sanitizeTopic(s.prefix + s.delimiter + t.schema + s.delimiter + t.table)
}

// adjustName makes a schema's or field's name fit for Avro, as the mode says.
func adjustName(mode, name string) string {
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

// adjustFieldName is adjustName for a field, whose name has no parts.
func adjustFieldName(mode, name string) string {
	if mode != "avro" && mode != "avro_unicode" {
		return name
	}
	parts := strings.Split(adjustName(mode, name), ".")
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
