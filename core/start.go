package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

// registerPause is how often a broker that was started on a full disk tries to register.
const registerPause = time.Second

// openMeta opens the metadata and every partition that the image names, registers this node durably, which raises the leader epochs
// of what it leads, and drops logs that the image doesn't name (a drop that a crash cut short). On a full disk reads are
// served all the same, and the rest is tried again until there is space.
func (b *Broker) openMeta() error {
	q, err := meta.Open(meta.Options{Store: b.store, MaxCommandBytes: b.cfg.MetadataLogBytes, SnapshotEvery: b.cfg.SnapshotEvery, Faults: b.cfg.Faults.Meta, Applied: b.applied})
	if err != nil {
		return err
	}
	b.meta = q
	isNew := false
	q.View(func(img *meta.Image) { isNew = img.ClusterID() == "" })
	if logs := len(b.store.Logs()); isNew && logs > 1 {
		return fmt.Errorf("data folder %s: %w: it has %d partitions", b.cfg.Dir, errNoMetadata, logs-1)
	}
	now := b.cfg.Now()
	var refused error
	err = b.openTopics()
	if err == nil {
		err = b.register(now, func(err error) { refused = err })
	}
	if err == nil {
		err = b.commit(now)
	}
	err = errOf(err, refused)
	if !errors.Is(err, storage.ErrDiskFull) {
		return err
	}
	b.log.Warn("disk is full: records can be read, nothing is taken until there is space", "dir", b.cfg.Dir)
	b.after(now, registerPause, b.registerLate)
	return nil
}

// registerLate does what a full disk kept openMeta from.
func (b *Broker) registerLate(now time.Time) {
	again := func(err error) {
		if err == nil {
			b.log.Info("disk has space again, records are taken", "dir", b.cfg.Dir)
			return
		}
		if !errors.Is(err, storage.ErrDiskFull) {
			b.log.Warn("this node can't register yet, so nothing is taken", "error", err)
		}
		b.after(now, registerPause, b.registerLate)
	}
	err := b.openTopics()
	if err == nil {
		err = b.register(now, again)
	}
	if err != nil {
		again(err)
	}
}

// openTopics opens what isn't open yet, and drops what the image doesn't give this node, if it is one: a node that was far behind may have only the beginning of
// a snapshot, which says nothing about the logs that it keeps.
func (b *Broker) openTopics() error {
	known := map[storage.LogID]bool{meta.LogID(): true}
	isCurrent := b.meta.IsCurrent()
	var failed error
	b.meta.View(func(img *meta.Image) {
		for _, t := range img.Topics() {
			for i := range t.Partitions {
				known[logID(t.ID, int32(i))] = slices.Contains(t.Partitions[i].Replicas, b.cfg.NodeID)
			}
		}
		failed = b.syncAll(img)
		for _, id := range b.store.Logs() {
			if known[id] || !isCurrent {
				continue
			}
			if _, err := b.store.Drop(id); err != nil {
				failed = errOf(failed, fmt.Errorf("drop orphaned log of topic %x: %w", id.Topic[:], err))
			}
		}
	})
	return failed
}

// propose is meta's Propose, for all but registration itself, which comes first.
func (b *Broker) propose(c meta.Command, now time.Time, done func(meta.Result, error)) {
	if !b.registered.Load() {
		done(meta.Result{}, errNotRegistered)
		return
	}
	b.meta.Propose(c, now, done)
}

// register makes this start known; done is called once if nil is returned, perhaps before that. Appends are taken from then on.
func (b *Broker) register(now time.Time, done func(error)) error {
	var failed error
	if b.ClusterID() == "" {
		id, err := randomID(b.cfg.Rand)
		if err != nil {
			return err
		}
		b.meta.Propose(meta.Command{InitCluster: &meta.InitCluster{ClusterID: clusterID(id)}}, now, func(_ meta.Result, err error) { failed = err })
	}
	register := &meta.RegisterBroker{ID: b.cfg.NodeID, Rack: b.cfg.Rack}
	b.meta.Propose(meta.Command{RegisterBroker: register}, now, func(_ meta.Result, err error) {
		if err = errOf(failed, err); err == nil {
			b.registered.Store(true)
		}
		done(err)
	})
	return nil
}

// commit makes durable what has been appended, before Run does so.
func (b *Broker) commit(now time.Time) error {
	done, err := b.store.Commit(now)
	for _, complete := range done {
		complete()
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
