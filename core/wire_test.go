package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/record"
)

// wire is a client that writes and reads frames itself.
type wire struct {
	t  testing.TB
	nc net.Conn
}

func dialWire(t testing.TB, b *running) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	return &wire{t: t, nc: nc}
}

func (w *wire) send(req kmsg.Request, version int16, correlation int32) {
	w.t.Helper()
	req.SetVersion(version)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, correlation)
	if _, err := w.nc.Write(frame); err != nil {
		w.t.Fatal(err)
	}
}

// receive reads one answer: its correlation id, and its body in resp.
func (w *wire) receive(resp kmsg.Response) int32 {
	w.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(w.nc, size[:]); err != nil {
		w.t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.nc, frame); err != nil {
		w.t.Fatal(err)
	}
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != keyAPIVersions {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		w.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(frame))
}

// closed waits for the broker to close the connection without another byte.
func (w *wire) closed() {
	w.t.Helper()
	if n, err := w.nc.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, net.ErrClosed) {
		w.t.Fatalf("connection is open: %d bytes, %v", n, err)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		w.t.Fatal("connection is open, and silent")
	}
}

func batch(values ...string) []byte {
	var records []record.Record
	for _, v := range values {
		records = append(records, record.Record{Key: []byte("k"), Value: []byte(v)})
	}
	return record.AppendBatch(nil, records, time.Now())
}

func produceRequest(topic string, acks int16, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = acks
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func fetchRequest(topic string, next int64, minBytes, maxWaitMillis int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxWaitMillis, req.MaxBytes = minBytes, maxWaitMillis, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = next, 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (w *wire) createTopic(name string) {
	w.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	req.AllowAutoTopicCreation = true
	w.send(req, 4, 0)
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(4)
	w.receive(resp)
	if resp.Topics[0].ErrorCode != 0 {
		w.t.Fatalf("create %s: %v", name, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	}
}

func (w *wire) produce(topic string, acks int16, batch []byte) *kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	w.send(produceRequest(topic, acks, batch), 9, 1)
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(9)
	w.receive(resp)
	return &resp.Topics[0].Partitions[0]
}

func (w *wire) fetched(version int16) (*kmsg.FetchResponseTopicPartition, int32) {
	w.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(version)
	correlation := w.receive(resp)
	return &resp.Topics[0].Partitions[0], correlation
}

func TestMalformedFramesEndTheirConnectionOnly(t *testing.T) {
	cfg := testConfig(t)
	cfg.MaxRequestBytes = 1 << 20
	b := start(t, cfg)
	good := dialWire(t, b)
	good.createTopic("fine")
	for name, raw := range map[string][]byte{
		"negative size":   {0xff, 0xff, 0xff, 0xff},
		"oversized":       {0x00, 0x10, 0x00, 0x01},
		"too small":       {0, 0, 0, 9},
		"not kafka":       []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"unknown key":     {0, 0, 0, 10, 3, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"unknown version": {0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff},
		"lying lengths":   {0, 0, 0, 18, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff},
	} {
		w := dialWire(t, b)
		if _, err := w.nc.Write(raw); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { w.t = t; w.closed() })
	}
	if s := b.Stats(); s.MalformedFrames != 7 {
		t.Errorf("%d malformed frames were counted", s.MalformedFrames)
	}
	if p := good.produce("fine", 1, batch("x")); p.ErrorCode != 0 {
		t.Errorf("another connection suffers: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	if s := b.Stats(); s.RequestBytesInUse != 0 {
		t.Errorf("%d bytes of requests are still charged", s.RequestBytesInUse)
	}
}

func TestUnknownApiVersionsIsAnsweredAndTheConnectionGoesOn(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	if _, err := w.nc.Write([]byte{0, 0, 0, 10, 0, 18, 0, 99, 0, 0, 0, 42, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	if c := w.receive(resp); c != 42 || resp.ErrorCode != kerr.UnsupportedVersion.Code {
		t.Errorf("correlation %d, error %d", c, resp.ErrorCode)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "wire", "1"
	w.send(req, 4, 43)
	resp.SetVersion(4)
	if c := w.receive(resp); c != 43 || resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
		t.Errorf("correlation %d, error %d, %d keys", c, resp.ErrorCode, len(resp.ApiKeys))
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == 0 && k.MinVersion != 0 {
			t.Error("Produce must be advertised from version 0: old librdkafka compresses nothing otherwise")
		}
	}
}

func TestRefusedProduces(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.createTopic("t")
	bad := batch("x")
	bad[len(bad)-1] ^= 1
	for name, tc := range map[string]struct {
		topic string
		acks  int16
		batch []byte
		want  *kerr.Error
	}{
		"bad crc":       {"t", -1, bad, kerr.CorruptMessage},
		"cut short":     {"t", -1, batch("x")[:65], kerr.CorruptMessage},
		"empty":         {"t", -1, nil, kerr.InvalidRecord},
		"unknown topic": {"u", -1, batch("x"), kerr.UnknownTopicOrPartition},
		"acks":          {"t", 2, batch("x"), kerr.InvalidRequiredAcks},
		"too large":     {"t", -1, batch(string(bytes.Repeat([]byte("x"), 2<<20))), kerr.MessageTooLarge},
	} {
		if p := w.produce(tc.topic, tc.acks, tc.batch); p.ErrorCode != tc.want.Code || p.BaseOffset != -1 {
			t.Errorf("%s: %v at %d, want %v", name, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, tc.want)
		}
	}
	if p := w.produce("t", -1, batch("x")); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("the first good batch is at %d, %v", p.BaseOffset, kerr.ErrorForCode(p.ErrorCode))
	}
	w.send(produceRequest("t", 0, bad), 9, 5)
	w.closed() // acks=0 can say it in no other way
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.createTopic("t")
	w.send(fetchRequest("t", 0, 1, 30_000), 11, 100) // waits for what comes next on the same connection
	for i := range int32(20) {
		w.send(produceRequest("t", -1, batch("x")), 9, 101+i)
	}
	p, correlation := w.fetched(11)
	if correlation != 100 || len(p.RecordBatches) == 0 {
		t.Fatalf("first answer is %d with %d bytes", correlation, len(p.RecordBatches))
	}
	for i := range int32(20) {
		resp := kmsg.NewPtrProduceResponse()
		resp.SetVersion(9)
		if c := w.receive(resp); c != 101+i || resp.Topics[0].Partitions[0].BaseOffset != int64(i) {
			t.Fatalf("answer %d where %d is due, at offset %d", c, 101+i, resp.Topics[0].Partitions[0].BaseOffset)
		}
	}
}

func TestManyPipelinedRequestsAreBounded(t *testing.T) {
	cfg := testConfig(t)
	cfg.MaxInFlight = 3
	b := start(t, cfg)
	w := dialWire(t, b)
	w.createTopic("t")
	w.send(fetchRequest("t", 0, 1, 300), 11, 1)
	for i := range int32(50) {
		w.send(kmsg.NewPtrMetadataRequest(), 1, 2+i)
	}
	if _, c := w.fetched(11); c != 1 {
		t.Fatalf("answer %d", c)
	}
	for i := range int32(50) {
		resp := kmsg.NewPtrMetadataResponse()
		resp.SetVersion(1)
		if c := w.receive(resp); c != 2+i {
			t.Fatalf("answer %d where %d is due", c, 2+i)
		}
	}
}

func TestLongPoll(t *testing.T) {
	b := start(t, testConfig(t))
	reader, writer := dialWire(t, b), dialWire(t, b)
	writer.createTopic("t")

	reader.send(fetchRequest("t", 0, 1, 20), 11, 1) // ends by its max wait
	if p, _ := reader.fetched(11); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
		t.Errorf("error %d, %d bytes from an empty partition", p.ErrorCode, len(p.RecordBatches))
	}

	one := batch("x")
	reader.send(fetchRequest("t", 0, int32(3*len(one)), 30_000), 11, 2)
	for range 3 {
		writer.produce("t", 1, one)
	}
	if p, _ := reader.fetched(11); len(p.RecordBatches) != 3*len(one) || p.HighWatermark != 3 {
		t.Errorf("%d bytes, high watermark %d", len(p.RecordBatches), p.HighWatermark)
	}

	reader.send(fetchRequest("t", 1, 1, 30_000), 11, 3)
	if p, _ := reader.fetched(11); len(p.RecordBatches) != 2*len(one) {
		t.Errorf("%d bytes from offset 1", len(p.RecordBatches))
	}

	reader.send(fetchRequest("t", 4, 1, 30_000), 11, 4)
	if p, _ := reader.fetched(11); p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("beyond the end: error %d", p.ErrorCode)
	}

	reader.send(fetchRequest("t", 3, 1, 30_000), 11, 5) // waits while its topic is deleted
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"t"}
	writer.send(del, 4, 6)
	gone := kmsg.NewPtrDeleteTopicsResponse()
	gone.SetVersion(4)
	writer.receive(gone)
	if p, _ := reader.fetched(11); p.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("deleted during the wait: error %d", p.ErrorCode)
	}
}

func TestFetchLimits(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.createTopic("t")
	one := batch("0123456789")
	for range 10 {
		w.produce("t", 1, one)
	}
	req := fetchRequest("t", 0, 1, 100)
	req.MaxBytes = 1 // a batch larger than the limit comes all the same
	w.send(req, 11, 1)
	if p, _ := w.fetched(11); len(p.RecordBatches) != len(one) {
		t.Errorf("%d bytes, one batch has %d", len(p.RecordBatches), len(one))
	}
	req = fetchRequest("t", 0, 1, 100)
	req.Topics[0].Partitions[0].PartitionMaxBytes = int32(3*len(one) + 1)
	w.send(req, 11, 2)
	if p, _ := w.fetched(11); len(p.RecordBatches) != 3*len(one) {
		t.Errorf("%d bytes, want three batches of %d", len(p.RecordBatches), len(one))
	}
	req = fetchRequest("t", 0, 1, 100)
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = 99
	w.send(req, 11, 3)
	if p, _ := w.fetched(11); p.ErrorCode != kerr.UnknownLeaderEpoch.Code {
		t.Errorf("epoch of the future: error %d", p.ErrorCode)
	}
	req = fetchRequest("t", 0, 1, 100)
	req.SessionID, req.SessionEpoch = 7, 1
	w.send(req, 11, 4)
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(11)
	if w.receive(resp); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("unknown session: error %d", resp.ErrorCode)
	}
}

func TestAClientThatGoesLeavesNothingBehind(t *testing.T) {
	b := start(t, testConfig(t))
	other := dialWire(t, b)
	other.createTopic("t")
	w := dialWire(t, b)
	w.send(fetchRequest("t", 0, 1, 50), 11, 1)
	_, _ = w.nc.Write([]byte{0, 0, 1, 0, 0, 3}) // and half a frame
	w.nc.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s := b.Stats()
		if s.Connections == 1 && s.RequestBytesInUse == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, %d bytes charged", s.Connections, s.RequestBytesInUse)
		}
	}
}

// from makes batch one of an idempotent producer.
func from(batch []byte, id int64, epoch int16, sequence int32) []byte {
	binary.BigEndian.PutUint64(batch[43:], uint64(id))
	binary.BigEndian.PutUint16(batch[51:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[53:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch
}

func TestIdempotentProducer(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.createTopic("t")
	for i, tc := range []struct {
		id       int64
		epoch    int16
		sequence int32
		records  int
		want     *kerr.Error
		base     int64
	}{
		{5, 1, 0, 2, nil, 0},
		{5, 1, 2, 1, nil, 2},
		{5, 1, 0, 2, nil, 0}, // again: its old offset
		{5, 1, 2, 1, nil, 2},
		{5, 1, 4, 1, kerr.OutOfOrderSequenceNumber, -1},
		{5, 0, 3, 1, kerr.InvalidProducerEpoch, -1},
		{5, 2, 7, 1, kerr.OutOfOrderSequenceNumber, -1},
		{5, 2, 0, 1, nil, 3},
		{6, 0, 0, 1, nil, 4},
		{5, 2, 1, 1, nil, 5},
	} {
		p := w.produce("t", -1, from(batch(make([]string, tc.records)...), tc.id, tc.epoch, tc.sequence))
		var want int16
		if tc.want != nil {
			want = tc.want.Code
		}
		if p.ErrorCode != want || p.BaseOffset != tc.base {
			t.Errorf("step %d: %v at %d, want %v at %d", i, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, tc.want, tc.base)
		}
	}
	if s := b.Stats(); s.ProducedRecords != 6 {
		t.Errorf("%d records are counted, with duplicates?", s.ProducedRecords)
	}
}

func (w *wire) createWith(name string, configs map[string]string) {
	w.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for k, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	w.send(req, 7, 0)
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.SetVersion(7)
	if w.receive(resp); resp.Topics[0].ErrorCode != 0 {
		w.t.Fatalf("create %s: %s", name, *resp.Topics[0].ErrorMessage)
	}
}

func TestTopicConfigsAreHonoured(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.createWith("compacted", map[string]string{"cleanup.policy": "compact"})
	w.createWith("small", map[string]string{"max.message.bytes": "100"})
	w.createWith("stamped", map[string]string{"message.timestamp.type": "LogAppendTime"})
	noKey := record.AppendBatch(nil, []record.Record{{Value: []byte("v")}}, time.Now())
	if p := w.produce("compacted", -1, noKey); p.ErrorCode != kerr.InvalidRecord.Code {
		t.Errorf("a record without a key in a compacted topic: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	if p := w.produce("compacted", -1, batch("v")); p.ErrorCode != 0 {
		t.Errorf("a record with a key in a compacted topic: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	if p := w.produce("small", -1, batch("0123456789012345678901234567890123456789")); p.ErrorCode != kerr.MessageTooLarge.Code {
		t.Errorf("larger than max.message.bytes: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	before := time.Now().UnixMilli()
	if p := w.produce("stamped", -1, batch("v")); p.LogAppendTime < before || p.LogAppendTime > time.Now().UnixMilli() {
		t.Errorf("log append time %d, now %d", p.LogAppendTime, before)
	}
	if p := w.produce("small", -1, batch("v")); p.LogAppendTime != -1 {
		t.Errorf("log append time %d of a CreateTime topic", p.LogAppendTime)
	}
	future := record.AppendBatch(nil, []record.Record{{Value: []byte("v")}}, time.Now().Add(2*time.Hour))
	if p := w.produce("small", -1, future); p.ErrorCode != kerr.InvalidTimestamp.Code {
		t.Errorf("a timestamp two hours ahead: %v", kerr.ErrorForCode(p.ErrorCode))
	}
}
