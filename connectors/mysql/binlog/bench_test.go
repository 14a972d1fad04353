package binlog

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// BenchmarkRemote reads a million rows of about 200 bytes, a hundred to a transaction, from a real server, beside what the
// server's own program does with the same when it throws them away.
func BenchmarkRemote(b *testing.B) {
	for _, d := range []Dialect{MySQL, MariaDB} {
		b.Run(d.String(), func(b *testing.B) {
			srv, start, bytes := loaded(b, d)
			last := srv.here(b)
			b.Run("stream", func(b *testing.B) {
				b.SetBytes(bytes)
				b.ReportAllocs()
				cfg := srv.config("load")
				cfg.Wanted = nil
				rows := 0
				for b.Loop() {
					cfg.ServerID++
					s := open(b, cfg, start)
					rows = 0
					for s.Place() != (Position{last.File, last.Pos}) {
						e, err := s.Next(b.Context())
						if err != nil {
							b.Fatal(err)
						}
						if _, ok := e.(*Rows); ok {
							rows++
						}
					}
					_ = s.Close()
				}
				b.ReportMetric(float64(rows), "events")
			})
			b.Run("program", func(b *testing.B) {
				b.SetBytes(bytes)
				tool := map[Dialect]string{MySQL: "mysqlbinlog", MariaDB: "mariadb-binlog"}[d]
				for b.Loop() {
					cmd := exec.Command("../../../e2e/services/"+d.String()+".sh", "tool", tool, "--read-from-remote-server", "--host=127.0.0.1",
						fmt.Sprintf("--port=%d", srv.port), "--user=weir", "--password=weir", fmt.Sprintf("--start-position=%d", start.Pos), "--to-last-log", start.File)
					var errs strings.Builder
					null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
					if err != nil {
						b.Fatal(err)
					}
					cmd.Stdout, cmd.Stderr = null, &errs
					if err := cmd.Run(); err != nil {
						b.Fatalf("%v: %s", err, errs.String())
					}
					_ = null.Close()
				}
			})
		})
	}
}

// loaded gives a server with a binlog to read, where it begins and how long it is.
func loaded(b *testing.B, d Dialect) (*server, Offset, int64) {
	b.Helper()
	shared.Lock()
	srv, err := makeServer(d, "--max-binlog-size=1073741824")
	shared.Unlock()
	if err == nil {
		err = srv.start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.stop)
	srv.exec(b, "CREATE DATABASE load_", "CREATE TABLE load_.a (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)", "FLUSH BINARY LOGS")
	start := srv.here(b)
	row := "(1,REPEAT('c',120),REPEAT('p',60))"
	insert := "INSERT INTO load_.a (k,c,pad) VALUES " + row + strings.Repeat(","+row, 99)
	statements := make([]string, 10_000)
	for i := range statements {
		statements[i] = insert
	}
	srv.exec(b, statements...)
	return srv, start, int64(srv.here(b).Pos - start.Pos)
}
