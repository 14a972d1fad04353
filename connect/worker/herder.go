package worker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// unit is one connector as this worker runs it: its own life and its tasks. Only the herder changes it; tasks is guarded
// by Worker.unitsMu, since Stats reads it.
type unit struct {
	name      string
	connector *slot
	tasks     []*slot
	lives     sync.WaitGroup // of all its slots
	restarted int64          // the newest restart request that was acted upon
}

// herd turns what was read from the config topic into running connectors and tasks until ctx ends, then waits for them
// to drain. It never calls a connector: slots do.
func (w *Worker) herd(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second) // a safety net: every change kicks
	defer tick.Stop()
	w.forget()
	for ctx.Err() == nil {
		w.reconcile(ctx)
		select {
		case <-w.wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	w.waitForLives()
	for _, u := range w.allUnits() {
		for _, s := range append([]*slot{u.connector}, u.tasks...) {
			if st := s.shown(); st == Running || st == Paused || st == Restarting {
				s.set(Unassigned, "")
			}
		}
	}
}

// waitForLives returns when every slot has ended, or when those that have not must be taken for hung: a connector that
// ignores the end of its calls' contexts must not keep the process alive. Such a task is abandoned with its goroutines,
// as if the process had been killed: nothing of it was acknowledged that is not durable.
func (w *Worker) waitForLives() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, u := range w.allUnits() {
			u.lives.Wait()
		}
	}()
	limit := time.NewTimer(w.cfg.ShutdownTimeout + w.cfg.AbandonAfter)
	defer limit.Stop()
	select {
	case <-ended:
		return
	case <-limit.C:
	}
	for _, u := range w.allUnits() {
		for i, s := range append([]*slot{u.connector}, u.tasks...) {
			if s.living() {
				w.log.Error("does not end and is abandoned", "connector", u.name, "task", i-1) // -1: the connector itself
			}
		}
	}
}

// forget removes the statuses of connectors that are gone.
func (w *Worker) forget() {
	for _, name := range w.statuses.names() {
		if _, ok := w.lookup(name); !ok {
			w.statuses.remove(w.bound, name, -1)
		}
	}
}

func (w *Worker) allUnits() []*unit {
	w.unitsMu.Lock()
	defer w.unitsMu.Unlock()
	out := make([]*unit, 0, len(w.units))
	for _, u := range w.units {
		out = append(out, u)
	}
	return out
}

// reconcile gives every slot its order.
func (w *Worker) reconcile(ctx context.Context) {
	snap := *w.snap.Load()
	for name, e := range snap {
		w.unitsMu.Lock()
		u := w.units[name]
		if u == nil {
			u = w.newUnit(ctx, name)
			u.restarted = e.restart.offset
			w.units[name] = u
		}
		w.unitsMu.Unlock()
		w.order(ctx, u, &e)
	}
	for _, u := range w.allUnits() {
		if _, ok := snap[u.name]; !ok {
			w.dismiss(u)
		}
	}
}

func (w *Worker) newUnit(ctx context.Context, name string) *unit {
	u := &unit{name: name}
	s := newSlot(name, w, &counters{})
	s.show = func(state State, trace string) { w.show(connectorStatusKey(name), name, state, trace) }
	s.begin = func(ctx context.Context, l *life, o order) error {
		spec, ok := o.payload.(connectorSpec)
		if !ok {
			return fmt.Errorf("order of connector %s has no configuration", name)
		}
		return w.runConnector(ctx, l, spec)
	}
	u.connector = s
	u.start(ctx, s)
	return u
}

// start runs a slot; the herder waits for it by lives.
func (u *unit) start(ctx context.Context, s *slot) {
	u.lives.Add(1)
	go func() {
		defer u.lives.Done()
		s.run(ctx)
	}()
}

// show writes a status, but not of a connector that is being dismissed.
func (w *Worker) show(key, name string, state State, trace string) {
	e, ok := w.lookup(name)
	if !ok {
		return
	}
	version := ""
	if c := w.connector(e.config["connector.class"]); c != nil {
		version = c.Version
	}
	w.statuses.write(w.bound, key, state, trace, version)
}

// order tells a unit's slots what the config topic says.
func (w *Worker) order(ctx context.Context, u *unit, e *configEntry) {
	target := e.wanted()
	run, paused := target != TargetStopped, target == TargetPaused
	u.connector.give(order{run: run, paused: paused, version: fmt.Sprint(e.revision),
		payload: connectorSpec{name: u.name, raw: e.config, revision: e.revision}})
	if !run && u.connector.idle() && u.connector.shown() != Stopped {
		u.connector.set(Stopped, "")
	}
	w.orderTasks(ctx, u, e, run, paused)
	if e.restart.offset > u.restarted {
		u.restarted = e.restart.offset
		w.restart(u, e.restart)
	}
}

func (w *Worker) orderTasks(ctx context.Context, u *unit, e *configEntry, run, paused bool) {
	w.unitsMu.Lock()
	for len(u.tasks) < len(e.tasks) {
		id := TaskID{u.name, len(u.tasks)}
		s := newSlot(id.String(), w, &counters{})
		s.show = func(state State, trace string) { w.show(taskStatusKey(id), id.Connector, state, trace) }
		s.begin = func(ctx context.Context, l *life, o order) error {
			spec, ok := o.payload.(taskSpec)
			if !ok {
				return fmt.Errorf("order of task %s has no configuration", id)
			}
			return w.runTask(ctx, l, spec)
		}
		u.tasks = append(u.tasks, s)
		u.start(ctx, s)
	}
	tasks := u.tasks
	w.unitsMu.Unlock()
	for i, s := range tasks {
		if i >= len(e.tasks) || !run {
			s.give(order{})
			continue
		}
		o := order{run: true, paused: paused, version: taskVersion(e.config, e.tasks[i]),
			payload: taskSpec{id: TaskID{u.name, i}, raw: e.config, task: e.tasks[i]}}
		if !e.planned() {
			// The connector's new configuration is for the tasks that will be planned from it: what runs goes on.
			o, _, _ = s.current()
			o.paused = paused
		}
		s.give(o)
	}
	w.trim(u, len(e.tasks))
}

// taskVersion tells whether a task must begin anew: when its own or its connector's configuration is another. A plan that
// changes one task leaves the others alone.
func taskVersion(connector, task map[string]string) string {
	sum := sha256.Sum256(mustJSON([]map[string]string{connector, task}))
	return string(sum[:])
}

// trim ends slots beyond the first n, from the last, once they are idle.
func (w *Worker) trim(u *unit, n int) {
	w.unitsMu.Lock()
	defer w.unitsMu.Unlock()
	for len(u.tasks) > n {
		s := u.tasks[len(u.tasks)-1]
		if !s.idle() {
			return
		}
		s.give(order{gone: true})
		u.tasks = u.tasks[:len(u.tasks)-1]
		w.statuses.remove(w.bound, u.name, len(u.tasks))
	}
}

// dismiss ends the slots of a connector that was deleted; when all are idle it is forgotten.
func (w *Worker) dismiss(u *unit) {
	u.connector.give(order{})
	for _, s := range u.tasks {
		s.give(order{})
	}
	w.trim(u, 0)
	if len(u.tasks) > 0 || !u.connector.idle() {
		return
	}
	u.connector.give(order{gone: true})
	u.lives.Wait() // idle slots end at once
	w.statuses.remove(w.bound, u.name, -1)
	w.unitsMu.Lock()
	delete(w.units, u.name)
	w.unitsMu.Unlock()
}

// restart acts on a restart request that was read back.
func (w *Worker) restart(u *unit, r restartRequest) {
	again := func(s *slot) {
		if !r.onlyFailed || s.shown() == Failed {
			s.set(Restarting, "")
			s.restart()
		}
	}
	again(u.connector)
	if r.includeTasks {
		for _, s := range u.tasks {
			again(s)
		}
	}
}
