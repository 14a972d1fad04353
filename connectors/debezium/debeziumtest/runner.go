// Package debeziumtest drives a source of Debezium's kind in tests as the worker does, and keeps what a log and an
// offsets topic would.
//
// The central type is [Runner]: it polls, copies what it is given, and makes an offset durable through the form in which it
// is stored, so that a task can be ended at any point and opened again from what was durable then. Each connector embeds it
// beside its own way to open, end and kill its task.
//
// Neighbours: connectors/debezium and connect. Only tests import it.
package debeziumtest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
)

const (
	pollLimit  = 200 * time.Millisecond
	untilLimit = 30 * time.Second
	closeLimit = 10 * time.Second
)

// Runner drives one task. Task is set by who opens it; Log and Stored outlive it.
type Runner struct {
	T         testing.TB
	Name      string // the connector's
	Config    connect.Config
	Partition connect.OffsetMap // the task's only source partition

	Task   connect.SourceTask
	Log    []Entry
	Stored connect.OffsetMap // the durable offset; nil: none
}

// Instance is what a task is opened with: what is durable now, and a log that the test prints.
func (r *Runner) Instance() connect.Task {
	in := connect.Instance{Name: r.Name, Config: r.Config, Log: slog.New(slog.NewTextHandler(printer{r.T}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if r.Stored != nil {
		in.Offsets = []connect.SourceOffset{{Partition: r.Partition, Offset: r.Stored}}
	}
	return connect.Task{Instance: in, Config: r.Config}
}

type printer struct{ t testing.TB }

func (p printer) Write(b []byte) (int, error) {
	p.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// Poll polls once and keeps the records. It gives the offset of the last mark, nil for none or after a Retry.
func (r *Runner) Poll() connect.OffsetMap {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), pollLimit)
	defer cancel()
	b, err := r.Task.Poll(ctx)
	if err != nil {
		if connect.KindOf(r.T.Context(), err) == connect.KindRetry {
			r.T.Logf("poll: %v", err)
			return nil
		}
		r.T.Fatalf("poll: %v", err)
	}
	return r.Keep(b)
}

// Keep copies a batch to Log, and gives the offset of its last mark, which must stand behind all records.
func (r *Runner) Keep(b connect.Batch) connect.OffsetMap {
	r.T.Helper()
	for i := range b.Records {
		r.Log = append(r.Log, copyOf(&b.Records[i]))
	}
	if n := len(b.Marks); n > 0 {
		if b.Marks[n-1].After != len(b.Records) {
			r.T.Errorf("the batch's last mark is after %d of %d records", b.Marks[n-1].After, len(b.Records))
		}
		return b.Marks[n-1].Offset
	}
	if len(b.Records) > 0 {
		r.T.Error("records without a mark")
	}
	return nil
}

// Commit makes an offset durable and tells the task; nil does nothing.
func (r *Runner) Commit(offset connect.OffsetMap) {
	r.T.Helper()
	if offset == nil {
		return
	}
	text := offset.AppendJSON(nil) // through the form in which it is stored
	parsed, err := connect.ParseOffsetMap(text)
	if err != nil {
		r.T.Fatalf("offset %s: %v", text, err)
	}
	r.Stored = parsed
	if err := r.Task.Commit(r.T.Context(), connect.Acked{Offsets: []connect.SourceOffset{{Partition: r.Partition, Offset: parsed}}}); err != nil {
		r.T.Fatal(err)
	}
}

// Until polls, committing all, until the condition holds.
func (r *Runner) Until(what string, ok func() bool) {
	r.T.Helper()
	for start := time.Now(); !ok(); {
		r.Commit(r.Poll())
		if time.Since(start) > untilLimit {
			r.T.Fatalf("waited too long until %s; %d records, offset %s", what, len(r.Log), r.Stored)
		}
	}
}

// Records polls until there are n records, and gives all.
func (r *Runner) Records(n int) []Entry {
	r.T.Helper()
	r.Until(fmt.Sprintf("there are %d records", n), func() bool { return len(r.Log) >= n })
	return r.Log
}

// Close ends the task in order.
func (r *Runner) Close() {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.T.Context()), closeLimit)
	defer cancel()
	if err := r.Task.Close(ctx); err != nil {
		r.T.Fatalf("close: %v", err)
	}
}
