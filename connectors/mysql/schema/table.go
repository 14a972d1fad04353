package schema

import "slices"

// TableID names a table. MySQL compares database and table names by
// lower_case_table_names; a Catalog knows how, a TableID compares exactly.
type TableID struct{ Database, Name string }

// String is Debezium's form of a table's name: database.table, nothing quoted.
func (id TableID) String() string { return id.Database + "." + id.Name }

// Table is one version of a table's structure. It is immutable once handed out:
// its slices belong to it and are only read.
type Table struct {
	ID        TableID
	Charset   string // the table's default character set; "" where it isn't known
	Collation string // its default collation; "" means the charset's own
	Comment   string
	Columns   []Column // in the table's order, Position 1, 2, 3 …
	// PrimaryKey has the columns of the primary key in key order. A table without
	// one, but with a unique index of columns that are all NOT NULL, has that
	// index here, as Debezium's parser does; KeyIsUnique then says so.
	PrimaryKey  []string
	KeyIsUnique bool
	// UniqueKeys are the unique indices whose columns are all NOT NULL, in the
	// order of the table's definition, without the primary key.
	UniqueKeys [][]string
	// Partial says that the structure came from the binlog alone (Overlay of an
	// unknown table): names, signedness, charsets and labels are right as far as
	// binlog_row_metadata gave them; lengths, defaults and comments are not known.
	Partial bool
	// Doubtful says that a statement about the table was not understood: only an event
	// that has names tells what its columns are.
	Doubtful bool

	unique []index // all unique indices of plain columns, also of nullable ones
}

// index is a unique index of a table.
type index struct {
	name    string
	columns []string
	old     bool // while a statement is read: it was there before
}

// Column is one column of a Table.
type Column struct {
	Name     string
	Position int // 1-based
	Kind     Kind
	// TypeName and TypeExpression are the type as Debezium writes it: "INT
	// UNSIGNED", "DECIMAL", "ENUM"; upper case, no length.
	TypeName, TypeExpression string
	JDBCType                 int // java.sql.Types, as Debezium's parser gives it
	// Length is the length or precision in the type's brackets, Scale the second
	// number. ENUM has Length 1, SET the length of all labels joined by commas.
	Length, Scale       int
	HasLength, HasScale bool
	Charset             string // of string types; "" where it has none
	Collation           string // "" means the charset's own
	Comment             string

	Optional      bool // may be NULL
	AutoIncrement bool
	Unsigned      bool
	ZeroFill      bool
	Generated     Generated
	Invisible     bool
	OnUpdateNow   bool // ON UPDATE CURRENT_TIMESTAMP
	Hidden        bool // is in the binlog's rows only: row_start and row_end of MariaDB's versioned tables

	EnumValues []string // labels of ENUM and SET, unquoted, in their order

	// HasDefault says that the column has a default, Default which: a literal's
	// meaning (a string's content, a number as it is written, the digits of b'101'),
	// "1970-01-01 00:00:00" for CURRENT_TIMESTAMP as Debezium has it, nil for NULL and
	// for every other expression.
	HasDefault bool
	Default    *string
	// DefaultIsExpression says that the default is no literal. It is not in the
	// history, so nothing that events depend on may depend on it.
	DefaultIsExpression bool
}

// Generated says how a generated column gets its values.
type Generated uint8

// The forms of generated columns.
const (
	NotGenerated Generated = iota
	Virtual
	Stored
)

// Kind is a column's type, as values are decoded by it.
type Kind uint8

// The kinds of columns, a closed list.
const (
	Unknown Kind = iota
	Boolean      // BOOL in a statement's text; the server's tinyint(1)
	TinyInt
	SmallInt
	MediumInt
	Int
	BigInt
	Decimal
	Float
	Double
	Bit
	Char
	VarChar
	TinyText
	Text
	MediumText
	LongText
	Binary
	VarBinary
	TinyBlob
	Blob
	MediumBlob
	LongBlob
	Enum
	Set
	JSON
	Date
	Time
	DateTime
	Timestamp
	Year
	Geometry
	Point
	LineString
	Polygon
	MultiPoint
	MultiLineString
	MultiPolygon
	GeometryCollection
	Vector
	UUID  // MariaDB
	Inet4 // MariaDB
	Inet6 // MariaDB
	XML   // MariaDB
)

// IsString says whether values are text in the column's charset.
func (k Kind) IsString() bool {
	return k >= Char && k <= LongText || k == Enum || k == Set || k == XML
}

// IsSpatial says whether values are geometries.
func (k Kind) IsSpatial() bool { return k >= Geometry && k <= GeometryCollection }

// Column finds a column by name, in any case of letters as the server does; nil if
// there is none.
func (t *Table) Column(name string) *Column {
	if i := t.index(name); i >= 0 {
		return &t.Columns[i]
	}
	return nil
}

func (t *Table) index(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return sameName(c.Name, name) })
}
