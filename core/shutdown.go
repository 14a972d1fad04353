package core

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirlog/weir/core/meta"
)

// leaving is a node's way out of its cluster while it still serves: others take over what it leads before it goes, so that nobody has to miss
// it first. It is stepped, as membership is.
type leaving struct {
	mu       sync.Mutex
	stage    leavingStage
	deadline time.Time // zero: the next step sets it
	isAsking bool      // a proposal is under way
	retry    time.Time // nothing is asked before
	done     []func()
}

type leavingStage uint8

// The stages, in order.
const (
	stays leavingStage = iota
	handsOver
	transfers  // leadership of the metadata's group
	fencesSelf // nobody need wait for its silence
	hasLeft
)

// Leave hands over what this node leads, while Run runs, and returns when others lead it, when controlled.shutdown.max.wait.ms are over or ctx
// ends; at once if there are no others. The broker is of no use to its cluster afterwards: let Run end.
func (b *Broker) Leave(ctx context.Context) {
	left := make(chan struct{})
	b.StartLeaving(func() { close(left) })
	select {
	case <-left:
	case <-ctx.Done():
	case <-b.ended: // Run has returned
	}
}

// StartLeaving is Leave for those who step the broker. done is called once.
func (b *Broker) StartLeaving(done func()) {
	l := &b.leaving
	l.mu.Lock()
	isOver := l.stage == hasLeft
	if !isOver {
		l.done = append(l.done, done)
		l.stage = max(l.stage, handsOver)
	}
	l.mu.Unlock()
	if isOver {
		done()
	}
	b.news()
}

func (b *Broker) isLeaving() bool {
	b.leaving.mu.Lock()
	defer b.leaving.mu.Unlock()
	return b.leaving.stage != stays
}

// stepLeaving goes as far as it can, and returns when it wants to be called again.
func (b *Broker) stepLeaving(now time.Time) time.Time {
	l := &b.leaving
	l.mu.Lock()
	if l.stage == stays || l.stage == hasLeft {
		l.mu.Unlock()
		return time.Time{}
	}
	if l.deadline.IsZero() {
		l.deadline = now.Add(b.cfg.ShutdownWait)
	}
	if l.stage == transfers && b.leader.Load() != b.cfg.NodeID {
		l.stage, l.retry = fencesSelf, time.Time{}
	}
	stage, deadline := l.stage, l.deadline
	mayAsk := !l.isAsking && !now.Before(l.retry)
	l.mu.Unlock()
	switch {
	case !b.registered.Load() || b.Err() != nil || len(b.others()) == 0:
		b.enter(hasLeft)
	case !now.Before(deadline):
		b.log.Warn("others have not taken everything over in time", "waited", b.cfg.ShutdownWait)
		b.enter(hasLeft)
	case mayAsk:
		b.leave(stage, now)
		return deadline
	default:
		return deadline
	}
	return time.Time{}
}

// leave does what a stage is for, or begins the next.
func (b *Broker) leave(stage leavingStage, now time.Time) {
	state, hasHandedOver := b.handedOver()
	switch stage {
	case handsOver:
		if state == meta.BrokerActive {
			b.askToBe(meta.BrokerLeaving, now)
		} else if hasHandedOver {
			b.enter(transfers)
		}
	case transfers:
		if !b.transfer(now) {
			b.enter(fencesSelf)
		}
	case fencesSelf:
		if state == meta.BrokerFenced {
			b.log.Info("others have taken over")
			b.enter(hasLeft)
		} else {
			b.askToBe(meta.BrokerFenced, now)
		}
	}
}

// enter begins a stage.
func (b *Broker) enter(stage leavingStage) {
	l := &b.leaving
	l.mu.Lock()
	l.stage, l.retry = stage, time.Time{}
	var done []func()
	if stage == hasLeft {
		done, l.done = l.done, nil
	}
	l.mu.Unlock()
	for _, f := range done {
		f()
	}
	b.news()
}

// askToBe proposes another state for this node.
func (b *Broker) askToBe(state meta.BrokerState, now time.Time) {
	l := &b.leaving
	l.mu.Lock()
	l.isAsking = true
	l.mu.Unlock()
	c := meta.Command{ChangeBroker: &meta.ChangeBroker{ID: b.cfg.NodeID, Generation: b.generation.Load(), To: state}}
	b.meta.Propose(c, now, func(_ meta.Result, err error) {
		l.mu.Lock()
		l.isAsking = false
		if err != nil {
			l.retry = now.Add(b.cfg.ElectionTimeout / 2)
		}
		l.mu.Unlock()
		b.news()
	})
}

// handedOver is this node's state in the image, and whether everything that it leads can be led by another at once, where another has a replica
// and is active.
func (b *Broker) handedOver() (state meta.BrokerState, ok bool) {
	b.meta.View(func(img *meta.Image) {
		me, _ := img.Broker(b.cfg.NodeID)
		state, ok = me.State, true
		isActive := activeBrokers(img)
		isOther := func(id int32) bool { return id != b.cfg.NodeID && isActive[id] }
		for _, t := range img.Topics() {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				if p.Leader == b.cfg.NodeID && slices.ContainsFunc(p.Replicas, isOther) && !slices.ContainsFunc(p.ISR, isOther) {
					ok = false
					return
				}
			}
		}
	})
	return state, ok
}

// transfer asks the group to be led by the voter that has most of its log; false if there is no other.
func (b *Broker) transfer(now time.Time) bool {
	var best meta.MemberStatus
	for _, m := range b.meta.Status().Members {
		if m.IsVoter && !m.IsLeaving && m.Node != b.cfg.NodeID && (best.Node == 0 || m.Match > best.Match) {
			best = m
		}
	}
	if best.Node == 0 {
		return false
	}
	b.leaving.mu.Lock()
	b.leaving.retry = now.Add(b.cfg.ElectionTimeout)
	b.leaving.mu.Unlock()
	b.meta.Transfer(best.Node, now)
	return true
}
