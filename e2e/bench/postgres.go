package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// errorsOf joins errors; nil for none.
func errorsOf(errs ...error) error { return errors.Join(errs...) }

const (
	benchTable = "weir_bench"
	rowsPerTxn = 1000
	patience   = 5 * time.Minute
)

// changes measures how fast inserted rows come out of PostgreSQL's WAL: through weir into a topic, and through
// pg_recvlogical into /dev/null, from two slots with the same options that were made before the rows were written.
func (b *bench) changes(ctx context.Context) error {
	if b.postgres == "" {
		fmt.Println("postgres: not run: no server was named (-pg)")
		return nil
	}
	host, port, err := net.SplitHostPort(b.postgres)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres:%s@%s/postgres", b.password, b.postgres))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := prepare(ctx, conn, b.rows); err != nil {
		return err
	}
	defer cleanUp(context.WithoutCancel(ctx), conn)

	raw, err := b.receiveRaw(ctx, host, port)
	if err != nil {
		return err
	}
	p, err := b.startWeir(ctx)
	if err != nil {
		return err
	}
	weir, cpu, err := b.receiveWeir(ctx, p, host, port)
	_, peak := p.rssMiB()
	if err := errorsOf(err, p.stop()); err != nil {
		return err
	}
	n := float64(b.rows)
	fmt.Printf("pg_recvlogical to /dev/null: %.0f events/s\n", n/raw.Seconds())
	fmt.Printf("weir, PostgreSQL to topic, synced: %.0f events/s = %.2f of pg_recvlogical; %.1f CPU s per million events, peak %.0f MiB\n",
		n/weir.Seconds(), raw.Seconds()/weir.Seconds(), cpu/n*1e6, peak)
	return nil
}

// prepare makes the table, the publication, the two slots and then the rows: nine columns of common types.
func prepare(ctx context.Context, conn *pgx.Conn, rows int) error {
	cleanUp(ctx, conn)
	for _, sql := range []string{
		"CREATE TABLE " + benchTable + " (id bigint PRIMARY KEY, account int, amount numeric(12,2), at timestamptz, day date, ok boolean, name text, note text, score double precision)",
		"CREATE PUBLICATION " + benchTable + " FOR TABLE " + benchTable,
		"SELECT pg_create_logical_replication_slot('weir_bench_raw', 'pgoutput')",
		"SELECT pg_create_logical_replication_slot('weir_bench', 'pgoutput')",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	for from := 0; from < rows; from += rowsPerTxn {
		_, err := conn.Exec(ctx, "INSERT INTO "+benchTable+` SELECT i, i%1000, i*1.25, now(), current_date, i%2=0, 'name '||i, repeat('x', 40), i/3.0::float8
			FROM generate_series($1::bigint, $2::bigint) i`, from, min(from+rowsPerTxn, rows)-1)
		if err != nil {
			return fmt.Errorf("insert rows: %w", err)
		}
	}
	return nil
}

// cleanUp removes what prepare makes; what is not there is fine.
func cleanUp(ctx context.Context, conn *pgx.Conn) {
	for _, sql := range []string{
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'weir_bench%' AND NOT active",
		"DROP PUBLICATION IF EXISTS " + benchTable, "DROP TABLE IF EXISTS " + benchTable,
	} {
		_, _ = conn.Exec(ctx, sql)
	}
}

// receiveRaw lets pg_recvlogical read to the WAL's end of now.
func (b *bench) receiveRaw(ctx context.Context, host, port string) (time.Duration, error) {
	tool := "pg_recvlogical"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_recvlogical"); len(found) > 0 {
		tool = slices.Max(found)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres:%s@%s/postgres", b.password, b.postgres))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	var end string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&end); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, tool, "-h", host, "-p", port, "-U", "postgres", "-d", "postgres", "--slot", "weir_bench_raw", "--start", "--endpos", end,
		"-o", "proto_version=1", "-o", "publication_names="+benchTable, "-f", "/dev/null", "--no-loop")
	cmd.Env = append(os.Environ(), "PGPASSWORD="+b.password)
	// The end position is passed only by something after it: a message in the WAL.
	if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(false, 'weir_bench', 'end')"); err != nil {
		return 0, err
	}
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", tool, err, out)
	}
	return time.Since(began), nil
}

// receiveWeir makes a connector on the other slot and waits until the topic holds every row.
func (b *bench) receiveWeir(ctx context.Context, p *weirProcess, host, port string) (took time.Duration, cpu float64, err error) {
	config, err := json.Marshal(map[string]string{
		"connector.class": "postgres", "database.hostname": host, "database.port": port, "database.user": "postgres", "database.password": b.password,
		"database.dbname": "postgres", "topic.prefix": "bench", "table.include.list": "public." + benchTable, "slot.name": "weir_bench",
		"publication.name": benchTable, "publication.autocreate.mode": "disabled", "snapshot.mode": "no_data",
	})
	if err != nil {
		return 0, 0, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.kafka()))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	before, began := cpuSeconds(p.cmd.Process.Pid), time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("http://127.0.0.1:%d/connectors/bench/config", p.base+1), bytes.NewReader(config))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return 0, 0, fmt.Errorf("create connector: %s", resp.Status)
	}
	topic, adm := "bench.public."+benchTable, kadm.NewClient(cl)
	for time.Since(began) < patience && ctx.Err() == nil {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err == nil {
			sum := int64(0)
			ends.Each(func(o kadm.ListedOffset) { sum += max(o.Offset, 0) })
			if sum >= int64(b.rows) {
				return time.Since(began), cpuSeconds(p.cmd.Process.Pid) - before, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, 0, fmt.Errorf("the topic did not hold %d rows after %s: %s", b.rows, patience, p.log.String())
}
