package binlog

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// Event types of the binlog.
const (
	evQuery            = 2
	evStop             = 3
	evRotate           = 4
	evFormat           = 15
	evXID              = 16
	evBeginLoadQuery   = 17
	evExecuteLoadQuery = 18
	evTableMap         = 19
	evWriteRowsV1      = 23
	evUpdateRowsV1     = 24
	evDeleteRowsV1     = 25
	evIncident         = 26
	evHeartbeat        = 27
	evRowsQuery        = 29
	evWriteRows        = 30
	evUpdateRows       = 31
	evDeleteRows       = 32
	evGTID             = 33
	evAnonymousGTID    = 34
	evPreviousGTIDs    = 35
	evXAPrepare        = 38
	evPartialUpdate    = 39
	evPayload          = 40
	evHeartbeatV2      = 41
	evGTIDTagged       = 42

	evAnnotate           = 160
	evBinlogCheckpoint   = 161
	evMariaGTID          = 162
	evMariaGTIDList      = 163
	evStartEncryption    = 164
	evQueryCompressed    = 165
	evWriteCompressedV1  = 166
	evUpdateCompressedV1 = 167
	evDeleteCompressedV1 = 168
)

// Flags of an event's header.
const flagArtificial = 0x20 // made up for the connection, not in the file

// Flags of MariaDB's GTID event.
const (
	mariaStandalone  = 1
	mariaGroupCommit = 2
	mariaPreparedXA  = 64
	mariaCompletedXA = 128 // "XA COMMIT" or "XA ROLLBACK" of what was prepared
)

const (
	headerSize   = 19
	checksumSize = 4
)

// header is what every event begins with.
type header struct {
	seconds  uint32
	kind     byte
	serverID uint32
	size     uint32 // of the event, header and checksum included
	end      uint32 // place behind the event, its low 32 bits; 0 if not told
	flags    uint16
}

func parseHeader(b []byte) header {
	return header{
		seconds:  binary.LittleEndian.Uint32(b),
		kind:     b[4],
		serverID: binary.LittleEndian.Uint32(b[5:]),
		size:     binary.LittleEndian.Uint32(b[9:]),
		end:      binary.LittleEndian.Uint32(b[13:]),
		flags:    binary.LittleEndian.Uint16(b[17:]),
	}
}

// format is what a file's first event tells about the others.
type format struct {
	checksum    bool
	tableIDSize int
}

// parseFormat reads a FORMAT_DESCRIPTION event with its header. It carries a checksum whenever its server knows them, even
// where the other events have none.
func parseFormat(event []byte) (format, error) {
	const fixed = headerSize + 2 + 50 + 4 + 1
	f := format{tableIDSize: 6}
	if len(event) < fixed+evTableMap+1+checksumSize {
		return f, errors.New("the format description is cut off")
	}
	if version := binary.LittleEndian.Uint16(event[headerSize:]); version != 4 {
		return f, fmt.Errorf("binlog format version %d isn't known", version)
	}
	lengths := event[fixed:]
	if lengths[evTableMap-1] == 6 {
		f.tableIDSize = 4
	}
	algorithm := event[len(event)-1-checksumSize]
	switch algorithm {
	case 0:
	case 1:
		f.checksum = true
		if !checksumMatches(event) {
			return f, errChecksum
		}
	default:
		return f, fmt.Errorf("checksum algorithm %d isn't known", algorithm)
	}
	return f, nil
}

var errChecksum = errors.New("its checksum doesn't match: it was damaged on the way or on the server's disk")

func checksumMatches(event []byte) bool {
	body := event[:len(event)-checksumSize]
	return crc32.ChecksumIEEE(body) == binary.LittleEndian.Uint32(event[len(body):])
}

// transaction is what the event before a transaction says about it.
type transaction struct {
	pending    bool // the transaction hasn't begun yet
	known      bool // there is a GTID
	text       string
	id         uuid
	tag        string
	number     uint64
	domain     domain
	original   uint64
	immediate  uint64
	standalone bool // MariaDB: no Commit follows
	xa         bool
}

// parseGTID reads MySQL's GTID and ANONYMOUS_GTID events.
func parseGTID(body []byte, anonymous bool) (transaction, error) {
	var t transaction
	c := cursor{b: body}
	c.u8() // flags
	copy(t.id[:], c.bytes(16))
	t.number = c.u64()
	if c.short {
		return t, errors.New("the GTID event is cut off")
	}
	t.known = !anonymous && t.number != 0
	if len(c.b) >= 17+7 && c.b[0] == 2 {
		c.bytes(17) // logical clock
		t.immediate = c.uint(7)
		if t.immediate&(1<<55) != 0 {
			t.immediate &^= 1 << 55
			t.original = c.uint(7)
		} else {
			t.original = t.immediate
		}
	}
	return t, nil
}

// Fields of MySQL's tagged GTID event, in the server's serialization format.
const (
	tagFieldFlags = iota
	tagFieldUUID
	tagFieldNumber
	tagFieldTag
	tagFieldLastCommitted
	tagFieldSequence
	tagFieldImmediate
	tagFieldOriginal
)

// parseTaggedGTID reads MySQL's GTID event with a tag: fields by number, in order, optional ones left out.
func parseTaggedGTID(body []byte) (transaction, error) {
	var t transaction
	c := cursor{b: body}
	c.varint() // version
	c.varint() // size
	c.varint() // last field that can't be ignored
	for len(c.b) > 0 && !c.short {
		switch field := c.varint(); field {
		case tagFieldFlags:
			c.varint()
		case tagFieldUUID:
			for i := range t.id {
				t.id[i] = byte(c.varint())
			}
		case tagFieldNumber:
			t.number = uint64(c.signed())
		case tagFieldTag:
			t.tag = string(c.bytes(int(c.varint())))
		case tagFieldLastCommitted, tagFieldSequence:
			c.signed()
		case tagFieldImmediate:
			t.immediate = c.varint()
			t.original = t.immediate
		case tagFieldOriginal:
			t.original = c.varint()
		default:
			c.b = nil // nothing that is needed follows
		}
	}
	if c.short || t.number == 0 {
		return t, errors.New("the tagged GTID event is broken")
	}
	t.known = true
	return t, nil
}

// parseMariaGTID reads MariaDB's GTID event.
func parseMariaGTID(body []byte, server uint32) (transaction, error) {
	c := cursor{b: body}
	t := transaction{known: true}
	t.domain.sequence = c.u64()
	t.domain.id = c.u32()
	t.domain.server = server
	flags := c.u8()
	if c.short {
		return t, errors.New("the GTID event is cut off")
	}
	t.standalone = flags&(mariaStandalone|mariaCompletedXA) != 0
	t.xa = flags&mariaPreparedXA != 0
	return t, nil
}

// gtid gives the transaction's id as text, made once.
func (t *transaction) gtid(d Dialect) string {
	switch {
	case !t.known || t.text != "":
	case d == MariaDB:
		t.text = string(t.domain.append(make([]byte, 0, 32)))
	default:
		b := t.id.append(make([]byte, 0, 64))
		if t.tag != "" {
			b = append(append(b, ':'), t.tag...)
		}
		t.text = string(appendNumber(append(b, ':'), t.number))
	}
	return t.text
}

// inflater unpacks what MariaDB has compressed (log_bin_compress). Its result is valid until the next call.
type inflater struct {
	in  bytes.Reader
	zip io.ReadCloser
	out []byte
}

func (f *inflater) unpack(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errors.New("compressed data is empty")
	}
	n := int(data[0] & 7)
	if data[0]&0x80 == 0 || n < 1 || n > 4 || len(data) < 1+n {
		return nil, fmt.Errorf("compressed data begins with an unknown byte %#x", data[0])
	}
	var size uint64
	for _, b := range data[1 : 1+n] {
		size = size<<8 | uint64(b)
	}
	if size > maxInflated*uint64(len(data)) {
		return nil, fmt.Errorf("compressed data claims an impossible length of %d bytes", size)
	}
	f.in.Reset(data[1+n:])
	if f.zip == nil {
		r, err := zlib.NewReader(&f.in)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		f.zip = r
	} else if err := f.zip.(zlib.Resetter).Reset(&f.in, nil); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if uint64(cap(f.out)) < size {
		f.out = make([]byte, size)
	}
	f.out = f.out[:size]
	if _, err := io.ReadFull(f.zip, f.out); err != nil {
		return nil, fmt.Errorf("unpack %d bytes: %w", size, err)
	}
	return f.out, nil
}

// maxInflated is more than zlib can make of one byte.
const maxInflated = 1100

// kindOf says what a statement is, by its first words. Comments before it are passed over.
func kindOf(sql string) QueryKind {
	sql = skipComments(sql)
	word := firstWord(sql)
	switch {
	case strings.EqualFold(word, "INSERT"), strings.EqualFold(word, "UPDATE"), strings.EqualFold(word, "DELETE"),
		strings.EqualFold(word, "REPLACE"), strings.EqualFold(word, "LOAD"):
		return Change
	case strings.EqualFold(word, "SAVEPOINT"), strings.EqualFold(word, "RELEASE"):
		return Savepoint
	case strings.EqualFold(word, "ROLLBACK"):
		return RollbackTo
	case strings.EqualFold(word, "XA"):
		switch verb := firstWord(strings.TrimLeft(sql[len(word):], " \t\n")); {
		case strings.EqualFold(verb, "COMMIT"):
			return XACommit
		case strings.EqualFold(verb, "ROLLBACK"):
			return XARollback
		}
	}
	return Statement
}

func firstWord(sql string) string {
	for i := range len(sql) {
		if c := sql[i] | 0x20; c < 'a' || c > 'z' {
			return sql[:i]
		}
	}
	return sql
}

func skipComments(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n")
		switch {
		case strings.HasPrefix(sql, "/*") && !strings.HasPrefix(sql, "/*!") && !strings.HasPrefix(sql, "/*M!"):
			_, rest, ok := strings.Cut(sql[2:], "*/")
			if !ok {
				return ""
			}
			sql = rest
		case strings.HasPrefix(sql, "-- "), strings.HasPrefix(sql, "#"):
			_, rest, ok := strings.Cut(sql, "\n")
			if !ok {
				return ""
			}
			sql = rest
		default:
			return sql
		}
	}
}

// sessionVars reads a QUERY event's status variables as far as they are known; the server appends new ones at the end.
func sessionVars(block []byte) SessionVars {
	var v SessionVars
	c := cursor{b: block}
	for len(c.b) > 0 && !c.short {
		switch code := c.u8(); code {
		case 0, 3, 10: // flags, auto_increment, length on the source
			c.u32()
		case 1:
			v.SQLMode, v.HasSQLMode = c.u64(), true
		case 2: // catalog, with a zero
			c.bytes(int(c.u8()))
			c.u8()
		case 4:
			v.Client, v.Connection, v.Server = c.u16(), c.u16(), c.u16()
		case 5, 6: // time zone, catalog
			c.bytes(int(c.u8()))
		case 7:
			c.u16()
		case 8:
			v.Database = c.u16()
		case 9, 14, 17:
			c.u64()
		case 11: // invoker: user, host
			c.bytes(int(c.u8()))
			c.bytes(int(c.u8()))
		case 12: // databases that are changed
			if n := c.u8(); n != 254 {
				for range n {
					i := bytes.IndexByte(c.b, 0)
					c.bytes(i + 1)
				}
			}
		case 13, 128:
			c.uint(3)
		case 15:
			c.bytes(16)
		case 16, 19, 20:
			c.u8()
		case 18:
			c.u16()
		default:
			return v
		}
	}
	return v
}
