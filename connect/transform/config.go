package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
)

// New makes the chain that config describes: transforms, transforms.X.type and the keys below, predicates likewise.
// The results name full keys (transforms.X.…); the chain is usable when none of them has errors, and nil otherwise.
// A configuration without transforms gives an empty chain.
func New(config connect.Config) (*Chain, []connect.FieldResult) {
	b := &builder{config: config, table: classes(), predicates: map[string]testFunc{}}
	for _, name := range b.names("predicates") {
		b.predicate(name)
	}
	for _, name := range b.names("transforms") {
		b.transform(name)
	}
	for i := range b.results {
		if len(b.results[i].Errors) > 0 {
			return nil, b.results
		}
	}
	return &b.chain, b.results
}

// Fields lists the keys that config's transforms and predicates have, under their full names, with transforms and
// predicates themselves: what a connector's own fields are extended by.
func Fields(config connect.Config) []connect.Field {
	out := []connect.Field{
		{Name: "transforms", Type: connect.TypeList, Importance: connect.Low, Group: "Transforms", Doc: "Names of the transforms, in the order in which they are applied."},
		{Name: "predicates", Type: connect.TypeList, Importance: connect.Low, Group: "Predicates", Doc: "Names of the predicates that transforms may use."},
	}
	table := classes()
	for _, kind := range []struct {
		list, group string
		kind        Kind
	}{{"transforms", "Transforms: ", KindTransform}, {"predicates", "Predicates: ", KindPredicate}} {
		for _, name := range list(config[kind.list]) {
			prefix := kind.list + "." + name + "."
			fields := commonFields(kind.kind)
			if c := find(table, kind.kind, config[prefix+"type"]); c != nil {
				fields = append(fields, c.info.Fields...)
			}
			for _, f := range fields {
				f.Group = kind.group + name
				f.Aliases = slices.Clone(f.Aliases)
				for i := range f.Aliases {
					f.Aliases[i] = prefix + f.Aliases[i]
				}
				f.Name = prefix + f.Name
				out = append(out, f)
			}
		}
	}
	return out
}

// Classes lists every transform and predicate.
func Classes() []ClassInfo {
	var out []ClassInfo
	for _, c := range classes() {
		out = append(out, c.info)
	}
	return out
}

// commonFields are the keys that every transform or predicate has beside its own.
func commonFields(k Kind) []connect.Field {
	out := []connect.Field{
		{Name: "type", Type: connect.TypeClass, Required: true, Importance: connect.High, Doc: "The class of the " + string(k) + "."},
		{Name: "plugin.version", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Doc: "Accepted and left aside: there is one version of each " + string(k) + "."},
	}
	if k == KindTransform {
		out = append(out,
			connect.Field{Name: "predicate", Type: connect.TypeString, Importance: connect.Medium, Doc: "The predicate that says which records this transform is applied to."},
			connect.Field{Name: "negate", Type: connect.TypeBool, Default: "false", Importance: connect.Medium, Doc: "Apply the transform to the records that the predicate does not match."})
	}
	return out
}

// builder reads a configuration.
type builder struct {
	config     connect.Config
	table      []class
	chain      Chain
	predicates map[string]testFunc
	results    []connect.FieldResult
}

func list(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// names gives the names that a list key holds, each once.
func (b *builder) names(key string) []string {
	text, given := b.config[key]
	if !given {
		return nil
	}
	r := connect.FieldResult{Name: key, Value: &text, Visible: true}
	var out []string
	seen := map[string]bool{}
	for _, name := range list(text) {
		if seen[name] {
			r.Errors = append(r.Errors, fmt.Sprintf("Invalid value %s for configuration %s: the name %s stands twice", text, key, name))
			continue
		}
		seen[name] = true
		out = append(out, name)
	}
	b.results = append(b.results, r)
	return out
}

// settings reads one transform's or predicate's keys; nil when something is wrong.
func (b *builder) settings(prefix string, kind Kind) (*class, *connect.Settings) {
	own := connect.Config{}
	for k, v := range b.config {
		if key, ok := strings.CutPrefix(k, prefix); ok {
			own[key] = v
		}
	}
	fields := commonFields(kind)
	c := find(b.table, kind, own["type"])
	if c != nil {
		fields = append(fields, c.info.Fields...)
	}
	s, results := connect.ParseConfig(fields, own)
	ok := c != nil
	if c == nil && own["type"] != "" {
		results[0].Errors = append(results[0].Errors, fmt.Sprintf("Invalid value %s for configuration %stype: no %s has this class", own["type"], prefix, kind))
	}
	for _, r := range results {
		for i, text := range r.Errors { // the key as the user has to write it
			r.Errors[i] = strings.Replace(text, fmt.Sprintf("configuration %q", r.Name), fmt.Sprintf("configuration %q", prefix+r.Name), 1)
		}
		r.Name = prefix + r.Name
		ok = ok && len(r.Errors) == 0
		b.results = append(b.results, r)
	}
	if !ok {
		return nil, nil
	}
	return c, s
}

// fault adds an error to the result of a key.
func (b *builder) fault(key string, err error) {
	for i := range b.results {
		if b.results[i].Name == key {
			b.results[i].Errors = append(b.results[i].Errors, err.Error())
			return
		}
	}
	b.results = append(b.results, connect.FieldResult{Name: key, Errors: []string{err.Error()}, Visible: true})
}

// keyError is a fault of one key of a transform's own.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return e.err.Error() }

func badKey(key, format string, args ...any) error {
	return &keyError{key, fmt.Errorf(format, args...)}
}

func (b *builder) open(prefix string, err error) bool {
	if err == nil {
		return true
	}
	key := "type"
	var k *keyError
	if errors.As(err, &k) {
		key = k.key
	}
	b.fault(prefix+key, err)
	return false
}

func (b *builder) predicate(name string) {
	prefix := "predicates." + name + "."
	b.predicates[name] = nil
	c, s := b.settings(prefix, KindPredicate)
	if c == nil {
		return
	}
	test, err := c.openTest(s)
	if b.open(prefix, err) {
		b.predicates[name] = test
	}
}

func (b *builder) transform(name string) {
	prefix := "transforms." + name + "."
	c, s := b.settings(prefix, KindTransform)
	if c == nil {
		return
	}
	l := link{name: name, negate: s.Bool("negate")}
	if p := s.String("predicate"); p != "" {
		test, ok := b.predicates[p]
		if !ok {
			b.fault(prefix+"predicate", fmt.Errorf("predicates does not list %q", p))
		}
		l.predicate = test
	}
	apply, warnings, err := c.open(s)
	if !b.open(prefix, err) {
		return
	}
	l.apply = apply
	for _, w := range warnings {
		b.chain.warnings = append(b.chain.warnings, prefix+w)
	}
	b.chain.links = append(b.chain.links, l)
}
