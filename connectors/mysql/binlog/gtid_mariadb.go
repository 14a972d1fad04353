package binlog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// domain is the newest transaction of a MariaDB replication domain.
type domain struct {
	id, server uint32
	sequence   uint64
}

func (d domain) append(b []byte) []byte {
	b = append(strconv.AppendUint(b, uint64(d.id), 10), '-')
	b = append(strconv.AppendUint(b, uint64(d.server), 10), '-')
	return strconv.AppendUint(b, d.sequence, 10)
}

// source is what filters see: domain-server.
func (d domain) source() string { return fmt.Sprintf("%d-%d", d.id, d.server) }

func (s *GTIDSet) domain(id uint32) (int, bool) {
	return slices.BinarySearchFunc(s.domains, id, func(d domain, id uint32) int { return cmp.Compare(d.id, id) })
}

// addDomain makes d the newest of its domain.
func (s *GTIDSet) addDomain(d domain) {
	i, ok := s.domain(d.id)
	if !ok {
		s.domains = slices.Insert(s.domains, i, d)
		return
	}
	s.domains[i] = d
}

// parseDomain reads domain-server-sequence. Of several of one domain, which a server that was read by file names has,
// the newest stands.
func (s *GTIDSet) parseDomain(text string) error {
	fields := strings.Split(text, "-")
	if len(fields) != 3 {
		return fmt.Errorf("%q is not domain-server-sequence", text)
	}
	var numbers [3]uint64
	for i, bits := range []int{32, 32, 64} {
		n, err := strconv.ParseUint(fields[i], 10, bits)
		if err != nil {
			return fmt.Errorf("%q is not domain-server-sequence", text)
		}
		numbers[i] = n
	}
	d := domain{uint32(numbers[0]), uint32(numbers[1]), numbers[2]}
	if i, ok := s.domain(d.id); !ok || s.domains[i].sequence < d.sequence {
		s.addDomain(d)
	}
	return nil
}

func (s *GTIDSet) appendDomains(b []byte) []byte {
	for i, d := range s.domains {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.append(b)
	}
	return b
}
