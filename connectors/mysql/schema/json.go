package schema

import (
	"strconv"
	"unicode/utf8"

	"github.com/weirlog/weir/connect"
)

// Append appends a record's JSON as Debezium writes it: indented by two blanks, fields
// in its order, lists on one line with the brackets of what is in them.
func (f Format) Append(dst []byte, r *HistoryRecord) []byte {
	w := &writer{out: dst}
	w.open('{')
	w.field("source")
	w.offset(r.Source)
	w.field("position")
	w.offset(r.Position)
	w.field("ts_ms")
	w.number(r.Millis)
	w.text("databaseName", r.Database)
	if r.DDL != "" {
		w.text("ddl", r.DDL)
	}
	w.field("tableChanges")
	w.open('[')
	for i := range r.Changes {
		w.element()
		f.change(w, &r.Changes[i])
	}
	w.close(']')
	w.close('}')
	return w.out
}

func (f Format) change(w *writer, c *TableChange) {
	w.open('{')
	w.text("type", changeNames[c.Type])
	w.text("id", quotedID(c.ID))
	if c.Previous != (TableID{}) {
		w.text("previousId", quotedID(c.Previous))
	}
	if c.Table != nil {
		w.field("table")
		f.table(w, c.Table)
		w.optional("comment", f.Comment(c.Table.Comment))
	}
	w.close('}')
}

// Comment gives what is written of a table's or column's comment: as it stands in SQL
// between quotes, "" where comments aren't asked for.
func (f Format) Comment(text string) string {
	if f.Comments {
		return escapeText(text)
	}
	return ""
}

func (f Format) table(w *writer, t *Table) {
	w.open('{')
	w.optional("defaultCharsetName", t.Charset)
	w.field("primaryKeyColumnNames")
	w.strings(t.PrimaryKey)
	w.field("columns")
	w.open('[')
	for i := range t.Columns {
		w.element()
		f.column(w, &t.Columns[i])
	}
	w.close(']')
	w.field("attributes")
	w.strings(nil)
	w.close('}')
}

func (f Format) column(w *writer, c *Column) {
	w.open('{')
	w.text("name", c.Name)
	w.field("jdbcType")
	w.number(int64(c.JDBCType))
	w.text("typeName", c.TypeName)
	w.text("typeExpression", c.TypeExpression)
	w.optional("charsetName", c.Charset)
	if c.HasLength {
		w.field("length")
		w.number(int64(c.Length))
	}
	if c.HasScale {
		w.field("scale")
		w.number(int64(c.Scale))
	}
	w.field("position")
	w.number(int64(c.Position))
	w.bool("optional", c.Optional)
	w.bool("autoIncremented", f.automatic(c))
	w.bool("generated", f.automatic(c))
	w.optional("comment", f.Comment(c.Comment))
	w.bool("hasDefaultValue", c.HasDefault)
	if c.Default != nil {
		w.text("defaultValueExpression", escapeText(*c.Default))
	}
	w.field("enumValues")
	w.strings(quoteLabels(c.EnumValues))
	w.close('}')
}

// automatic is what Debezium calls autoIncremented and generated alike: its parser of
// MySQL's statements takes ON UPDATE CURRENT_TIMESTAMP for it too.
func (f Format) automatic(c *Column) bool {
	return c.AutoIncrement || c.OnUpdateNow && f.Dialect == MySQL
}

// quoteLabels writes labels as SQL, as Debezium keeps them.
func quoteLabels(labels []string) []string {
	out := make([]string, len(labels))
	for i, label := range labels {
		out[i] = "'" + escapeText(label) + "'"
	}
	return out
}

// writer writes JSON as Jackson's default printer does.
type writer struct {
	out   []byte
	depth int
	first bool // nothing stands yet in what was opened last
}

func (w *writer) open(c byte) {
	w.out = append(w.out, c)
	if c == '{' {
		w.depth++
	}
	w.first = true
}

func (w *writer) close(c byte) {
	if c == '}' {
		w.depth--
	}
	if w.first || c == ']' {
		w.out = append(w.out, ' ')
	} else {
		w.newline()
	}
	w.out = append(w.out, c)
	w.first = false
}

func (w *writer) newline() {
	w.out = append(w.out, '\n')
	for range w.depth {
		w.out = append(w.out, ' ', ' ')
	}
}

// element begins an element of a list.
func (w *writer) element() {
	if !w.first {
		w.out = append(w.out, ',')
	}
	w.out = append(w.out, ' ')
	w.first = false
}

func (w *writer) field(name string) {
	if !w.first {
		w.out = append(w.out, ',')
	}
	w.newline()
	w.first = false
	w.out = appendJSONText(w.out, name)
	w.out = append(w.out, " : "...)
}

func (w *writer) text(name, value string) {
	w.field(name)
	w.out = appendJSONText(w.out, value)
}

// optional writes "" as null.
func (w *writer) optional(name, value string) {
	if value != "" {
		w.text(name, value)
		return
	}
	w.field(name)
	w.out = append(w.out, "null"...)
}

func (w *writer) number(n int64) { w.out = strconv.AppendInt(w.out, n, 10) }

func (w *writer) bool(name string, value bool) {
	w.field(name)
	w.out = strconv.AppendBool(w.out, value)
}

func (w *writer) strings(list []string) {
	w.open('[')
	for _, s := range list {
		w.element()
		w.out = appendJSONText(w.out, s)
	}
	w.close(']')
}

func (w *writer) offset(m connect.OffsetMap) {
	w.open('{')
	for _, e := range m {
		w.field(e.Name)
		switch v := e.Value; v.Kind() {
		case connect.String:
			w.out = appendJSONText(w.out, v.Str())
		case connect.Bool:
			w.out = strconv.AppendBool(w.out, v.Bool())
		case connect.Null:
			w.out = append(w.out, "null"...)
		default:
			w.number(v.Int())
		}
	}
	w.close('}')
}

// appendJSONText appends a string with the escapes that Jackson uses; what isn't UTF-8
// becomes U+FFFD.
func appendJSONText(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
