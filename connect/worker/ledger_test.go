package worker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlog/weir/connect"
)

func pos(n int64) connect.OffsetMap {
	return connect.OffsetMap{{Name: "pos", Value: connect.Int64Value(n)}}
}

func srcPart(n int) connect.OffsetMap {
	return connect.OffsetMap{{Name: "p", Value: connect.Int64Value(int64(n))}}
}

// TestLedgerPrefix ends the records of random batches in random order and compares what may be stored, after every
// step, with a plain reading of the rule: the newest kept mark all of whose earlier records of its partition are done.
func TestLedgerPrefix(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { ledgerRun(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// modelMark is a mark of the plain reading; need lists the records, by number, that must be done.
type modelMark struct {
	part   int
	need   int // records of the partition before it
	offset int64
}

func ledgerRun(t *testing.T, r *rand.Rand) {
	l := newLedger(true)
	parts := 1 + r.IntN(3)
	var marks []modelMark
	var open []ticket
	count, done := make([]int, parts), make([]map[int]bool, parts)
	place := map[ticket][2]int{}
	for p := range done {
		done[p] = map[int]bool{}
	}
	ready, offset, acked := make([]int64, parts), int64(0), 0
	check := func() {
		a := l.take()
		acked += len(a.Acks)
		for _, so := range a.Offsets {
			ready[int(so.Partition.Get("p").Int())] = so.Offset.Get("pos").Int()
		}
		for p := range parts {
			want := int64(0)
			for _, m := range marks {
				if m.part != p {
					continue
				}
				all := true
				for i := 0; i < m.need && all; i++ {
					all = all && done[p][i]
				}
				if all {
					want = m.offset
				}
			}
			if ready[p] != want {
				t.Fatalf("partition %d: offset %d may be stored, the rule says %d", p, ready[p], want)
			}
		}
	}
	for range 60 {
		if r.IntN(3) == 0 || len(open) == 0 {
			b := connect.Batch{Seq: 1}
			for p := range parts {
				b.Sources = append(b.Sources, srcPart(p))
			}
			n := r.IntN(5)
			last := make([]int, parts) // index into marks of the batch's last mark, since only that one is kept
			for p := range last {
				last[p] = -1
			}
			added := append([]int(nil), count...)
			for i := 0; i <= n; i++ {
				if r.IntN(2) == 0 {
					p := r.IntN(parts)
					offset++
					b.Marks = append(b.Marks, connect.Mark{After: i, Source: p, Offset: pos(offset)})
					if last[p] >= 0 {
						marks[last[p]].need = 1 << 30 // coalesced away
					}
					marks = append(marks, modelMark{p, added[p], offset})
					last[p] = len(marks) - 1
				}
				if i < n {
					p := r.IntN(parts)
					b.Records = append(b.Records, connect.Record{Source: p})
					added[p]++
				}
			}
			for i, tk := range l.add(&b, nil) {
				p := b.Records[i].Source
				place[tk] = [2]int{p, count[p]}
				count[p]++
				open = append(open, tk)
			}
		} else {
			i := r.IntN(len(open))
			tk := open[i]
			open = append(open[:i], open[i+1:]...)
			l.done(tk, connect.Outcome(1+r.IntN(4)), "t", 0, 0)
			l.done(tk, connect.Written, "t", 0, 0) // a second end changes nothing
			done[place[tk][0]][place[tk][1]] = true
		}
		if r.IntN(2) == 0 {
			check()
		}
	}
	for _, tk := range open {
		l.done(tk, connect.Written, "t", 0, 0)
		done[place[tk][0]][place[tk][1]] = true
	}
	check()
	if l.pending() != 0 {
		t.Errorf("%d records pending after all have ended", l.pending())
	}
	total := 0
	for _, n := range count {
		total += n
	}
	if acked != total {
		t.Errorf("%d acks for %d records", acked, total)
	}
}

func TestLedgerMarkWithoutRecords(t *testing.T) {
	l := newLedger(false)
	l.add(&connect.Batch{Seq: 1, Sources: []connect.OffsetMap{srcPart(0)}, Marks: []connect.Mark{{Offset: pos(7)}}}, nil)
	if a := l.take(); len(a.Offsets) != 1 || a.Offsets[0].Offset.Get("pos").Int() != 7 {
		t.Fatalf("got %v", a)
	}
	if a := l.take(); len(a.Offsets) != 0 {
		t.Fatalf("told twice: %v", a)
	}
}

// A batch's memory is the task's again after the next Poll.
func TestLedgerKeepsNoMemoryOfTheBatch(t *testing.T) {
	l := newLedger(false)
	raw := []byte("abc")
	unsafeText := connect.BytesValue(raw)
	l.add(&connect.Batch{Seq: 1, Sources: []connect.OffsetMap{srcPart(0)},
		Marks: []connect.Mark{{Offset: connect.OffsetMap{{Name: "pos", Value: connect.StringValue(unsafeText.Str())}}}}}, nil)
	copy(raw, "xyz")
	if got := l.take().Offsets[0].Offset.Get("pos").Str(); got != "abc" {
		t.Fatalf("the offset changed to %q with the batch's memory", got)
	}
}

func TestLedgerKeepsMarksAtADistance(t *testing.T) {
	l := newLedger(false)
	b := connect.Batch{Seq: 1, Sources: []connect.OffsetMap{srcPart(0)}}
	for i := range 1000 {
		b.Records = append(b.Records, connect.Record{})
		b.Marks = append(b.Marks, connect.Mark{After: i + 1, Offset: pos(int64(i + 1))})
	}
	tickets := l.add(&b, nil)
	for _, tk := range tickets[:600] {
		l.done(tk, connect.Written, "", 0, 0)
	}
	a := l.take()
	if len(a.Offsets) != 1 || a.Offsets[0].Offset.Get("pos").Int() != 2*markEvery {
		t.Fatalf("after 600 of 1000 records: %v, want %d", a.Offsets, 2*markEvery)
	}
}

func TestMergeAcked(t *testing.T) {
	old := connect.Acked{Offsets: []connect.SourceOffset{{Partition: srcPart(0), Offset: pos(1)}, {Partition: srcPart(1), Offset: pos(1)}}, Acks: []connect.Ack{{Seq: 1}}}
	got := merge(old, connect.Acked{Offsets: []connect.SourceOffset{{Partition: srcPart(1), Offset: pos(2)}, {Partition: srcPart(2), Offset: pos(3)}}, Acks: []connect.Ack{{Seq: 2}}})
	if fmt.Sprint(got.Offsets) != fmt.Sprint([]connect.SourceOffset{{Partition: srcPart(0), Offset: pos(1)}, {Partition: srcPart(1), Offset: pos(2)}, {Partition: srcPart(2), Offset: pos(3)}}) || len(got.Acks) != 2 {
		t.Fatalf("got %+v", got)
	}
}
