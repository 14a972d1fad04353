package schema

import (
	"strings"
	"testing"
)

// tokensOf writes tokens in one line: names in angle brackets, strings in quotes.
func tokensOf(text string, options lexer) string {
	var out []string
	for _, t := range lex(text, options) {
		switch t.kind {
		case nameToken:
			out = append(out, "<"+t.text+">")
		case stringToken:
			out = append(out, `"`+t.text+`"`)
		case bitsToken:
			out = append(out, "b:"+t.text)
		case hexToken:
			out = append(out, "x:"+t.text)
		case numberToken:
			out = append(out, "#"+t.text)
		case endToken:
		default:
			out = append(out, t.text)
		}
	}
	return strings.Join(out, " ")
}

func TestLex(t *testing.T) {
	maria, ansi, plain := lexer{mariadb: true}, lexer{ansiQuotes: true}, lexer{noBackslash: true}
	for _, test := range []struct {
		text    string
		options lexer
		want    string
	}{
		{"a `b``c` 'd''e' \"f\"", lexer{}, "a <b`c> \"d'e\" \"f\""},
		{`"a""b" 'c'`, ansi, `<a"b> "c"`},
		{`'a\'b\\c\n\0\%'`, lexer{}, "\"a'b\\c\n\x00\\%\""},
		{`'a\' b`, plain, `"a\" b`},
		{"b'101' 0b11 x'4D' X'4d' 0x4d N'x' bit xor", lexer{}, `b:101 b:11 x:4D x:4d x:4d "x" bit xor`},
		{"1 1.5 .5 1e3 1.5e-10 -2 1st 10x", lexer{}, "#1 #1.5 #.5 #1e3 #1.5e-10 - #2 1st 10x"},
		{"a.1st `a`.1st a . b", lexer{}, "a . 1st <a> . 1st a . b"},
		{"a /* x */ b -- c\nd # e\nf --g --", lexer{}, "a b d f - - g"},
		{"a; b", lexer{}, "a"},
		{"a /*!50100 b */ c /*! d */ /*M!100100 e */", lexer{}, "a b c d"},
		{"a /*!50100 b */ c /*!50701 d */ /*!80000 e */ /*!100100 f */ /*M!100100 g */ /*M! h */", maria, "a b c f g h"},
		{"a /*! b", lexer{}, "a b"},
		{"a /* b", lexer{}, "a"},
		{"'a", lexer{}, `"a"`},
		{"`a", lexer{}, "<a>"},
		{"ü _utf8mb4'x' $a", lexer{}, `ü _utf8mb4 "x" $a`},
	} {
		if got := tokensOf(test.text, test.options); got != test.want {
			t.Errorf("%q:\n\t%q\nnot\n\t%q", test.text, got, test.want)
		}
	}
}
