package worker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/weirlog/weir/connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitLimit bounds every wait for something that must happen.
const waitLimit = 30 * time.Second

// cluster is an in-process Kafka for one test.
type cluster struct {
	t     *testing.T
	fake  *kfake.Cluster
	addrs string
}

func newCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(2),
		kfake.GroupMinSessionTimeout(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return &cluster{t: t, fake: fake, addrs: fake.ListenAddrs()[0]}
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.addrs)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// read gives the first n records of a topic.
func (c *cluster) read(topic string, n int) []*kgo.Record {
	c.t.Helper()
	cl := c.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("topic %s has %d records, want %d", topic, len(out), n)
		}
		out = append(out, f.Records()...)
	}
	return out
}

func (c *cluster) produce(topic string, recs ...*kgo.Record) {
	c.t.Helper()
	cl := c.client(kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(explicitPartitioner{kgo.StickyKeyPartitioner(nil)}))
	for _, r := range recs {
		r.Topic = topic
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) createTopic(topic string, partitions int32) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	rule := topicRule{partitions: partitions, replicas: 1}
	if err := ensureTopic(ctx, admin(c.client()), topic, []topicRule{rule}, slog.New(slog.DiscardHandler)); err != nil {
		c.t.Fatal(err)
	}
}

// running is a worker under test.
type running struct {
	*Worker
	t    *testing.T
	stop func() // ends it and waits
}

func (c *cluster) props() map[string]string {
	const str = "org.apache.kafka.connect.storage.StringConverter"
	return map[string]string{
		"bootstrap.servers": c.addrs, "group.id": "g", "config.storage.topic": "cfg", "offset.storage.topic": "off",
		"status.storage.topic": "sta", "offset.storage.partitions": "3", "status.storage.partitions": "2",
		"config.storage.replication.factor": "1", "offset.storage.replication.factor": "1",
		"status.storage.replication.factor": "1",
		"key.converter":                     str, "value.converter": str,
		"offset.flush.interval.ms": "20", "connect.task.restart.backoff.ms": "10", "connect.task.restart.backoff.max.ms": "20",
	}
}

func (c *cluster) start(connectors ...connect.Connector) *running {
	c.t.Helper()
	return c.startWith(nil, connectors...)
}

func (c *cluster) startWith(props map[string]string, connectors ...connect.Connector) *running {
	c.t.Helper()
	all := c.props()
	maps.Copy(all, props)
	cfg, warnings, err := ParseConfig(all)
	if err != nil || len(warnings) > 0 {
		c.t.Fatal(err, warnings)
	}
	return c.run(cfg, connectors)
}

// run runs a worker until the test's end.
func (c *cluster) run(cfg Config, connectors []connect.Connector) *running {
	c.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("WEIR_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	w, err := Open(cfg, Deps{Connectors: connectors, Log: log, Version: "test"})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	r := &running{Worker: w, t: c.t}
	r.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					c.t.Errorf("worker ended with: %v", err)
				}
			case <-time.After(waitLimit):
				c.t.Errorf("worker does not end")
			}
		})
	}
	c.t.Cleanup(r.stop)
	r.eventually("the worker to start", func() bool { return w.Health().Status == "healthy" })
	return r
}

func (r *running) eventually(what string, f func() bool) {
	r.t.Helper()
	eventually(r.t, what, f)
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitLimit)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond) // polls a condition; nothing depends on how long
	}
}

func (r *running) create(name string, config map[string]string) {
	r.t.Helper()
	if _, err := r.Create(context.Background(), name, config, ""); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) taskState(name string, task int) State {
	s, err := r.TaskStatus(name, task)
	if err != nil {
		return ""
	}
	return s.State
}

// memorySource gives numbered records, for as long as it lives; it never forgets what it was told.
type memorySource struct {
	mu        sync.Mutex
	total     int // records that exist
	batch     int // records a poll gives
	opened    int
	committed []int64
	pollErr   func() error
	commitFn  func(context.Context) error
	record    func(i int) connect.Record
	keep      []connect.SourceOffset // offsets at the last open
}

func (m *memorySource) connector() connect.Connector {
	return connect.Connector{Name: "memory-source", Aliases: []string{"com.example.MemorySourceConnector"}, Version: "1.0",
		Fields: []connect.Field{{Name: "secret.word", Type: connect.TypePassword, NoDefault: true}, {Name: "tables", Type: connect.TypeString}},
		Source: m.open}
}

var memoryPartition = connect.OffsetMap{{Name: "file", Value: connect.StringValue("x")}}

func (m *memorySource) open(_ context.Context, t connect.Task) (connect.SourceTask, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	m.keep = t.Offsets
	next := int64(0)
	if o := t.Offset(memoryPartition); o != nil {
		next = o.Get("pos").Int()
	}
	return &memoryTask{m: m, next: next}, nil
}

type memoryTask struct {
	m    *memorySource
	next int64
	seq  uint64
}

func (t *memoryTask) Poll(ctx context.Context) (connect.Batch, error) {
	t.m.mu.Lock()
	total, size, pollErr, record := t.m.total, max(t.m.batch, 1), t.m.pollErr, t.m.record
	t.m.mu.Unlock()
	if pollErr != nil {
		if err := pollErr(); err != nil {
			return connect.Batch{}, err
		}
	}
	n := min(size, total-int(t.next))
	if n <= 0 {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond): // an idle source looks again
		}
		return connect.Batch{}, nil
	}
	t.seq++
	b := connect.Batch{Seq: t.seq, Sources: []connect.OffsetMap{memoryPartition}}
	for i := range n {
		rec := connect.Record{Topic: "out", Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
			Key: connect.DataOf(nil, connect.StringValue("k"+strconv.Itoa(int(t.next)%7))), Value: connect.DataOf(nil, connect.StringValue(strconv.Itoa(int(t.next))))}
		if record != nil {
			rec = record(int(t.next))
		}
		b.Records = append(b.Records, rec)
		t.next++
		b.Marks = append(b.Marks, connect.Mark{After: i + 1, Offset: connect.OffsetMap{{Name: "pos", Value: connect.Int64Value(t.next)}}})
	}
	return b, nil
}

func (t *memoryTask) Commit(ctx context.Context, a connect.Acked) error {
	t.m.mu.Lock()
	f := t.m.commitFn
	t.m.mu.Unlock()
	if f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	for _, o := range a.Offsets {
		t.m.committed = append(t.m.committed, o.Offset.Get("pos").Int())
	}
	return nil
}

func (t *memoryTask) Signal(context.Context, connect.Signal) error { return nil }
func (t *memoryTask) Stats() connect.Stats                         { return connect.Stats{} }
func (t *memoryTask) Close(context.Context) error                  { return nil }

func (m *memorySource) lastCommit() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.committed) == 0 {
		return -1
	}
	return m.committed[len(m.committed)-1]
}

func (m *memorySource) opens() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened
}

func (m *memorySource) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// memorySink keeps what it is given.
type memorySink struct {
	mu       sync.Mutex
	got      []string // values as put, in order
	origins  []connect.Origin
	assigned []connect.Assigned
	revoked  []connect.TopicPartition
	told     []connect.Committed
	next     map[connect.TopicPartition]int64
	putErr   func(records []connect.Record) error
	flushFn  func(committed []connect.Committed) (connect.Flushed, error)
	lazy     bool
}

func (m *memorySink) connector() connect.Connector {
	return connect.Connector{Name: "memory-sink", Aliases: []string{"com.example.MemorySinkConnector"}, Lazy: m.lazy,
		Sink: func(context.Context, connect.Task) (connect.SinkTask, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.next = map[connect.TopicPartition]int64{}
			return m, nil
		}}
}

func (m *memorySink) Assign(_ context.Context, added []connect.Assigned) ([]connect.Start, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assigned = append(m.assigned, added...)
	return nil, nil
}

func (m *memorySink) Revoke(_ context.Context, gone []connect.TopicPartition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revoked = append(m.revoked, gone...)
	for _, tp := range gone {
		delete(m.next, tp)
	}
	return nil
}

func (m *memorySink) Put(_ context.Context, records []connect.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.putErr != nil {
		if err := m.putErr(records); err != nil {
			return err
		}
	}
	for i := range records {
		if err := records[i].Decode(); err != nil {
			return connect.BadRecord(i, err)
		}
	}
	for i := range records {
		r := &records[i]
		m.got = append(m.got, r.Value.Value().Str())
		m.origins = append(m.origins, r.Origin)
		m.next[connect.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}] = r.Origin.Offset + 1
	}
	return nil
}

func (m *memorySink) Flush(_ context.Context, committed []connect.Committed) (connect.Flushed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, committed...)
	if m.flushFn != nil {
		return m.flushFn(committed)
	}
	var f connect.Flushed
	for tp, next := range m.next {
		f.Durable = append(f.Durable, connect.Committed{TopicPartition: tp, Offset: next, Metadata: fmt.Sprintf("m%d", next)})
	}
	return f, nil
}

func (m *memorySink) Stats() connect.Stats        { return connect.Stats{} }
func (m *memorySink) Close(context.Context) error { return nil }

func (m *memorySink) values() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.got...)
}

func TestPipelineEndToEnd(t *testing.T) {
	c := newCluster(t)
	source, sink := &memorySource{total: 1000, batch: 64}, &memorySink{}
	w := c.start(source.connector(), sink.connector())
	w.create("src", map[string]string{"connector.class": "com.example.MemorySourceConnector"})
	w.create("snk", map[string]string{"connector.class": "MemorySink", "topics": "out", "tasks.max": "1"})
	w.eventually("all records at the sink", func() bool { return len(sink.values()) == 1000 })
	w.eventually("the source's last commit", func() bool { return source.lastCommit() == 1000 })
	seen := map[string]int{}
	for _, v := range sink.values() {
		seen[v]++
	}
	for i := range 1000 {
		if seen[strconv.Itoa(i)] != 1 {
			t.Fatalf("record %d arrived %d times", i, seen[strconv.Itoa(i)])
		}
	}
	w.eventually("the source's offset", func() bool {
		o, err := w.Offsets(context.Background(), "src")
		return err == nil && len(o.Offsets) == 1 && o.Offsets[0].Offset.Get("pos").Int() == 1000
	})
	w.eventually("the sink's commit", func() bool {
		o, err := w.Offsets(context.Background(), "snk")
		sum := int64(0)
		for _, e := range o.Offsets {
			sum += e.Offset.Get("kafka_offset").Int()
		}
		return err == nil && sum == 1000
	})
	for _, ts := range w.Stats().Tasks {
		if ts.In != 1000 || ts.Out != 1000 || ts.InFlight != 0 || ts.State != Running {
			t.Errorf("stats of %s: %+v", ts.ID, ts)
		}
	}
	st, err := w.Status("src")
	if err != nil || st.Connector.State != Running || len(st.Tasks) != 1 || st.Tasks[0].State != Running || st.Type != "source" {
		t.Errorf("status: %+v, %v", st, err)
	}
	if topics, err := w.Topics("src"); err != nil || len(topics) != 1 || topics[0] != "out" {
		t.Errorf("topics: %v, %v", topics, err)
	}
	w.stop()
	if s := c.read("off", 1); string(s[0].Key) != `["src",{"file":"x"}]` {
		t.Errorf("offset key %s", s[0].Key)
	}
	// Another life continues where the first ended.
	source.set(func() { source.total = 1100 })
	w = c.start(source.connector(), sink.connector())
	w.eventually("the rest", func() bool { return len(sink.values()) >= 1100 })
	if n := len(sink.values()); n != 1100 {
		t.Errorf("%d records at the sink, want 1100", n)
	}
}
