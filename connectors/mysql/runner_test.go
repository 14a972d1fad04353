package mysql

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// entry is one record as a log would keep it: a copy that outlives the batch.
type entry struct {
	topic      string
	key, value connect.Value
	keySchema  *connect.Schema
	schema     *connect.Schema
	headers    []connect.Header
	fault      *connect.Fault
}

// runner drives a task as the worker does and keeps what a log and an offsets topic would.
type runner struct {
	t       testing.TB
	dialect binlog.Dialect
	config  connect.Config
	task    *task
	log     []entry
	stored  connect.OffsetMap // the durable offset
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func newRunner(d *db, config connect.Config) *runner {
	return &runner{t: d.t, dialect: d.server.dialect, config: config}
}

func (r *runner) instance() connect.Task {
	in := connect.Instance{Name: "my", Config: r.config, Log: slog.New(slog.NewTextHandler(testLog{r.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if r.stored != nil {
		in.Offsets = []connect.SourceOffset{{Partition: debezium.Partition("srv"), Offset: r.stored}}
	}
	return connect.Task{Instance: in, Config: r.config}
}

// open opens the task.
func (r *runner) open() *runner {
	r.t.Helper()
	opened, err := openTask(context.Background(), r.dialect, r.instance())
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.task = opened
	return r
}

// poll polls once and keeps the records. It returns the offset of the last mark, nil for none.
func (r *runner) poll() connect.OffsetMap {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	b, err := r.task.Poll(ctx)
	if err != nil {
		if connect.KindOf(context.Background(), err) == connect.KindRetry {
			r.t.Logf("poll: %v", err)
			return nil
		}
		r.t.Fatalf("poll: %v", err)
	}
	return r.keep(b)
}

func (r *runner) keep(b connect.Batch) connect.OffsetMap {
	for i := range b.Records {
		rec := &b.Records[i]
		headers := make([]connect.Header, len(rec.Headers))
		for k, h := range rec.Headers {
			headers[k] = connect.Header{Key: h.Key, Value: connect.DataOf(h.Value.Schema(), h.Value.Value().Clone())}
		}
		r.log = append(r.log, entry{topic: rec.Topic, key: rec.Key.Value().Clone(), value: rec.Value.Value().Clone(),
			keySchema: rec.Key.Schema(), schema: rec.Value.Schema(), headers: headers, fault: rec.Fault})
	}
	if n := len(b.Marks); n > 0 {
		if b.Marks[n-1].After != len(b.Records) {
			r.t.Errorf("the batch's last mark is after %d of %d records", b.Marks[n-1].After, len(b.Records))
		}
		return b.Marks[n-1].Offset
	}
	if len(b.Records) > 0 {
		r.t.Error("records without a mark")
	}
	return nil
}

// commit makes an offset durable and tells the task.
func (r *runner) commit(offset connect.OffsetMap) {
	r.t.Helper()
	if offset == nil {
		return
	}
	text := offset.AppendJSON(nil) // through the form in which it is stored
	parsed, err := connect.ParseOffsetMap(text)
	if err != nil {
		r.t.Fatalf("offset %s: %v", text, err)
	}
	r.stored = parsed
	if err := r.task.Commit(context.Background(), connect.Acked{Offsets: []connect.SourceOffset{{Partition: r.task.batch.Partition, Offset: parsed}}}); err != nil {
		r.t.Fatal(err)
	}
}

// until polls, committing all, until the condition holds.
func (r *runner) until(what string, ok func() bool) {
	r.t.Helper()
	for start := time.Now(); !ok(); {
		r.commit(r.poll())
		if time.Since(start) > 30*time.Second {
			r.t.Fatalf("waited too long until %s; %d records, offset %s", what, len(r.log), r.stored)
		}
	}
}

// records polls until there are n records, and returns all.
func (r *runner) records(n int) []entry {
	r.t.Helper()
	r.until(fmt.Sprintf("there are %d records", n), func() bool { return len(r.log) >= n })
	return r.log
}

func (r *runner) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.task.Close(ctx); err != nil {
		r.t.Fatalf("close: %v", err)
	}
}

// kill ends the task as the death of its process would: connections go, nothing is said.
func (r *runner) kill() {
	r.t.Helper()
	r.close() // the server is told nothing at a close either
	r.task = nil
}

// field gives a field of a struct under its schema.
func field(s *connect.Schema, v connect.Value, name string) connect.Value {
	i := s.Field(name)
	if i < 0 || v.IsNull() {
		return connect.Value{}
	}
	return v.Items()[i]
}

func (e *entry) op() string { return field(e.schema, e.value, "op").Str() }

func (e *entry) after(name string) connect.Value {
	i := e.schema.Field("after")
	return field(e.schema.Fields[i].Schema, e.value.Items()[i], name)
}

func (e *entry) source(name string) connect.Value {
	i := e.schema.Field("source")
	return field(e.schema.Fields[i].Schema, e.value.Items()[i], name)
}

// state replays a topic by key: what a consumer ends up with.
func state(log []entry, topic string) map[string]string {
	out := map[string]string{}
	for i := range log {
		e := &log[i]
		if e.topic != topic {
			continue
		}
		k := e.key.String()
		if e.value.IsNull() || e.op() == "d" {
			delete(out, k)
			continue
		}
		out[k] = e.value.Items()[debezium.EnvelopeAfter].String()
	}
	return out
}

// describe gives ops and keys, for comparing sequences.
func describe(log []entry) string {
	var b strings.Builder
	for i := range log {
		e := &log[i]
		op := "tombstone"
		if !e.value.IsNull() {
			op = e.op()
		}
		fmt.Fprintf(&b, "%s%s ", op, e.key)
	}
	return strings.TrimSpace(b.String())
}

func (e *entry) before(name string) connect.Value {
	i := e.schema.Field("before")
	return field(e.schema.Fields[i].Schema, e.value.Items()[i], name)
}
