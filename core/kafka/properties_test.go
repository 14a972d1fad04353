package kafka

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]string
	}{
		{"separators", "a=1\nb:2\nc 3\nd = 4\ne :5\nf\t=\t6 ", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6 "}},
		{"comments", "# x\n  ! y\n\n \t\na=1 # kept", map[string]string{"a": "1 # kept"}},
		{"no value", "a\nb=\nc:", map[string]string{"a": "", "b": "", "c": ""}},
		{"continued", "a=1,\\\n   2,\\\r\n\t3\nb=x\\\\\nc=y", map[string]string{"a": "1,2,3", "b": "x\\", "c": "y"}},
		{"continued comment", "# no \\\na=1", map[string]string{"a": "1"}},
		{"continued at the end", "a=1\\", map[string]string{"a": "1"}},
		{"escapes", `k\ e\:y\==\t\n\u00e9\uD83D\uDE00\q`, map[string]string{"k e:y=": "\t\né😀q"}},
		{"last wins", "a=1\na=2", map[string]string{"a": "2"}},
		{"endings", "a=1\rb=2\r\nc=3", map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"utf-8 with mark", "\ufeffa=ü", map[string]string{"a": "ü"}},
		{"value with separators", "a=b=c:d", map[string]string{"a": "b=c:d"}},
		{"only separator", "=v", map[string]string{"": "v"}},
	} {
		got, err := ParseProperties(strings.NewReader(c.text))
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	for _, text := range []string{`a=\u12`, `a=\uzzzz`, `a=\u+123`} {
		if _, err := ParseProperties(strings.NewReader("x=1\n" + text)); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add("a=1\\\n 2\nb:\\u00e9")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = ParseProperties(strings.NewReader(text)) })
}

func TestNearest(t *testing.T) {
	known := []string{"acks", "linger.ms", "batch.size", "compression.type"}
	for key, want := range map[string]string{
		"ack": "acks", "akcs": "acks", "linger.sm": "linger.ms", "linger": "", "batchsize": "batch.size", "compression": "", "x": "", "": "",
	} {
		if got := Nearest(key, known); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
	if got := Nearest(strings.Repeat("a", 1000), known); got != "" {
		t.Errorf("a long key: %q", got)
	}
}
