package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// sarama tries IBM's sarama, at the newest protocol that it knows.
func (r *run) sarama() {
	r.cell("produce", func(context.Context) error {
		return r.saramaProduce("plain", values(count), saramaConfig())
	})
	r.cell("consume", func(ctx context.Context) error { return r.saramaReadBack(ctx, "plain") })
	for _, codec := range []sarama.CompressionCodec{
		sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	} {
		r.cell(codec.String(), func(ctx context.Context) error {
			config := saramaConfig()
			config.Producer.Compression = codec
			config.Producer.Flush.Frequency = 200 * time.Millisecond
			if err := r.saramaProduce(codec.String(), values(count), config); err != nil {
				return err
			}
			return r.saramaReadBack(ctx, codec.String())
		})
	}
	r.cell("group", r.saramaGroup)
	r.cell("members", r.saramaMembers)
	r.cell("admin", r.saramaAdmin)
	r.cell("delete-records", r.saramaDeleteRecords)
	r.cell("idempotent", func(ctx context.Context) error {
		config := saramaConfig()
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
		if err := r.saramaProduce("idempotent", values(count), config); err != nil {
			return err
		}
		return r.saramaReadBack(ctx, "idempotent")
	})
	r.cell("headers", r.saramaHeaders)
	r.cell("times", r.saramaTimes)
	r.cell("transactions", r.saramaTransactions)
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	return config
}

func (r *run) saramaTopic(name string, partitions int32) (string, error) {
	admin, err := sarama.NewClusterAdmin([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close() }()
	full := r.topic(name)
	return full, admin.CreateTopic(full, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
}

// saramaProduce makes a topic and writes values to it in as few batches as can be.
func (r *run) saramaProduce(name string, all [][]byte, config *sarama.Config) error {
	full, err := r.saramaTopic(name, 1)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{r.bootstrap}, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(all))
	for i, value := range all {
		messages[i] = &sarama.ProducerMessage{Topic: full, Value: sarama.ByteEncoder(value)}
	}
	return errors.Join(producer.SendMessages(messages), producer.Close())
}

func (r *run) saramaRead(ctx context.Context, full string, want int) ([]*sarama.ConsumerMessage, error) {
	consumer, err := sarama.NewConsumer([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.Close() }()
	partition, err := consumer.ConsumePartition(full, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = partition.Close() }()
	var got []*sarama.ConsumerMessage
	for len(got) < want {
		select {
		case message := <-partition.Messages():
			got = append(got, message)
		case fault := <-partition.Errors():
			return got, fault
		case <-ctx.Done():
			return got, fmt.Errorf("%d of %d read: %w", len(got), want, ctx.Err())
		}
	}
	return got, nil
}

func (r *run) saramaReadBack(ctx context.Context, name string) error {
	messages, err := r.saramaRead(ctx, r.topic(name), count)
	if err != nil {
		return err
	}
	var got [][]byte
	for i, message := range messages {
		if message.Offset != int64(i) {
			return fmt.Errorf("offset %d, want %d", message.Offset, i)
		}
		got = append(got, message.Value)
	}
	return same(got, values(count))
}

// saramaMember consumes until it has enough, then goes without looking at more.
type saramaMember struct {
	mu     sync.Mutex
	limit  int
	got    [][]byte
	full   chan struct{}
	claims chan int
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	held := 0
	for _, partitions := range session.Claims() {
		held += len(partitions)
	}
	select {
	case m.claims <- held:
	default:
	}
	return nil
}

func (m *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.mu.Lock()
		if len(m.got) >= m.limit {
			m.mu.Unlock()
			return nil
		}
		m.got = append(m.got, message.Value)
		session.MarkMessage(message, "")
		if len(m.got) == m.limit {
			close(m.full)
		}
		m.mu.Unlock()
	}
	return nil
}

func (r *run) saramaGroup(ctx context.Context) error {
	full, err := r.saramaTopic("group", 3)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	for i, value := range values(count) {
		message := &sarama.ProducerMessage{Topic: full, Key: sarama.StringEncoder(fmt.Sprint(i)), Value: sarama.ByteEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	if err := producer.Close(); err != nil {
		return err
	}
	var got [][]byte
	for range 2 {
		part, err := r.saramaConsume(ctx, full, count/2)
		if err != nil {
			return err
		}
		got = append(got, part...)
	}
	return same(sorted(got), sorted(values(count)))
}

// saramaConsume is one life of a member: it reads limit values, commits and leaves.
func (r *run) saramaConsume(ctx context.Context, full string, limit int) ([][]byte, error) {
	group, err := sarama.NewConsumerGroup([]string{r.bootstrap}, full, saramaConfig())
	if err != nil {
		return nil, err
	}
	member := &saramaMember{limit: limit, full: make(chan struct{}), claims: make(chan int, 8)}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- group.Consume(inner, []string{full}, member) }()
	select {
	case <-member.full:
	case err := <-ended:
		return nil, fmt.Errorf("consume ended early: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	cancel()
	if err := <-ended; err != nil {
		return nil, err
	}
	return member.got, group.Close()
}

// saramaMembers has two members share four partitions, and one take over.
func (r *run) saramaMembers(ctx context.Context) error {
	full, err := r.saramaTopic("members", 4)
	if err != nil {
		return err
	}
	join := func(ctx context.Context) (*saramaMember, func() error, error) {
		group, err := sarama.NewConsumerGroup([]string{r.bootstrap}, full, saramaConfig())
		if err != nil {
			return nil, nil, err
		}
		member := &saramaMember{limit: 1 << 30, full: make(chan struct{}), claims: make(chan int, 8)}
		inner, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for inner.Err() == nil && group.Consume(inner, []string{full}, member) == nil {
				continue
			}
		}()
		return member, func() error { cancel(); <-ended; return group.Close() }, nil
	}
	settle := func(member *saramaMember, want int) error {
		for {
			select {
			case held := <-member.claims:
				if held == want {
					return nil
				}
			case <-ctx.Done():
				return fmt.Errorf("never held %d partitions: %w", want, ctx.Err())
			}
		}
	}
	one, leaveOne, err := join(ctx)
	if err != nil {
		return err
	}
	if err := settle(one, 4); err != nil {
		return err
	}
	two, leaveTwo, err := join(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(settle(two, 2), settle(one, 2)); err != nil {
		return err
	}
	return errors.Join(leaveTwo(), settle(one, 4), leaveOne())
}

func (r *run) saramaAdmin(context.Context) error {
	full, err := r.saramaTopic("admin", 2)
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdmin([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	if err := admin.CreatePartitions(full, 5, nil, false); err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	r.heard()
	topics, err := admin.DescribeTopics([]string{full})
	if err != nil || len(topics) != 1 || len(topics[0].Partitions) != 5 {
		return fmt.Errorf("describe topics: %v, %w", topics, err)
	}
	hour := "3600000"
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, full, map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &hour},
	}, false); err != nil {
		return fmt.Errorf("incremental alter: %w", err)
	}
	if err := admin.AlterConfig(sarama.TopicResource, full, map[string]*string{"retention.ms": &hour}, false); err != nil {
		return fmt.Errorf("alter: %w", err)
	}
	r.heard()
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: full, ConfigNames: []string{"retention.ms"}})
	if err != nil || len(entries) != 1 || entries[0].Value != hour {
		return fmt.Errorf("describe configs: %v, %w", entries, err)
	}
	if err := r.saramaAdminGroups(admin); err != nil {
		return err
	}
	if brokers, _, err := admin.DescribeCluster(); err != nil || len(brokers) != r.nodes {
		return fmt.Errorf("describe cluster: %v, %w", brokers, err)
	}
	if err := admin.DeleteTopic(full); err != nil {
		return fmt.Errorf("delete topic: %w", err)
	}
	r.heard()
	listed, err := admin.ListTopics()
	if _, still := listed[full]; err != nil || still {
		return fmt.Errorf("the deleted topic is listed: %v, %w", still, err)
	}
	return nil
}

func (r *run) saramaAdminGroups(admin sarama.ClusterAdmin) error {
	group := r.topic("group")
	groups, err := admin.ListConsumerGroups()
	if _, there := groups[group]; err != nil || !there {
		return fmt.Errorf("list groups: %v, %w", groups, err)
	}
	described, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil || len(described) != 1 || described[0].State != "Empty" {
		return fmt.Errorf("describe groups: %v, %w", described, err)
	}
	offsets, err := admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return fmt.Errorf("group offsets: %w", err)
	}
	total := int64(0)
	for _, partitions := range offsets.Blocks {
		for _, block := range partitions {
			total += block.Offset
		}
	}
	if total != count {
		return fmt.Errorf("committed offsets add up to %d, want %d", total, count)
	}
	if err := admin.DeleteConsumerGroupOffset(group, group, 0); err != nil {
		return fmt.Errorf("delete a group's offset: %w", err)
	}
	return admin.DeleteConsumerGroup(group)
}

func (r *run) saramaDeleteRecords(ctx context.Context) error {
	if err := r.saramaProduce("deleted", values(20), saramaConfig()); err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdmin([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	if err := admin.DeleteRecords(r.topic("deleted"), map[int32]int64{0: 12}); err != nil {
		return err
	}
	got, err := r.saramaRead(ctx, r.topic("deleted"), 8)
	if err == nil && got[0].Offset != 12 {
		err = fmt.Errorf("the first offset is %d, want 12", got[0].Offset)
	}
	return err
}

func (r *run) saramaHeaders(ctx context.Context) error {
	full, err := r.saramaTopic("headers", 1)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	sent := []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte("2")}, {Key: []byte("null")}}
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: full, Value: sarama.StringEncoder("v"), Headers: sent})
	if err := errors.Join(err, producer.Close()); err != nil {
		return err
	}
	got, err := r.saramaRead(ctx, full, 1)
	if err != nil {
		return err
	}
	if len(got[0].Headers) != 3 || string(got[0].Headers[1].Value) != "2" || got[0].Headers[2].Value != nil {
		return fmt.Errorf("headers: %v", got[0].Headers)
	}
	return nil
}

func (r *run) saramaTimes(ctx context.Context) error {
	full, err := r.saramaTopic("times", 1)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	base := time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
	for i := range 10 {
		message := &sarama.ProducerMessage{Topic: full, Value: sarama.StringEncoder("v"), Timestamp: base.Add(time.Duration(i) * time.Second)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	client, err := sarama.NewClient([]string{r.bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	offset, err := client.GetOffset(full, 0, base.Add(3500*time.Millisecond).UnixMilli())
	if err != nil || offset != 4 {
		return fmt.Errorf("offset by time is %d, want 4: %w", offset, err)
	}
	got, err := r.saramaRead(ctx, full, 10)
	if err == nil && !got[4].Timestamp.Equal(base.Add(4*time.Second)) {
		err = fmt.Errorf("timestamp %v, want %v", got[4].Timestamp, base.Add(4*time.Second))
	}
	return errors.Join(err, producer.Close())
}

func (r *run) saramaTransactions(context.Context) error {
	full, err := r.saramaTopic("transactions", 1)
	if err != nil {
		return err
	}
	config := saramaConfig()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = full
	config.Producer.Retry.Max = 1
	config.Producer.Transaction.Retry.Max = 1
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{r.bootstrap}, config)
	if err != nil {
		return err
	}
	defer func() { _ = producer.Close() }()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: full, Value: sarama.StringEncoder("v")}); err != nil {
		return err
	}
	return producer.CommitTxn()
}
