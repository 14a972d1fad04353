package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlog/weir/connect"
)

// connectorSpec is what a connector's own life is run from.
type connectorSpec struct {
	name     string
	raw      map[string]string
	revision int64
}

// runConnector is one life of a connector itself: it plans its tasks, watches its system and plans again when asked to.
func (w *Worker) runConnector(ctx context.Context, l *life, spec connectorSpec) error {
	p, err := w.prepare(spec.name, spec.raw)
	if err != nil {
		return err
	}
	if _, err := w.pipeline(p.config); err != nil {
		return err
	}
	fields := append(connectorFields(p.connector.Sink != nil), p.connector.Fields...)
	for _, key := range connect.Unknown(fields, p.config) {
		w.log.Warn("key of a connector is not known, it is kept and not used", "connector", p.name, "about", unknownKey(fields, key))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	replan := make(chan struct{}, 1)
	var watch errgroup.Group
	if p.connector.Watch != nil {
		in, err := w.instance(p)
		if err != nil {
			return err
		}
		host := connect.Host{
			Replan: func() {
				select {
				case replan <- struct{}{}:
				default:
				}
			},
			Fail: func(err error) { cancel(errors.Join(errFailed, err)) },
		}
		watch.Go(func() error {
			err := guard(func() error { return p.connector.Watch(ctx, in, host) })()
			if err != nil && ctx.Err() == nil {
				cancel(errors.Join(errFailed, err))
			}
			return nil
		})
	}
	err = w.planning(ctx, l, p, spec, replan)
	cancel(nil)
	_ = watch.Wait() // its error is the context's cause
	if cause := context.Cause(ctx); errors.Is(cause, errFailed) {
		return cause
	}
	return err
}

// errFailed marks a connector that was failed by its own Watch.
var errFailed = errors.New("the connector has failed")

// anyRevision stands for the configuration that there is, where a plan does not tell its own.
const anyRevision = -1

// planning plans when the life begins, when a pause ends and when asked to.
func (w *Worker) planning(ctx context.Context, l *life, p *prepared, spec connectorSpec, replan <-chan struct{}) error {
	planned := false
	for ctx.Err() == nil {
		if l.paused() {
			l.wait(ctx, nil)
			continue
		}
		if !planned {
			if err := w.plan(ctx, l, p, spec); err != nil {
				return err
			}
			planned = true
		}
		o, _, changed := l.slot.current()
		if o.paused {
			continue
		}
		select {
		case <-replan:
			planned = false
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// plan asks the connector for its tasks' configurations and writes them if they differ from what is committed, or if
// nothing is committed since the connector's configuration changed.
func (w *Worker) plan(ctx context.Context, l *life, p *prepared, spec connectorSpec) error {
	maxTasks := int(p.common.Int("tasks.max"))
	var configs []connect.Config
	err := l.open(ctx, func(ctx context.Context) (err error) {
		configs, err = w.taskConfigs(ctx, p, maxTasks)
		return err
	})
	if err != nil {
		return fmt.Errorf("plan tasks: %w", err)
	}
	if len(configs) > maxTasks {
		if p.common.Bool("tasks.max.enforce") {
			return fmt.Errorf("the connector planned %d tasks, tasks.max is %d", len(configs), maxTasks)
		}
		w.log.Warn("the connector planned more tasks than tasks.max", "connector", p.name, "planned", len(configs), "max", maxTasks)
	}
	stored := make([]map[string]string, len(configs))
	for i, c := range configs {
		stored[i] = p.stored(c)
	}
	back := backoff{min: 250 * time.Millisecond, max: 60 * time.Second}
	for {
		err := w.writeTasks(ctx, spec, stored)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.log.Warn("task configurations were not written, trying again", "connector", p.name, "error", err)
		if !back.sleep(ctx) {
			return ctx.Err()
		}
	}
}

func (w *Worker) taskConfigs(ctx context.Context, p *prepared, maxTasks int) ([]connect.Config, error) {
	if p.connector.Plan != nil {
		if p.connector.Source != nil {
			if err := w.offsets.table.readToEnd(ctx); err != nil {
				return nil, err
			}
		}
		in, err := w.instance(p)
		if err != nil {
			return nil, err
		}
		return p.connector.Plan(ctx, in, maxTasks)
	}
	if p.connector.Source != nil {
		maxTasks = 1
	}
	configs := make([]connect.Config, maxTasks)
	for i := range configs {
		configs[i] = maps.Clone(p.config)
	}
	return configs, nil
}

// writeTasks writes a plan, or has the leader write it: every task's configuration, then the commit that makes them live. It
// does nothing when the plan is live already, or the connector's configuration or target has changed since it was planned.
func (w *Worker) writeTasks(ctx context.Context, spec connectorSpec, tasks []map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if s := w.group.current(); !s.leads {
		return w.sendTasks(ctx, spec, tasks, &s)
	}
	unlock, err := w.lockWrites(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	e, ok := w.lookup(spec.name)
	if !ok || e.revision != spec.revision && spec.revision != anyRevision || e.wanted() == TargetStopped {
		return nil
	}
	if e.planned() && sameConfigs(e.tasks, tasks) {
		return nil
	}
	round := w.configs.positions()[0]
	entries := make([]entry, len(tasks))
	for i, t := range tasks {
		entries[i] = taskConfigRecord(spec.name, i, t, round)
	}
	if err := w.configs.putRead(ctx, entries...); err != nil {
		return err
	}
	return w.configs.putRead(ctx, commitRecord(spec.name, len(tasks), round))
}

// lockWrites makes the caller the only writer of the config topic. It fails where another worker leads.
func (w *Worker) lockWrites(ctx context.Context) (unlock func(), err error) {
	select {
	case w.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another change: %w", ctx.Err())
	}
	if err := w.prime(ctx); err != nil {
		<-w.writing
		return nil, err
	}
	return func() { <-w.writing }, nil
}
