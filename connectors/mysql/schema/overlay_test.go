package schema

import (
	"fmt"
	"testing"
)

// known makes a table by its statement.
func known(t *testing.T, sql string) *Table {
	t.Helper()
	c := NewCatalog(MariaDB, false, "utf8mb4")
	changes, err := c.Apply(Statement{Database: "d", Text: sql})
	if err != nil {
		t.Fatal(err)
	}
	return changes[0].Table
}

func outline(t *Table) string {
	if t == nil {
		return "unknown"
	}
	text := ""
	for _, c := range t.Columns {
		text += fmt.Sprintf("%s %s", c.Name, c.TypeName)
		if !c.Optional {
			text += "!"
		}
		if c.Charset != "" {
			text += " " + c.Charset
		}
		if c.HasLength {
			text += fmt.Sprintf("(%d)", c.Length)
		}
		if len(c.EnumValues) > 0 {
			text += fmt.Sprint(c.EnumValues)
		}
		if c.Hidden {
			text += " hidden"
		}
		text += ", "
	}
	return text + fmt.Sprint("key ", t.PrimaryKey)
}

func TestOverlay(t *testing.T) {
	id := MapColumn{Name: "id", Type: wireLong, HasUnsigned: true}
	name := MapColumn{Name: "name", Type: wireVarchar, Meta: 40, Nullable: true, Collation: 45}
	nameless := func(columns ...MapColumn) []MapColumn {
		for i := range columns {
			columns[i].Name = ""
		}
		return columns
	}
	base := known(t, "create table t (id int primary key, name varchar(10))")
	stamp := MapColumn{Type: wireTimestamp2, Meta: 6}
	stamped := func(name string) MapColumn { m := stamp; m.Name = name; return m }
	doubtful := *base
	doubtful.Doubtful = true
	for _, test := range []struct {
		what    string
		table   *Table
		columns []MapColumn
		key     []int
		want    string // "same" for the table itself
	}{
		{"the same", base, []MapColumn{id, name}, []int{0}, "same"},
		{"the same without names", base, nameless(id, name), nil, "same"},
		{"no table", nil, []MapColumn{id, name}, []int{0}, "id INT!, name VARCHAR utf8mb4, key [id]"},
		{"no table, no names", nil, nameless(id, name), nil, "unknown"},
		{"a column more without names", base, nameless(id, name, name), nil, "unknown"},
		{"another type without names", base, nameless(id, id), nil, "unknown"},
		{"doubtful", &doubtful, []MapColumn{id, name}, []int{0}, "same"},
		{"doubtful without names", &doubtful, nameless(id, name), nil, "unknown"},
		{"moved", base, []MapColumn{name, id}, []int{1}, "name VARCHAR utf8mb4(10), id INT!, key [id]"},
		{"added", base, []MapColumn{id, {Name: "d", Type: wireNewDecimal, Meta: 5<<8 | 2, Nullable: true}, name}, []int{0}, "id INT!, d DECIMAL(5), name VARCHAR utf8mb4(10), key [id]"},
		{"dropped, no key", base, []MapColumn{name}, nil, "name VARCHAR utf8mb4(10), key []"},
		{"another type", base, []MapColumn{{Name: "id", Type: wireLongLong, HasUnsigned: true, Unsigned: true}, name}, []int{0}, "id BIGINT UNSIGNED!, name VARCHAR utf8mb4(10), key [id]"},
		{"unsigned", base, []MapColumn{{Name: "id", Type: wireLong, HasUnsigned: true, Unsigned: true}, name}, []int{0}, "id INT UNSIGNED!, name VARCHAR utf8mb4(10), key [id]"},
		{"another charset", base, []MapColumn{id, {Name: "name", Type: wireVarchar, Nullable: true, Collation: 8}}, []int{0}, "id INT!, name VARCHAR latin1(10), key [id]"},
		{"not null", base, []MapColumn{id, {Name: "name", Type: wireVarchar, Collation: 45}}, []int{0}, "id INT!, name VARCHAR! utf8mb4(10), key [id]"},
		{"another key", base, []MapColumn{id, name}, []int{1, 0}, "id INT!, name VARCHAR utf8mb4(10), key [name id]"},
		{"labels", known(t, "create table t (e enum('a', 'b'))"), []MapColumn{{Name: "e", Type: wireString, Meta: wireEnum<<8 | 1, Nullable: true, Collation: 45, Labels: []string{"a", "c"}}}, nil, "e ENUM utf8mb4(1)[a c], key []"},
		{"labels of another charset", known(t, "create table t (e enum('é') charset latin1)"), []MapColumn{{Name: "e", Type: wireString, Meta: wireEnum<<8 | 1, Nullable: true, Collation: 8, Labels: []string{"\xe9"}}}, nil, "same"},
		{"a unique key is one", known(t, "create table t (a int not null unique, b int)"), []MapColumn{{Name: "a", Type: wireLong}, {Name: "b", Type: wireLong, Nullable: true}}, nil, "same"},
		{"versioned", base, nameless(id, name, stamp, stamp), nil, "id INT!, name VARCHAR utf8mb4(10), row_start TIMESTAMP!(6) hidden, row_end TIMESTAMP!(6) hidden, key [id]"},
		{"versioned, with names", base, []MapColumn{id, name, stamped("row_start"), stamped("row_end")}, []int{0}, "id INT!, name VARCHAR utf8mb4(10), row_start TIMESTAMP!(6) hidden, row_end TIMESTAMP!(6) hidden, key [id]"},
		{"kinds", nil, []MapColumn{{Name: "a", Type: wireBlob, Meta: 3, Collation: 63}, {Name: "b", Type: wireBlob, Meta: 1, Collation: 33}, {Name: "c", Type: wireBit, Meta: 1<<8 | 2},
			{Name: "d", Type: wireGeometry, Geometry: 3}, {Name: "e", Type: wireString, Meta: wireSet<<8 | 1, Collation: 33, Labels: []string{"x", "y"}}, {Name: "f", Type: wireJSON}}, nil,
			"a MEDIUMBLOB!, b TINYTEXT! utf8mb3, c BIT!(10), d POLYGON!, e SET! utf8mb3(3)[x y], f JSON!, key []"},
	} {
		got := Overlay(test.table, TableID{"d", "t"}, test.columns, test.key)
		switch {
		case test.want == "same":
			if got != test.table {
				t.Errorf("%s: not the table itself but %s", test.what, outline(got))
			}
		case outline(got) != test.want:
			t.Errorf("%s:\n\t%s\nnot\n\t%s", test.what, outline(got), test.want)
		}
	}
}

func TestCollationCharset(t *testing.T) {
	for number, want := range map[uint64]string{0: "", 8: "latin1", 33: "utf8mb3", 45: "utf8mb4", 63: "binary", 255: "utf8mb4", 309: "utf8mb4", 28: "gbk", 2304: "utf8mb4"} {
		if got := CollationCharset(number); got != want {
			t.Errorf("%d: %q, not %q", number, got, want)
		}
	}
}
