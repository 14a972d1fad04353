package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

// BenchmarkApply reads a statement that creates a table of twenty columns.
func BenchmarkApply(b *testing.B) {
	c := NewCatalog(MySQL, false, "utf8mb4")
	s := Statement{Database: "d", Text: twenty("t")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Apply(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecover reads and replays the record of a table of twenty columns, as a start
// does for each table.
func BenchmarkRecover(b *testing.B) {
	c := NewCatalog(MySQL, false, "utf8mb4")
	changes, err := c.Apply(Statement{Database: "d", Text: twenty("t")})
	if err != nil {
		b.Fatal(err)
	}
	r := changes[0].Record(connect.OffsetMap{}, connect.OffsetMap{}, 1)
	data := Format{Dialect: MySQL}.Append(nil, &r)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r, err := ParseRecord(data)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Replay(r); err != nil {
			b.Fatal(err)
		}
	}
}

func twenty(name string) string {
	columns := []string{"id bigint unsigned NOT NULL AUTO_INCREMENT"}
	for i := range 19 {
		columns = append(columns, fmt.Sprintf("`column_%d` varchar(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'value'", i))
	}
	return "CREATE TABLE `" + name + "` (" + strings.Join(columns, ",\n  ") + ",\n PRIMARY KEY (id)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
}
