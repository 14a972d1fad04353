package core

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

var errNoPeers = errors.New("it is a node's of a cluster, and cluster.secret is not given")

// identify makes this broker the node that its folder is. A folder without identity becomes the configured one's, or node 1's.
func (b *Broker) identify() (meta.Identity, error) {
	identity, hasOne, err := meta.ReadIdentity(b.store)
	switch {
	case err != nil:
		return meta.Identity{}, fmt.Errorf("data folder %s: %w", b.cfg.Dir, err)
	case hasOne && b.cfg.NodeID != 0 && b.cfg.NodeID != identity.Node:
		return meta.Identity{}, fmt.Errorf("node.id %d: %w: node %d's is in %s (leave node.id out, or use another data folder)",
			b.cfg.NodeID, meta.ErrIdentity, identity.Node, b.cfg.Dir)
	case hasOne:
		b.cfg.NodeID = identity.Node
	}
	def(&b.cfg.NodeID, 1)
	return identity, nil
}

// openMeta opens the metadata. A node that is alone opens, by then, every partition that the image names, and registers durably, which raises
// the leader epochs of what it leads. One of several does so when the group has agreed to its registration: what it knows until then may be
// older than what it has done.
func (b *Broker) openMeta(identity meta.Identity) error {
	now := b.cfg.Now()
	q, err := meta.Open(meta.Options{
		Store: b.store, MaxCommandBytes: b.cfg.MetadataLogBytes, SnapshotEvery: b.cfg.SnapshotEvery, Now: now, Applied: b.applied,
		Node: b.cfg.NodeID, Send: b.sender(), ElectionTimeout: b.cfg.ElectionTimeout, Session: b.cfg.Session, Rand: b.cfg.Rand,
		Logger: b.log, Faults: b.cfg.Faults.Meta,
	})
	if err != nil {
		return err
	}
	b.meta = q
	b.startsAlone = b.isAlone()
	q.View(func(img *meta.Image) {
		me, _ := img.Broker(b.cfg.NodeID)
		b.knew = me.Generation
	})
	b.joined, b.newClusterID = identity.ClusterID, identity.ClusterID
	if b.ClusterID() == "" {
		id, err := randomID(b.cfg.Rand)
		if err != nil {
			return err
		}
		b.newClusterID = clusterID(id)
	}
	b.noteLeader()
	b.isNodesStale.Store(true)
	if b.startsAlone {
		return b.startAlone(now)
	}
	if b.peers == nil {
		return fmt.Errorf("data folder %s: %w", b.cfg.Dir, errNoPeers)
	}
	b.setNodes()
	q.View(func(img *meta.Image) { err = b.syncAll(img) })
	return err
}

// sender gives the group's messages to the peers.
func (b *Broker) sender() func(to int32, messages []byte) {
	if b.peers == nil {
		return nil
	}
	return func(to int32, messages []byte) {
		b.peers.Call(to, LaneControl, &privateRequest{key: keyRaft, body: messages}, nil)
	}
}

// startAlone makes this start known before anything is served. On a full disk reads are served all the same, and the rest is tried again, by Step,
// until there is space.
func (b *Broker) startAlone(now time.Time) error {
	var isNew bool
	b.meta.View(func(img *meta.Image) { isNew = img.ClusterID() == "" })
	if logs := len(b.store.Logs()); isNew && logs > 1 {
		return fmt.Errorf("data folder %s: %w: it has %d partitions", b.cfg.Dir, errNoMetadata, logs-1)
	}
	b.stepMember(now)
	err := b.commit(now)
	m := &b.member
	m.mu.Lock()
	err = errOf(m.failed, err)
	m.mu.Unlock()
	if errors.Is(err, storage.ErrDiskFull) {
		m.fail(b, err, now)
		return nil
	}
	return err
}

// openTopics opens what isn't open yet, and drops what the image doesn't give this node.
func (b *Broker) openTopics() error {
	var failed error
	b.meta.Hold(func(img *meta.Image, _ bool) {
		b.isOpen.Store(true)
		failed = b.openAssigned(img)
		b.isOpen.Store(failed == nil)
	})
	return failed
}

// dropOrphans drops logs that the image doesn't give this node: a drop that a crash cut short, or a move that it slept through. The
// image must be newer than anything that this node has ever acted upon.
func (b *Broker) dropOrphans(img *meta.Image) error {
	known := map[storage.LogID]bool{meta.LogID(): true}
	for _, t := range img.Topics() {
		for i := range t.Partitions {
			known[logID(t.ID, int32(i))] = slices.Contains(t.Partitions[i].Replicas, b.cfg.NodeID)
		}
	}
	logs := b.store.Logs()
	slices.SortFunc(logs, func(a, b storage.LogID) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	var failed error
	for _, id := range logs {
		if known[id] {
			continue
		}
		if _, err := b.store.Drop(id); err != nil {
			failed = errOf(failed, fmt.Errorf("drop orphaned log of topic %x: %w", id.Topic[:], err))
		}
	}
	return failed
}

// propose is meta's Propose, for all but registration itself, which comes first.
func (b *Broker) propose(c meta.Command, now time.Time, done func(meta.Result, error)) {
	if !b.registered.Load() {
		done(meta.Result{}, b.unregistered())
		return
	}
	b.meta.Propose(c, now, done)
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
