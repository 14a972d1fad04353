package core

import (
	"log/slog"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

const keyProduce = 0

// Produce, key 0, versions 3-13 (0-2 are advertised for old librdkafka, which enables compression by them, and end
// the connection when used).
//
// One v2 batch per partition. Acks 1 and all are answered when the batch is durable (log.flush=group) or written
// (os), all partitions together. Acks 0 has no answer; a failure closes the connection.
// Deviations: the timeout is not used (one node's disk answers or the store fails); records are checked by header and
// CRC only; a transactional produce is refused (no transactions yet).
func handleProduce(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.ProduceRequest)
	p := &produce{b: b, req: req, acks: replica.Acks(r.Acks), done: done, resp: kmsg.NewPtrProduceResponse()}
	p.resp.SetVersion(req.Version)
	p.fill(r)
	refuse := produceRefusal(r)
	p.left = newCountdown(p.answer)
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			slot := &p.resp.Topics[i].Partitions[j]
			if refuse != nil {
				p.fail(slot, refuse)
				continue
			}
			p.append(slot, &r.Topics[i], r.Topics[i].Partitions[j].Records)
		}
	}
	p.left.done()
}

// produceRefusal is why a whole request is refused, nil if it isn't.
func produceRefusal(r *kmsg.ProduceRequest) error {
	if r.Acks < -1 || r.Acks > 1 {
		return kerr.InvalidRequiredAcks
	}
	if r.TransactionID != nil {
		return kerr.TransactionalIDAuthorizationFailed // fatal for the producer, which must not retry
	}
	return nil
}

// produce is one request in flight. Each partition writes only to its own slot of the answer.
type produce struct {
	b      *Broker
	req    *Request
	acks   replica.Acks
	done   Done
	resp   *kmsg.ProduceResponse
	left   *countdown // of partitions whose fate is open
	failed atomic.Bool
}

// fill makes a slot for every partition asked.
func (p *produce) fill(r *kmsg.ProduceRequest) {
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(r.Topics))
	for i := range r.Topics {
		from, to := &r.Topics[i], &p.resp.Topics[i]
		to.Default()
		to.Topic, to.TopicID = from.Topic, from.TopicID
		to.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			to.Partitions[j].Default()
			to.Partitions[j].Partition = from.Partitions[j].Partition
		}
	}
}

func (p *produce) append(slot *kmsg.ProduceResponseTopicPartition, topic *kmsg.ProduceRequestTopic, batch []byte) {
	t, part, err := p.find(topic, slot.Partition)
	if err == nil && len(batch) == 0 {
		err = kerr.InvalidRecord
	}
	if err == nil && !p.b.registered.Load() {
		err = errNotRegistered
	}
	if err == nil && isInternal(t.Name) {
		err = errInternalTopic
	}
	if err != nil {
		p.fail(slot, err)
		return
	}
	size := len(batch) // the frame is recycled before the answer
	p.left.add()
	err = part.Append(batch, p.acks, t.configs.minISR, p.req.Now, func(app storage.Appended, err error) {
		if err != nil {
			p.fail(slot, err)
		} else {
			slot.BaseOffset, slot.LogAppendTime, slot.LogStartOffset = app.BaseOffset, app.LogAppendTime, part.Log().StartOffset()
			if !app.Duplicate {
				p.b.stats.producedBytes.Add(int64(size))
				p.b.stats.produced.Add(app.LastOffset - app.BaseOffset + 1)
			}
		}
		p.left.done()
	})
	if err != nil {
		p.fail(slot, err)
		p.left.done()
	}
}

func (p *produce) find(t *kmsg.ProduceRequestTopic, index int32) (*topic, *replica.Partition, error) {
	if p.req.Version >= 13 {
		return p.b.partitionByID(meta.ID(t.TopicID), index)
	}
	return p.b.partition(t.Topic, index)
}

func (p *produce) fail(slot *kmsg.ProduceResponseTopicPartition, err error) {
	p.failed.Store(true)
	p.b.stats.errors.Add(1)
	slot.ErrorCode, slot.BaseOffset, slot.LogAppendTime, slot.LogStartOffset = code(err), -1, -1, -1
	slot.ErrorMessage = message(err)
	if slot.ErrorCode == kerr.UnknownServerError.Code || slot.ErrorCode == kerr.KafkaStorageError.Code {
		p.b.failures.say(p.b.log, slog.LevelError, p.req.Now, "produce failed", "partition", slot.Partition, "client", p.req.ClientID, "error", err)
	}
}

// answer is called when every partition's fate is known.
func (p *produce) answer() {
	switch {
	case p.acks != replica.AcksNone:
		p.done(p.resp)
	case p.failed.Load():
		p.done(hangUp{})
	default:
		p.done(nil)
	}
}
