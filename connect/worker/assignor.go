package worker

import (
	"sort"
	"time"
)

// assignor says who runs what, for the member that leads. It is pure but for what it remembers of its last plan, which only
// the delay needs.
//
// Connectors and tasks are each balanced to within one. Nothing is moved that need not be: a member keeps what it has, up
// to its share. What it has beyond is revoked and given to others in the next round, when its owner has said by joining
// again that it has stopped; so nothing runs at two members, and two rounds are enough. Of what may move or is free, the
// tasks of one connector are spread.
type assignor struct {
	maxDelay time.Duration // scheduled.rebalance.max.delay.ms: how long the work of who is gone waits for them

	placed   map[TaskID]string // the last plan
	lost     workSet           // waits
	deadline time.Time         // until then; zero: nothing waits
}

// memberWork is one member with what it says it has.
type memberWork struct {
	id    string
	owned workSet
}

// plan is what each member, in the order in which they were given, gets and gives up.
type plan struct {
	assigned []workSet
	revoked  []workSet
	owners   map[TaskID]string // who has what when the plan is carried out; without what waits or moves
	delay    time.Duration     // after which something is to be assigned that waits; 0: nothing waits
}

// assign makes the plan for the members there are and the work there is.
func (a *assignor) assign(now time.Time, members []memberWork, work workSet) plan {
	p := plan{assigned: make([]workSet, len(members)), revoked: make([]workSet, len(members)), owners: map[TaskID]string{}}
	kept := make([]workSet, len(members))
	claims := map[TaskID]int{}
	for i, m := range members {
		p.assigned[i], p.revoked[i], kept[i] = workSet{}, workSet{}, workSet{}
		for id := range m.owned {
			claims[id]++
		}
	}
	for i, m := range members {
		for id := range m.owned {
			if !work[id] || claims[id] > 1 { // two that claim it are both to stop: neither is known to be the one
				p.revoked[i][id] = true
			} else {
				kept[i][id] = true
			}
		}
	}
	free := workSet{}
	for id := range work {
		if claims[id] == 0 {
			free[id] = true
		}
	}
	p.delay = a.hold(now, members, free)
	loads := make([]int, len(members)) // of connectors when tasks are placed: who has one more of these has one less of those
	for _, connectors := range []bool{true, false} {
		a.share(p, members, kept, free, work, connectors, loads)
	}
	a.placed = p.owners
	return p
}

// hold takes out of what is free what waits for its member to come back.
func (a *assignor) hold(now time.Time, members []memberWork, free workSet) time.Duration {
	if a.maxDelay <= 0 {
		return 0
	}
	here := map[string]bool{}
	for _, m := range members {
		here[m.id] = true
	}
	waits := workSet{}
	for id := range free {
		owner, had := a.placed[id]
		waits[id] = a.lost[id] || had && !here[owner]
		if !waits[id] {
			delete(waits, id)
		}
	}
	switch {
	case len(waits) == 0:
		a.lost, a.deadline = nil, time.Time{}
		return 0
	case a.deadline.IsZero():
		a.deadline = now.Add(a.maxDelay)
	case !now.Before(a.deadline):
		a.lost, a.deadline = nil, time.Time{}
		return 0
	}
	a.lost = waits
	for id := range waits {
		delete(free, id)
	}
	return a.deadline.Sub(now)
}

// share balances the connectors, or the tasks.
func (a *assignor) share(p plan, members []memberWork, kept []workSet, free, work workSet, connectors bool, loads []int) {
	ofKind := func(id TaskID) bool { return (id.Task == connectorTask) == connectors }
	all := 0
	for id := range work {
		if ofKind(id) {
			all++
		}
	}
	count, spread := make([]int, len(members)), make([]map[string]int, len(members)) // tasks by connector
	for i := range members {
		spread[i] = map[string]int{}
		for id := range kept[i] {
			if ofKind(id) {
				count[i]++
				spread[i][id.Connector]++
			}
		}
	}
	quota := quotas(all, count, loads, members)
	for i := range members {
		for count[i] > quota[i] {
			id := most(kept[i], spread[i], ofKind)
			delete(kept[i], id)
			p.revoked[i][id] = true
			count[i]--
			spread[i][id.Connector]--
		}
		for id := range kept[i] {
			if ofKind(id) {
				p.owners[id] = members[i].id
			}
		}
	}
	for _, id := range free.sorted() {
		if !ofKind(id) {
			continue
		}
		best := -1
		for i := range members {
			if count[i] < quota[i] && (best < 0 || spread[i][id.Connector] < spread[best][id.Connector] ||
				spread[i][id.Connector] == spread[best][id.Connector] && count[i]-quota[i] < count[best]-quota[best]) {
				best = i
			}
		}
		p.assigned[best][id] = true // the shares add up to all there is, so somebody has room
		p.owners[id] = members[best].id
		count[best]++
		spread[best][id.Connector]++
	}
	copy(loads, quota)
}

// quotas divides all into shares that differ by one at most. Who has more already gets the larger share, so that nothing
// moves for it; among equals who has the smaller load of the other kind.
func quotas(all int, count, loads []int, members []memberWork) []int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(x, y int) bool {
		i, j := order[x], order[y]
		switch {
		case count[i] != count[j]:
			return count[i] > count[j]
		case loads[i] != loads[j]:
			return loads[i] < loads[j]
		}
		return members[i].id < members[j].id
	})
	out := make([]int, len(members))
	for rank, i := range order {
		out[i] = all / len(members)
		if rank < all%len(members) {
			out[i]++
		}
	}
	return out
}

// most picks what a member can give up best: a task of the connector of which it has the most.
func most(kept workSet, spread map[string]int, ofKind func(TaskID) bool) (pick TaskID) {
	found := false
	for id := range kept {
		if !ofKind(id) {
			continue
		}
		n, best := spread[id.Connector], spread[pick.Connector]
		if !found || n > best || n == best && pick.before(id) {
			pick, found = id, true
		}
	}
	return pick
}
