package binlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-mysql-org/go-mysql/client"
)

// Stream reads a server's binlog. One caller at a time; Close may be called beside it.
type Stream struct {
	cfg  Config
	conn *client.Conn
	wire wire
	err  error // ended the stream

	format    format
	annotated bool // MariaDB sends the statements, asked for or not
	payload   payload
	outer     struct { // the compressed transaction around the events that are read
		At
		streamed bool
	}
	inflater inflater
	tables   map[uint64]*TableMap

	// Where the stream is: the last event's file and end, and the place behind the last transaction or other event that
	// stands for itself.
	file string
	pos  uint64
	rest Position
	// dropUntil is up to which place of the first file events are passed over; 0: none are.
	dropUntil uint64
	serverID  uint32
	seconds   int64

	set     GTIDSet // transactions that are done
	tracked bool    // set holds all of them, not only those since the start
	text    string  // set as text, "" if it has changed since

	next   transaction // told by the last GTID event
	open   bool        // inside a transaction
	begin  Position    // of which
	events int         // of it, that are done: the current one included
	inRows int         // events before the current Rows
	before Offset      // the restart point before the current Query
	query  string      // of the statement whose rows come

	resuming bool   // the first transaction hasn't begun yet
	resume   Offset // of which an earlier run has done a part, perhaps
	skip     int    // events of the open transaction that it has done
	skipRow  int    // rows of the next Rows that it has done

	// What Next hands out.
	beginEvent  Begin
	rowsEvent   Rows
	queryEvent  Query
	commitEvent Commit
	rotateEvent Rotate
	heartbeat   Heartbeat
}

// tablesKept bounds the table maps that are remembered.
const tablesKept = 16 << 10

// Next gives the next event. When ctx ends it gives ctx's error and can be called again; any other error has ended the
// stream and is given from then on.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	for {
		event, err := s.read(ctx)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			s.err = err
			return nil, err
		}
		out, err := s.take(event)
		if err != nil {
			s.err = s.located(err)
			return nil, s.err
		}
		if out != nil {
			return out, nil
		}
	}
}

// Ready tells whether Next has something to work on without waiting for the network: a whole event has come already, or
// a compressed transaction is being unpacked.
func (s *Stream) Ready() bool { return s.err == nil && (s.payload.active || s.wire.ready()) }

// Close ends the connection; a Next that waits ends with an error.
func (s *Stream) Close() error {
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close the binlog connection: %w", err)
	}
	return nil
}

// Offset is the restart point behind the event that Next has returned last. It makes the GTID set's text: take it for
// each mark, not for each record.
func (s *Stream) Offset() Offset {
	o := Offset{File: s.rest.File, Pos: s.rest.Offset, GTIDs: s.gtids(), ServerID: s.serverID, Seconds: s.seconds}
	switch {
	case s.resuming:
		return s.resume
	case s.open && s.events <= s.skip:
		o.File, o.Pos, o.Event, o.Row = s.begin.File, s.begin.Offset, s.skip, s.skipRow
	case s.open:
		o.File, o.Pos, o.Event = s.begin.File, s.begin.Offset, s.events
	}
	return o
}

// OffsetInRows is the restart point when the first done rows of the Rows that Next has returned last are done.
func (s *Stream) OffsetInRows(done int) Offset {
	o := s.Offset()
	o.Event, o.Row = s.inRows, done
	return o
}

// Before is the restart point before the Query that Next has returned last: it comes again.
func (s *Stream) Before() Offset { return s.before }

// Place is how far the stream has come, for comparing with the server's.
func (s *Stream) Place() Position { return Position{s.file, s.pos} }

func (s *Stream) gtids() string {
	if !s.tracked {
		return ""
	}
	if s.text == "" {
		s.text = s.set.String()
	}
	return s.text
}

// located adds the place to an error about an event.
func (s *Stream) located(err error) error {
	var own *Error
	if !errors.As(err, &own) {
		own = &Error{Class: Corrupt, Err: err}
	}
	if own.At.File == "" && own.Class != Lost {
		own.At = Position{s.file, s.pos}
	}
	return own
}

// read gives the next event without its checksum.
func (s *Stream) read(ctx context.Context) ([]byte, error) {
	if s.payload.active {
		event, err := s.payload.next()
		if !errors.Is(err, io.EOF) {
			return event, s.locate(err)
		}
		if err := s.endPayload(); err != nil {
			return nil, s.located(err)
		}
	}
	if !s.wire.inLong() {
		h, ok, err := s.wire.peek(ctx)
		switch {
		case err != nil:
			return nil, s.locate(err)
		case !ok:
			return nil, &Error{Class: Lost, Err: errors.New("the server has ended the stream")}
		case h.kind == evPayload && h.size > streamedBytes:
			return nil, s.locate(s.streamPayload(ctx, h))
		}
	}
	event, err := s.wire.event(ctx)
	if err != nil {
		return nil, s.locate(err)
	}
	h := parseHeader(event)
	if int(h.size) != len(event) {
		return nil, s.located(corrupt("an event of %d bytes came where %d were announced", len(event), h.size))
	}
	if s.format.checksum && h.kind != evFormat {
		if len(event) < headerSize+checksumSize || !checksumMatches(event) {
			return nil, s.located(fmt.Errorf("an event of type %d is damaged: %w", h.kind, errChecksum))
		}
		event = event[:len(event)-checksumSize]
	}
	return event, nil
}

// locate is located for what may be the end of a context.
func (s *Stream) locate(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.located(err)
}

// streamPayload begins a compressed transaction that is too large to hold.
func (s *Stream) streamPayload(ctx context.Context, h header) error {
	s.wire.open(ctx)
	var head [headerSize]byte
	if _, err := io.ReadFull(&s.wire, head[:]); err != nil {
		return err
	}
	size := int64(h.size) - headerSize
	if s.format.checksum {
		size -= checksumSize
	}
	s.outer.At, s.outer.streamed = s.place(h), true
	return s.payload.start(&s.wire, size)
}

// endPayload reads what is behind a compressed transaction's events: its checksum.
func (s *Stream) endPayload() error {
	if !s.outer.streamed {
		return nil
	}
	s.outer.streamed = false
	if _, err := io.Copy(io.Discard, &s.payload.source); err != nil {
		return err
	}
	if !s.format.checksum {
		return nil
	}
	want := s.wire.crc
	var sum [checksumSize]byte
	if _, err := io.ReadFull(&s.wire, sum[:]); err != nil {
		return err
	}
	c := cursor{b: sum[:]}
	if c.u32() != want {
		return errChecksum
	}
	return nil
}

// place finds where an event stands and moves the stream there.
func (s *Stream) place(h header) At {
	at := At{File: s.file, Start: s.pos, End: s.pos, ServerID: h.serverID, Seconds: h.seconds}
	switch {
	case h.flags&flagArtificial != 0 || h.kind == evHeartbeat || h.kind == evHeartbeatV2:
		return at
	case h.end == 0:
		if h.kind == evRotate || h.kind == evFormat { // made up for the connection by servers that don't say so
			return at
		}
		at.End = s.pos + uint64(h.size)
	default:
		at.End = s.pos&^(1<<32-1) | uint64(h.end)
		if at.End < s.pos && s.pos-at.End > 1<<31 {
			at.End += 1 << 32
		}
		at.Start = at.End - min(uint64(h.size), at.End)
	}
	s.pos = max(s.pos, at.End)
	return at
}

// take works on an event, with its header, and gives what Next returns, or nil if there is nothing to return.
func (s *Stream) take(event []byte) (Event, error) {
	if event == nil {
		return nil, nil // a compressed transaction has begun
	}
	if len(event) < headerSize {
		return nil, corrupt("an event of %d bytes is too short", len(event))
	}
	h := parseHeader(event)
	body := event[headerSize:]
	at := s.outer.At
	if !s.payload.active {
		at = s.place(h)
	}
	if s.dropUntil > 0 && h.kind != evFormat && h.kind != evRotate {
		if at.Start < s.dropUntil {
			return nil, nil
		}
		s.dropUntil = 0
	}
	ordinal := s.events
	if s.open && (h.kind != evAnnotate || s.cfg.Annotate) && h.kind != evHeartbeat && h.kind != evHeartbeatV2 && h.kind != evPayload {
		s.events++
	}
	switch h.kind {
	case evHeartbeat, evHeartbeatV2:
		s.heartbeat.At = at
		return &s.heartbeat, s.takeHeartbeat(h, body)
	case evFormat:
		return s.takeFormat(event)
	case evRotate:
		return s.takeRotate(h, at, body)
	}
	if h.flags&flagArtificial == 0 {
		s.serverID, s.seconds = h.serverID, int64(h.seconds)
	}
	out, err := s.takeLogged(h, at, body, ordinal)
	if !s.open && !s.next.pending && !s.payload.active {
		s.rest = Position{s.file, s.pos}
	}
	return out, err
}

// takeLogged works on the events that a transaction is made of, and those that stand between transactions.
func (s *Stream) takeLogged(h header, at At, body []byte, ordinal int) (Event, error) {
	switch h.kind {
	case evTableMap:
		return nil, s.takeTableMap(body)
	case evWriteRows, evUpdateRows, evDeleteRows, evWriteRowsV1, evUpdateRowsV1, evDeleteRowsV1, evPartialUpdate,
		evWriteCompressedV1, evUpdateCompressedV1, evDeleteCompressedV1:
		return s.takeRows(h.kind, at, body, ordinal)
	case evXID:
		return s.commit(at, Committed), nil
	case evGTID, evAnonymousGTID, evGTIDTagged:
		return nil, s.takeGTID(h.kind, body)
	case evMariaGTID:
		return s.takeMariaGTID(h, at, body)
	case evQuery, evQueryCompressed:
		return s.takeQuery(h.kind, at, body, ordinal)
	case evXAPrepare:
		return s.takePrepare(at, body)
	case evPayload:
		s.outer.At = at
		return nil, s.payload.start(bytes.NewReader(body), int64(len(body)))
	case evRowsQuery:
		if s.cfg.Annotate && len(body) > 0 {
			s.query = string(body[1:]) // behind a length byte that is too short for most
		}
	case evAnnotate:
		if s.cfg.Annotate {
			s.query = string(body)
		}
	case evPreviousGTIDs, evMariaGTIDList:
		return nil, s.takeSet(h.kind, at, body)
	case evExecuteLoadQuery:
		return nil, &Error{Class: StatementFormat, Err: errors.New("rows were loaded by LOAD DATA, which is logged as a statement, not by rows")}
	case evIncident:
		return nil, takeIncident(body)
	case evStartEncryption:
		return nil, corrupt("the binlog is encrypted, and the server has sent it so")
	}
	return nil, nil
}

func takeIncident(body []byte) error {
	c := cursor{b: body}
	number := c.u16()
	text := c.bytes(int(c.u8()))
	return &Error{Class: Incident, Err: fmt.Errorf("the server has lost events (incident %d): %s", number, text)}
}

func appendNumber(b []byte, n uint64) []byte { return strconv.AppendUint(b, n, 10) }
