package value

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

func compile(t *testing.T, column schema.Column, wire Wire, modes Modes) *Codec {
	t.Helper()
	column.Name = "c"
	c, err := Compile(&column, wire, modes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bytesOf reads hex with blanks.
func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestForms decodes what no recorded server gives: the times of servers before MySQL 5.6.4, and odd lengths.
func TestForms(t *testing.T) {
	length := func(k schema.Kind, n int) schema.Column { return schema.Column{Kind: k, Length: n, HasLength: true} }
	decimal := schema.Column{Kind: schema.Decimal, Length: 5, Scale: 2, HasLength: true, HasScale: true}
	for _, c := range []struct {
		name   string
		column schema.Column
		wire   Wire
		data   string
		want   string
	}{
		{"old TIME", length(schema.Time, 0), Wire{Type: typeTime}, "40e201", "45296000000"},   // 123456
		{"old TIME", length(schema.Time, 0), Wire{Type: typeTime}, "c01dfe", "-45296000000"},  // -123456
		{"old TIME", length(schema.Time, 0), Wire{Type: typeTime}, "a7f57f", "3020399000000"}, // 8385959
		{"old DATETIME", length(schema.DateTime, 0), Wire{Type: typeDateTime}, "80c5aa8b68120000", "1709210096000"},
		{"old DATETIME", length(schema.DateTime, 0), Wire{Type: typeDateTime}, "0000000000000000", "null"},
		{"old TIMESTAMP", length(schema.Timestamp, 0), Wire{Type: typeTimestamp}, "f079e065", `"2024-02-29T12:34:56Z"`},
		{"old TIMESTAMP", length(schema.Timestamp, 0), Wire{Type: typeTimestamp}, "00000000", "null"},
		{"a negative zero", decimal, Wire{Type: typeNewDecimal, Meta: 5<<8 | 2}, "7fffff", "0.00"},
		{"rows of a larger scale than is known", decimal, Wire{Type: typeNewDecimal, Meta: 6<<8 | 4}, "8104d2", "1.1234"},
		{"DECIMAL(1,1)", schema.Column{Kind: schema.Decimal, Length: 1, Scale: 1, HasLength: true, HasScale: true}, Wire{Type: typeNewDecimal, Meta: 1<<8 | 1}, "85", "0.5"},
		{"an ENUM of two bytes", schema.Column{Kind: schema.Enum, EnumValues: []string{"a", "b"}}, Wire{Type: typeString, Meta: 0xF702}, "0200", `"b"`},
		{"a CHAR of more than 255 bytes", schema.Column{Kind: schema.Char}, Wire{Type: typeString, Meta: 0xEEFC}, "0200 6162", `"ab"`},
	} {
		c.column.Optional = true
		codec := compile(t, c.column, c.wire, Modes{})
		var a debezium.Arena
		v, rest, err := codec.Binlog(bytesOf(t, c.data), &a)
		if err != nil || len(rest) != 0 || v.String() != c.want {
			t.Errorf("%s: %v, %d bytes left, %v, want %s", c.name, v, len(rest), err, c.want)
		}
		if text, isDecimal := v.Text(); isDecimal {
			if _, fraction, _ := strings.Cut(text, "."); codec.Schema.Param("scale") < strconv.Itoa(len(fraction)) {
				t.Errorf("%s: %s under a schema of the scale %s", c.name, text, codec.Schema.Param("scale"))
			}
		}
	}
}

func TestYearsOfTwoDigits(t *testing.T) {
	column := schema.Column{Kind: schema.Date}
	for _, c := range []struct {
		text   string
		adjust bool
		want   string
	}{
		{"0000-01-01", true, "2000"}, {"0069-12-31", true, "2069"}, {"0070-01-01", true, "1970"}, {"0099-12-31", true, "1999"}, {"0100-01-01", true, "0100"},
		{"0069-12-31", false, "0069"}, {"0070-01-01", false, "0070"},
	} {
		codec := compile(t, column, Wire{}, Modes{Time: "isostring", TimeAdjuster: c.adjust})
		var a debezium.Arena
		if v, err := codec.Text([]byte(c.text), &a); err != nil || !strings.HasPrefix(v.Str(), c.want) {
			t.Errorf("%s (adjusted: %v) is %v, %v", c.text, c.adjust, v, err)
		}
	}
}

// TestNotOfThisStructure: what contradicts the structure is an error, not a value.
func TestNotOfThisStructure(t *testing.T) {
	for _, c := range []struct {
		column schema.Column
		wire   Wire
		data   string
	}{
		{schema.Column{Kind: schema.Int}, Wire{Type: typeLongLong}, ""},
		{schema.Column{Kind: schema.VarChar}, Wire{Type: typeLong}, ""},
		{schema.Column{Kind: schema.Int}, Wire{Type: 77}, ""},
		{schema.Column{Kind: schema.Unknown}, Wire{}, ""},
		{schema.Column{Kind: schema.Decimal}, Wire{Type: typeNewDecimal, Meta: 5<<8 | 6}, ""},
		{schema.Column{Kind: schema.Enum, EnumValues: []string{"a"}}, Wire{Type: typeString, Meta: 0xF701}, "02"},
		{schema.Column{Kind: schema.Set, EnumValues: []string{"a", "b"}}, Wire{Type: typeString, Meta: 0xF801}, "04"},
		{schema.Column{Kind: schema.VarChar}, Wire{Type: typeVarchar, Meta: 10}, "0561"},
		{schema.Column{Kind: schema.Point}, Wire{Type: typeGeometry, Meta: 4}, "04000000 00000000"},
		{schema.Column{Kind: schema.Vector}, Wire{Type: typeVector, Meta: 4}, "03000000 000000"},
	} {
		c.column.Name = "c"
		codec, err := Compile(&c.column, c.wire, Modes{})
		if err == nil && c.data != "" {
			var a debezium.Arena
			_, _, err = codec.Binlog(bytesOf(t, c.data), &a)
		}
		if err == nil || !strings.Contains(err.Error(), "column c") {
			t.Errorf("%v of the type %d: %v", c.column.Kind, c.wire.Type, err)
		}
	}
}

func TestRoundDecimal(t *testing.T) {
	for _, c := range []struct {
		text  string
		scale int
		want  string
	}{
		{"0", 0, "0"}, {"1.5", 0, "2"}, {"-1.5", 0, "-2"}, {"1.4", 0, "1"}, {"9.995", 2, "10.00"}, {"0.005", 2, "0.01"}, {"-0.004", 2, "0.00"}, {"+7", 1, "7.0"},
		{".5", 1, "0.5"}, {"007", 0, "7"}, {"99", 0, "99"}, {"x", 0, ""}, {"1e3", 0, ""}, {"--1", 0, ""}, {"", 0, "0"},
	} {
		got, ok := roundDecimal(c.text, c.scale)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q to %d digits is %q, %v, want %q", c.text, c.scale, got, ok, c.want)
		}
	}
}

// jsonOf is a small array that holds, for each of n items, the value at the same place.
func sharedArray(n int, inner []byte) []byte {
	size := 4 + 3*n + len(inner)
	out := binary.LittleEndian.AppendUint16(nil, uint16(n))
	out = binary.LittleEndian.AppendUint16(out, uint16(size))
	for range n {
		out = append(out, jsonSmallArray)
		out = binary.LittleEndian.AppendUint16(out, uint16(4+3*n))
	}
	return append(out, inner...)
}

// TestJSONThatSharesValues: a few bytes that would be a text of gigabytes are an error.
func TestJSONThatSharesValues(t *testing.T) {
	doc := []byte{0, 0, 4, 0}
	for range 60 {
		doc = sharedArray(8, doc)
	}
	var a debezium.Arena
	doc = append([]byte{jsonSmallArray}, doc...)
	if _, err := jsonText(doc, &a); err == nil {
		t.Error("a document whose values share bytes was printed")
	}
	if _, err := patched(doc, nil, &a); err == nil {
		t.Error("a document whose values share bytes was patched")
	}
}

// diff makes one of a diff vector.
func diff(operation byte, path string, value ...byte) []byte {
	out := append([]byte{operation, byte(len(path))}, path...)
	if operation != jsonRemove {
		out = append(append(out, byte(len(value))), value...)
	}
	return out
}

func TestPatches(t *testing.T) {
	// [1, 2] and {"a": 1}
	list := bytesOf(t, "02 0200 0a00 05 0100 05 0200")
	object := bytesOf(t, "00 0100 0c00 0b00 0100 05 0100 61")
	seven := []byte{jsonInt16, 7, 0}
	for _, c := range []struct {
		doc, diffs []byte
		want       string
	}{
		{list, diff(jsonReplace, "$[0]", seven...), "[7, 2]"},
		{list, diff(jsonInsert, "$[0]", seven...), "[7, 1, 2]"},
		{list, diff(jsonInsert, "$[9]", seven...), "[1, 2, 7]"},
		{list, diff(jsonRemove, "$[1]"), "[1]"},
		{list, diff(jsonReplace, "$", seven...), "7"},
		{list, nil, "[1, 2]"},
		{object, diff(jsonInsert, "$.b", seven...), `{"a": 1, "b": 7}`},
		{object, diff(jsonInsert, `$."\u00e9"`, seven...), `{"a": 1, "é": 7}`},
		{object, diff(jsonReplace, "$.a[0]", seven...), `{"a": 7}`},
		{object, append(diff(jsonRemove, "$.a"), diff(jsonInsert, "$.x", seven...)...), `{"x": 7}`},
		{object, diff(jsonReplace, "$.b", seven...), ""},
		{object, diff(jsonInsert, "$.a", seven...), ""},
		{object, diff(jsonRemove, "$"), ""},
		{object, diff(jsonRemove, "a"), ""},
		{object, diff(jsonRemove, "$.a.b.c"), ""},
		{object, diff(9, "$.a", seven...), ""},
		{object, []byte{jsonReplace, 200, '$'}, ""},
		{nil, diff(jsonReplace, "$.a", seven...), ""},
	} {
		var a debezium.Arena
		v, err := patched(c.doc, c.diffs, &a)
		if v.Str() != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q with %q is %s, %v, want %s", c.doc, c.diffs, v, err, c.want)
		}
	}
}
