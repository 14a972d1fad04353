package coretest

import (
	"os"
	"testing"
)

// TestCluster: three nodes keep what they promise, whatever happens to them. WEIR_SEEDS is how many runs, WEIR_SEED the first, or without WEIR_SEEDS the
// only one.
func TestCluster(t *testing.T) {
	first, count := number(t, "WEIR_SEED", 0), number(t, "WEIR_SEEDS", 16)
	if os.Getenv("WEIR_SEED") != "" && os.Getenv("WEIR_SEEDS") == "" {
		count = 1
	}
	sum := runEach(t, first, count, Options{})
	if count >= 16 && !t.Failed() && (sum.leastOperations < 2000 || sum.leastFaults < 5 || sum.Truncations == 0 || sum.Shrinks == 0 || sum.Expands == 0 || sum.Hangs == 0 || sum.DiskFaults == 0) {
		t.Error("something never happened, or not enough")
	}
}
