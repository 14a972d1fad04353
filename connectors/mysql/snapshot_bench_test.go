package mysql

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// BenchmarkSnapshot reads a table of rows of 200 bytes as the worker does and gives the records away; one operation is one
// row. client/s is what the server's own client gets of the same SELECT, unbuffered, into /dev/null.
func BenchmarkSnapshot(b *testing.B) {
	for _, dialect := range []binlog.Dialect{binlog.MySQL, binlog.MariaDB} {
		b.Run(dialect.String(), func(b *testing.B) {
			d := newDB(b, dialect)
			d.exec("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL, at timestamp(3) NOT NULL, amount decimal(12,2))")
			row := fmt.Sprintf("(7, '%s', '%s', '2026-01-02 03:04:05.678', 1234.56)", strings.Repeat("c", 119), strings.Repeat("p", 59))
			d.exec("INSERT INTO t (k, c, pad, at, amount) VALUES " + strings.TrimSuffix(strings.Repeat(row+",", 100), ","))
			for n := 100; n < b.N; n *= 2 {
				d.exec(fmt.Sprintf("INSERT INTO t (k, c, pad, at, amount) SELECT k, c, pad, at, amount FROM t LIMIT %d", b.N-n))
			}
			client := clientRate(b, d, b.N)
			r := newRunner(d, d.config("max.batch.size", "8192")).open()
			defer r.Close()
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				batch, err := r.task.Poll(ctx)
				cancel()
				if err != nil {
					b.Fatal(err)
				}
				n += len(batch.Records)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(client, "client/s")
		})
	}
}

// clientRate lets the mariadb client read the rows; 0 where there is none.
func clientRate(b *testing.B, d *db, rows int) float64 {
	program, err := exec.LookPath("mariadb")
	if err != nil {
		return 0
	}
	host, port, _ := strings.Cut(d.server.address, ":")
	cmd := exec.Command(program, "--no-defaults", "--skip-ssl", "-q", "-h", host, "-P", port, "-u", "weir", "-pweir", d.name, "-e", "SELECT * FROM t")
	start := time.Now()
	if out, err := cmd.StderrPipe(); err != nil || out == nil {
		b.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		b.Fatalf("the client: %v", err)
	}
	return float64(rows) / time.Since(start).Seconds()
}
