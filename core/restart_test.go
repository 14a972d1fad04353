package core

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/storage/vfs"
)

// TestClientsSurvivePowerCuts: an idempotent producer and a consumer go on over brokers whose power is cut. Every record
// that was acknowledged is there once, at the offset that was acknowledged, and in the order in which it was sent.
func TestClientsSurvivePowerCuts(t *testing.T) {
	const seed, cuts = 7, 5
	rng := rand.New(rand.NewPCG(seed, seed))
	mem := vfs.NewMem()
	cfg := testConfig(t)
	cfg.FS, cfg.Dir, cfg.WALFileBytes = mem, "data", 1<<20
	b := start(t, cfg)
	cfg.Advertise = b.addr

	topic := "t"
	producer := client(t, b, kgo.DefaultProduceTopic(topic), kgo.RetryTimeout(time.Minute), kgo.RecordDeliveryTimeout(time.Minute),
		kgo.ProducerLinger(0), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	consumer := client(t, b, kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))

	var mu sync.Mutex
	acknowledged := make(map[int64]string)
	sent := 0
	produced := make(chan struct{}, 100_000)
	send := func(n int) {
		for range n {
			value := fmt.Sprint(sent)
			sent++
			producer.Produce(t.Context(), kgo.StringRecord(value), func(r *kgo.Record, err error) {
				if err != nil {
					t.Errorf("record %s: %v", value, err)
				}
				mu.Lock()
				acknowledged[r.Offset] = value
				mu.Unlock()
				produced <- struct{}{}
			})
		}
	}
	done := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	for range cuts {
		enough := sent + 50 // all from before, and some of what is sent now; others are on their way
		send(200 + rng.IntN(200))
		for done() < enough {
			<-produced
		}
		send(100)
		b.disconnect() // nothing is acknowledged after this
		b.cut = true
		clone := mem.CrashClone(rng)
		b.stop()
		mem, cfg.FS = clone, clone
		b = start(t, cfg)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range consume(t, consumer, sent) {
		if string(r.Value) != fmt.Sprint(i) || acknowledged[r.Offset] != string(r.Value) {
			t.Fatalf("record %d is %q at offset %d, acknowledged there was %q", i, r.Value, r.Offset, acknowledged[r.Offset])
		}
	}
}
