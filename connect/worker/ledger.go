package worker

import (
	"sync"

	"github.com/weirlog/weir/connect"
)

// ledger knows which records of a source are done and so which offsets may be stored. Records of one source partition are
// numbered in the order in which the source gave them; a mark waits for a number; the records of a partition that are done
// without a gap are its prefix, and the newest mark at or before the prefix is the partition's offset (Law 1).
//
// add is called by the task's loop, done from anywhere, take by the commit. One lock, held for no longer than the marks
// that one record lets pass.
type ledger struct {
	mu       sync.Mutex
	parts    []*ledgerPart
	byName   map[string]*ledgerPart
	last     []*ledgerPart       // parts of lastMaps: most batches name the partitions of the one before
	lastMaps []connect.OffsetMap // cloned
	open     int                 // records not done
	wantAcks bool
	acks     []connect.Ack
	moved    chan struct{} // capacity 1: something ended
}

// ledgerPart is one source partition.
type ledgerPart struct {
	partition connect.OffsetMap
	done      []bool // of the records from prefix on
	prefix    uint64 // every record below is done
	next      uint64 // number of the next record
	marks     []ledgerMark
	ready     connect.OffsetMap // newest offset that may be stored
	moved     bool              // ready was not taken yet
}

type ledgerMark struct {
	after  uint64 // records of the partition before it
	offset connect.OffsetMap
}

// ticket is a record's place in the ledger.
type ticket struct {
	part   *ledgerPart
	number uint64
	seq    uint64
	index  int
}

// markEvery bounds how many marks of one partition are kept per batch: between two kept ones lie at least so many
// records. What is left out only makes a restart repeat a little more.
const markEvery = 256

func newLedger(wantAcks bool) *ledger {
	return &ledger{byName: map[string]*ledgerPart{}, wantAcks: wantAcks, moved: make(chan struct{}, 1)}
}

// add takes a batch and gives one ticket per record, in out if it is large enough. It keeps no memory of the batch's.
func (l *ledger) add(b *connect.Batch, out []ticket) []ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := l.partsOf(b.Sources)
	out = out[:0]
	mark := 0
	lastKept := make(map[int]int, 1)
	for i := 0; i <= len(b.Records); i++ {
		for mark < len(b.Marks) && b.Marks[mark].After <= i {
			m := &b.Marks[mark]
			mark++
			if p := l.part(parts, m.Source); p != nil && keepMark(b.Marks[mark:], m, lastKept) {
				p.mark(m.Offset)
			}
		}
		if i < len(b.Records) {
			p := l.part(parts, b.Records[i].Source)
			if p == nil { // a batch that names no partition: its records are only counted
				p = l.intern(connect.OffsetMap{})
			}
			out = append(out, ticket{p, p.next, b.Seq, i})
			p.next++
			p.done = append(p.done, false)
			l.open++
		}
	}
	l.signal()
	return out
}

// keepMark keeps a partition's last mark of a batch and others at a distance.
func keepMark(rest []connect.Mark, m *connect.Mark, lastKept map[int]int) bool {
	if m.After-lastKept[m.Source] >= markEvery {
		lastKept[m.Source] = m.After
		return true
	}
	for i := range rest {
		if rest[i].Source == m.Source {
			return false
		}
	}
	return true
}

func (l *ledger) part(parts []*ledgerPart, source int) *ledgerPart {
	if source < 0 || source >= len(parts) {
		return nil
	}
	return parts[source]
}

func (l *ledger) partsOf(sources []connect.OffsetMap) []*ledgerPart {
	same := len(sources) == len(l.lastMaps)
	for i := 0; same && i < len(sources); i++ {
		same = sources[i].Equal(l.lastMaps[i])
	}
	if same {
		return l.last
	}
	parts := make([]*ledgerPart, len(sources))
	maps := make([]connect.OffsetMap, len(sources))
	for i, m := range sources {
		parts[i] = l.intern(m)
		maps[i] = parts[i].partition
	}
	l.last, l.lastMaps = parts, maps
	return parts
}

func (l *ledger) intern(m connect.OffsetMap) *ledgerPart {
	id := canonical(m)
	p := l.byName[id]
	if p == nil {
		p = &ledgerPart{partition: cloneMap(m)}
		l.byName[id] = p
		l.parts = append(l.parts, p)
	}
	return p
}

func cloneMap(m connect.OffsetMap) connect.OffsetMap {
	if m == nil {
		return nil
	}
	out := make(connect.OffsetMap, len(m))
	for i := range m {
		out[i] = connect.OffsetEntry{Name: string(append([]byte(nil), m[i].Name...)), Value: m[i].Value.Clone()}
	}
	return out
}

// mark adds a resume point after the records that the partition has so far.
func (p *ledgerPart) mark(offset connect.OffsetMap) {
	m := ledgerMark{after: p.next, offset: cloneMap(offset)}
	if n := len(p.marks); n > 0 && p.marks[n-1].after == m.after {
		p.marks[n-1] = m
	} else {
		p.marks = append(p.marks, m)
	}
	p.pass()
}

// pass moves ready to the newest mark that the prefix has reached.
func (p *ledgerPart) pass() {
	n := 0
	for n < len(p.marks) && p.marks[n].after <= p.prefix {
		n++
	}
	if n > 0 {
		p.ready, p.moved = p.marks[n-1].offset, true
		p.marks = append(p.marks[:0], p.marks[n:]...)
	}
}

// done ends a record. With acks wanted its fate is kept for the next take.
func (l *ledger) done(t ticket, outcome connect.Outcome, topic string, partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := t.part
	i := t.number - p.prefix
	if t.number < p.prefix || p.done[i] {
		return // a record ends once
	}
	p.done[i] = true
	l.open--
	if l.wantAcks {
		l.acks = append(l.acks, connect.Ack{Seq: t.seq, Index: t.index, Outcome: outcome, Topic: topic, Partition: partition, Offset: offset})
	}
	if i == 0 {
		n := 0
		for n < len(p.done) && p.done[n] {
			n++
		}
		p.done = p.done[n:]
		p.prefix += uint64(n)
		p.pass()
	}
	l.signal()
}

func (l *ledger) signal() {
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

// take gives the offsets that may be stored and have moved since the last take, and the acks that came.
func (l *ledger) take() connect.Acked {
	l.mu.Lock()
	defer l.mu.Unlock()
	var a connect.Acked
	for _, p := range l.parts {
		if p.moved {
			a.Offsets = append(a.Offsets, connect.SourceOffset{Partition: p.partition, Offset: p.ready})
			p.moved = false
		}
	}
	a.Acks, l.acks = l.acks, nil
	return a
}

// pending counts records not done.
func (l *ledger) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// merge adds newer acks to older ones that could not be told.
func merge(old, newer connect.Acked) connect.Acked {
	if len(old.Offsets) == 0 && len(old.Acks) == 0 {
		return newer
	}
	for _, so := range newer.Offsets {
		found := false
		for i := range old.Offsets {
			if old.Offsets[i].Partition.Equal(so.Partition) {
				old.Offsets[i].Offset, found = so.Offset, true
				break
			}
		}
		if !found {
			old.Offsets = append(old.Offsets, so)
		}
	}
	old.Acks = append(old.Acks, newer.Acks...)
	return old
}
