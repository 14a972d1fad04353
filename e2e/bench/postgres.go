package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// changes measures how fast inserted rows come out of PostgreSQL's WAL: through weir into a topic, and through
// pg_recvlogical into /dev/null, from two slots with the same options that were made before the rows were written.
func (b *bench) changes(ctx context.Context) error {
	stop, err := b.serve(ctx, []string{servicePostgres})
	if errors.Is(err, errNotRun) {
		b.say("postgres: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(b.readChanges(ctx), stop())
}

func (b *bench) readChanges(ctx context.Context) error {
	conn, host, port, err := b.postgres(ctx)
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
	s, err := b.startWeir(ctx, allCores())
	if err != nil {
		return err
	}
	weir, cpu, err := b.receiveWeir(ctx, s, host, port)
	peak := s.usage().peakMiB
	if err := errors.Join(err, s.stop()); err != nil {
		return err
	}
	n := float64(b.rows)
	b.say("pg_recvlogical to /dev/null: %.0f events/s", n/raw.Seconds())
	b.say("weir, PostgreSQL to topic, synced: %.0f events/s = %.2f of pg_recvlogical; %.1f CPU s per million events, peak %.0f MiB",
		n/weir.Seconds(), raw.Seconds()/weir.Seconds(), cpu/n*1e6, peak)
	return nil
}

// prepare makes the table, the publication, the two slots and then the rows.
func prepare(ctx context.Context, conn *pgx.Conn, rows int) error {
	if err := makeTable(ctx, conn); err != nil {
		return err
	}
	for _, slot := range []string{"weir_bench_raw", "weir_bench"} {
		if _, err := conn.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot); err != nil {
			return fmt.Errorf("make slot %s: %w", slot, err)
		}
	}
	return insertRows(ctx, conn, 0, rows)
}

// makeTable makes the empty table, nine columns of common types, and its publication.
func makeTable(ctx context.Context, conn *pgx.Conn) error {
	cleanUp(ctx, conn)
	for _, sql := range []string{
		"CREATE TABLE " + benchTable + " (id bigint PRIMARY KEY, account int, amount numeric(12,2), at timestamptz, day date, ok boolean, name text, note text, score double precision)",
		"CREATE PUBLICATION " + benchTable + " FOR TABLE " + benchTable,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// insertRows writes rows [first, end).
func insertRows(ctx context.Context, conn *pgx.Conn, first, end int) error {
	for from := first; from < end; from += rowsPerTxn {
		_, err := conn.Exec(ctx, "INSERT INTO "+benchTable+` SELECT i, i%1000, i*1.25, now(), current_date, i%2=0, 'name '||i, repeat('x', 40), i/3.0::float8
			FROM generate_series($1::bigint, $2::bigint) i`, from, min(from+rowsPerTxn, end)-1)
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
	conn, err := pgx.Connect(ctx, b.postgresURL())
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
	cmd.Env = append(os.Environ(), "PGPASSWORD="+postgresPassword)
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
func (b *bench) receiveWeir(ctx context.Context, s *server, host, port string) (took time.Duration, cpu float64, err error) {
	cl, err := newEnds(ctx, s.kafka, "bench.public."+benchTable)
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	before, began := s.usage(), time.Now()
	if err := put(ctx, s, "bench", map[string]string{
		"connector.class": "postgres", "database.hostname": host, "database.port": port, "database.user": "postgres", "database.password": postgresPassword,
		"database.dbname": "postgres", "topic.prefix": "bench", "table.include.list": "public." + benchTable, "slot.name": "weir_bench",
		"publication.name": benchTable, "publication.autocreate.mode": "disabled", "snapshot.mode": "no_data",
	}); err != nil {
		return 0, 0, err
	}
	err = until(ctx, "the topic holds every row", func() (bool, error) {
		n, err := endOf(ctx, cl, "bench.public."+benchTable)
		return n >= float64(b.rows), err
	})
	return time.Since(began), s.usage().cpuSeconds - before.cpuSeconds, err
}
