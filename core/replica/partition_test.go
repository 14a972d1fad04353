package replica

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/storage"
)

// opened is a partition of a store that the test commits itself.
func opened(t *testing.T) (*storage.Store, *Partition) {
	t.Helper()
	store, err := storage.Open(storage.Options{Dir: t.TempDir(), WALFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	log, err := store.OpenLog(storage.LogID{Topic: [16]byte{1}}, "t-0", storage.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := New(store, log, "t", 0, 1)
	p.Assign(Assignment{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 5, Replicas: []int32{1}, ISR: []int32{1}}, time.Now())
	return store, p
}

func commit(t *testing.T, s *storage.Store) {
	t.Helper()
	done, err := s.Commit(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		d()
	}
}

// calls counts an append's answers.
type calls struct {
	n   int
	app storage.Appended
	err error
}

func (c *calls) done(app storage.Appended, err error) { c.n, c.app, c.err = c.n+1, app, err }

func one() []byte {
	return record.AppendBatch(nil, []record.Record{{Value: []byte("v")}}, time.Now())
}

func add(t *testing.T, p *Partition, acks Acks) *calls {
	t.Helper()
	c := &calls{}
	if err := p.Append(one(), acks, 1, time.Now(), c.done); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingIsAnsweredOrVisibleBeforeItIsDurable(t *testing.T) {
	store, p := opened(t)
	none, leader, all := add(t, p, AcksNone), add(t, p, AcksLeader), add(t, p, AcksAll)
	if none.n != 1 || leader.n+all.n != 0 || p.HighWatermark() != 0 || p.Log().EndOffset() != 3 {
		t.Fatalf("before the sync: answers %d %d, high watermark %d, end %d", leader.n, all.n, p.HighWatermark(), p.Log().EndOffset())
	}
	commit(t, store)
	if none.n != 1 || leader.n != 1 || all.n != 1 || p.HighWatermark() != 3 {
		t.Fatalf("after the sync: answers %d %d %d, high watermark %d", none.n, leader.n, all.n, p.HighWatermark())
	}
	if leader.err != nil || all.err != nil || leader.app.BaseOffset != 1 || all.app.BaseOffset != 2 {
		t.Errorf("%+v %+v", leader, all)
	}
}

func TestWatchers(t *testing.T) {
	store, p := opened(t)
	size := int64(len(one()))
	fired := 0
	w := NewWatcher(3*size, func() { fired++ })
	if err := p.Watch(w, 0); err != nil {
		t.Fatal(err)
	}
	add(t, p, AcksAll)
	if commit(t, store); fired != 0 || w.Missing() != 2*size {
		t.Fatalf("fired %d, %d bytes are missing", fired, w.Missing())
	}
	add(t, p, AcksAll)
	add(t, p, AcksAll)
	if fired != 0 {
		t.Fatal("fired before the sync")
	}
	if commit(t, store); fired != 1 {
		t.Fatalf("fired %d", fired)
	}
	p.Unwatch(w)
	late := NewWatcher(2*size, func() {})
	if err := p.Watch(late, 2); err != nil || late.Missing() != size {
		t.Errorf("from offset 2, %d bytes are missing, %v", late.Missing(), err)
	}
	p.Unwatch(late)
	if len(p.watchers) != 0 {
		t.Errorf("%d watchers are left", len(p.watchers))
	}
	if w.Fire() {
		t.Error("fired twice")
	}
}

func TestSizesAreRememberedForRecentBatchesOnly(t *testing.T) {
	store, p := opened(t)
	for range 10 * marksKept {
		add(t, p, AcksNone)
		commit(t, store)
		if err := store.Flush(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.marks) > 2*marksKept+1 {
		t.Errorf("%d marks are kept", len(p.marks))
	}
	old := NewWatcher(1<<30, func() {})
	if err := p.Watch(old, 0); err != nil || old.Missing() > 0 {
		t.Errorf("an old offset counts as %d bytes too few, %v", old.Missing(), err)
	}
	recent := NewWatcher(1<<30, func() {})
	if err := p.Watch(recent, 10*marksKept-1); err != nil || 1<<30-recent.Missing() != int64(len(one())) {
		t.Errorf("the last batch counts as %d bytes, %v", 1<<30-recent.Missing(), err)
	}
}

func TestCloseAnswersEveryone(t *testing.T) {
	store, p := opened(t)
	gone := errors.New("gone")
	all := add(t, p, AcksAll)
	fired := 0
	if err := p.Watch(NewWatcher(1, func() { fired++ }), 0); err != nil {
		t.Fatal(err)
	}
	p.Close(gone)
	p.Close(errors.New("again"))
	if all.n != 1 || !errors.Is(all.err, gone) || fired != 1 {
		t.Errorf("answers %d (%v), fired %d", all.n, all.err, fired)
	}
	if err := p.Append(one(), AcksAll, 1, time.Now(), all.done); !errors.Is(err, gone) || all.n != 1 {
		t.Errorf("append after close: %v, answers %d", err, all.n)
	}
	if err := p.Watch(NewWatcher(1, func() {}), 0); !errors.Is(err, gone) {
		t.Errorf("watch after close: %v", err)
	}
	commit(t, store)
	if all.n != 1 || p.HighWatermark() != 0 {
		t.Errorf("after the sync: answers %d, high watermark %d", all.n, p.HighWatermark())
	}
}

func TestAppendsCarryTheEpochAndItNeverFalls(t *testing.T) {
	store, p := opened(t)
	for _, epoch := range []int32{7, 6} {
		p.Assign(Assignment{Leader: 1, LeaderEpoch: epoch, PartitionEpoch: epoch, Replicas: []int32{1}, ISR: []int32{1}}, time.Now())
	}
	add(t, p, AcksAll)
	commit(t, store)
	if p.LeaderEpoch() != 7 || p.Log().LeaderEpoch() != 7 {
		t.Errorf("epoch %d, of the log %d", p.LeaderEpoch(), p.Log().LeaderEpoch())
	}
}

// An append that is under way when this node stops leading comes before that, or is refused: a follower's log grows by its leader's records only.
func TestAppendsEndWithTheLeadership(t *testing.T) {
	_, p := opened(t)
	a, _ := p.Assigned()
	a.Replicas, a.ISR = []int32{1, 2}, []int32{1, 2}
	for range 300 {
		a.Leader, a.LeaderEpoch, a.PartitionEpoch = 1, a.LeaderEpoch+1, a.PartitionEpoch+1
		p.Assign(a, time.Now())
		var all sync.WaitGroup
		began := make(chan struct{}, 4)
		for range 4 {
			all.Go(func() {
				began <- struct{}{}
				for p.Append(one(), AcksNone, 1, time.Now(), func(storage.Appended, error) {}) == nil {
				}
			})
		}
		<-began
		a.Leader, a.LeaderEpoch, a.PartitionEpoch = 2, a.LeaderEpoch+1, a.PartitionEpoch+1
		p.Assign(a, time.Now())
		end := p.Log().EndOffset()
		all.Wait()
		if now := p.Log().EndOffset(); now != end {
			t.Fatalf("a follower's log has grown from %d to %d", end, now)
		}
	}
}

func TestAppendInOneEpoch(t *testing.T) {
	_, p := opened(t)
	for epoch, want := range map[int32]error{4: ErrFencedEpoch, 5: nil, 6: ErrUnknownEpoch, -1: nil} {
		if err := p.AppendIn(epoch, one(), AcksNone, 1, time.Now(), func(storage.Appended, error) {}); !errors.Is(err, want) {
			t.Errorf("epoch %d: %v, want %v", epoch, err, want)
		}
	}
}

// A leader's log may begin in the midst of a batch, by DeleteRecords. A follower that begins there takes the whole batch.
func TestAFollowerBeginsInTheMidstOfABatch(t *testing.T) {
	store, p := opened(t)
	p.Assign(Assignment{Leader: 2, LeaderEpoch: 6, PartitionEpoch: 6, Replicas: []int32{1, 2}, ISR: []int32{2}}, time.Now())
	take := func(a FetchAnswer) {
		t.Helper()
		var ok bool
		if a.Ask, ok = p.Ask(); !ok {
			t.Fatal("nothing is asked")
		}
		a.Start = 7
		if _, err := p.Take(a, time.Now()); err != nil {
			t.Fatal(err)
		}
		commit(t, store)
	}
	take(FetchAnswer{ErrorCode: codeOffsetOutOfRange})
	b := storage.Batch(record.AppendBatch(nil, []record.Record{{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}, {Value: []byte("d")}}, time.Now()))
	b.SetBaseOffset(5)
	b.SetLeaderEpoch(6)
	take(FetchAnswer{HighWatermark: 9, Records: b})
	if log := p.Log(); log.StartOffset() != 7 || log.DurableEnd() != 9 {
		t.Errorf("log [%d, %d)", log.StartOffset(), log.DurableEnd())
	}
}
