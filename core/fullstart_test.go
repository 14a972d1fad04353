package core

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/storage/vfs"
)

// TestStartOnAFullDisk: a broker whose power was cut starts when not one block is left, serves what there is, takes nothing in its
// old leader epoch, and goes on by itself when there is space.
func TestStartOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	cfg := Default("data") // its log isn't the test's: the disk's complaints are expected
	cfg.FS, cfg.WALFileBytes = mem, 256<<10
	b := start(t, cfg)
	w := dialWire(t, b)
	w.createTopic("t")
	const acknowledged = 20
	for i := range int64(acknowledged) {
		if p := w.produce("t", -1, batch("x")); p.ErrorCode != 0 || p.BaseOffset != i {
			t.Fatalf("produce %d: %+v", i, p)
		}
	}
	epoch := b.topics.byName("t").parts[0].LeaderEpoch()
	crashed := mem.CrashClone(rand.New(rand.NewPCG(3, 3)))

	var hasSpace atomic.Bool
	crashed.Inject(func(op vfs.Op) error {
		if !hasSpace.Load() && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpMkdir || op.Kind == vfs.OpWrite) {
			return syscall.ENOSPC
		}
		return nil
	})
	cfg.FS = crashed
	full := start(t, cfg)
	w = dialWire(t, full)
	w.send(fetchRequest("t", 0, 1, 1000), 11, 1)
	if p, _ := w.fetched(11); p.ErrorCode != 0 || p.HighWatermark != acknowledged || len(p.RecordBatches) == 0 {
		t.Errorf("reading from a full disk: error %d, high watermark %d", p.ErrorCode, p.HighWatermark)
	}
	if p := w.produce("t", -1, batch("y")); p.ErrorCode != kerr.KafkaStorageError.Code {
		t.Errorf("produce on a full disk: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	hasSpace.Store(true)
	deadline := time.After(time.Minute)
	for {
		p := w.produce("t", -1, batch("y"))
		if p.ErrorCode == 0 {
			if p.BaseOffset != acknowledged {
				t.Errorf("the next batch is at %d", p.BaseOffset)
			}
			break
		}
		select {
		case <-deadline:
			t.Fatalf("there is space again, and still: %v", kerr.ErrorForCode(p.ErrorCode))
		case <-time.After(10 * time.Millisecond):
		}
	}
	if got := full.topics.byName("t").parts[0].LeaderEpoch(); got != epoch+1 {
		t.Errorf("leader epoch %d after %d", got, epoch)
	}
}
