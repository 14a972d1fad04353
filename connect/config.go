package connect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config is a connector's or task's configuration as people write it: flat, all strings.
type Config map[string]string

// FieldType is the type of a configuration key, as Kafka's ConfigDef names them.
type FieldType string

// The types.
const (
	TypeBool     FieldType = "BOOLEAN"
	TypeString   FieldType = "STRING"
	TypeInt      FieldType = "INT"
	TypeShort    FieldType = "SHORT"
	TypeLong     FieldType = "LONG"
	TypeDouble   FieldType = "DOUBLE"
	TypeList     FieldType = "LIST"
	TypeClass    FieldType = "CLASS"
	TypePassword FieldType = "PASSWORD"
)

// Importance of a configuration key, as Kafka's ConfigDef names them.
type Importance string

// The importances.
const (
	High   Importance = "HIGH"
	Medium Importance = "MEDIUM"
	Low    Importance = "LOW"
)

// Field describes one configuration key; data only, so that it feeds validation, documentation and forms, and crosses
// process borders.
type Field struct {
	Name       string
	Type       FieldType
	Default    string // used when the key is absent
	NoDefault  bool   // absent means null (Kafka's default_value: null), not ""
	Required   bool   // absent is an error
	Doc        string
	Importance Importance
	Group      string
	Order      int    // within the group; 0: as listed
	Width      string // NONE, SHORT, MEDIUM, LONG; "" means NONE
	Display    string // display name; "" means Name
	Secret     bool   // never shown; TypePassword implies it
	Valid      []string
	Min, Max   *int64   // bounds of numbers, inclusive; nil for none
	Refused    string   // if set, any value but the default is refused for this reason
	Prefix     bool     // Name is a prefix: every key below it is known
	Aliases    []string // older names of the key
}

// FieldResult is what validation says of one key, in the shape of Kafka Connect's validate answer.
type FieldResult struct {
	Name        string
	Value       *string // nil: null
	Errors      []string
	Recommended []string
	Visible     bool
}

// Settings is a Config read through its fields: typed, with aliases and defaults. Make it with [ParseConfig].
type Settings struct {
	config Config
	fields map[string]*Field
}

// ParseConfig checks config against fields: types, bounds, allowed values, required keys and refusals. It returns the
// settings and one result per field, in the order of fields; the settings are usable when no result has errors.
// Keys that no field names are left to the caller: see [Unknown].
func ParseConfig(fields []Field, config Config) (*Settings, []FieldResult) {
	s := &Settings{config: config, fields: make(map[string]*Field, len(fields))}
	results := make([]FieldResult, 0, len(fields))
	for i := range fields {
		f := &fields[i]
		if f.Prefix {
			continue
		}
		s.fields[f.Name] = f
		r := FieldResult{Name: f.Name, Visible: true, Recommended: f.Valid}
		v, ok := s.lookup(f)
		switch {
		case ok:
			r.Value = &v
			if msg := f.check(v); msg != "" {
				r.Errors = append(r.Errors, msg)
			}
		case f.Required:
			r.Errors = append(r.Errors, fmt.Sprintf("Missing required configuration %q which has no default value.", f.Name))
		case !f.NoDefault:
			d := f.Default
			r.Value = &d
		}
		results = append(results, r)
	}
	return s, results
}

// Unknown lists the keys of config that no field names, in no order.
func Unknown(fields []Field, config Config) []string {
	known := make(map[string]bool, len(fields))
	var prefixes []string
	for i := range fields {
		if fields[i].Prefix {
			prefixes = append(prefixes, fields[i].Name)
			continue
		}
		known[fields[i].Name] = true
		for _, a := range fields[i].Aliases {
			known[a] = true
		}
	}
	var out []string
next:
	for k := range config {
		if known[k] {
			continue
		}
		for _, p := range prefixes {
			if strings.HasPrefix(k, p) {
				continue next
			}
		}
		out = append(out, k)
	}
	return out
}

// FirstError gives the first error of results as a BadConfig, or nil.
func FirstError(results []FieldResult) error {
	for _, r := range results {
		if len(r.Errors) > 0 {
			return BadConfig(r.Name, fmt.Errorf("%s", r.Errors[0]))
		}
	}
	return nil
}

func (f *Field) check(v string) string {
	if f.Refused != "" && v != f.Default {
		return fmt.Sprintf("Invalid value %s for configuration %s: %s", v, f.Name, f.Refused)
	}
	bad := func(what string) string {
		return fmt.Sprintf("Invalid value %s for configuration %s: %s", v, f.Name, what)
	}
	t := strings.TrimSpace(v)
	switch f.Type {
	case TypeBool:
		if !strings.EqualFold(t, "true") && !strings.EqualFold(t, "false") {
			return bad("Expected value to be either true or false")
		}
	case TypeInt, TypeShort, TypeLong:
		bits := map[FieldType]int{TypeShort: 16, TypeInt: 32, TypeLong: 64}[f.Type]
		n, err := strconv.ParseInt(t, 10, bits)
		switch {
		case err != nil:
			return bad("Not a number of type " + string(f.Type))
		case f.Min != nil && n < *f.Min:
			return bad("Value must be at least " + strconv.FormatInt(*f.Min, 10))
		case f.Max != nil && n > *f.Max:
			return bad("Value must be no more than " + strconv.FormatInt(*f.Max, 10))
		}
	case TypeDouble:
		if _, err := strconv.ParseFloat(t, 64); err != nil {
			return bad("Not a number of type DOUBLE")
		}
	case TypeString, TypeClass:
		if f.Required && t == "" {
			return bad("String must be non-empty")
		}
	}
	if len(f.Valid) > 0 && f.Type != TypeList {
		for _, ok := range f.Valid {
			if strings.EqualFold(ok, t) {
				return ""
			}
		}
		return bad("Value must be one of " + strings.Join(f.Valid, ", "))
	}
	return ""
}

func (s *Settings) lookup(f *Field) (string, bool) {
	if v, ok := s.config[f.Name]; ok {
		return v, true
	}
	for _, a := range f.Aliases {
		if v, ok := s.config[a]; ok {
			return v, true
		}
	}
	return "", false
}

// String gives a key's value or its default. It panics for a key that no field names: a fault of the connector's own.
func (s *Settings) String(name string) string {
	f := s.fields[name]
	if f == nil {
		panic("connect: no field named " + name)
	}
	if v, ok := s.lookup(f); ok {
		if f.Type != TypePassword && f.Type != TypeString {
			v = strings.TrimSpace(v)
		}
		return v
	}
	return f.Default
}

// Has reports whether the key was given.
func (s *Settings) Has(name string) bool {
	f := s.fields[name]
	if f == nil {
		return false
	}
	_, ok := s.lookup(f)
	return ok
}

// Int gives a whole number (0 where the text is none, which validation has refused).
func (s *Settings) Int(name string) int64 {
	n, _ := strconv.ParseInt(s.String(name), 10, 64)
	return n
}

// Bool gives a boolean.
func (s *Settings) Bool(name string) bool { return strings.EqualFold(s.String(name), "true") }

// Float gives a floating-point number.
func (s *Settings) Float(name string) float64 {
	f, _ := strconv.ParseFloat(s.String(name), 64)
	return f
}

// Millis gives a key in milliseconds as a duration.
func (s *Settings) Millis(name string) time.Duration {
	return time.Duration(s.Int(name)) * time.Millisecond
}

// List gives a comma-separated list, each item trimmed; an empty text is an empty list.
func (s *Settings) List(name string) []string {
	var out []string
	for item := range strings.SplitSeq(s.String(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
