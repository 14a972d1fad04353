package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/weirlog/weir/connect"
)

// slot runs one thing that a connector consists of, its own life or a task, from now on as its last order says. Orders
// replace each other: a slot that is busy ending one life begins the next with the newest. A life that fails is begun
// again with a growing delay, until the breaker: too many lives without progress.
//
// Locking: mu guards the order and is never held during a call.
type slot struct {
	name  string // for logs
	now   func() time.Time
	cfg   *Config
	begin func(ctx context.Context, l *life, o order) error // one life; a nil error is an end that was asked for
	show  func(state State, trace string)                   // sets the status
	count *counters

	mu         sync.Mutex
	want       order
	version    uint64             // of want
	stop       context.CancelFunc // of the life that runs, nil for none
	wake       chan struct{}      // closed and replaced when want changes
	state      State
	resting    bool                 // idle: nothing runs and nothing is asked for
	rested     func()               // told of it
	stats      func() connect.Stats // of the life that runs
	batchBytes int                  // of a source: what its smallest topic takes, 0 for not known
}

// order is what a slot is to do.
type order struct {
	run     bool // false: end and stay ended
	paused  bool
	gone    bool   // the slot itself ends
	version string // lives of another version are replaced; of the same they are only paused and resumed
	payload any
}

func newSlot(name string, w *Worker, count *counters) *slot {
	return &slot{name: name, rested: w.kick, now: w.now, cfg: &w.cfg, count: count, wake: make(chan struct{}), state: Unassigned}
}

// give replaces the slot's order.
func (s *slot) give(o order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replaced := o.version != s.want.version || o.run != s.want.run || o.gone != s.want.gone
	s.want = o
	if o.run {
		s.resting = false
	}
	if replaced {
		s.version++
		if s.stop != nil {
			s.stop()
		}
	}
	s.notify()
}

// restart ends the life that runs and begins a new one; a slot that had given up tries again.
func (s *slot) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	if s.stop != nil {
		s.stop()
	}
	s.notify()
}

func (s *slot) notify() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *slot) current() (order, uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want, s.version, s.wake
}

// set sets the status.
func (s *slot) set(state State, trace string) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	s.show(state, trace)
}

func (s *slot) shown() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// run obeys orders until ctx ends or the slot is gone.
func (s *slot) run(ctx context.Context) {
	for ctx.Err() == nil {
		o, version, wake := s.current()
		switch {
		case o.gone:
			return
		case !o.run:
			s.rest(version)
			select {
			case <-wake:
			case <-ctx.Done():
			}
		default:
			s.lives(ctx, o, version)
		}
	}
}

// living reports whether a life runs.
func (s *slot) living() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop != nil
}

// rest marks the slot idle, unless another order has come.
func (s *slot) rest(version uint64) {
	s.mu.Lock()
	fresh := s.version == version && !s.resting
	if fresh {
		s.resting = true
	}
	s.mu.Unlock()
	if fresh {
		s.rested()
	}
}

// idle reports whether the slot has obeyed an order not to run.
func (s *slot) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resting && !s.want.run
}

// lives runs one version of an order, life after life, until another version comes.
func (s *slot) lives(ctx context.Context, o order, version uint64) {
	back := backoff{min: s.cfg.RestartMin, max: s.cfg.RestartCap}
	fruitless := 0
	for ctx.Err() == nil {
		before := s.count.progress()
		err := s.live(ctx, o, version)
		if _, now, _ := s.current(); now != version || ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the task ended by itself")
		}
		if smaller := (*errSmallerBatches)(nil); errors.As(err, &smaller) {
			continue
		}
		if s.count.progress() > before {
			fruitless, back.attempt = 0, 0
		}
		fruitless++
		kind := connect.KindOf(ctx, err)
		switch {
		case kind == connect.KindBadConfig:
			s.set(Failed, traceOf(err))
			s.await(ctx, version, 0)
			return
		case fruitless > s.cfg.RestartMax:
			s.set(Failed, fmt.Sprintf("%v\n(given up after %d restarts without progress; restart it when the cause is mended)", err, s.cfg.RestartMax))
			s.await(ctx, version, 0)
			return
		}
		delay := back.next()
		s.set(Failed, fmt.Sprintf("%v\n(restart %d in %v)", err, fruitless, delay.Round(time.Millisecond)))
		if !s.await(ctx, version, delay) {
			return
		}
		s.count.restarts.Add(1)
	}
}

// await waits for d, or for ever if it is 0; false when another version has come or ctx has ended.
func (s *slot) await(ctx context.Context, version uint64, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	for {
		_, now, wake := s.current()
		if now != version {
			return false
		}
		select {
		case <-wake:
		case <-after:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// live runs one life.
func (s *slot) live(ctx context.Context, o order, version uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.version != version {
		s.mu.Unlock()
		return nil
	}
	s.stop = cancel
	s.mu.Unlock()
	err := guard(func() error { return s.begin(ctx, &life{slot: s}, o) })()
	s.mu.Lock()
	s.stop = nil
	s.mu.Unlock()
	s.count.abandon()
	s.count.retrying("", 0)
	return err
}

// guard is the panic boundary: a connector's panic is its error.
func guard(f func() error) func() error {
	return func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return f()
	}
}

// life is what a running life may ask and say.
type life struct {
	slot *slot
	last State // shown by the life
}

// paused reports whether the life is to pause, and shows it.
func (l *life) paused() bool {
	o, _, _ := l.slot.current()
	if o.paused && l.last != Paused {
		l.last = Paused
		l.slot.set(Paused, "")
	}
	if !o.paused && l.last != Running {
		l.last = Running
		l.slot.set(Running, "")
	}
	return o.paused
}

// wait returns when the order changes, wake is signalled, a moment has passed or ctx ends.
func (l *life) wait(ctx context.Context, wake <-chan struct{}) {
	o, _, changed := l.slot.current()
	if !o.paused {
		return
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-changed:
	case <-wake:
	case <-t.C:
	case <-ctx.Done():
	}
}

// retry shows why a call is repeated and waits; false when ctx ended first.
func (l *life) retry(ctx context.Context, back *backoff, err error) bool {
	delay := back.next()
	if e := (*connect.Error)(nil); errors.As(err, &e) && e.After > 0 {
		delay = e.After
	}
	l.slot.count.retrying(err.Error(), back.attempt)
	l.slot.set(Running, fmt.Sprintf("retrying, attempt %d: %v", back.attempt, err))
	l.last = Running
	return sleep(ctx, delay)
}

// retried says that what was retried has worked.
func (l *life) retried() {
	l.slot.count.retrying("", 0)
	l.slot.set(Running, "")
	l.last = Running
}

// watch sets where the connector's own figures come from, nil for nowhere.
func (s *slot) watch(stats func() connect.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = stats
}

// gauges asks a running task for its figures.
func (s *slot) gauges() (out []connect.Gauge) {
	s.mu.Lock()
	stats := s.stats
	s.mu.Unlock()
	if stats == nil {
		return nil
	}
	_ = guard(func() error { out = stats().Gauges; return nil })() // a panic gives no figures
	return out
}

// limited remembers how large batches may be, if that is what a life ended with.
func (s *slot) limited(err error) error {
	if smaller := (*errSmallerBatches)(nil); errors.As(err, &smaller) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.batchBytes = smaller.bytes
	}
	return err
}

// batchLimit gives what limited remembered.
func (s *slot) batchLimit() (bytes int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batchBytes, s.batchBytes > 0
}
