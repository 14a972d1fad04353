package binlog

import (
	"fmt"
	"strings"
)

// GTIDSet is a set of transactions by their global ids: for MySQL intervals of numbers by source and tag
// (uuid:1-5:7,uuid:tag:1-3), for MariaDB the newest transaction of each domain (0-1-270,1-4-8), which stands for all
// before it. The zero value is MySQL's empty set. Sets are values, but Add changes in place: Clone what must stay.
type GTIDSet struct {
	dialect Dialect
	sources []source // MySQL: sorted by uuid, tag
	domains []domain // MariaDB: sorted by domain
	last    int      // index of the source that grew last
}

// ParseSet reads a set; white space and newlines between its parts are ignored, as servers break long ones.
func ParseSet(dialect Dialect, text string) (GTIDSet, error) {
	s := GTIDSet{dialect: dialect}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		var err error
		if dialect == MariaDB {
			err = s.parseDomain(part)
		} else {
			err = s.parseSource(part)
		}
		if err != nil {
			return GTIDSet{}, fmt.Errorf("parse GTID set %q: %w", text, err)
		}
	}
	return s, nil
}

// Dialect tells whose set it is.
func (s GTIDSet) Dialect() Dialect { return s.dialect }

// Empty tells whether nothing is in it.
func (s GTIDSet) Empty() bool { return len(s.sources) == 0 && len(s.domains) == 0 }

// String is the set in its server's own form, sorted.
func (s GTIDSet) String() string { return string(s.Append(nil)) }

// Append appends the set's text to b.
func (s GTIDSet) Append(b []byte) []byte {
	if s.dialect == MariaDB {
		return s.appendDomains(b)
	}
	return s.appendSources(b)
}

// Clone gives a copy that shares nothing.
func (s GTIDSet) Clone() GTIDSet {
	out := s
	out.domains = append([]domain(nil), s.domains...)
	out.sources = make([]source, len(s.sources))
	for i, src := range s.sources {
		out.sources[i] = src
		out.sources[i].spans = append([]span(nil), src.spans...)
	}
	return out
}

// Contains tells whether every transaction of o is in s. MariaDB's sets are compared by domain alone: after a failover
// the server's number is another.
func (s GTIDSet) Contains(o GTIDSet) bool { return s.dialect == o.dialect && o.Subtract(s).Empty() }

// Equal tells whether both hold the same transactions.
func (s GTIDSet) Equal(o GTIDSet) bool { return s.Contains(o) && o.Contains(s) }

// Union gives the transactions of both.
func (s GTIDSet) Union(o GTIDSet) GTIDSet {
	out := s.Clone()
	for _, src := range o.sources {
		for _, sp := range src.spans {
			out.add(src.id, src.tag, sp)
		}
	}
	for _, d := range o.domains {
		if i, ok := out.domain(d.id); !ok || out.domains[i].sequence < d.sequence {
			out.addDomain(d)
		}
	}
	return out
}

// Subtract gives the transactions of s that aren't in o. Of MariaDB's sets it gives the domains in which s is ahead.
func (s GTIDSet) Subtract(o GTIDSet) GTIDSet {
	out := GTIDSet{dialect: s.dialect}
	for _, src := range s.sources {
		spans := src.spans
		if i, ok := o.source(src.id, src.tag); ok {
			spans = subtractSpans(spans, o.sources[i].spans)
		}
		for _, sp := range spans {
			out.add(src.id, src.tag, sp)
		}
	}
	for _, d := range s.domains {
		if i, ok := o.domain(d.id); !ok || o.domains[i].sequence < d.sequence {
			out.addDomain(d)
		}
	}
	return out
}

// Filter gives the transactions of the sources that keep accepts: a UUID for MySQL, domain-server for MariaDB.
func (s GTIDSet) Filter(keep func(source string) bool) GTIDSet {
	if keep == nil {
		return s.Clone()
	}
	out := GTIDSet{dialect: s.dialect}
	for _, src := range s.sources {
		if keep(src.id.String()) {
			for _, sp := range src.spans {
				out.add(src.id, src.tag, sp)
			}
		}
	}
	for _, d := range s.domains {
		if keep(d.source()) {
			out.addDomain(d)
		}
	}
	return out
}

// SetContains gives a comparison of sets as text, for who must not know this package: whether every transaction of b is
// in a. What can't be read is in nothing.
func SetContains(dialect Dialect) func(a, b string) bool {
	return func(a, b string) bool {
		x, err := ParseSet(dialect, a)
		if err != nil {
			return false
		}
		y, err := ParseSet(dialect, b)
		return err == nil && x.Contains(y)
	}
}

// resumeSet gives the set to ask a server for: what is done of the sources that count, and of sources that were never
// seen what the server can't give any more, so that a new source is read from its oldest kept transaction.
func resumeSet(stored, purged GTIDSet, keep func(source string) bool) GTIDSet {
	known := stored.Filter(keep)
	for _, src := range purged.sources {
		if known.hasSource(src.id) {
			continue
		}
		known = known.Union(GTIDSet{sources: []source{src}})
	}
	return known
}
