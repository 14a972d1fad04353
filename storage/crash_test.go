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
	isCompacting         bool
	isCommitting         bool
	planned              *model          // when the compaction began
	stable               map[LogID]int64 // of logs whose cleanup is held
	isFull               bool            // while opening
	isNested, isOwnStart bool
	trace                []string
	frames, compactions  int
	directBytes          uint64
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
	o.directBytes = 1 << 30
	if r.rng.IntN(4) > 0 {
		o.directBytes = 1 + r.rng.IntN(1500)
	}
	o.directLogs = 1 + r.rng.IntN(3)
	o.fewFiles = 1 + r.rng.IntN(8)
	o.OpenFiles = 1 + r.rng.IntN(4)
	o.CompactionMapBytes = int64(keyBytes * (1 + r.rng.IntN(8)))
	o.CompactionBytesPerSecond = -1
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
	r.disk, r.now, r.base, r.stable = vfs.NewMem(), testNow, newModel(), map[LogID]int64{}
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
		r.directBytes += r.store.Stats().DirectBytes
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
	r.isFull = !isFirst && r.rng.IntN(3) == 0
	r.disk.Inject(r.injectFull)
	s, err := openStore(o, h)
	if err != nil {
		return fmt.Sprintf("open: %v", err)
	}
	r.store = s
	if fault := r.compareOpened(o); fault != "" {
		return fault
	}
	if !s.isUnsettled.Load() {
		return r.checkDisk()
	}
	return r.settleLate()
}

// injectFull is a disk that is full from some call on while the store opens.
func (r *crashRun) injectFull(op vfs.Op) error {
	if r.isFull && mayBeFull(op) && r.rng.IntN(3) > 0 {
		r.note("disk is full while opening: %d %s", op.Kind, op.Path)
		return syscall.ENOSPC
	}
	return nil
}

// settleLate is the life of a store that a full disk kept from writing anything at Open: it takes nothing, and everything that was
// read is still there after another crash, after one while it settles, and once there is space.
func (r *crashRun) settleLate() string {
	for _, id := range r.live.sortedIDs() {
		l := r.store.Log(id)
		if _, err := l.Append(testBatch{}.build(), 1000, r.now); !errors.Is(err, ErrDiskFull) {
			return fmt.Sprintf("append to a store that could not settle: %v", err)
		}
	}
	if err := r.store.Flush(r.now); err != nil && !errors.Is(err, ErrDiskFull) {
		return fmt.Sprintf("flush on a full disk: %v", err)
	}
	switch r.rng.IntN(3) {
	case 0:
		r.note("crash of a store that had not settled")
		r.disk = r.disk.CrashClone(r.rng)
		return r.openStore(false)
	case 1:
		r.disk.CrashAt(r.disk.Ops()+1+int64(r.rng.IntN(40)), r.rng.IntN(2) == 0)
	}
	r.isFull = false
	err := r.store.Flush(r.now)
	if r.disk.Crashed() {
		r.note("crash while settling")
		r.disk = r.disk.CrashClone(r.rng)
		return r.openStore(false)
	}
	if err != nil {
		return fmt.Sprintf("flush when there is space again: %v", err)
	}
	r.note("settled late")
	if d := r.live.diff(r.store); d != "" {
		return "after settling: " + d
	}
	return r.checkDisk()
}

// compareOpened compares a store with the model as of the round that it recovered.
func (r *crashRun) compareOpened(o Options) string {
	s := r.store
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
	r.base, r.live, r.ops, r.acked = m, m.clone(), nil, last
	for _, id := range m.sortedIDs() {
		s.Log(id).SetConfig(r.config(id))
	}
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
	isCleanup := f.kind == frameCompact || f.kind == frameStart && !r.isOwnStart
	if stable, isHeld := r.stable[f.id]; isHeld && isCleanup && f.end > stable {
		panic(fmt.Sprintf("cleanup of %x up to %d beyond its stable end %d", f.id.Topic[0], f.end, stable))
	}
	if f.kind == frameStart && !r.isOwnStart {
		id, start := f.id, f.end
		r.note("retention: %x start %d in round %d", id.Topic[0], start, t)
		apply := func(m *model) { m.logs[id].advance(start) }
		apply(r.live)
		r.ops = append(r.ops, modelOp{t, apply})
	}
	if f.kind == frameCompact {
		id, end, now, producers := f.id, f.end, r.now, r.planned.logs[f.id].producers
		r.note("compaction of %d up to %d in round %d", id.Topic[0], end, t)
		r.compactions++
		apply := func(m *model) { m.logs[id].compaction(end, producers, now, deleteRetention) }
		apply(r.live)
		r.ops = append(r.ops, modelOp{t, apply})
	}
}

// inject lets operations happen between the calls of a flush, a compaction, a commit.
func (r *crashRun) inject(op vfs.Op) error {
	if !r.isFlushing && !r.isCompacting && !r.isCommitting || r.isNested || op.Kind == vfs.OpRead {
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
	mayCommit := r.store.commitMu.TryLock() // else this is a commit's call
	if mayCommit {
		r.store.commitMu.Unlock()
	}
	if r.isCompacting && !r.isFlushing && r.rng.IntN(3) == 0 {
		r.note("flush during a compaction")
		if err := r.store.Flush(r.now); err != nil && !r.disk.Crashed() {
			panic(fmt.Sprintf("flush during a compaction: %v", err))
		}
	}
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
	frames, crashes, late, compactions, direct := 0, 0, 0, 0, uint64(0)
	for seed := range uint64(seeds(t, 500)) {
		fault, r := runSeed(seed, hooks{})
		if fault != "" {
			t.Fatalf("WEIR_SEED=%d: %s", seed, fault)
		}
		frames += r.frames
		compactions += r.compactions
		direct += r.directBytes
		trace := strings.Join(r.trace, "\n")
		crashes += strings.Count(trace, "crash")
		late += strings.Count(trace, "settle")
	}
	t.Logf("%d frames, %d crashes, %d compactions, %d bytes written directly", frames, crashes, compactions, direct)
	if late == 0 || compactions == 0 || direct == 0 {
		t.Errorf("%d histories opened on a full disk, %d compactions, %d bytes written directly", late, compactions, direct)
	}
}
