package meta

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// text is an image in one canonical form.
func text(t testing.TB, m *Image) string {
	t.Helper()
	var buf bytes.Buffer
	for _, c := range m.snapshot(defaultPerPart) {
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		buf.Write(b)
		buf.WriteByte('\n')
	}
	return fmt.Sprintf("%d partitions\n%s", m.partitions, buf.Bytes())
}

func TestSnapshotIsTheImage(t *testing.T) {
	m := NewImage()
	for _, c := range every() {
		apply(t, m, c)
	}
	big := Command{CreateTopic: &CreateTopic{ID: ID{9}, Name: "big", Configs: map[string]string{"a": "b"}}}
	for range 3*defaultPerPart + 5 {
		big.CreateTopic.Replicas = append(big.CreateTopic.Replicas, []int32{1, 2})
	}
	apply(t, m, big)
	for i := range 20 {
		apply(t, m, create(i))
	}
	apply(t, m, Command{RegisterBroker: &RegisterBroker{ID: 1, Rack: "r"}})
	parts := m.snapshot(defaultPerPart)
	if len(parts) != 4 {
		t.Errorf("%d parts", len(parts))
	}
	other := started(t, 1)
	apply(t, other, create(77)) // what was before doesn't matter
	for i, c := range parts {
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 1<<20 {
			t.Errorf("part %d has %d bytes", i, len(b))
		}
		read, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if r := apply(t, other, read); r.Snapshot != (i == len(parts)-1) {
			t.Errorf("part %d: %+v", i, r)
		}
	}
	if got, want := text(t, other), text(t, m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSnapshotCutShort: without its last part, or with a command between, a snapshot means nothing.
func TestSnapshotCutShort(t *testing.T) {
	m := started(t, 1)
	for i := range defaultPerPart + 10 {
		apply(t, m, Command{CreateTopic: &CreateTopic{ID: ID{byte(i), byte(i >> 8), 1}, Name: fmt.Sprint(i), Replicas: [][]int32{{1}}}})
	}
	parts := m.snapshot(defaultPerPart)
	for name, cs := range map[string][]Command{
		"cut":         {parts[0]},
		"interrupted": {parts[0], create(1), parts[1]},
		"no head":     {parts[1]},
		"twice begun": {parts[1], parts[0]},
	} {
		other := started(t, 1)
		apply(t, other, create(0))
		for _, c := range cs {
			if r := apply(t, other, c); r.Snapshot {
				t.Errorf("%s: taken as whole", name)
			}
		}
		if other.Topic("t0") == nil || other.Topic("7") != nil {
			t.Errorf("%s: the image has changed", name)
		}
	}
	other := started(t, 1)
	for _, c := range []Command{parts[0], create(0), parts[0], parts[1]} {
		apply(t, other, c)
	}
	if text(t, other) != text(t, m) {
		t.Error("a whole snapshot after one that was cut short isn't taken")
	}
}

// snapshotRun is one seeded history of commands with crashes, and what must come of it.
type snapshotRun struct {
	t     *testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	every int

	q     *Quorum
	s     *storage.Store
	now   time.Time
	known *Image // as recovered last
	since []indexed
	acked int64 // offset of the newest command that was answered
	trims int
}

type indexed struct {
	index   int64
	command Command
}

func (r *snapshotRun) command() Command {
	id := ID{byte(r.rng.IntN(8)), 5}
	name := fmt.Sprintf("t%d", id[0])
	switch r.rng.IntN(14) {
	case 0, 1, 2:
		c := &CreateTopic{ID: id, Name: name, Configs: map[string]string{"a": fmt.Sprint(r.rng.IntN(9))}}
		for range 1 + r.rng.IntN(3*r.every) {
			c.Replicas = append(c.Replicas, []int32{1})
		}
		return Command{CreateTopic: c}
	case 3:
		return Command{DeleteTopic: &DeleteTopic{ID: id}}
	case 4:
		return Command{RegisterBroker: &RegisterBroker{ID: 1 + int32(r.rng.IntN(2))}}
	case 5:
		return Command{AllocateProducerIDs: &AllocateProducerIDs{Broker: 1, Count: 10}}
	case 6:
		return Command{AddPartitions: &AddPartitions{ID: id, From: 1, Replicas: [][]int32{{2, 1}}}}
	case 7, 8:
		return Command{ChangeBroker: &ChangeBroker{ID: 1 + int32(r.rng.IntN(2)), Generation: 1 + int64(r.rng.IntN(5))}}
	default:
		return Command{AlterTopicConfigs: &AlterTopicConfigs{ID: id, Set: map[string]string{"b": fmt.Sprint(r.rng.IntN(100))}}}
	}
}

func (r *snapshotRun) propose() {
	c := r.command()
	before := r.q.log.lastIndex()
	var index int64 = -1
	r.q.Propose(c, r.now, func(_ Result, err error) {
		if index >= 0 && (err == nil || !errors.Is(err, ErrFailed) && !errors.Is(err, storage.ErrStoreFailed)) {
			r.acked = max(r.acked, index)
		}
	})
	if r.q.log.lastIndex() > before { // perhaps by a snapshot too, behind it
		index = offsetOf(before + 1)
		r.since = append(r.since, indexed{index, c})
	}
}

// open recovers, and compares the image with all commands up to the log's end.
func (r *snapshotRun) open() bool {
	var end int64
	s, err := storage.Open(storage.Options{FS: r.mem, Dir: "/data", WALFileBytes: 128 << 10, TailBytes: 1 << 20, RetentionInterval: -1})
	if err == nil {
		if log := s.Log(LogID()); log != nil {
			end = log.EndOffset()
		}
		r.since = slices.DeleteFunc(r.since, func(x indexed) bool { return x.index >= end }) // lost; Open appends in their place
		r.q, err = Open(Options{Store: s, MaxCommandBytes: 1 << 16, SnapshotEvery: r.every})
	}
	if err != nil {
		if !r.mem.Crashed() {
			r.t.Fatalf("open: %v", err)
		}
		return false
	}
	r.s, r.q.perPart = s, 1+r.rng.IntN(8)
	if r.acked >= end {
		r.t.Fatalf("command %d was answered, the log ends at %d", r.acked, end)
	}
	for _, x := range r.since {
		_, _ = r.known.Apply(x.command)
	}
	r.since, r.acked = nil, -1
	if got, want := text(r.t, r.q.image), text(r.t, r.known); got != want {
		r.t.Fatalf("recovered\n%s\nwant\n%s", got, want)
	}
	if start := r.q.log.log.StartOffset(); start > 0 {
		r.trims++
	}
	return true
}

func (r *snapshotRun) step() {
	r.now = r.now.Add(time.Second)
	switch n := r.rng.IntN(10); {
	case n < 6:
		r.propose()
	case n < 9:
		done, _ := r.s.Commit(r.now)
		for range r.rng.IntN(4) {
			r.propose() // not durable yet when what was committed is applied
		}
		for _, d := range done {
			d()
		}
	default:
		_ = r.s.Flush(r.now)
	}
	if left := r.q.log.log.EndOffset() - r.q.log.log.StartOffset(); left > int64(20*r.every+200) {
		r.t.Fatalf("the log holds %d entries", left)
	}
}

// TestSnapshotsSurviveCrashes: the image is that of all durable commands, though the log begins anew again and again.
func TestSnapshotsSurviveCrashes(t *testing.T) {
	trims := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 11))
		r := &snapshotRun{t: t, rng: rng, mem: vfs.NewMem(), every: 3 + rng.IntN(10), now: time.Now(), known: NewImage(), acked: -1}
		for range 5 {
			r.mem.CrashAt(r.mem.Ops()+1+int64(rng.IntN(150)), rng.IntN(2) == 0)
			if r.open() {
				for step := 0; step < 300 && !r.mem.Crashed(); step++ {
					r.step()
				}
				_ = r.s.Close() // on a crashed disk it fails
			}
			r.mem = r.mem.CrashClone(rng)
		}
		r.mem.CrashAt(0, false)
		r.open()
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		trims += r.trims
	}
	if trims == 0 {
		t.Error("no log ever began anew")
	}
	t.Logf("%d opened logs had begun anew", trims)
}

// BenchmarkOpen is the start with 100,000 partitions in 1000 topics after a long life.
func BenchmarkOpen(b *testing.B) {
	m := started(b, 1)
	for i := range 1000 {
		c := &CreateTopic{ID: ID{byte(i), byte(i >> 8)}, Name: fmt.Sprint("topic-", i)}
		for range 100 {
			c.Replicas = append(c.Replicas, []int32{1})
		}
		_, _ = m.Apply(Command{CreateTopic: c})
	}
	var size int
	var parts [][]byte
	for _, c := range m.snapshot(defaultPerPart) {
		p, err := c.Encode()
		if err != nil {
			b.Fatal(err)
		}
		parts = append(parts, p)
		size += len(p)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		image := NewImage()
		for _, p := range parts {
			c, err := Decode(p)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = image.Apply(c)
		}
	}
}
