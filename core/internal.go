package core

import (
	"fmt"
	"time"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// What follows is how the broker itself uses partitions (coordinators do): the same partitions, without the wire.

// ensureTopic calls done with the topic, creating it first if it isn't there. done may run before it returns.
func (b *Broker) ensureTopic(name string, partitions int32, factor int16, configs map[string]string, now time.Time, done func(*topic, error)) {
	if t := b.topics.byName(name); t != nil {
		done(t, nil)
		return
	}
	b.createTopic(name, partitions, factor, configs, now, func(err error) {
		t := b.topics.byName(name)
		if t == nil && err == nil {
			err = errUnknownTopic
		}
		if t != nil {
			err = nil // someone else was first
		}
		done(t, err)
	})
}

// appendRecords appends records as one batch, in this leader epoch only. done is called exactly once, perhaps before appendRecords returns: with
// the first record's offset when the batch is acknowledged as acks=all would be (durable on the whole in-sync set, below the high watermark),
// else with the reason. Records need a key where the topic is compacted.
func (b *Broker) appendRecords(p *replica.Partition, leaderEpoch int32, records []record.Record, now time.Time, done func(baseOffset int64, err error)) {
	if err := b.appendRefusal(); err != nil {
		done(-1, err)
		return
	}
	minISR := 1
	if t := b.topics.byName(p.Topic); t != nil {
		minISR = t.configs.minISR
	}
	batch := record.AppendBatch(nil, records, now)
	err := p.AppendIn(leaderEpoch, batch, replica.AcksAll, minISR, now, func(app storage.Appended, err error) { done(app.BaseOffset, err) })
	if err != nil {
		done(-1, fmt.Errorf("append to %s-%d: %w", p.Topic, p.Index, err))
	}
}

// scanRecords calls each for every record of p from its start offset to its high watermark, in order. It blocks on
// the disk: call it from Open, or from a goroutine that may block. Keys and values may be kept.
func (b *Broker) scanRecords(p *replica.Partition, each func(offset int64, key, value []byte) error) error {
	log := p.Log()
	if err := record.Scan(log.Read, log.StartOffset(), p.HighWatermark(), each); err != nil {
		return fmt.Errorf("scan %s-%d: %w", p.Topic, p.Index, err)
	}
	return nil
}
