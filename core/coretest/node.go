package coretest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirlog/weir/core"
	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// Sizes are small, so that files roll and memory runs out.
const (
	dataFolder   = "/data"
	walFileBytes = 256 << 10
	tailBytes    = 1 << 20
)

// node is one broker, its disk and its clock.
type node struct {
	c    *Cluster
	id   int32
	mem  *vfs.Mem
	b    *core.Broker // nil while it is down
	life int

	isOpening   bool
	ahead       time.Duration // of the world's time is its clock
	next        time.Time     // by its clock, when it wants to be stepped; zero: not before something happens
	isNew       bool          // it has not been stepped yet
	downUntil   time.Time
	pausedUntil time.Time // zero: it runs
	leaveUntil  time.Time // zero: it stays; else it goes down then at the latest
	hasLeft     bool
	isFailing   bool  // its disk
	hang        *hang // of its disk, nil: it works
	hangUntil   time.Time
	seen        map[place]*seen
}

func (n *node) clock() time.Time { return n.c.now.Add(n.ahead) }

// found gives the folder an identity, as forming does.
func (n *node) found(voters []int32) error {
	s, err := storage.Open(storage.Options{FS: n.mem, Dir: dataFolder, WALFileBytes: walFileBytes, TailBytes: tailBytes})
	if err != nil {
		return fmt.Errorf("open the folder of node %d: %w", n.id, err)
	}
	if _, err := meta.WriteIdentity(s, meta.Identity{Node: n.id, ClusterID: "coretest", Voters: voters}); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if _, err := s.Commit(n.c.now); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return s.Close()
}

func (n *node) config() core.Config {
	cfg := core.Default(dataFolder)
	o := &n.c.opts
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("%d %d %d", n.c.seed, n.id, n.life))
	cfg.NodeID, cfg.FS, cfg.Advertise, cfg.Logger = n.id, n.mem, fmt.Sprintf("10.0.0.%d:9092", n.id), o.Logger
	cfg.Now, cfg.Rand = n.clock, rand.NewChaCha8(seed)
	cfg.WALFileBytes, cfg.TailBytes, cfg.ProducerIDBlock, cfg.OffsetsTopicPartitions = walFileBytes, tailBytes, 2, 2
	cfg.SnapshotEvery, cfg.Flush = 60, o.Flush
	cfg.Faults = o.Faults
	cfg.AutoCreateTopics = false
	if len(n.c.nodes) > 1 {
		cfg.Peers = &peers{n, n.life}
		cfg.ClusterSecret = "secret"
		cfg.ReplicaLag, cfg.ReplicationFactor, cfg.OffsetsReplicationFactor = 1500*time.Millisecond, 3, 3
	}
	return cfg
}

// start opens the broker, whose disk may crash on the way.
func (n *node) start() {
	c := n.c
	n.life++
	n.pausedUntil, n.next, n.isNew, n.seen = time.Time{}, time.Time{}, true, make(map[place]*seen)
	n.leaveUntil, n.hasLeft, n.isFailing = time.Time{}, false, false
	if c.isBad && c.chance(10) && c.losesPower() {
		n.mem.CrashAt(n.mem.Ops()+1+int64(c.rng.IntN(60)), c.chance(50))
	}
	n.isOpening = true
	b, err := core.Open(n.config())
	n.isOpening = false
	if err != nil {
		if !n.mem.Crashed() {
			c.failf("node %d doesn't start: %v", n.id, err)
		}
		n.down(true)
		return
	}
	n.b = b
	c.trace("start", lane{to: n.id}, int16(n.life))
}

// down is the end of a life: loss of power, with what was not synced, or kill -9, which loses nothing that was written.
func (n *node) down(losesPower bool) {
	c := n.c
	n.endHang(vfs.ErrCrashed)
	if n.b != nil {
		c.Stats.Crashes++
	}
	n.b = nil
	n.life++
	n.pausedUntil = time.Time{}
	n.mem.Inject(nil)
	if !(losesPower && c.losesPower()) && !n.mem.Crashed() {
		n.mem.CrashAt(0, false)
		if err := n.mem.SyncFS("/"); err != nil {
			c.failf("node %d: %v", n.id, err)
		}
	}
	n.mem = n.mem.CrashClone(c.rng)
	n.downUntil = c.now.Add(time.Duration(c.rng.IntN(4000)) * time.Millisecond)
	if c.chance(30) { // supervised, it is back at once
		n.downUntil = c.now
	}
	c.trace("down", lane{to: n.id}, int16(n.life))
}

// step lets the node do what it would do by itself.
func (n *node) step() {
	c := n.c
	if n.b == nil {
		if !c.now.Before(n.downUntil) {
			n.start()
		}
		return
	}
	if !n.pausedUntil.IsZero() {
		if c.now.Before(n.pausedUntil) {
			return
		}
		n.pausedUntil = time.Time{}
	}
	if n.hang != nil && c.now.After(n.hangUntil) {
		n.endHang(nil)
	}
	if now := n.clock(); n.b.IsWoken() || n.isNew || !n.next.IsZero() && !now.Before(n.next) {
		n.isNew = false
		n.next = n.b.Step(now)
	}
	n.disk()
	if n.hang == nil {
		n.mayEnd()
	}
}

// mayEnd is the end of the process, if there is a reason.
func (n *node) mayEnd() {
	c := n.c
	if n.mem.Crashed() {
		n.down(true)
		return
	}
	if n.b.Store().Err() != nil {
		c.Stats.DiskFaults++
		n.down(c.chance(70))
		return
	}
	if err := errors.Join(n.b.Quorum().Err(), n.b.Err()); err != nil {
		c.failf("node %d ends: %v", n.id, err)
		return
	}
	if !n.leaveUntil.IsZero() && (n.hasLeft || c.now.After(n.leaveUntil)) {
		if n.hasLeft {
			c.Stats.Leaves++
		}
		if err := n.b.Close(); err != nil && !n.mem.Crashed() && n.b.Store().Err() == nil {
			c.failf("node %d: close: %v", n.id, err)
		}
		n.down(false)
	}
}

// leave is a controlled shutdown, and a start some time after it.
func (n *node) leave() {
	if n.b == nil || !n.leaveUntil.IsZero() {
		return
	}
	n.leaveUntil = n.c.now.Add(6 * time.Second)
	life := n.life
	n.b.StartLeaving(func() { n.hasLeft = n.hasLeft || n.life == life })
}

// disk is the store's loops.
func (n *node) disk() {
	c, s := n.c, n.b.Store()
	if n.hang != nil && n.hang.hasBegun {
		return
	}
	if c.chance(60) {
		n.commit()
	}
	if n.hang != nil {
		return
	}
	if c.rng.IntN(150) == 0 || n.isFull() && c.chance(20) {
		if err := s.Flush(n.clock()); err != nil && !errors.Is(err, storage.ErrDiskFull) && !n.isFailing && s.Err() == nil && !n.mem.Crashed() {
			c.failf("node %d: flush: %v", n.id, err)
		}
	}
	if c.rng.IntN(1500) == 0 {
		if _, err := s.Compact(context.WithoutCancel(c.ctx), n.clock()); err != nil && !errors.Is(err, storage.ErrBusy) && !n.isFailing && s.Err() == nil && !n.mem.Crashed() {
			c.failf("node %d: compact: %v", n.id, err)
		}
	}
}

// isFull says that the store waits for a flush.
func (n *node) isFull() bool {
	select {
	case <-n.b.Store().Room(1):
		return false
	default:
		return true
	}
}

func (n *node) commit() {
	if n.hang != nil {
		n.hang.commit(n)
		return
	}
	done, _ := n.b.Store().Commit(n.clock()) // its error is the store's, which is looked at
	n.complete(done)
}

func (n *node) complete(done []func()) {
	for _, f := range done {
		f()
	}
}

// hang is a disk that doesn't come back from a sync. The only goroutine of a run besides its own stands in it, and nothing else moves meanwhile that it
// could meet: it gives way to no one but the one who lets it go on.
type hang struct {
	entered, release chan struct{}
	ended            chan []func()
	fault            error
	hasBegun         bool
}

// beginHang has the next sync hang.
func (n *node) beginHang(until time.Time) {
	h := &hang{entered: make(chan struct{}), release: make(chan struct{}), ended: make(chan []func(), 1)}
	n.hang, n.hangUntil = h, until
}

// commit is one round, in whose sync the disk hangs, if there is one.
func (h *hang) commit(n *node) {
	isFirst := true
	n.mem.Inject(func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !isFirst {
			return nil
		}
		isFirst = false
		close(h.entered)
		<-h.release
		return h.fault
	})
	s, now := n.b.Store(), n.clock()
	go func() {
		done, _ := s.Commit(now)
		h.ended <- done
	}()
	select {
	case <-h.entered:
		h.hasBegun = true
		n.c.Stats.Hangs++
	case done := <-h.ended: // there was nothing to sync
		n.mem.Inject(nil)
		n.complete(done)
	}
}

// endHang lets the disk go on, or fail, and waits for it.
func (n *node) endHang(fault error) {
	h := n.hang
	if h == nil {
		return
	}
	n.hang = nil
	if !h.hasBegun {
		return
	}
	h.fault = fault
	close(h.release)
	done := <-h.ended
	n.mem.Inject(nil)
	if fault == nil {
		n.complete(done)
	}
}

// failSync has the next sync fail, for good.
func (n *node) failSync() {
	if n.b == nil || n.hang != nil || !n.c.losesPower() {
		return
	}
	n.isFailing = true
	n.mem.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncFS {
			return errors.New("input/output error")
		}
		return nil
	})
}
