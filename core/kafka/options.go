package kafka

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrRefused marks a known key whose value can't be honoured although it would change
// data or security. The wrapping error names the key and says what to do instead.
var ErrRefused = errors.New("setting is not supported")

// Role is what a client is for. Keys of another role have no effect on it.
type Role uint8

const (
	// Admin clients neither produce nor consume.
	Admin Role = iota
	// Producer clients write records.
	Producer
	// Consumer clients read records, in a group if group.id is set.
	Consumer
)

// String returns the role as Java's prefixes spell it.
func (r Role) String() string {
	switch r {
	case Producer:
		return "producer"
	case Consumer:
		return "consumer"
	default:
		return "admin"
	}
}

// Warning is something about one key that its author would want to know.
type Warning struct {
	Key     string // as given
	Nearest string // for an unknown key: the nearest known one, or ""
	Reason  string // one sentence without a full stop; never holds a value
}

// String returns the warning as one line for a log or a validation answer.
func (w Warning) String() string {
	if w.Nearest != "" {
		return fmt.Sprintf("%s: %s; did you mean %s?", w.Key, w.Reason, w.Nearest)
	}
	return fmt.Sprintf("%s: %s", w.Key, w.Reason)
}

// Options turns the properties of one Java client into options of a kgo client for role.
// All faults are found in one call and joined in the error; on an error the options are nil.
// Warnings are sorted by key and are complete in both cases. Options reads the key
// stores that the properties name and touches nothing else; it keeps no reference to props.
// A value of "" counts as unset, except for those keys where Java gives it a meaning.
func Options(props map[string]string, role Role) ([]kgo.Opt, []Warning, error) {
	b := &builder{props: props, role: role}
	known := make(map[string]key)
	names := make([]string, 0, 128)
	for _, k := range keys() {
		known[k.name] = k
		names = append(names, k.name)
	}
	for _, name := range sortedKeys(props) {
		k, ok := known[name]
		switch {
		case !ok && isPassThrough(name):
		case !ok:
			b.warn(name, Nearest(name, names), "unknown client setting, kept and not used")
		case k.roles&(1<<role) == 0:
			b.warn(name, "", "is no setting of "+article(role.String())+" and is not used")
		case k.apply == nil && k.note != "":
			b.warn(name, "", k.note)
		case k.apply != nil:
			k.apply(b, name, strings.TrimSpace(props[name]))
		}
	}
	b.finish()
	sort.SliceStable(b.warnings, func(i, j int) bool { return b.warnings[i].Key < b.warnings[j].Key })
	if err := errors.Join(b.faults...); err != nil {
		return nil, b.warnings, err
	}
	return b.opts, b.warnings, nil
}

// NewClient opens a client of the given role. Extra options come last and win.
// The caller owns the client and closes it. Nothing is dialled before the first use.
func NewClient(props map[string]string, role Role, extra ...kgo.Opt) (*kgo.Client, []Warning, error) {
	opts, warnings, err := Options(props, role)
	if err != nil {
		return nil, warnings, fmt.Errorf("configure kafka %s: %w", role, err)
	}
	client, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, warnings, fmt.Errorf("configure kafka %s: %w", role, err)
	}
	return client, warnings, nil
}

// Overlay returns the properties of one client inside a process that has several: the
// connection and security settings of props (bootstrap.servers, security.*, ssl.*,
// sasl.* and the like, but neither group.id nor client.id), overlaid by every key that
// starts with prefix ("producer.", "consumer.", "admin."), the prefix cut off.
// Java workers take security settings from the prefix only; here the plain ones are the
// fallback, so that one security.protocol at the top is enough.
func Overlay(props map[string]string, prefix string) map[string]string {
	out := make(map[string]string)
	for _, k := range keys() {
		if v, ok := props[k.name]; ok && k.shared {
			out[k.name] = v
		}
	}
	for name, v := range props {
		if isPassThrough(name) {
			out[name] = v
		}
	}
	for name, v := range props {
		if rest, ok := strings.CutPrefix(name, prefix); ok && prefix != "" && rest != "" {
			out[rest] = v
		}
	}
	return out
}

// Known returns the names of all keys that mean something to a client of role, sorted.
func Known(role Role) []string {
	var names []string
	for _, k := range keys() {
		if k.roles&(1<<role) != 0 {
			names = append(names, k.name)
		}
	}
	sort.Strings(names)
	return names
}

// Secret reports whether the value of key must never be shown.
func Secret(key string) bool {
	for _, k := range keys() {
		if k.name == key {
			return k.secret
		}
	}
	return false
}

func article(noun string) string {
	if strings.HasPrefix(noun, "a") {
		return "an " + noun
	}
	return "a " + noun
}

func sortedKeys(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// isPassThrough tells keys that belong to pluggable parts of Java's client, which any
// name may follow.
func isPassThrough(name string) bool {
	return strings.HasPrefix(name, "metrics.context.") || strings.HasPrefix(name, "sasl.oauthbearer.sub.")
}
