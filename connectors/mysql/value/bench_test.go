package value

import (
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// benchTables are wide tables of each kind of type; numbers/op is what one row costs.
var benchTables = []string{"types.numbers", "types.texts", "types.times", "types.charsets", "beyond.images", "beyond.documents"}

// BenchmarkRow decodes row images.
func BenchmarkRow(b *testing.B) {
	for _, name := range benchTables {
		b.Run(name, func(b *testing.B) {
			table := recorded(b, "mysql")[name]
			_, plan := table.compiled(b, "mysql", name, Modes{})
			e := table.Events[0]
			out := make([]connect.Value, len(plan.codecs))
			var a debezium.Arena
			b.SetBytes(int64(len(e.Data)))
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				a.Release()
				for data := e.Data; len(data) > 0; rows++ {
					var err error
					if data, err = plan.Row(data, e.Present, &a, out); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows)/float64(len(out)), "ns/value")
		})
	}
}

// BenchmarkText decodes rows of a result set.
func BenchmarkText(b *testing.B) {
	for _, name := range benchTables {
		b.Run(name, func(b *testing.B) {
			table := recorded(b, "mysql")[name]
			codecs, _ := table.compiled(b, "mysql", name, Modes{})
			row := table.Select[0]
			var a debezium.Arena
			b.ReportAllocs()
			for b.Loop() {
				a.Release()
				for i, c := range codecs {
					if _, err := c.Text(row[i], &a); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(codecs)), "ns/value")
		})
	}
}
