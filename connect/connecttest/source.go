package connecttest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
)

// pollLimit is the deadline that the suite gives a Poll.
const pollLimit = 200 * time.Millisecond

func (s Suite) runSource(t *testing.T, pass transport) {
	for _, c := range []struct {
		name string
		run  func(*reading)
	}{
		{"idle poll ends empty", checkIdle},
		{"batches and marks are well formed", checkBatches},
		{"resume from every mark", checkResume},
		{"a cancelled poll loses nothing", checkCancelled},
		{"commit beside poll", checkCommit},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &reading{t: t, s: s, world: s.NewSource(t), pass: pass}
			r.open(nil)
			c.run(r)
			r.close()
		})
	}
}

// reading is a task with all that it has given so far.
type reading struct {
	t       testing.TB
	s       Suite
	world   SourceWorld
	pass    transport
	task    connect.SourceTask
	seq     uint64
	batches []connect.Batch
	records []item
	resumes []resume
}

// item is a record, told from others by its text and its source partition.
type item struct{ source, text string }

// resume is a place to start again: the newest marks of every source partition at one moment, with how many of each
// partition's records lie before them.
type resume struct {
	offsets []connect.SourceOffset
	done    map[string]int
}

func (r *reading) open(offsets []connect.SourceOffset) {
	r.t.Helper()
	task := newTask(r.t, r.world.Config)
	task.Offsets = offsets
	source, err := r.s.Connector.Source(r.t.Context(), task)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.task, r.seq = source, 0
}

func (r *reading) close() {
	r.t.Helper()
	if err := r.task.Close(r.t.Context()); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

// poll polls once and keeps what came.
func (r *reading) poll(ctx context.Context) connect.Batch {
	r.t.Helper()
	b, err := r.task.Poll(ctx)
	if len(b.Records)+len(b.Marks) > 0 {
		b = r.pass.batch(r.t, b)
		r.keep(b)
	}
	if err != nil {
		if _, again := retryAfter(err); !again && ctx.Err() == nil {
			r.t.Fatalf("poll: %v", err)
		}
	}
	return b
}

func (r *reading) keep(b connect.Batch) {
	r.t.Helper()
	if r.seq++; b.Seq != r.seq {
		r.t.Fatalf("batch %d follows batch %d", b.Seq, r.seq-1)
	}
	done, offsets := map[string]int{}, map[string]connect.SourceOffset{}
	if n := len(r.resumes); n > 0 {
		for k, v := range r.resumes[n-1].done {
			done[k] = v
		}
		for _, o := range r.resumes[n-1].offsets {
			offsets[o.Partition.String()] = o
		}
	}
	seen := map[string]int{}
	for _, i := range r.records {
		seen[i.source]++
	}
	at := 0
	for _, m := range b.Marks {
		if m.After < at || m.After > len(b.Records) || m.Source < 0 || m.Source >= len(b.Sources) || m.Offset == nil {
			r.t.Fatalf("mark %+v is not valid after %d of %d records", m, at, len(b.Records))
		}
		for ; at < m.After; at++ {
			r.add(&b, at, seen)
		}
		source := b.Sources[m.Source]
		offsets[source.String()] = connect.SourceOffset{Partition: source, Offset: m.Offset}
		next := resume{done: map[string]int{}}
		done[source.String()] = seen[source.String()]
		for k, v := range done {
			next.done[k] = v
		}
		for _, o := range offsets {
			next.offsets = append(next.offsets, o)
		}
		r.resumes = append(r.resumes, next)
	}
	for ; at < len(b.Records); at++ {
		r.add(&b, at, seen)
	}
	r.batches = append(r.batches, b)
}

func (r *reading) add(b *connect.Batch, i int, seen map[string]int) {
	rec := &b.Records[i]
	if rec.Source < 0 || rec.Source >= len(b.Sources) {
		r.t.Fatalf("record %d names source partition %d of %d", i, rec.Source, len(b.Sources))
	}
	source := b.Sources[rec.Source].String()
	seen[source]++
	r.records = append(r.records, item{source, describe(rec)})
}

// describe gives a record's content as text; times are left out, they differ when a record is read again.
func describe(r *connect.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d key=%v", r.Topic, r.Partition, r.Key.Value())
	v := r.Value.Value()
	if s := r.Value.Schema(); s != nil && s.Field("after") >= 0 && v.Kind() == connect.Struct {
		fmt.Fprintf(&b, " before=%v after=%v op=%v", at(s, v, "before"), at(s, v, "after"), at(s, v, "op"))
	} else {
		fmt.Fprintf(&b, " value=%v", v)
	}
	if r.Fault != nil {
		fmt.Fprintf(&b, " fault=%q", r.Fault.Bytes)
	}
	return b.String()
}

func at(s *connect.Schema, v connect.Value, field string) connect.Value {
	if i := s.Field(field); i >= 0 {
		return v.Items()[i]
	}
	return connect.Value{}
}

// read polls until n records have come and the last of them has a mark behind it.
func (r *reading) read(n int) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d records", n), func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), pollLimit)
		defer cancel()
		r.poll(ctx)
		if len(r.records) > n {
			r.t.Fatalf("%d records came, of %d", len(r.records), n)
		}
		return len(r.records) == n && r.marked() == n
	})
}

// marked gives how many records lie before the last marks.
func (r *reading) marked() int {
	n := 0
	if len(r.resumes) > 0 {
		for _, done := range r.resumes[len(r.resumes)-1].done {
			n += done
		}
	}
	return n
}

func checkIdle(r *reading) {
	for range 3 {
		ctx, cancel := context.WithTimeout(r.t.Context(), pollLimit)
		b := r.poll(ctx)
		cancel()
		if len(b.Records) > 0 {
			r.t.Fatalf("an idle system gave %d records", len(b.Records))
		}
	}
}

func checkBatches(r *reading) {
	r.world.Add(30)
	r.read(30)
	r.world.Add(12)
	r.read(42)
	texts := map[string]bool{}
	for _, i := range r.records {
		if texts[i.source+i.text] {
			r.t.Errorf("came twice: %s", i.text)
		}
		texts[i.source+i.text] = true
	}
}

func checkResume(r *reading) {
	r.world.Add(9)
	r.read(9)
	r.world.Add(7)
	r.read(16)
	all, resumes := r.records, r.resumes
	for i, from := range resumes {
		var want []string
		seen := map[string]int{}
		for _, it := range all {
			if seen[it.source]++; seen[it.source] > from.done[it.source] {
				want = append(want, it.source+it.text)
			}
		}
		r.close()
		r.batches, r.records, r.resumes = nil, nil, nil
		r.open(from.offsets)
		await(r.t, fmt.Sprintf("%d records after mark %d", len(want), i), func() bool {
			ctx, cancel := context.WithTimeout(r.t.Context(), pollLimit)
			defer cancel()
			r.poll(ctx)
			return len(r.records) >= len(want)
		})
		var got []string
		for _, it := range r.records {
			got = append(got, it.source+it.text)
		}
		if diff := difference(got, want); diff != "" {
			r.t.Errorf("resumed from mark %d, %v (+ too much, - missing):\n%s", i, from.offsets, diff)
		}
	}
}

func checkCancelled(r *reading) {
	r.world.Add(10)
	cancelled, cancel := context.WithCancel(r.t.Context())
	cancel()
	for range 3 {
		r.poll(cancelled)
	}
	r.read(10)
}

func checkCommit(r *reading) {
	var mu sync.Mutex
	var newest []connect.SourceOffset
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			mu.Lock()
			acked := connect.Acked{Offsets: newest}
			mu.Unlock()
			if err := r.task.Commit(r.t.Context(), acked); err != nil {
				if _, again := retryAfter(err); !again {
					r.t.Errorf("commit: %v", err)
					return
				}
			}
			r.task.Stats()
		}
	}()
	for i := 1; i <= 5; i++ {
		r.world.Add(8)
		r.read(8 * i)
		mu.Lock()
		newest = r.resumes[len(r.resumes)-1].offsets
		mu.Unlock()
	}
	close(done)
	<-stopped
}
