package s3

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestBoundary follows one partition through the commits that an end decided by the clock needs.
func TestBoundary(t *testing.T) {
	add := func(p *partition, offset int64) {
		g := p.take(offset, 0, 0, false)
		g.records++
		p.advance(offset, 10)
	}
	p := newPartition(connect.Assigned{Offset: 100})
	add(p, 100)
	add(p, 104)
	if c, ok := p.durable(); ok {
		t.Fatalf("an open group is answered as %v", c)
	}
	p.cut()
	add(p, 105) // may come before the commit: it belongs to the next group
	if p.cut() {
		t.Fatal("a second end was proposed while the first waits")
	}
	c, ok := p.durable()
	if !ok || c.Offset != 100 || c.Metadata != "weir-s3:1:105" || p.closed[0].ready {
		t.Fatalf("proposed: %+v, %v, ready %v", c, ok, p.closed[0].ready)
	}
	// Killed here, the end may have been committed or not; if it was, it is found again.
	q := newPartition(connect.Assigned{Offset: c.Offset, Metadata: c.Metadata})
	add(q, 100)
	add(q, 104)
	if len(q.closed) != 1 || !q.closed[0].ready || q.closed[0].end != 105 {
		t.Fatal("the committed end was not found again")
	}
	p.committed(c)
	if !p.closed[0].ready {
		t.Fatal("the commit was not noticed")
	}
	p.put()
	if c, _ := p.durable(); c.Offset != 105 || c.Metadata != "" {
		t.Fatalf("after the put: %+v", c)
	}
	// A record before a committed end that is gone from the log does not hold the group open for ever.
	q = newPartition(connect.Assigned{Offset: 100, Metadata: "weir-s3:1:105"})
	add(q, 100)
	q.cut()
	if c, _ := q.durable(); c.Offset != 100 || c.Metadata != "weir-s3:1:101" {
		t.Fatalf("proposed anew: %+v", c)
	}
	q = newPartition(connect.Assigned{Offset: 100, Metadata: "weir-s3:1:105"})
	add(q, 100)
	add(q, 107)
	if len(q.closed) != 1 || !q.closed[0].ready || q.open.first != 107 {
		t.Fatal("a record behind a committed end went into the group before it")
	}
}

func TestParseBoundary(t *testing.T) {
	for text, want := range map[string]int64{"weir-s3:1:7": 7, "": 0, "weir-s3:1:": 0, "weir-s3:1:-4": 0, "weir-s3:2:7": 0, "other": 0, "weir-s3:1:99999999999999999999": 0} {
		if got, ok := parseBoundary(text); got != want && ok || ok != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

// TestIdle: the time that a slow store takes is no idleness; the time in which no record came is.
func TestIdle(t *testing.T) {
	settings, _ := connect.ParseConfig(fields(), connect.Config{"s3.bucket.name": "b", "flush.size": "10", "rotate.idle.ms": "1000"})
	k, err := newSink(connect.Task{Instance: connect.Instance{Log: quiet()}}, settings)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1_000_000, 0)
	step := 10 * time.Second // every look at the clock, as if each call took so long
	k.now = func() time.Time { clock = clock.Add(step); return clock }
	tp := connect.TopicPartition{Topic: "t"}
	flush := func() []connect.Committed {
		f, err := k.Flush(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return f.Durable
	}
	if _, err := k.Assign(t.Context(), []connect.Assigned{{TopicPartition: tp, Offset: 7}}); err != nil {
		t.Fatal(err)
	}
	record := connect.Record{Value: connect.DataOf(nil, connect.Int64Value(1)), Origin: connect.Origin{Topic: "t", Offset: 7}}
	if err := k.Put(t.Context(), []connect.Record{record}); err != nil {
		t.Fatal(err)
	}
	step = 0
	if got := flush(); len(got) > 0 {
		t.Fatalf("a busy task closed an object as idle: %v", got)
	}
	clock = clock.Add(999 * time.Millisecond)
	if got := flush(); len(got) > 0 {
		t.Fatalf("closed too early: %v", got)
	}
	clock = clock.Add(time.Millisecond)
	if got := flush(); len(got) != 1 || got[0].Offset != 7 || got[0].Metadata != "weir-s3:1:8" {
		t.Fatalf("not closed when idle: %v", got)
	}
}
