package core

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOffsetForLeaderEpoch: each start of the broker is an epoch; where each ends, and what is answered for those that never were.
func TestOffsetForLeaderEpoch(t *testing.T) {
	cfg := testConfig(t)
	first := start(t, cfg)
	w := dialWire(t, first)
	w.createTopic("t")
	w.createTopic("empty")
	w.produce("t", -1, batch("a", "b"))
	old := first.topics.byName("t").parts[0].LeaderEpoch()
	first.stop()
	b := start(t, cfg)
	w = dialWire(t, b)
	w.produce("t", -1, batch("c"))
	current := b.topics.byName("t").parts[0].LeaderEpoch()
	if current != old+1 {
		t.Fatalf("epoch %d after %d", current, old)
	}
	for _, row := range []struct {
		name           string
		topic          string
		current, asked int32
		code           *kerr.Error
		epoch          int32
		end            int64
	}{
		{"the epoch before", "t", -1, old, nil, old, 2},
		{"this epoch", "t", current, current, nil, current, 3},
		{"one before all", "t", -1, old - 1, nil, -1, -1},
		{"one to come", "t", -1, current + 1, nil, -1, -1},
		{"none", "t", -1, -1, nil, -1, -1},
		{"an empty partition", "empty", -1, current, nil, current, 0},
		{"asked in the epoch before", "t", old, old, kerr.FencedLeaderEpoch, -1, -1},
		{"asked in an epoch to come", "t", current + 1, old, kerr.UnknownLeaderEpoch, -1, -1},
		{"no topic", "x", -1, old, kerr.UnknownTopicOrPartition, -1, -1},
	} {
		for version := int16(2); version <= 4; version++ {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			ask := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			ask.CurrentLeaderEpoch, ask.LeaderEpoch = row.current, row.asked
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: row.topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{ask}}}
			w.send(req, version, 1)
			resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
			resp.SetVersion(version)
			w.receive(resp)
			want := int16(0)
			if row.code != nil {
				want = row.code.Code
			}
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != want || p.LeaderEpoch != row.epoch || p.EndOffset != row.end {
				t.Errorf("%s, version %d: %+v, want %+v", row.name, version, p, row)
			}
		}
	}
}

// TestEndOfEpochIsTheLogs: a leader whose high watermark is behind, as every new one's is, doesn't tell a consumer that what it has read is gone.
func TestEndOfEpochIsTheLogs(t *testing.T) {
	c := trio(t, nil)
	c.acked(1, "a")
	c.nodes[1].isCut = true
	c.produce(1, "t", "b", 1)
	part := c.nodes[1].Replica("t", 0)
	if part.HighWatermark() >= part.Log().EndOffset() {
		t.Fatalf("the high watermark is not behind: %d", part.HighWatermark())
	}
	if _, end, err := endOfEpoch(part, -1, part.LeaderEpoch()); err != nil || end != part.Log().EndOffset() {
		t.Errorf("the epoch ends at %d, %v; the log at %d", end, err, part.Log().EndOffset())
	}
}
