package transform

import (
	"errors"

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
	links []link
}

// link is one transform with the predicate that guards it.
type link struct {
	name string
}

// New makes the chain that config describes: transforms, transforms.X.type and the keys below, predicates likewise.
// The results name full keys (transforms.X.…); the chain is usable when none of them has errors, and nil otherwise.
// A configuration without transforms gives an empty chain.
func New(config connect.Config) (*Chain, []connect.FieldResult) {
	return &Chain{}, nil
}

// Empty reports whether the chain changes nothing.
func (c *Chain) Empty() bool { return len(c.links) == 0 }

// Apply transforms r in place. keep is false when a transform dropped the record. An error wraps [ErrRecord] or
// [connect.ErrNotDecoded] and names the transform; r is then in an undefined state between two transforms, so a worker
// that wants the original keeps a copy of the struct (a shallow one will do: what it points to is not written to).
func (c *Chain) Apply(r *connect.Record) (keep bool, err error) {
	return true, nil
}

// Fields lists the keys that config's transforms and predicates have, under their full names, with transforms and
// predicates themselves: what a connector's own fields are extended by.
func Fields(config connect.Config) []connect.Field { return nil }

// Classes lists every transform and predicate.
func Classes() []ClassInfo { return nil }
