package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	benchTable    = "weir_bench"
	rowsPerTxn    = 1000
	rowsPerSecond = 15_000 // of a run's seconds, for the snapshot and for the stream each
	warmPerSecond = 5_000  // the same, before anything is timed
	latencyPart   = 0.2    // of a run's seconds, for each rate
	committers    = 8      // connections that commit at a fixed rate
)

// commitRates are the transactions per second at which latency is taken, slowest first.
func commitRates() []int { return []int{200, 1000} }

// capture is a scenario of change data capture: what PostgreSQL, MySQL and MariaDB have in common.
type capture struct {
	name, title, service string
	settings             []string
	class                string // connector.class
	open                 func(ctx context.Context, b *bench) (*database, error)
	limits               func(ctx context.Context, b *bench) ([]figure, error)
}

// database is what differs between the databases. Its table holds rows 0, 1, 2 … of nine columns of common types.
type database struct {
	config map[string]string // of the connector: how to connect and what to capture
	topic  string            // of the table's events, behind the topic.prefix
	reset  func(ctx context.Context) error
	insert func(ctx context.Context, first, end int) error
	// settle returns when the connector of that name no longer reads.
	settle func(ctx context.Context, name string) error
	// forget removes what a connector has left in the database.
	forget func(ctx context.Context)
	// settings are those that only a connector of this name on this Kafka has.
	settings func(name, kafka string) map[string]string
	// committer is a connection that inserts one row in one transaction.
	committer func(ctx context.Context) (commit func(ctx context.Context, id int) error, end func(), err error)
	hash      func(ctx context.Context) (string, error) // of the rows in order, by the database's own tool
	close     func()
}

func (c capture) scenario(sides []side, pairs []pair) scenario {
	return scenario{
		name: c.name, title: c.title, sides: sides, pairs: pairs, services: []string{c.service}, limit: c.limits, measure: c.measure,
		settings: append(c.settings,
			"the same connector JSON on both (JsonConverter without schemas, "+producerTold+"), one task, topic of one partition",
			fmt.Sprintf("warmed on both: before anything is timed another connector captures a snapshot and a stream of %d rows each per second of the run", warmPerSecond),
			"rates are from the first event in the topic to the last; what passes before, after the request, is its own row",
			fmt.Sprintf("latency: open loop, rows committed one by one over %d connections; from the moment each commit was due to its event's arrival at a consumer", committers),
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache, each by default; the broker's and the worker's process count together",
			heapsTold),
	}
}

func (c capture) measure(ctx context.Context, b *bench, sd side) (got sample, err error) {
	db, err := c.open(ctx, b)
	if err != nil {
		return sample{}, err
	}
	defer db.close()
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() {
		err = errors.Join(err, s.stop())
		db.forget(context.WithoutCancel(ctx))
	}()
	if err := b.withConnect(ctx, s, allCores()); err != nil {
		return sample{}, err
	}
	run := capturing{c, b, s, db}
	if err := run.warm(ctx); err != nil {
		return sample{}, fmt.Errorf("warm up: %w", err)
	}
	profiled := b.profileOf(ctx, c.name, sd, s, part(b.seconds, 0.5))
	rows, err := run.timed(ctx, &got)
	if err != nil {
		return sample{}, err
	}
	if err := profiled(); err != nil {
		return sample{}, err
	}
	for _, perSecond := range commitRates() {
		n, took, err := run.commits(ctx, rows, perSecond, part(b.seconds, latencyPart))
		if err != nil {
			return sample{}, fmt.Errorf("%d commits per second: %w", perSecond, err)
		}
		rows += n
		got.Figures = append(got.Figures, latencyFigures(fmt.Sprintf("commit%d", perSecond), fmt.Sprintf("commit to topic, %d/s", perSecond), took)...)
	}
	got.Figures = append(got.Figures, lower("peak", "peak RSS of broker and worker", "MiB", s.usage().peakMiB))
	got.Verified, err = run.verify(ctx, rows)
	return got, err
}

// capturing is one run on one server.
type capturing struct {
	capture
	b  *bench
	s  *server
	db *database
}

// topicOf is the topic of a connector's events; names and prefixes are the same.
func (r capturing) topicOf(name string) string { return name + "." + r.db.topic }

func (r capturing) make(ctx context.Context, name string) error {
	config := map[string]string{"connector.class": r.class, "tasks.max": "1", "topic.prefix": name, "snapshot.mode": "initial"}
	maps.Copy(config, producerSettings())
	maps.Copy(config, r.db.config)
	maps.Copy(config, r.db.settings(name, r.s.kafka))
	return put(ctx, r.s, name, config)
}

// counter answers how many events of a connector the topic holds; one that failed is an error.
func (r capturing) counter(ctx context.Context, name string, ends *kgo.Client) func() (float64, error) {
	return func() (float64, error) {
		if _, err := running(ctx, r.s, name); err != nil {
			return 0, err
		}
		return endOf(ctx, ends, r.topicOf(name))
	}
}

// warm lets another connector do all that will be timed, so that the peer's JVM has compiled it, and leaves nothing.
func (r capturing) warm(ctx context.Context) error {
	const name = "warm"
	rows := warmPerSecond * r.b.seconds
	if err := r.db.reset(ctx); err != nil {
		return err
	}
	ends, err := newEnds(ctx, r.s.kafka, r.topicOf(name))
	if err != nil {
		return err
	}
	defer ends.Close()
	if err := r.db.insert(ctx, 0, rows); err != nil {
		return err
	}
	if err := r.make(ctx, name); err != nil {
		return err
	}
	if _, err := watch(ctx, "snapshot", 0, float64(rows), r.counter(ctx, name, ends)); err != nil {
		return err
	}
	if err := r.db.insert(ctx, rows, 2*rows); err != nil {
		return err
	}
	if _, err := watch(ctx, "stream", float64(rows), float64(rows), r.counter(ctx, name, ends)); err != nil {
		return err
	}
	if err := call(ctx, http.MethodDelete, r.s.connect+"/connectors/"+name, nil, nil); err != nil {
		return err
	}
	if err := r.db.settle(ctx, name); err != nil {
		return err
	}
	r.db.forget(ctx)
	return nil
}

// timed takes a snapshot and then streams as many inserts, written while the connector was stopped; it answers how many
// rows there are then.
func (r capturing) timed(ctx context.Context, got *sample) (rows int, err error) {
	const name = "bench"
	half := rowsPerSecond * r.b.seconds
	if err := r.db.reset(ctx); err != nil {
		return 0, err
	}
	ends, err := newEnds(ctx, r.s.kafka, r.topicOf(name))
	if err != nil {
		return 0, err
	}
	defer ends.Close()
	if err := r.db.insert(ctx, 0, half); err != nil {
		return 0, err
	}
	disk := deviceOf(r.s.dir)
	diskBefore := disk.writtenBytes()
	before := r.s.usage()
	if err := r.make(ctx, name); err != nil {
		return 0, err
	}
	snapshot, err := watch(ctx, "snapshot", 0, float64(half), r.counter(ctx, name, ends))
	if err != nil {
		return 0, err
	}
	afterSnapshot, diskBytes := r.s.usage(), disk.writtenBytes()-diskBefore
	if err := call(ctx, http.MethodPut, r.s.connect+"/connectors/"+name+"/stop", nil, nil); err != nil {
		return 0, err
	}
	if err := r.db.settle(ctx, name); err != nil { // the request alone is not the end
		return 0, err
	}
	if err := r.db.insert(ctx, half, 2*half); err != nil {
		return 0, err
	}
	beforeStream := r.s.usage()
	if err := call(ctx, http.MethodPut, r.s.connect+"/connectors/"+name+"/resume", nil, nil); err != nil {
		return 0, err
	}
	stream, err := watch(ctx, "stream", float64(half), float64(half), r.counter(ctx, name, ends))
	if err != nil {
		return 0, err
	}
	after, million := r.s.usage(), float64(half)/1e6
	got.Figures = append(got.Figures,
		higher("snapshot", "snapshot", "rows/s", snapshot.perSecond()),
		lower("snapshot_wait", "from the request to the snapshot's first event", "ms", float64(snapshot.wait.Milliseconds())),
		lower("snapshot_cpu", "CPU of broker and worker, snapshot", "s per million", (afterSnapshot.cpuSeconds-before.cpuSeconds)/million),
		lower("snapshot_disk", "written by the disk per row, snapshot (of all processes)", "bytes", diskBytes/float64(half)),
		higher("stream", "stream", "rows/s", stream.perSecond()),
		lower("stream_wait", "from resuming to the stream's first event", "ms", float64(stream.wait.Milliseconds())),
		lower("stream_cpu", "CPU of broker and worker, stream", "s per million", (after.cpuSeconds-beforeStream.cpuSeconds)/million),
	)
	return 2 * half, nil
}

// commits commits rows from first on at a fixed rate while the connector streams, and answers the sorted times from when
// each commit was due to its event's arrival; the first quarter is left out.
func (r capturing) commits(ctx context.Context, first, perSecond int, limit time.Duration) (n int, took []time.Duration, err error) {
	topic := r.topicOf("bench")
	n = int(float64(perSecond) * limit.Seconds())
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.s.kafka), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(int64(first))}}))
	if err != nil {
		return 0, nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, limit+patience)
	defer cancel()
	began := time.Now().Add(committersReady)
	due := func(i int) time.Time {
		return began.Add(time.Duration(float64(i) / float64(perSecond) * float64(time.Second)))
	}
	var group sync.WaitGroup
	faults := make([]error, committers)
	for w := range committers {
		group.Go(func() {
			if faults[w] = r.committer(ctx, first, w, n, due); faults[w] != nil {
				cancel()
			}
		})
	}
	arrived, err := arrivals(ctx, cl, first, n)
	group.Wait()
	if err := errors.Join(errors.Join(faults...), err); err != nil {
		return 0, nil, err
	}
	const warm = 4
	for i := n / warm; i < n; i++ {
		took = append(took, arrived[i].Sub(due(i)))
	}
	slices.Sort(took)
	return n, took, nil
}

const committersReady = 300 * time.Millisecond // until all have connected

// committer commits every so-many-th row at its moment.
func (r capturing) committer(ctx context.Context, first, w, n int, due func(int) time.Time) error {
	commit, end, err := r.db.committer(ctx)
	if err != nil {
		return err
	}
	defer end()
	clock, err := newAlarm()
	if err != nil {
		return err
	}
	defer clock.file.Close()
	for i := w; i < n; i += committers {
		if err := clock.wait(due(i)); err != nil {
			return err
		}
		if err := commit(ctx, first+i); err != nil {
			return fmt.Errorf("commit row %d: %w", first+i, err)
		}
	}
	return nil
}

// arrivals notes when the events of rows [first, first+n) came, whatever their order.
func arrivals(ctx context.Context, cl *kgo.Client, first, n int) ([]time.Time, error) {
	at := make([]time.Time, n)
	for seen := 0; seen < n; {
		fetches := cl.PollFetches(ctx)
		now := time.Now()
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("consume, %d of %d events have come: %w", seen, n, err)
		}
		for _, rec := range fetches.Records() {
			id, err := eventID(rec.Value)
			if err != nil {
				return nil, err
			}
			if i := id - first; i < 0 || i >= n || !at[i].IsZero() {
				return nil, fmt.Errorf("%w: an event of row %d", errWrong, id)
			}
			at[id-first] = now
			seen++
		}
	}
	return at, nil
}

// eventID is the id of the row after the change: its first column.
func eventID(value []byte) (int, error) {
	_, rest, _ := bytes.Cut(value, []byte(`"after":{"id":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	id, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0, fmt.Errorf("%w: an event without an id: %.200s", errWrong, value)
	}
	return id, nil
}

// verify compares columns of the rows that the database's tool tells with those of the events that kcat and jq tell.
func (r capturing) verify(ctx context.Context, rows int) (string, error) {
	want, err := r.db.hash(ctx)
	if err != nil {
		return "", err
	}
	topic := r.topicOf("bench")
	pipeline := `kcat -b "$1" -C -q -e -t "$2" -o beginning | jq -r '.after | "\(.id) \(.account) \(.ok) \(.name) \(.note)"' | LC_ALL=C sort -n | sha256sum`
	got, err := shell(ctx, pipeline, r.s.kafka, topic)
	if err != nil {
		return "", err
	}
	if got != want {
		end, _ := shell(ctx, `kcat -b "$1" -Q -t "$2"`, r.s.kafka, topic+":0:-1")
		return "", fmt.Errorf("%w: the events of %s hash to %s, the rows to %s; end: %s", errWrong, topic, got, want, end)
	}
	return fmt.Sprintf("sha256sum of %d rows by the database's own client and of the events by kcat and jq is the same", rows), nil
}

// newEnds makes the topic and a client that asks for its end.
func newEnds(ctx context.Context, addr, topic string) (*kgo.Client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	resp, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, topic)
	if err = errors.Join(err, resp.Err); err != nil {
		cl.Close()
		return nil, fmt.Errorf("create topic: %w", err)
	}
	return cl, nil
}

func endOf(ctx context.Context, cl *kgo.Client, topic string) (float64, error) {
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("list end offsets: %w", err)
	}
	o, _ := ends.Lookup(topic, 0)
	return float64(max(o.Offset, 0)), o.Err
}
