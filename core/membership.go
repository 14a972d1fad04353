package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

const (
	// registerPause is how often a broker that was started on a full disk tries to register.
	registerPause = time.Second
	// strangersMost is how many registrations under this node's id that this start has not made are taken for what an earlier start had on its
	// way. With more there is another node with the same id.
	strangersMost = 3
)

var errSameID = errors.New("another node with the same id is running: has its data folder been copied?")

// membership is how far this start has come in its cluster. It is stepped: what it looks at is the image, what it does are proposals.
type membership struct {
	mu     sync.Mutex
	asking int       // proposals under way
	failed error     // of the newest that has failed; nil after one that hasn't
	retry  time.Time // nothing is proposed before
	isFull bool      // the disk was full, which has been said

	// What follows is the stepping goroutine's.
	nodes map[int32]string // as SetNodes was told last
}

// isServing says that clients are served here: this start is registered, or has nobody to register with, and its disk goes on. It may be asked
// under any lock.
func (b *Broker) isServing() bool {
	return (b.registered.Load() || b.startsAlone) && !b.isSilent.Load()
}

// outOfTouch is why a partition that this node leads, as far as it knows, isn't served as its leader's: it is cut off from the metadata and from all others that
// are in sync, so that one of them may lead by now. What lies below the high watermark may be read all the same.
func (b *Broker) outOfTouch(p *replica.Partition) error {
	if !b.isCutOff.Load() {
		return nil
	}
	a, _ := p.Assigned()
	now, others := b.cfg.Now(), 0
	for _, id := range a.ISR {
		if id == b.cfg.NodeID {
			continue
		}
		if others++; now.Sub(b.followers.asked(id)) <= b.cfg.Session {
			return nil
		}
	}
	if others == 0 {
		return nil
	}
	return replica.ErrNotLeader
}

// isAlone says that this node is its cluster's only member. Not under meta's lock.
func (b *Broker) isAlone() bool {
	members := b.meta.Status().Members
	return len(members) == 1 && members[0].Node == b.cfg.NodeID && members[0].IsVoter
}

// stepMember proposes what this start still lacks: the cluster's id, its registration, its being active. It returns when it
// wants to be called again.
func (b *Broker) stepMember(now time.Time) time.Time {
	b.setNodes()
	m := &b.member
	m.mu.Lock()
	asking, retry := m.asking, m.retry
	m.mu.Unlock()
	switch {
	case asking > 0 || b.isLeaving() || b.Err() != nil:
		return time.Time{}
	case now.Before(retry):
		return retry
	case b.isSilent.Load() || b.leader.Load() == 0 && !b.isAlone():
		return time.Time{}
	}
	if !b.isOpen.Load() && b.startsAlone {
		if err := b.openTopics(); err != nil {
			return m.fail(b, err, now)
		}
	}
	for _, c := range b.lacking() {
		b.ask(c, now)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed == nil {
		return time.Time{}
	}
	return m.retry
}

// lacking is what is to be proposed so that this start is known and active, in order.
func (b *Broker) lacking() (commands []meta.Command) {
	host, port := b.address()
	generation := b.generation.Load()
	b.meta.View(func(img *meta.Image) {
		me, isKnown := img.Broker(b.cfg.NodeID)
		hasOthers := len(img.Brokers()) > 1 || !isKnown && !b.startsAlone
		if img.ClusterID() == "" && (b.leader.Load() == b.cfg.NodeID || b.startsAlone) {
			commands = append(commands, meta.Command{InitCluster: &meta.InitCluster{ClusterID: b.newClusterID}})
		}
		switch {
		case hasOthers && host == "": // others couldn't reach it
		case generation == 0 || me.Generation != generation || hasOthers && (me.Host != host || me.Port != port):
			commands = append(commands, meta.Command{RegisterBroker: &meta.RegisterBroker{
				ID: b.cfg.NodeID, Host: host, Port: port, Rack: b.cfg.Rack, Keeps: b.keeps(generation),
			}})
		case me.State != meta.BrokerActive:
			commands = append(commands, meta.Command{ChangeBroker: &meta.ChangeBroker{ID: b.cfg.NodeID, Generation: generation, To: meta.BrokerActive}})
		}
	})
	return commands
}

// keeps is the generation that this start goes on from with all that it reported as durable: its own, or what the folder knew when it was opened, before the
// others had told it anything. 0 where a disk may have lost what it was not made to keep.
func (b *Broker) keeps(generation int64) int64 {
	switch {
	case b.cfg.Flush != storage.SyncGroup:
		return 0
	case generation != 0:
		return generation
	}
	return b.knew
}

// ask proposes a command of this node's own. What fails is tried again after a pause.
func (b *Broker) ask(c meta.Command, now time.Time) {
	m := &b.member
	m.mu.Lock()
	m.asking++
	m.mu.Unlock()
	b.meta.Propose(c, now, func(_ meta.Result, err error) {
		m.mu.Lock()
		m.asking--
		m.failed = err
		m.mu.Unlock()
		if err != nil {
			m.fail(b, err, now)
		} else if m.mend() {
			b.log.Info("disk has space again, records are taken", "dir", b.cfg.Dir)
		}
		b.news()
	})
}

// fail notes that something must be tried again, and says when.
func (m *membership) fail(b *Broker, err error, now time.Time) time.Time {
	pause := b.cfg.ElectionTimeout / 2
	isFull := errors.Is(err, storage.ErrDiskFull)
	if isFull {
		pause = registerPause
	}
	m.mu.Lock()
	m.failed, m.retry = err, now.Add(pause)
	isNews := isFull && !m.isFull
	m.isFull = m.isFull || isFull
	retry := m.retry
	m.mu.Unlock()
	switch {
	case isNews:
		b.log.Warn("disk is full: records can be read, nothing is taken until there is space", "dir", b.cfg.Dir)
	case !isFull && !errors.Is(err, meta.ErrNoLeader):
		b.log.Warn("this node can't register yet", "error", err)
	}
	return retry
}

// mend says whether the disk was full until now.
func (m *membership) mend() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.isFull && m.asking == 0
	m.isFull = m.isFull && !was
	return was
}

// registeredAs takes a registration under this node's id. Called under meta's lock.
func (b *Broker) registeredAs(generation int64, isOwn bool) {
	if isOwn {
		b.generation.Store(generation)
		return
	}
	if b.generation.Load() == 0 {
		return // an earlier start's
	}
	b.strangers++
	b.log.Warn("something else has registered as this node", "node", b.cfg.NodeID, "generation", generation)
	if b.strangers > strangersMost {
		b.end(fmt.Errorf("node %d: %w", b.cfg.NodeID, errSameID))
	}
}

// admit makes a node that has been given its id a member, who learns from then on what the group agrees on. Only where the group is led
// (meta.ErrNotLeading). done is called once, under no lock.
func (b *Broker) admit(id int32, now time.Time, done func(error)) {
	var voters, learners []int32
	for _, m := range b.meta.Status().Members {
		switch {
		case m.Node == id:
			done(nil)
			return
		case m.IsVoter && !m.IsLeaving:
			voters = append(voters, m.Node)
		default:
			learners = append(learners, m.Node)
		}
	}
	if len(voters) == 0 {
		done(fmt.Errorf("admit node %d: %w", id, meta.ErrNotLeading))
		return
	}
	b.meta.ChangeMembers(voters, append(learners, id), now, done)
	b.news() // who was alone needs a clock now
}

// nodesChanged has the addresses of the others worked out again, soon.
func (b *Broker) nodesChanged() {
	b.isNodesStale.Store(true)
	b.news()
}

// setNodes tells the peers who and where the others are.
func (b *Broker) setNodes() {
	if b.peers == nil || !b.isNodesStale.Swap(false) {
		return
	}
	nodes := b.addresses()
	delete(nodes, b.cfg.NodeID)
	if !b.meta.IsCurrent() { // what the image lacks may well exist
		for id, addr := range b.member.nodes {
			if nodes[id] == "" {
				nodes[id] = addr
			}
		}
	}
	if b.member.nodes == nil || !maps.Equal(nodes, b.member.nodes) {
		b.member.nodes = nodes
		b.peers.SetNodes(maps.Clone(nodes))
	}
}

// others is every broker but this one that may take something over.
func (b *Broker) others() []int32 {
	var ids []int32
	b.meta.View(func(img *meta.Image) {
		for _, n := range img.Brokers() {
			if n.ID != b.cfg.NodeID && n.State == meta.BrokerActive {
				ids = append(ids, n.ID)
			}
		}
	})
	slices.Sort(ids)
	return ids
}
