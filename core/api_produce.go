package core

import (
	"log/slog"
	"slices"
	"sync"
	"time"

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
// One v2 batch per partition. Acks 1 is answered when the batch is durable here (log.flush=group) or written (os), acks all when it is on the
// whole in-sync set, all partitions together. Acks 0 has no answer; a failure closes the connection. Where another node leads, it is told who
// and where (version 10, KIP-951).
// Deviations: the timeout, at least 100 ms, is used with acks all where there are followers only (this node's own disk answers or the store
// fails); records are checked by header and CRC only; a transactional produce is refused (no transactions yet).
func handleProduce(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.ProduceRequest)
	p := &produce{b: b, req: req, acks: replica.Acks(r.Acks), done: done, resp: kmsg.NewPtrProduceResponse()}
	p.resp.SetVersion(req.Version)
	p.fill(r)
	refuse := produceRefusal(r)
	p.left = newCountdown(p.end)
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
	p.limit(r.TimeoutMillis)
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

// minProduceWait is how long followers are waited for at least.
const minProduceWait = 100 * time.Millisecond

// produce is one request in flight.
type produce struct {
	b    *Broker
	req  *Request
	acks replica.Acks
	done Done
	left *countdown // of partitions whose fate is open

	hasFollowers bool // one of the partitions appended to has

	mu       sync.Mutex            // what follows
	resp     *kmsg.ProduceResponse // a slot whose fate is open says that it has timed out
	failed   bool
	answered bool
	timer    *timer
}

// limit has the request answered when its time is up, if it is one that may wait for others.
func (p *produce) limit(timeoutMillis int32) {
	if p.acks != replica.AcksAll || !p.hasFollowers {
		return
	}
	wait := min(max(time.Duration(timeoutMillis)*time.Millisecond, minProduceWait), p.b.cfg.RequestTimeoutMax)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.timer = p.b.after(p.req.Now, wait, func(time.Time) { p.end() })
	}
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
			slot := &to.Partitions[j]
			slot.Default()
			slot.Partition, slot.ErrorCode = from.Partitions[j].Partition, kerr.RequestTimedOut.Code
			slot.BaseOffset, slot.LogAppendTime, slot.LogStartOffset = -1, -1, -1
		}
	}
}

func (p *produce) append(slot *kmsg.ProduceResponseTopicPartition, topic *kmsg.ProduceRequestTopic, batch []byte) {
	t, part, err := p.find(topic, slot.Partition)
	if err == nil && len(batch) == 0 {
		err = kerr.InvalidRecord
	}
	if err == nil {
		err = errOf(p.b.appendRefusal(), p.b.outOfTouch(part))
	}
	if err == nil && isInternal(t.Name) {
		err = errInternalTopic
	}
	if err != nil {
		p.fail(slot, err)
		return
	}
	size := len(batch) // the frame is recycled before the answer
	p.hasFollowers = p.hasFollowers || len(t.Partitions[slot.Partition].Replicas) > 1
	p.left.add()
	err = part.Append(batch, p.acks, t.configs.minISR, p.req.Now, func(app storage.Appended, err error) {
		if err != nil {
			p.fail(slot, err)
		} else {
			p.succeed(slot, app, part.Log().StartOffset(), size)
		}
		p.left.done()
	})
	if err != nil {
		p.fail(slot, err)
		p.left.done()
	}
}

func (p *produce) succeed(slot *kmsg.ProduceResponseTopicPartition, app storage.Appended, start int64, size int) {
	if !app.Duplicate {
		p.b.stats.producedBytes.Add(int64(size))
		p.b.stats.produced.Add(app.LastOffset - app.BaseOffset + 1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		slot.ErrorCode, slot.BaseOffset, slot.LogAppendTime, slot.LogStartOffset = 0, app.BaseOffset, app.LogAppendTime, start
	}
}

func (p *produce) find(t *kmsg.ProduceRequestTopic, index int32) (*topic, *replica.Partition, error) {
	if p.req.Version >= 13 {
		return p.b.partitionByID(meta.ID(t.TopicID), index)
	}
	return p.b.partition(t.Topic, index)
}

func (p *produce) fail(slot *kmsg.ProduceResponseTopicPartition, err error) {
	p.b.stats.errors.Add(1)
	errorCode := code(err)
	if errorCode == kerr.UnknownServerError.Code || errorCode == kerr.KafkaStorageError.Code {
		p.b.failures.say(p.b.log, slog.LevelError, p.req.Now, "produce failed", "partition", slot.Partition, "client", p.req.ClientID, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.failed = true
		slot.ErrorCode, slot.ErrorMessage = errorCode, message(err)
	}
}

// end answers, when every partition's fate is known or time is up, whichever comes first.
func (p *produce) end() {
	p.mu.Lock()
	again := p.answered
	p.answered = true
	timer := p.timer
	p.mu.Unlock()
	if again {
		return
	}
	if timer != nil {
		p.b.timers.stop(timer)
	}
	switch {
	case p.acks != replica.AcksNone:
		p.showLeaders()
		p.done(p.resp)
	case p.failed:
		p.done(hangUp{})
	default:
		p.done(nil)
	}
}

// showLeaders tells, of partitions that others lead, who and where.
func (p *produce) showLeaders() {
	if p.req.Version < 10 {
		return
	}
	for i := range p.resp.Topics {
		to := &p.resp.Topics[i]
		for j := range to.Partitions {
			slot := &to.Partitions[j]
			if slot.ErrorCode != kerr.NotLeaderForPartition.Code {
				continue
			}
			t := p.b.topics.byName(to.Topic)
			if p.req.Version >= 13 {
				t = p.b.topics.byID(meta.ID(to.TopicID))
			}
			slot.CurrentLeader.LeaderID, slot.CurrentLeader.LeaderEpoch = t.leaderHint(slot.Partition, slot.ErrorCode)
			p.showNode(slot.CurrentLeader.LeaderID)
		}
	}
}

func (p *produce) showNode(id int32) {
	if slices.ContainsFunc(p.resp.Brokers, func(n kmsg.ProduceResponseBroker) bool { return n.NodeID == id }) {
		return
	}
	if n, ok := p.b.endpoint(id); ok {
		to := kmsg.NewProduceResponseBroker()
		to.NodeID, to.Host, to.Port, to.Rack = n.ID, n.Host, n.Port, optional(n.Rack)
		p.resp.Brokers = append(p.resp.Brokers, to)
	}
}
