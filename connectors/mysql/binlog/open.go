package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// Config is how a stream reaches the server and what it asks for.
type Config struct {
	Dialect Dialect
	// Connect gives a connection that has logged in. The stream owns it.
	Connect func(ctx context.Context) (*client.Conn, error)
	// ServerID is this replica's; no other replica of the server may have it.
	ServerID uint32
	// Heartbeat is how often the server tells that it lives when it has nothing else to tell; after three of them without a
	// word it is taken for dead. 0 leaves both out.
	Heartbeat time.Duration
	// Wanted says whether a table's rows are to be returned; nil: all. It is asked once for each table map.
	Wanted func(database, table string) bool
	// Annotate asks for the statements that made the rows, where the server logs them.
	Annotate bool
	// Source says which sources' transactions of a stored GTID set count (a UUID, or domain-server); nil: all.
	Source func(source string) bool
	Logger *slog.Logger
}

// heartbeatsMissed is after how many silent heartbeats a server is taken for dead.
const heartbeatsMissed = 3

// Open connects and asks for the binlog from start on: by GTIDs where both sides know them, else by file and position; an
// empty start is the server's oldest transaction. It returns when the server has agreed, so an offset that the server
// can't serve any more is an error of Open (Purged, Diverged).
func Open(ctx context.Context, cfg Config, start Offset) (*Stream, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	stored, err := ParseSet(cfg.Dialect, start.GTIDs)
	if err != nil {
		return nil, &Error{Class: Corrupt, Err: err}
	}
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for the binlog: %w", err)
	}
	s := &Stream{cfg: cfg, conn: conn, set: stored, tracked: start.GTIDs != "", resume: start, tables: make(map[uint64]*TableMap)}
	s.rest = Position{start.File, start.Pos}
	s.serverID, s.seconds = start.ServerID, start.Seconds
	s.resuming = start.Event > 0 || start.Row > 0
	if err := s.dump(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// dump prepares the session, sends the command and waits for the server's answer.
func (s *Stream) dump(ctx context.Context) error {
	// The client library's own calls know no context; closing the connection ends them.
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	byGTID, err := s.prepare()
	if err == nil {
		err = s.send(byGTID)
	}
	if !stop() {
		return fmt.Errorf("ask for the binlog: %w", ctx.Err())
	}
	if err != nil {
		return err
	}
	s.wire = wire{conn: s.conn.Conn.Conn, buf: make([]byte, wireBufferBytes), seq: s.conn.Sequence, silence: heartbeatsMissed * s.cfg.Heartbeat}
	_, ok, err := s.wire.peek(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return s.explain(err, byGTID)
	case err == nil && !ok:
		return &Error{Class: Lost, Err: errors.New("the server has ended the stream at once")}
	}
	return err
}

// prepare reads what the server has and sets the session's variables; it says whether transactions are asked for by GTID.
func (s *Stream) prepare() (byGTID bool, err error) {
	state, err := s.serverState()
	if err != nil {
		return false, err
	}
	s.format = format{checksum: strings.EqualFold(state.checksum, "CRC32"), tableIDSize: 6}
	commands := []string{fmt.Sprintf("SET @master_binlog_checksum = '%s', @source_binlog_checksum = '%[1]s'", state.checksum)}
	if s.cfg.Heartbeat > 0 {
		commands = append(commands, fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %[1]d", s.cfg.Heartbeat.Nanoseconds()))
	}
	if s.cfg.Dialect == MariaDB {
		byGTID = s.tracked
		s.annotated = s.cfg.Annotate || state.zeroPlaces
		commands = append(commands, "SET @mariadb_slave_capability = 4")
		if byGTID {
			s.set = s.set.Filter(s.cfg.Source)
			commands = append(commands, "SET @slave_connect_state = '"+s.set.String()+"'", "SET @slave_gtid_strict_mode = 1")
		}
	} else if byGTID = state.gtids && (s.tracked || s.resume.File == ""); byGTID {
		s.tracked = true
		if err := s.checkSets(state); err != nil {
			return false, err
		}
	}
	for _, command := range commands {
		if _, err := s.conn.Execute(command); err != nil {
			return false, fmt.Errorf("prepare for the binlog: %s: %w", command, err)
		}
	}
	return byGTID, nil
}

// serverState is what of a server's variables matters to a stream.
type serverState struct {
	checksum         string
	gtids            bool // MySQL: gtid_mode=ON
	purged, executed GTIDSet
	zeroPlaces       bool // MariaDB: events don't tell where they end
}

func (s *Stream) serverState() (serverState, error) {
	var state serverState
	query := "SELECT @@global.binlog_checksum, @@global.gtid_mode, @@global.gtid_purged, @@global.gtid_executed, version()"
	if s.cfg.Dialect == MariaDB {
		query = "SELECT @@global.binlog_checksum, 'OFF', '', '', version()"
	}
	result, err := s.conn.Execute(query)
	if err != nil {
		return state, fmt.Errorf("read the server's binlog settings: %w", err)
	}
	defer result.Close()
	var texts [5]string
	for i := range texts {
		text, err := result.GetString(0, i)
		if err != nil {
			return state, fmt.Errorf("read the server's binlog settings: %w", err)
		}
		texts[i] = strings.Clone(text) // it lies in memory that the library uses again
	}
	state.checksum = texts[0]
	state.gtids = strings.EqualFold(texts[1], "ON")
	if state.purged, err = ParseSet(s.cfg.Dialect, texts[2]); err != nil {
		return state, err
	}
	if state.executed, err = ParseSet(s.cfg.Dialect, texts[3]); err != nil {
		return state, err
	}
	major, minor := version(texts[4])
	state.zeroPlaces = s.cfg.Dialect == MariaDB && (major > 11 || major == 11 && minor >= 4)
	return state, nil
}

func version(text string) (major, minor int) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if len(fields) >= 2 {
		major, _ = strconv.Atoi(fields[0])
		minor, _ = strconv.Atoi(fields[1])
	}
	return major, minor
}

// checkSets makes the set to ask for, and sees whether the server still has what comes next.
func (s *Stream) checkSets(state serverState) error {
	stored := s.set
	s.set = resumeSet(stored, state.purged, s.cfg.Source)
	if missing := state.purged.Subtract(s.set); !missing.Empty() {
		return &Error{Class: Purged, Missing: missing,
			Err: fmt.Errorf("the server has deleted transactions that weren't read yet: %s", missing)}
	}
	if ahead := s.set.Subtract(state.executed); !ahead.Empty() {
		s.cfg.Logger.Warn("the server doesn't have transactions that were read before: it is a replica that lags behind, or they are lost",
			"transactions", ahead.String())
	}
	return nil
}

// explain adds to a refusal what was asked for.
func (s *Stream) explain(err error, byGTID bool) error {
	var own *Error
	if !errors.As(err, &own) || own.Class == Lost {
		return err
	}
	if byGTID {
		own.Err = fmt.Errorf("asked for what follows the transactions %s: %w", s.set, own.Err)
	} else {
		own.At = s.rest
	}
	return own
}

// Flags of the dump commands.
const (
	dumpHeartbeatV2 = 2 // MySQL: heartbeats tell the place in 64 bits
	dumpAnnotate    = 2 // MariaDB
	firstEvent      = 4 // a file's first event, behind its magic number
)

// send writes the dump command.
func (s *Stream) send(byGTID bool) error {
	s.conn.ResetSequence()
	b := make([]byte, packetHeader, 256)
	switch {
	case byGTID && s.cfg.Dialect == MySQL:
		set := s.set.encode()
		b = append(b, mysql.COM_BINLOG_DUMP_GTID)
		b = binary.LittleEndian.AppendUint16(b, dumpHeartbeatV2)
		b = binary.LittleEndian.AppendUint32(b, s.cfg.ServerID)
		b = binary.LittleEndian.AppendUint32(b, 0) // no file name
		b = binary.LittleEndian.AppendUint64(b, firstEvent)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(set)))
		b = append(b, set...)
	default:
		file, pos, flags := s.rest.File, max(s.rest.Offset, firstEvent), uint16(0)
		if byGTID {
			file, pos = "", firstEvent // @slave_connect_state says where
		}
		if pos > 1<<32-1 { // more than the protocol can ask for: what comes before is read and dropped
			s.dropUntil, pos = pos, firstEvent
		}
		if s.cfg.Dialect == MariaDB && s.annotated {
			flags = dumpAnnotate
		}
		b = append(b, mysql.COM_BINLOG_DUMP)
		b = binary.LittleEndian.AppendUint32(b, uint32(pos))
		b = binary.LittleEndian.AppendUint16(b, flags)
		b = binary.LittleEndian.AppendUint32(b, s.cfg.ServerID)
		b = append(b, file...)
	}
	if err := s.conn.WritePacket(b); err != nil {
		return lost(err)
	}
	return nil
}
