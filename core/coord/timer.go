package coord

import (
	"container/heap"
	"time"
)

// timers is a queue of deadlines. Those of one time fire in the order they were set.
type timers struct {
	heap timerHeap
	seq  uint64
}

// timer is one deadline; stopped or fired, its index is -1.
type timer struct {
	when  time.Time
	seq   uint64
	index int
	fire  func(now time.Time)
	// initial marks the delay before a group's first generation.
	initial bool
}

func (t *timers) at(when time.Time, fire func(now time.Time)) *timer {
	t.seq++
	tm := &timer{when: when, seq: t.seq, fire: fire}
	heap.Push(&t.heap, tm)
	return tm
}

// stop takes tm, which may be nil, out of the queue.
func (t *timers) stop(tm *timer) {
	if tm != nil && tm.index >= 0 && tm.index < len(t.heap) && t.heap[tm.index] == tm {
		heap.Remove(&t.heap, tm.index)
	}
}

// fire runs all that is due at now, including what these set for now or before.
func (t *timers) fire(now time.Time) {
	for len(t.heap) > 0 && !t.heap[0].when.After(now) {
		heap.Pop(&t.heap).(*timer).fire(now)
	}
}

func (t *timers) next() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].when
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if !h[i].when.Equal(h[j].when) {
		return h[i].when.Before(h[j].when)
	}
	return h[i].seq < h[j].seq
}

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
