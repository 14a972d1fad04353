package s3

import (
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

// group is a run of records of one partition which ends in one object per file.
type group struct {
	first, end int64  // offsets: of the first record, after the last one that it covers
	records    int    // written, over all files
	baseMillis int64  // time of the first record
	encoded    string // folder of the last record
	files      []*file
	touched    time.Time // of the last record's arrival, on a clock that stands while the task is busy
	due        time.Time // when the schedule closes it; zero for never
	ready      bool      // its end is known to be found again: it may be put
}

// file gives the open file of an encoded partition, or nil.
func (g *group) file(encoded string) *file {
	for _, f := range g.files {
		if f.encoded == encoded {
			return f
		}
	}
	return nil
}

// partition is the state of one topic-partition.
type partition struct {
	connect.TopicPartition
	base     int64 // every record before it is in an object, or needs none; -1 if nothing is known
	next     int64 // after the last record taken; -1 before the first
	boundary int64 // an end that was committed by an earlier task; 0 for none
	closed   []*group
	open     *group
	told     connect.Committed // as far as is known, what is committed
}

func newPartition(a connect.Assigned) *partition {
	p := &partition{TopicPartition: a.TopicPartition, base: a.Offset, next: -1}
	p.told = connect.Committed{TopicPartition: a.TopicPartition, Offset: a.Offset, Metadata: a.Metadata}
	if end, ok := parseBoundary(a.Metadata); ok && end > a.Offset {
		p.boundary = end
	}
	return p
}

// take makes the group for a record at offset: the open one, unless the record's own time, its move to
// another time folder or a committed boundary ends it before the record. It answers nil for a record that was taken by an earlier call.
func (p *partition) take(offset, millis, rotateMillis int64, moved bool) *group {
	if offset < p.next {
		return nil
	}
	if g := p.open; g != nil {
		late := rotateMillis > 0 && (moved || millis-g.baseMillis >= rotateMillis)
		if late || p.boundary > g.first && offset >= p.boundary {
			p.close(true)
		}
	}
	if p.open == nil {
		p.open = &group{first: offset, end: offset, baseMillis: millis}
	}
	return p.open
}

// advance notes that the record at offset was written to the open group, or needs no object, and closes the group where
// flush.size or a committed boundary ends it.
func (p *partition) advance(offset int64, flushSize int) {
	if offset < p.next {
		return
	}
	p.next = offset + 1
	if p.open != nil {
		p.open.end = p.next
		if p.open.records >= flushSize || p.next == p.boundary {
			p.close(true)
		}
	}
	p.settle()
}

// close ends the open group. If the end does not follow from the records it has to be committed before the group is
// ready; there must be no other such group then: see awaiting.
func (p *partition) close(ready bool) {
	g := p.open
	g.ready = ready
	p.closed = append(p.closed, g)
	p.open = nil
	if !ready || g.end >= p.boundary {
		p.boundary = 0
	}
}

// awaiting gives the closed group whose end has to be committed, or nil. There is one at most.
func (p *partition) awaiting() *group {
	for _, g := range p.closed {
		if !g.ready {
			return g
		}
	}
	return nil
}

// cut proposes an end to the open group, if there is one and no other waits for its end's commit.
func (p *partition) cut() bool {
	if p.open == nil || p.awaiting() != nil {
		return false
	}
	p.close(false)
	return true
}

// committed takes note of a commit.
func (p *partition) committed(c connect.Committed) {
	p.told = c
	if len(p.closed) == 0 && p.open == nil {
		p.base = max(p.base, c.Offset) // the worker has filtered what followed
	}
	g := p.awaiting()
	if g == nil {
		return
	}
	end, ok := parseBoundary(c.Metadata)
	if ok && end == g.end || c.Offset >= g.end {
		g.ready = true
	}
}

// put takes away the first closed group: its objects are in the bucket.
func (p *partition) put() {
	p.base = p.closed[0].end
	p.closed = p.closed[1:]
	p.settle()
}

// settle moves the base over records that need no object.
func (p *partition) settle() {
	if len(p.closed) == 0 && p.open == nil && p.next > p.base {
		p.base = p.next
	}
}

// durable gives what is to be committed, and false if that is committed already.
func (p *partition) durable() (connect.Committed, bool) {
	c := connect.Committed{TopicPartition: p.TopicPartition, Offset: p.base}
	if g := p.awaiting(); g != nil {
		c.Offset, c.Metadata = max(p.base, p.closed[0].first), formatBoundary(g.end)
	} else if p.boundary > p.base {
		c.Metadata = formatBoundary(p.boundary)
	}
	return c, c.Offset >= 0 && c != p.told
}

const boundaryPrefix = "weir-s3:1:"

func formatBoundary(end int64) string { return boundaryPrefix + strconv.FormatInt(end, 10) }

func parseBoundary(metadata string) (end int64, ok bool) {
	text, ok := strings.CutPrefix(metadata, boundaryPrefix)
	if !ok {
		return 0, false
	}
	end, err := strconv.ParseInt(text, 10, 64)
	return end, err == nil && end > 0
}
