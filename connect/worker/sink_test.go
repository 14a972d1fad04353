package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

const sinkClass = "memory-sink"

// fill makes topic "in" with two partitions and n records, value i in partition i%2.
func (c *cluster) fill(from, n int) {
	c.t.Helper()
	c.createTopic("in", 2)
	var recs []*kgo.Record
	for i := from; i < from+n; i++ {
		recs = append(recs, &kgo.Record{Partition: int32(i % 2), Key: []byte("k"), Value: []byte(strconv.Itoa(i)),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}})
	}
	c.produce("in", recs...)
}

func sinkConfig(more map[string]string) map[string]string {
	config := map[string]string{"connector.class": sinkClass, "topics": "in"}
	maps.Copy(config, more)
	return config
}

// committed sums the offsets of a sink's group.
func (r *running) committed(name string) int64 {
	o, err := r.Offsets(context.Background(), name)
	if err != nil {
		return -1
	}
	sum := int64(0)
	for _, e := range o.Offsets {
		sum += e.Offset.Get("kafka_offset").Int()
	}
	return sum
}

// once checks that the sink has every value 0 … n-1 exactly once.
func (m *memorySink) once(t *testing.T, n int, without ...string) {
	t.Helper()
	seen := map[string]int{}
	for _, v := range m.values() {
		seen[v]++
	}
	for i := range n {
		v := strconv.Itoa(i)
		want := 1
		if slices.Contains(without, v) {
			want = 0
		}
		if seen[v] != want {
			t.Errorf("record %s arrived %d times, want %d", v, seen[v], want)
		}
	}
}

func TestSinkRetry(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 100)
	tries := 0
	sink := &memorySink{putErr: func([]connect.Record) error {
		if tries++; tries <= 5 {
			return connect.Retry(time.Millisecond, errors.New("target down"))
		}
		return nil
	}}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(nil))
	w.eventually("the commit", func() bool { return w.committed("snk") == 100 })
	sink.once(t, 100)
	s := w.Stats().Tasks[0]
	if s.Retries < 5 || s.State != Running || s.Restarts != 0 || s.Out != 100 || s.In != 100 || s.RetryReason != "" {
		t.Errorf("stats %+v", s)
	}
	if st, _ := w.TaskStatus("snk", 0); st.Trace != "" {
		t.Errorf("trace %q is left of the retries", st.Trace)
	}
}

func badValues(values ...string) func([]connect.Record) error {
	return func(records []connect.Record) error {
		for i := range records {
			if err := records[i].Decode(); err != nil {
				return err
			}
			if slices.Contains(values, records[i].Value.Value().Str()) {
				return connect.BadRecord(i, errors.New("mapping conflict"))
			}
		}
		return nil
	}
}

func dlqConfig(more map[string]string) map[string]string {
	config := sinkConfig(map[string]string{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq",
		"errors.deadletterqueue.context.headers.enable": "true"})
	maps.Copy(config, more)
	return config
}

func checkLetter(t *testing.T, l *kgo.Record, value, reason string) {
	t.Helper()
	h := map[string]string{}
	for _, x := range l.Headers {
		h[x.Key] = string(x.Value)
	}
	n, _ := strconv.Atoi(value)
	want := map[string]string{"h": "v", "__connect.errors.topic": "in", "__connect.errors.partition": strconv.Itoa(n % 2),
		"__connect.errors.offset": strconv.Itoa(n / 2), "__connect.errors.connector.name": "snk", "__connect.errors.task.id": "0",
		"__connect.errors.exception.message": reason}
	for k, v := range want {
		if h[k] != v {
			t.Errorf("letter %s: header %s is %q, want %q", l.Value, k, h[k], v)
		}
	}
	if string(l.Value) != value || string(l.Key) != "k" {
		t.Errorf("letter is %q, %q, want the original bytes of %s", l.Key, l.Value, value)
	}
}

func TestSinkBadRecord(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		c := newCluster(t)
		c.fill(0, 60)
		sink := &memorySink{putErr: badValues("7", "30")}
		w := c.start(sink.connector())
		w.create("snk", sinkConfig(dlqConfig(nil)))
		w.eventually("the commit", func() bool { return w.committed("snk") == 60 })
		sink.once(t, 60, "7", "30")
		letters := c.read("dlq", 2)
		slices.SortFunc(letters, func(a, b *kgo.Record) int { return len(a.Value) - len(b.Value) })
		checkLetter(t, letters[0], "7", "mapping conflict")
		checkLetter(t, letters[1], "30", "mapping conflict")
		if s := w.Stats().Tasks[0]; s.In != 60 || s.Out != 58 || s.DeadLettered != 2 || s.InFlight != 0 || s.Errors != 2 {
			t.Errorf("stats %+v", s)
		}
	})
	t.Run("none", func(t *testing.T) {
		c := newCluster(t)
		c.fill(0, 10)
		sink := &memorySink{putErr: badValues("4")}
		w := c.startWith(map[string]string{"connect.task.restart.max": "2"}, sink.connector())
		w.create("snk", sinkConfig(map[string]string{"consumer.override.max.poll.records": "1"})) // each life puts some again
		w.eventually("the breaker", func() bool {
			s, _ := w.TaskStatus("snk", 0)
			return s.State == Failed && strings.Contains(s.Trace, "given up after 2 restarts")
		})
		if n := w.committed("snk"); n > 7 { // partition 0 up to value 4 at offset 2, partition 1 whole
			t.Errorf("committed %d, beyond the bad record", n)
		}
	})
}

func TestSinkLateRejection(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 20)
	told := false
	sink := &memorySink{}
	sink.flushFn = func([]connect.Committed) (connect.Flushed, error) {
		var f connect.Flushed
		for tp, next := range sink.next {
			f.Durable = append(f.Durable, connect.Committed{TopicPartition: tp, Offset: next})
		}
		if !told && sink.next[connect.TopicPartition{Topic: "in", Partition: 1}] > 4 {
			told = true
			f.Rejected = []connect.Rejection{{Origin: connect.Origin{Topic: "in", Partition: 1, Offset: 4}, Reason: "too old"}}
		}
		return f, nil
	}
	w := c.start(sink.connector())
	w.create("snk", dlqConfig(nil))
	w.eventually("the commit", func() bool { return w.committed("snk") == 20 })
	checkLetter(t, c.read("dlq", 1)[0], "9", "too old")
	if s := w.Stats().Tasks[0]; s.In != 20 || s.Out != 19 || s.DeadLettered != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestDeadLetterIsDurableBeforeTheCommit(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 20)
	c.createTopic("dlq", 1)
	allow, _ := c.deny("dlq")
	sink := &memorySink{putErr: badValues("3")}
	w := c.startWith(map[string]string{"offset.flush.timeout.ms": "50"}, sink.connector())
	w.create("snk", dlqConfig(nil))
	w.eventually("commits to be held back", func() bool {
		s := w.Stats()
		return len(s.Tasks) == 1 && s.Tasks[0].DeadLettered == 1 && s.Tasks[0].CommitFailures > 3
	})
	if n := w.committed("snk"); n > 11 { // whatever was committed before the bad record came
		t.Fatalf("%d is committed and the dead letter is not durable", n)
	}
	allow()
	w.eventually("the commit", func() bool { return w.committed("snk") == 20 })
	checkLetter(t, c.read("dlq", 1)[0], "3", "mapping conflict")
}

func TestSinkMetadataComesBack(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 10)
	sink := &memorySink{}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(nil))
	w.eventually("the commit to be told", func() bool { sink.mu.Lock(); defer sink.mu.Unlock(); return len(sink.told) >= 2 })
	w.eventually("the commit", func() bool { return w.committed("snk") == 10 })
	w.stop()
	sink.mu.Lock()
	sink.assigned = nil
	sink.mu.Unlock()
	c.fill(10, 10)
	w = c.start(sink.connector())
	w.eventually("the rest", func() bool { return len(sink.values()) >= 20 })
	sink.once(t, 20)
	sink.mu.Lock()
	defer sink.mu.Unlock()
	if len(sink.assigned) != 2 {
		t.Fatalf("assigned %+v", sink.assigned)
	}
	for _, a := range sink.assigned {
		if a.Offset != 5 || a.Metadata != "m5" || a.Begin != 0 || a.End != 10 {
			t.Errorf("assigned %+v", a)
		}
	}
}

func TestSinkPassesWhatIsFiltered(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 50)
	sink := &memorySink{}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(map[string]string{"transforms": "f", "transforms.f.type": "Filter"}))
	w.eventually("the commit", func() bool { return w.committed("snk") == 50 })
	if s := w.Stats().Tasks[0]; s.Filtered != 50 || s.In != 50 || s.Out != 0 {
		t.Errorf("stats %+v", s)
	}
}

// What the sink does not call durable is not committed, also when records after it were filtered.
func TestSinkCommitsOnlyWhatIsDurable(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 40)
	hold := true
	flushes := 0
	sink := &memorySink{}
	sink.flushFn = func([]connect.Committed) (connect.Flushed, error) {
		var f connect.Flushed
		for tp, next := range sink.next {
			if hold {
				next = min(next, 7)
			}
			f.Durable = append(f.Durable, connect.Committed{TopicPartition: tp, Offset: next})
		}
		if len(sink.got) == 40 {
			flushes++
		}
		return f, nil
	}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(nil))
	w.eventually("some commits", func() bool { sink.mu.Lock(); defer sink.mu.Unlock(); return flushes > 5 })
	if n := w.committed("snk"); n != 14 {
		t.Fatalf("committed %d, want 7 of each partition", n)
	}
	sink.mu.Lock()
	hold = false
	sink.mu.Unlock()
	w.eventually("the commit", func() bool { return w.committed("snk") == 40 })
}

// A Put that is being retried is repeated without the partitions that went meanwhile, and rebalances are not held up.
func TestSinkRetryLeavesOutWhatWasRevoked(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 20)
	sink := &memorySink{}
	wrong := ""
	sink.putErr = func(records []connect.Record) error {
		for i := range records {
			o := records[i].Origin
			if slices.Contains(sink.revoked, connect.TopicPartition{Topic: o.Topic, Partition: o.Partition}) {
				wrong = fmt.Sprint(o)
			}
		}
		if len(sink.revoked) == 0 {
			return connect.Retry(5*time.Millisecond, errors.New("target down"))
		}
		return nil
	}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(map[string]string{"consumer.override.heartbeat.interval.ms": "20",
		"consumer.override.session.timeout.ms": "5000"}))
	w.eventually("the retries", func() bool { s := w.Stats(); return len(s.Tasks) == 1 && s.Tasks[0].Retries > 2 })
	leave := c.join("connect-snk")
	defer leave()
	w.eventually("the rest to be put", func() bool { return len(sink.values()) == 10 })
	sink.mu.Lock()
	defer sink.mu.Unlock()
	if wrong != "" || len(sink.revoked) != 1 {
		t.Errorf("record %s was put after its partition went (revoked %v)", wrong, sink.revoked)
	}
}

// join adds a member to a group that reads topic in.
func (c *cluster) join(group string) (leave func()) {
	other := c.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics("in"), kgo.HeartbeatInterval(20*time.Millisecond),
		kgo.Balancers(kgo.CooperativeStickyBalancer()))
	ctx, cancel := context.WithCancel(context.Background())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for ctx.Err() == nil {
			other.PollFetches(ctx)
		}
	}()
	return func() { cancel(); <-polled }
}

func TestSinkFindsTopicsByExpression(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 10)
	sink := &memorySink{}
	w := c.start(sink.connector())
	w.create("snk", map[string]string{"connector.class": sinkClass, "topics.regex": "in[0-9]*",
		"consumer.override.metadata.max.age.ms": "250"})
	w.eventually("the records", func() bool { return len(sink.values()) == 10 })
	c.createTopic("in2", 1)
	c.createTopic("other-in2", 1)
	c.produce("other-in2", &kgo.Record{Value: []byte("no")})
	c.produce("in2", &kgo.Record{Value: []byte("new")})
	w.eventually("the new topic's record", func() bool { v := sink.values(); return slices.Contains(v, "new") })
	if v := sink.values(); len(v) != 11 {
		t.Errorf("got %v", v)
	}
}

// TestSinkReadsATopicThatWasMadeAgain: a topic deleted under a sink and made again is read from its start.
func TestSinkReadsATopicThatWasMadeAgain(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 10)
	sink := &memorySink{}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(nil))
	w.eventually("the commit", func() bool { return w.committed("snk") == 10 })
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	adm := kadm.NewClient(c.client())
	if _, err := adm.DeleteTopic(ctx, "in"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteOffsets(ctx, "connect-snk", kadm.TopicsSet{"in": {0: {}, 1: {}}}); err != nil {
		t.Log(err) // a broker does it itself
	}
	c.createTopic("in", 2)
	c.produce("in", &kgo.Record{Value: []byte("new")})
	w.eventually("the new topic's record", func() bool { return slices.Contains(sink.values(), "new") })
}

// TestUnreadIsPatient: a topic's unknown id counts as a deletion when it stays unknown, not when it was twice in a day.
func TestUnreadIsPatient(t *testing.T) {
	var u unread
	start := time.Unix(1700000000, 0)
	for _, c := range []struct {
		after time.Duration
		topic string
		err   error
		want  bool
	}{
		{0, "a", kerr.UnknownTopicID, false},
		{time.Second, "b", kerr.UnknownTopicID, false},
		{3 * time.Second, "a", kerr.NotLeaderForPartition, false},
		{3 * time.Second, "a", kerr.UnknownTopicID, true},
		{time.Hour, "a", kerr.UnknownTopicID, false},
		{time.Hour + goneAfter, "a", kerr.UnknownTopicID, true},
	} {
		if got := u.isGone(c.topic, c.err, start.Add(c.after)); got != c.want {
			t.Errorf("after %v topic %s: gone %v, want %v", c.after, c.topic, got, c.want)
		}
	}
}

func TestSinkUndecodable(t *testing.T) {
	c := newCluster(t)
	c.createTopic("in", 2)
	c.produce("in", &kgo.Record{Value: []byte(`"fine"`)}, &kgo.Record{Value: []byte(`{"broken`)}, &kgo.Record{Value: []byte(`"good"`)})
	for _, lazy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lazy %v", lazy), func(t *testing.T) {
			sink := &memorySink{lazy: lazy}
			w := c.start(sink.connector())
			w.create("snk", dlqConfig(map[string]string{"value.converter": "org.apache.kafka.connect.json.JsonConverter",
				"value.converter.schemas.enable": "false", "consumer.override.group.id": fmt.Sprintf("g%v", lazy)}))
			w.eventually("the commit", func() bool { return w.committed("snk") == 3 })
			if v := sink.values(); !slices.Equal(v, []string{"fine", "good"}) {
				t.Errorf("got %v", v)
			}
			if letters := c.read("dlq", 1); string(letters[0].Value) != `{"broken` {
				t.Errorf("letter %q", letters[0].Value)
			}
			if err := w.Delete(context.Background(), "snk"); err != nil {
				t.Fatal(err)
			}
			w.stop()
		})
	}
}

func TestSinkRevokesOnlyWhatGoes(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 20)
	sink := &memorySink{}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(map[string]string{"consumer.override.heartbeat.interval.ms": "20",
		"consumer.override.session.timeout.ms": "5000"}))
	w.eventually("the commit", func() bool { return w.committed("snk") == 20 })
	leave := c.join("connect-snk")
	defer leave()
	w.eventually("one partition to go", func() bool { sink.mu.Lock(); defer sink.mu.Unlock(); return len(sink.revoked) > 0 })
	w.eventually("lag of one partition", func() bool { return len(w.Stats().Tasks[0].Lag) == 1 })
	sink.mu.Lock()
	assigned, revoked := len(sink.assigned), len(sink.revoked)
	sink.mu.Unlock()
	if assigned != 2 || revoked != 1 {
		t.Errorf("assigned %d partitions, %d were revoked: want 2 and 1", assigned, revoked)
	}
}

// A sink that waits to be let into its group, since another member died, does not hold up the end of the worker.
func TestSinkEndsWhileItWaitsForItsGroup(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 4)
	dead, err := kgo.NewClient(kgo.SeedBrokers(c.addrs), kgo.ConsumerGroup("connect-snk"), kgo.ConsumeTopics("in"),
		kgo.InstanceID("dead"), kgo.SessionTimeout(2*waitLimit), kgo.RebalanceTimeout(3*waitLimit), kgo.Balancers(kgo.CooperativeStickyBalancer()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if dead.PollFetches(ctx).NumRecords() == 0 {
		t.Fatal("the other member gets nothing")
	}
	dead.Close() // a static member does not leave
	sink := &memorySink{}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(nil))
	w.eventually("RUNNING", func() bool { return w.taskState("snk", 0) == Running })
	w.eventually("the join", func() bool {
		groups, err := admin(c.client()).DescribeGroups(ctx, "connect-snk")
		return err == nil && groups["connect-snk"].State == "PreparingRebalance"
	})
	w.stop() // fails the test if it takes longer than waitLimit
}

func TestSinkStartsWhereItSays(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 20)
	sink := &memorySink{}
	conn := sink.connector()
	open := conn.Sink
	conn.Sink = func(ctx context.Context, task connect.Task) (connect.SinkTask, error) {
		s, err := open(ctx, task)
		return &startingSink{s, 8}, err
	}
	w := c.start(conn)
	w.create("snk", sinkConfig(nil))
	w.eventually("the records", func() bool { return len(sink.values()) == 4 })
	w.eventually("the commit", func() bool { return w.committed("snk") == 20 })
	if v := sink.values(); len(v) != 4 {
		t.Errorf("got %v, want what lies at offset 8 and after", v)
	}
}

// startingSink keeps its own offsets.
type startingSink struct {
	connect.SinkTask
	at int64
}

func (s *startingSink) Assign(ctx context.Context, added []connect.Assigned) (starts []connect.Start, err error) {
	for _, a := range added {
		starts = append(starts, connect.Start{TopicPartition: a.TopicPartition, Offset: s.at})
	}
	_, err = s.SinkTask.Assign(ctx, added)
	return starts, err
}

// A sink whose buffers are full asks for retries until it is told that something was committed: Flush and commit go on
// beside a Put that is being retried.
func TestSinkCommitsWhileAPutIsRetried(t *testing.T) {
	c := newCluster(t)
	c.fill(0, 20)
	committed := false
	sink := &memorySink{}
	sink.flushFn = func(told []connect.Committed) (connect.Flushed, error) {
		committed = committed || len(told) > 0
		var f connect.Flushed
		for tp, next := range sink.next {
			f.Durable = append(f.Durable, connect.Committed{TopicPartition: tp, Offset: next})
		}
		return f, nil
	}
	sink.putErr = func([]connect.Record) error {
		if len(sink.got) == 20 && !committed {
			return connect.Retry(time.Millisecond, errors.New("buffers are full until something is committed"))
		}
		return nil
	}
	w := c.start(sink.connector())
	w.create("snk", sinkConfig(map[string]string{"consumer.override.max.poll.records": "20"}))
	w.eventually("the first records", func() bool { return len(sink.values()) == 20 })
	c.fill(20, 20)
	w.eventually("the commit", func() bool { return w.committed("snk") == 40 })
	sink.once(t, 40)
}
