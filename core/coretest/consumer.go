package coretest

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/record"
)

// consumer reads one partition from its beginning, and sometimes again.
type consumer struct {
	user
	at        place
	next      int64
	isWaiting bool
	mustReset bool // what it wanted was deleted

	knownEnd   int64 // of what was told or read in an epoch up to knownEpoch
	knownEpoch int32
}

func (k *consumer) String() string {
	return fmt.Sprintf("consumer %d of %v: at %d, leader %+v, waiting %v", k.id, k.at, k.next, k.leaders[k.at], k.isWaiting)
}

// isIdle says that all that can be read was.
func (k *consumer) isIdle() bool { return k.next >= k.c.check.end(k.at) }

func (k *consumer) step() {
	if k.isWaiting || !k.mayTry() || !k.c.admin.isReady || k.c.isLast && k.isIdle() {
		return
	}
	l := k.leader(k.at)
	switch {
	case l.node == 0:
	case k.mustReset:
		k.askOffset(l, earliest, func(offset int64) {
			k.mustReset = false
			if k.next = max(k.next, offset); offset > k.c.check.parts[k.at].asked {
				k.c.failf("%v: begins at %d", k, offset)
			}
		})
	case k.c.chance(5):
		k.askOffset(l, latest, func(offset int64) {
			if l.epoch >= k.knownEpoch && offset < k.knownEnd {
				k.c.failf("%v: node %d says in epoch %d that the partition ends at %d, it was known to reach %d in epoch %d", k, l.node, l.epoch, offset, k.knownEnd, k.knownEpoch)
			}
			k.learn(offset, l.epoch)
		})
	default:
		if !k.c.isLast && k.c.rng.IntN(200) == 0 {
			k.next = k.c.rng.Int64N(k.next + 1)
		}
		k.fetch(l)
	}
}

func (k *consumer) fetch(l leader) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, -1, 200, 1, 8<<10, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = k.at.topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = k.at.index, l.epoch, k.next, 4<<10
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	k.isWaiting = true
	k.ask(l.node, req, func(resp kmsg.Response, err error) {
		k.isWaiting = false
		if err != nil {
			k.forget(k.at)
			return
		}
		topics := resp.(*kmsg.FetchResponse).Topics
		if len(topics) != 1 || len(topics[0].Partitions) != 1 {
			k.c.failf("%v: an answer without it", k)
			return
		}
		k.take(l, &topics[0].Partitions[0])
	})
}

func (k *consumer) take(l leader, p *kmsg.FetchResponseTopicPartition) {
	switch {
	case p.ErrorCode == kerr.OffsetOutOfRange.Code && k.next < k.c.check.parts[k.at].asked:
		k.mustReset = true
		return
	case p.ErrorCode == kerr.OffsetOutOfRange.Code:
		k.c.failf("%v: offset is out of range for node %d in epoch %d, though it was read up to there", k, l.node, l.epoch)
		return
	case p.ErrorCode != 0:
		if !isPassing(p.ErrorCode) {
			k.c.failf("%v: %s", k, errorName(p.ErrorCode))
		}
		k.forget(k.at)
		return
	}
	isRead := false
	once := func(int64, int64, int, [][]byte) ([][]byte, error) {
		if isRead || len(p.RecordBatches) == 0 {
			return nil, nil
		}
		isRead = true
		return [][]byte{p.RecordBatches}, nil
	}
	err := record.Scan(once, k.next, 1<<60, func(offset int64, _, value []byte) error {
		if offset != k.next {
			k.c.failf("%v: offset %d comes next", k, offset)
		}
		if offset >= p.HighWatermark {
			k.c.failf("%v: offset %d is served, the high watermark is %d", k, offset, p.HighWatermark)
		}
		k.c.check.read(k.at, offset, string(value), k)
		k.next = offset + 1
		k.c.Stats.Read++
		return nil
	})
	if err != nil {
		k.c.failf("%v: %v", k, err)
	}
	k.learn(k.next, l.epoch)
}

// learn remembers how far the partition is known to reach.
func (k *consumer) learn(end int64, epoch int32) {
	k.knownEnd, k.knownEpoch = max(k.knownEnd, end), max(k.knownEpoch, epoch)
}

// Timestamps that stand for places.
const (
	latest   = -1
	earliest = -2
)

func (k *consumer) askOffset(l leader, timestamp int64, done func(int64)) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 5, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = k.at.topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = k.at.index, l.epoch, timestamp
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	k.isWaiting = true
	k.ask(l.node, req, func(resp kmsg.Response, err error) {
		k.isWaiting = false
		if err != nil {
			k.forget(k.at)
			return
		}
		switch r := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; {
		case r.ErrorCode != 0 && !isPassing(r.ErrorCode):
			k.c.failf("%v: list offsets: %s", k, errorName(r.ErrorCode))
		case r.ErrorCode != 0:
			k.forget(k.at)
		default:
			done(r.Offset)
		}
	})
}
