//go:build !race

package coretest

import (
	"fmt"
	"testing"

	"github.com/weirlog/weir/core"
	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
)

// TestMutationsAreFound: the same runs find what is broken on purpose.
func TestMutationsAreFound(t *testing.T) {
	for _, m := range []struct {
		name   string
		faults core.Faults
		prefer string // the kind of fault that shows it soonest
		first  uint64 // seed
	}{
		{"acknowledged before the quorum has it", core.Faults{Replica: replica.Faults{AckEarly: true}}, "", 0},
		{"the leader counts what its disk hasn't got", core.Faults{Replica: replica.Faults{AckAtEnd: true}}, "power is cut everywhere", 45},
		{"log ends count rather than durable ends", core.Faults{Replica: replica.Faults{CountEnds: true}}, "power is cut everywhere", 20},
		{"the leader doesn't look whether logs agree", core.Faults{Replica: replica.Faults{SkipDivergence: true}}, "", 0},
		{"the follower keeps what the leader doesn't have", core.Faults{Replica: replica.Faults{SkipCut: true}}, "", 0},
		{"the follower forgets the epoch of what it has", core.Faults{Replica: replica.Faults{ForgetEpoch: true}}, "", 0},
		{"a follower joins below the epoch's start", core.Faults{Replica: replica.Faults{JoinEarly: true}}, "", 0},
		{"those to be added don't count", core.Faults{Replica: replica.Faults{TrustOldISR: true}}, "loss of power", 6},
		{"consumers are served above the high watermark", core.Faults{ServeUnstable: true}, "", 0},
		{"the partition epoch is ignored", core.Faults{Meta: meta.Faults{IgnoreEpochs: true}}, "a late wish", 12},
		{"a vote is forgotten", core.Faults{Meta: meta.Faults{ForgetVote: true}}, "storm of elections", 12},
		{"metadata is acknowledged to peers before the disk has it", core.Faults{Meta: meta.Faults{SayUnsynced: true}}, "", 0},
		{"metadata is answered before the group has agreed", core.Faults{Meta: meta.Faults{AckEarly: true}}, "", 0},
	} {
		t.Run(m.name, func(t *testing.T) {
			const most = 200
			for seed := m.first; seed < m.first+most; seed++ {
				fault := ""
				t.Run(fmt.Sprint(seed), func(t *testing.T) { fault = run(t, seed, Options{Faults: m.faults, Prefer: m.prefer}).Fault })
				if fault != "" {
					t.Logf("found by seed %d: %.300s", seed, fault)
					return
				}
			}
			t.Errorf("not found by %d seeds from %d on", most, m.first)
		})
	}
}
