package replica

import (
	"errors"
	"slices"
	"time"
)

// Errors of a partition that is not as its caller believed.
var (
	ErrNotLeader     = errors.New("this node doesn't lead the partition")
	ErrFencedEpoch   = errors.New("leader epoch is older than the partition's")
	ErrUnknownEpoch  = errors.New("leader epoch is newer than the partition's")
	ErrNotEnough     = errors.New("fewer replicas are in sync than min.insync.replicas")
	ErrNotEnoughLate = errors.New("fewer replicas were in sync than min.insync.replicas when the batch was on all of them")
	ErrNotReplica    = errors.New("the node is not a replica of the partition")
)

// Assignment is what the metadata says about a partition. Its slices are immutable.
type Assignment struct {
	Leader         int32 // -1: nobody
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
}

// ISRWish is an in-sync set that a leader wants instead of the one it has, in the epochs of that one.
type ISRWish struct {
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []int32
	Generations    []int64 // of the brokers in ISR, as they fetched; 0 for one that has not
}

// Assign makes true what the metadata says: to lead in a new epoch, to go on leading with another in-sync set, or to follow. It is called
// for each change, in order, and may be called again for what is known: a partition epoch that isn't above the newest is ignored. It is the only confirmation of a wish (Review).
func (p *Partition) Assign(a Assignment, now time.Time) {
	var e effects
	p.role.Lock()
	p.assign(a, now, &e)
	p.role.Unlock()
	e.run()
}

func (p *Partition) assign(a Assignment, now time.Time, e *effects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil || p.isAssigned && a.PartitionEpoch <= p.assigned.PartitionEpoch {
		return
	}
	before := p.assigned
	wasLeading := p.isLeading()
	p.assigned, p.isAssigned, p.wish = a, true, nil
	if a.LeaderEpoch != before.LeaderEpoch {
		p.leaderHW = 0
	}
	switch {
	case !p.isLeading():
		p.followers = nil
		if wasLeading {
			e.refuse(p, ErrNotLeader)
		}
	case !wasLeading || a.LeaderEpoch != before.LeaderEpoch:
		if !wasLeading {
			p.marks, p.total = nil, 0 // they may be of another log
		}
		p.epochStart = p.log.EndOffset()
		p.followers = make(map[int32]*follower)
	}
	if p.isLeading() {
		p.keepFollowers(now)
		p.raise(e)
	}
}

// isLeading says that this node leads the partition. Called with mu held.
func (p *Partition) isLeading() bool { return p.isAssigned && p.assigned.Leader == p.self }

// keepFollowers has one entry for each replica besides this one. Who is new has all the time that a lagging one has.
func (p *Partition) keepFollowers(now time.Time) {
	for id := range p.followers {
		if !slices.Contains(p.assigned.Replicas, id) {
			delete(p.followers, id)
		}
	}
	for _, id := range p.assigned.Replicas {
		if id != p.self && p.followers[id] == nil {
			p.followers[id] = &follower{caughtUp: now}
		}
	}
}

// LeaderEpoch is the epoch of the newest assignment.
func (p *Partition) LeaderEpoch() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.assigned.LeaderEpoch
}

// Assigned is the newest assignment; false before the first.
func (p *Partition) Assigned() (Assignment, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.assigned, p.isAssigned
}

// CheckEpoch says whether a client that believes in this leader epoch (-1: in none) is at the right place: nil, ErrFencedEpoch, ErrUnknownEpoch or
// ErrNotLeader, or what the partition was closed with.
func (p *Partition) CheckEpoch(epoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checkEpoch(epoch)
}

func (p *Partition) checkEpoch(epoch int32) error {
	switch current := p.assigned.LeaderEpoch; {
	case p.closed != nil:
		return p.closed
	case epoch >= 0 && epoch < current:
		return ErrFencedEpoch
	case epoch > current:
		return ErrUnknownEpoch
	case !p.isLeading():
		return ErrNotLeader
	}
	return nil
}
