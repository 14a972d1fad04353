package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/ddl/differences-*.txt anew")

// What we write into the history for a statement is what Debezium wrote, but for the
// differences that testdata/ddl/differences-*.txt lists.
func TestHistoryIsDebeziums(t *testing.T) {
	eachDialect(t, func(t *testing.T, dialect Dialect, steps []step) {
		d := differences{seen: map[string]bool{}}
		format := Format{Dialect: dialect, Comments: dialect == MariaDB} // as Debezium has them by default
		replay(t, dialect, steps, func(_ *Catalog, s *step, changes []Change, _ []error) {
			if s.Beyond {
				return
			}
			var ours, theirs []any
			for i := range changes {
				if changes[i].Recorded() {
					r := changes[i].Record(nil, nil, 0)
					ours = append(ours, essence(t, format.Append(nil, &r)))
				}
			}
			for _, raw := range s.Records {
				theirs = append(theirs, essence(t, raw))
			}
			d.sql = strings.Join(strings.Fields(s.SQL), " ")
			d.compare("", any(ours), any(theirs))
		})
		name := "testdata/ddl/differences-" + strings.ToLower(dialectName(dialect)) + ".txt"
		if *rewrite {
			if err := os.WriteFile(name, d.out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, d.out.Bytes()) {
			t.Errorf("the differences to Debezium are others than in %s:\n%s", name, d.out.Bytes())
		}
	})
}

func dialectName(d Dialect) string { return [...]string{"MySQL", "MariaDB"}[d] }

// differences lists where two trees of JSON differ, each difference once.
type differences struct {
	sql  string
	told string // the statement that stands in out
	seen map[string]bool
	out  bytes.Buffer
}

func (d *differences) compare(path string, ours, theirs any) {
	switch a := ours.(type) {
	case map[string]any:
		if b, ok := theirs.(map[string]any); ok {
			for _, name := range []string{"databaseName", "ddl", "tableChanges", "type", "id", "previousId", "table", "comment",
				"defaultCharsetName", "primaryKeyColumnNames", "columns", "attributes", "name", "jdbcType", "nativeType", "typeName",
				"typeExpression", "charsetName", "length", "scale", "position", "optional", "autoIncremented", "generated",
				"hasDefaultValue", "defaultValueExpression", "enumValues"} {
				d.compare(path+"."+name, a[name], b[name])
			}
			return
		}
	case []any:
		if b, ok := theirs.([]any); ok && len(a) == len(b) {
			for i := range a {
				name := any(i)
				if m, ok := a[i].(map[string]any); ok && m["name"] != nil {
					name = m["name"]
				}
				d.compare(fmt.Sprintf("%s[%v]", path, name), a[i], b[i])
			}
			return
		}
	}
	if a, b := brief(ours), brief(theirs); a != b && !d.seen[path+a+b+d.sql[:min(len(d.sql), 11)]] {
		d.seen[path+a+b+d.sql[:min(len(d.sql), 11)]] = true
		if d.told != d.sql {
			d.told = d.sql
			fmt.Fprintf(&d.out, "%s\n", d.sql)
		}
		fmt.Fprintf(&d.out, "    %s: %s, Debezium %s\n", path, a, b)
	}
}

// brief gives a value in a few words.
func brief(v any) string {
	if list, ok := v.([]any); ok && len(list) > 0 {
		if _, text := list[0].(string); !text {
			return fmt.Sprintf("%d of them", len(list))
		}
	}
	if v == nil {
		return "none"
	}
	if list, ok := v.([]any); ok && len(list) == 0 {
		return "none"
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// essence leaves of a record what doesn't depend on time and place.
func essence(t *testing.T, raw []byte) any {
	var r map[string]any
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"source", "position", "ts_ms"} {
		delete(r, name)
	}
	return any(r)
}

// debeziumsRecords gives the first records that Debezium wrote, byte for byte.
func debeziumsRecords(t *testing.T) [][]byte {
	text, err := os.ReadFile("testdata/history.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, part := range strings.SplitAfter(string(text), "\n}\n") {
		if part != "" {
			out = append(out, []byte(strings.TrimSuffix(part, "\n")))
		}
	}
	if len(out) < 50 {
		t.Fatalf("%d records", len(out))
	}
	return out
}

// Debezium's records, read and written again, are the same bytes.
func TestRecordBytes(t *testing.T) {
	for _, raw := range debeziumsRecords(t) {
		r, err := ParseRecord(raw)
		if err != nil {
			t.Fatal(err)
		}
		if again := (Format{Dialect: MySQL}).Append(nil, r); !bytes.Equal(again, raw) {
			t.Errorf("read and written again:\n%s\nDebezium's:\n%s", again, raw)
		}
	}
}

// A catalog that replays the records of another's changes is equal to it (invariant 3).
func TestReplay(t *testing.T) {
	eachDialect(t, func(t *testing.T, dialect Dialect, steps []step) {
		format := Format{Dialect: dialect, Comments: true}
		again := NewCatalog(dialect, false, "utf8mb4")
		again.SetCharset("ddl", "utf8mb4")
		records := 0
		replay(t, dialect, steps, func(c *Catalog, s *step, changes []Change, _ []error) {
			for i := range changes {
				if !changes[i].Recorded() {
					continue
				}
				r := changes[i].Record(connect.OffsetMap{}, connect.OffsetMap{}, 5)
				read, err := ParseRecord(format.Append(nil, &r))
				if err != nil {
					t.Fatalf("%s: %v", s.SQL, err)
				}
				if err := again.Replay(read); err != nil {
					t.Errorf("%s: %v", s.SQL, err)
				}
				records++
			}
			if len(s.Tables) == 0 {
				return
			}
			if a, b := written(format, again), written(format, c); a != b {
				t.Errorf("%s\n\treplayed:\n%s\n\tapplied:\n%s", s.SQL, a, b)
			}
		})
		if records < 200 {
			t.Errorf("only %d records", records)
		}
	})
}

// written gives all tables of a catalog as the history has them.
func written(f Format, c *Catalog) string {
	r := HistoryRecord{}
	for _, t := range c.Tables() {
		r.Changes = append(r.Changes, TableChange{Type: ChangeCreate, ID: t.ID, Table: t})
	}
	return string(f.Append(nil, &r))
}

// What Debezium calls autoIncremented of a time is ON UPDATE CURRENT_TIMESTAMP.
func TestRecordOnUpdate(t *testing.T) {
	for _, raw := range debeziumsRecords(t) {
		r, err := ParseRecord(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range r.Changes {
			if change.ID.Name != "defaults_of_time" {
				continue
			}
			if c := change.Table.Column("b"); !c.OnUpdateNow || c.AutoIncrement {
				t.Errorf("%+v", c)
			}
			return
		}
	}
	t.Error("no record of defaults_of_time")
}

// Records of older Debezium versions, and what else may stand in a topic.
func TestParseRecord(t *testing.T) {
	r, err := ParseRecord([]byte(`{"source":{"server":"a"},"position":{"file":"b.1","pos":4},"databaseName":"d","ddl":"create table t (a int)"}`))
	if err != nil || r.DDL != "create table t (a int)" || r.Position.Get("pos").Int() != 4 {
		t.Errorf("without changes: %+v, %v", r, err)
	}
	r, err = ParseRecord([]byte(`{"tableChanges":[{"type":"CREATE","id":"\"d\".\"t\"","table":{"defaultCharsetName":null,"primaryKeyColumnNames":[],
		"columns":[{"name":"e","jdbcType":1,"typeName":"ENUM","typeExpression":"ENUM('a','it''s')","charsetName":"latin1","length":1,"position":1,"optional":true,"autoIncremented":false,"generated":false}]}}]}`))
	if err != nil || fmt.Sprint(r.Changes[0].Table.Columns[0].EnumValues) != "[a it's]" {
		t.Errorf("labels in the type: %+v, %v", r, err)
	}
	for _, bad := range []string{``, `[]`, `{"tableChanges":[{"type":"CREATE","id":"t"}]}`, `{"tableChanges":[{"type":"X","id":"\"d\".\"t\""}]}`,
		`{"tableChanges":[{"type":"CREATE","id":"\"d\".\"t\"","table":{"primaryKeyColumnNames":["no"],"columns":[]}}]}`,
		`{"tableChanges":[{"type":"CREATE","id":"\"d\".\"t\"","table":{"columns":[{"name":"a","typeName":"NOTYPE"}]}}]}`} {
		if r, err := ParseRecord([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, r)
		}
	}
}
