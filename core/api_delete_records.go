package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// latestOffset in a DeleteRecords means "all there is".
const latestOffset = -1

// DeleteRecords, key 21, versions 0-2.
//
// The partition's start offset moves up to the offset asked, at most to the high watermark; the answer comes when that
// is durable on the leader, whom its followers follow. An offset below the start changes nothing.
// Deviations: the low watermark is the leader's start, which followers may not have yet; internal topics are refused; the timeout is not used.
func handleDeleteRecords(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.SetVersion(req.Version)
	left := newCountdown(func() { done(resp) })
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(r.Topics))
	for i := range r.Topics {
		from, to := &r.Topics[i], &resp.Topics[i]
		to.Default()
		to.Topic = from.Topic
		to.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			slot := &to.Partitions[j]
			slot.Default()
			slot.Partition = from.Partitions[j].Partition
			left.add()
			b.deleteRecords(from.Topic, slot.Partition, from.Partitions[j].Offset, func(start int64, err error) {
				slot.LowWatermark, slot.ErrorCode = start, code(err)
				left.done()
			})
		}
	}
	left.done()
}

// deleteRecords moves a partition's start; done gets the start that is durable.
func (b *Broker) deleteRecords(name string, index int32, before int64, done func(start int64, err error)) {
	t, p, err := b.partition(name, index)
	if err == nil && isInternal(t.Name) {
		err = errInternalTopic
	}
	if err == nil {
		err = errOf(b.refusal(), p.CheckEpoch(-1))
	}
	if err != nil {
		done(-1, err)
		return
	}
	hw := p.HighWatermark()
	if before == latestOffset {
		before = hw
	}
	if before < 0 || before > hw {
		done(-1, kerr.OffsetOutOfRange)
		return
	}
	ticket, err := p.Log().AdvanceStart(before)
	if err != nil {
		done(-1, err)
		return
	}
	b.store.Notify(ticket, func(err error) {
		if err != nil {
			done(-1, err)
			return
		}
		done(p.Log().StartOffset(), nil)
	})
}
