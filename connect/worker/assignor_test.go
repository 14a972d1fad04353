package worker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// carry does what a plan says, as members do between two rounds.
func carry(members []memberWork, p plan) []memberWork {
	out := make([]memberWork, len(members))
	for i, m := range members {
		out[i] = memberWork{id: m.id, worker: m.worker, owned: maps.Clone(m.owned)}
		for id := range p.revoked[i] {
			delete(out[i].owned, id)
		}
		maps.Copy(out[i].owned, p.assigned[i])
	}
	return out
}

func moved(p plan) (n int) {
	for _, r := range p.revoked {
		n += len(r)
	}
	return n
}

// uneven tells what is wrong with where the work is, "" for nothing.
func uneven(members []memberWork, work workSet) string {
	at := map[TaskID]int{}
	var tasks, connectors []int
	for _, m := range members {
		n, c := 0, 0
		for id := range m.owned {
			at[id]++
			if id.Task == connectorTask {
				c++
			} else {
				n++
			}
		}
		tasks, connectors = append(tasks, n), append(connectors, c)
	}
	for id := range work {
		if at[id] != 1 {
			return fmt.Sprintf("%s is at %d members", id, at[id])
		}
	}
	if len(at) != len(work) {
		return "work that is gone is at members"
	}
	if slices.Max(tasks)-slices.Min(tasks) > 1 || slices.Max(connectors)-slices.Min(connectors) > 1 {
		return fmt.Sprintf("shares of tasks %v and connectors %v", tasks, connectors)
	}
	return ""
}

// TestAssignor: from any state of members and work, two rounds give every piece to one member, in equal shares; nothing is
// given to a second member while a first has it; and no more is moved than must be.
func TestAssignor(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		work := workSet{}
		for c := range rng.IntN(8) {
			for task := connectorTask; task < rng.IntN(9); task++ {
				work[TaskID{fmt.Sprintf("c%d", c), task}] = true
			}
		}
		members := make([]memberWork, 1+rng.IntN(6))
		for i := range members {
			members[i] = memberWork{id: fmt.Sprintf("m%d", i), owned: workSet{}}
		}
		for _, id := range work.sorted() {
			switch n := rng.IntN(10); {
			case n < 7: // clumped
				members[rng.IntN(1+rng.IntN(len(members)))].owned[id] = true
			case n == 7 && seed%3 == 0: // at two
				members[rng.IntN(len(members))].owned[id] = true
				members[rng.IntN(len(members))].owned[id] = true
			}
		}
		if rng.IntN(2) == 0 {
			members[0].owned[TaskID{"gone", 0}] = true
		}
		var a assignor
		start := members
		first := a.assign(time.Unix(0, 0), members, work, nil)
		for i := range members {
			for id := range first.assigned[i] {
				for j := range members {
					if members[j].owned[id] {
						t.Fatalf("seed %d: %s is given to %s while %s has it", seed, id, members[i].id, members[j].id)
					}
				}
			}
		}
		members = carry(members, first)
		second := a.assign(time.Unix(1, 0), members, work, nil)
		if moved(second) > 0 {
			t.Fatalf("seed %d: the second round revokes %v", seed, second.revoked)
		}
		members = carry(members, second)
		if fault := uneven(members, work); fault != "" {
			t.Fatalf("seed %d: %s", seed, fault)
		}
		if third := a.assign(time.Unix(2, 0), members, work, nil); moved(third) > 0 || len(third.assigned[0]) > 0 || third.delay != 0 {
			t.Fatalf("seed %d: a third round changes %+v", seed, third)
		}
		for i := range members {
			for id := range members[i].owned {
				if second.owners[id] != members[i].id {
					t.Fatalf("seed %d: %s is said to be at %q", seed, id, second.owners[id])
				}
			}
		}
		must := 0 // of what somebody alone has and the work still needs, what is beyond the larger share
		for _, kind := range []bool{true, false} {
			all := 0
			for id := range work {
				if (id.Task == connectorTask) == kind {
					all++
				}
			}
			for i := range start {
				n := 0
				for id := range start[i].owned {
					sole := true
					for j := range start {
						sole = sole && (j == i || !start[j].owned[id])
					}
					if !sole || !work[id] {
						must++ // to be stopped in any case
					} else if (id.Task == connectorTask) == kind {
						n++
					}
				}
				must += max(0, n-all/len(start)) // at most: some may keep one more
			}
		}
		if moved(first) > must {
			t.Fatalf("seed %d: %d are revoked, %d would do", seed, moved(first), must)
		}
	}
}

// TestAssignorMoves: who comes gets its share and no more is moved; who goes leaves the others' work alone; the tasks of one
// connector are spread.
func TestAssignorMoves(t *testing.T) {
	work := workSet{}
	for c := range 5 {
		for task := connectorTask; task < 6; task++ {
			work[TaskID{fmt.Sprintf("c%d", c), task}] = true
		}
	}
	var a assignor
	round := func(members []memberWork) ([]memberWork, int) {
		n := 0
		for range 2 {
			p := a.assign(time.Unix(0, 0), members, work, nil)
			n += moved(p)
			members = carry(members, p)
		}
		if fault := uneven(members, work); fault != "" {
			t.Fatal(fault)
		}
		return members, n
	}
	members, n := round([]memberWork{{id: "a", owned: workSet{}}, {id: "b", owned: workSet{}}, {id: "c", owned: workSet{}}})
	if n != 0 {
		t.Errorf("%d are revoked of those that just came", n)
	}
	for _, m := range members {
		of := map[string]int{}
		for id := range m.owned {
			if id.Task != connectorTask {
				of[id.Connector]++
			}
		}
		for c, n := range of {
			if n != 2 {
				t.Errorf("%s has %d tasks of %s, 2 would be even", m.id, n, c)
			}
		}
	}
	members, n = round(append(members, memberWork{id: "d", owned: workSet{}}))
	if n > 7+1 { // 30 tasks and 5 connectors on four
		t.Errorf("%d are moved to a fourth", n)
	}
	before := members[1:]
	after, n := round(before)
	if n != 0 {
		t.Errorf("%d are moved although one only went", n)
	}
	for i := range before {
		for id := range before[i].owned {
			if !after[i].owned[id] {
				t.Errorf("%s has lost %s", before[i].id, id)
			}
		}
	}
}

// TestAssignorRollingRestart: of workers that are restarted one after the other, whoever leads, a task is moved twice at most:
// away from its worker, and back. Only where shares can't be equal it may be one too many: then it is left behind, and moved on.
func TestAssignorRollingRestart(t *testing.T) {
	all, thrice := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		work, places, moves := workSet{}, map[TaskID]place{}, map[TaskID]int{}
		for c := range 1 + rng.IntN(6) {
			for task := range 20 {
				work[TaskID{fmt.Sprintf("c%d", c), task + connectorTask}] = true
			}
		}
		var workers []memberWork
		for i := range 2 + rng.IntN(4) {
			workers = append(workers, memberWork{id: fmt.Sprintf("m%d", i), worker: fmt.Sprintf("w%d", i), owned: workSet{}})
		}
		generation := 0
		rounds := func(members []memberWork) []memberWork {
			for range 2 {
				generation++
				var a assignor // another leads each time
				members = carry(members, a.assign(time.Unix(0, 0), members, work, places))
				for _, m := range members {
					for id := range m.owned {
						if at := places[id]; at.last != m.worker {
							places[id] = place{last: m.worker, before: awayFrom(at.before, at.last, m.worker), since: generation}
							moves[id]++
						}
					}
				}
			}
			if fault := uneven(members, work); fault != "" {
				t.Fatalf("seed %d: %s", seed, fault)
			}
			return members
		}
		workers = rounds(workers)
		clear(moves)
		for i := range workers {
			name := workers[0].worker // the first leaves, and comes back as the last
			workers = rounds(workers[1:])
			workers = rounds(append(workers, memberWork{id: fmt.Sprintf("again%d", i), worker: name, owned: workSet{}}))
		}
		for id, n := range moves {
			if all++; n == 3 {
				thrice++
			}
			if n > 3 {
				t.Fatalf("seed %d: %s is moved %d times", seed, id, n)
			}
		}
	}
	if thrice*500 > all {
		t.Errorf("%d of %d are moved three times", thrice, all)
	}
}

// TestAssignorWaits: the work of who is gone waits for them as long as it is told to, and no longer.
func TestAssignorWaits(t *testing.T) {
	work := workSet{{"c", 0}: true, {"c", 1}: true}
	now := time.Unix(1000, 0)
	start := func() (*assignor, []memberWork) {
		a := &assignor{maxDelay: time.Minute}
		members := []memberWork{{id: "a", owned: workSet{}}, {id: "b", owned: workSet{}}}
		return a, carry(members, a.assign(now, members, work, nil))
	}
	a, members := start()
	p := a.assign(now.Add(10*time.Second), members[:1], work, nil)
	if p.delay != time.Minute || len(p.assigned[0]) > 0 || len(p.owners) != 1 {
		t.Errorf("when one goes: %+v", p)
	}
	p = a.assign(now.Add(20*time.Second), members[:1], work, nil)
	if p.delay != 50*time.Second || len(p.assigned[0]) > 0 {
		t.Errorf("ten seconds later: %+v", p)
	}
	work[TaskID{"new", 0}] = true
	if p = a.assign(now.Add(30*time.Second), members[:1], work, nil); !p.assigned[0][TaskID{"new", 0}] || len(p.assigned[0]) != 1 {
		t.Errorf("new work waits too: %+v", p)
	}
	delete(work, TaskID{"new", 0})
	p = a.assign(now.Add(70*time.Second), members[:1], work, nil)
	if p.delay != 0 || len(p.assigned[0]) != 1 {
		t.Errorf("when the time is up: %+v", p)
	}
	a, members = start()
	a.assign(now, members[:1], work, nil)
	back := []memberWork{members[0], {id: "b2", owned: workSet{}}}
	if p = a.assign(now.Add(5*time.Second), back, work, nil); len(p.assigned[1]) > 0 || moved(p) > 0 {
		t.Errorf("when another comes meanwhile: %+v", p)
	}
	if p = a.assign(now.Add(61*time.Second), back, work, nil); len(p.assigned[1]) != 1 || moved(p) > 0 {
		t.Errorf("when the time is up, who came gets it: %+v", p)
	}
}
