package binlog

// Event is one of *Begin, *Rows, *Query, *Commit, *Rotate and *Heartbeat. It belongs to the stream and is valid until the
// next Next.
type Event interface{ at() *At }

// Begin is the first event of a transaction.
type Begin struct {
	At
	GTID string // uuid:number, uuid:tag:number or domain-server-sequence; "" where the server gives none
	// When the transaction was committed, in microseconds of Unix time: on the server where it was made, and on the one that
	// is read. 0 where the server doesn't write it (MariaDB, MySQL before 8.0.1).
	OriginalMicros, ImmediateMicros uint64
	Thread                          uint32 // of the session, 0 if unknown
	XA                              bool   // begins a transaction in two phases: its rows may yet be rolled back after Commit
}

// RowsKind says what a Rows event does with its rows.
type RowsKind uint8

// The kinds of Rows.
const (
	Insert RowsKind = iota
	Update
	Delete
)

// Rows is the rows that one event of a statement inserts, changes or deletes, still as the server has packed them.
type Rows struct {
	At
	Table *TableMap
	Kind  RowsKind
	// Partial: the rows after an update may have JSON columns as a list of changes (binlog_row_value_options).
	Partial bool
	// Present has a bit for each column of the table that the rows have (binlog_row_image); for an update this is the
	// rows before, and PresentAfter the rows after. Nil PresentAfter means there is none.
	Present, PresentAfter []byte
	Columns               int
	Data                  []byte // the rows, one behind the other
	// Skip is how many rows at the front an earlier run has done: they are decoded and dropped.
	Skip int
	// Query is the statement where the server writes it and Config.Annotate asks for it, else "".
	Query string
}

// QueryKind says what a Query is.
type QueryKind uint8

// The kinds of Query.
const (
	// Statement is DDL, or another statement that has no rows.
	Statement QueryKind = iota
	// Change inserts, changes or deletes rows as a statement's text: the session's binlog_format isn't ROW, and which rows
	// it meant can't be known. [Query.Unreadable] is the error for it.
	Change
	// Savepoint sets or releases a savepoint.
	Savepoint
	// RollbackTo undoes the rows since a savepoint; the server writes it only when rows of tables without transactions,
	// which stay, are among them.
	RollbackTo
	// XACommit and XARollback end a transaction that was prepared earlier.
	XACommit
	XARollback
)

// Query is a statement that the server has logged as its text.
type Query struct {
	At
	Kind          QueryKind
	GTID          string // of the transaction that it is, or is part of
	Database      string // the session's default database
	SQL           string
	Thread        uint32
	InTransaction bool // between Begin and Commit; else it is a transaction of its own
	Vars          SessionVars
	// OriginalMicros and ImmediateMicros are as in Begin.
	OriginalMicros, ImmediateMicros uint64
}

// SessionVars is what of the session a statement's meaning depends on.
type SessionVars struct {
	HasSQLMode bool
	SQLMode    uint64 // the server's bits
	// Collation numbers; 0 if unknown. Client is what the statement's text is written in.
	Client, Connection, Server, Database uint16
}

// CommitKind says how a transaction ended.
type CommitKind uint8

// The kinds of Commit.
const (
	// Committed is the usual end.
	Committed CommitKind = iota
	// Prepared: the first phase of an XA transaction; a Query XACommit or XARollback follows, perhaps much later.
	Prepared
	// RolledBack: the server has logged a transaction only for the tables without transactions in it. Rows of other tables
	// were undone.
	RolledBack
)

// Commit is the last event of a transaction.
type Commit struct {
	At
	Kind CommitKind
	GTID string
}

// Rotate says that the next events are in another file.
type Rotate struct {
	At
	Next Position
}

// Heartbeat says that the server lives and has nothing to tell.
type Heartbeat struct{ At }
