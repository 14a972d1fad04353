package convert

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlog/weir/connect"
)

const upperHex = "0123456789ABCDEF"

// appendQuoted appends s as a JSON string in the way of Jackson's UTF-8 writer: short escapes, other control characters
// as \u00XX in upper case, characters beyond the basic plane as a pair of escapes, no other escapes. What is not UTF-8
// becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), "\uFFFD"...)
			start = i + 1
		case r > 0xFFFF:
			dst = append(dst, s[start:i]...)
			r -= 0x10000
			dst = appendUnicode(dst, 0xD800|uint16(r>>10))
			dst = appendUnicode(dst, 0xDC00|uint16(r&0x3FF))
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return appendUnicode(dst, uint16(c))
}

func appendUnicode(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', upperHex[u>>12], upperHex[u>>8&15], upperHex[u>>4&15], upperHex[u&15])
}

// appendFloat appends a float as Java's Double.toString and Float.toString do (of the JDKs since 19, which give the
// shortest text): "1.0", "1.0E7", "NaN", "-Infinity". bits is 32 or 64.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	abs := math.Abs(f)
	start := len(dst)
	if abs == 0 || abs >= 1e-3 && abs < 1e7 {
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, '.', '0')
		}
		return dst
	}
	var scratch, room [32]byte
	text := strconv.AppendFloat(scratch[:0], f, 'e', -1, bits)
	e := bytes.IndexByte(text, 'e')
	if bytes.IndexByte(text[:e], '.') < 0 {
		// Java gives two digits at least, the nearest two: 4.9E-324 where the shortest text is 5E-324.
		two := strconv.AppendFloat(room[:0], f, 'e', 1, bits)
		if g, _ := strconv.ParseFloat(string(two), bits); g == f {
			text, e = two, bytes.IndexByte(two, 'e')
		}
	}
	dst = append(dst, text[:e]...)
	if bytes.IndexByte(text[:e], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	dst = append(dst, 'E')
	exp := text[e+1:]
	if exp[0] == '-' {
		dst = append(dst, '-')
	}
	exp = bytes.TrimLeft(exp[1:], "0")
	return append(dst, exp...)
}

// isJavaFloat reports whether a float's text is surely what Java would write: a plain decimal between 0.001 and 10^7 of so
// few digits that no shorter text names the same float.
func isJavaFloat(text string, k connect.Kind) bool {
	whole, fraction, ok := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	maxDigits := 15
	if k == connect.Float32 {
		maxDigits = 6
	}
	if !ok || whole == "" || fraction == "" || len(whole) > 7 || len(whole)+len(fraction) > maxDigits {
		return false
	}
	for i := range len(whole) {
		if whole[i] < '0' || whole[i] > '9' {
			return false
		}
	}
	for i := range len(fraction) {
		if fraction[i] < '0' || fraction[i] > '9' {
			return false
		}
	}
	if whole[0] == '0' && (len(whole) > 1 || strings.HasPrefix(fraction, "000") || fraction == "0" || fraction == "00") {
		return false
	}
	return fraction == "0" || fraction[len(fraction)-1] != '0'
}

// isFinite reports whether a float's text is a JSON number.
func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// floatBits gives the width of a float kind.
func floatBits(k connect.Kind) int {
	if k == connect.Float32 {
		return 32
	}
	return 64
}

// unscaledDigits gives a decimal's unscaled number as its sign and digits without leading zeros ("0" for zero), in scratch
// where that is large enough.
func unscaledDigits(scratch []byte, v connect.Value, scale int) (negative bool, digits []byte, err error) {
	text, isText := v.Text()
	if !isText {
		b := v.Bytes()
		if len(b) <= 8 {
			n := int64FromTwos(b)
			if n < 0 {
				return true, strconv.AppendUint(scratch[:0], -uint64(n), 10), nil
			}
			return false, strconv.AppendInt(scratch[:0], n, 10), nil
		}
		n := new(big.Int).SetBytes(b)
		if b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
		}
		negative = n.Sign() < 0
		return negative, n.Abs(n).Append(scratch[:0], 10), nil
	}
	digits = scratch[:0]
	fraction, point := 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '-' && i == 0:
			negative = true
		case c == '+' && i == 0:
		case c == '.' && !point:
			point = true
		case c >= '0' && c <= '9':
			if point {
				fraction++
			}
			if len(digits) > 0 || c != '0' {
				digits = append(digits, c)
			}
		default:
			return false, nil, dataErrorf("%q is not a decimal", text)
		}
	}
	if fraction > scale {
		return false, nil, dataErrorf("decimal %q has more than %d fraction digits", text, scale)
	}
	if len(digits) == 0 {
		return false, append(digits, '0'), nil
	}
	for ; fraction < scale; fraction++ {
		digits = append(digits, '0')
	}
	return negative, digits, nil
}

// appendDecimal appends a decimal as java.math.BigDecimal.toString does: with an exponent when it is smaller than 1e-6.
func appendDecimal(dst []byte, v connect.Value, scale int) ([]byte, error) {
	var scratch [48]byte
	negative, digits, err := unscaledDigits(scratch[:], v, max(scale, 0))
	if err != nil {
		return dst, err
	}
	if negative {
		dst = append(dst, '-')
	}
	if scale == 0 {
		return append(dst, digits...), nil
	}
	adjusted := len(digits) - 1 - scale
	switch {
	case scale < 0 || adjusted < -6:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		if adjusted != 0 {
			dst = append(dst, 'E')
			if adjusted > 0 {
				dst = append(dst, '+')
			}
			dst = strconv.AppendInt(dst, int64(adjusted), 10)
		}
		return dst, nil
	case len(digits) > scale:
		dst = append(append(dst, digits[:len(digits)-scale]...), '.')
		return append(dst, digits[len(digits)-scale:]...), nil
	}
	dst = append(dst, '0', '.')
	for i := len(digits); i < scale; i++ {
		dst = append(dst, '0')
	}
	return append(dst, digits...), nil
}

// unscaledBytes gives a decimal's unscaled number as the shortest big-endian two's complement, in scratch if it fits.
func unscaledBytes(scratch *[8]byte, v connect.Value, scale int) ([]byte, error) {
	if _, isText := v.Text(); !isText {
		return v.Bytes(), nil
	}
	var room [48]byte
	negative, digits, err := unscaledDigits(room[:], v, scale)
	if err != nil {
		return nil, err
	}
	if len(digits) > 18 {
		b, err := v.Unscaled(scale)
		if err != nil {
			return nil, dataErrorf("%v", err)
		}
		return b, nil
	}
	n := int64(0)
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	for i := range scratch {
		scratch[i] = byte(n >> (56 - 8*i))
	}
	b := scratch[:]
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xFF && b[1] >= 0x80) {
		b = b[1:]
	}
	return b, nil
}

func int64FromTwos(b []byte) int64 {
	n := int64(0)
	if len(b) > 0 && b[0] >= 0x80 {
		n = -1
	}
	for _, c := range b {
		n = n<<8 | int64(c)
	}
	return n
}
