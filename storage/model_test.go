package storage

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"time"
)

// model is a store as a plain value: what must be there after the frames of its operations.
type model struct {
	logs      map[LogID]*modelLog
	hardState []byte
}

type modelLog struct {
	name       string
	batches    []modelBatch // not truncated, and not wholly below start when it was raised
	start, end int64
	epochs     []epochStart
	compact    bool
	producers  map[int64]*modelProducer
}

type modelBatch struct {
	base, last int64
	data       []byte
}

type modelProducer struct {
	epoch int16
	next  int32
	sent  []modelSent // at most five
}

type modelSent struct {
	first, lastSeq int32
	base, last     int64
}

func newModel() *model { return &model{logs: map[LogID]*modelLog{}} }

func (m *model) clone() *model {
	c := &model{logs: map[LogID]*modelLog{}, hardState: m.hardState}
	for id, l := range m.logs {
		k := *l
		k.batches, k.epochs = slices.Clone(l.batches), slices.Clone(l.epochs)
		k.producers = map[int64]*modelProducer{}
		for pid, p := range l.producers {
			k.producers[pid] = &modelProducer{p.epoch, p.next, slices.Clone(p.sent)}
		}
		c.logs[id] = &k
	}
	return c
}

func (m *model) create(id LogID, name string) {
	m.logs[id] = &modelLog{name: name, compact: id.Topic[0]%2 == 0, producers: map[int64]*modelProducer{}}
}

func (want *modelLog) append(data []byte) {
	b := Batch(data)
	want.batches = append(want.batches, modelBatch{b.BaseOffset(), b.LastOffset(), data})
	want.end = b.LastOffset() + 1
	if n := len(want.epochs); n == 0 || b.LeaderEpoch() > want.epochs[n-1].epoch {
		want.epochs = append(want.epochs, epochStart{b.LeaderEpoch(), b.BaseOffset()})
	}
	if b.ProducerID() < 0 {
		return
	}
	p := want.producers[b.ProducerID()]
	if p == nil || p.epoch != b.ProducerEpoch() || p.next != b.BaseSequence() {
		p = &modelProducer{epoch: b.ProducerEpoch()}
		want.producers[b.ProducerID()] = p
	}
	last := b.BaseSequence() + b.LastOffsetDelta()
	p.sent = append(p.sent, modelSent{b.BaseSequence(), last, b.BaseOffset(), b.LastOffset()})
	p.next = last + 1
	if len(p.sent) > 5 {
		p.sent = p.sent[1:]
	}
}

// truncate answers the new end.
func (want *modelLog) truncate(end int64) {
	for n := len(want.batches); n > 0 && want.batches[n-1].last >= end; n-- {
		end = min(end, max(want.batches[n-1].base, 0))
		want.batches = want.batches[:n-1]
	}
	want.end = end
	for n := len(want.epochs); n > 0 && want.epochs[n-1].start >= end; n-- {
		want.epochs = want.epochs[:n-1]
	}
	for _, p := range want.producers {
		for n := len(p.sent); n > 0 && p.sent[n-1].last >= end; n-- {
			p.next = p.sent[n-1].first
			p.sent = p.sent[:n-1]
		}
	}
}

func (want *modelLog) advance(start int64) {
	want.start = start
	for len(want.batches) > 0 && want.batches[0].last < start {
		want.batches = want.batches[1:]
	}
	for len(want.epochs) > 1 && want.epochs[1].start <= start {
		want.epochs = want.epochs[1:]
	}
	if len(want.epochs) > 0 {
		want.epochs[0].start = max(want.epochs[0].start, start)
	}
}

func (want *modelLog) restart(start int64) {
	want.batches, want.epochs, want.producers = nil, nil, map[int64]*modelProducer{}
	want.start, want.end = start, start
}

// epochAt is the leader epoch of the last batch that begins at or below the offset.
func (want *modelLog) epochAt(offset int64) int32 {
	epoch := int32(-1)
	for _, e := range want.epochs {
		if e.start <= offset {
			epoch = e.epoch
		}
	}
	return epoch
}

// compaction is what must come of one: of the records below end, each key's newest, with tombstones while their time isn't over, and
// a producer's last batch emptied.
func (want *modelLog) compaction(end int64, producers map[int64]*modelProducer, now time.Time, retention time.Duration) {
	newest := map[string]int64{}
	for _, b := range want.batches {
		if b.last < end {
			for _, r := range mustRecords(b.data) {
				newest[string(r.Key)] = b.base + int64(r.OffsetDelta)
			}
		}
	}
	var rest []modelBatch
	for _, b := range want.batches {
		if b.last < end {
			b.data = compactModelBatch(b, producers, newest, now, retention)
		}
		if b.data != nil {
			rest = append(rest, b)
		}
	}
	want.batches = rest
}

func compactModelBatch(b modelBatch, producers map[int64]*modelProducer, newest map[string]int64, now time.Time, retention time.Duration) []byte {
	batch := Batch(b.data)
	isStamped := batch.Attributes()&attrDeleteHorizon != 0
	var kept []Record
	hasTombstone := false
	all := mustRecords(b.data)
	for _, r := range all {
		isOver := isStamped && r.Value == nil && now.UnixMilli() >= batch.BaseTimestamp()
		if newest[string(r.Key)] == b.base+int64(r.OffsetDelta) && !isOver {
			kept = append(kept, r)
			hasTombstone = hasTombstone || r.Value == nil
		}
	}
	p := producers[batch.ProducerID()]
	switch {
	case len(kept) == 0 && p != nil && p.epoch == batch.ProducerEpoch() && p.next == batch.BaseSequence()+batch.LastOffsetDelta()+1:
		return batch.emptied()
	case len(kept) == 0:
		return nil
	case hasTombstone && !isStamped:
		out, err := batch.withRecords(kept, now.Add(retention).UnixMilli())
		if err != nil {
			panic(err)
		}
		return out
	case len(kept) == len(all):
		return b.data
	}
	out, err := batch.withRecords(kept, 0)
	if err != nil {
		panic(err)
	}
	return out
}

func mustRecords(data []byte) []Record {
	records, err := Batch(data).records()
	if err != nil {
		panic(err)
	}
	return records
}

// diff says how a store differs from the model, or "".
func (m *model) diff(s *Store) string {
	ids := s.Logs()
	if len(ids) != len(m.logs) {
		return fmt.Sprintf("%d logs, want %d", len(ids), len(m.logs))
	}
	if got := s.HardState(); !bytes.Equal(got, m.hardState) {
		return fmt.Sprintf("hard state %q, want %q", got, m.hardState)
	}
	for id, want := range m.logs {
		l := s.Log(id)
		if l == nil {
			return fmt.Sprintf("log %s is missing", id)
		}
		if d := want.diff(l); d != "" {
			return fmt.Sprintf("log %s (%d): %s", id, l.number, d)
		}
	}
	return ""
}

func (want *modelLog) diff(l *Log) string {
	if l.Name() != want.name || l.StartOffset() != want.start || l.EndOffset() != want.end {
		return fmt.Sprintf("%q [%d, %d), want %q [%d, %d)", l.Name(), l.StartOffset(), l.EndOffset(), want.name, want.start, want.end)
	}
	if !slices.Equal([]epochStart(l.epochs), want.epochs) && len(l.epochs)+len(want.epochs) > 0 {
		return fmt.Sprintf("epochs %v, want %v", l.epochs, want.epochs)
	}
	for _, offset := range []int64{want.start, (want.start + want.end) / 2, want.end - 1} {
		if got := l.EpochAt(offset); offset >= want.start && offset < want.end && got != want.epochAt(offset) {
			return fmt.Sprintf("epoch %d at %d, want %d", got, offset, want.epochAt(offset))
		}
	}
	if d := want.diffProducers(l.producer); d != "" {
		return d
	}
	return want.diffBytes(l)
}

func (want *modelLog) diffProducers(got producerTable) string {
	if len(got) != len(want.producers) {
		return fmt.Sprintf("%d producers, want %d", len(got), len(want.producers))
	}
	for id, w := range want.producers {
		p := got[id]
		if p == nil || p.epoch != w.epoch || p.nextSeq != w.next || int(p.count) != len(w.sent) {
			return fmt.Sprintf("producer %d: %+v, want %+v", id, p, w)
		}
		for i, sent := range w.sent {
			if g := p.window[i]; (modelSent{g.firstSeq, g.lastSeq, g.base, g.last}) != sent {
				return fmt.Sprintf("producer %d: batch %d is %+v, want %+v", id, i, g, sent)
			}
		}
	}
	return ""
}

// diffBytes reads the whole log and compares batch by batch.
func (want *modelLog) diffBytes(l *Log) string {
	expected := want.batches
	for next := want.start; next < want.end; {
		batches, err := l.Read(next, want.end, 700, nil)
		if err != nil {
			return fmt.Sprintf("read at %d: %v", next, err)
		}
		if len(batches) == 0 {
			break
		}
		for _, data := range batches {
			for len(data) > 0 {
				b, err := ParseBatch(data)
				if err != nil {
					return fmt.Sprintf("read at %d: %v", next, err)
				}
				if len(expected) == 0 || !bytes.Equal(expected[0].data, b) {
					return fmt.Sprintf("batch %d–%d read at %d is not what was appended there (%d left)", b.BaseOffset(), b.LastOffset(), next, len(expected))
				}
				expected, data, next = expected[1:], data[len(b):], b.LastOffset()+1
			}
		}
	}
	if len(expected) > 0 {
		return fmt.Sprintf("%d batches from offset %d on are missing", len(expected), expected[0].base)
	}
	return ""
}

// sortedIDs gives the logs in a fixed order, so that a seed reproduces a run.
func (m *model) sortedIDs() []LogID {
	ids := make([]LogID, 0, len(m.logs))
	for id := range m.logs {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return bytes.Compare(ids[i].Topic[:], ids[j].Topic[:]) < 0 })
	return ids
}
