package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// openClients opens the membership and the stores; nothing is dialled.
func (w *Worker) openClients() error {
	resolved, _, err := w.resolver.Resolve(w.cfg.Props)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := w.group.open(resolved, w.deps.KafkaOpts); err != nil {
		return err
	}
	if w.cfg.Standalone {
		w.openLocal()
		return nil
	}
	if err := w.openTables(resolved); err != nil {
		w.group.close()
		return err
	}
	return nil
}

// configApply gives what folds the config store's records into the snapshot.
func (w *Worker) configApply() (apply func(*kgo.Record), after func()) {
	live := false
	changed, work := int64(nothingRead), workSet(nil)
	log := newConfigLog(func(key string, reason error) {
		w.log.Warn("config record means nothing to this worker, it is left alone", "key", key, "reason", reason)
	})
	apply = func(r *kgo.Record) {
		live = live || w.ready.Load()
		log.apply(string(r.Key), r.Value, r.Offset, live)
	}
	after = func() {
		snap := log.snapshot()
		w.snap.Store(&snap)
		w.applied.Store(log.next)
		w.session.Store(log.session)
		if log.changed != changed || work == nil {
			changed, work = log.changed, log.work()
		}
		w.group.configured(log.next, changed, work)
		w.kick()
	}
	return apply, after
}

// openTables makes the stores topics, as Kafka Connect's distributed worker has them.
func (w *Worker) openTables(resolved map[string]string) error {
	applyConfig, after := w.configApply()
	var tables []*table
	for _, t := range []struct {
		cfg   TopicConfig
		apply func(*kgo.Record)
	}{{w.cfg.ConfigTopic, applyConfig}, {w.cfg.OffsetTopic, w.offsets.apply}, {w.cfg.StatusTopic, w.statuses.apply}} {
		opened, err := openTable(t.cfg, resolved, w.deps.KafkaOpts, w.log, t.apply)
		if err != nil {
			for _, before := range tables {
				before.close()
			}
			return err
		}
		opened.mayWrite = w.group.holds
		if len(tables) == 0 { // the config topic
			opened.mayWrite = w.group.holdsLead
		}
		tables = append(tables, opened)
	}
	tables[0].after = after
	w.configs, w.offsets.table, w.statuses.table = tables[0], tables[1], tables[2]
	return nil
}

// openLocal makes the stores of a standalone worker: offsets in a file, the rest in memory. Statuses are believed when
// they are written, so they need not come back.
func (w *Worker) openLocal() {
	applyConfig, after := w.configApply()
	w.configs = &localStore{apply: applyConfig, after: after, now: w.now}
	w.offsets.table = &localStore{path: w.cfg.OffsetFile, apply: w.offsets.apply, now: w.now}
	w.statuses.table = &localStore{now: w.now}
}

// replay reads the stores to their ends.
func (w *Worker) replay(ctx context.Context, stores []store) error {
	for _, t := range stores {
		back := backoff{min: 100 * time.Millisecond, max: 2 * time.Second}
		for {
			err := t.readToEnd(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil || !back.sleep(ctx) {
				return err
			}
			if back.attempt > 1 { // a topic that was just made may be unknown for a moment
				w.log.Warn("internal topic can't be read yet, trying again", "error", err)
			}
		}
	}
	w.statuses.replayed()
	if id := w.group.clusterID(ctx); id != "" {
		w.cluster.Store(&id)
	}
	return nil
}
