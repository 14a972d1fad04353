package storage

import "testing"

// mutations break one rule each. TestMutations wants every one found: a model test that finds nothing must show that it can.
func mutations() map[string]hooks {
	ignore := func(kind frameKind) func(*frame) bool { return func(f *frame) bool { return f.kind == kind } }
	return map[string]hooks{
		"acknowledge before the sync":                  {ackBeforeSync: true},
		"replay skips truncations":                     {ignoreFrame: ignore(frameTruncate)},
		"replay skips start changes":                   {ignoreFrame: ignore(frameStart)},
		"replay skips restarts":                        {ignoreFrame: ignore(frameRestart)},
		"replay skips drops":                           {ignoreFrame: ignore(frameDrop)},
		"replay skips hard states":                     {ignoreFrame: ignore(frameHardState)},
		"replay repeats covered frames":                {anyFrameSeq: true},
		"replay believes torn rounds":                  {acceptTorn: true},
		"files are cut before the frame is durable":    {cutEarly: true},
		"checkpoint before the segments are synced":    {skipFlushSync: true},
		"write-ahead files reused before a checkpoint": {recycleEarly: true},
		"checkpoint names frames that are not durable": {captureUnready: true},
		"checkpoint leaves out producers and epochs":   {forgetState: true},
		"truncation keeps its file open":               {keepFile: true},
		"old generations are replayed":                 {anyGeneration: true},
		"replay skips compactions":                     {ignoreFrame: ignore(frameCompact)},
		"a compaction's files are not synced":          {skipNewSync: true},
		"a direct write is not synced":                 {skipDirectSync: true},
		"a direct write's folder is not synced":        {skipDirectDir: true},
		"older batches are not written before":         {skipOlder: true},
		"replay believes direct frames":                {believeDirect: true},
		"unsynced direct writes are called synced":     {claimDirect: true},
		"a full disk takes direct files":               {removeDirect: true},
		"cleaning takes direct files":                  {cleanDirect: true},
		"frames are taken before a late checkpoint":    {takeUnsettled: true},
	}
}

// lucky is a seed that found a mutation that most histories bear; it only saves time.
func lucky(name string) uint64 {
	return map[string]uint64{
		"write-ahead files reused before a checkpoint": 1209,
		"old generations are replayed":                 2197,
		"replay believes direct frames":                1012,
	}[name]
}

func TestMutations(t *testing.T) {
	for name, h := range mutations() {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(3000) {
				seed := (lucky(name) + i) % 3000
				if fault, _ := runSeed(seed, h); fault != "" {
					t.Logf("seed %d: %s", seed, fault)
					return
				}
			}
			t.Fatal("not found in 3000 histories")
		})
	}
}
