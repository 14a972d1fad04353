package core

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

const keyDescribeQuorum = 55

// DescribeQuorum, key 55, versions 0-2.
//
// Who leads the metadata's group, and how far its members are. Only the leader knows that: another node asks it, and answers
// NOT_LEADER_OR_FOLLOWER if it can't. Offsets are those of the log __cluster_metadata, an epoch is that of its batches.
// Deviations: a member's newest message stands for its newest fetch; when it had caught up is known only of one that has all now; there are no
// directory ids.
func handleDescribeQuorum(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DescribeQuorumRequest)
	if len(r.Topics) != 1 || r.Topics[0].Topic != meta.TopicName || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].Partition != 0 {
		done(quorumAnswer(r, kmsg.NewDescribeQuorumResponseTopicPartition(), kerr.UnknownTopicOrPartition))
		return
	}
	s := b.meta.Status()
	leader, _ := b.meta.Leader()
	switch {
	case leader == b.cfg.NodeID:
		done(b.quorum(r, s, req.Now))
	case leader == 0 || b.peers == nil || req.Peer != 0: // who was asked by a node that took it for the leader doesn't ask on
		done(quorumAnswer(r, kmsg.NewDescribeQuorumResponseTopicPartition(), kerr.NotLeaderForPartition))
	default:
		b.peers.Call(leader, LaneControl, r, func(answer kmsg.Response, err error) {
			if err != nil {
				err = fmt.Errorf("ask the metadata's leader %d: %w: %w", leader, kerr.NotLeaderForPartition, err)
				answer = quorumAnswer(r, kmsg.NewDescribeQuorumResponseTopicPartition(), err)
			}
			done(answer)
		})
	}
}

// quorumAnswer is an answer of one partition.
func quorumAnswer(r *kmsg.DescribeQuorumRequest, p kmsg.DescribeQuorumResponseTopicPartition, err error) *kmsg.DescribeQuorumResponse {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.SetVersion(r.Version)
	for i := range r.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = r.Topics[i].Topic
		for _, asked := range r.Topics[i].Partitions {
			p.Partition, p.ErrorCode, p.ErrorMessage = asked.Partition, code(err), message(err)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// quorum is the leader's answer.
func (b *Broker) quorum(r *kmsg.DescribeQuorumRequest, s meta.Status, now time.Time) *kmsg.DescribeQuorumResponse {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = s.Leader, int32(s.Term-1), s.Commit
	for i := range s.Members {
		m := &s.Members[i]
		state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		state.ReplicaID, state.LogEndOffset = m.Node, m.Match
		if heard := m.Heard; m.Node == s.Node {
			state.LastFetchTimestamp, state.LastCaughtUpTimestamp = now.UnixMilli(), now.UnixMilli()
		} else if !heard.IsZero() {
			state.LastFetchTimestamp = heard.UnixMilli()
			if m.Match >= s.Commit {
				state.LastCaughtUpTimestamp = heard.UnixMilli()
			}
		}
		if m.IsVoter {
			p.CurrentVoters = append(p.CurrentVoters, state)
		} else {
			p.Observers = append(p.Observers, state)
		}
	}
	resp := quorumAnswer(r, p, nil)
	for _, m := range s.Members {
		if n, ok := b.endpoint(m.Node); ok && r.Version >= 2 {
			node := kmsg.NewDescribeQuorumResponseNode()
			node.NodeID = n.ID
			listener := kmsg.NewDescribeQuorumResponseNodeListener()
			listener.Name, listener.Host, listener.Port = "CONTROLLER", n.Host, uint16(n.Port)
			node.Listeners = append(node.Listeners, listener)
			resp.Nodes = append(resp.Nodes, node)
		}
	}
	return resp
}
