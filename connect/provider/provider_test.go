package provider

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/ok/db.properties", "user=weir\npassword = s3:cret\\u0021\nnested=${env:WEIR_TEST_USER}\n")
	write(t, dir+"/ok/keys/token", "abc\n")
	write(t, dir+"/no/db.properties", "user=forbidden\n")
	if err := os.Symlink(dir+"/no/db.properties", dir+"/ok/link.properties"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/no/db.properties", dir+"/ok/keys/link"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_TEST_USER", "ann")
	t.Setenv("WEIR_SECRET", "hidden")
	r, err := New(map[string]string{
		"config.providers":                             "env, file,dir",
		"config.providers.env.class":                   "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
		"config.providers.env.param.allowlist.pattern": "WEIR_TEST_.*",
		"config.providers.file.class":                  "FileConfigProvider",
		"config.providers.file.param.allowed.paths":    dir + "/ok",
		"config.providers.dir.class":                   "directory",
		"config.providers.dir.param.allowed.paths":     dir + "/ok," + dir + "/other",
	})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][2]string{
		"plain":     {"no reference", "no reference"},
		"env":       {"${env:WEIR_TEST_USER}", "ann"},
		"several":   {"a-${env:WEIR_TEST_USER}-${file:" + dir + "/ok/db.properties:user}-z", "a-ann-weir-z"},
		"colons":    {"${file:" + dir + "/ok/db.properties:password}", "s3:cret!"},
		"nested":    {"${file:" + dir + "/ok/db.properties:nested}", "${env:WEIR_TEST_USER}"},
		"directory": {"${dir:" + dir + "/ok/keys:token}", "abc\n"},
		"hidden":    {"${env:WEIR_SECRET}", "${env:WEIR_SECRET}"},
		"nokey":     {"${file:" + dir + "/ok/db.properties:none}", "${file:" + dir + "/ok/db.properties:none}"},
		"denied":    {"${file:" + dir + "/no/db.properties:user}", "${file:" + dir + "/no/db.properties:user}"},
		"dots":      {"${file:" + dir + "/ok/../no/db.properties:user}", "${file:" + dir + "/ok/../no/db.properties:user}"},
		"link":      {"${file:" + dir + "/ok/link.properties:user}", "${file:" + dir + "/ok/link.properties:user}"},
		"dirlink":   {"${dir:" + dir + "/ok/keys:link}", "${dir:" + dir + "/ok/keys:link}"},
		"nodir":     {"${dir:" + dir + "/ok/none:token}", "${dir:" + dir + "/ok/none:token}"},
		"unknown":   {"${vault:a:b}", "${vault:a:b}"},
		"inline":    {"${inline}${topic}-${env:WEIR_TEST_USER}${", "${inline}${topic}-ann${"},
		"within":    {"${x${env:WEIR_TEST_USER}", "${x${env:WEIR_TEST_USER}"},
	}
	in, want := map[string]string{}, map[string]string{}
	secret := map[string]bool{"env": true, "several": true, "colons": true, "nested": true, "directory": true, "inline": true}
	for k, c := range cases {
		in[k], want[k] = c[0], c[1]
	}
	got, refs, err := r.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	for k := range want {
		if got[k] != want[k] {
			t.Errorf("%s: %q gave %q, want %q", k, in[k], got[k], want[k])
		}
	}
	if !maps.Equal(refs, secret) {
		t.Errorf("secret are %v, want %v", refs, secret)
	}
}

func TestFaults(t *testing.T) {
	_, err := New(map[string]string{"config.providers": "a,b,c", "config.providers.a.class": "com.example.Vault",
		"config.providers.c.class": "env", "config.providers.c.param.allowlist.pattern": "("})
	if !errors.Is(err, ErrUnknownClass) || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "providers.b.class") {
		t.Errorf("three faults gave %v", err)
	}
	dir := t.TempDir()
	write(t, dir+"/large", strings.Repeat("x", maxFileBytes+1))
	r, err := New(map[string]string{"config.providers": "f,e", "config.providers.f.class": "file", "config.providers.e.class": "env"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"${f:" + dir + "/none:k}", "${f:" + dir + "/large:k}", "${e:path:k}"} {
		if _, _, err := r.Resolve(map[string]string{"key": ref}); err == nil || !strings.Contains(err.Error(), "key: ${") {
			t.Errorf("%s gave %v", ref, err)
		}
	}
}

func TestResolverWithoutProviders(t *testing.T) {
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, refs, err := r.Resolve(map[string]string{"a": "${env:HOME}"})
	if err != nil || got["a"] != "${env:HOME}" || len(refs) != 0 {
		t.Errorf("%v %v %v", got, refs, err)
	}
}

func TestParseProperties(t *testing.T) {
	text := "# c\n! c\r\n  a = 1 \nb:2\nc 3\nd\ne=x\\\n   y\\\\\nf\\ g=\\t\\u00e9\\ud83d\\ude00\\q\n=empty\nh=a=b:c\ni=\\\n\\uZZ=1\nlast=\\"
	want := map[string]string{"a": "1 ", "b": "2", "c": "3", "d": "", "e": `xy\`, "f g": "\té😀q", "": "empty", "h": "a=b:c", "i": "uZZ=1", "last": ""}
	if got := parseProperties(text); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add("a=\\u00")
	f.Add("\\")
	f.Fuzz(func(_ *testing.T, s string) { parseProperties(s) })
}
