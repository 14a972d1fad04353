package binlog

import (
	"bytes"
	"fmt"
)

// takeFormat reads what a file's first event says. If a transaction is open then, the server has died in its middle.
func (s *Stream) takeFormat(event []byte) (Event, error) {
	f, err := parseFormat(event)
	if err != nil {
		return nil, err
	}
	s.format = f
	if s.open {
		return s.commit(At{File: s.file, Start: s.pos, End: s.pos}, RolledBack), nil
	}
	if parseHeader(event).end != 0 {
		s.rest = Position{s.file, s.pos}
	}
	return nil, nil
}

// takeRotate goes to another file. The server repeats a file's name at its beginning and when a stream starts.
func (s *Stream) takeRotate(h header, at At, body []byte) (Event, error) {
	c := cursor{b: body}
	next := Position{Offset: c.u64(), File: string(c.b)}
	if c.short || next.File == "" {
		return nil, corrupt("a rotation names no file")
	}
	moved := next.File != s.file && s.file != ""
	if next.File != s.file || h.flags&flagArtificial != 0 || h.end == 0 {
		s.file, s.pos = next.File, next.Offset
		if !s.open {
			s.rest = next
		}
	}
	if !moved {
		return nil, nil
	}
	s.rotateEvent = Rotate{At: at, Next: next}
	return &s.rotateEvent, nil
}

// Fields of MySQL's heartbeat of the second kind.
const (
	heartbeatFile = 1
	heartbeatPos  = 2
)

// takeHeartbeat learns where the stream is when the server has passed over transactions that weren't asked for.
func (s *Stream) takeHeartbeat(h header, body []byte) error {
	if h.kind != evHeartbeatV2 {
		return nil
	}
	c := cursor{b: body}
	var at Position
	for len(c.b) > 0 && !c.short {
		field := c.u8()
		if field == 0 {
			break
		}
		value := cursor{b: c.bytes(int(c.u8()))}
		switch field {
		case heartbeatFile:
			at.File = string(value.b)
		case heartbeatPos:
			at.Offset = value.packed()
		}
	}
	if c.short {
		return corrupt("a heartbeat is cut off")
	}
	if at.File == s.file && at.Offset > s.pos {
		s.pos = at.Offset
		if !s.open && !s.next.pending {
			s.rest = at
		}
	}
	return nil
}

// takeSet learns the transactions that are done from a file's first events, where the offset didn't have them.
func (s *Stream) takeSet(kind byte, at At, body []byte) error {
	if s.tracked || at.File != s.rest.File || at.Start < s.rest.Offset || at.End == at.Start {
		return nil
	}
	parse := parsePreviousGTIDs
	if kind == evMariaGTIDList {
		parse = parseGTIDList
	}
	set, err := parse(body)
	if err != nil {
		return err
	}
	if !set.Empty() {
		s.set, s.tracked, s.text = set, true, ""
	}
	return nil
}

func (s *Stream) takeGTID(kind byte, body []byte) (err error) {
	if kind == evGTIDTagged {
		s.next, err = parseTaggedGTID(body)
	} else {
		s.next, err = parseGTID(body, kind == evAnonymousGTID)
	}
	s.next.pending = true
	return err
}

// takeMariaGTID begins a transaction, unless it is a single statement's.
func (s *Stream) takeMariaGTID(h header, at At, body []byte) (Event, error) {
	next, err := parseMariaGTID(body, h.serverID)
	if err != nil {
		return nil, err
	}
	s.next = next
	s.next.pending = true
	if next.standalone {
		return nil, nil
	}
	return s.start(at, 0, next.xa), nil
}

// start begins a transaction.
func (s *Stream) start(at At, thread uint32, xa bool) Event {
	s.open, s.events, s.next.pending = true, 1, false
	s.begin = Position{at.File, at.Start}
	s.skip, s.skipRow, s.query = 0, 0, ""
	if s.resuming {
		s.resuming = false
		if s.begin == (Position{s.resume.File, s.resume.Pos}) {
			s.skip, s.skipRow = s.resume.Event, s.resume.Row
		} else {
			s.cfg.Logger.Info("the transaction that was read in part comes again as a whole: the server is another, or its binlog is",
				"stored", Position{s.resume.File, s.resume.Pos}.String(), "here", s.begin.String())
		}
	}
	s.beginEvent = Begin{At: at, GTID: s.next.gtid(s.cfg.Dialect), OriginalMicros: s.next.original, ImmediateMicros: s.next.immediate,
		Thread: thread, XA: xa}
	return &s.beginEvent
}

// finish makes the transaction one that is done.
func (s *Stream) finish(at At) {
	if s.next.known {
		if s.cfg.Dialect == MariaDB {
			s.set.addDomain(s.next.domain)
		} else {
			s.set.add(s.next.id, s.next.tag, span{s.next.number, s.next.number})
		}
		s.text = ""
	}
	s.next = transaction{}
	s.open, s.resuming = false, false
	s.events, s.skip, s.skipRow, s.query = 0, 0, 0, ""
	s.rest = Position{at.File, at.End}
}

func (s *Stream) commit(at At, kind CommitKind) Event {
	s.commitEvent = Commit{At: at, Kind: kind, GTID: s.next.gtid(s.cfg.Dialect)}
	s.finish(at)
	return &s.commitEvent
}

// takePrepare ends the first phase of an XA transaction, or both at once.
func (s *Stream) takePrepare(at At, body []byte) (Event, error) {
	if len(body) == 0 {
		return nil, corrupt("an XA prepare event is empty")
	}
	if onePhase := body[0] != 0; onePhase {
		return s.commit(at, Committed), nil
	}
	return s.commit(at, Prepared), nil
}

func (s *Stream) takeQuery(kind byte, at At, body []byte, ordinal int) (Event, error) {
	c := cursor{b: body}
	thread := c.u32()
	c.u32() // seconds it took
	databaseLength := int(c.u8())
	c.u16() // error number
	vars := c.bytes(int(c.u16()))
	database := c.bytes(databaseLength)
	c.u8()
	if c.short {
		return nil, corrupt("a statement is cut off")
	}
	sql := c.b
	if kind == evQueryCompressed {
		var err error
		if sql, err = s.inflater.unpack(sql); err != nil {
			return nil, err
		}
	}
	switch {
	case isWord(sql, "BEGIN"):
		if s.open && s.cfg.Dialect == MariaDB { // its GTID event has begun it
			return nil, nil
		}
		return s.start(at, thread, false), nil
	case isWord(sql, "COMMIT"):
		return s.commit(at, Committed), nil
	case isWord(sql, "ROLLBACK"):
		return s.commit(at, RolledBack), nil
	case len(sql) > 9 && isWord(sql[:9], "XA START "):
		if s.open && s.cfg.Dialect == MariaDB {
			return nil, nil
		}
		return s.start(at, thread, true), nil
	case len(sql) > 7 && isWord(sql[:7], "XA END "):
		return nil, nil
	}
	done := s.open && ordinal < s.skip
	text := string(sql)
	s.queryEvent = Query{At: at, Kind: kindOf(text), GTID: s.next.gtid(s.cfg.Dialect), Database: string(database), SQL: text,
		Thread: thread, InTransaction: s.open, Vars: sessionVars(vars),
		OriginalMicros: s.next.original, ImmediateMicros: s.next.immediate}
	s.before = s.Offset()
	if s.open {
		s.before.Event = ordinal
	} else {
		s.finish(at)
	}
	if done {
		return nil, nil
	}
	return &s.queryEvent, nil
}

func isWord(sql []byte, word string) bool {
	return len(sql) == len(word) && bytes.EqualFold(sql, []byte(word))
}

func (s *Stream) takeTableMap(body []byte) error {
	id := cursor{b: body}
	number := id.uint(s.format.tableIDSize)
	if t := s.tables[number]; t != nil && bytes.Equal(t.raw, body) {
		return nil
	}
	t, err := parseTableMap(s.cfg.Dialect, s.format.tableIDSize, body)
	if err != nil {
		return corrupt("%w", err)
	}
	t.wanted = s.cfg.Wanted == nil || s.cfg.Wanted(t.Database, t.Table)
	if len(s.tables) >= tablesKept {
		clear(s.tables)
	}
	s.tables[number] = t
	return nil
}

const (
	rowsEndStatement = 1
	dummyTable       = 0xffffff // ends a statement that has no rows
)

func (s *Stream) takeRows(kind byte, at At, body []byte, ordinal int) (Event, error) {
	c := cursor{b: body}
	id := c.uint(s.format.tableIDSize)
	flags := c.u16()
	second := kind == evWriteRows || kind == evUpdateRows || kind == evDeleteRows || kind == evPartialUpdate
	if second {
		c.bytes(int(c.u16()) - 2) // what others have added
	}
	s.rowsEvent = Rows{At: at, Table: s.tables[id], Kind: rowsKind(kind), Partial: kind == evPartialUpdate, Query: s.query}
	if flags&rowsEndStatement != 0 {
		s.query = ""
	}
	r := &s.rowsEvent
	if id == dummyTable && r.Table == nil {
		return nil, nil
	}
	if r.Table == nil {
		return nil, corrupt("rows of table number %d come without its table map; the stream must begin at a transaction's beginning", id)
	}
	r.Columns = int(min(c.packed(), 1<<16))
	r.Present = c.bytes((r.Columns + 7) / 8)
	if r.Kind == Update {
		r.PresentAfter = c.bytes((r.Columns + 7) / 8)
	}
	if c.short || r.Columns != len(r.Table.Columns) {
		return nil, corrupt("rows of %s.%s have %d columns where its table map has %d", r.Table.Database, r.Table.Table, r.Columns, len(r.Table.Columns))
	}
	s.inRows = ordinal
	if s.open && ordinal < s.skip {
		return nil, nil
	}
	r.Skip, s.skipRow = s.skipRow, 0
	if !r.Table.wanted {
		return nil, nil
	}
	r.Data = c.b
	if kind >= evWriteCompressedV1 {
		data, err := s.inflater.unpack(r.Data)
		if err != nil {
			return nil, fmt.Errorf("rows of %s.%s: %w", r.Table.Database, r.Table.Table, err)
		}
		r.Data = data
	}
	return r, nil
}

func rowsKind(kind byte) RowsKind {
	switch kind {
	case evUpdateRows, evUpdateRowsV1, evPartialUpdate, evUpdateCompressedV1:
		return Update
	case evDeleteRows, evDeleteRowsV1, evDeleteCompressedV1:
		return Delete
	}
	return Insert
}

// parsePreviousGTIDs reads the set at the beginning of MySQL's files; it is encode's opposite.
func parsePreviousGTIDs(body []byte) (GTIDSet, error) {
	var s GTIDSet
	c := cursor{b: body}
	count := c.u64()
	tagged := count>>56 == 1
	if tagged {
		count = count >> 8 & (1<<48 - 1)
	}
	for range count {
		var id uuid
		copy(id[:], c.bytes(16))
		tag := ""
		if tagged {
			tag = string(c.bytes(int(c.varint())))
		}
		for n := c.u64(); n > 0 && !c.short; n-- {
			first, behind := c.u64(), c.u64()
			if behind <= first {
				return s, corrupt("a set of GTIDs is broken")
			}
			s.add(id, tag, span{first, behind - 1})
		}
		if c.short {
			return s, corrupt("a set of GTIDs is cut off")
		}
	}
	return s, nil
}

// parseGTIDList reads the list at the beginning of MariaDB's files.
func parseGTIDList(body []byte) (GTIDSet, error) {
	s := GTIDSet{dialect: MariaDB}
	c := cursor{b: body}
	for n := c.u32() & (1<<28 - 1); n > 0; n-- {
		d := domain{id: c.u32(), server: c.u32(), sequence: c.u64()}
		if c.short {
			return s, corrupt("a list of GTIDs is cut off")
		}
		if i, ok := s.domain(d.id); !ok || s.domains[i].sequence < d.sequence {
			s.addDomain(d)
		}
	}
	return s, nil
}
