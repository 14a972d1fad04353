package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirlog/weir/connect"
)

// HistoryRecord is one record of the schema history topic, which the source shares with
// Debezium.
type HistoryRecord struct {
	Source   connect.OffsetMap // {"server": topic prefix}
	Position connect.OffsetMap // the offset before the statement; with "snapshot" in a snapshot
	Millis   int64             // when it was written, ms since the epoch
	Database string            // that the statement belongs to; "" for the server
	DDL      string
	Changes  []TableChange
}

// TableChange is what became of one table.
type TableChange struct {
	Type     ChangeType // ChangeCreate, ChangeAlter or ChangeDrop
	ID       TableID
	Previous TableID // its name before, if it was renamed
	Table    *Table  // nil for ChangeDrop
}

// Format says how structure is written down for Debezium.
type Format struct {
	Dialect  Dialect
	Comments bool // with the comments of tables and columns
}

// Record makes the history's record of a change; source and position are shared.
func (c *Change) Record(source, position connect.OffsetMap, millis int64) HistoryRecord {
	return HistoryRecord{Source: source, Position: position, Millis: millis, Database: c.Database, DDL: c.DDL, Changes: c.TableChanges()}
}

// Recorded says whether the change belongs into the history and the schema change
// topic. Truncated tables keep their structure, and rows are no structure.
func (c *Change) Recorded() bool { return c.Type != ChangeTruncate && c.Type != ChangeRows }

// TableChanges gives what the history and the schema change topic tell of the change:
// nothing, for what isn't about a known table.
func (c *Change) TableChanges() []TableChange {
	switch c.Type {
	case ChangeCreate, ChangeAlter:
		if c.Table == nil {
			return nil
		}
	case ChangeDrop:
	default:
		return nil
	}
	return []TableChange{{Type: c.Type, ID: c.ID, Previous: c.Previous, Table: c.Table}}
}

// changeNames are Debezium's words; what isn't here is in no record.
var changeNames = map[ChangeType]string{ChangeCreate: "CREATE", ChangeAlter: "ALTER", ChangeDrop: "DROP"}

// quotedID writes a table's name as records have it: "database"."table".
func quotedID(id TableID) string {
	quote := func(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
	return quote(id.Database) + "." + quote(id.Name)
}

// parseID reads a table's name as records have it.
func parseID(text string) (TableID, error) {
	c := cursor{text: text, tokens: lex(text, lexer{ansiQuotes: true})}
	if id, ok := c.table(""); ok && c.ended() {
		return id, nil
	}
	return TableID{}, fmt.Errorf("%q is no table's name", text)
}

// recordJSON and what follows mirror the JSON, for reading.
type recordJSON struct {
	Source   connect.OffsetMap `json:"source"`
	Position connect.OffsetMap `json:"position"`
	Millis   int64             `json:"ts_ms"`
	Database string            `json:"databaseName"`
	DDL      string            `json:"ddl"`
	Changes  []changeJSON      `json:"tableChanges"`
}

type changeJSON struct {
	Type     string     `json:"type"`
	ID       string     `json:"id"`
	Previous string     `json:"previousId"`
	Table    *tableJSON `json:"table"`
	Comment  string     `json:"comment"`
}

type tableJSON struct {
	Charset string       `json:"defaultCharsetName"`
	Key     []string     `json:"primaryKeyColumnNames"`
	Columns []columnJSON `json:"columns"`
	Comment string       `json:"comment"`
}

type columnJSON struct {
	Name           string   `json:"name"`
	JDBCType       int      `json:"jdbcType"`
	TypeName       string   `json:"typeName"`
	TypeExpression string   `json:"typeExpression"`
	Charset        string   `json:"charsetName"`
	Length         *int     `json:"length"`
	Scale          *int     `json:"scale"`
	Position       int      `json:"position"`
	Optional       bool     `json:"optional"`
	AutoIncrement  bool     `json:"autoIncremented"`
	Comment        string   `json:"comment"`
	HasDefault     *bool    `json:"hasDefaultValue"`
	Default        *string  `json:"defaultValueExpression"`
	EnumValues     []string `json:"enumValues"`
}

// ParseRecord reads one record. Fields that only newer or older Debezium versions know
// are passed over.
func ParseRecord(data []byte) (*HistoryRecord, error) {
	var in recordJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read a record of the schema history: %w", err)
	}
	r := &HistoryRecord{Source: in.Source, Position: in.Position, Millis: in.Millis, Database: in.Database, DDL: in.DDL}
	for i := range in.Changes {
		change, err := in.Changes[i].change()
		if err != nil {
			return nil, fmt.Errorf("read a record of the schema history: %w", err)
		}
		r.Changes = append(r.Changes, change)
	}
	return r, nil
}

func (in *changeJSON) change() (TableChange, error) {
	out := TableChange{}
	for t, name := range changeNames {
		if name == in.Type {
			out.Type = t
		}
	}
	var err error
	if out.ID, err = parseID(in.ID); err != nil || out.Type == ChangeDatabase {
		return out, fmt.Errorf("a change of type %q of table %s", in.Type, in.ID)
	}
	if in.Previous != "" {
		if out.Previous, err = parseID(in.Previous); err != nil {
			return out, err
		}
	}
	if out.Type == ChangeDrop {
		return out, nil
	}
	if in.Table == nil {
		return out, fmt.Errorf("the change of table %s has no table", in.ID)
	}
	out.Table, err = in.Table.table(out.ID, in.Comment)
	return out, err
}

func (in *tableJSON) table(id TableID, comment string) (*Table, error) {
	t := &Table{ID: id, Charset: charsetName(in.Charset), PrimaryKey: in.Key, Comment: unescapeText(comment)}
	if t.Comment == "" {
		t.Comment = unescapeText(in.Comment)
	}
	for i := range in.Columns {
		c, err := in.Columns[i].column()
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", id, err)
		}
		c.Position = i + 1
		t.Columns = append(t.Columns, c)
	}
	for _, name := range t.PrimaryKey {
		if t.Column(name) == nil {
			return nil, fmt.Errorf("table %s: its key has a column %q that it doesn't have", id, name)
		}
	}
	return t, nil
}

// column reads a column; its kind comes from the words of its type.
func (in *columnJSON) column() (Column, error) {
	p := &parser{cursor: cursor{text: in.TypeName, tokens: lex(in.TypeName, lexer{})}}
	c := Column{Name: in.Name}
	if _, ok := p.typeName(&c); !ok {
		return c, fmt.Errorf("column %q: type %q isn't known", in.Name, in.TypeName)
	}
	p.signs(&c)
	c.TypeName, c.TypeExpression = in.TypeName, in.TypeExpression
	c.JDBCType, c.Charset, c.Comment = in.JDBCType, charsetName(in.Charset), unescapeText(in.Comment)
	c.Length, c.HasLength, c.Scale, c.HasScale = 0, in.Length != nil, 0, in.Scale != nil
	if c.HasLength {
		c.Length = *in.Length
	}
	if c.HasScale {
		c.Scale = *in.Scale
	}
	if c.Kind == Float && c.Length > 24 && !c.HasScale {
		c.Kind = Double
	}
	if c.Charset == "binary" {
		c.setBinary()
	}
	c.Optional, c.AutoIncrement, c.OnUpdateNow = in.Optional, in.AutoIncrement, false
	if in.AutoIncrement && (c.Kind == Timestamp || c.Kind == DateTime) {
		c.AutoIncrement, c.OnUpdateNow = false, true
	}
	c.HasDefault = in.Default != nil || in.HasDefault != nil && *in.HasDefault
	if in.Default != nil {
		text := unescapeText(*in.Default)
		c.Default = &text
	}
	c.EnumValues = append(c.EnumValues, in.labels()...)
	return c, nil
}

// labels gives the labels of ENUM and SET without their quotes. Debezium before 1.6 had
// them in the type's expression only.
func (in *columnJSON) labels() []string {
	if len(in.EnumValues) == 0 && strings.HasSuffix(in.TypeExpression, ")") {
		p := &parser{cursor: cursor{text: in.TypeExpression, tokens: lex(in.TypeExpression, lexer{})}}
		p.next()
		c := Column{}
		p.labels(&c)
		return c.EnumValues
	}
	labels := make([]string, 0, len(in.EnumValues))
	for _, text := range in.EnumValues {
		if t := lex(text, lexer{})[0]; t.kind == stringToken {
			text = t.text
		}
		labels = append(labels, text)
	}
	return labels
}

// escapeText writes a string as it stands in SQL between quotes, as SHOW CREATE TABLE
// has it; unescapeText reads it, and what Debezium took from a statement's text.
func escapeText(text string) string {
	if !strings.ContainsAny(text, "'\\\n\r\x00") {
		return text
	}
	return strings.NewReplacer("'", "''", `\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(text)
}

func unescapeText(text string) string {
	if !strings.ContainsAny(text, `'\`) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			out = appendEscaped(out, text[i])
		case text[i] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
			out = append(out, '\'')
		default:
			out = append(out, text[i])
		}
	}
	return string(out)
}

// Replay moves the catalog on by one record: by its tables, or where it has none (a
// database's charset, a record of an old Debezium) by its statement. A statement that
// isn't understood is an *UnparsedError and changes nothing.
func (c *Catalog) Replay(r *HistoryRecord) error {
	if len(r.Changes) == 0 {
		_, err := c.Apply(Statement{Database: r.Database, Text: r.DDL})
		return err
	}
	for _, change := range r.Changes {
		if change.Previous != (TableID{}) {
			c.Drop(change.Previous)
		}
		if change.Type == ChangeDrop {
			c.Drop(change.ID)
		} else {
			c.Put(change.Table)
		}
	}
	return nil
}
