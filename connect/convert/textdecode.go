package convert

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decode gives text of the character set as UTF-8; what it does not have becomes U+FFFD.
func (c charset) decode(b []byte) string {
	switch c {
	case utf8Charset:
		return strings.ToValidUTF8(string(b), "\uFFFD")
	case asciiCharset, latinCharset:
		out := make([]byte, 0, len(b))
		for _, x := range b {
			r := rune(x)
			if c == asciiCharset && x >= utf8.RuneSelf {
				r = utf8.RuneError
			}
			out = utf8.AppendRune(out, r)
		}
		return string(out)
	}
	little := c == utf16LE
	if c == utf16Charset && len(b) >= 2 {
		switch {
		case b[0] == 0xFE && b[1] == 0xFF:
			b = b[2:]
		case b[0] == 0xFF && b[1] == 0xFE:
			b, little = b[2:], true
		}
	}
	units := make([]uint16, 0, len(b)/2+1)
	for ; len(b) >= 2; b = b[2:] {
		u := uint16(b[0])<<8 | uint16(b[1])
		if little {
			u = u<<8 | u>>8
		}
		units = append(units, u)
	}
	if len(b) == 1 {
		units = append(units, utf8.RuneError)
	}
	return string(utf16.Decode(units))
}
