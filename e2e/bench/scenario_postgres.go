package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

const postgresPassword = "weir"

func postgresScenario(sides []side, pairs []pair) scenario {
	return capture{
		name: "postgres", title: "PostgreSQL to a topic: snapshot, then stream, beside Debezium in Kafka Connect", service: servicePostgres,
		settings: []string{"pgoutput, publication made before"},
		class:    "io.debezium.connector.postgresql.PostgresConnector",
		open:     openPostgres, limits: postgresLimits,
	}.scenario(sides, pairs)
}

// postgresLimits are COPY and pg_recvlogical, both to /dev/null.
func postgresLimits(ctx context.Context, b *bench) ([]figure, error) {
	conn, host, port, err := b.postgres(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows := rowsPerSecond * b.seconds
	if err := prepare(ctx, conn, rows); err != nil {
		return nil, err
	}
	defer cleanUp(context.WithoutCancel(ctx), conn)
	began := time.Now()
	if _, err := b.psql(ctx, `-c "\copy `+benchTable+` to /dev/null"`); err != nil {
		return nil, err
	}
	copied := time.Since(began)
	received, err := b.receiveRaw(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return []figure{
		higher("copy", "psql: COPY to /dev/null", "rows/s", float64(rows)/copied.Seconds()),
		higher("recvlogical", "pg_recvlogical to /dev/null", "rows/s", float64(rows)/received.Seconds()),
	}, nil
}

func (b *bench) postgresURL() string {
	return fmt.Sprintf("postgres://postgres:%s@%s/postgres", postgresPassword, b.services[servicePostgres].addr)
}

func (b *bench) postgres(ctx context.Context) (conn *pgx.Conn, host, port string, err error) {
	if host, port, err = net.SplitHostPort(b.services[servicePostgres].addr); err != nil {
		return nil, "", "", err
	}
	conn, err = pgx.Connect(ctx, b.postgresURL())
	return conn, host, port, err
}

// psql runs the tool with arguments in the shell's form; rest may be a pipeline.
func (b *bench) psql(ctx context.Context, rest string) (string, error) {
	host, port, err := net.SplitHostPort(b.services[servicePostgres].addr)
	if err != nil {
		return "", err
	}
	return shell(ctx, `PGPASSWORD="$1" psql -X -q -h "$2" -p "$3" -U postgres `+rest, postgresPassword, host, port)
}

func openPostgres(ctx context.Context, b *bench) (*database, error) {
	conn, host, port, err := b.postgres(ctx)
	if err != nil {
		return nil, err
	}
	return &database{
		config: map[string]string{
			"plugin.name": "pgoutput", "database.hostname": host, "database.port": port, "database.user": "postgres", "database.password": postgresPassword,
			"database.dbname": "postgres", "table.include.list": "public." + benchTable, "publication.name": benchTable, "publication.autocreate.mode": "disabled",
		},
		topic:  "public." + benchTable,
		reset:  func(ctx context.Context) error { return makeTable(ctx, conn) },
		insert: func(ctx context.Context, first, end int) error { return insertRows(ctx, conn, first, end) },
		settle: func(ctx context.Context, name string) error {
			return until(ctx, "the slot has no reader", func() (bool, error) {
				var free bool
				err := conn.QueryRow(ctx, "SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1", slotOf(name)).Scan(&free)
				return free, err
			})
		},
		forget:    func(ctx context.Context) { freeSlots(ctx, conn) },
		settings:  func(name, _ string) map[string]string { return map[string]string{"slot.name": slotOf(name)} },
		committer: b.postgresCommitter,
		hash: func(ctx context.Context) (string, error) {
			return b.psql(ctx, `-t -A -F ' ' -c "select id, account, ok, name, note from `+benchTable+` order by id" | sed 's/ t / true /; s/ f / false /' | sha256sum`)
		},
		close: func() { _ = conn.Close(context.WithoutCancel(ctx)) }, // the run is over, the server ends it too
	}, nil
}

func slotOf(name string) string { return "weir_bench_" + name }

func (b *bench) postgresCommitter(ctx context.Context) (commit func(context.Context, int) error, end func(), err error) {
	conn, err := pgx.Connect(ctx, b.postgresURL())
	if err != nil {
		return nil, nil, err
	}
	commit = func(ctx context.Context, id int) error { return insertRows(ctx, conn, id, id+1) }
	return commit, func() { _ = conn.Close(context.WithoutCancel(ctx)) }, nil
}

// freeSlots waits for the server's leave and drops what the run made.
func freeSlots(ctx context.Context, conn *pgx.Conn) {
	for range 100 {
		var active int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'weir_bench%' AND active").Scan(&active)
		if err != nil || active == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	cleanUp(ctx, conn)
}
