//go:build !race

package meta

import (
	"fmt"
	"testing"
)

// isRace: the race detector makes a run ten times slower, and there is but one goroutine.
const isRace = false

// TestClusterFindsMutations: the same runs find what is broken on purpose.
func TestClusterFindsMutations(t *testing.T) {
	for _, m := range []mutation{
		{name: "a proposal is answered before the group has agreed", faults: Faults{AckEarly: true}},
		{name: "peers are told before the disk has it", faults: Faults{SayUnsynced: true}},
		{name: "a node counts itself before its disk has it", faults: Faults{CountUnsynced: true}},
		{name: "a snapshot's term is forgotten", faults: Faults{ForgetTerm: true}},
		{name: "a base has the members of the one before", faults: Faults{SkipMembers: true}},
		{name: "a wiped node votes as the one that it was", reuse: true},
	} {
		t.Run(m.name, func(t *testing.T) {
			const most = 200
			for seed := range uint64(most) {
				fault := ""
				t.Run(fmt.Sprint(seed), func(t *testing.T) { fault = runCluster(t, seed, m).fault })
				if fault != "" {
					t.Logf("found by seed %d: %.300s", seed, fault)
					return
				}
			}
			t.Errorf("not found by %d seeds", most)
		})
	}
}
