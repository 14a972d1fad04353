package main

import (
	"context"
	"fmt"
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
		p, err := b.startWeir(ctx)
		if err != nil {
			return err
		}
		starts = append(starts, p.ready)
		if i == coldStarts-1 {
			time.Sleep(settle)
			before := cpuSeconds(p.cmd.Process.Pid)
			time.Sleep(settle)
			now, _ := p.rssMiB()
			fmt.Printf("idle: %.1f MiB resident, %.1f %% of a core\n", now, 100*(cpuSeconds(p.cmd.Process.Pid)-before)/settle.Seconds())
		}
		if err := p.stop(); err != nil {
			return err
		}
	}
	slices.Sort(starts)
	fmt.Printf("cold start to ready: median %d ms of %d (min %d, max %d)\n", starts[coldStarts/2].Milliseconds(), coldStarts,
		starts[0].Milliseconds(), starts[coldStarts-1].Milliseconds())
	return nil
}
