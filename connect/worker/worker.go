package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/provider"
)

// Deps are what a worker is given besides its configuration.
type Deps struct {
	Connectors []connect.Connector
	KafkaOpts  []kgo.Opt // added to every client, last: the dialer of an embedded broker
	Log        *slog.Logger
	LogLevel   *slog.LevelVar   // changed by SetLogLevel; nil: the level is fixed
	Now        func() time.Time // nil: time.Now
	Version    string           // of the program
	Commit     string
	// Identity names this process in the worker group. No two that live at the same time may have the same; one that is
	// started again with the same takes its earlier life's place at once, instead of waiting for its session's end.
	// "": one of its own each time.
	Identity string
}

// Worker runs connectors. Its methods may be called from any goroutine, also while Run is not running (then those that
// write fail). Methods that take no context read a snapshot and return at once.
type Worker struct {
	cfg      Config
	deps     Deps
	now      func() time.Time
	log      *slog.Logger
	resolver *provider.Resolver

	configs  store
	offsets  *sourceOffsets
	statuses *statuses
	group    *membership
	peers    *http.Client  // for what is asked of other workers
	writing  chan struct{} // capacity 1: held by who writes the config topic

	ready   atomic.Bool
	applied atomic.Int64 // of the config topic: how far snap is
	session atomic.Pointer[session]
	primed  int // the term of leading for which the config topic was read to its end; who holds writing has it
	cluster atomic.Pointer[string]
	loggers atomic.Int64 // when the level was last changed, ms; 0: never

	snap  atomic.Pointer[map[string]configEntry] // what the config topic says
	wake  chan struct{}                          // capacity 1: the snapshot, the share or a slot has changed
	leads chan struct{}                          // capacity 1: the same, for the leader's duties
	bound context.Context                        // of what outlives a life: set by Run before anything uses it

	unitsMu sync.Mutex // guards the map; units' fields are the herder's
	units   map[string]*unit
}

// Open makes a worker. It dials nothing and starts no goroutine: [Worker.Run] does.
func Open(cfg Config, deps Deps) (*Worker, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	resolver, err := provider.New(cfg.Props)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	w := &Worker{cfg: cfg, deps: deps, now: deps.Now, log: deps.Log.With("component", "worker"), resolver: resolver,
		writing: make(chan struct{}, 1), wake: make(chan struct{}, 1), leads: make(chan struct{}, 1), units: map[string]*unit{}}
	w.group = newMembership(&w.cfg, deps.Identity, deps.Now, w.log, w.kick, func() map[TaskID]place { return w.statuses.places() })
	w.peers = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute}}
	w.offsets = newSourceOffsets(w.log)
	w.statuses = newStatuses(cfg.WorkerID, deps.Now, w.log, func(id TaskID) bool { return w.slot(id) != nil }, w.group.hurry)
	w.statuses.may = w.group.holds
	w.snap.Store(&map[string]configEntry{})
	return w, nil
}

// Run joins the worker group and runs this worker's share of the connectors and tasks until ctx ends, then drains and
// returns when all its goroutines are gone. They run only while this worker is a member: when it is put out, or can't know, they
// end, and it joins again. A group that can't be shared is an error that wraps [ErrGroupTaken], after connect.group.wait.ms.
// Drain order: tasks end (sources stop polling, flush, persist, commit; sinks flush and commit), their statuses are
// written, the group is left, the tables are closed.
func (w *Worker) Run(ctx context.Context) (err error) {
	bound, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	w.bound = bound
	if err := w.openClients(); err != nil {
		return err
	}
	defer w.group.close()
	defer w.peers.CloseIdleConnections()
	tables := []store{w.configs, w.offsets.table, w.statuses.table}
	defer func() {
		for _, t := range tables {
			t.close()
		}
	}()
	var loops errgroup.Group
	loops.Go(func() error { return w.group.run(bound) })
	defer func() {
		release()
		if fault := loops.Wait(); err == nil { // a fault of the group has been told already
			err = fault
		}
	}()
	starting, startCtx := errgroup.WithContext(ctx)
	for _, t := range tables {
		starting.Go(func() error { return t.start(startCtx) })
	}
	if err := starting.Wait(); err != nil {
		return ended(ctx, err)
	}
	for _, t := range tables {
		loops.Go(func() error { return t.run(bound) })
	}
	unwatch := context.AfterFunc(ctx, w.group.end)
	defer unwatch()
	for ctx.Err() == nil {
		if err := w.term(ctx, tables); err != nil {
			return ended(ctx, err)
		}
	}
	return nil
}

// term is one time of being a member, from joining to the loss or ctx's end.
func (w *Worker) term(ctx context.Context, tables []store) error {
	if err := w.replay(ctx, tables); err != nil {
		return err
	}
	w.group.begin()
	lost, err := w.group.await(ctx)
	if err != nil {
		return err
	}
	held, release := context.WithCancel(ctx)
	defer release()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-lost:
			release()
		case <-held.Done():
		}
	}()
	w.log.Info("worker has started", "group", w.cfg.GroupID, "worker", w.cfg.WorkerID, "connectors", len(*w.snap.Load()))
	w.ready.Store(true)
	leading := make(chan struct{})
	go func() {
		defer close(leading)
		w.lead(held)
	}()
	w.herd(held)
	w.ready.Store(false)
	release()
	<-watched
	<-leading
	w.unitsMu.Lock()
	clear(w.units)
	w.unitsMu.Unlock()
	w.group.drained()
	flushCtx, cancel := context.WithTimeout(w.bound, w.cfg.FlushTimeout)
	defer cancel()
	if err := w.statuses.table.flush(flushCtx); err != nil {
		w.log.Warn("last statuses were not written", "error", err)
	}
	return nil
}

// ended drops an error that is only ctx's end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// kick wakes the herder and the leader's duties.
func (w *Worker) kick() {
	for _, c := range []chan struct{}{w.wake, w.leads} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// lookup finds a connector in the snapshot.
func (w *Worker) lookup(name string) (configEntry, bool) {
	e, ok := (*w.snap.Load())[name]
	return e, ok
}
