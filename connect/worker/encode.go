package worker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// encode writes a source's record into out; the bytes are appended to arena and shared with out. out keeps no memory of
// rec's but header keys and the topic, which the caller interns. On a failure arena is returned with rubbish at its end.
func (p *pipeline) encode(ctx context.Context, tol *tolerance, rec *connect.Record, out *kgo.Record, arena []byte) ([]byte, *recordError) {
	start := len(arena)
	next, null, err := p.key.Encode(arena, rec.Topic, &rec.Key)
	if err != nil {
		err = tol.attempt(ctx, func() (err error) {
			next, null, err = p.key.Encode(arena[:start], rec.Topic, &rec.Key)
			return err
		})
	}
	if err != nil {
		return arena, &recordError{stageKey, "key.converter", err}
	}
	arena, out.Key = next, part(next, start, null)

	start = len(arena)
	next, null, err = p.value.Encode(arena, rec.Topic, &rec.Value)
	if err != nil {
		err = tol.attempt(ctx, func() (err error) {
			next, null, err = p.value.Encode(arena[:start], rec.Topic, &rec.Value)
			return err
		})
	}
	if err != nil {
		return arena, &recordError{stageValue, "value.converter", err}
	}
	arena, out.Value = next, part(next, start, null)

	if len(rec.Headers) > 0 {
		out.Headers = make([]kgo.RecordHeader, len(rec.Headers))
	}
	for i := range rec.Headers {
		h := &rec.Headers[i]
		start = len(arena)
		next, null, err = p.header.Encode(arena, rec.Topic, h.Key, &h.Value)
		if err != nil {
			return arena, &recordError{stageHeader, "header.converter", err}
		}
		arena, out.Headers[i] = next, kgo.RecordHeader{Key: h.Key, Value: part(next, start, null)}
	}
	out.Partition = rec.Partition
	if rec.Timestamp != connect.NoTimestamp {
		out.Timestamp = time.UnixMilli(rec.Timestamp)
	}
	return arena, nil
}

// part gives the bytes that were appended since start, nil for null.
func part(arena []byte, start int, null bool) []byte {
	if null {
		return nil
	}
	return arena[start:len(arena):len(arena)]
}

// headers makes a sink's record headers.
func (p *pipeline) headers(in []kgo.RecordHeader) []connect.Header {
	if len(in) == 0 {
		return nil
	}
	out := make([]connect.Header, len(in))
	for i := range in {
		out[i] = connect.Header{Key: in[i].Key, Value: connect.EncodedData(in[i].Value, p.header.Codec())}
	}
	return out
}

// explicitPartitioner honours a partition that a record names and chooses by the key, as Java does, for all others.
type explicitPartitioner struct{ byKey kgo.Partitioner }

func (p explicitPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &explicitTopic{p.byKey.ForTopic(topic)}
}

type explicitTopic struct{ kgo.TopicPartitioner }

// RequiresConsistency says that a named partition must not be replaced while it is down.
func (t *explicitTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || t.TopicPartitioner.RequiresConsistency(r)
}

// Partition gives the partition.
func (t *explicitTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return t.TopicPartitioner.Partition(r, n)
}

// OnNewBatch lets records without a key move on to another partition.
func (t *explicitTopic) OnNewBatch() {
	if b, ok := t.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		b.OnNewBatch()
	}
}
