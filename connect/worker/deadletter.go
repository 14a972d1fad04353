package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/kafka"
)

// deadLetters writes a task's dead-letter topic. A letter is only sent when it is durable: wait says when, and a commit
// that passes a dead record comes after it (Law 1).
type deadLetters struct {
	topic    string
	replicas int16
	context  bool // errors.deadletterqueue.context.headers.enable
	id       TaskID
	client   *kgo.Client
	log      *slog.Logger
	count    *counters
	ready    bool // the topic is there; only the task's loop uses it

	mu      sync.Mutex
	waiting int
	fault   error         // the first letter that was not written
	settled chan struct{} // closed when waiting falls to 0, nil when nobody waits
}

// openDeadLetters makes the writer; nothing is dialled.
func (w *Worker) openDeadLetters(p *prepared, id TaskID, log *slog.Logger, count *counters) (*deadLetters, error) {
	topic := p.common.String("errors.deadletterqueue.topic.name")
	if topic == "" {
		return nil, nil
	}
	props, err := w.clientProps(p.config, kafka.Producer)
	if err != nil {
		return nil, err
	}
	client, _, err := kafka.NewClient(props, kafka.Producer, append([]kgo.Opt{
		kgo.ClientID(fmt.Sprintf("connector-dlq-producer-%s-%d", id.Connector, id.Task)), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MaxBufferedBytes(int(w.cfg.TaskMemoryBytes / 8)), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}, w.deps.KafkaOpts...)...)
	if err != nil {
		return nil, err
	}
	return &deadLetters{topic: topic, replicas: int16(p.common.Int("errors.deadletterqueue.topic.replication.factor")),
		context: p.common.Bool("errors.deadletterqueue.context.headers.enable"), id: id, client: client, log: log, count: count}, nil
}

func (d *deadLetters) close() {
	if d != nil {
		d.client.Close()
	}
}

// send writes the original bytes of a record that failed. done, if not nil, is called when the letter is durable. The
// origin is left out for origin.Topic "". send is called by the task's loop only.
func (d *deadLetters) send(ctx context.Context, key, value []byte, headers []kgo.RecordHeader, e *recordError, topic string, partition int32, offset int64, done func(*kgo.Record)) error {
	if !d.ready {
		rule := topicRule{partitions: 1, replicas: d.replicas, settings: map[string]*string{}}
		if err := ensureTopic(ctx, kadm.NewClient(d.client), d.topic, []topicRule{rule}, d.log); err != nil {
			return fmt.Errorf("dead-letter topic: %w", err)
		}
		d.ready = true
	}
	r := &kgo.Record{Topic: d.topic, Key: key, Value: value, Headers: append([]kgo.RecordHeader(nil), headers...)}
	if d.context {
		for _, h := range e.context(d.id, topic, partition, offset) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: errorHeaders + h.name, Value: []byte(h.value)})
		}
	}
	d.mu.Lock()
	d.waiting++
	d.mu.Unlock()
	d.client.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err == nil && done != nil {
			done(r)
		}
		d.settle(err)
	})
	return nil
}

func (d *deadLetters) settle(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting--
	if err != nil && d.fault == nil {
		d.fault = fmt.Errorf("write dead letter to %s: %w", d.topic, err)
	}
	if d.waiting == 0 && d.settled != nil {
		close(d.settled)
		d.settled = nil
	}
}

// wait returns when every letter sent is durable. An error means that one is not: nothing after it may be committed.
func (d *deadLetters) wait(ctx context.Context) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	if d.waiting == 0 || d.fault != nil {
		defer d.mu.Unlock()
		return d.fault
	}
	if d.settled == nil {
		d.settled = make(chan struct{})
	}
	settled := d.settled
	d.mu.Unlock()
	select {
	case <-settled:
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.fault
	case <-ctx.Done():
		return fmt.Errorf("write dead letters to %s: %w", d.topic, ctx.Err())
	}
}
