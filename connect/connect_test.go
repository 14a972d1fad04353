package connect

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// TestDecimal compares with what java.math.BigDecimal("…").setScale(s).unscaledValue().toByteArray() gives.
func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		text  string
		scale int
		bytes string
		shown string
	}{
		{"0", 0, "00", "0"},
		{"1", 0, "01", "1"},
		{"127", 0, "7f", "127"},
		{"128", 0, "0080", "128"},
		{"-1", 0, "ff", "-1"},
		{"-128", 0, "80", "-128"},
		{"-129", 0, "ff7f", "-129"},
		{"-256", 0, "ff00", "-256"},
		{"12.5", 2, "04e2", "12.50"},
		{"-0.05", 2, "fb", "-0.05"},
		{"+3.10", 2, "0136", "3.10"},
		{"123456789012345678901234567890", 0, "018ee90ff6c373e0ee4e3f0ad2", "123456789012345678901234567890"},
	} {
		b, err := DecimalText(c.text).Unscaled(c.scale)
		if err != nil || hex.EncodeToString(b) != c.bytes {
			t.Errorf("%s with scale %d: %x, %v; want %s", c.text, c.scale, b, err, c.bytes)
		}
		for _, v := range []Value{DecimalText(c.text), BytesValue(b)} {
			if s, err := v.Decimal(c.scale); err != nil || s != c.shown {
				t.Errorf("%s with scale %d as text: %q, %v; want %q", c.text, c.scale, s, err, c.shown)
			}
		}
		if c.scale == 0 && !DecimalText(c.text).Equal(BytesValue(b)) {
			t.Errorf("%s held as text and as bytes are not equal", c.text)
		}
	}
	for _, bad := range []string{"", "-", "1e5", "NaN", "1.2.3", "1-2", "0.001"} {
		if _, err := DecimalText(bad).Unscaled(2); err == nil {
			t.Errorf("%q with scale 2: no error", bad)
		}
	}
}

func TestNumbersHeldAsText(t *testing.T) {
	if v := NumberText(Int64, "-42"); v.Int() != -42 || v.Float() != -42 || !v.Equal(Int64Value(-42)) || v.Equal(Int64Value(42)) {
		t.Errorf("-42 as text reads %d, %g", v.Int(), v.Float())
	}
	if v := NumberText(Float64, "1.5e3"); v.Float() != 1500 || v.Int() != 1500 {
		t.Errorf("1.5e3 as text reads %g", v.Float())
	}
	if v := NumberText(Float64, "-Infinity"); !math.IsInf(v.Float(), -1) {
		t.Errorf("-Infinity reads %g", v.Float())
	}
	if s, ok := Int64Value(5).Text(); ok {
		t.Errorf("a plain number says it is held as text %q", s)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	b := []byte("abc")
	v := ArrayValue([]Value{BytesValue(b), StructValue([]Value{StringValue("x")})})
	c := v.Clone()
	b[0] = 'X'
	if got := c.Items()[0].Str(); got != "abc" {
		t.Errorf("the clone changed with its original: %q", got)
	}
}

func TestOffsetMap(t *testing.T) {
	text := `{"lsn_proc":24023136,"messageType":"INSERT","f":1.5,"done":true,"x":null,"a<b":"ü\n"}`
	m, err := ParseOffsetMap([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.String(); got != text {
		t.Errorf("written back as %s", got)
	}
	other, _ := ParseOffsetMap([]byte(`{"x":null,"a<b":"ü\n","f":1.5,"done":true,"messageType":"INSERT","lsn_proc":24023136}`))
	if !m.Equal(other) {
		t.Error("the order of entries changes the meaning")
	}
	if m.Equal(m.With("lsn_proc", Int64Value(1))) || !m.With("lsn_proc", Int32Value(24023136)).Equal(m) {
		t.Error("Equal does not compare integers by number")
	}
	if m.Get("lsn_proc").Int() != 24023136 || m.Has("y") || !m.Has("x") {
		t.Error("Get or Has is wrong")
	}
	if m, err := ParseOffsetMap([]byte("null")); m != nil || err != nil {
		t.Errorf("null reads %v, %v", m, err)
	}
	for _, bad := range []string{``, `[]`, `1`, `{"a":{}}`, `{"a":[1]}`, `{"a":1`, `{"a"`, `{1:2}`} {
		if _, err := ParseOffsetMap([]byte(bad)); !errors.Is(err, ErrNotFlat) {
			t.Errorf("%s: %v, want ErrNotFlat", bad, err)
		}
	}
}

func TestKindOf(t *testing.T) {
	live := context.Background()
	ended, cancel := context.WithCancel(live)
	cancel()
	cause := errors.New("cause")
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want ErrorKind
	}{
		{live, cause, KindOther},
		{live, fmt.Errorf("put: %w", Retry(time.Second, cause)), KindRetry},
		{live, BadRecord(3, cause), KindBadRecord},
		{live, BadConfig("topic", cause), KindBadConfig},
		{ended, Retry(0, cause), KindEnded},
	} {
		if got := KindOf(c.ctx, c.err); got != c.want {
			t.Errorf("%v: kind %d, want %d", c.err, got, c.want)
		}
		if !errors.Is(c.err, cause) {
			t.Errorf("%v lost its cause", c.err)
		}
	}
}

func TestParseConfig(t *testing.T) {
	one := int64(1)
	fields := []Field{
		{Name: "file", Type: TypeString, Required: true},
		{Name: "size", Type: TypeInt, Default: "2000", Min: &one},
		{Name: "mode", Type: TypeString, Default: "a", Valid: []string{"a", "b"}},
		{Name: "on", Type: TypeBool, Default: "true", Aliases: []string{"old.on"}},
		{Name: "list", Type: TypeList, Default: ""},
		{Name: "plugin", Type: TypeString, Default: "x", Refused: "only x works here"},
		{Name: "free.", Prefix: true},
	}
	s, results := ParseConfig(fields, Config{"file": "f", "old.on": "FALSE", "list": " a, b ,,c", "free.text": "1", "other": "2"})
	if err := FirstError(results); err != nil {
		t.Fatal(err)
	}
	if s.String("file") != "f" || s.Int("size") != 2000 || s.Bool("on") || !slices.Equal(s.List("list"), []string{"a", "b", "c"}) {
		t.Error("settings read wrong")
	}
	if u := Unknown(fields, Config{"free.text": "1", "old.on": "", "other": "2"}); !slices.Equal(u, []string{"other"}) {
		t.Errorf("unknown keys %v", u)
	}
	_, results = ParseConfig(fields, Config{"size": "0", "mode": "c", "on": "yes", "plugin": "y"})
	bad := map[string]bool{}
	for _, r := range results {
		bad[r.Name] = len(r.Errors) > 0
	}
	for _, name := range []string{"file", "size", "mode", "on", "plugin"} {
		if !bad[name] {
			t.Errorf("%s was not refused", name)
		}
	}
	if bad["list"] {
		t.Error("list was refused")
	}
}
