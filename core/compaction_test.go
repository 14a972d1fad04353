package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCompactedTopic: idempotent producers write the same keys again and again, with each compression; a consumer from the start
// finds every key's newest value, in order, and far fewer records than were written; so it does after a restart.
func TestCompactedTopic(t *testing.T) {
	cfg := testConfig(t)
	cfg.CompactionInterval = 5 * time.Millisecond
	b := start(t, cfg)
	adm := kadm.NewClient(client(t, b))
	_, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{
		"cleanup.policy": kadm.StringPtr("compact"), "segment.bytes": kadm.StringPtr("4000"), "min.cleanable.dirty.ratio": kadm.StringPtr("0.1"),
	}, "t")
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	var producers []*kgo.Client
	for _, codec := range codecs {
		producers = append(producers, client(t, b, kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(codec)))
	}
	written := 0
	write := func(n int) {
		for range n {
			var records []*kgo.Record
			for range keys {
				records = append(records, kgo.KeyStringRecord(fmt.Sprint(written%keys), fmt.Sprint(written)))
				written++
			}
			if err := producers[written/keys%len(producers)].ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	compactions := func() uint64 { return b.Stats().Store.Compactions }
	for before, deadline := compactions(), time.Now().Add(time.Minute); written < 4000 || compactions() < before+2; {
		if time.Now().After(deadline) {
			t.Fatalf("%d records, %d compactions", written, compactions())
		}
		write(5)
		if err := b.Store().Flush(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(b *running) {
		t.Helper()
		consumer := client(t, b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		newest, count, last := map[string]string{}, 0, int64(-1)
		for last < int64(written-1) {
			for _, r := range consume(t, consumer, 1) {
				if r.Offset <= last || string(r.Value) != fmt.Sprint(r.Offset) {
					t.Fatalf("after offset %d: %s=%s at %d", last, r.Key, r.Value, r.Offset)
				}
				newest[string(r.Key)], last = string(r.Value), r.Offset
				count++
			}
		}
		for k := range keys {
			if want := fmt.Sprint(written - keys + k); newest[fmt.Sprint(k)] != want {
				t.Errorf("key %d is %s, want %s", k, newest[fmt.Sprint(k)], want)
			}
		}
		if count > written/2 {
			t.Errorf("%d records of %d are left", count, written)
		}
	}
	check(b)
	b.stop()
	cfg.CompactionInterval = time.Hour
	b = start(t, cfg)
	check(b)
}
