package core

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// TestAFailedDiskEndsTheBroker: a sync that fails is never retried; what waits gets an error, and Run says why it ends.
func TestAFailedDiskEndsTheBroker(t *testing.T) {
	mem := vfs.NewMem()
	cfg := testConfig(t)
	cfg.FS, cfg.Dir, cfg.WALFileBytes, cfg.Advertise = mem, "data", 1<<20, "127.0.0.1:1"
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(t.Context()) }()
	created := make(chan error, 1)
	b.createTopic("t", 1, defaultFactor, nil, time.Now(), func(err error) { created <- err })
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk has gone")
	mem.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			return broken
		}
		return nil
	})
	answered := make(chan int16, 1)
	req := produceRequest("t", -1, batch("x"))
	req.SetVersion(9)
	b.Handle(&Request{Key: keyProduce, Version: 9, Body: req, Now: time.Now()}, func(resp kmsg.Response) {
		answered <- resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	})
	if got := <-answered; got != kerr.KafkaStorageError.Code {
		t.Errorf("the produce is answered with %v", kerr.ErrorForCode(got))
	}
	if err := <-ended; !errors.Is(err, storage.ErrStoreFailed) || !strings.Contains(err.Error(), "restart to recover") {
		t.Errorf("run ends with %v", err)
	}
	_ = b.Close() // can't end cleanly on a broken disk
}

// TestAFullDiskIsSaidAndSurvived: appends are refused while there is no space, nothing acknowledged is lost, and work
// goes on when there is space again.
func TestAFullDiskIsSaidAndSurvived(t *testing.T) {
	mem := vfs.NewMem()
	cfg := Default("data") // its log isn't the test's: the disk's complaints are expected
	cfg.FS, cfg.WALFileBytes, cfg.TailBytes = mem, 256<<10, 256<<10
	b := start(t, cfg)
	w := dialWire(t, b)
	w.createTopic("t")
	var full atomic.Bool
	mem.Inject(func(op vfs.Op) error {
		if full.Load() && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite && !strings.Contains(op.Path, "wal")) {
			return syscall.ENOSPC
		}
		return nil
	})
	full.Store(true)
	value := strings.Repeat("x", 10_000)
	acknowledged := int64(0)
	refused := int16(0)
	for range 500 {
		p := w.produce("t", -1, batch(value))
		if p.ErrorCode != 0 {
			refused = p.ErrorCode
			break
		}
		acknowledged++
	}
	if refused != kerr.KafkaStorageError.Code {
		t.Fatalf("after %d batches on a full disk: %v", acknowledged, kerr.ErrorForCode(refused))
	}
	w.send(fetchRequest("t", acknowledged-1, 1, 1000), 11, 1)
	if p, _ := w.fetched(11); p.ErrorCode != 0 || p.HighWatermark != acknowledged || len(p.RecordBatches) == 0 {
		t.Errorf("reading from a full disk: error %d, high watermark %d of %d", p.ErrorCode, p.HighWatermark, acknowledged)
	}
	full.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		p := w.produce("t", -1, batch(value))
		if p.ErrorCode == 0 {
			if p.BaseOffset != acknowledged {
				t.Errorf("the next batch is at %d, acknowledged were %d", p.BaseOffset, acknowledged)
			}
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("there is space again, and still: %v", kerr.ErrorForCode(p.ErrorCode))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestPartitionsWithoutMetadataAreRefused: what can't be explained isn't dropped.
func TestPartitionsWithoutMetadataAreRefused(t *testing.T) {
	mem := vfs.NewMem()
	store, err := storage.Open(storage.Options{FS: mem, Dir: "data", WALFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	id := storage.LogID{Topic: [16]byte{9}}
	log, err := store.OpenLog(id, "lost-0", storage.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(batch("x"), 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := Default("data")
	cfg.FS, cfg.WALFileBytes = mem, 1<<20
	if b, err := Open(cfg); !errors.Is(err, errNoMetadata) {
		t.Fatalf("opened as %v, %v", b, err)
	}
	if store, err = storage.Open(storage.Options{FS: mem, Dir: "data", WALFileBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if log := store.Log(id); log == nil || log.EndOffset() != 1 {
		t.Error("the partition is gone")
	}
}

// TestStalledClientsHoldTheirShareOnly: frames that are begun and not finished are within the budget, and their
// connections' end gives it back.
func TestStalledClientsHoldTheirShareOnly(t *testing.T) {
	cfg := testConfig(t)
	cfg.MemoryBytes = 4 << 20
	b := start(t, cfg)
	good := dialWire(t, b)
	good.createTopic("t")
	var stalled []*wire
	for range 30 { // each claims 500 kB of produce and sends a little
		w := dialWire(t, b)
		if _, err := w.nc.Write([]byte{0, 7, 0xa1, 0x20, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, w)
	}
	for {
		s := b.Stats()
		if s.RequestBytesInUse > s.RequestBytesLimit {
			t.Fatalf("%d bytes in use, allowed are %d", s.RequestBytesInUse, s.RequestBytesLimit)
		}
		if s.RequestBytesLimit-s.RequestBytesInUse < 500_000 {
			break // the next one has to wait
		}
	}
	for _, w := range stalled {
		w.nc.Close()
	}
	if p := good.produce("t", -1, batch("x")); p.ErrorCode != 0 {
		t.Errorf("after they have gone: %v", kerr.ErrorForCode(p.ErrorCode))
	}
}

// TestDeletingATopicFreesAFullDisk: when no more records are taken, a topic can still be deleted, and then they are.
func TestDeletingATopicFreesAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	cfg := Default("data") // its log isn't the test's: the disk's complaints are expected
	cfg.FS, cfg.WALFileBytes, cfg.TailBytes = mem, 256<<10, 256<<10
	b := start(t, cfg)
	w := dialWire(t, b)
	value := strings.Repeat("x", 10_000)
	for _, name := range []string{"big", "t"} {
		w.createTopic(name)
		if p := w.produce(name, -1, batch(value)); p.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(p.ErrorCode))
		}
	}
	if err := b.Store().Flush(time.Now()); err != nil {
		t.Fatal(err)
	}
	var freed atomic.Bool
	mem.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove && strings.HasSuffix(op.Path, ".log") {
			freed.Store(true)
		}
		if !freed.Load() && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite && !strings.Contains(op.Path, "wal")) {
			return syscall.ENOSPC
		}
		return nil
	})
	refused := int16(0)
	for i := 0; i < 500 && refused != kerr.KafkaStorageError.Code; i++ {
		refused = w.produce("t", -1, batch(value)).ErrorCode
	}
	if refused != kerr.KafkaStorageError.Code {
		t.Fatalf("on a full disk: %v", kerr.ErrorForCode(refused))
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames, req.TimeoutMillis = []string{"big"}, 10_000
	w.send(req, 5, 1)
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.SetVersion(5)
	w.receive(resp)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("delete on a full disk: %v", kerr.ErrorForCode(code))
	}
	until(t, "the topic's files are gone", freed.Load)
	until(t, "records are taken again", func() bool { return w.produce("t", -1, batch(value)).ErrorCode == 0 })
}
