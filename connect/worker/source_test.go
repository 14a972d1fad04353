package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/connect"
)

const sourceClass = "memory-source"

// stored gives the offset that the offsets topic holds for a connector, 0 for none.
func (r *running) stored(name string) int64 {
	for _, so := range r.offsets.of(name) {
		return so.Offset.Get("pos").Int()
	}
	return 0
}

// deny refuses produce requests for a topic until allow is called. The client repeats them; denials counts.
func (c *cluster) deny(topic string) (allow func(), denials *atomic.Int64) {
	c.t.Helper()
	details, err := admin(c.client()).ListTopics(context.Background(), topic)
	if err != nil {
		c.t.Fatal(err)
	}
	id := details[topic].ID
	denied, denials := make(chan struct{}), &atomic.Int64{}
	c.fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		select {
		case <-denied:
			return nil, nil, false
		default:
		}
		p, ok := req.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		hit := false
		for _, t := range p.Topics {
			hit = hit || t.Topic == topic || t.TopicID == [16]byte(id) && t.TopicID != [16]byte{}
		}
		if !hit {
			return nil, nil, false
		}
		denials.Add(1)
		resp, ok := p.ResponseKind().(*kmsg.ProduceResponse)
		if !ok {
			return nil, nil, false
		}
		for _, t := range p.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, part := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = part.Partition, kerr.NotEnoughReplicas.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return func() { close(denied) }, denials
}

// TestSourceCutShort ends a worker at random moments without letting it drain; whatever offset is then stored, every
// record before it is in the topic, and in the end all are.
func TestSourceCutShort(t *testing.T) {
	c := newCluster(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	source := &memorySource{total: 20000, batch: 37}
	hasty := map[string]string{"task.shutdown.graceful.timeout.ms": "0", "offset.flush.interval.ms": "5"}
	w := c.startWith(hasty, source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass, "producer.override.linger.ms": "1"})
	last := int64(0)
	for range 6 {
		goal := last + int64(1+r.IntN(2500))
		w.eventually("some offsets", func() bool { return w.stored("src") >= min(goal, 20000) })
		w.stop()
		last = w.stored("src")
		if source.lastCommit() > last {
			t.Fatalf("the source was told %d, only %d is stored", source.lastCommit(), last)
		}
		c.holds("out", last)
		w = c.startWith(hasty, source.connector())
	}
	w.eventually("the last offset", func() bool { return w.stored("src") == 20000 })
	c.holds("out", 20000)
}

// holds checks that a topic has the values 0 … n-1.
func (c *cluster) holds(topic string, n int64) {
	c.t.Helper()
	if n == 0 {
		return
	}
	ends, err := admin(c.client()).ListEndOffsets(context.Background(), topic)
	if err != nil {
		c.t.Fatal(err)
	}
	total := 0
	for _, o := range ends[topic] {
		total += int(o.Offset)
	}
	have := map[string]bool{}
	for _, r := range c.read(topic, total) {
		have[string(r.Value)] = true
	}
	for i := range n {
		if !have[strconv.FormatInt(i, 10)] {
			c.t.Fatalf("record %d is lost: the offset %d is stored", i, n)
		}
	}
}

func TestSourceIsNotHeldUpByItsCommit(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 500, batch: 10, commitFn: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	w := c.startWith(map[string]string{"task.shutdown.graceful.timeout.ms": "50"}, source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass})
	w.eventually("all offsets, though the first Commit hangs", func() bool { return w.stored("src") == 500 })
}

func TestSourceCommitFailuresAreMerged(t *testing.T) {
	c := newCluster(t)
	fails := 3
	source := &memorySource{total: 100, batch: 1}
	source.commitFn = func(context.Context) error {
		source.mu.Lock()
		defer source.mu.Unlock()
		if fails--; fails >= 0 {
			return errors.New("not now")
		}
		return nil
	}
	w := c.start(source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass})
	w.eventually("some commits to fail", func() bool { s := w.Stats(); return len(s.Tasks) == 1 && s.Tasks[0].CommitFailures > 0 })
	w.eventually("the last commit or its turn", func() bool { return source.lastCommit() == 100 || w.stored("src") == 100 })
	source.set(func() { source.total = 101; fails = 0 })
	w.eventually("the commit to be told", func() bool { return source.lastCommit() == 101 })
}

func TestSourceCommitsOnlyWhatIsStored(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 50, batch: 5}
	w := c.start(source.connector())
	allow, _ := c.deny("off")
	w.create("src", map[string]string{"connector.class": sourceClass})
	w.eventually("all records", func() bool { s := w.Stats(); return len(s.Tasks) == 1 && s.Tasks[0].Out == 50 })
	w.eventually("a store to fail or wait", func() bool { return w.Stats().Tasks[0].InFlight == 0 })
	if n := source.lastCommit(); n >= 0 {
		t.Fatalf("the source was told %d while nothing could be stored", n)
	}
	allow()
	w.eventually("the commit", func() bool { return source.lastCommit() == 50 })
	if w.stored("src") != 50 {
		w.eventually("the offset to be read back", func() bool { return w.stored("src") == 50 })
	}
}

func TestSourceStoresOnlyWhatIsWritten(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 50, batch: 5}
	w := c.start(source.connector())
	c.createTopic("out", 1)
	allow, denials := c.deny("out")
	w.create("src", map[string]string{"connector.class": sourceClass, "producer.override.retry.backoff.ms": "20"})
	w.eventually("writes to be refused while commits tick", func() bool { return denials.Load() >= 5 })
	if s := w.Stats().Tasks[0]; s.Out != 0 || s.InFlight != 50 {
		t.Errorf("stats %+v", s)
	}
	if w.stored("src") != 0 || source.lastCommit() >= 0 {
		t.Fatalf("%d is stored and %d told though nothing is written", w.stored("src"), source.lastCommit())
	}
	allow()
	w.eventually("the commit", func() bool { return source.lastCommit() == 50 })
}

func TestSourcePositionMovesWhenAllIsFiltered(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 300, batch: 10}
	w := c.start(source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass, "transforms": "f",
		"transforms.f.type": "org.apache.kafka.connect.transforms.Filter"})
	w.eventually("the commit", func() bool { return source.lastCommit() == 300 })
	s := w.Stats().Tasks[0]
	if s.Filtered != 300 || s.Out != 0 || s.In != 300 {
		t.Errorf("stats %+v", s)
	}
}

func TestSourceFaults(t *testing.T) {
	faulty := func(i int) connect.Record {
		r := connect.Record{Topic: "out", Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
			Value: connect.DataOf(nil, connect.StringValue(strconv.Itoa(i)))}
		if i%10 == 3 {
			r.Fault = &connect.Fault{Reason: "not decodable", Bytes: []byte("raw" + strconv.Itoa(i))}
		}
		return r
	}
	t.Run("none", func(t *testing.T) {
		c := newCluster(t)
		source := &memorySource{total: 20, batch: 20, record: faulty}
		w := c.start(source.connector())
		w.create("src", map[string]string{"connector.class": sourceClass})
		w.eventually("FAILED", func() bool { return w.taskState("src", 0) == Failed })
		s, _ := w.TaskStatus("src", 0)
		if !strings.Contains(s.Trace, "not decodable") {
			t.Errorf("trace %q", s.Trace)
		}
		if w.stored("src") > 3 {
			t.Errorf("offset %d was stored beyond the bad record", w.stored("src"))
		}
	})
	t.Run("all with dead letters", func(t *testing.T) {
		c := newCluster(t)
		source := &memorySource{total: 20, batch: 20, record: faulty}
		w := c.start(source.connector())
		w.create("src", map[string]string{"connector.class": sourceClass, "errors.tolerance": "all",
			"errors.deadletterqueue.topic.name": "dlq", "errors.deadletterqueue.context.headers.enable": "true"})
		w.eventually("the commit", func() bool { return source.lastCommit() == 20 })
		letters := c.read("dlq", 2)
		if string(letters[0].Value) != "raw3" || string(letters[1].Value) != "raw13" {
			t.Errorf("letters %q, %q", letters[0].Value, letters[1].Value)
		}
		headers := map[string]string{}
		for _, h := range letters[0].Headers {
			headers[h.Key] = string(h.Value)
		}
		if headers["__connect.errors.stage"] != "TASK_POLL" || headers["__connect.errors.connector.name"] != "src" ||
			headers["__connect.errors.exception.message"] != "not decodable" {
			t.Errorf("headers %v", headers)
		}
		if s := w.Stats().Tasks[0]; s.In != 20 || s.Out != 18 || s.DeadLettered != 2 || s.InFlight != 0 {
			t.Errorf("stats %+v", s)
		}
	})
	t.Run("all without", func(t *testing.T) {
		c := newCluster(t)
		source := &memorySource{total: 20, batch: 20, record: faulty}
		w := c.start(source.connector())
		w.create("src", map[string]string{"connector.class": sourceClass, "errors.tolerance": "all"})
		w.eventually("the commit", func() bool { return source.lastCommit() == 20 })
		if s := w.Stats().Tasks[0]; s.Out != 18 || s.Skipped != 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestSourceRecordTooLarge(t *testing.T) {
	large := func(i int) connect.Record {
		v := strconv.Itoa(i)
		if i == 5 {
			v = strings.Repeat("x", 3<<20)
		}
		return connect.Record{Topic: "out", Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
			Key: connect.DataOf(nil, connect.StringValue("key5")), Value: connect.DataOf(nil, connect.StringValue(v))}
	}
	c := newCluster(t)
	source := &memorySource{total: 10, batch: 10, record: large}
	w := c.start(source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass})
	w.eventually("FAILED", func() bool { return w.taskState("src", 0) == Failed })
	s, _ := w.TaskStatus("src", 0)
	for _, want := range []string{"topic out", `"key5"`, fmt.Sprint(3<<20 + 4)} {
		if !strings.Contains(s.Trace, want) {
			t.Errorf("the trace does not name %s: %.300s", want, s.Trace)
		}
	}
	if _, err := w.PatchConfig(context.Background(), "src", map[string]*string{"errors.tolerance": ptr("all")}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the commit", func() bool { return source.lastCommit() == 10 })
}

func TestSourceTopicThatTakesLess(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 400, batch: 400, record: func(i int) connect.Record {
		return connect.Record{Topic: "out", Partition: 1, Timestamp: connect.NoTimestamp,
			Value: connect.DataOf(nil, connect.StringValue(strconv.Itoa(i)+strings.Repeat(" ", 500)))}
	}}
	w := c.start(source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass, "topic.creation.default.partitions": "3",
		"topic.creation.default.replication.factor": "9", "topic.creation.default.max.message.bytes": "4000"})
	w.eventually("the commit", func() bool { return source.lastCommit() == 400 })
	recs := c.read("out", 400)
	for _, r := range recs {
		if r.Partition != 1 {
			t.Fatalf("a record for partition 1 is in %d", r.Partition)
		}
	}
}

func TestSourceRetriesAndRestarts(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 10, batch: 10, pollErr: func() error { return connect.Retry(time.Millisecond, errors.New("link down")) }}
	w := c.startWith(map[string]string{"connect.task.restart.max": "2"}, source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass})
	w.eventually("the retries to be seen", func() bool {
		s, err := w.TaskStatus("src", 0)
		return err == nil && s.State == Running && strings.Contains(s.Trace, "link down") && w.Stats().Tasks[0].RetryAttempt >= 2
	})
	source.set(func() { source.pollErr = func() error { return errors.New("broken") } })
	w.eventually("the breaker", func() bool {
		s, _ := w.TaskStatus("src", 0)
		return s.State == Failed && strings.Contains(s.Trace, "given up after 2 restarts")
	})
	if n := source.opens(); n != 3 {
		t.Errorf("opened %d times, want 3", n)
	}
	source.set(func() { source.pollErr = func() error { panic("boom") } })
	if err := w.RestartTask(context.Background(), "src", 0); err != nil {
		t.Fatal(err)
	}
	w.eventually("the panic as a trace", func() bool { s, _ := w.TaskStatus("src", 0); return strings.Contains(s.Trace, "panic: boom") })
	source.set(func() { source.pollErr = nil })
	if _, err := w.Restart(context.Background(), "src", true, true); err != nil {
		t.Fatal(err)
	}
	w.eventually("the records", func() bool { return source.lastCommit() == 10 && w.taskState("src", 0) == Running })
}

func TestSourceBadConfigWaitsForAnother(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 10, batch: 10, pollErr: func() error { return connect.BadConfig("tables", errors.New("no such table")) }}
	w := c.start(source.connector())
	w.create("src", map[string]string{"connector.class": sourceClass, "tables": "a"})
	w.eventually("FAILED", func() bool { return w.taskState("src", 0) == Failed })
	s, _ := w.TaskStatus("src", 0)
	if !strings.Contains(s.Trace, "tables: no such table") {
		t.Errorf("trace %q", s.Trace)
	}
	source.set(func() { source.pollErr = nil })
	if _, _, err := w.PutConfig(context.Background(), "src", map[string]string{"connector.class": sourceClass, "tables": "b"}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the records", func() bool { return source.lastCommit() == 10 })
	if n := source.opens(); n != 2 {
		t.Errorf("opened %d times, want 2", n)
	}
}

func TestPauseResumeStop(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 10, batch: 1}
	w := c.start(source.connector())
	ctx := context.Background()
	if _, err := w.Create(ctx, "src", map[string]string{"connector.class": sourceClass}, TargetPaused); err != nil {
		t.Fatal(err)
	}
	w.eventually("PAUSED", func() bool { s, err := w.Status("src"); return err == nil && s.Connector.State == Paused })
	if err := w.SetTarget(ctx, "src", TargetStarted); err != nil {
		t.Fatal(err)
	}
	w.eventually("the records", func() bool { return source.lastCommit() == 10 })
	if err := w.SetTarget(ctx, "src", TargetPaused); err != nil {
		t.Fatal(err)
	}
	w.eventually("PAUSED", func() bool { return w.taskState("src", 0) == Paused })
	if err := w.SetTarget(ctx, "src", TargetStopped); err != nil {
		t.Fatal(err)
	}
	w.eventually("STOPPED without tasks", func() bool {
		s, err := w.Status("src")
		return err == nil && s.Connector.State == Stopped && len(s.Tasks) == 0
	})
	if _, err := w.AlterOffsets(ctx, "src", []OffsetEntry{{memoryPartition, pos(4)}}); err != nil {
		t.Fatal(err)
	}
	source.set(func() { source.committed = nil })
	if err := w.SetTarget(ctx, "src", TargetStarted); err != nil {
		t.Fatal(err)
	}
	w.eventually("RUNNING", func() bool { return w.taskState("src", 0) == Running && source.lastCommit() == 10 })
	if n := len(c.read("out", 16)); n != 16 {
		t.Errorf("%d records, want the first 10 and 6 again", n)
	}
	if _, err := w.AlterOffsets(ctx, "src", nil); err == nil {
		t.Error("offsets of a running connector were altered")
	}
}
