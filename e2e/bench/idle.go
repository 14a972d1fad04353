package main

import (
	"context"
	"slices"
	"time"
)

const (
	coldStarts = 5
	settle     = 3 * time.Second // an idle node's garbage is gone by then
)

// idle measures the time from fork to ready with an empty data folder, and the memory of a node that does nothing.
func (b *bench) idle(ctx context.Context) error {
	var starts []time.Duration
	for i := range coldStarts {
		s, err := b.startWeir(ctx, allCores())
		if err != nil {
			return err
		}
		starts = append(starts, s.ready)
		if i == coldStarts-1 {
			time.Sleep(settle)
			before := s.usage()
			time.Sleep(settle)
			now := s.usage()
			b.say("idle: %.1f MiB resident, %.1f %% of a core", now.rssMiB, 100*(now.cpuSeconds-before.cpuSeconds)/settle.Seconds())
		}
		if err := s.stop(); err != nil {
			return err
		}
	}
	slices.Sort(starts)
	b.say("cold start to ready: median %d ms of %d (min %d, max %d)", starts[coldStarts/2].Milliseconds(), coldStarts,
		starts[0].Milliseconds(), starts[coldStarts-1].Milliseconds())
	return nil
}
