package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/kafka"
)

// ErrNotCompacted: an internal topic exists with another cleanup policy; old entries would be deleted, not compacted.
var ErrNotCompacted = errors.New("topic is not compacted")

// table is a compacted topic read as a map: every record is handed to apply, in the order of each partition, from the
// beginning of the topic and then as they come. What it means is the user's affair; writing is put.
//
// run is the only caller of apply. put and readToEnd may be called from any goroutine while run runs.
type table struct {
	cfg   TopicConfig
	log   *slog.Logger
	apply func(*kgo.Record)
	after func() // if not nil, called after apply has been given what came together, before it counts as read

	mayWrite func() error // if not nil, asked before each write: only who holds the worker group writes

	client *kgo.Client // reads and writes
	admin  *kadm.Client

	mu       sync.Mutex
	next     map[int32]int64 // offset of the next record to be applied
	advanced chan struct{}   // closed and replaced when next moves
	fault    error           // run has ended with
}

// openTable makes a table; nothing is dialled.
func openTable(cfg TopicConfig, props map[string]string, extra []kgo.Opt, log *slog.Logger, apply func(*kgo.Record)) (*table, error) {
	client := kafka.Overlay(props, "") // the worker's own settings: consumer. and producer. are for tasks, as in Java
	client["isolation.level"] = "read_committed"
	opts := append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // Java's murmur2 over the key's bytes
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.FetchMaxWait(time.Second),
		kgo.FetchMaxBytes(8 << 20), kgo.BrokerMaxReadBytes(64 << 20),
	}, extra...)
	c, _, err := kafka.NewClient(client, kafka.Consumer, opts...)
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", cfg.Name, err)
	}
	return &table{cfg: cfg, log: log.With("topic", cfg.Name), apply: apply, client: c, admin: kadm.NewClient(c),
		next: map[int32]int64{}, advanced: make(chan struct{})}, nil
}

// internalSegmentBytes is segment.bytes of internal topics that the worker makes, unless config.storage.segment.bytes and
// its like say otherwise.
const internalSegmentBytes = "16777216"

func (t *table) close() { t.client.Close() }

func (t *table) flush(ctx context.Context) error { return t.client.Flush(ctx) }

// start makes the topic if it is missing, checks its policy, and begins reading at the oldest record. It repeats what
// fails for the moment until ctx ends.
func (t *table) start(ctx context.Context) error {
	back := backoff{min: 100 * time.Millisecond, max: 2 * time.Second}
	told := ""
	for {
		partitions, err := t.prepare(ctx)
		if err == nil {
			offsets := map[int32]kgo.Offset{}
			t.mu.Lock()
			for _, p := range partitions {
				offsets[p] = kgo.NewOffset().AtStart()
				t.next[p] = 0
			}
			t.mu.Unlock()
			t.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.cfg.Name: offsets})
			return nil
		}
		if errors.Is(err, ErrNotCompacted) || errors.Is(err, ErrConfig) || ctx.Err() != nil {
			return fmt.Errorf("prepare topic %s: %w", t.cfg.Name, err)
		}
		isMade := errors.Is(err, kerr.TopicAlreadyExists) // by another worker, just now: the next try sees it
		if err.Error() != told && !isMade {               // a cluster that is down stays down for a while
			told = err.Error()
			t.log.Warn("internal topic is not ready, trying again", "error", err)
		}
		if !back.sleep(ctx) {
			return fmt.Errorf("prepare topic %s: %w", t.cfg.Name, err)
		}
	}
}

// prepare gives the topic's partitions, creating it if needed.
func (t *table) prepare(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	meta, err := t.admin.Metadata(ctx, t.cfg.Name)
	if err != nil {
		return nil, err
	}
	topic := meta.Topics[t.cfg.Name]
	if errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
		if !t.cfg.Create {
			return nil, fmt.Errorf("%w: topic %s does not exist and internal.topics.automatic.creation.enable is false", ErrConfig, t.cfg.Name)
		}
		return t.create(ctx, len(meta.Brokers))
	}
	if topic.Err != nil {
		return nil, topic.Err
	}
	if err := t.checkPolicy(ctx); err != nil {
		return nil, err
	}
	partitions := topic.Partitions.Numbers()
	if t.cfg.Partitions == 1 && len(partitions) != 1 {
		return nil, fmt.Errorf("%w: topic %s must have exactly 1 partition, it has %d", ErrConfig, t.cfg.Name, len(partitions))
	}
	return partitions, nil
}

// create makes the topic and gives its partitions.
func (t *table) create(ctx context.Context, brokers int) ([]int32, error) {
	replicas := t.cfg.Replicas
	if int(replicas) > brokers {
		t.log.Warn("fewer brokers than replicas asked for, using what there is", "asked", replicas, "brokers", brokers)
		replicas = int16(brokers)
	}
	// Only closed segments are compacted: with Kafka's gigabyte a topic that is written every second would grow for a week.
	settings := map[string]*string{"cleanup.policy": ptr("compact"), "segment.bytes": ptr(internalSegmentBytes)}
	for k, v := range t.cfg.Settings {
		settings[k] = ptr(v)
	}
	r, err := t.admin.CreateTopic(ctx, t.cfg.Partitions, replicas, settings, t.cfg.Name)
	if err == nil {
		err = r.Err
	}
	if err != nil { // also when another worker made it just now: the next try looks at what it made
		return nil, fmt.Errorf("create topic %s: %w", t.cfg.Name, err)
	}
	partitions := make([]int32, t.cfg.Partitions)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	return partitions, nil
}

// checkPolicy refuses any cleanup policy but compact. A cluster that doesn't let us ask is believed.
func (t *table) checkPolicy(ctx context.Context) error {
	configs, err := t.admin.DescribeTopicConfigs(ctx, t.cfg.Name)
	refused := errors.As(err, new(*kadm.AuthError))
	if err != nil && !refused {
		return err
	}
	if refused || len(configs) != 1 || configs[0].Err != nil {
		t.log.Info("cleanup policy can't be read, going on")
		return nil //nolint:nilerr // a cluster that doesn't let us ask is believed
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" && c.Value != nil && *c.Value != "compact" {
			return fmt.Errorf("%w: cleanup.policy of %s is %q; set it to compact", ErrNotCompacted, t.cfg.Name, *c.Value)
		}
	}
	return nil
}

// run applies records until ctx ends.
func (t *table) run(ctx context.Context) error {
	var failed unread
	for {
		fetches := t.client.PollFetches(ctx)
		if ended := ctx.Err() != nil || fetches.IsClientClosed(); ended {
			t.end()
			return nil
		}
		fetches.EachError(func(_ string, p int32, err error) {
			failed.say(t.log, time.Now(), p, err)
		})
		if fetches.NumRecords() == 0 && len(fetches.Errors()) > 0 {
			sleep(ctx, unreadPause) // the client may give the same errors again at once
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				t.apply(r)
			}
			if n := len(p.Records); n > 0 {
				if t.after != nil {
					t.after()
				}
				t.advance(p.Partition, p.Records[n-1].Offset+1)
			}
		})
	}
}

// end lets go of who waits for the table.
func (t *table) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault = errors.New("worker is shutting down")
	close(t.advanced)
	t.advanced = make(chan struct{})
}

func (t *table) advance(partition int32, next int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next > t.next[partition] {
		t.next[partition] = next
		close(t.advanced)
		t.advanced = make(chan struct{})
	}
}

// readToEnd returns when everything that was in the topic at the call has been applied.
func (t *table) readToEnd(ctx context.Context) error {
	ends, err := t.admin.ListCommittedOffsets(ctx, t.cfg.Name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("read topic %s to its end: %w", t.cfg.Name, err)
	}
	want := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { want[o.Partition] = o.Offset })
	return t.await(ctx, want)
}

// await returns when the partitions' next offsets have reached want.
func (t *table) await(ctx context.Context, want map[int32]int64) error {
	skip := time.NewTicker(250 * time.Millisecond)
	defer skip.Stop()
	for {
		t.mu.Lock()
		behind := map[int32]int64{}
		for p, end := range want {
			if t.next[p] < end {
				behind[p] = t.next[p]
			}
		}
		advanced, fault := t.advanced, t.fault
		t.mu.Unlock()
		if len(behind) == 0 {
			return nil
		}
		if fault != nil {
			return fmt.Errorf("read topic %s: %w", t.cfg.Name, fault)
		}
		select {
		case <-advanced:
		case <-skip.C:
			for p, from := range behind {
				t.skipEmpty(ctx, p, from)
			}
		case <-ctx.Done():
			return fmt.Errorf("read topic %s: %w", t.cfg.Name, ctx.Err())
		}
	}
}

// skipEmpty moves a partition past offsets that hold no records: compaction may empty the last batches of a log, and
// transactions end in markers; a consumer is told of neither. It asks for the data itself and moves only if there is none.
func (t *table) skipEmpty(ctx context.Context, partition int32, from int64) {
	leader, _, err := t.client.PartitionLeader(t.cfg.Name, partition)
	if err != nil || leader < 0 {
		return
	}
	records, next, err := fetchAt(ctx, t.client, leader, t.cfg.Name, partition, from)
	if err == nil && len(records) == 0 && next > from {
		t.advance(partition, next)
	}
}

// fetchAt asks a partition's leader for what is committed at an offset. It answers without waiting: records, and the
// offset after all that was looked at, which is larger than from without records when there are none in between.
func fetchAt(ctx context.Context, client *kgo.Client, leader int32, topic string, partition int32, from int64) ([]*kgo.Record, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.IsolationLevel = 11, 1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, from, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := client.Broker(int(leader)).Request(ctx, &pinnedFetch{FetchRequest: req})
	if err != nil {
		return nil, from, err
	}
	fetched, ok := resp.(*kmsg.FetchResponse)
	if !ok || len(fetched.Topics) != 1 || len(fetched.Topics[0].Partitions) != 1 {
		return nil, from, errors.New("a fetch was not answered for its partition")
	}
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: from, Topic: topic,
		Partition: partition, IsolationLevel: kgo.ReadCommitted()}, &fetched.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if errors.Is(part.Err, kerr.OffsetOutOfRange) && part.LogStartOffset > from {
		return nil, part.LogStartOffset, nil
	}
	return part.Records, next, part.Err
}

// pinnedFetch keeps a fetch at the version before topic ids (13), since it names its topic.
type pinnedFetch struct{ *kmsg.FetchRequest }

// MaxVersion is what the client negotiates up to.
func (*pinnedFetch) MaxVersion() int16 { return 11 }

// entry is one write; a nil value is a tombstone.
type entry struct{ key, value []byte }

// put writes entries in order and returns when all are durable (acks=all). With an error some may be.
func (t *table) put(ctx context.Context, entries ...entry) error {
	_, err := t.write(ctx, entries)
	return err
}

func (t *table) write(ctx context.Context, entries []entry) (next map[int32]int64, err error) {
	if len(entries) == 0 {
		return nil, nil
	}
	if err := t.allowed(); err != nil {
		return nil, err
	}
	recs := make([]*kgo.Record, len(entries))
	for i, e := range entries {
		recs[i] = &kgo.Record{Topic: t.cfg.Name, Key: e.key, Value: e.value}
	}
	next = map[int32]int64{}
	results := t.client.ProduceSync(ctx, recs...)
	for _, r := range results {
		if r.Err != nil {
			return nil, fmt.Errorf("write to topic %s: %w", t.cfg.Name, r.Err)
		}
		next[r.Record.Partition] = max(next[r.Record.Partition], r.Record.Offset+1)
	}
	return next, nil
}

func (t *table) allowed() error {
	if t.mayWrite == nil {
		return nil
	}
	if err := t.mayWrite(); err != nil {
		return fmt.Errorf("write to topic %s: %w", t.cfg.Name, err)
	}
	return nil
}

// putRead is put, and waits until what was written has been applied here.
func (t *table) putRead(ctx context.Context, entries ...entry) error {
	next, err := t.write(ctx, entries)
	if err != nil {
		return err
	}
	return t.await(ctx, next)
}

// positions gives the next offsets to be applied.
func (t *table) positions() map[int32]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.next)
}

// putAsync writes without waiting, not even for room in the client's buffer; failed is called, perhaps before putAsync
// returns, if it did not work. Writes of one key keep their order with those of put.
func (t *table) putAsync(ctx context.Context, e entry, failed func(error)) {
	if err := t.allowed(); err != nil {
		failed(err)
		return
	}
	t.client.TryProduce(ctx, &kgo.Record{Topic: t.cfg.Name, Key: e.key, Value: e.value}, func(_ *kgo.Record, err error) {
		if err != nil {
			failed(err)
		}
	})
}
