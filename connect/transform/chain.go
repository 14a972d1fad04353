package transform

import (
	"errors"
	"fmt"

	"github.com/weirlog/weir/connect"
)

// Errors of this package, wrapped by what its functions return.
var (
	// ErrUnknownClass: no transform or predicate has this class.
	ErrUnknownClass = errors.New("transform: unknown class")
	// ErrRecord: a transform can't be applied to this record.
	ErrRecord = errors.New("transform: bad record")
)

// Kind says what a class may be used for.
type Kind string

// The kinds, in the words of Kafka Connect's list of plugins.
const (
	KindTransform Kind = "transformation"
	KindPredicate Kind = "predicate"
)

// ClassInfo describes one class for the list of plugins and for validation.
type ClassInfo struct {
	Class   string   // the Java class, with $Key or $Value where it has these variants
	Aliases []string // its simple name and our short names
	Kind    Kind
	Fields  []connect.Field // names without the prefix "transforms.X." or "predicates.X."
}

// Chain is the transforms of one connector, in order. It is not for concurrent use: each task has its own.
type Chain struct {
	links    []link
	warnings []string
}

// link is one transform with the predicate that guards it.
type link struct {
	name      string
	apply     applyFunc
	predicate testFunc // nil for none
	negate    bool
}

// applyFunc changes a record in place; keep is false when it is dropped.
type applyFunc func(r *connect.Record) (keep bool, err error)

// testFunc is a predicate.
type testFunc func(r *connect.Record) (bool, error)

// Empty reports whether the chain changes nothing.
func (c *Chain) Empty() bool { return len(c.links) == 0 }

// Warnings lists what in the configuration works, but under an older name or with a meaning to know of: to be logged once.
func (c *Chain) Warnings() []string { return c.warnings }

// Apply transforms r in place. keep is false when a transform dropped the record. An error wraps [ErrRecord] or
// [connect.ErrNotDecoded] and names the transform; r is then in an undefined state between two transforms, so a worker
// that wants the original keeps a copy of the struct (a shallow one will do: what it points to is not written to).
// A whole batch ([connect.Record.Raw]) and a record with a Fault pass unchanged.
func (c *Chain) Apply(r *connect.Record) (keep bool, err error) {
	if r.Raw != nil || r.Fault != nil {
		return true, nil
	}
	for i := range c.links {
		l := &c.links[i]
		if l.predicate != nil {
			yes, err := l.predicate(r)
			if err != nil {
				return false, fmt.Errorf("predicate of transform %s: %w", l.name, err)
			}
			if yes == l.negate {
				continue
			}
		}
		keep, err := l.apply(r)
		if err != nil {
			return false, fmt.Errorf("transform %s: %w", l.name, err)
		}
		if !keep {
			return false, nil
		}
	}
	return true, nil
}

// recordErrorf makes an [ErrRecord].
func recordErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRecord, fmt.Sprintf(format, args...))
}
