package worker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sort"
	"sync"
	"time"
)

// unit is what of one connector this worker runs: its own life, or none, and some of its tasks. Only the herder changes
// it, under Worker.unitsMu, since others read it.
type unit struct {
	name      string
	slots     map[int]*slot  // by task, connectorTask for the connector itself
	lives     sync.WaitGroup // of all its slots
	restarted int64          // the newest restart request that was acted upon
}

// herd turns what was read from the config topic, and is this worker's share, into running connectors and tasks until ctx
// ends, then waits for them to drain. It never calls a connector: slots do.
func (w *Worker) herd(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second) // a safety net: every change kicks
	defer tick.Stop()
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
		for _, s := range u.slots {
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
		for task, s := range u.slots {
			if s.living() {
				w.log.Error("does not end and is abandoned", "connector", u.name, "task", task) // -1: the connector itself
			}
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

// tasks gives the numbers of the tasks that run here, sorted, and their slots.
func (w *Worker) tasks(u *unit) (numbers []int, slots map[int]*slot) {
	w.unitsMu.Lock()
	defer w.unitsMu.Unlock()
	slots = make(map[int]*slot, len(u.slots))
	for task, s := range u.slots {
		if slots[task] = s; task != connectorTask {
			numbers = append(numbers, task)
		}
	}
	sort.Ints(numbers)
	return numbers, slots
}

// reconcile gives every slot its order: what the config topic says of what is this worker's.
func (w *Worker) reconcile(ctx context.Context) {
	applied := w.applied.Load() // before the snapshot, which may be newer
	snap := *w.snap.Load()
	mine := w.group.current()
	w.statuses.during(mine.generation)
	for name, e := range snap {
		w.order(ctx, name, &e, &mine, applied >= mine.configOffset)
	}
	for _, u := range w.allUnits() {
		e := snap[u.name]
		w.release(u, &e, &mine)
	}
	w.group.ran(mine.round, w.runs())
	w.sweep(snap, &mine)
}

// order tells the slots of a connector what the config topic says. What is new begins only when the config topic is read
// as far as the leader had read it.
func (w *Worker) order(ctx context.Context, name string, e *configEntry, mine *share, fresh bool) {
	w.unitsMu.Lock()
	u := w.units[name]
	for task := connectorTask; task < len(e.tasks) && fresh; task++ {
		if !mine.owns(TaskID{name, task}) {
			continue
		}
		if u == nil {
			u = &unit{name: name, slots: map[int]*slot{}, restarted: e.restart.offset}
			w.units[name] = u
		}
		if u.slots[task] == nil {
			u.slots[task] = w.newSlotOf(TaskID{name, task})
			u.start(ctx, u.slots[task])
		}
	}
	w.unitsMu.Unlock()
	if u == nil {
		return
	}
	for task, s := range u.slots {
		if mine.owns(TaskID{name, task}) && task < len(e.tasks) {
			w.orderSlot(TaskID{name, task}, s, e)
		}
	}
	if e.restart.offset > u.restarted {
		u.restarted = e.restart.offset
		w.restart(u, e.restart)
	}
}

func (w *Worker) newSlotOf(id TaskID) *slot {
	s := newSlot(id.String(), w, &counters{})
	if id.Task == connectorTask {
		s.name = id.Connector
		s.show = func(state State, trace string) { w.show(connectorStatusKey(id.Connector), id.Connector, state, trace) }
		s.begin = func(ctx context.Context, l *life, o order) error {
			spec, ok := o.payload.(connectorSpec)
			if !ok {
				return fmt.Errorf("order of connector %s has no configuration", id.Connector)
			}
			return w.runConnector(ctx, l, spec)
		}
		return s
	}
	s.show = func(state State, trace string) { w.show(taskStatusKey(id), id.Connector, state, trace) }
	s.begin = func(ctx context.Context, l *life, o order) error {
		spec, ok := o.payload.(taskSpec)
		if !ok {
			return fmt.Errorf("order of task %s has no configuration", id)
		}
		return w.runTask(ctx, l, spec)
	}
	return s
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

func (w *Worker) orderSlot(id TaskID, s *slot, e *configEntry) {
	target := e.wanted()
	run, paused := target != TargetStopped, target == TargetPaused
	if id.Task == connectorTask {
		s.give(order{run: run, paused: paused, version: fmt.Sprint(e.revision),
			payload: connectorSpec{name: id.Connector, raw: e.config, revision: e.revision}})
		if !run && s.idle() && s.shown() != Stopped {
			s.set(Stopped, "")
		}
		return
	}
	if !run {
		s.give(order{})
		return
	}
	o := order{run: true, paused: paused, version: taskVersion(e.config, e.tasks[id.Task]),
		payload: taskSpec{id: id, raw: e.config, task: e.tasks[id.Task]}}
	if !e.planned() {
		// The connector's new configuration is for the tasks that will be planned from it: what runs goes on.
		o, _, _ = s.current()
		o.paused = paused
	}
	s.give(o)
}

// taskVersion tells whether a task must begin anew: when its own or its connector's configuration is another. A plan that
// changes one task leaves the others alone.
func taskVersion(connector, task map[string]string) string {
	sum := sha256.Sum256(mustJSON([]map[string]string{connector, task}))
	return string(sum[:])
}

// release ends slots that are no longer this worker's, or of what there is no more; those that are idle are forgotten.
func (w *Worker) release(u *unit, e *configEntry, mine *share) {
	w.unitsMu.Lock()
	defer w.unitsMu.Unlock()
	for task, s := range u.slots {
		exists := e.config != nil && task < len(e.tasks)
		if exists && mine.owns(TaskID{u.name, task}) {
			continue
		}
		s.give(order{})
		if !s.idle() {
			continue
		}
		if exists && s.shown() != Unassigned {
			s.set(Unassigned, "")
		}
		s.give(order{gone: true})
		delete(u.slots, task)
	}
	if len(u.slots) == 0 {
		u.lives.Wait() // idle slots end at once
		delete(w.units, u.name)
	}
}

// runs is what runs here or has not stopped yet.
func (w *Worker) runs() workSet {
	w.unitsMu.Lock()
	defer w.unitsMu.Unlock()
	out := workSet{}
	for _, u := range w.units {
		for task, s := range u.slots {
			if !s.idle() {
				out[TaskID{u.name, task}] = true
			}
		}
	}
	return out
}

// sweep removes, for the group, the statuses of what there is no more, once nobody has it.
func (w *Worker) sweep(snap map[string]configEntry, mine *share) {
	if !mine.leads || mine.owners == nil && !mine.all {
		return
	}
	for _, id := range w.statuses.ids() {
		e, exists := snap[id.Connector]
		if exists && id.Task < len(e.tasks) || mine.owners[id] != "" || w.slot(id) != nil {
			continue
		}
		w.statuses.remove(w.bound, id)
	}
}

// slot finds what runs here.
func (w *Worker) slot(id TaskID) *slot {
	w.unitsMu.Lock()
	defer w.unitsMu.Unlock()
	if u := w.units[id.Connector]; u != nil {
		return u.slots[id.Task]
	}
	return nil
}

// restart acts on a restart request that was read back.
func (w *Worker) restart(u *unit, r restartRequest) {
	for task, s := range u.slots {
		if (task == connectorTask || r.includeTasks) && (!r.onlyFailed || s.shown() == Failed) {
			s.set(Restarting, "")
			s.restart()
		}
	}
}
