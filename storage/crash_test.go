package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// crashRun is one seeded history: a store on a memory disk, a model beside it, crashes at random calls.
//
// A round is the unit of recovery, so after a crash the store must equal the model after exactly the operations of the rounds up to the
// one it recovered, and that one may not lie before any that was acknowledged.
type crashRun struct {
	rng   *rand.Rand
	hooks hooks
	disk  *vfs.Mem
	store *Store
	now   time.Time

	base  *model // as recovered last
	live  *model // after all operations
	ops   []modelOp
	acked Ticket

	isFlushing, wasFull  bool
	isNested, isOwnStart bool
	trace                []string
	frames               int
}

type modelOp struct {
	ticket Ticket
	apply  func(*model)
}

func (r *crashRun) note(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

// did records an operation, and a wait for its ticket.
func (r *crashRun) did(t Ticket, apply func(*model)) {
	apply(r.live)
	r.ops = append(r.ops, modelOp{t, apply})
	r.await(t)
}

func (r *crashRun) await(t Ticket) {
	r.store.Notify(t, func(err error) {
		if err == nil {
			r.acked = max(r.acked, t)
		}
	})
}

func (r *crashRun) options() Options {
	o := testOptions(r.disk)
	o.WALFileBytes = int64(4+r.rng.IntN(8)) * blockBytes
	o.WALFiles = 3 + r.rng.IntN(4)
	o.TailBytes = 64 << 10
	o.OpenFiles = 1 + r.rng.IntN(4)
	if r.rng.IntN(8) == 0 {
		o.TailBytes = 2 << 10 // replay spills
	}
	if r.rng.IntN(4) == 0 {
		o.Sync = SyncOS
	}
	return o
}

// run does a few lives of the store and returns what was wrong, or "".
func (r *crashRun) run(lives, steps int) string {
	r.disk, r.now, r.base = vfs.NewMem(), testNow, newModel()
	isFirst := true
	for range lives {
		if fault := r.openStore(isFirst); fault != "" {
			return fault
		}
		isFirst = false
		if r.rng.IntN(5) > 0 {
			r.disk.CrashAt(r.disk.Ops()+1+int64(r.rng.IntN(120)), r.rng.IntN(2) == 0)
		}
		for range steps {
			if fault := r.step(); fault != "" {
				return fault
			}
			if r.disk.Crashed() {
				break
			}
		}
		if !r.disk.Crashed() && r.rng.IntN(4) == 0 {
			r.note("close")
			if err := r.store.Close(); err != nil && !r.disk.Crashed() {
				return fmt.Sprintf("close: %v", err)
			}
		}
		if r.store.opts.Sync == SyncOS { // a power cut may take what no flush has synced
			r.acked = min(r.acked, r.store.synced)
		}
		r.note("crash, acked round %d", r.acked)
		r.disk = r.disk.CrashClone(r.rng)
	}
	return r.openStore(false)
}

// openStore opens the disk, sometimes crashing on the way, and compares.
func (r *crashRun) openStore(isFirst bool) string {
	o := r.options()
	if isSync := o.Sync == SyncOS; isSync && !isFirst && r.rng.IntN(2) == 0 {
		o.Sync = SyncGroup
	}
	for !isFirst && r.rng.IntN(3) == 0 {
		r.disk.CrashAt(r.disk.Ops()+1+int64(r.rng.IntN(40)), r.rng.IntN(2) == 0)
		o.FS = r.disk
		if s, err := openStore(o, r.hooks); err == nil {
			_ = s.lock.Close()
		} else if !errors.Is(err, vfs.ErrCrashed) {
			return fmt.Sprintf("open: %v", err)
		}
		r.note("crash while opening")
		r.disk = r.disk.CrashClone(r.rng)
	}
	o.FS = r.disk
	h := r.hooks
	h.onFrame = r.onFrame
	s, err := openStore(o, h)
	if err != nil {
		return fmt.Sprintf("open: %v", err)
	}
	r.store = s
	last := s.open.number - 1
	r.note("opened: round %d, generation %d, sync %d", last, s.gen, o.Sync)
	if last < r.acked {
		return fmt.Sprintf("round %d was acknowledged, recovered up to %d", r.acked, last)
	}
	m := r.base.clone()
	for _, op := range r.ops {
		if op.ticket <= last {
			op.apply(m)
		}
	}
	if d := m.diff(s); d != "" {
		return "after recovery: " + d
	}
	if fault := r.checkDisk(); fault != "" {
		return fault
	}
	r.base, r.live, r.ops, r.acked = m, m.clone(), nil, last
	return ""
}

// checkDisk sees that nothing is left over.
func (r *crashRun) checkDisk() string {
	names, err := r.disk.List("/data/logs")
	if err != nil {
		return err.Error()
	}
	for _, name := range names {
		number, _ := parseDirName(name)
		l := r.store.saved[number]
		if l == nil {
			return fmt.Sprintf("folder %s of no log", name)
		}
		files, err := r.disk.List("/data/logs/" + name)
		if err != nil || len(files) != len(l.segments) {
			return fmt.Sprintf("log %d has files %v for segments %+v (%v)", number, files, l.segments, err)
		}
		for i, g := range l.segments {
			info, err := r.disk.Stat("/data/logs/" + name + "/" + g.fileName())
			if err != nil || info.SizeBytes != g.size {
				return fmt.Sprintf("log %d: segment %d has %d bytes, want %d (%v)", number, i, info.SizeBytes, g.size, err)
			}
		}
	}
	return ""
}

// onFrame learns of start frames that retention makes.
func (r *crashRun) onFrame(f *frame, t Ticket) {
	r.frames++
	if f.kind == frameStart && !r.isOwnStart {
		id, start := f.id, f.end
		r.note("retention: %x start %d in round %d", id.Topic[0], start, t)
		apply := func(m *model) { m.logs[id].advance(start) }
		apply(r.live)
		r.ops = append(r.ops, modelOp{t, apply})
	}
}

// inject lets operations happen between the calls of a flush.
func (r *crashRun) inject(op vfs.Op) error {
	if !r.isFlushing || r.isNested || op.Kind == vfs.OpRead {
		return nil
	}
	if r.rng.IntN(60) == 0 && mayBeFull(op) {
		r.note("disk is full: %d %s", op.Kind, op.Path)
		r.wasFull = true
		return syscall.ENOSPC
	}
	if r.rng.IntN(6) > 0 {
		return nil
	}
	r.isNested = true
	defer func() { r.isNested = false }()
	mayCommit := !strings.Contains(op.Path, "/wal")
	for range 1 + r.rng.IntN(3) {
		if fault := r.operation(mayCommit); fault != "" {
			panic(fault)
		}
	}
	return nil
}

// mayBeFull says that a call needs new space: all but those on files that are there already.
func mayBeFull(op vfs.Op) bool {
	switch op.Kind {
	case vfs.OpCreate, vfs.OpMkdir:
		return true
	case vfs.OpWrite:
		return !strings.Contains(op.Path, "/wal/")
	}
	return false
}

// step is one action of the driver.
func (r *crashRun) step() string {
	r.disk.Inject(r.inject)
	r.now = r.now.Add(time.Duration(r.rng.IntN(500)) * time.Millisecond)
	switch n := r.rng.IntN(100); {
	case n < 8:
		r.note("flush")
		r.isFlushing = true
		err := r.store.Flush(r.now)
		isFull := r.wasFull && errors.Is(err, ErrDiskFull)
		r.isFlushing, r.wasFull = false, false
		if err != nil && !r.disk.Crashed() && !isFull {
			return fmt.Sprintf("flush: %v", err)
		}
		return ""
	case n < 12 && !r.disk.Crashed():
		if d := r.live.diff(r.store); d != "" && !r.disk.Crashed() {
			return "live: " + d
		}
		return ""
	}
	return r.operation(true)
}

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
		completions, err := r.store.Commit(r.now)
		for _, done := range completions {
			done()
		}
		r.note("commit: acked %d, %v", r.acked, err)
		if err != nil && !r.disk.Crashed() {
			return fmt.Sprintf("commit: %v", err)
		}
		return ""
	case n < 27:
		return r.truncate(id, l)
	case n < 32:
		return r.advance(id, l)
	case n < 34:
		return r.drop(id)
	case n < 36:
		return r.setHardState()
	case n < 44:
		return r.appendAt(id, l)
	case n < 46:
		return r.readLive(id, l)
	}
	return r.append(id, l)
}

// allowed says that an error needs no explanation: the disk has crashed, or there is no room.
func (r *crashRun) allowed(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrDiskFull) || r.disk.Crashed() && (errors.Is(err, ErrStoreFailed) || errors.Is(err, vfs.ErrCrashed))
}

func (r *crashRun) create() string {
	id := testID(byte(1 + r.rng.IntN(5)))
	if r.live.logs[id] != nil {
		return ""
	}
	cfg := LogConfig{SegmentBytes: int64(400 + r.rng.IntN(2000)), Segment: time.Duration(1+r.rng.IntN(60)) * time.Second, IndexIntervalBytes: 200}
	switch r.rng.IntN(4) {
	case 0:
		cfg.RetentionBytes = 3000
	case 1:
		cfg.Retention = 10 * time.Second
	}
	name := fmt.Sprintf("topic-%d", id.Topic[0])
	l, err := r.store.OpenLog(id, name, cfg)
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

// append sends a client's batch: plain, or of an idempotent producer, right or wrong.
func (r *crashRun) append(id LogID, l *Log) string {
	m := r.live.logs[id]
	tb := testBatch{records: 1 + r.rng.IntN(4), valueBytes: r.rng.IntN(120), fill: byte(r.rng.IntN(256)), timestamp: r.now.UnixMilli()}
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
		wantErr, same = r.aimProducer(&tb, m)
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
func (r *crashRun) aimProducer(tb *testBatch, m *modelLog) (error, *modelSent) {
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
			return nil, &sent
		}
	case 1:
		tb.sequence += 1 + int32(r.rng.IntN(3))
		return ErrOutOfOrderSequence, nil
	case 2:
		tb.producerEpoch++
		tb.sequence = 0
	case 3:
		if p.epoch > 0 {
			tb.producerEpoch--
			return ErrProducerFenced, nil
		}
	}
	return nil, nil
}

// appendAt sends a follower's batch, sometimes behind a gap.
func (r *crashRun) appendAt(id LogID, l *Log) string {
	m := r.live.logs[id]
	tb := testBatch{records: 1 + r.rng.IntN(3), valueBytes: r.rng.IntN(100), fill: byte(r.rng.IntN(256)), timestamp: r.now.UnixMilli(), base: m.end}
	if r.rng.IntN(3) == 0 {
		tb.base += int64(r.rng.IntN(20))
	}
	if n := len(m.epochs); n > 0 {
		tb.epoch = m.epochs[n-1].epoch + int32(r.rng.IntN(2))
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

// seeds is how many histories to run: a short slice, or WEIR_SEEDS.
func seeds(t testing.TB, short int) int {
	value := os.Getenv("WEIR_SEEDS")
	if value == "" {
		return short
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("WEIR_SEEDS: %v", err)
	}
	return n
}

func runSeed(seed uint64, h hooks) (fault string, r *crashRun) {
	r = &crashRun{rng: rand.New(rand.NewPCG(seed, 77)), hooks: h}
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Sprintf("panic: %v", p)
		}
	}()
	return r.run(4, 150), r
}

// TestCrashes compares the store with the model after crashes at random system calls. A single seed: WEIR_SEED=n.
func TestCrashes(t *testing.T) {
	if value := os.Getenv("WEIR_SEED"); value != "" {
		seed, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		fault, r := runSeed(seed, hooks{})
		t.Logf("%s\n%s", strings.Join(r.trace, "\n"), fault)
		if fault != "" {
			t.Fail()
		}
		return
	}
	frames, crashes := 0, 0
	for seed := range uint64(seeds(t, 500)) {
		fault, r := runSeed(seed, hooks{})
		if fault != "" {
			t.Fatalf("WEIR_SEED=%d: %s", seed, fault)
		}
		frames += r.frames
		crashes += strings.Count(strings.Join(r.trace, "\n"), "crash")
	}
	t.Logf("%d frames, %d crashes", frames, crashes)
}
