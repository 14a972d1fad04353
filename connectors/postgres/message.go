package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Messages of pgoutput, protocol version 1, as they stand in the data of an XLogData ('w') message of the replication
// stream. Integers are big-endian; text ends with a zero byte.
//
//	w: start LSN 8 | end LSN 8 | send time 8 | one of:
//	  B: final LSN 8 | commit time 8 | xid 4                       C: flags 1 | commit LSN 8 | end LSN 8 | commit time 8
//	  R: oid 4 | schema | name | identity 1 | n 2 | n × (flags 1 | name | type oid 4 | typmod 4)
//	  I: oid 4 | 'N' tuple        U: oid 4 | ['K' or 'O' tuple] 'N' tuple        D: oid 4 | 'K' or 'O' tuple
//	  T: n 4 | options 1 | n × oid 4        O: origin LSN 8 | name        Y, M: not needed
//	  tuple: n 2 | n × ('n' | 'u' | 't' length 4, bytes)
//	k: WAL end 8 | send time 8 | reply at once 1

// errMalformed is wrapped by every error of these readers.
var errMalformed = errors.New("malformed WAL message")

// pgEpochMicros is 2000-01-01 in microseconds since 1970.
const pgEpochMicros = 946684800 * 1000000

// cell is one column of a tuple: 't' with text, 'n' null, 'u' not sent because it did not change.
type cell struct {
	kind byte
	text []byte
}

const (
	cellNull      = 'n'
	cellUnchanged = 'u'
	cellText      = 't'
	cellBinary    = 'b'
)

// tuple is a row's columns in the order of the relation.
type tuple []cell

type beginMessage struct {
	finalLSN     uint64
	commitMicros int64 // since 1970
	xid          uint32
}

type commitMessage struct {
	commitLSN, endLSN uint64
	commitMicros      int64
}

type relationMessage struct {
	oid      uint32
	name     tableName
	identity byte // 'd' default, 'n' nothing, 'f' full, 'i' index
	columns  []relationColumn
}

type relationColumn struct {
	name   string
	oid    uint32
	typmod int32
	key    bool // part of the replica identity
}

// changeMessage is an insert, update or delete. Its tuples share the memory of the reader's scratch and of the message.
type changeMessage struct {
	oid     uint32
	oldKind byte // 'K' identity columns only, 'O' the whole row, 0 none
	old     tuple
	new     tuple
}

type truncateMessage struct {
	options byte
	oids    []uint32
}

type originMessage struct {
	lsn  uint64
	name string
}

type xlogData struct {
	startLSN, endLSN uint64
	data             []byte
}

type keepalive struct {
	endLSN     uint64
	sentMicros int64
	reply      bool
}

// cursor reads a message from its front; it fails once and for all.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.rest) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) byte() byte {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) text() string {
	i := bytes.IndexByte(c.rest, 0)
	if i < 0 {
		c.bad, c.rest = true, nil
		return ""
	}
	s := string(c.rest[:i])
	c.rest = c.rest[i+1:]
	return s
}

func (c *cursor) done(what string) error {
	if c.bad {
		return fmt.Errorf("%w: %s is cut short", errMalformed, what)
	}
	return nil
}

func readXLogData(body []byte) (xlogData, error) {
	c := cursor{rest: body}
	m := xlogData{startLSN: c.uint64(), endLSN: c.uint64()}
	c.uint64()
	m.data = c.rest
	if err := c.done("XLogData"); err != nil {
		return m, err
	}
	if len(m.data) == 0 {
		return m, fmt.Errorf("%w: XLogData is empty", errMalformed)
	}
	return m, nil
}

func readKeepalive(body []byte) (keepalive, error) {
	c := cursor{rest: body}
	m := keepalive{endLSN: c.uint64(), sentMicros: int64(c.uint64()) + pgEpochMicros, reply: c.byte() != 0}
	return m, c.done("keepalive")
}

func readBegin(body []byte) (beginMessage, error) {
	c := cursor{rest: body}
	m := beginMessage{finalLSN: c.uint64(), commitMicros: int64(c.uint64()) + pgEpochMicros, xid: c.uint32()}
	return m, c.done("Begin")
}

func readCommit(body []byte) (commitMessage, error) {
	c := cursor{rest: body}
	c.byte()
	m := commitMessage{commitLSN: c.uint64(), endLSN: c.uint64(), commitMicros: int64(c.uint64()) + pgEpochMicros}
	return m, c.done("Commit")
}

func readOrigin(body []byte) (originMessage, error) {
	c := cursor{rest: body}
	m := originMessage{lsn: c.uint64(), name: c.text()}
	return m, c.done("Origin")
}

func readRelation(body []byte) (relationMessage, error) {
	c := cursor{rest: body}
	m := relationMessage{oid: c.uint32()}
	m.name = tableName{schema: c.text(), table: c.text()}
	if m.name.schema == "" {
		m.name.schema = "pg_catalog" // the protocol shortens it
	}
	m.identity = c.byte()
	n := int(c.uint16())
	for range n {
		if c.bad {
			break
		}
		m.columns = append(m.columns, relationColumn{key: c.byte()&1 != 0, name: c.text(), oid: c.uint32(), typmod: int32(c.uint32())})
	}
	return m, c.done("Relation")
}

func readTruncate(body []byte) (truncateMessage, error) {
	c := cursor{rest: body}
	n := int(c.uint32())
	m := truncateMessage{options: c.byte()}
	for range n {
		if c.bad {
			break
		}
		m.oids = append(m.oids, c.uint32())
	}
	return m, c.done("Truncate")
}

// changeReader reads changes into memory that it uses again.
type changeReader struct {
	message  changeMessage
	old, new tuple
}

// read reads an insert, update or delete; what it returns is valid until the next read.
func (r *changeReader) read(kind byte, body []byte) (*changeMessage, error) {
	c := cursor{rest: body}
	r.message = changeMessage{oid: c.uint32()}
	m := &r.message
	tag := c.byte()
	if kind != 'I' && (tag == 'K' || tag == 'O') {
		m.oldKind = tag
		if r.old = readTuple(&c, r.old[:0]); r.old != nil {
			m.old = r.old
		}
		if kind == 'U' {
			tag = c.byte()
		}
	} else if kind == 'D' {
		c.bad = true
	}
	if kind != 'D' {
		if tag != 'N' {
			c.bad = true
		}
		if r.new = readTuple(&c, r.new[:0]); r.new != nil {
			m.new = r.new
		}
	}
	if c.bad {
		return nil, fmt.Errorf("%w: change %q", errMalformed, kind)
	}
	return m, nil
}

func readTuple(c *cursor, into tuple) tuple {
	n := int(c.uint16())
	for range n {
		kind := c.byte()
		switch kind {
		case cellNull, cellUnchanged:
			into = append(into, cell{kind: kind})
		case cellText, cellBinary:
			into = append(into, cell{kind: kind, text: c.bytes(int(int32(c.uint32())))})
		default:
			c.bad = true
		}
		if c.bad {
			return into
		}
	}
	return into
}
