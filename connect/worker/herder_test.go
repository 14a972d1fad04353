package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// config writes records to the config topic as another worker would.
func (c *cluster) config(records ...string) {
	c.t.Helper()
	var recs []*kgo.Record
	for i := 0; i < len(records); i += 2 {
		r := &kgo.Record{Key: []byte(records[i])}
		if records[i+1] != "" {
			r.Value = []byte(records[i+1])
		}
		recs = append(recs, r)
	}
	c.produce("cfg", recs...)
}

func (c *cluster) configTopic() {
	c.t.Helper()
	settings := map[string]*string{"cleanup.policy": ptr("compact")}
	if _, err := admin(c.client()).CreateTopic(context.Background(), 1, 1, settings, "cfg"); err != nil {
		c.t.Fatal(err)
	}
}

// TestTakeOver starts on topics that Java wrote: the source continues at its offset, under the key bytes found; classes
// that are not there make their connectors FAILED and nothing else.
func TestTakeOver(t *testing.T) {
	c := newCluster(t)
	c.configTopic()
	c.config(
		"session-key", `{"key":"eA==","algorithm":"HmacSHA256","creation-timestamp":1}`,
		"connector-src", `{"properties":{"name":"src","connector.class":"com.example.MemorySourceConnector","tasks.max":"1"}}`,
		"task-src-0", `{"properties":{"task.class":"com.example.MemoryTask","name":"src"}}`,
		"commit-src", `{"tasks":1}`,
		"connector-lost", `{"properties":{"name":"lost","connector.class":"com.example.Lost"}}`,
		"connector-refused", `{"properties":{"name":"refused","connector.class":"memory-source","exactly.once.support":"required"}}`,
		"connector-off", `{"properties":{"name":"off","connector.class":"memory-source"}}`,
		"target-state-off", `{"state":"PAUSED","state.v2":"STOPPED"}`,
	)
	settings := map[string]*string{"cleanup.policy": ptr("compact")}
	if _, err := admin(c.client()).CreateTopic(context.Background(), 3, 1, settings, "off"); err != nil {
		t.Fatal(err)
	}
	const key = `["src", { "file" : "x" }]`
	c.produce("off", &kgo.Record{Partition: -1, Key: []byte(key), Value: []byte(`{"pos":40}`)})
	source := &memorySource{total: 100, batch: 10}
	w := c.start(source.connector())
	w.eventually("the records", func() bool { return source.lastCommit() == 100 })
	if n := len(c.read("out", 60)); n != 60 {
		t.Errorf("%d records, want 60: it did not continue at 40", n)
	}
	for _, r := range c.read("off", 2) {
		if string(r.Key) != key {
			t.Errorf("the offset was stored under %s", r.Key)
		}
	}
	for name, want := range map[string]string{"lost": "com.example.Lost", "refused": "exactly.once.support"} {
		w.eventually(name+" to be FAILED", func() bool {
			s, err := w.Status(name)
			return err == nil && s.Connector.State == Failed && strings.Contains(s.Connector.Trace, want)
		})
	}
	w.eventually("off to be STOPPED", func() bool { s, err := w.Status("off"); return err == nil && s.Connector.State == Stopped })
	if info, err := w.Info("lost"); err != nil || info.Type != "unknown" || info.Config["connector.class"] != "com.example.Lost" {
		t.Errorf("info of lost: %+v, %v", info, err)
	}
}

func TestDeleteAndCreateAgain(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 10, batch: 10}
	w := c.start(source.connector())
	ctx := context.Background()
	for range 3 {
		w.create("src", map[string]string{"connector.class": sourceClass})
		_, err := w.Create(ctx, "src", map[string]string{"connector.class": sourceClass}, "")
		var e *Error
		if !errors.As(err, &e) || e.Status != 409 {
			t.Fatalf("a second create: %v", err)
		}
		w.eventually("RUNNING", func() bool { return w.taskState("src", 0) == Running })
		if err := w.Delete(ctx, "src"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Status("src"); err == nil {
			t.Error("a deleted connector has a status")
		}
	}
	w.eventually("the statuses to go", func() bool { return len(w.statuses.ids()) == 0 && len(w.allUnits()) == 0 })
	if w.stored("src") != 10 {
		t.Errorf("offset %d: offsets outlive their connector", w.stored("src"))
	}
}

// TestReconfigureRunsTheNewConfigOnce: tasks run with the old configuration until the new plan is committed, then with
// the new one, and are opened once for it.
func TestReconfigure(t *testing.T) {
	c := newCluster(t)
	sink := &memorySink{}
	conn := sink.connector()
	conn.Fields = []connect.Field{{Name: "x", Type: connect.TypeString}}
	opened := make(chan string, 100)
	conn.Sink = func(_ context.Context, task connect.Task) (connect.SinkTask, error) {
		opened <- task.Instance.Config["x"] + "/" + task.Config["x"]
		return &memorySink{next: map[connect.TopicPartition]int64{}}, nil
	}
	c.createTopic("in", 2)
	w := c.start(conn)
	w.create("snk", sinkConfig(map[string]string{"x": "1", "tasks.max": "2"}))
	for range 2 {
		if got := <-opened; got != "1/1" {
			t.Errorf("opened with %s", got)
		}
	}
	if _, _, err := w.PutConfig(context.Background(), "snk", sinkConfig(map[string]string{"x": "2", "tasks.max": "1"})); err != nil {
		t.Fatal(err)
	}
	if got := <-opened; got != "2/2" {
		t.Errorf("opened with %s", got)
	}
	w.eventually("one task", func() bool {
		s, err := w.Status("snk")
		return err == nil && len(s.Tasks) == 1 && s.Tasks[0].State == Running
	})
	if len(opened) != 0 {
		t.Errorf("opened again with %s", <-opened)
	}
}

// TestReplan: a connector that asks for it is planned again, and a plan that is the same restarts nothing.
func TestReplan(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{}
	conn := source.connector()
	hosts, tables := make(chan connect.Host, 1), make(chan []connect.Config, 10)
	conn.Plan = func(ctx context.Context, _ connect.Instance, max int) ([]connect.Config, error) {
		select {
		case p := <-tables:
			return p, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	conn.Watch = func(ctx context.Context, _ connect.Instance, h connect.Host) error {
		select {
		case hosts <- h:
		default:
			return errors.New("publication is gone") // of a later life, which fails until the breaker ends it
		}
		<-ctx.Done()
		return nil
	}
	w := c.start(conn)
	w.create("src", map[string]string{"connector.class": sourceClass, "tasks.max": "3"})
	if names := w.Connectors(); len(names) != 1 {
		t.Errorf("connectors %v while a plan hangs", names) // reads don't wait for a connector
	}
	tables <- []connect.Config{{"tables": "a"}}
	w.eventually("a task", func() bool { return w.taskState("src", 0) == Running })
	h := <-hosts
	hosts <- h
	tables <- []connect.Config{{"tables": "a"}}
	h.Replan()
	w.eventually("the plan to be asked for", func() bool { return len(tables) == 0 })
	tables <- []connect.Config{{"tables": "a"}, {"tables": "b"}}
	h.Replan()
	w.eventually("two tasks", func() bool { return w.taskState("src", 1) == Running })
	infos, err := w.Tasks("src")
	if err != nil || len(infos) != 2 || infos[1].Config["tables"] != "b" || infos[1].Config["task.class"] != "memory-source" {
		t.Errorf("tasks %+v, %v", infos, err)
	}
	if n := source.opens(); n != 2 {
		t.Errorf("tasks were opened %d times, want 2: a plan leaves alone the task that it does not change", n)
	}
	h.Fail(errors.New("publication is gone"))
	w.eventually("FAILED", func() bool {
		s, err := w.Status("src")
		return err == nil && s.Connector.State == Failed && strings.Contains(s.Connector.Trace, "publication is gone")
	})
}

// TestSecrets: neither an inline secret nor what a provider gave is in an answer, a status or a topic other than where
// the user put it; the task has both.
func TestSecrets(t *testing.T) {
	t.Setenv("CANARY", "canary-from-provider")
	c := newCluster(t)
	source := &memorySource{total: 1, batch: 1}
	conn := source.connector()
	seen := make(chan connect.Task, 10)
	open := conn.Source
	conn.Source = func(ctx context.Context, task connect.Task) (connect.SourceTask, error) {
		seen <- task
		return open(ctx, task)
	}
	conn.Fields = append(conn.Fields, connect.Field{Name: "password", Type: connect.TypePassword, NoDefault: true})
	w := c.startWith(map[string]string{"config.providers": "env",
		"config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}, conn)
	ctx := context.Background()
	w.create("src", map[string]string{"connector.class": sourceClass, "secret.word": "inline-canary", "password": "${env:CANARY}",
		"producer.override.sasl.jaas.config": ""})
	task := <-seen
	for _, config := range []connect.Config{task.Config, task.Instance.Config} {
		if config["secret.word"] != "inline-canary" || config["password"] != "canary-from-provider" {
			t.Errorf("the task has %v", config)
		}
	}
	info, err := w.Info("src")
	if err != nil || info.Config["secret.word"] != "${inline:secret.word}" || info.Config["password"] != "${env:CANARY}" {
		t.Errorf("info %v, %v", info.Config, err)
	}
	info.Config["tables"] = "t"
	if _, _, err := w.PutConfig(ctx, "src", info.Config); err != nil {
		t.Fatal(err)
	}
	task = <-seen
	if task.Config["secret.word"] != "inline-canary" || task.Config["tables"] != "t" {
		t.Errorf("after a round trip the task has %v", task.Config)
	}
	v, err := w.Validate(ctx, sourceClass, info.Config)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := w.Tasks("src")
	if err != nil {
		t.Fatal(err)
	}
	if answers, _ := json.Marshal([]any{v, tasks, info}); strings.Contains(string(answers), "canary") {
		t.Errorf("a secret is in an answer: %s", answers)
	}
	for _, r := range c.read("cfg", 5) {
		if strings.Contains(string(r.Value), "canary-from-provider") {
			t.Errorf("a provider's secret is in the config topic: %s", r.Value)
		}
	}
	if _, err := w.Validate(ctx, sourceClass, map[string]string{"connector.class": sourceClass, "name": "new", "password": "${inline:password}"}); err == nil {
		t.Error("an inline text without a stored value was taken")
	}
}

func TestInternalTopicMustBeCompacted(t *testing.T) {
	c := newCluster(t)
	if _, err := admin(c.client()).CreateTopic(context.Background(), 1, 1, map[string]*string{"cleanup.policy": ptr("delete")}, "cfg"); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := ParseConfig(c.props())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(context.Background()); !errors.Is(err, ErrNotCompacted) || !strings.Contains(err.Error(), "cfg") {
		t.Errorf("started with %v", err)
	}
}

func TestParseConfigTellsAllFaults(t *testing.T) {
	_, warnings, err := ParseConfig(map[string]string{"bootstrap.servers": "x:1", "group.id": "g", "offset.flush.interval.ms": "soon",
		"exactly.once.source.support": "enabled", "key.convertor": "x", "listeners": "ftp://x"})
	if !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	for _, want := range []string{"config.storage.topic", "offset.storage.topic", "offset.flush.interval.ms", "exactly.once.source.support",
		"value.converter", "listeners"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "key.converter") {
		t.Errorf("warnings %q", warnings)
	}
}

// A connector that ignores its context does not keep the worker from ending.
func TestHungTaskIsAbandonedAtTheEnd(t *testing.T) {
	c := newCluster(t)
	source := &memorySource{total: 1, batch: 1}
	release, hung := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	conn := source.connector()
	conn.Source = func(context.Context, connect.Task) (connect.SourceTask, error) {
		defer close(ended)
		close(hung)
		<-release
		return nil, errors.New("released")
	}
	w := c.startWith(map[string]string{"task.shutdown.graceful.timeout.ms": "0"}, conn)
	w.create("src", map[string]string{"connector.class": sourceClass})
	<-hung
	w.cfg.AbandonAfter = 100 * time.Millisecond
	w.stop() // fails the test if it takes longer than waitLimit
	close(release)
	<-ended
}
