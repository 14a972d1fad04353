package binlog

import (
	"cmp"
	"strconv"
	"strings"
)

// Dialect is the kind of server.
type Dialect uint8

// The dialects.
const (
	MySQL Dialect = iota
	MariaDB
)

// String is the dialect as connectors name it.
func (d Dialect) String() string {
	if d == MariaDB {
		return "mariadb"
	}
	return "mysql"
}

// Position is a place in a server's binlog files. Offset is counted in 64 bits: a file with one huge transaction may be
// longer than the 4 GiB that event headers can tell.
type Position struct {
	File   string
	Offset uint64
}

// String is file:offset.
func (p Position) String() string { return p.File + ":" + strconv.FormatUint(p.Offset, 10) }

// Compare orders two positions of one server by file number and offset. Files with different base names can't be
// compared: ok is false.
func (p Position) Compare(o Position) (order int, ok bool) {
	base, n, known := splitFile(p.File)
	otherBase, m, otherKnown := splitFile(o.File)
	switch {
	case p.File == o.File:
		return cmp.Compare(p.Offset, o.Offset), true
	case base != otherBase || !known || !otherKnown:
		return 0, false
	case n != m:
		return cmp.Compare(n, m), true
	}
	return cmp.Compare(p.Offset, o.Offset), true
}

// splitFile gives a binlog file's base name and number: binlog, 17 of binlog.000017.
func splitFile(name string) (base string, number uint64, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, 0, false
	}
	number, err := strconv.ParseUint(name[i+1:], 10, 63)
	return name[:i], number, err == nil
}

// At is where an event stands in the binlog of the server that is read. Events inside a compressed transaction have the
// place of the whole.
type At struct {
	File       string
	Start, End uint64
	ServerID   uint32 // of the server on which the change was made
	Seconds    uint32 // when, Unix time
}

// at gives an event access to its place; it keeps the set of events closed.
func (a *At) at() *At { return a }
