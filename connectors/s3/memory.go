package s3

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/weirlog/weir/connect"
)

var errMemory = errors.New("open objects fill the task's memory and scratch folder: waiting for the commit that lets the largest be put")

// relieve moves the largest files' chunks to the scratch folder until half of the memory is free. Without room there it
// proposes to cut the group that holds most, which frees memory once that is committed: see makeRoom.
func (k *sink) relieve() error {
	for k.memory > k.memoryMax/2 {
		largest, holder := k.largest()
		if largest == nil {
			return nil
		}
		if !k.scratch.room(largest) {
			holder.cut()
			return nil
		}
		freed := largest.memory
		if err := k.scratch.spill(largest); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return connect.Retry(0, fmt.Errorf("%w: free some space in the scratch folder", err))
			}
			return err
		}
		k.memory -= freed
	}
	return nil
}

func (k *sink) largest() (largest *content, holder *partition) {
	for _, p := range k.partitions {
		for _, g := range append(p.closed[:len(p.closed):len(p.closed)], p.open) {
			if g == nil {
				continue
			}
			for _, f := range g.files {
				for i := range f.contents {
					if c := &f.contents[i]; c.memory > 0 && (largest == nil || c.memory > largest.memory) {
						largest, holder = c, p
					}
				}
			}
		}
	}
	return largest, holder
}

// makeRoom refuses a Put while the memory is full.
func (k *sink) makeRoom() error {
	if k.memory <= k.memoryMax {
		return nil
	}
	if err := k.relieve(); err != nil {
		return err
	}
	if k.memory > k.memoryMax {
		return connect.Retry(0, errMemory)
	}
	return nil
}

// drop frees what a group holds.
func (k *sink) drop(g *group) {
	for _, f := range g.files {
		for i := range f.contents {
			k.memory -= f.contents[i].memory
			k.scratch.drop(&f.contents[i])
		}
	}
}
