package meta

import (
	"slices"
	"time"
)

// MaxVoters is how many voters a group grows to.
const MaxVoters = 3

// goneAfter is how long a member that isn't registered must have been silent to be no member any more. One that joins is a member before it registers.
const goneAfter = time.Minute

// electorate is what decides who the members should be.
type electorate struct {
	members members
	brokers []int32               // registered
	isGone  func(node int32) bool // its registration was taken back, and it is silent
	isReady func(node int32) bool // it is active and has what the group has agreed on
	most    int                   // voters, odd
}

// WantedMembers is, on the leader, who the members should be, for ChangeMembers; false if they are, or if a change is under way. Every broker is a
// member. Voters that are gone are replaced when a learner is ready, and learners that are ready become voters two at a time, so that their
// number stays odd: one becomes three at once, never two.
func (q *Quorum) WantedMembers(now time.Time) (voters, learners []int32, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil || q.leader.id != q.id || q.isSilent || len(q.members.Outgoing) > 0 {
		return nil, nil, false
	}
	match, commit := q.matches(), q.node.BasicStatus().GetCommit()
	e := electorate{members: q.members, most: MaxVoters}
	for _, b := range q.image.Brokers() {
		e.brokers = append(e.brokers, b.ID)
	}
	e.isGone = func(node int32) bool {
		_, isRegistered := q.image.Broker(node)
		return !isRegistered && node != q.id && now.Sub(q.heard[node]) > goneAfter
	}
	e.isReady = func(node int32) bool { return q.image.isActive(node) && match[node] >= commit }
	voters, learners = e.wanted()
	return voters, learners, !slices.Equal(voters, q.members.Voters) || !slices.Equal(learners, q.members.Learners)
}

// wanted is the members that should be, each list by id.
func (e *electorate) wanted() (voters, learners []int32) {
	var gone, ready []int32
	for _, id := range e.members.Voters {
		if e.isGone(id) {
			gone = append(gone, id)
		} else {
			voters = append(voters, id)
		}
	}
	for _, id := range e.members.Learners {
		if e.isReady(id) {
			ready = append(ready, id)
		}
	}
	take := func(n int) {
		voters = append(voters, ready[:n]...)
		ready = ready[n:]
	}
	n := min(len(gone), len(ready))
	take(n)
	voters = append(voters, gone[n:]...) // still counted: without them there would be fewer, or an even number
	if len(voters)%2 == 0 && len(ready) > 0 {
		take(1)
	}
	for len(voters)+2 <= e.most && len(ready) >= 2 {
		take(2)
	}
	for _, id := range slices.Concat(e.members.Learners, e.brokers) {
		if !slices.Contains(voters, id) && !slices.Contains(learners, id) && !e.isGone(id) {
			learners = append(learners, id)
		}
	}
	slices.Sort(voters)
	slices.Sort(learners)
	return voters, learners
}
