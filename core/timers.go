package core

import (
	"container/heap"
	"sync"
	"time"
)

// timers is the broker's one clock-driven queue: Step fires what is due. It has no goroutine; wake tells Run that an
// earlier deadline than the one it sleeps for has come up.
type timers struct {
	mu   sync.Mutex
	heap timerHeap
	wake chan struct{} // capacity 1
}

// timer is one deadline. Its zero index is meaningful: -1 means not queued.
type timer struct {
	when  time.Time
	fire  func(now time.Time)
	index int
}

func newTimers() *timers { return &timers{wake: make(chan struct{}, 1)} }

// at queues fire for when. fire runs once, on the goroutine that calls Step, under no lock; it doesn't block and may
// add or stop timers.
func (t *timers) at(when time.Time, fire func(now time.Time)) *timer {
	tm := &timer{when: when, fire: fire}
	t.mu.Lock()
	heap.Push(&t.heap, tm)
	first := tm.index == 0
	t.mu.Unlock()
	if first {
		t.poke()
	}
	return tm
}

// poke has Run step soon.
func (t *timers) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// stop takes tm out of the queue. It reports false when tm has fired, is firing or was stopped before.
func (t *timers) stop(tm *timer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tm.index < 0 {
		return false
	}
	heap.Remove(&t.heap, tm.index)
	return true
}

// step fires everything due at now and returns the next deadline, zero if there is none.
func (t *timers) step(now time.Time) time.Time {
	for {
		t.mu.Lock()
		if len(t.heap) == 0 {
			t.mu.Unlock()
			return time.Time{}
		}
		next := t.heap[0]
		if next.when.After(now) {
			t.mu.Unlock()
			return next.when
		}
		heap.Pop(&t.heap)
		t.mu.Unlock()
		next.fire(now)
	}
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].when.Before(h[j].when) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	tm := x.(*timer)
	tm.index = len(*h)
	*h = append(*h, tm)
}
func (h *timerHeap) Pop() any {
	old := *h
	tm := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	tm.index = -1
	return tm
}
