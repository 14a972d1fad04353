package connectors

import (
	"testing"

	"github.com/weirlog/weir/connect"
)

// TestNamesAreDistinct: the worker finds a connector by any of its names, so no two may share one.
func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, c := range All() {
		if (c.Source == nil) == (c.Sink == nil) {
			t.Errorf("%s is neither a source nor a sink, or both", c.Name)
		}
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			if other, ok := seen[name]; ok {
				t.Errorf("%s and %s both answer to %s", other, c.Name, name)
			}
			seen[name] = c.Name
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d names", len(seen))
	}
}

// TestFieldsAreWellFormed: defaults pass their own checks, and nothing is named twice.
func TestFieldsAreWellFormed(t *testing.T) {
	for _, c := range All() {
		names := map[string]bool{}
		config := connect.Config{}
		for _, f := range c.Fields {
			if names[f.Name] {
				t.Errorf("%s: %s is listed twice", c.Name, f.Name)
			}
			names[f.Name] = true
			if !f.Required && !f.NoDefault && !f.Prefix && f.Default != "" {
				config[f.Name] = f.Default
			}
		}
		_, results := connect.ParseConfig(c.Fields, config)
		for _, r := range results {
			if _, given := config[r.Name]; given && len(r.Errors) > 0 {
				t.Errorf("%s: the default of %s is refused: %v", c.Name, r.Name, r.Errors)
			}
		}
	}
}
