package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	rowsPerSecond = 15_000 // of a run's seconds, for the snapshot and for the stream each
	captureTopic  = "bench.public." + benchTable
)

// captureScenario takes a snapshot of a table and then streams as many inserts, written while the connector is stopped.
func captureScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "postgres",
		title: "PostgreSQL to a topic: snapshot, then stream, beside Debezium in Kafka Connect",
		settings: []string{
			"the same connector JSON on both (pgoutput, publication made before, JsonConverter without schemas), one task, topic of one partition",
			"the servers have just been started, as each run has its own: the stream, which comes second, meets the warmer JVM",
			"rates are from the first event in the topic to the last; what passes before, after the request, is its own row",
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache, each by default; the broker's and the worker's process count together",
		},
		sides: sides, pairs: pairs, limit: captureLimits, measure: measureCapture,
	}
}

// captureLimits are COPY and pg_recvlogical, both to /dev/null.
func captureLimits(ctx context.Context, b *bench) ([]figure, error) {
	conn, host, port, err := b.database(ctx)
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

func (b *bench) database(ctx context.Context) (conn *pgx.Conn, host, port string, err error) {
	if b.postgres == "" {
		return nil, "", "", errors.New("no PostgreSQL was named (-pg)")
	}
	if host, port, err = net.SplitHostPort(b.postgres); err != nil {
		return nil, "", "", err
	}
	conn, err = pgx.Connect(ctx, fmt.Sprintf("postgres://postgres:%s@%s/postgres", b.password, b.postgres))
	return conn, host, port, err
}

// psql runs the tool with arguments in the shell's form; rest may be a pipeline.
func (b *bench) psql(ctx context.Context, rest string) (string, error) {
	host, port, err := net.SplitHostPort(b.postgres)
	if err != nil {
		return "", err
	}
	return shell(ctx, `PGPASSWORD="$1" psql -X -q -h "$2" -p "$3" -U postgres `+rest, b.password, host, port)
}

func measureCapture(ctx context.Context, b *bench, sd side) (got sample, err error) {
	conn, host, port, err := b.database(ctx)
	if err != nil {
		return sample{}, err
	}
	defer conn.Close(ctx)
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() {
		err = errors.Join(err, s.stop())
		freeSlots(context.WithoutCancel(ctx), conn)
	}()
	if err := b.withConnect(ctx, s, allCores()); err != nil {
		return sample{}, err
	}
	if err := makeTable(ctx, conn); err != nil {
		return sample{}, err
	}
	ends, err := newEnds(ctx, s.kafka)
	if err != nil {
		return sample{}, err
	}
	defer ends.Close()
	profiled := b.profileOf(ctx, "postgres", sd, s, part(b.seconds, 0.5))
	if got.Figures, err = b.capture(ctx, s, conn, ends, host, port); err != nil {
		return sample{}, err
	}
	if err := profiled(); err != nil {
		return sample{}, err
	}
	got.Verified, err = b.verifyRows(ctx, s, 2*rowsPerSecond*b.seconds)
	return got, err
}

// capture runs the snapshot and the stream.
func (b *bench) capture(ctx context.Context, s *server, conn *pgx.Conn, ends *kgo.Client, host, port string) ([]figure, error) {
	rows := rowsPerSecond * b.seconds
	if err := insertRows(ctx, conn, 0, rows); err != nil {
		return nil, err
	}
	count := func() (float64, error) {
		if _, err := running(ctx, s, "capture"); err != nil {
			return 0, err
		}
		return endOf(ctx, ends)
	}
	before := s.usage()
	if err := put(ctx, s, "capture", map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1", "plugin.name": "pgoutput",
		"database.hostname": host, "database.port": port, "database.user": "postgres", "database.password": b.password, "database.dbname": "postgres",
		"topic.prefix": "bench", "table.include.list": "public." + benchTable, "slot.name": "weir_bench_capture",
		"publication.name": benchTable, "publication.autocreate.mode": "disabled", "snapshot.mode": "initial",
	}); err != nil {
		return nil, err
	}
	snapshot, err := watch(ctx, "snapshot", 0, float64(rows), count)
	if err != nil {
		return nil, err
	}
	afterSnapshot := s.usage()
	if err := stopCapture(ctx, s, conn); err != nil {
		return nil, err
	}
	if err := insertRows(ctx, conn, rows, 2*rows); err != nil {
		return nil, err
	}
	beforeStream := s.usage()
	if err := call(ctx, http.MethodPut, s.connect+"/connectors/capture/resume", nil, nil); err != nil {
		return nil, err
	}
	stream, err := watch(ctx, "stream", float64(rows), float64(rows), count)
	if err != nil {
		return nil, err
	}
	after, million := s.usage(), float64(rows)/1e6
	return []figure{
		higher("snapshot", "snapshot", "rows/s", snapshot.perSecond()),
		lower("snapshot_wait", "from the request to the snapshot's first event", "ms", float64(snapshot.wait.Milliseconds())),
		lower("snapshot_cpu", "CPU of broker and worker, snapshot", "s per million", (afterSnapshot.cpuSeconds-before.cpuSeconds)/million),
		higher("stream", "stream", "rows/s", stream.perSecond()),
		lower("stream_wait", "from resuming to the stream's first event", "ms", float64(stream.wait.Milliseconds())),
		lower("stream_cpu", "CPU of broker and worker, stream", "s per million", (after.cpuSeconds-beforeStream.cpuSeconds)/million),
		lower("peak", "peak RSS of broker and worker", "MiB", after.peakMiB),
	}, nil
}

// stopCapture stops the connector and waits until PostgreSQL sees no reader of the slot: the request alone is not the end.
func stopCapture(ctx context.Context, s *server, conn *pgx.Conn) error {
	if err := call(ctx, http.MethodPut, s.connect+"/connectors/capture/stop", nil, nil); err != nil {
		return err
	}
	return until(ctx, "the slot has no reader", func() (bool, error) {
		var free bool
		err := conn.QueryRow(ctx, "SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'weir_bench_capture'").Scan(&free)
		return free, err
	})
}

// newEnds makes the topic and a client that asks for its end.
func newEnds(ctx context.Context, addr string) (*kgo.Client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	resp, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, captureTopic)
	if err = errors.Join(err, resp.Err); err != nil {
		cl.Close()
		return nil, fmt.Errorf("create topic: %w", err)
	}
	return cl, nil
}

func endOf(ctx context.Context, cl *kgo.Client) (float64, error) {
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, captureTopic)
	if err != nil {
		return 0, fmt.Errorf("list end offsets: %w", err)
	}
	o, _ := ends.Lookup(captureTopic, 0)
	return float64(max(o.Offset, 0)), o.Err
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

// verifyRows compares columns of the rows that psql tells with those of the events that kcat and jq tell.
func (b *bench) verifyRows(ctx context.Context, s *server, rows int) (string, error) {
	want, err := b.psql(ctx, `-t -A -F ' ' -c "select id, account, ok, name, note from `+benchTable+` order by id" | sed 's/ t / true /; s/ f / false /' | sha256sum`)
	if err != nil {
		return "", err
	}
	pipeline := `kcat -b "$1" -C -q -e -t "$2" -o beginning | jq -r '.after | "\(.id) \(.account) \(.ok) \(.name) \(.note)"' | sha256sum`
	got, err := shell(ctx, pipeline, s.kafka, captureTopic)
	if err != nil {
		return "", err
	}
	if got != want {
		lines, _ := exec.CommandContext(ctx, "kcat", "-b", s.kafka, "-Q", "-t", captureTopic+":0:-1").Output()
		return "", fmt.Errorf("%w: the events of %s hash to %s, psql's rows to %s; end: %s", errWrong, captureTopic, got, want, lines)
	}
	return fmt.Sprintf("sha256sum of %d rows by psql and of the events by kcat and jq is the same", rows), nil
}
