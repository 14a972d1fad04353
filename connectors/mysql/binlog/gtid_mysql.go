package binlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// uuid names a MySQL server.
type uuid [16]byte

func (u uuid) String() string { return string(u.append(nil)) }

func (u uuid) append(b []byte) []byte {
	for i, x := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, hexDigits[x>>4], hexDigits[x&15])
	}
	return b
}

const hexDigits = "0123456789abcdef"

func parseUUID(text string) (u uuid, err error) {
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) != 32 {
		return u, fmt.Errorf("%q is not a UUID", text)
	}
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return u, fmt.Errorf("%q is not a UUID", text)
	}
	return u, nil
}

// source is the transactions that one server, under one tag, has numbered.
type source struct {
	id    uuid
	tag   string // lower case, "" for none
	spans []span // sorted, apart from each other
}

// span is an interval of transaction numbers, both included.
type span struct{ first, last uint64 }

func compareSource(s source, key source) int {
	if c := bytes.Compare(s.id[:], key.id[:]); c != 0 {
		return c
	}
	return cmp.Compare(s.tag, key.tag)
}

func (s *GTIDSet) source(id uuid, tag string) (int, bool) {
	if s.last < len(s.sources) && s.sources[s.last].id == id && s.sources[s.last].tag == tag {
		return s.last, true
	}
	return slices.BinarySearchFunc(s.sources, source{id: id, tag: tag}, compareSource)
}

func (s *GTIDSet) hasSource(id uuid) bool {
	return slices.ContainsFunc(s.sources, func(src source) bool { return src.id == id })
}

// add puts an interval into the set.
func (s *GTIDSet) add(id uuid, tag string, sp span) {
	i, ok := s.source(id, tag)
	if !ok {
		s.sources = slices.Insert(s.sources, i, source{id: id, tag: tag})
	}
	s.last = i
	src := &s.sources[i]
	if n := len(src.spans); n > 0 && src.spans[n-1].last+1 == sp.first {
		src.spans[n-1].last = sp.last // the usual case: the next transaction
		return
	}
	src.spans = addSpan(src.spans, sp)
}

// addSpan puts an interval among others and joins those that touch.
func addSpan(spans []span, sp span) []span {
	from, _ := slices.BinarySearchFunc(spans, sp.first, func(s span, first uint64) int { return cmp.Compare(s.last+1, first) })
	to := from
	for to < len(spans) && spans[to].first <= sp.last+1 {
		sp.first = min(sp.first, spans[to].first)
		sp.last = max(sp.last, spans[to].last)
		to++
	}
	return slices.Replace(spans, from, to, sp)
}

// subtractSpans gives the parts of a that aren't in b.
func subtractSpans(a, b []span) []span {
	var out []span
	for _, sp := range a {
		for _, cut := range b {
			if cut.last < sp.first {
				continue
			}
			if cut.first > sp.last {
				break
			}
			if cut.first > sp.first {
				out = append(out, span{sp.first, cut.first - 1})
			}
			sp.first = cut.last + 1
			if sp.first > sp.last {
				break
			}
		}
		if sp.first <= sp.last {
			out = append(out, sp)
		}
	}
	return out
}

// parseSource reads uuid[:tag]:interval[:interval…][:tag:interval…].
func (s *GTIDSet) parseSource(text string) error {
	fields := strings.Split(text, ":")
	id, err := parseUUID(strings.TrimSpace(fields[0]))
	if err != nil {
		return err
	}
	tag, empty := "", true
	for _, field := range fields[1:] {
		field = strings.TrimSpace(field)
		if isTag(field) {
			if empty && tag != "" {
				return fmt.Errorf("tag %s has no interval", tag)
			}
			tag, empty = strings.ToLower(field), true
			continue
		}
		sp, err := parseSpan(field)
		if err != nil {
			return err
		}
		s.add(id, tag, sp)
		empty = false
	}
	if empty {
		return errors.New("a source without an interval")
	}
	return nil
}

func isTag(field string) bool {
	return field != "" && (field[0] == '_' || field[0] >= 'a' && field[0] <= 'z' || field[0] >= 'A' && field[0] <= 'Z')
}

func parseSpan(field string) (span, error) {
	first, last, ranged := strings.Cut(field, "-")
	if !ranged {
		last = first
	}
	a, err := strconv.ParseUint(strings.TrimSpace(first), 10, 63)
	if err != nil || a == 0 {
		return span{}, fmt.Errorf("%q is not an interval of transaction numbers", field)
	}
	b, err := strconv.ParseUint(strings.TrimSpace(last), 10, 63)
	if err != nil || b < a {
		return span{}, fmt.Errorf("%q is not an interval of transaction numbers", field)
	}
	return span{a, b}, nil
}

func (s *GTIDSet) appendSources(b []byte) []byte {
	for i, src := range s.sources {
		switch {
		case i > 0 && s.sources[i-1].id == src.id:
		case i > 0:
			b = src.id.append(append(b, ','))
		default:
			b = src.id.append(b)
		}
		if src.tag != "" {
			b = append(append(b, ':'), src.tag...)
		}
		for _, sp := range src.spans {
			b = strconv.AppendUint(append(b, ':'), sp.first, 10)
			if sp.last > sp.first {
				b = strconv.AppendUint(append(b, '-'), sp.last, 10)
			}
		}
	}
	return b
}

// encode gives the set as COM_BINLOG_DUMP_GTID carries it. Sets with tags have a form of their own, which servers before
// 8.3 don't know.
func (s *GTIDSet) encode() []byte {
	tagged := slices.ContainsFunc(s.sources, func(src source) bool { return src.tag != "" })
	count := uint64(len(s.sources))
	if tagged {
		count = 1 | count<<8 | 1<<56
	}
	b := binary.LittleEndian.AppendUint64(nil, count)
	for _, src := range s.sources {
		b = append(b, src.id[:]...)
		if tagged {
			b = append(append(b, byte(len(src.tag)<<1)), src.tag...)
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(len(src.spans)))
		for _, sp := range src.spans {
			b = binary.LittleEndian.AppendUint64(b, sp.first)
			b = binary.LittleEndian.AppendUint64(b, sp.last+1)
		}
	}
	return b
}
