package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// BenchmarkStream reads a backlog of rows of 200 bytes, 100 in each transaction, as the worker does, and gives the records
// away. One operation is one row.
func BenchmarkStream(b *testing.B) {
	for _, dialect := range []binlog.Dialect{binlog.MySQL, binlog.MariaDB} {
		b.Run(dialect.String(), func(b *testing.B) {
			d := newDB(b, dialect)
			d.exec("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL, at timestamp(3) NOT NULL, amount decimal(12,2))")
			r := newRunner(d, d.config("snapshot.mode", "no_data")).open()
			defer r.Close()
			r.Until("the snapshot is marked", func() bool { return r.Stored != nil && !snapshotUnderWay(r.Stored) })
			row := fmt.Sprintf("(7, '%s', '%s', '2026-01-02 03:04:05.678', 1234.56)", strings.Repeat("c", 119), strings.Repeat("p", 59))
			insert := "INSERT INTO t (k, c, pad, at, amount) VALUES " + strings.TrimSuffix(strings.Repeat(row+",", 100), ",")
			for range (b.N + 99) / 100 {
				d.exec(insert)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				batch, err := r.task.Poll(ctx)
				cancel()
				if err != nil && connect.KindOf(context.Background(), err) != connect.KindRetry {
					b.Fatal(err)
				}
				n += len(batch.Records)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
