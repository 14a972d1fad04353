package value

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// recordedTable is what testdata/record wrote of a table of a real server.
type recordedTable struct {
	Create string
	Types  []byte
	Metas  []uint16
	Events []recordedEvent
	Names  []string
	Select [][][]byte
}

type recordedEvent struct {
	Kind                        int // 0 insert, 1 update, 2 delete
	Partial                     bool
	Present, PresentAfter, Data []byte
}

func recorded(t testing.TB, server string) map[string]*recordedTable {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", server+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]*recordedTable
	if err := json.NewDecoder(z).Decode(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

// compiled gives a recorded table's codecs under some modes.
func (r *recordedTable) compiled(t testing.TB, server, name string, modes Modes) ([]*Codec, *Plan) {
	t.Helper()
	dialect := schema.MySQL
	if server == "mariadb" {
		dialect = schema.MariaDB
	}
	database, table, _ := strings.Cut(name, ".")
	structure, err := schema.NewCatalog(dialect, false, "utf8mb4").FromCreate(schema.TableID{Database: database, Name: table}, r.Create)
	if err != nil {
		t.Fatal(err)
	}
	var codecs []*Codec
	var wires []Wire
	for i := range structure.Columns {
		wires = append(wires, Wire{Type: r.Types[i], Meta: r.Metas[i]})
		c, err := Compile(&structure.Columns[i], wires[i], modes)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		codecs = append(codecs, c)
	}
	return codecs, NewPlan(codecs, wires)
}

// change is one row of an event, decoded. Absent columns of after are before's.
type change struct {
	kind          int
	before, after []connect.Value
}

// changes decodes all of a table's events.
func (r *recordedTable) changes(t testing.TB, plan *Plan, known map[int64][]connect.Value, a *debezium.Arena) (out []change) {
	t.Helper()
	width := len(r.Types)
	for _, e := range r.Events {
		for data := e.Data; len(data) > 0; {
			c := change{kind: e.Kind}
			var err error
			if e.Kind != 0 {
				c.before = make([]connect.Value, width)
				if data, err = plan.Row(data, e.Present, a, c.before); err != nil {
					t.Fatal(err)
				}
				if row, ok := known[c.before[0].Int()]; ok { // a row that a short image names by its key
					for i := range row {
						if !Present(e.Present, i) {
							c.before[i] = row[i]
						}
					}
				}
			}
			if e.Kind != 2 {
				c.after = make([]connect.Value, width)
				for i, codec := range plan.codecs {
					if d := codec.Schema.Default; d != nil { // what an insert leaves out got its default
						c.after[i] = *d
					}
				}
				copy(c.after, c.before)
				present := e.PresentAfter
				if e.Kind == 0 {
					present = e.Present
				}
				if e.Partial {
					data, err = plan.PartialRow(data, present, a, c.after)
				} else {
					data, err = plan.Row(data, present, a, c.after)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.before != nil {
				delete(known, c.before[0].Int())
			}
			if c.after != nil {
				known[c.after[0].Int()] = c.after
			}
			out = append(out, c)
		}
	}
	return out
}

var servers = []string{"mysql", "mariadb"}

// allModes has every value of every setting.
var allModes = []Modes{
	{TimeAdjuster: true},
	{Decimal: "string", Binary: "base64", Time: "isostring", BigIntUnsigned: "precise"},
	{Decimal: "double", Binary: "hex", Time: "connect", BigIntUnsigned: "long", TinyInt8: true},
	{Decimal: "precise", Binary: "base64-url-safe", Time: "nanoseconds"},
	{Binary: "bytes", Time: "microseconds"},
}

// TestSnapshotIsStream applies the binlog's changes of every table and compares the rows with those of the SELECT.
func TestSnapshotIsStream(t *testing.T) {
	for _, server := range servers {
		for name, table := range recorded(t, server) {
			for _, modes := range allModes {
				var a debezium.Arena
				codecs, plan := table.compiled(t, server, name, modes)
				rows := map[int64][]connect.Value{}
				table.changes(t, plan, rows, &a)
				if len(rows) != len(table.Select) || len(rows) == 0 {
					t.Fatalf("%s %s: %d rows in the binlog, %d in the table", server, name, len(rows), len(table.Select))
				}
				for _, line := range table.Select {
					id, err := codecs[0].Text(line[0], &a)
					if err != nil {
						t.Fatal(err)
					}
					row, ok := rows[id.Int()]
					if !ok {
						t.Fatalf("%s %s: the binlog has no row %d", server, name, id.Int())
					}
					for i, c := range codecs {
						v, err := c.Text(line[i], &a)
						if err != nil {
							t.Errorf("%s %s %d: %v", server, name, id.Int(), err)
						} else if !v.Equal(row[i]) {
							t.Errorf("%s %s.%s row %d: the table has %.200v (%.100q), the binlog %.200v", server, name, table.Names[i], id.Int(), v, line[i], row[i])
						} else if !fitsSchema(c.Schema, v) {
							t.Errorf("%s %s.%s: %v is not a %v", server, name, table.Names[i], v, c.Schema.Type)
						}
					}
				}
			}
		}
	}
}

// fitsSchema reports whether a value is of its schema's type, all the way down.
func fitsSchema(s *connect.Schema, v connect.Value) bool {
	if v.IsNull() {
		return s.Optional
	}
	if v.Kind() != s.Type {
		return false
	}
	for i, item := range v.Items() {
		inner := s.Elem
		if s.Type == connect.Struct {
			inner = s.Fields[i].Schema
		}
		if !fitsSchema(inner, item) {
			return false
		}
	}
	return true
}

// TestAbsentIsNotNull: what an image lacks keeps its place.
func TestAbsentIsNotNull(t *testing.T) {
	table := recorded(t, "mysql")["beyond.images"]
	_, plan := table.compiled(t, "mysql", "beyond.images", Modes{})
	i := slices.IndexFunc(table.Events, func(e recordedEvent) bool { return e.Kind == 1 })
	e := table.Events[i] // UPDATE images SET a = 11 WHERE id = 1, in the minimal image
	var a debezium.Arena
	mark := connect.StringValue("absent")
	out := slices.Repeat([]connect.Value{mark}, len(table.Types))
	rest, err := plan.Row(e.Data, e.Present, &a, out)
	if err != nil || out[0].Int() != 1 || !out[1].Equal(mark) || !out[5].Equal(mark) {
		t.Fatalf("before: %v %v", out, err)
	}
	out[0] = mark
	rest, err = plan.Row(rest, e.PresentAfter, &a, out)
	if err != nil || len(rest) != 0 || !out[0].Equal(mark) || out[1].Int() != 11 || !out[2].Equal(mark) {
		t.Fatalf("after: %v %v, %d bytes left", out, err, len(rest))
	}
}
