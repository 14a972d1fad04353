package value

import (
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"github.com/weirlog/weir/connectors/debezium"
)

// charset turns text of one of the server's character sets into UTF-8, with the same result as the server's own
// conversion; what has no character becomes "?", as there.
type charset struct {
	asciiLow bool // bytes below 0x80 are ASCII wherever they stand first
	// append appends the text as UTF-8; nil where the bytes are UTF-8 already.
	append func(out, raw []byte) []byte
}

// text gives the text as UTF-8; it may share raw.
func (c *charset) text(raw []byte, a *debezium.Arena) string {
	if c.append == nil || c.asciiLow && isASCII(raw) {
		return debezium.AsString(raw)
	}
	return a.KeepString(c.append(a.Scratch(3*len(raw)), raw))
}

func isASCII(b []byte) bool {
	for _, x := range b {
		if x >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// charsetOf gives a character set by the server's name; one that isn't known is taken for UTF-8.
func charsetOf(name string) *charset {
	name = strings.ToLower(name)
	if table := singleBytes(name); table != "" {
		return singleByte(table)
	}
	switch name {
	case "ascii":
		return &charset{asciiLow: true, append: appendASCII}
	case "utf16":
		return &charset{append: appendUTF16(1, 0)}
	case "ucs2":
		return &charset{append: appendUCS2}
	case "utf16le":
		return &charset{append: appendUTF16(0, 1)}
	case "utf32":
		return &charset{append: appendUTF32}
	case "gbk":
		return gbk()
	case "gb2312":
		return gb2312()
	case "gb18030":
		return gb18030()
	case "big5":
		return big5()
	case "sjis":
		return sjis()
	case "cp932":
		return cp932()
	case "ujis":
		return ujis()
	case "eucjpms":
		return eucjpms()
	case "euckr":
		return euckr()
	}
	return &charset{}
}

// singleByte makes the set of a table of 256 characters, or of the 128 above ASCII.
func singleByte(table string) *charset {
	var chars [256]string
	from := 0
	if utf8.RuneCountInString(table) == 128 {
		for ; from < 128; from++ {
			chars[from] = string(rune(from))
		}
	}
	c := &charset{asciiLow: from == 128}
	for i, r := range []rune(table) {
		chars[from+i] = string(r)
	}
	c.append = func(out, raw []byte) []byte {
		for _, b := range raw {
			out = append(out, chars[b]...)
		}
		return out
	}
	return c
}

// doubleByte is a set of ASCII, single bytes from 0x80 and codes of two bytes.
type doubleByte struct {
	single [128]rune
	double [1 << 15]rune // by code - 0x8000
	lead   [128]bool     // a byte from 0x80 that begins two
	long   encoding.Encoding
	// longer gives how many bytes a character of more than two has, 0 for none.
	longer func(raw []byte) int
}

// The sets of two bytes are made when first asked for, and are the same ever after.
var (
	gbk     = sync.OnceValue(func() *charset { return multiByte("gbk", simplifiedchinese.GBK, "\x81\xfe") })
	gb2312  = sync.OnceValue(func() *charset { return multiByte("gb2312", simplifiedchinese.GBK, "\xa1\xf7") })
	gb18030 = sync.OnceValue(func() *charset { return multiByte("gb18030", simplifiedchinese.GB18030, "\x81\xfe") })
	big5    = sync.OnceValue(func() *charset { return multiByte("big5", traditionalchinese.Big5, "\xa1\xf9") })
	sjis    = sync.OnceValue(func() *charset { return multiByte("sjis", japanese.ShiftJIS, "\x81\x9f\xe0\xfc") })
	cp932   = sync.OnceValue(func() *charset { return multiByte("cp932", japanese.ShiftJIS, "\x81\x9f\xe0\xfc") })
	ujis    = sync.OnceValue(func() *charset { return multiByte("ujis", japanese.EUCJP, "\x8e\x8e\xa1\xfe") })
	eucjpms = sync.OnceValue(func() *charset { return multiByte("eucjpms", japanese.EUCJP, "\x8e\x8e\xa1\xfe") })
	euckr   = sync.OnceValue(func() *charset { return multiByte("euckr", korean.EUCKR, "\x81\xfe") })
)

// multiByte makes a set from x/text and the server's differences; leads holds the ranges of bytes that begin a character
// of two.
func multiByte(name string, e encoding.Encoding, leads string) *charset {
	d := &doubleByte{long: e, longer: longerOf(name)}
	for i := 0; i < len(leads); i += 2 {
		for b := int(leads[i]); b <= int(leads[i+1]); b++ {
			d.lead[b-0x80] = true
		}
	}
	decoder := e.NewDecoder()
	one := func(raw ...byte) rune {
		text, err := decoder.Bytes(raw)
		if r, size := utf8.DecodeRune(text); err == nil && size == len(text) && r != utf8.RuneError {
			return r
		}
		return '?'
	}
	for i := range d.single {
		d.single[i] = one(byte(0x80 + i))
	}
	for i := range d.double {
		d.double[i] = '?'
		if high := 0x80 + i>>8; d.lead[i>>8] && byte(i) >= 0x30 {
			d.double[i] = one(byte(high), byte(i))
		}
	}
	for _, r := range runs(name) {
		for i := range r.count {
			to := r.to
			if !r.same {
				to += rune(i)
			}
			if code := r.code + i; code < 0x100 {
				d.single[code-0x80] = to
			} else {
				d.double[code-0x8000] = to
			}
		}
	}
	return &charset{asciiLow: true, append: d.append}
}

// longerOf tells which characters of a set have more than two bytes.
func longerOf(name string) func(raw []byte) int {
	switch name {
	case "ujis", "eucjpms":
		return func(raw []byte) int {
			if raw[0] == 0x8F && len(raw) >= 3 {
				return 3
			}
			return 0
		}
	case "gb18030":
		return func(raw []byte) int {
			if len(raw) >= 4 && raw[0] > 0x80 && raw[1] >= '0' && raw[1] <= '9' {
				return 4
			}
			return 0
		}
	}
	return nil
}

func (d *doubleByte) append(out, raw []byte) []byte {
	for len(raw) > 0 {
		b := raw[0]
		if b < 0x80 {
			out, raw = append(out, b), raw[1:]
			continue
		}
		if d.longer != nil {
			if n := d.longer(raw); n > 0 {
				out, raw = appendLong(out, d.long, raw[:n]), raw[n:]
				continue
			}
		}
		if d.lead[b-0x80] && len(raw) > 1 && raw[1] >= 0x30 {
			out = utf8.AppendRune(out, d.double[int(b-0x80)<<8|int(raw[1])])
			raw = raw[2:]
			continue
		}
		out, raw = utf8.AppendRune(out, d.single[b-0x80]), raw[1:]
	}
	return out
}

func appendLong(out []byte, e encoding.Encoding, raw []byte) []byte {
	text, err := e.NewDecoder().Bytes(raw)
	if r, _ := utf8.DecodeRune(text); err != nil || r == utf8.RuneError {
		return append(out, '?')
	}
	return append(out, text...)
}

// appendUTF16 reads UTF-16 whose low and high bytes stand at these places.
func appendUTF16(low, high int) func(out, raw []byte) []byte {
	return func(out, raw []byte) []byte {
		for ; len(raw) >= 2; raw = raw[2:] {
			r := rune(raw[high])<<8 | rune(raw[low])
			if r >= 0xD800 && r < 0xDC00 && len(raw) >= 4 {
				if second := rune(raw[2+high])<<8 | rune(raw[2+low]); second >= 0xDC00 && second < 0xE000 {
					r = 0x10000 + (r-0xD800)<<10 + second - 0xDC00
					raw = raw[2:]
				}
			}
			out = utf8.AppendRune(out, r)
		}
		return out
	}
}

// appendASCII has no character for bytes from 0x80.
func appendASCII(out, raw []byte) []byte {
	for _, b := range raw {
		if b >= utf8.RuneSelf {
			b = '?'
		}
		out = append(out, b)
	}
	return out
}

func appendUCS2(out, raw []byte) []byte {
	for ; len(raw) >= 2; raw = raw[2:] {
		out = utf8.AppendRune(out, rune(raw[0])<<8|rune(raw[1]))
	}
	return out
}

func appendUTF32(out, raw []byte) []byte {
	for ; len(raw) >= 4; raw = raw[4:] {
		out = utf8.AppendRune(out, rune(bigEndian(raw[:4])))
	}
	return out
}
