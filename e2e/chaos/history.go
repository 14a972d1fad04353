package main

import (
	"fmt"
	"hash/fnv"
	"maps"
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

	leaders   []map[int32]int32 // by partition: who led in an epoch
	elections int
	faults    []string // found while running
}

func newHistory() *history {
	h := &history{lanes: map[lane][]int64{}, errs: map[string]int{}, lastAck: time.Now(), commits: make([]int64, partitions)}
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
		h.faults = append(h.faults, fmt.Sprintf(format, args...))
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

// committedUpTo is the largest acknowledged commit of each partition.
func (h *history) committedUpTo() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]int64(nil), h.commits...)
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

// refusals is what clients gave up with, and how often.
func (h *history) refusals() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.errs)
}
