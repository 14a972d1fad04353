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
// again that it has stopped; so nothing runs at two members, and two rounds are enough. Who comes back gets what it had: of what
// may move, that which was at the other member before, and which came last, moves first; so a rolling restart moves each task
// away and back. Otherwise the tasks of one connector are spread.
type assignor struct {
	maxDelay time.Duration // scheduled.rebalance.max.delay.ms: how long the work of who is gone waits for them

	placed   map[TaskID]string // the last plan
	lost     workSet           // waits
	deadline time.Time         // until then; zero: nothing waits
}

// memberWork is one member with what it says it has.
type memberWork struct {
	id     string
	worker string // as statuses name it
	owned  workSet
}

// place is where something was last, by its statuses: the worker, since which generation, and from which one it is away.
type place struct {
	last, before string
	since        int
}

// plan is what each member, in the order in which they were given, gets and gives up.
type plan struct {
	assigned []workSet
	revoked  []workSet
	owners   map[TaskID]string // who has what in this round, also what is to be stopped; without what waits
	delay    time.Duration     // after which something is to be assigned that waits; 0: nothing waits
}

// assign makes the plan for the members there are and the work there is.
func (a *assignor) assign(now time.Time, members []memberWork, work workSet, places map[TaskID]place) plan {
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
		s := sharing{members: members, places: places, count: make([]int, len(members)), spread: make([]map[string]int, len(members)),
			ofKind: func(id TaskID) bool { return (id.Task == connectorTask) == connectors }}
		s.divide(p, kept, free, work, loads)
	}
	for i, m := range members {
		for id := range p.revoked[i] {
			p.owners[id] = m.id
		}
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

// sharing balances the connectors, or the tasks.
type sharing struct {
	members []memberWork
	places  map[TaskID]place
	ofKind  func(TaskID) bool
	quota   []int
	count   []int            // what each has
	spread  []map[string]int // of that, by connector
}

func (s *sharing) divide(p plan, kept []workSet, free, work workSet, loads []int) {
	all := 0
	for id := range work {
		if s.ofKind(id) {
			all++
		}
	}
	for i := range s.members {
		s.spread[i] = map[string]int{}
		for id := range kept[i] {
			if s.ofKind(id) {
				s.count[i]++
				s.spread[i][id.Connector]++
			}
		}
	}
	s.quota = quotas(all, s.count, loads, s.members)
	for i := range s.members {
		for s.count[i] > s.quota[i] {
			id := s.most(i, kept[i])
			delete(kept[i], id)
			p.revoked[i][id] = true
			s.count[i]--
			s.spread[i][id.Connector]--
		}
		for id := range kept[i] {
			if s.ofKind(id) {
				p.owners[id] = s.members[i].id
			}
		}
	}
	var left []TaskID
	give := func(id TaskID, to int) {
		p.assigned[to][id] = true
		p.owners[id] = s.members[to].id
		s.count[to]++
		s.spread[to][id.Connector]++
	}
	for _, id := range free.sorted() {
		switch home := s.home(id); {
		case !s.ofKind(id):
		case home >= 0:
			give(id, home)
		default:
			left = append(left, id)
		}
	}
	for _, id := range left {
		give(id, s.best(id))
	}
	copy(loads, s.quota)
}

// home finds where something free was last, or before, if there is room; -1 for nowhere.
func (s *sharing) home(id TaskID) int {
	at := s.places[id]
	for _, worker := range []string{at.last, at.before} {
		if i := s.withRoom(worker); i >= 0 {
			return i
		}
	}
	return -1
}

// withRoom finds a worker that has less than its share; -1 for none.
func (s *sharing) withRoom(worker string) int {
	for i, m := range s.members {
		if worker != "" && m.worker == worker && s.count[i] < s.quota[i] {
			return i
		}
	}
	return -1
}

// best finds the member for something that was at none that has room: the one with the fewest tasks of its connector. The
// shares add up to all there is, so somebody has room.
func (s *sharing) best(id TaskID) int {
	best := -1
	for i := range s.members {
		if s.count[i] < s.quota[i] && (best < 0 || s.spread[i][id.Connector] < s.spread[best][id.Connector] ||
			s.spread[i][id.Connector] == s.spread[best][id.Connector] && s.count[i]-s.quota[i] < s.count[best]-s.quota[best]) {
			best = i
		}
	}
	return best
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

// most picks what a member can give up best: what was at a member before that has room, the latest first, then a task of the
// connector of which it has the most.
func (s *sharing) most(member int, kept workSet) TaskID {
	var candidates []TaskID
	for _, id := range kept.sorted() {
		if s.ofKind(id) {
			candidates = append(candidates, id)
		}
	}
	returns := func(id TaskID) int {
		if s.withRoom(s.places[id].before) < 0 {
			return -1
		}
		return s.places[id].since
	}
	pick := candidates[0]
	for _, id := range candidates[1:] {
		switch a, b := returns(id), returns(pick); {
		case a != b:
			if a > b {
				pick = id
			}
		case s.spread[member][id.Connector] >= s.spread[member][pick.Connector]:
			pick = id
		}
	}
	return pick
}
