package binlog

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Class is what an error asks for. The list is closed.
type Class uint8

// The classes of errors.
const (
	// Other: nothing is known about it.
	Other Class = iota
	// Lost: the connection or the server went away. Connect again and go on from the offset.
	Lost
	// Purged: the server has deleted what would come next. Only a new snapshot helps.
	Purged
	// DuplicateServerID: another replica has connected with the same id, and each throws the other out.
	DuplicateServerID
	// Diverged: the offset names transactions or a place that this server never had.
	Diverged
	// Incident: the server says that its binlog lacks changes.
	Incident
	// StatementFormat: rows were changed by a statement that is logged as its text.
	StatementFormat
	// Corrupt: what came isn't a binlog, or is damaged.
	Corrupt
	// Denied: the user lacks a right, or its password is wrong.
	Denied
)

// String names the class.
func (c Class) String() string {
	return [...]string{"other", "lost", "purged", "duplicate server id", "diverged", "incident", "statement format", "corrupt", "denied"}[c]
}

// Error is an error of this package. Its text says what can be done.
type Error struct {
	Class   Class
	At      Position // where in the binlog, if known
	Missing GTIDSet  // of Purged by GTID: what the server no longer has
	Err     error
}

// Error gives the reason, the place and the way out.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.At.File != "" {
		text = fmt.Sprintf("binlog %s: %s", e.At, text)
	}
	if way := e.Class.wayOut(); way != "" {
		text += "; " + way
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// wayOut says what the user can do about a class of errors.
func (c Class) wayOut() string {
	switch c {
	case Purged:
		return "take a new snapshot (snapshot.mode=when_needed does it by itself), and let the server keep its binlog longer: " +
			"SET PERSIST binlog_expire_logs_seconds = 604800 (MariaDB: SET GLOBAL binlog_expire_logs_seconds = 604800)"
	case DuplicateServerID:
		return "give each connector and replica of the server a database.server.id of its own"
	case Diverged:
		return "connect to a server that has all transactions of the offset, or take a new snapshot"
	case Incident:
		return "changes are missing from the binlog: take a new snapshot"
	case StatementFormat:
		return "set binlog_format = ROW on the server and in every session that sets its own, and take a new snapshot of the table"
	}
	return ""
}

// Classify says what an error of this package, of the client library or of the network asks for.
func Classify(err error) Class {
	var own *Error
	if errors.As(err, &own) {
		return own.Class
	}
	var server *mysql.MyError
	if errors.As(err, &server) {
		return classOf(server)
	}
	var network net.Error
	switch {
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, mysql.ErrBadConn), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Lost
	}
	return Other
}

// Error numbers of servers.
const (
	erConCount           = 1040
	erHandshake          = 1043
	erDBAccessDenied     = 1044
	erAccessDenied       = 1045
	erServerShutdown     = 1053
	erHostNotPrivileged  = 1130
	erTableAccessDenied  = 1142
	erAbortingConnection = 1152
	erNetReadError       = 1158
	erNetReadInterrupted = 1159
	erNetWriteError      = 1160
	erNetWriteTimeout    = 1161
	erNewAborting        = 1184
	erLockWaitTimeout    = 1205
	erDeadlock           = 1213
	erUserLimit          = 1226
	erSpecificAccess     = 1227
	erReadingBinlog      = 1236
	erQueryInterrupted   = 1317
	erAccessNoPassword   = 1698
	erConnectionKilled   = 1927 // MariaDB
	erSessionWasKilled   = 3169
	erServerOffline      = 3032
	erSameServerID       = 4052 // MariaDB
)

func classOf(e *mysql.MyError) Class {
	switch e.Code {
	case erConCount, erHandshake, erServerShutdown, erAbortingConnection, erNetReadError, erNetReadInterrupted, erNetWriteError,
		erNetWriteTimeout, erNewAborting, erLockWaitTimeout, erDeadlock, erUserLimit, erQueryInterrupted, erConnectionKilled,
		erSessionWasKilled, erServerOffline:
		return Lost
	case erDBAccessDenied, erAccessDenied, erHostNotPrivileged, erTableAccessDenied, erSpecificAccess, erAccessNoPassword:
		return Denied
	case erSameServerID:
		return DuplicateServerID
	case erReadingBinlog:
		return classOfReading(strings.ToLower(e.Message))
	}
	return Other
}

// classOfReading tells the causes of error 1236 apart; the servers have one number for all and say it in words.
func classOfReading(text string) Class {
	for _, known := range []struct {
		words string
		class Class
	}{
		{"same server_uuid/server_id", DuplicateServerID},
		{"same server-id", DuplicateServerID},
		{"purged", Purged}, // MySQL by GTID; MariaDB by GTID: "… binlog files have been purged"
		{"could not find first log file name", Purged},
		{"could not open log file", Purged},
		{"could not find gtid state", Purged},
		{"has more gtids than", Diverged},
		{"is not in the master's binlog", Diverged},
		{"position > file size", Diverged},
		{"impossible position", Diverged},
		{"errant transaction", Diverged},
		{"max_allowed_packet", Corrupt},
		{"bogus data", Corrupt},
		{"truncated", Corrupt},
		{"corrupt", Corrupt},
	} {
		if strings.Contains(text, known.words) {
			return known.class
		}
	}
	return Other
}

func lost(err error) error { return &Error{Class: Lost, Err: fmt.Errorf("read binlog: %w", err)} }

func corrupt(format string, args ...any) error {
	return &Error{Class: Corrupt, Err: fmt.Errorf(format, args...)}
}

// Unreadable is the error for a Change: its rows can't be known.
func (q *Query) Unreadable() error {
	const shown = 120
	sql := q.SQL
	if len(sql) > shown {
		sql = sql[:shown] + "…"
	}
	return &Error{Class: StatementFormat, At: Position{q.File, q.Start},
		Err: fmt.Errorf("rows of database %s were changed by a statement that is logged as its text, not by rows: %s", q.Database, sql)}
}
