package core

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTopicsGrow(t *testing.T) {
	cfg := testConfig(t)
	b := start(t, cfg)
	cl := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("7000")}, "t"); err != nil {
		t.Fatal(err)
	}
	put := func(cl *kgo.Client, partition int32) int64 {
		t.Helper()
		r := &kgo.Record{Topic: "t", Partition: partition, Value: []byte("x")}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return r.Offset
	}
	put(cl, 1)
	for count, want := range map[int]error{2: kerr.InvalidPartitions, 1: kerr.InvalidPartitions, 300_000: kerr.PolicyViolation} {
		got, err := adm.UpdatePartitions(t.Context(), count, "t")
		if err != nil || !errors.Is(got["t"].Err, want) {
			t.Errorf("grow to %d: %v, %v", count, got["t"].Err, err)
		}
	}
	if got, err := adm.UpdatePartitions(t.Context(), 5, "t", "missing"); err != nil || got["t"].Err != nil || !errors.Is(got["missing"].Err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("%v, %v", got, err)
	}
	grown := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if put(grown, 4) != 0 || put(grown, 1) != 1 {
		t.Error("offsets are wrong after growing")
	}
	if s := b.Stats(); s.Partitions != 5 {
		t.Errorf("%d partitions", s.Partitions)
	}
	b.stop()
	b = start(t, cfg)
	if again := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner())); put(again, 4) != 1 || put(again, 1) != 2 {
		t.Error("offsets are wrong after a restart")
	}
	if got := b.topics.byName("t").configs.get("retention.ms"); got != "7000" {
		t.Errorf("retention.ms has become %s", got)
	}
}

func TestRecordsAreDeleted(t *testing.T) {
	cfg := testConfig(t)
	b := start(t, cfg)
	cl := client(t, b, kgo.DefaultProduceTopic("t"))
	for range 10 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	adm := kadm.NewClient(cl)
	remove := func(before int64) (int64, error) {
		t.Helper()
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: "t", Partition: 0, At: before})
		got, err := adm.DeleteRecords(t.Context(), offsets)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := got.Lookup("t", 0)
		return r.LowWatermark, r.Err
	}
	if low, err := remove(4); low != 4 || err != nil {
		t.Errorf("to 4: %d, %v", low, err)
	}
	if low, err := remove(2); low != 4 || err != nil {
		t.Errorf("back to 2: %d, %v", low, err)
	}
	if _, err := remove(11); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
	w := dialWire(t, b)
	w.send(fetchRequest("t", 3, 1, 100), 11, 1)
	if p, _ := w.fetched(11); p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("a fetch of what was deleted: error %d", p.ErrorCode)
	}
	b.stop()
	b = start(t, cfg)
	if s := b.Partitions(); s[0].StartOffset != 4 || s[0].HighWatermark != 10 {
		t.Errorf("after a restart: %+v", s[0])
	}
	cl2 := client(t, b)
	adm = kadm.NewClient(cl2)
	if low, err := remove(-1); low != 10 || err != nil {
		t.Errorf("all of them: %d, %v", low, err)
	}
}
