package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/core/kafka"
)

// historyWait bounds every single exchange with the history topic's cluster.
const historyWait = 60 * time.Second

// maxHistoryMessage is max.message.bytes of a topic that we make: a structure of
// thousands of columns is one record.
const maxHistoryMessage = 100 << 20

// historyTopic keeps records in the only partition of a topic that forgets nothing.
type historyTopic struct {
	name     string
	producer *kgo.Client
	admin    *kadm.Client
	consumer map[string]string
	log      *slog.Logger
}

// openTopic connects to the topic and makes it if it isn't there.
func openTopic(ctx context.Context, s *historySettings, log *slog.Logger) (*historyTopic, error) {
	producer, _, err := kafka.NewClient(overlay(s.kafka, s.producer), kafka.Producer, kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(maxHistoryMessage), kgo.BrokerMaxWriteBytes(2*maxHistoryMessage),
		kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(historyWait))
	if err != nil {
		return nil, connect.BadConfig("schema.history.internal", err)
	}
	h := &historyTopic{name: s.topic, producer: producer, admin: kadm.NewClient(producer), consumer: overlay(s.kafka, s.consumer), log: log}
	if err := h.make(ctx); err != nil {
		producer.Close()
		return nil, connect.Retry(0, err)
	}
	return h, nil
}

func overlay(base, over map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = make(map[string]string)
	}
	maps.Copy(out, over)
	return out
}

func (h *historyTopic) store() store {
	return store{exists: h.exists, each: h.each, append: h.append, close: h.producer.Close, indent: true}
}

// make makes the topic with the settings that Debezium gives it, and looks at one that
// is there: who deletes or compacts a history loses structures.
func (h *historyTopic) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, historyWait)
	defer cancel()
	text := func(s string) *string { return &s }
	answer, err := h.admin.CreateTopic(ctx, 1, -1, map[string]*string{
		"cleanup.policy": text("delete"), "retention.ms": text(strconv.FormatInt(math.MaxInt64, 10)), "retention.bytes": text("-1"),
		"max.message.bytes": text(strconv.Itoa(maxHistoryMessage)),
	}, h.name)
	if err == nil {
		err = answer.Err
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		h.look(ctx)
		return nil
	}
	if err != nil {
		return err
	}
	h.log.Info("schema history topic made", "topic", h.name)
	return nil
}

func (h *historyTopic) look(ctx context.Context) {
	configs, err := h.admin.DescribeTopicConfigs(ctx, h.name)
	if err != nil {
		return // rights to describe are not needed to go on
	}
	for _, r := range configs {
		for _, c := range r.Configs {
			value := c.MaybeValue()
			bad := c.Key == "cleanup.policy" && value != "delete" || c.Key == "retention.bytes" && value != "-1"
			if ms, err := strconv.ParseInt(value, 10, 64); c.Key == "retention.ms" && err == nil && ms >= 0 && ms < (5*365*24*time.Hour).Milliseconds() {
				bad = true
			}
			if bad {
				h.log.Warn("the schema history topic may lose records", "topic", h.name, "setting", c.Key, "value", value)
			}
		}
	}
}

// bounds gives the first offset and the end of the topic's partition.
func (h *historyTopic) bounds(ctx context.Context) (start, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyWait)
	defer cancel()
	starts, err := h.admin.ListStartOffsets(ctx, h.name)
	if err != nil {
		return 0, 0, err
	}
	ends, err := h.admin.ListEndOffsets(ctx, h.name)
	if err != nil {
		return 0, 0, err
	}
	from, _ := starts.Lookup(h.name, 0)
	to, ok := ends.Lookup(h.name, 0)
	if err := errors.Join(from.Err, to.Err); err != nil || !ok {
		return 0, 0, fmt.Errorf("look for partition 0: %w", err)
	}
	if _, more := ends.Lookup(h.name, 1); more {
		h.log.Warn("the schema history topic has several partitions; only the first is used", "topic", h.name)
	}
	return from.Offset, to.Offset, nil
}

func (h *historyTopic) exists(ctx context.Context) (bool, error) {
	start, end, err := h.bounds(ctx)
	if err != nil {
		return false, connect.Retry(0, fmt.Errorf("look at the schema history topic %s: %w", h.name, err))
	}
	return end > start, nil
}

// each reads the topic up to what is its end now.
func (h *historyTopic) each(ctx context.Context, f func(where string, record []byte) error) error {
	start, end, err := h.bounds(ctx)
	if err != nil {
		return connect.Retry(0, fmt.Errorf("look at the schema history topic %s: %w", h.name, err))
	}
	if start == end {
		return nil
	}
	props := overlay(h.consumer, nil)
	delete(props, "group.id")
	reader, _, err := kafka.NewClient(props, kafka.Consumer, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{h.name: {0: kgo.NewOffset().At(start)}}))
	if err != nil {
		return connect.BadConfig("schema.history.internal", err)
	}
	defer reader.Close()
	for next := start; next < end; {
		fetches, err := h.poll(ctx, reader)
		if err != nil {
			return connect.Retry(0, fmt.Errorf("read the schema history topic %s at offset %d: %w", h.name, next, err))
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			next = r.Offset + 1
			if r.Offset >= end {
				continue
			}
			if err := f(fmt.Sprintf("%s offset %d", h.name, r.Offset), r.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *historyTopic) poll(ctx context.Context, reader *kgo.Client) (kgo.Fetches, error) {
	ctx, cancel := context.WithTimeout(ctx, historyWait)
	defer cancel()
	fetches := reader.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return nil, err
	}
	return fetches, ctx.Err()
}

func (h *historyTopic) append(ctx context.Context, records [][]byte) error {
	batch := make([]*kgo.Record, len(records))
	for i, r := range records {
		batch[i] = &kgo.Record{Topic: h.name, Partition: 0, Value: r}
	}
	ctx, cancel := context.WithTimeout(ctx, historyWait)
	defer cancel()
	if err := h.producer.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return connect.Retry(0, fmt.Errorf("write to the schema history topic %s: %w", h.name, err))
	}
	return nil
}
