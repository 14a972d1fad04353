package main

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// record is one that is in the log at the end.
type record struct {
	offset int64
	value  string
}

// content is all partitions' records, in order.
type content [][]record

// digest tells contents apart by one word a partition.
func (c content) digest() (sums []string) {
	for _, records := range c {
		sum := sha256.New()
		for _, r := range records {
			fmt.Fprintf(sum, "%d %s\n", r.offset, r.value)
		}
		sums = append(sums, fmt.Sprintf("%d records %x", len(records), sum.Sum(nil)[:8]))
	}
	return sums
}

// judge compares what is in the log with what clients were told, and gives the first faults of each kind, told by the page of this package.
func judge(h *history, log content) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &judgement{h: h, kinds: map[string]int{}}
	at := map[lane]map[int]int64{} // where each number is
	for p, records := range log {
		j.order(int32(p), records, at)
	}
	j.promises(at)
	for p, records := range log {
		j.consumers(p, records)
	}
	for kind, n := range j.kinds {
		if n > mostOfKind {
			j.faults = append(j.faults, fmt.Sprintf("%s: %d in all", kind, n))
		}
	}
	return append(append([]string(nil), h.faults...), j.faults...)
}

// mostOfKind is how many faults of a kind are told one by one.
const mostOfKind = 5

type judgement struct {
	h      *history
	faults []string
	kinds  map[string]int
}

func (j *judgement) failf(kind, format string, args ...any) {
	if j.kinds[kind]++; j.kinds[kind] <= mostOfKind {
		j.faults = append(j.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

// order sees that each lane's records are there once, in order, and where.
func (j *judgement) order(partition int32, records []record, at map[lane]map[int]int64) {
	last := map[lane]int{}
	end := int64(-1)
	for _, r := range records {
		if r.offset <= end {
			j.failf("offsets go back", "partition %d: %d after %d", partition, r.offset, end)
		}
		end = r.offset
		l, number, ok := parse(r.value)
		if !ok || l.partition != partition || number >= len(j.h.lanes[l]) {
			j.failf("a record that nobody sent", "partition %d, offset %d: %q", partition, r.offset, r.value)
			continue
		}
		if at[l] == nil {
			at[l] = map[int]int64{}
		}
		if other, twice := at[l][number]; twice {
			j.failf("a record is there twice", "%s at %d and at %d", r.value, other, r.offset)
		} else if before, any := last[l]; any && number < before {
			j.failf("records are out of order", "%s, at %d, comes after number %d", r.value, r.offset, before)
		}
		at[l][number], last[l] = r.offset, number
	}
}

// promises sees that what was acknowledged is there, where the producer was told.
func (j *judgement) promises(at map[lane]map[int]int64) {
	for l, offsets := range j.h.lanes {
		for number, told := range offsets {
			if told == pending || told == refused {
				continue
			}
			switch is, ok := at[l][number]; {
			case !ok:
				j.failf("an acknowledged record is lost", "%s, acknowledged at %d", l.value(number), told)
			case told != unknown && told != is:
				j.failf("a record is elsewhere", "%s, acknowledged at %d, is at %d", l.value(number), told, is)
			}
		}
	}
}

// consumers sees that what was seen is there, and that the group was given everything.
func (j *judgement) consumers(p int, records []record) {
	values := make(map[int64]string, len(records))
	for _, r := range records {
		values[r.offset] = r.value
		if !j.h.delivered[p][r.offset] {
			j.failf("a record was never delivered to the group", "partition %d, offset %d", p, r.offset)
		}
		if _, ok := j.h.seen[p][r.offset]; !ok {
			j.failf("a record was never given to the consumer", "partition %d, offset %d", p, r.offset)
		}
	}
	for offset, sum := range j.h.seen[p] {
		if value, ok := values[offset]; !ok || hashOf([]byte(value)) != sum {
			j.failf("a consumer saw what is no more", "partition %d, offset %d: %q is there", p, offset, value)
		}
	}
}

// parse reads a value of the load.
func parse(value string) (l lane, number int, ok bool) {
	parts := strings.Split(value, "/")
	if len(parts) != 3 {
		return l, 0, false
	}
	p, err := strconv.Atoi(parts[1])
	number, err2 := strconv.Atoi(parts[2])
	return lane{parts[0], int32(p)}, number, err == nil && err2 == nil && number >= 0
}
