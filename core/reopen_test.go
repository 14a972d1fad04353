package core

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage/vfs"
)

// TestLogsOpenLate: a topic whose logs can't be opened for want of space is there, refuses what it is asked, and is opened when there is space again.
func TestLogsOpenLate(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.WALFileBytes, cfg.TailBytes = 256<<10, 256<<10 })
	c.found(1, meta.Identity{})
	n := c.start(1)
	n.mem.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite && !strings.Contains(op.Path, "wal") {
			return syscall.ENOSPC
		}
		return nil
	})
	const partitions = 50 // their logs need more room than the command
	made := 0
	for ; !n.isIncomplete.Load(); made++ {
		create := &meta.CreateTopic{ID: meta.ID{1, byte(made), byte(made >> 8)}, Name: fmt.Sprint("t", made), Replicas: slices.Repeat([][]int32{{1}}, partitions)}
		if _, err := c.propose(n, meta.Command{CreateTopic: create}); err != nil {
			t.Fatalf("the metadata is full before a log can't be opened: %v", err)
		}
	}
	name := fmt.Sprint("t", made-1)
	if _, _, err := n.partition(name, partitions-1); err == nil {
		t.Fatalf("%s is open after %d topics", name, made)
	}
	c.run(3 * registerPause)
	if !n.isIncomplete.Load() {
		t.Fatal("it is open on a full disk")
	}
	n.mem.Inject(nil)
	c.flush()
	c.until("all logs", func() bool { return !n.isIncomplete.Load() })
	for i := range int32(partitions) {
		if _, p, err := n.partition(name, i); err != nil || p.CheckEpoch(-1) != nil {
			t.Errorf("partition %d: %v", i, err)
		}
	}
}
