package coretest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/record"
)

// mostUnacked is how many batches of a producer are under way.
const mostUnacked = 3

// producer writes numbered records to one partition. With acks=all it sends again until it is answered, in order.
type producer struct {
	user
	at           place
	acks         int16
	isIdempotent bool
	pid          int64
	epoch        int16
	isAskingID   bool

	count     int // of records
	sequence  int32
	unacked   []*batch
	inFlight  int
	hasFailed bool
}

// batch is some records of a producer, as they go over the wire.
type batch struct {
	values  []string
	bytes   []byte
	isFirst bool // all before it were acknowledged when it was sent
}

func (p *producer) String() string {
	return fmt.Sprintf("producer %d of %v acks=%d idempotent %v: %d unacked, %d in flight, leader %+v", p.id, p.at, p.acks, p.isIdempotent, len(p.unacked), p.inFlight, p.leaders[p.at])
}

func (p *producer) isIdle() bool { return len(p.unacked) == 0 && p.inFlight == 0 }

func (p *producer) step() {
	if !p.mayTry() || !p.c.admin.isReady {
		return
	}
	if p.isIdempotent && p.pid < 0 {
		p.askID()
		return
	}
	isWilling := !p.c.isLast && len(p.unacked) < mostUnacked && p.c.chance(10)
	if !isWilling && len(p.unacked) == 0 {
		return
	}
	l := p.leader(p.at)
	switch {
	case l.node == 0:
	case p.hasFailed && p.inFlight == 0:
		p.hasFailed = false
		for _, b := range p.unacked {
			p.c.Stats.Retries++
			p.send(l.node, b)
		}
	case !p.hasFailed && isWilling:
		b := p.next()
		p.unacked = append(p.unacked, b)
		p.send(l.node, b)
	}
}

func (p *producer) askID() {
	if p.isAskingID || p.c.isLast {
		return
	}
	p.isAskingID = true
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	p.ask(p.anyone(), req, func(resp kmsg.Response, err error) {
		p.isAskingID = false
		p.pause()
		if err != nil {
			return
		}
		r := resp.(*kmsg.InitProducerIDResponse)
		switch {
		case r.ErrorCode == 0:
			p.pid, p.epoch = r.ProducerID, r.ProducerEpoch
			p.c.check.producerID(r.ProducerID)
		case !isPassing(r.ErrorCode):
			p.c.failf("%v: no producer id: %s", p, errorName(r.ErrorCode))
		}
	})
}

// next is the next records.
func (p *producer) next() *batch {
	b := &batch{}
	var records []record.Record
	for range 1 + p.c.rng.IntN(3) {
		p.count++
		value := fmt.Sprintf("%d/%06d/", -p.id, p.count)
		if p.c.chance(30) {
			value += strings.Repeat("x", p.c.rng.IntN(1200))
		}
		b.values = append(b.values, value)
		records = append(records, record.Record{Value: []byte(value)})
	}
	b.bytes = record.AppendBatch(nil, records, p.c.now)
	if p.isIdempotent {
		binary.BigEndian.PutUint64(b.bytes[43:], uint64(p.pid))
		binary.BigEndian.PutUint16(b.bytes[51:], uint16(p.epoch))
		binary.BigEndian.PutUint32(b.bytes[53:], uint32(p.sequence))
		binary.BigEndian.PutUint32(b.bytes[17:], crc32.Checksum(b.bytes[21:], crc32.MakeTable(crc32.Castagnoli)))
		p.sequence += int32(len(records))
	}
	p.c.Stats.Records += len(records)
	return b
}

func (p *producer) send(to int32, b *batch) {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, p.acks, 1500
	t := kmsg.NewProduceRequestTopic()
	t.Topic = p.at.topic
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = p.at.index, b.bytes
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	if p.acks == 0 {
		p.tell(to, req)
		p.drop(b)
		return
	}
	b.isFirst = p.unacked[0] == b
	p.inFlight++
	p.ask(to, req, func(resp kmsg.Response, err error) {
		p.inFlight--
		if !slices.Contains(p.unacked, b) {
			return
		}
		if err != nil {
			p.failed(b)
			return
		}
		p.answered(b, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0])
	})
}

func (p *producer) answered(b *batch, r kmsg.ProduceResponseTopicPartition) {
	switch {
	case r.ErrorCode == 0:
		p.unacked = slices.DeleteFunc(p.unacked, func(o *batch) bool { return o == b })
		if p.acks == -1 {
			p.c.check.acknowledged(p, r.BaseOffset, b.values)
		}
	case r.ErrorCode == kerr.OutOfOrderSequenceNumber.Code && !b.isFirst, isPassing(r.ErrorCode):
		p.failed(b)
	case r.ErrorCode == kerr.OutOfOrderSequenceNumber.Code:
		p.c.failf("%v: %.20s is out of order, though all before it were acknowledged", p, b.values[0])
	default:
		p.c.failf("%v: %.20s is refused: %s", p, b.values[0], errorName(r.ErrorCode))
	}
}

// failed has everything that isn't acknowledged sent again when all answers are there. Where a retry may write twice nothing is sent again, but for
// acks=all: there being there once is the least.
func (p *producer) failed(b *batch) {
	p.forget(p.at)
	if p.acks != -1 {
		p.drop(b)
		return
	}
	p.hasFailed = true
}

func (p *producer) drop(b *batch) {
	p.c.Stats.Lost += len(b.values)
	p.unacked = slices.DeleteFunc(p.unacked, func(o *batch) bool { return o == b })
}
