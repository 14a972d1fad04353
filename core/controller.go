package core

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlog/weir/core/meta"
)

const (
	// dutyPause is how often internal topics are looked at, and how long it is waited after a proposal that failed.
	dutyPause = time.Second
	// balancePause is how long brokers have stayed as they are when preferred replicas lead again.
	balancePause = 10 * time.Second
)

// duty is what the leader of the metadata's group has to see to: silent brokers, members, preferred leaders, internal topics. It is stepped, and
// keeps nothing that the next leader would need.
type duty struct {
	isStale  atomic.Bool // the image has changed since internal topics were looked at
	hasMoved atomic.Bool // brokers have changed since leaders were looked at

	mu         sync.Mutex
	fencing    map[int32]bool // brokers whose fencing is proposed
	isChanging bool           // of the members
	isMoving   bool           // replicas or leaders are being moved
	changeAt   time.Time      // the next time
	growAt     time.Time
	balanceAt  time.Time

	// What follows is the stepping goroutine's.
	leadsSince time.Time // zero: it doesn't lead
}

// stepDuty does what there is to do while this node leads the group.
func (b *Broker) stepDuty(now time.Time) time.Time {
	d := &b.duty
	if b.peers == nil || b.leader.Load() != b.cfg.NodeID || b.Err() != nil || !b.meta.IsCurrent() {
		d.leadsSince = time.Time{}
		return time.Time{}
	}
	if d.leadsSince.IsZero() {
		d.leadsSince = now
		d.isStale.Store(true)
		d.mu.Lock()
		d.balanceAt = now.Add(b.cfg.BalanceInterval)
		d.mu.Unlock()
	}
	if d.hasMoved.Swap(false) {
		d.mu.Lock()
		d.balanceAt = now.Add(min(balancePause, b.cfg.BalanceInterval))
		d.mu.Unlock()
	}
	b.fenceSilent(now)
	b.changeMembers(now)
	if st := b.meta.Status(); st.Applied < st.Commit || now.Sub(d.leadsSince) < b.cfg.ElectionTimeout {
		return time.Time{} // what follows must not undo what isn't applied yet
	}
	b.growInternal(now)
	b.balance(now)
	return time.Time{}
}

// fenceSilent takes what silent brokers lead from them.
func (b *Broker) fenceSilent(now time.Time) {
	d := &b.duty
	for _, n := range b.meta.Silent(now) {
		d.mu.Lock()
		if d.fencing == nil {
			d.fencing = make(map[int32]bool)
		}
		isUnderWay := d.fencing[n.ID]
		d.fencing[n.ID] = true
		d.mu.Unlock()
		if isUnderWay {
			continue
		}
		b.log.Warn("broker is silent: others take over", "node", n.ID, "generation", n.Generation)
		c := meta.Command{ChangeBroker: &meta.ChangeBroker{ID: n.ID, Generation: n.Generation, To: meta.BrokerFenced}}
		b.meta.Propose(c, now, func(meta.Result, error) {
			d.mu.Lock()
			delete(d.fencing, n.ID)
			d.mu.Unlock()
		})
	}
}

// changeMembers makes those members, and voters, of whom the metadata says that they should be.
func (b *Broker) changeMembers(now time.Time) {
	d := &b.duty
	d.mu.Lock()
	mayNot := d.isChanging || now.Before(d.changeAt)
	d.mu.Unlock()
	if mayNot {
		return
	}
	voters, learners, ok := b.meta.WantedMembers(now)
	if !ok {
		return
	}
	d.mu.Lock()
	d.isChanging = true
	d.mu.Unlock()
	b.meta.ChangeMembers(voters, learners, now, func(err error) {
		d.mu.Lock()
		d.isChanging = false
		if err != nil {
			d.changeAt = now.Add(dutyPause)
		}
		d.mu.Unlock()
		b.news()
	})
}

// move proposes a move of leaders or replicas, one at a time.
func (b *Broker) move(c meta.Command, now time.Time) {
	d := &b.duty
	d.mu.Lock()
	d.isMoving = true
	d.mu.Unlock()
	b.meta.Propose(c, now, func(_ meta.Result, err error) {
		d.mu.Lock()
		d.isMoving = false
		d.mu.Unlock()
		if err != nil {
			b.log.Warn("moving replicas or leaders failed, it is tried again", "error", err)
			d.isStale.Store(true)
		}
	})
}

// isDue says whether a look is due, and then when the next is.
func (d *duty) isDue(at *time.Time, every time.Duration, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isMoving || now.Before(*at) {
		return false
	}
	*at = now.Add(every)
	return true
}

// balance lets the first replicas lead again that can: at intervals, as Kafka does, but also when brokers have stayed as they are for a while, and
// then until all of them can.
func (b *Broker) balance(now time.Time) {
	d := &b.duty
	if b.cfg.KeepLeaders || !d.isDue(&d.balanceAt, b.cfg.BalanceInterval, now) {
		return
	}
	can, willBe := 0, 0
	b.meta.View(func(img *meta.Image) {
		isActive := activeBrokers(img)
		for _, t := range img.Topics() {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				switch first := p.Replicas[0]; {
				case p.Leader == first || !isActive[first]:
				case slices.Contains(p.ISR, first):
					can++
				default:
					willBe++
				}
			}
		}
	})
	if willBe > 0 {
		d.hasMoved.Store(true)
	}
	if can > 0 {
		b.log.Info("preferred replicas lead again", "partitions", can)
		b.move(meta.Command{ElectLeaders: &meta.ElectLeaders{How: meta.ElectPreferred}}, now)
	}
}

// growInternal gives internal topics the replicas that there were no brokers for when they were created.
func (b *Broker) growInternal(now time.Time) {
	d := &b.duty
	if !d.isStale.Load() || !d.isDue(&d.growAt, dutyPause, now) {
		return
	}
	d.isStale.Store(false)
	var changes []meta.Assignment
	b.meta.View(func(img *meta.Image) { changes = wantedReplicas(img, b.wantedFactor) })
	if len(changes) > 0 {
		b.log.Info("internal topics get more replicas", "partitions", len(changes))
		b.move(meta.Command{AssignReplicas: &meta.AssignReplicas{Changes: changes}}, now)
	}
}

// wantedFactor is how many replicas a topic is to have when there are the brokers for it; 0: those that it has.
func (b *Broker) wantedFactor(topic string) int {
	switch {
	case isInternal(topic):
		return int(b.cfg.OffsetsReplicationFactor)
	case slices.Contains(b.cfg.GrowingTopics, topic):
		return cmp.Or(int(b.cfg.ReplicationFactor), safeFactor)
	}
	return 0
}

// wantedReplicas is, for the partitions of topics that have fewer replicas than is wanted, those that they have and more.
func wantedReplicas(img *meta.Image, wanted func(topic string) int) (changes []meta.Assignment) {
	var candidates []int32
	for _, n := range img.Brokers() {
		if n.State == meta.BrokerActive {
			candidates = append(candidates, n.ID)
		}
	}
	for _, t := range img.Topics() {
		factor := min(wanted(t.Name), len(candidates))
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if len(p.Replicas) >= factor || len(p.Adding)+len(p.Removing) > 0 {
				continue
			}
			replicas := slices.Clone(p.Replicas)
			for k := range candidates {
				id := candidates[(i+k)%len(candidates)]
				if len(replicas) < factor && !slices.Contains(replicas, id) {
					replicas = append(replicas, id)
				}
			}
			first := max(0, slices.Index(replicas, candidates[i%len(candidates)])) // leadership is to be everyone's
			changes = append(changes, meta.Assignment{ID: t.ID, Partition: int32(i), Replicas: slices.Concat(replicas[first:], replicas[:first])})
		}
	}
	return changes
}

func activeBrokers(img *meta.Image) map[int32]bool {
	is := make(map[int32]bool)
	for _, n := range img.Brokers() {
		is[n.ID] = n.State == meta.BrokerActive
	}
	return is
}
