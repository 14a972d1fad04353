package replica

import "sync/atomic"

// Watcher is one long poll: it fires when the partitions that it watches have grown by enough bytes between them.
type Watcher struct {
	missing atomic.Int64 // bytes still to come
	fired   atomic.Bool
	done    func()
}

// NewWatcher makes a watcher that calls done, once and with no lock held, when minBytes have come, when a watched
// partition is closed, or when Fire is called.
func NewWatcher(minBytes int64, done func()) *Watcher {
	w := &Watcher{done: done}
	w.missing.Store(minBytes)
	return w
}

// Fire calls the watcher's done if nothing has yet. It reports whether it did.
func (w *Watcher) Fire() bool {
	if w.fired.Swap(true) {
		return false
	}
	w.done()
	return true
}

// add counts n bytes and reports whether that is enough. It doesn't fire.
func (w *Watcher) add(n int64) bool { return w.missing.Add(-n) <= 0 }

// Missing is how many bytes have still to come before the watcher fires; at most 0 when there are enough.
func (w *Watcher) Missing() int64 { return w.missing.Load() }

// Watch registers w for the bytes that become visible from the offset next on, and counts those that are visible
// already. It doesn't fire w for those: look at Missing when all partitions are watched. Sizes are remembered for
// recent batches only: a next older than that counts as plenty. Only where this node leads: ErrNotLeader.
func (p *Partition) Watch(w *Watcher, next int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkEpoch(-1); err != nil {
		return err
	}
	if next < p.hw {
		w.add(p.visibleFrom(next))
	}
	p.watchers = append(p.watchers, w)
	return nil
}

// visibleFrom is how many bytes lie in [next, high watermark).
func (p *Partition) visibleFrom(next int64) int64 {
	if len(p.marks) == 0 || next < p.marks[0].end {
		return manyBytes
	}
	return max(1, p.totalAt(p.hw)-p.totalAt(next))
}

// Unwatch takes w off the partition.
func (p *Partition) Unwatch(w *Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers = remove(p.watchers, w)
}

// remove takes w out, whose order doesn't matter.
func remove(watchers []*Watcher, w *Watcher) []*Watcher {
	for i, o := range watchers {
		if o == w {
			last := len(watchers) - 1
			watchers[i], watchers[last] = watchers[last], nil
			return watchers[:last]
		}
	}
	return watchers
}
