package worker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// BenchmarkSource measures what the worker adds to an event of a source: ledger, conversion, the client's batching and
// the promise, to a cluster that forgets what it is sent.
func BenchmarkSource(b *testing.B) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "out"), kfake.BlackholeProduce())
	if err != nil {
		b.Fatal(err)
	}
	defer fake.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.MaxBufferedRecords(1<<16), kgo.MaxBufferedBytes(32<<20))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	w := &Worker{cfg: Config{Props: map[string]string{"key.converter": "JsonConverter", "value.converter": "JsonConverter",
		"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}}}
	if w.resolver, err = newResolver(); err != nil {
		b.Fatal(err)
	}
	pipe, err := w.pipeline(map[string]string{})
	if err != nil {
		b.Fatal(err)
	}
	count := &counters{}
	log := slog.New(slog.DiscardHandler)
	r := &sourceRunner{w: w, pipe: pipe, count: count, log: log, client: cl, batchBytes: 1 << 20, ledger: newLedger(false),
		names: map[string]string{"out": "out"}, headers: map[string]string{}, tol: &tolerance{count: count, log: log}, wake: make(chan struct{}, 1)}
	schema := &connect.Schema{Type: connect.Struct}
	var values []connect.Value
	for i := range 20 {
		s := &connect.Schema{Type: connect.Int64}
		v := connect.Int64Value(int64(i) * 1234567)
		if i%2 == 0 {
			s, v = &connect.Schema{Type: connect.String}, connect.StringValue(fmt.Sprintf("text of column %d", i))
		}
		schema.Fields = append(schema.Fields, connect.StructField{Name: fmt.Sprintf("column_%d", i), Schema: s})
		values = append(values, v)
	}
	const size = 500
	batch := connect.Batch{Sources: []connect.OffsetMap{memoryPartition}}
	for range size {
		batch.Records = append(batch.Records, connect.Record{Topic: "out", Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
			Key: connect.DataOf(nil, connect.Int64Value(7)), Value: connect.DataOf(schema, connect.StructValue(values))})
	}
	batch.Marks = []connect.Mark{{After: size, Offset: pos(1)}}
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += size {
		batch.Seq++
		if err := r.deliver(ctx, &batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if r.ledger.pending() != 0 || r.fault != nil {
		b.Fatal("records are left", r.fault)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkSinkConvert measures what the worker adds to a record of a sink that takes JSON as it is.
func BenchmarkSinkConvert(b *testing.B) {
	w := &Worker{cfg: Config{Props: map[string]string{"key.converter": "JsonConverter", "value.converter": "JsonConverter"}}}
	var err error
	if w.resolver, err = newResolver(); err != nil {
		b.Fatal(err)
	}
	pipe, err := w.pipeline(map[string]string{})
	if err != nil {
		b.Fatal(err)
	}
	r := &sinkRunner{pipe: pipe, lazy: true, tol: &tolerance{}}
	k := &kgo.Record{Topic: "t", Key: []byte("1"), Value: []byte(`{"a":1}`)}
	ctx := context.Background()
	var rec connect.Record
	b.ReportAllocs()
	for b.Loop() {
		if keep, failed := r.convert(ctx, k, &rec); failed != nil || !keep {
			b.Fatal(failed)
		}
	}
}
