package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a broker that runs and serves TCP, until the test ends or stop is called.
type running struct {
	*Broker
	addr string
	stop func()
	cut  bool // its power was cut: it need not end cleanly
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// start opens cfg's folder, runs the broker and serves cfg.Advertise, or a port of the kernel's choice.
func start(t testing.TB, cfg Config) *running {
	t.Helper()
	if cfg.Advertise == "" {
		cfg.Advertise = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", cfg.Advertise)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Advertise = ln.Addr().String()
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	ended.Go(func() {
		if err := b.Serve(ln); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	r := &running{Broker: b, addr: ln.Addr().String()}
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			ended.Wait()
			if err := b.Close(); err != nil && !r.cut {
				t.Errorf("close: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func testConfig(t testing.TB) Config {
	cfg := Default(t.TempDir())
	cfg.Logger = testLogger(t)
	cfg.WALFileBytes = 8 << 20
	return cfg
}

func client(t testing.TB, b *running, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(b.addr), kgo.AllowAutoTopicCreation(), kgo.RetryTimeout(10 * time.Second)}, opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func consume(t testing.TB, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []*kgo.Record
	for len(got) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d records: %v", len(got), err)
		}
		got = append(got, fs.Records()...)
	}
	return got
}

func TestProduceAndConsume(t *testing.T) {
	b := start(t, testConfig(t))
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for _, way := range []string{"tcp", "pipe"} {
		for name, codec := range codecs {
			t.Run(way+"/"+name, func(t *testing.T) {
				opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(way + "-" + name)}
				if way == "pipe" {
					opts = append(opts, kgo.Dialer(b.Dial))
				}
				cl := client(t, b, opts...)
				const n = 1000
				for i := range n {
					cl.Produce(t.Context(), kgo.KeySliceRecord(fmt.Appendf(nil, "key-%d", i), fmt.Appendf(nil, "value-%d", i)), func(_ *kgo.Record, err error) {
						if err != nil {
							t.Error(err)
						}
					})
				}
				if err := cl.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				reader := client(t, b, append(opts, kgo.ConsumeTopics(way+"-"+name))...)
				for i, r := range consume(t, reader, n) {
					if string(r.Key) != fmt.Sprintf("key-%d", i) || string(r.Value) != fmt.Sprintf("value-%d", i) || r.Offset != int64(i) {
						t.Fatalf("record %d: %s=%s at %d", i, r.Key, r.Value, r.Offset)
					}
				}
			})
		}
	}
	s := b.Stats()
	if s.ProducedRecords != 10_000 || s.FetchedBytes == 0 || s.Topics != 10 || s.Partitions != 10 {
		t.Errorf("%+v", s)
	}
}

func TestAcksAndIdempotence(t *testing.T) {
	b := start(t, testConfig(t))
	for name, opts := range map[string][]kgo.Opt{
		"idempotent": nil,
		"all":        {kgo.DisableIdempotentWrite()},
		"leader":     {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		"none":       {kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
	} {
		cl := client(t, b, append(opts, kgo.DefaultProduceTopic(name))...)
		for range 10 {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(name)).FirstErr(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		reader := client(t, b, kgo.ConsumeTopics(name))
		if got := consume(t, reader, 10); len(got) != 10 {
			t.Errorf("%s: %d records", name, len(got))
		}
	}
}

func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	cfg := testConfig(t)
	cfg.ProducerIDBlock = 3
	seen := make(map[int64]bool)
	var mu sync.Mutex
	for range 2 { // and not by a broker that was restarted
		b := start(t, cfg)
		cl := client(t, b)
		var asked sync.WaitGroup
		for range 20 {
			asked.Go(func() {
				req := kmsg.NewPtrInitProducerIDRequest()
				resp, err := req.RequestWith(t.Context(), cl)
				if err == nil {
					err = kerr.ErrorForCode(resp.ErrorCode)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if seen[resp.ProducerID] {
					t.Errorf("producer id %d was given twice", resp.ProducerID)
				}
				seen[resp.ProducerID] = true
			})
		}
		asked.Wait()
		cl.Close()
		b.stop()
	}
}

func TestTopicsLifeByAdmin(t *testing.T) {
	b := start(t, testConfig(t))
	adm := kadm.NewClient(client(t, b))
	ctx := t.Context()
	value := "compact"
	resp, err := adm.CreateTopics(ctx, 3, 1, map[string]*string{"cleanup.policy": &value}, "one", "two")
	if err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	if got := resp["one"]; got.NumPartitions != 3 || got.ReplicationFactor != 1 || got.ID == (kadm.TopicID{}) || *got.Configs["cleanup.policy"].Value != "compact" {
		t.Errorf("%+v", got)
	}
	for name, tc := range map[string]struct {
		partitions int32
		replicas   int16
		configs    map[string]*string
		want       error
	}{
		"one":    {1, 1, nil, kerr.TopicAlreadyExists},
		"a b":    {1, 1, nil, kerr.InvalidTopicException},
		"zero":   {0, 1, nil, kerr.InvalidPartitions},
		"rf":     {1, 0, nil, kerr.InvalidReplicationFactor},
		"config": {1, 1, map[string]*string{"cleanup.polcy": &value}, kerr.InvalidConfig},
		"value":  {1, 1, map[string]*string{"retention.ms": &value}, kerr.InvalidConfig},
	} {
		got, err := adm.CreateTopic(ctx, tc.partitions, tc.replicas, tc.configs, name)
		if err == nil {
			t.Errorf("%s: created as %+v", name, got)
		} else if !errors.Is(errors.Join(err, got.Err), tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if got, err := adm.CreateTopic(ctx, -1, 3, nil, "clamped"); err != nil || got.NumPartitions != 1 || got.ReplicationFactor != 1 {
		t.Errorf("replication factor 3 on one node: %+v, %v", got, err)
	}
	if got, err := adm.ValidateCreateTopics(ctx, 2, 1, nil, "validated"); err != nil || got.Error() != nil {
		t.Errorf("validate: %v %v", err, got.Error())
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil || topics.Has("validated") || !topics.Has("one") || len(topics["two"].Partitions) != 3 {
		t.Errorf("topics %v, %v", topics.Names(), err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, "one")
	if err != nil || len(configs) != 1 || configs[0].Err != nil {
		t.Fatalf("%v %v", configs, err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" && (c.MaybeValue() != "compact" || c.Source != kmsg.ConfigSourceDynamicTopicConfig || len(c.Synonyms) != 2) {
			t.Errorf("%+v", c)
		}
		if c.Key == "retention.ms" && (c.MaybeValue() != "604800000" || c.Source != kmsg.ConfigSourceDefaultConfig) {
			t.Errorf("%+v", c)
		}
	}
	if brokers, err := adm.DescribeBrokerConfigs(ctx, 1); err != nil || len(brokers) != 1 || len(brokers[0].Configs) < 40 {
		t.Errorf("broker configs: %v, %v", brokers, err)
	}
	if meta, err := adm.BrokerMetadata(ctx); err != nil || len(meta.Brokers) != 1 || meta.Cluster != b.ClusterID() || len(meta.Cluster) != 22 {
		t.Errorf("%+v, %v", meta, err)
	}
	deleted, err := adm.DeleteTopics(ctx, "one", "missing")
	if err != nil || deleted["one"].Err != nil || !errors.Is(deleted["missing"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%+v, %v", deleted, err)
	}
	if again, err := adm.CreateTopic(ctx, 1, 1, nil, "one"); err != nil || again.ID == resp["one"].ID {
		t.Errorf("re-created with id %v, %v", again.ID, err)
	}
}

func TestListOffsets(t *testing.T) {
	b := start(t, testConfig(t))
	cl := client(t, b, kgo.DefaultProduceTopic("times"))
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 10 {
		r := &kgo.Record{Value: []byte("x"), Timestamp: base.Add(time.Duration(i) * time.Minute)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	adm := kadm.NewClient(cl)
	at := func(l kadm.ListedOffsets, err error) int64 {
		t.Helper()
		o, ok := l.Lookup("times", 0)
		if err != nil || !ok || o.Err != nil {
			t.Fatal(err, o.Err)
		}
		return o.Offset
	}
	if got := at(adm.ListStartOffsets(t.Context(), "times")); got != 0 {
		t.Errorf("start %d", got)
	}
	if got := at(adm.ListEndOffsets(t.Context(), "times")); got != 10 {
		t.Errorf("end %d", got)
	}
	if got := at(adm.ListOffsetsAfterMilli(t.Context(), base.Add(4*time.Minute).UnixMilli(), "times")); got != 4 {
		t.Errorf("after four minutes: %d", got)
	}
	if got := at(adm.ListOffsetsAfterMilli(t.Context(), base.Add(4*time.Minute).UnixMilli()+1, "times")); got != 5 {
		t.Errorf("after four minutes and a bit: %d", got)
	}
	if got := at(adm.ListMaxTimestampOffsets(t.Context(), "times")); got != 9 {
		t.Errorf("max timestamp: %d", got)
	}
}

func TestRestartKeepsTopicsDataAndRaisesEpochs(t *testing.T) {
	cfg := testConfig(t)
	var id string
	for round := range 3 {
		b := start(t, cfg)
		if id == "" {
			id = b.ClusterID()
		}
		if b.ClusterID() != id {
			t.Fatalf("cluster id %q has become %q", id, b.ClusterID())
		}
		cl := client(t, b, kgo.DefaultProduceTopic("kept"), kgo.ConsumeTopics("kept"))
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(round))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		last := int32(-1)
		for i, r := range consume(t, cl, round+1) {
			if string(r.Value) != fmt.Sprint(i) || r.LeaderEpoch <= last {
				t.Errorf("round %d: record %d is %q of epoch %d after %d", round, i, r.Value, r.LeaderEpoch, last)
			}
			last = r.LeaderEpoch
		}
		cl.Close()
		b.stop()
	}
}

func TestTenThousandPartitionsInOneRequest(t *testing.T) {
	b := start(t, testConfig(t))
	adm := kadm.NewClient(client(t, b))
	if got, err := adm.CreateTopic(t.Context(), 10_000, 1, nil, "wide"); err != nil || got.NumPartitions != 10_000 {
		t.Fatalf("%+v, %v", got, err)
	}
	topics, err := adm.ListTopics(t.Context(), "wide")
	if err != nil || len(topics["wide"].Partitions) != 10_000 {
		t.Fatalf("%d partitions, %v", len(topics["wide"].Partitions), err)
	}
	if deleted, err := adm.DeleteTopics(t.Context(), "wide"); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	if s := b.Stats(); s.Partitions != 0 {
		t.Errorf("%d partitions are left", s.Partitions)
	}
}

func TestConfigsAreAlteredLive(t *testing.T) {
	cfg := testConfig(t)
	b := start(t, cfg)
	cl := client(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()))
	adm := kadm.NewClient(cl)
	ctx := t.Context()
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("5000")}, "t"); err != nil {
		t.Fatal(err)
	}
	alter := func(changes ...kadm.AlterConfig) error {
		t.Helper()
		resp, err := adm.AlterTopicConfigs(ctx, changes, "t")
		if err != nil {
			t.Fatal(err)
		}
		return resp[0].Err
	}
	value := func(b *running, key string) string {
		t.Helper()
		return b.topics.byName("t").configs.get(key)
	}
	if err := alter(
		kadm.AlterConfig{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("200")},
		kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"},
		kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
	); err != nil {
		t.Fatal(err)
	}
	if value(b, "max.message.bytes") != "200" || value(b, "retention.ms") != "604800000" || value(b, "cleanup.policy") != "delete,compact" {
		t.Errorf("%v", b.topics.byName("t").configs.own)
	}
	big := &kgo.Record{Topic: "t", Key: []byte("k"), Value: make([]byte, 500)}
	if err := cl.ProduceSync(ctx, big).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a record larger than the new max.message.bytes: %v", err)
	}
	for _, bad := range []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "max.mesage.bytes", Value: kadm.StringPtr("1")},
		{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("never")},
		{Op: kadm.AppendConfig, Name: "retention.ms", Value: kadm.StringPtr("1")},
		{Op: kadm.SetConfig, Name: "retention.ms"},
		{Op: kadm.DeleteConfig, Name: "nothing"},
	} {
		if err := alter(kadm.AlterConfig{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("1")}, bad); !errors.Is(err, kerr.InvalidConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := alter(kadm.AlterConfig{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: kadm.StringPtr("delete")}); err != nil {
		t.Error(err)
	}
	b.stop()
	b = start(t, cfg)
	if value(b, "max.message.bytes") != "200" || value(b, "cleanup.policy") != "compact" {
		t.Errorf("after a restart: %v", b.topics.byName("t").configs.own)
	}
	replaced, err := kadm.NewClient(client(t, b)).AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "segment.ms", Value: kadm.StringPtr("7")}}, "t")
	if err != nil || replaced[0].Err != nil {
		t.Fatal(err, replaced)
	}
	if own := b.topics.byName("t").configs.own; len(own) != 1 || own["segment.ms"] != "7" {
		t.Errorf("replaced by %v", own)
	}
}
