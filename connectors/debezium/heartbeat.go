package debezium

import (
	"context"
	"time"

	"github.com/weirlog/weir/connect"
)

// Heartbeat tells when the next record into the heartbeat topic is due.
type Heartbeat struct {
	every  time.Duration
	beaten time.Time
	prefix string
	topic  string
}

// NewHeartbeat makes the heartbeat of a task that starts at now.
func (s *Common) NewHeartbeat(now time.Time) Heartbeat {
	return Heartbeat{every: s.HeartbeatEvery, beaten: now, prefix: s.Prefix, topic: s.HeartbeatTopic}
}

// Due reports whether a beat is due at now; if so, the next is due an interval later.
func (h *Heartbeat) Due(now time.Time) bool {
	if h.every <= 0 || now.Sub(h.beaten) < h.every {
		return false
	}
	h.beaten = now
	return true
}

// Until ends a wait when the next beat is due.
func (h *Heartbeat) Until(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.every <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, h.beaten.Add(h.every))
}

// Beat appends the record of the last beat that was due.
func (h *Heartbeat) Beat(b *Batch, shared *Schemas) {
	key, value := b.Arena.Take(1), b.Arena.Take(1)
	key[0], value[0] = connect.StringValue(h.prefix), connect.Int64Value(h.beaten.UnixMilli())
	b.Append(connect.Record{Topic: h.topic, Partition: connect.AnyPartition, Timestamp: connect.NoTimestamp,
		Key:   connect.DataOf(shared.heartbeatKey, connect.StructValue(key)),
		Value: connect.DataOf(shared.heartbeatValue, connect.StructValue(value))})
}
