package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/replica"
)

// Timestamps that ask for a place instead of a time.
const (
	tsLatest         = -1
	tsEarliest       = -2
	tsMaxTimestamp   = -3
	tsEarliestLocal  = -4
	tsLatestTiered   = -5
	tsEarliestUpload = -6
)

// ListOffsets, key 2, versions 1-11.
//
// The latest offset is the high watermark, whatever the isolation level (there are no transactions yet). While a new leader doesn't know what
// the one before it has acknowledged, that and offsets by time beyond it are OFFSET_NOT_AVAILABLE (KIP-207). Offsets by
// time are looked up when the answer is encoded, by the connection's writer, as that may read the disk.
// Deviations: nothing is tiered, so earliest local is earliest, and latest tiered and earliest to upload are unknown
// (-1). Only the leader answers, debugging clients (replica -2) too.
func handleListOffsets(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.ListOffsetsRequest)
	l := &listOffsets{ListOffsetsResponse: kmsg.NewPtrListOffsetsResponse(), b: b, req: r}
	l.SetVersion(req.Version)
	done(l)
}

// listOffsets is a ListOffsets answer that is looked up when it is encoded.
type listOffsets struct {
	*kmsg.ListOffsetsResponse
	b   *Broker
	req *kmsg.ListOffsetsRequest
}

// AppendTo looks the offsets up and encodes them. It may block on the disk.
func (l *listOffsets) AppendTo(dst []byte) []byte {
	l.Topics = make([]kmsg.ListOffsetsResponseTopic, len(l.req.Topics))
	for i := range l.req.Topics {
		from, to := &l.req.Topics[i], &l.Topics[i]
		to.Default()
		to.Topic = from.Topic
		to.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			slot := &to.Partitions[j]
			slot.Default()
			slot.Partition = from.Partitions[j].Partition
			if err := l.find(from.Topic, &from.Partitions[j], slot); err != nil {
				slot.Offset, slot.Timestamp, slot.ErrorCode = -1, -1, code(err)
			}
		}
	}
	return l.ListOffsetsResponse.AppendTo(dst)
}

func (l *listOffsets) find(name string, ask *kmsg.ListOffsetsRequestTopicPartition, slot *kmsg.ListOffsetsResponseTopicPartition) error {
	_, p, err := l.b.partition(name, ask.Partition)
	if err != nil {
		return err
	}
	if err := p.CheckEpoch(ask.CurrentLeaderEpoch); err != nil {
		return err
	}
	if err := l.b.refusal(); err != nil {
		return err
	}
	slot.Offset, slot.Timestamp, slot.LeaderEpoch = -1, -1, -1
	log := p.Log()
	switch ask.Timestamp {
	case tsLatest:
		if !p.IsSettled() {
			return l.unsettled()
		}
		slot.Offset, slot.LeaderEpoch = p.HighWatermark(), log.LeaderEpoch()
	case tsEarliest, tsEarliestLocal:
		slot.Offset = log.StartOffset()
		slot.LeaderEpoch = log.EpochAt(slot.Offset)
	case tsLatestTiered, tsEarliestUpload:
	case tsMaxTimestamp:
		return l.visible(p, slot)(log.MaxTimestamp())
	default:
		if ask.Timestamp < 0 {
			return kerr.UnsupportedVersion
		}
		return l.visible(p, slot)(log.OffsetForTime(ask.Timestamp))
	}
	return nil
}

// unsettled is the answer of a leader that doesn't know yet where what consumers may see ends.
func (l *listOffsets) unsettled() error {
	if l.Version < 5 {
		return kerr.LeaderNotAvailable
	}
	return kerr.OffsetNotAvailable
}

// visible fills slot with a record's place if consumers may see it.
func (l *listOffsets) visible(p *replica.Partition, slot *kmsg.ListOffsetsResponseTopicPartition) func(offset, timestamp int64, err error) error {
	return func(offset, timestamp int64, err error) error {
		switch {
		case err != nil:
			return err
		case offset < 0:
		case offset < p.HighWatermark():
			slot.Offset, slot.Timestamp, slot.LeaderEpoch = offset, timestamp, p.Log().EpochAt(offset)
		case !p.IsSettled():
			return l.unsettled()
		}
		return nil
	}
}
