package core

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
)

// wishing is a partition in whose in-sync set node 2 isn't and could be, and what node 1 wishes for it.
func wishing(t *testing.T) (*copier, *replica.Partition, []isrWish) {
	t.Helper()
	f := newCopier(t, 1)
	p := f.Replica("t", 0)
	a, _ := p.Assigned()
	a.ISR, a.PartitionEpoch = []int32{1}, a.PartitionEpoch+1
	p.Assign(a, f.c.now)
	f.replicator.assigned(p)
	f.replicator.step(f.c.now)
	f.begin(ask(0, 0, 0, -1))
	wishes := f.replicator.wishes(f.c.now)
	if len(wishes) != 1 || !slices.Equal(wishes[0].w.ISR, []int32{1, 2}) {
		t.Fatalf("wishes %+v", wishes)
	}
	return f, p, wishes
}

func TestRefusedWishIsGivenUp(t *testing.T) {
	for name, fate := range map[string]struct {
		result meta.Result
		err    error
	}{
		"itself":                 {meta.Result{Refused: []error{meta.ErrIneligible}}, nil},
		"with the whole":         {meta.Result{}, meta.ErrStaleBroker},
		"by a disk without room": {meta.Result{}, errNotRegistered},
	} {
		f, p, wishes := wishing(t)
		f.replicator.decided(wishes, fate.result, fate.err)
		if w, ok := p.Wish(); ok {
			t.Errorf("refused %s: it still wishes %+v", name, w)
		}
	}
}

// A wish of unknown fate stays. If it is refused when it is proposed again, what was proposed before may still be granted: the member counts until the
// partition has another epoch, which is seen to.
func TestWishOfUnknownFateStays(t *testing.T) {
	f, p, wishes := wishing(t)
	r := f.replicator
	for range 2 {
		r.decided(wishes, meta.Result{}, meta.ErrNoLeader)
		again := r.wishes(f.c.now)
		if len(again) != 1 || !slices.Equal(again[0].w.ISR, []int32{1, 2}) {
			t.Fatalf("wishes after an unknown fate: %+v", again)
		}
		if c := r.change(&again[0]); !slices.Equal(c.ISR, []int32{1, 2}) {
			t.Fatalf("proposed again: %+v", c)
		}
	}
	r.decided(wishes, meta.Result{Refused: []error{meta.ErrIneligible}}, nil)
	f.append(0, 10)
	if _, ok := p.Wish(); !ok || p.HighWatermark() != 0 {
		t.Fatalf("the member doesn't count any more: high watermark %d", p.HighWatermark())
	}
	again := r.wishes(f.c.now)
	if len(again) != 1 {
		t.Fatalf("wishes %+v", again)
	}
	c := r.change(&again[0])
	if a, _ := p.Assigned(); !slices.Equal(c.ISR, []int32{1}) || len(c.Generations) != 1 || c.PartitionEpoch != a.PartitionEpoch {
		t.Fatalf("proposed instead: %+v", c)
	}
	a, _ := p.Assigned() // it is granted
	a.PartitionEpoch++
	p.Assign(a, f.c.now)
	r.decided(again, meta.Result{Refused: []error{nil}}, nil)
	if w, ok := p.Wish(); ok || p.HighWatermark() != 1 {
		t.Errorf("it still wishes %+v, high watermark %d", w, p.HighWatermark())
	}
	fresh := r.wishes(f.c.now)
	if len(fresh) != 0 { // the follower lacks a record now
		t.Errorf("wishes %+v", fresh)
	}
	f.fetch(ask(0, 1, 1, 0))
	fresh = r.wishes(f.c.now.Add(time.Second))
	if len(fresh) != 1 || !slices.Equal(r.change(&fresh[0]).ISR, []int32{1, 2}) {
		t.Errorf("wishes %+v", fresh)
	}
}

// One proposal is under way at a time, and what was wanted meanwhile is looked at when it is decided.
func TestOneProposalAtATime(t *testing.T) {
	f, _, wishes := wishing(t)
	r := f.replicator
	r.scheduleReview(f.c.now, true)
	if !r.isr.isAsked || !r.isr.isDue {
		t.Errorf("asked %t, due %t", r.isr.isAsked, r.isr.isDue)
	}
	r.decided(wishes, meta.Result{Refused: []error{errors.New("no")}}, nil)
	if r.isr.isAsked || r.isr.timer == nil || !r.isr.when.Equal(f.c.now) {
		t.Errorf("asked %t, next review %v, it is %v", r.isr.isAsked, r.isr.when, f.c.now)
	}
}
