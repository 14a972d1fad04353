package kafka

import (
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func (b *builder) acks(name, value string) {
	switch value {
	case "", "all", "-1":
	case "0":
		b.add(kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		b.add(kgo.RequiredAcks(kgo.LeaderAck()))
	default:
		b.fault(name, "%q is none of all, -1, 0 and 1", value)
	}
}

func (b *builder) idempotence(name, value string) {
	on, ok := b.boolean(name, value, true)
	if a := b.get("acks"); ok && on && (a == "0" || a == "1") {
		b.fault(name, "true needs acks=all")
	}
}

// finishProducer settles idempotence, which Java derives from several keys: it is on
// unless it is switched off or acks weaken it.
func (b *builder) finishProducer() {
	acks := b.get("acks")
	on := acks != "0" && acks != "1" && !strings.EqualFold(b.get("enable.idempotence"), "false")
	if on {
		return
	}
	if b.get("transactional.id") != "" {
		b.fault("transactional.id", "needs acks=all and enable.idempotence=true")
		return
	}
	b.add(kgo.DisableIdempotentWrite())
	inFlight := 5
	if n, ok := b.integer("max.in.flight.requests.per.connection", b.get("max.in.flight.requests.per.connection"), 1, math.MaxInt32); ok {
		inFlight = int(n)
	}
	b.add(kgo.MaxProduceRequestsInflightPerBroker(inFlight))
}

// maxInFlight only checks: finishProducer applies it where it matters. An idempotent
// client keeps order by itself with up to five requests in flight.
func (b *builder) maxInFlight(name, value string) {
	n, ok := b.integer(name, value, 1, math.MaxInt32)
	if ok && n > 5 && strings.EqualFold(b.get("enable.idempotence"), "true") {
		b.fault(name, "must be at most 5 with enable.idempotence=true")
	}
}

func (b *builder) compression(name, value string) {
	var codec kgo.CompressionCodec
	switch value {
	case "":
		return
	case "none":
		codec = kgo.NoCompression()
	case "gzip":
		codec = b.leveled(kgo.GzipCompression(), "compression.gzip.level", -1, 9)
	case "snappy":
		codec = kgo.SnappyCompression()
	case "lz4":
		codec = b.leveled(kgo.Lz4Compression(), "compression.lz4.level", 1, 17)
	case "zstd":
		codec = b.leveled(kgo.ZstdCompression(), "compression.zstd.level", -131072, 22)
	default:
		b.fault(name, "%q is none of none, gzip, snappy, lz4 and zstd", value)
		return
	}
	b.add(kgo.ProducerBatchCompression(codec))
}

func (b *builder) leveled(codec kgo.CompressionCodec, name string, least, most int64) kgo.CompressionCodec {
	if n, ok := b.integer(name, b.get(name), least, most); ok {
		return codec.WithLevel(int(n))
	}
	return codec
}

// batchSize only checks. In Java it is the size at which a batch is sent without lingering,
// and a record may be larger; kgo fills batches up to max.request.size instead.
func (b *builder) batchSize(name, value string) {
	b.integer(name, value, 0, math.MaxInt32)
}

// maxRequestSize bounds one batch, which is what Java's limit protects: a larger record
// fails in the client.
func (b *builder) maxRequestSize(name, value string) {
	n, ok := b.integer(name, value, 0, math.MaxInt32)
	if !ok {
		return
	}
	size := int32(min(max(n, 512), 1<<30))
	b.add(kgo.ProducerBatchMaxBytes(size))
	if size > 100<<20 {
		b.add(kgo.BrokerMaxWriteBytes(size))
	}
}

func (b *builder) bufferMemory(name, value string) {
	if n, ok := b.integer(name, value, 0, math.MaxInt64); ok && n > 0 {
		b.add(kgo.MaxBufferedBytes(int(n)))
	}
}

func (b *builder) linger(name, value string) {
	if d, ok := b.millis(name, value, 0, time.Minute); ok {
		b.add(kgo.ProducerLinger(d))
	}
}

// deliveryTimeout leaves Java's "for ever" (its largest number) unbounded, as kgo is by default.
func (b *builder) deliveryTimeout(name, value string) {
	n, ok := b.integer(name, value, 0, math.MaxInt64/int64(time.Millisecond))
	if ok && n < math.MaxInt32 {
		b.add(kgo.RecordDeliveryTimeout(max(time.Duration(n)*time.Millisecond, time.Second)))
	}
}

func (b *builder) partitioner(name, value string) {
	ignoreKeys, _ := b.boolean("partitioner.ignore.keys", b.get("partitioner.ignore.keys"), false)
	switch value[strings.LastIndexByte(value, '.')+1:] {
	case "", "DefaultPartitioner", "BuiltInPartitioner":
		if ignoreKeys {
			b.add(kgo.RecordPartitioner(kgo.UniformBytesPartitioner(64<<10, true, false, nil)))
		}
	case "RoundRobinPartitioner":
		b.add(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	case "UniformStickyPartitioner":
		b.add(kgo.RecordPartitioner(kgo.StickyPartitioner()))
	default:
		b.refused(name, "leave it unset (murmur2 of the key) or use RoundRobinPartitioner")
	}
}

func (b *builder) transactionalID(_, value string) {
	if value != "" {
		b.add(kgo.TransactionalID(value))
	}
}

func (b *builder) transactionTimeout(name, value string) {
	if d, ok := b.millis(name, value, time.Millisecond, math.MaxInt32*time.Millisecond); ok {
		b.add(kgo.TransactionTimeout(d))
	}
}

// serializer admits the byte array classes, which change nothing, and refuses the rest.
func (b *builder) serializer(name, value string) {
	switch value[strings.LastIndexByte(value, '.')+1:] {
	case "", "ByteArraySerializer", "ByteArrayDeserializer":
	default:
		b.refused(name, "records are bytes here; choose a converter instead")
	}
}
