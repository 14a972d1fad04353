package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// operation is one action that a caller may do at any time.
func (r *crashRun) operation(mayCommit bool) string {
	ids := r.live.sortedIDs()
	n := r.rng.IntN(100)
	if len(ids) == 0 || n < 5 {
		return r.create()
	}
	id := ids[r.rng.IntN(len(ids))]
	l := r.store.Log(id)
	switch {
	case n < 20 && mayCommit:
		r.isCommitting = true
		completions, err := r.store.Commit(r.now)
		r.isCommitting = false
		for _, done := range completions {
			done()
		}
		r.note("commit: acked %d, %v", r.acked, err)
		if err != nil && !r.disk.Crashed() {
			return fmt.Sprintf("commit: %v", err)
		}
		return ""
	case n < 26:
		return r.truncate(id, l)
	case n < 27:
		return r.restart(id, l)
	case n < 32:
		return r.advance(id, l)
	case n < 34:
		return r.drop(id)
	case n < 36:
		return r.setHardState()
	case n < 42 && mayCommit && !r.isCompacting:
		return r.compact()
	case n < 49:
		return r.appendAt(id, l)
	case n < 51:
		return r.readLive(id, l)
	}
	return r.append(id, l)
}

// allowed says that an error needs no explanation: the disk has crashed, or there is no room.
func (r *crashRun) allowed(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrDiskFull) || r.disk.Crashed() && (errors.Is(err, ErrStoreFailed) || errors.Is(err, vfs.ErrCrashed))
}

// deleteRetention is short for the test's clock.
const deleteRetention = 20 * time.Second

// compact runs one compaction; what it does, the model learns from its frame.
func (r *crashRun) compact() string {
	wasFull := r.wasFull
	r.planned = r.live.clone()
	r.isCompacting, r.wasFull = true, false
	_, err := r.store.Compact(context.Background(), r.now)
	isFull := r.wasFull && vfs.IsFull(err)
	r.isCompacting, r.wasFull = false, wasFull
	if err != nil && !r.allowed(err) && !isFull {
		return fmt.Sprintf("compact: %v", err)
	}
	for _, id := range r.live.sortedIDs() { // a failed one needn't wait
		l := r.store.Log(id)
		l.mu.Lock()
		l.compactAfter = time.Time{}
		l.mu.Unlock()
	}
	return ""
}

func (r *crashRun) create() string {
	id := testID(byte(1 + r.rng.IntN(5)))
	if r.live.logs[id] != nil {
		return ""
	}
	name := fmt.Sprintf("topic-%d", id.Topic[0])
	l, err := r.store.OpenLog(id, name, r.config(id))
	if err != nil {
		if r.allowed(err) {
			return ""
		}
		return fmt.Sprintf("create: %v", err)
	}
	r.note("create %d as %d in round %d", id.Topic[0], l.number, l.ticket)
	r.did(l.ticket, func(m *model) { m.create(id, name) })
	return ""
}

// config draws a log's configuration; what kind of cleanup it has follows from its id.
func (r *crashRun) config(id LogID) LogConfig {
	cfg := LogConfig{SegmentBytes: int64(400 + r.rng.IntN(2000)), Segment: time.Duration(1+r.rng.IntN(60)) * time.Second, IndexIntervalBytes: 200}
	cfg.UsesReserve = id.Topic[0] == 5
	delete(r.stable, id)
	if cfg.HoldsCleanup = r.rng.IntN(4) == 0; cfg.HoldsCleanup {
		r.stable[id] = 0
	}
	switch r.rng.IntN(4) {
	case 0:
		cfg.RetentionBytes = 3000
	case 1:
		cfg.Retention = 10 * time.Second
	}
	if id.Topic[0]%2 == 0 {
		cfg.Cleanup, cfg.DeleteRetention, cfg.MinDirtyRatio = cfg.Cleanup|CleanupCompact, deleteRetention, 0.1
		if cfg.RetentionBytes > 0 || cfg.Retention > 0 {
			cfg.Cleanup |= CleanupDelete
		}
	}
	return cfg
}

// append sends a client's batch: plain, or of an idempotent producer, right or wrong.
func (r *crashRun) append(id LogID, l *Log) string {
	m := r.live.logs[id]
	tb := testBatch{records: 1 + r.rng.IntN(4), valueBytes: r.rng.IntN(120), fill: byte(r.rng.IntN(256)), timestamp: r.now.UnixMilli(), manyKeys: m.compact}
	if r.rng.IntN(25) == 0 {
		tb.valueBytes = 1000 + r.rng.IntN(2500)
	}
	epoch := int32(r.rng.IntN(2))
	if n := len(m.epochs); n > 0 {
		epoch += m.epochs[n-1].epoch
	}
	var wantErr error
	var same *modelSent
	if r.rng.IntN(2) == 0 {
		same, wantErr = r.aimProducer(&tb, m)
	}
	data := tb.build()
	a, err := l.Append(data, epoch, r.now)
	switch {
	case err != nil && r.allowed(err):
		return ""
	case !errors.Is(err, wantErr):
		return fmt.Sprintf("append %+v: %v, want %v", tb, err, wantErr)
	case wantErr != nil:
		return ""
	case same != nil && (!a.Duplicate || a.BaseOffset != same.base || a.LastOffset != same.last):
		return fmt.Sprintf("append of a duplicate %+v: %+v, want %+v", tb, a, same)
	case same != nil:
		r.await(a.Ticket)
		return ""
	case a.Duplicate || a.BaseOffset != m.end:
		return fmt.Sprintf("append: %+v, want base %d", a, m.end)
	}
	Batch(data).SetBaseOffset(a.BaseOffset)
	Batch(data).SetLeaderEpoch(epoch)
	r.note("append %d: %d–%d, %d bytes, round %d", id.Topic[0], a.BaseOffset, a.LastOffset, len(data), a.Ticket)
	r.did(a.Ticket, func(m *model) { m.logs[id].append(data) })
	return ""
}

// aimProducer makes tb a batch of a producer and says what must come of it.
func (r *crashRun) aimProducer(tb *testBatch, m *modelLog) (*modelSent, error) {
	tb.producer = int64(1 + r.rng.IntN(3))
	p := m.producers[tb.producer]
	if p == nil {
		tb.sequence = int32(r.rng.IntN(3))
		return nil, nil
	}
	tb.producerEpoch, tb.sequence = p.epoch, p.next
	switch r.rng.IntN(8) {
	case 0:
		if len(p.sent) > 0 {
			sent := p.sent[r.rng.IntN(len(p.sent))]
			tb.sequence, tb.records = sent.first, int(sent.lastSeq-sent.first)+1
			return &sent, nil
		}
	case 1:
		tb.sequence += 1 + int32(r.rng.IntN(3))
		return nil, ErrOutOfOrderSequence
	case 2:
		tb.producerEpoch++
		tb.sequence = 0
	case 3:
		if p.epoch > 0 {
			tb.producerEpoch--
			return nil, ErrProducerFenced
		}
	}
	return nil, nil
}

// appendAt sends a follower's batch, sometimes behind a gap.
func (r *crashRun) appendAt(id LogID, l *Log) string {
	m := r.live.logs[id]
	tb := testBatch{records: 1 + r.rng.IntN(3), valueBytes: r.rng.IntN(100), fill: byte(r.rng.IntN(256)), timestamp: r.now.UnixMilli(), base: m.end, manyKeys: m.compact}
	if r.rng.IntN(3) == 0 {
		tb.base += int64(r.rng.IntN(20))
	}
	if n := len(m.epochs); n > 0 {
		latest := m.epochs[n-1].epoch
		if tb.epoch = latest - 1; tb.epoch >= 0 && r.rng.IntN(10) == 0 {
			if _, err := l.AppendAt(tb.build(), r.now); !errors.Is(err, ErrStaleEpoch) {
				return fmt.Sprintf("append at %d with epoch %d below %d: %v", tb.base, tb.epoch, latest, err)
			}
		}
		tb.epoch = latest + int32(r.rng.IntN(2))
	}
	data := tb.build()
	a, err := l.AppendAt(data, r.now)
	if err != nil {
		if r.allowed(err) {
			return ""
		}
		return fmt.Sprintf("append at %d: %v", tb.base, err)
	}
	r.note("append at %d: %d–%d, round %d", id.Topic[0], a.BaseOffset, a.LastOffset, a.Ticket)
	r.did(a.Ticket, func(m *model) { m.logs[id].append(data) })
	return ""
}

func (r *crashRun) truncate(id LogID, l *Log) string {
	m := r.live.logs[id]
	if m.end == m.start {
		return ""
	}
	end := m.end - 1 - int64(r.rng.IntN(int(min(m.end-m.start, 40))))
	after := r.live.clone().logs[id]
	after.truncate(end)
	t, err := l.Truncate(end)
	switch {
	case err != nil && r.allowed(err):
		return ""
	case after.end < m.start:
		if !errors.Is(err, ErrOffsetOutOfRange) {
			return fmt.Sprintf("truncate into the start: %v", err)
		}
		return ""
	case err != nil:
		return fmt.Sprintf("truncate to %d: %v", end, err)
	}
	r.note("truncate %d to %d, round %d", id.Topic[0], end, t)
	r.did(t, func(m *model) { m.logs[id].truncate(end) })
	return ""
}

func (r *crashRun) restart(id LogID, l *Log) string {
	m := r.live.logs[id]
	start := max(0, m.end-20+int64(r.rng.IntN(40)))
	t, err := l.Restart(start)
	if err != nil {
		if r.allowed(err) {
			return ""
		}
		return fmt.Sprintf("restart at %d: %v", start, err)
	}
	r.note("restart %d at %d, round %d", id.Topic[0], start, t)
	r.did(t, func(m *model) { m.logs[id].restart(start) })
	return ""
}

func (r *crashRun) advance(id LogID, l *Log) string {
	m := r.live.logs[id]
	if m.end == m.start {
		return ""
	}
	start := m.start + 1 + int64(r.rng.IntN(int(m.end-m.start)))
	r.isOwnStart = true
	t, err := l.AdvanceStart(start)
	r.isOwnStart = false
	if err != nil {
		if r.allowed(err) {
			return ""
		}
		return fmt.Sprintf("advance start to %d: %v", start, err)
	}
	r.note("start %d at %d, round %d", id.Topic[0], start, t)
	r.did(t, func(m *model) { m.logs[id].advance(start) })
	return ""
}

func (r *crashRun) drop(id LogID) string {
	t, err := r.store.Drop(id)
	if err != nil {
		if r.allowed(err) {
			return ""
		}
		return fmt.Sprintf("drop: %v", err)
	}
	r.note("drop %d, round %d", id.Topic[0], t)
	r.did(t, func(m *model) { delete(m.logs, id) })
	return ""
}

func (r *crashRun) setHardState() string {
	state := []byte(strconv.Itoa(r.rng.IntN(1000)))
	t, err := r.store.SetHardState(state)
	if err != nil {
		if r.allowed(err) {
			return ""
		}
		return fmt.Sprintf("hard state: %v", err)
	}
	r.did(t, func(m *model) { m.hardState = state })
	return ""
}

// readLive compares one random read, and that the durable end is that of the rounds known to be durable.
func (r *crashRun) readLive(id LogID, l *Log) string {
	m := r.live.logs[id]
	if _, isHeld := r.stable[id]; isHeld {
		r.stable[id] = max(r.stable[id], m.start+int64(r.rng.IntN(int(m.end-m.start)+1)))
		l.SetStableEnd(r.stable[id])
	}
	durable := l.DurableEnd()
	if durable > m.end {
		return fmt.Sprintf("durable end %d beyond the end %d", durable, m.end)
	}
	if m.end == m.start {
		return ""
	}
	next := m.start + int64(r.rng.IntN(int(m.end-m.start)))
	got, err := l.Read(next, m.end, 1+r.rng.IntN(2000), nil)
	if err != nil {
		if r.disk.Crashed() {
			return ""
		}
		return fmt.Sprintf("read at %d: %v", next, err)
	}
	for _, b := range m.batches {
		if b.last < next {
			continue
		}
		if len(got) == 0 || !strings.HasPrefix(string(got[0]), string(b.data)) {
			return fmt.Sprintf("read at %d gives not batch %d–%d first", next, b.base, b.last)
		}
		break
	}
	return ""
}
