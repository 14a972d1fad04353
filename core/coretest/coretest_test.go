package coretest

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"testing/cryptotest"

	"go.uber.org/goleak"

	"github.com/weirlog/weir/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs one seed with everything that is random seeded. WEIR_TRACE shows what moves.
func run(t *testing.T, seed uint64, o Options) Report {
	cryptotest.SetGlobalRandom(t, seed)
	if os.Getenv("WEIR_TRACE") != "" {
		o.Trace = func(s string) { t.Log(s) }
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return Run(t.Context(), seed, o)
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	value := os.Getenv(name)
	if value == "" && isRace {
		return min(otherwise, 2)
	}
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// total is what happened in all runs, and the least of a run.
type total struct {
	Stats
	seeds, leastOperations, leastFaults int
}

func (s *total) add(r Stats) {
	s.seeds++
	if s.seeds == 1 {
		s.leastOperations, s.leastFaults = r.Operations, r.Faults
	}
	s.leastOperations, s.leastFaults = min(s.leastOperations, r.Operations), min(s.leastFaults, r.Faults)
	for _, sum := range []struct {
		to   *int
		from int
	}{
		{&s.Operations, r.Operations}, {&s.Acknowledged, r.Acknowledged}, {&s.Read, r.Read}, {&s.Commits, r.Commits}, {&s.Joins, r.Joins}, {&s.Trims, r.Trims}, {&s.Moves, r.Moves}, {&s.Topics, r.Topics},
		{&s.Faults, r.Faults}, {&s.Crashes, r.Crashes}, {&s.DiskFaults, r.DiskFaults}, {&s.Hangs, r.Hangs}, {&s.Leaves, r.Leaves}, {&s.Elections, r.Elections},
		{&s.MetaElections, r.MetaElections}, {&s.Truncations, r.Truncations}, {&s.Shrinks, r.Shrinks}, {&s.Expands, r.Expands},
		{&s.Records, r.Records}, {&s.Retries, r.Retries}, {&s.Lost, r.Lost}, {&s.Steps, r.Steps},
	} {
		*sum.to += sum.from
	}
	s.Virtual += r.Virtual
}

func (s *total) log(t *testing.T) {
	t.Logf("%d seeds, %v of the brokers' time: %d operations (least of a seed %d), %d faults (least %d)", s.seeds, s.Virtual, s.Operations, s.leastOperations, s.Faults, s.leastFaults)
	t.Logf("%d records acknowledged by all in sync, of %d written; %d read, %d offsets committed, %d members joined, %d topics created, %d beginnings deleted, %d moves, %d batches sent again", s.Acknowledged, s.Records, s.Read, s.Commits, s.Joins, s.Topics, s.Trims, s.Moves, s.Retries)
	t.Logf("%d ends (%d by failed syncs, %d controlled), %d hanging disks, %d elections, %d of the metadata's group, %d truncations, in-sync sets shrunk %d times, grown %d times",
		s.Crashes, s.DiskFaults, s.Leaves, s.Hangs, s.Elections, s.MetaElections, s.Truncations, s.Shrinks, s.Expands)
}

// TestOneNode: a cluster of one, as everything began.
func TestOneNode(t *testing.T) { runEach(t, 0, number(t, "WEIR_SEEDS", 3), Options{Nodes: 1}) }

// TestFiveNodes: not every node has every partition.
func TestFiveNodes(t *testing.T) { runEach(t, 0, number(t, "WEIR_SEEDS", 2), Options{Nodes: 5}) }

// TestFlushByTheSystem: three nodes that leave the sync to the system bear everything but a loss of power.
func TestFlushByTheSystem(t *testing.T) {
	runEach(t, 0, number(t, "WEIR_SEEDS", 3), Options{Flush: storage.SyncOS})
}

// runEach runs count seeds from first on, each of which must be without a fault.
func runEach(t *testing.T, first, count uint64, o Options) (sum total) {
	t.Helper()
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := run(t, seed, o)
			if r.Fault != "" {
				t.Fatalf("seed %d: %s\n%+v", seed, r.Fault, r.Stats)
			}
			sum.add(r.Stats)
		})
	}
	sum.log(t)
	return sum
}

// TestRunsRepeat: the same seed gives the same run, to the last message.
func TestRunsRepeat(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		var digests [2]uint64
		for i := range digests {
			t.Run(fmt.Sprint(i), func(t *testing.T) { digests[i] = run(t, 1, Options{Nodes: nodes, Rounds: 1}).Digest })
		}
		if digests[0] != digests[1] {
			t.Errorf("%d nodes: digests %x", nodes, digests)
		}
	}
}
