package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/replica"
)

// OffsetForLeaderEpoch, key 23, versions 2-4.
//
// For a leader epoch: the newest epoch up to it of which the log has records, and where that one's records end; so a consumer finds
// out that what it has read was truncated (KIP-320). Only the leader answers. The end is the log's, not the high watermark: a new leader's is behind for
// a moment, and whoever has read further would take it for a loss. An epoch older than all that the log has ends where the log starts.
// Deviations: none known.
func handleOffsetForLeaderEpoch(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.SetVersion(req.Version)
	for i := range r.Topics {
		to := kmsg.NewOffsetForLeaderEpochResponseTopic()
		to.Topic = r.Topics[i].Topic
		for j := range r.Topics[i].Partitions {
			ask := &r.Topics[i].Partitions[j]
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition = ask.Partition
			_, part, err := b.partition(to.Topic, ask.Partition)
			if err = errOf(err, b.refusal()); err == nil {
				p.LeaderEpoch, p.EndOffset, err = endOfEpoch(part, ask.CurrentLeaderEpoch, ask.LeaderEpoch)
			}
			p.ErrorCode = code(err)
			to.Partitions = append(to.Partitions, p)
		}
		resp.Topics = append(resp.Topics, to)
	}
	done(resp)
}

// endOfEpoch answers one partition: -1, -1 for an epoch that there can't have been.
func endOfEpoch(p *replica.Partition, current, asked int32) (epoch int32, end int64, err error) {
	if err := p.CheckEpoch(current); err != nil {
		return -1, -1, err
	}
	if asked < 0 || asked > p.LeaderEpoch() {
		return -1, -1, nil
	}
	epoch, end = p.Log().EndOfEpoch(asked)
	if epoch < 0 {
		return asked, p.Log().StartOffset(), nil
	}
	return epoch, end, nil
}
