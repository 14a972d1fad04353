package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGo tries segmentio's kafka-go: its Conn, which speaks a few fixed old versions,
// under Writer, Reader and groups, and its Client, which negotiates.
func (r *run) kafkaGo() {
	r.cell("produce", func(ctx context.Context) error {
		return r.kafkaGoProduce(ctx, "plain", values(count), 0)
	})
	r.cell("consume", func(ctx context.Context) error { return r.kafkaGoReadBack(ctx, "plain") })
	for _, codec := range []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		r.cell(codec.String(), func(ctx context.Context) error {
			if err := r.kafkaGoProduce(ctx, codec.String(), values(count), codec); err != nil {
				return err
			}
			return r.kafkaGoReadBack(ctx, codec.String())
		})
	}
	r.cell("group", r.kafkaGoGroup)
	r.cell("members", r.kafkaGoMembers)
	r.cell("admin", r.kafkaGoAdmin)
	r.cell("headers", r.kafkaGoHeaders)
	r.cell("times", r.kafkaGoTimes)
	r.cell("transactions", r.kafkaGoTransactions)
}

// kafkaGoTopic makes a topic by the old Conn, as most programs with kafka-go do.
func (r *run) kafkaGoTopic(ctx context.Context, name string, partitions int) (string, error) {
	conn, err := kafka.DialContext(ctx, "tcp", r.bootstrap)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	full := r.topic(name)
	return full, conn.CreateTopics(kafka.TopicConfig{Topic: full, NumPartitions: partitions, ReplicationFactor: 1})
}

// kafkaGoClient has a transport of its own: each keeps its metadata for seconds, and
// does not know a topic that was made meanwhile.
func (r *run) kafkaGoClient() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(r.bootstrap), Timeout: 20 * time.Second, Transport: &kafka.Transport{}}
}

func (r *run) kafkaGoProduce(ctx context.Context, name string, all [][]byte, codec kafka.Compression) error {
	full, err := r.kafkaGoTopic(ctx, name, 1)
	if err != nil {
		return err
	}
	messages := make([]kafka.Message, len(all))
	for i, value := range all {
		messages[i] = kafka.Message{Key: fmt.Append(nil, i), Value: value}
	}
	return r.kafkaGoWrite(ctx, full, codec, messages...)
}

func (r *run) kafkaGoWrite(ctx context.Context, full string, codec kafka.Compression, messages ...kafka.Message) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(r.bootstrap), Topic: full, Balancer: &kafka.Hash{}, Compression: codec,
		RequiredAcks: kafka.RequireAll, BatchTimeout: 20 * time.Millisecond, BatchSize: 1000,
		Transport: &kafka.Transport{},
	}
	return errors.Join(writer.WriteMessages(ctx, messages...), writer.Close())
}

func (r *run) kafkaGoRead(ctx context.Context, full string, want int) ([]kafka.Message, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{r.bootstrap}, Topic: full, MaxWait: 200 * time.Millisecond})
	defer func() { _ = reader.Close() }()
	var got []kafka.Message
	for len(got) < want {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return got, fmt.Errorf("%d of %d read: %w", len(got), want, err)
		}
		got = append(got, message)
	}
	return got, nil
}

func (r *run) kafkaGoReadBack(ctx context.Context, name string) error {
	messages, err := r.kafkaGoRead(ctx, r.topic(name), count)
	if err != nil {
		return err
	}
	var got [][]byte
	for i, message := range messages {
		if message.Offset != int64(i) || string(message.Key) != fmt.Sprint(i) {
			return fmt.Errorf("offset %d with key %q, want %d", message.Offset, message.Key, i)
		}
		got = append(got, message.Value)
	}
	return same(got, values(count))
}

func (r *run) kafkaGoGroup(ctx context.Context) error {
	full, err := r.kafkaGoTopic(ctx, "group", 3)
	if err != nil {
		return err
	}
	messages := make([]kafka.Message, count)
	for i, value := range values(count) {
		messages[i] = kafka.Message{Key: fmt.Append(nil, i), Value: value}
	}
	if err := r.kafkaGoWrite(ctx, full, 0, messages...); err != nil {
		return err
	}
	var got [][]byte
	for range 2 {
		reader := r.kafkaGoMember(full)
		for range count / 2 {
			message, err := reader.FetchMessage(ctx)
			if err != nil {
				return fmt.Errorf("after %d: %w", len(got), err)
			}
			if err := reader.CommitMessages(ctx, message); err != nil {
				return fmt.Errorf("commit: %w", err)
			}
			got = append(got, message.Value)
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return same(sorted(got), sorted(values(count)))
}

func (r *run) kafkaGoMember(full string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{r.bootstrap}, GroupID: full, Topic: full, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond,
	})
}

// kafkaGoMembers has two members share the partitions: both must get records.
func (r *run) kafkaGoMembers(ctx context.Context) error {
	full, err := r.kafkaGoTopic(ctx, "members", 2)
	if err != nil {
		return err
	}
	join := func(id string) (*kafka.ConsumerGroup, error) {
		return kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: full, Brokers: []string{r.bootstrap}, Topics: []string{full}, Dialer: &kafka.Dialer{ClientID: id}})
	}
	one, err := join("one")
	if err != nil {
		return err
	}
	first, err := one.Next(ctx)
	if err != nil || len(first.Assignments[full]) != 2 {
		return fmt.Errorf("a lone member holds %v: %w", first, err)
	}
	two, err := join("two")
	if err != nil {
		return err
	}
	type answer struct {
		held int
		err  error
	}
	answers := make(chan answer, 2)
	for _, group := range []*kafka.ConsumerGroup{one, two} {
		go func() {
			generation, err := group.Next(ctx)
			if err != nil {
				answers <- answer{err: err}
				return
			}
			answers <- answer{held: len(generation.Assignments[full])}
		}()
	}
	for range 2 {
		if got := <-answers; got.err != nil || got.held != 1 {
			return fmt.Errorf("a member of two holds %d partitions: %w", got.held, got.err)
		}
	}
	return errors.Join(two.Close(), one.Close())
}

func (r *run) kafkaGoAdmin(ctx context.Context) error {
	client := r.kafkaGoClient()
	full := r.topic("admin")
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: full, NumPartitions: 2, ReplicationFactor: 1}}})
	if err := errors.Join(err, errorIn(created, full)); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	grown, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: full, Count: 5}}})
	if err != nil || grown.Errors[full] != nil {
		return fmt.Errorf("create partitions: %v, %w", grown, err)
	}
	meta, err := r.kafkaGoClient().Metadata(ctx, &kafka.MetadataRequest{Topics: []string{full}})
	if err != nil || len(meta.Topics[0].Partitions) != 5 {
		return fmt.Errorf("metadata: %v, %w", meta, err)
	}
	altered, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: full,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "3600000"}},
	}}})
	if err != nil || altered.Resources[0].Error != nil {
		return fmt.Errorf("incremental alter: %v, %w", altered, err)
	}
	// A broker of Apache Kafka may learn of it from the controller only after the answer.
	for described := ""; described != "3600000"; {
		answer, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: full, ConfigNames: []string{"retention.ms"},
		}}})
		if err != nil {
			return fmt.Errorf("describe configs: %w, last value %q", err, described)
		}
		described = answer.Resources[0].ConfigEntries[0].ConfigValue
	}
	if err := r.kafkaGoAdminGroups(ctx, client); err != nil {
		return err
	}
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{full}})
	if err != nil || deleted.Errors[full] != nil {
		return fmt.Errorf("delete: %v, %w", deleted, err)
	}
	return nil
}

func (r *run) kafkaGoAdminGroups(ctx context.Context, client *kafka.Client) error {
	group := r.topic("group")
	groups, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil || groups.Error != nil || len(groups.Groups) == 0 {
		return fmt.Errorf("list groups: %v, %w", groups, err)
	}
	described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil || described.Groups[0].GroupState != "Empty" {
		return fmt.Errorf("describe groups: %v, %w", described, err)
	}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{group: {0, 1, 2}}})
	if err != nil {
		return fmt.Errorf("offset fetch: %w", err)
	}
	total := int64(0)
	for _, partition := range offsets.Topics[group] {
		total += partition.CommittedOffset
	}
	if total != count {
		return fmt.Errorf("committed offsets add up to %d, want %d", total, count)
	}
	deleted, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil || deleted.Errors[group] != nil {
		return fmt.Errorf("delete groups: %v, %w", deleted, err)
	}
	return nil
}

func errorIn(answer *kafka.CreateTopicsResponse, topic string) error {
	if answer == nil {
		return nil
	}
	return answer.Errors[topic]
}

func (r *run) kafkaGoHeaders(ctx context.Context) error {
	full, err := r.kafkaGoTopic(ctx, "headers", 1)
	if err != nil {
		return err
	}
	sent := []kafka.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}
	if err := r.kafkaGoWrite(ctx, full, 0, kafka.Message{Value: []byte("v"), Headers: sent}); err != nil {
		return err
	}
	got, err := r.kafkaGoRead(ctx, full, 1)
	if err != nil {
		return err
	}
	if len(got[0].Headers) != 2 || string(got[0].Headers[1].Value) != "2" {
		return fmt.Errorf("headers: %v", got[0].Headers)
	}
	return nil
}

func (r *run) kafkaGoTimes(ctx context.Context) error {
	full, err := r.kafkaGoTopic(ctx, "times", 1)
	if err != nil {
		return err
	}
	base := time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
	for i := range 10 {
		if err := r.kafkaGoWrite(ctx, full, 0, kafka.Message{Value: []byte("v"), Time: base.Add(time.Duration(i) * time.Second)}); err != nil {
			return err
		}
	}
	leader, err := kafka.DialLeader(ctx, "tcp", r.bootstrap, full, 0)
	if err != nil {
		return err
	}
	defer func() { _ = leader.Close() }()
	offset, err := leader.ReadOffset(base.Add(3500 * time.Millisecond))
	if err != nil || offset != 4 {
		return fmt.Errorf("offset by time is %d, want 4: %w", offset, err)
	}
	got, err := r.kafkaGoRead(ctx, full, 10)
	if err == nil && !got[4].Time.Equal(base.Add(4*time.Second)) {
		err = fmt.Errorf("timestamp %v, want %v", got[4].Time, base.Add(4*time.Second))
	}
	return err
}

// kafkaGoTransactions only asks for a producer id: kafka-go has the calls, and no
// producer that uses them.
func (r *run) kafkaGoTransactions(ctx context.Context) error {
	client := r.kafkaGoClient()
	answer, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: r.topic("transactions"), TransactionTimeoutMs: 60000})
	if err != nil {
		return fmt.Errorf("InitProducerId: %w", err)
	}
	return answer.Error
}
