package main

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// What a record of the load is told by: "producer/partition/number", numbers from 0 on in each lane.
type lane struct {
	producer  string
	partition int32
}

func (l lane) value(number int) string {
	return fmt.Sprintf("%s/%d/%d", l.producer, l.partition, number)
}

// What became of a record that was sent.
const (
	pending = int64(-1) // no answer yet
	refused = int64(-2) // the client gave up: it may be there or not
	unknown = int64(-3) // acknowledged, the offset isn't told (kcat)
)

// history is what clients were told, in order of time. Any goroutine writes it.
type history struct {
	began time.Time

	mu      sync.Mutex
	lanes   map[lane][]int64 // by number: where the record was acknowledged, or one of the above
	errs    map[string]int   // what refused records were refused with
	acks    int
	lastAck time.Time
	gap     time.Duration // longest time without an acknowledgement, since markGap

	seen      []map[int64]uint64 // by partition: hash of the value that a consumer saw at an offset
	delivered []map[int64]bool   // by partition: what the group was given
	commits   []int64            // by partition: the largest offset whose commit was acknowledged
	committed int                // commits that were acknowledged
	older     []snapshot         // of commits, one each second

	leaders   []map[int32]int32 // by partition: who led in an epoch
	elections int
	faults    []string // found while running
}

func newHistory() *history {
	h := &history{began: time.Now(), lanes: map[lane][]int64{}, errs: map[string]int{}, lastAck: time.Now(), commits: make([]int64, partitions)}
	for range partitions {
		h.seen = append(h.seen, map[int64]uint64{})
		h.delivered = append(h.delivered, map[int64]bool{})
		h.leaders = append(h.leaders, map[int32]int32{})
	}
	return h
}

// failf notes a fault of the brokers. The first hundred are kept.
func (h *history) failf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault(format, args...)
}

// fault is failf with mu held.
func (h *history) fault(format string, args ...any) {
	if len(h.faults) < 100 {
		h.faults = append(h.faults, fmt.Sprintf("%s, after %.1f s", fmt.Sprintf(format, args...), time.Since(h.began).Seconds()))
	}
}

// send notes that a lane's next record is on its way and gives its number.
func (h *history) send(l lane) (number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lanes[l] = append(h.lanes[l], pending)
	return len(h.lanes[l]) - 1
}

// answered notes what became of a record.
func (h *history) answered(l lane, number int, offset int64, err error) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.lanes[l][number] = refused
		h.errs[err.Error()]++
		return
	}
	h.lanes[l][number] = offset
	h.acks++
	h.gap = max(h.gap, now.Sub(h.lastAck))
	h.lastAck = now
}

// markGap begins to measure; gapSince gives the longest time without an acknowledgement since then.
func (h *history) markGap(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gap, h.lastAck = 0, now
}

func (h *history) gapSince(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.gap, now.Sub(h.lastAck))
}

// saw notes what a consumer was given.
func (h *history) saw(partition int32, offset int64, value []byte) {
	sum := hashOf(value)
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.seen[partition][offset]; ok && before != sum {
		h.fault("partition %d, offset %d: a consumer saw %q, where it had seen another record before", partition, offset, value)
	}
	h.seen[partition][offset] = sum
}

func hashOf(value []byte) uint64 {
	f := fnv.New64a()
	f.Write(value)
	return f.Sum64()
}

func (h *history) deliver(partition int32, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delivered[partition][offset] = true
}

// commit notes an acknowledged commit of a group's offset.
func (h *history) commit(partition int32, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits[partition] = max(h.commits[partition], offset)
	h.committed++
}

// snapshot is the largest acknowledged commits at a time.
type snapshot struct {
	at      time.Time
	commits []int64
}

// committedUpTo is the largest commit of each partition that was acknowledged at least so long ago, to a second or so. It is called often.
func (h *history) committedUpTo(now time.Time, age time.Duration) []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.older); n == 0 || now.Sub(h.older[n-1].at) > time.Second {
		h.older = append(h.older, snapshot{now, slices.Clone(h.commits)})
	}
	if age == 0 {
		return slices.Clone(h.commits)
	}
	known := make([]int64, len(h.commits))
	for _, s := range h.older {
		if now.Sub(s.at) >= age {
			known = s.commits
		}
	}
	h.older = slices.DeleteFunc(h.older, func(s snapshot) bool { return now.Sub(s.at) > 2*staleLimit })
	return known
}

// leads notes who leads a partition in an epoch, as some broker said.
func (h *history) leads(partition, epoch, leader int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if leader < 0 || epoch < 0 {
		return
	}
	switch before, ok := h.leaders[partition][epoch]; {
	case !ok:
		h.leaders[partition][epoch] = leader
		h.elections++
	case before != leader:
		h.fault("partition %d, epoch %d: led by node %d and by node %d", partition, epoch, before, leader)
	}
}

// acknowledged is how many records were.
func (h *history) acknowledged() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acks
}
