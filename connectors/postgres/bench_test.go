package postgres

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// benchRead polls until n records have come, keeping none, and gives the rate.
func benchRead(b *testing.B, r *runner, n int) {
	b.Helper()
	got := 0
	start := time.Now()
	for got < n {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		batch, err := r.task.Poll(ctx)
		cancel()
		if err != nil {
			b.Fatal(err)
		}
		got += len(batch.Records)
	}
	b.ReportMetric(float64(got)/time.Since(start).Seconds(), "records/s")
	b.ReportMetric(0, "ns/op")
}

const benchTable = `CREATE TABLE t (id bigint PRIMARY KEY, a int, b text, c numeric(12,2), d timestamptz, e bool)`
const benchRow = `i, i % 1000, 'a text of a usual length, some forty bytes ' || i, i * 1.25, now(), true`

// BenchmarkStream reads 200,000 inserts, 100 a transaction, from a server on the same machine.
func BenchmarkStream(b *testing.B) {
	const rows = 200_000
	for range b.N {
		d := newDB(b)
		d.exec(benchTable)
		r := newRunner(b, d.config("snapshot.mode", "no_data")).open()
		r.Until("the slot is there", func() bool { return r.Stored != nil })
		d.exec("SELECT pg_create_logical_replication_slot('" + r.Config["slot.name"] + "_raw', 'pgoutput')")
		d.exec(`DO $$ BEGIN FOR k IN 0..1999 LOOP INSERT INTO t SELECT ` + benchRow + ` FROM generate_series(k * 100 + 1, k * 100 + 100) i; COMMIT; END LOOP; END $$`)
		benchRead(b, r, rows)
		r.Close()
		b.ReportMetric(float64(rows)/receiveRaw(b, d, r.Config["slot.name"]+"_raw").Seconds(), "pg_recvlogical/s")
	}
}

// receiveRaw lets pg_recvlogical read the same changes into /dev/null.
func receiveRaw(b *testing.B, d *db, slot string) time.Duration {
	b.Helper()
	bin, err := programs()
	if err != nil {
		b.Fatal(err)
	}
	end := d.rows("SELECT pg_current_wal_lsn()")[0][0]
	d.exec("INSERT INTO t (id) VALUES (0)") // WAL beyond the end
	cmd := exec.Command(filepath.Join(bin, "pg_recvlogical"), "-h", "127.0.0.1", "-p", strconv.Itoa(server.port), "-U", "postgres", "-d", d.name, "--slot", slot,
		"--start", "--no-loop", "--endpos", end, "-f", "/dev/null", "-o", "proto_version=1", "-o", "publication_names=dbz_publication")
	cmd.Env = append(os.Environ(), "PGPASSWORD="+serverPassword)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("pg_recvlogical: %v: %s", err, out)
	}
	return time.Since(start)
}

// BenchmarkSnapshot reads a table of 500,000 rows.
func BenchmarkSnapshot(b *testing.B) {
	const rows = 500_000
	for range b.N {
		d := newDB(b)
		d.exec(benchTable + `; INSERT INTO t SELECT ` + benchRow + ` FROM generate_series(1, 500000) i`)
		r := newRunner(b, d.config()).open()
		benchRead(b, r, rows)
		r.Close()
	}
}
