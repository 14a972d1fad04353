package core

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage/vfs"
)

// TestLogsOpenLate: a topic whose logs can't be opened for want of space is there, refuses what it is asked, and is opened when there is space again.
func TestLogsOpenLate(t *testing.T) {
	mem := vfs.NewMem()
	cfg := Default("data") // its log isn't the test's: the disk's complaints are expected
	cfg.FS, cfg.WALFileBytes, cfg.TailBytes = mem, 256<<10, 256<<10
	b := start(t, cfg)
	var isFull atomic.Bool
	mem.Inject(func(op vfs.Op) error {
		if isFull.Load() && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite && !strings.Contains(op.Path, "wal")) {
			return syscall.ENOSPC
		}
		return nil
	})
	isFull.Store(true)
	made := 0
	for ; !b.isIncomplete.Load() && made < 10_000; made++ {
		done := make(chan error, 1)
		create := &meta.CreateTopic{ID: meta.ID{1, byte(made), byte(made >> 8)}, Name: fmt.Sprint("t", made), Replicas: [][]int32{{1}, {1}, {1}, {1}}}
		b.propose(meta.Command{CreateTopic: create}, time.Now(), func(_ meta.Result, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatalf("the metadata is full before a log can't be opened: %v", err)
		}
	}
	name := fmt.Sprint("t", made-1)
	w := dialWire(t, b)
	if _, _, err := b.partition(name, 3); err == nil {
		t.Fatalf("%s is open after %d topics", name, made)
	}
	if p := w.produce(name, -1, batch("x")); p.ErrorCode == 0 {
		t.Errorf("%+v", p)
	}
	isFull.Store(false)
	waitFor(t, "all logs", func() bool { return !b.isIncomplete.Load() })
	for i := range int32(4) {
		if _, p, err := b.partition(name, i); err != nil || p.CheckEpoch(-1) != nil {
			t.Errorf("partition %d: %v", i, err)
		}
	}
}
