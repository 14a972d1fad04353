package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

func TestLeadersAreElected(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{2, 1}, []int32{1, 2}, []int32{4, 1}, []int32{3})
	m.become(2, meta.BrokerFenced)
	m.become(3, meta.BrokerFenced)
	elect := func(kind int8, version int16, topics ...kmsg.ElectLeadersRequestTopic) map[string]string {
		t.Helper()
		ask := kmsg.NewPtrElectLeadersRequest()
		ask.ElectionType, ask.Topics = kind, topics
		r := m.ask(43, version, ask).(*kmsg.ElectLeadersResponse)
		got := make(map[string]string)
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				got[fmt.Sprint(topic.Topic, p.Partition)] = ""
				if err := kerr.TypedErrorForCode(p.ErrorCode); err != nil {
					got[fmt.Sprint(topic.Topic, p.Partition)] = err.Message
				}
			}
		}
		return got
	}
	same := func(what string, got, want map[string]string) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	const unavailable, unneeded = "PREFERRED_LEADER_NOT_AVAILABLE", "ELECTION_NOT_NEEDED"
	all := []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 2, 3, 9}}, {Topic: "none", Partitions: []int32{0}}}
	const missing = "UNKNOWN_TOPIC_OR_PARTITION"
	same("preferred", elect(0, 2, all...), map[string]string{"t0": unavailable, "t1": unneeded, "t2": unavailable, "t3": unavailable, "t9": missing, "none0": missing})
	same("preferred, all", elect(0, 0), map[string]string{"t0": unavailable, "t2": unavailable, "t3": unavailable})
	same("unclean, all", elect(1, 2), map[string]string{"t3": "ELIGIBLE_LEADERS_NOT_AVAILABLE"})
	m.become(2, meta.BrokerActive)
	m.inSync("t", 0, 1, 2)
	same("when one is back", elect(0, 1), map[string]string{"t0": "", "t2": unavailable, "t3": unavailable})
	if leader, epoch := m.topics.byName("t").currentLeader(0); leader != 2 || epoch != 2 {
		t.Errorf("%d leads in epoch %d", leader, epoch)
	}
	ask := kmsg.NewPtrElectLeadersRequest()
	ask.ElectionType = 7
	if r := m.ask(43, 2, ask).(*kmsg.ElectLeadersResponse); r.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a kind of election that there isn't: %+v", r)
	}
}

func TestPartitionsAreReassigned(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{1}, []int32{2, 3})
	move := func(version int16, mayResize bool, index int32, replicas ...int32) int16 {
		t.Helper()
		ask := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		ask.AllowReplicationFactorChange = mayResize
		ask.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: index, Replicas: replicas}}}}
		r := m.ask(45, version, ask).(*kmsg.AlterPartitionAssignmentsResponse)
		return r.Topics[0].Partitions[0].ErrorCode
	}
	list := func(topics ...kmsg.ListPartitionReassignmentsRequestTopic) (got []string) {
		t.Helper()
		ask := kmsg.NewPtrListPartitionReassignmentsRequest()
		ask.Topics = topics
		for _, topic := range m.ask(46, 0, ask).(*kmsg.ListPartitionReassignmentsResponse).Topics {
			for _, p := range topic.Partitions {
				got = append(got, fmt.Sprint(topic.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas))
			}
		}
		return got
	}
	for _, c := range []struct {
		want     *kerr.Error
		index    int32
		replicas []int32
	}{
		{kerr.UnknownTopicOrPartition, 5, []int32{1}},
		{kerr.InvalidReplicaAssignment, 0, []int32{}},
		{kerr.InvalidReplicaAssignment, 0, []int32{1, 1}},
		{kerr.InvalidReplicaAssignment, 0, []int32{1, 9}},
		{kerr.NoReassignmentInProgress, 0, nil},
	} {
		if got := move(0, true, c.index, c.replicas...); got != c.want.Code {
			t.Errorf("move %d to %v: error %d, want %v", c.index, c.replicas, got, c.want)
		}
	}
	if got := move(1, false, 0, 1, 2); got != kerr.InvalidReplicationFactor.Code {
		t.Errorf("another replication factor: %d", got)
	}
	if got := move(1, false, 0, 3); got != 0 {
		t.Errorf("move: %d", got)
	}
	if got := move(1, true, 1, 3, 2); got != 0 { // nobody comes, nobody goes
		t.Errorf("reorder: %d", got)
	}
	if got := list(); !slices.Equal(got, []string{"t0 [3 1] [3] [1]"}) {
		t.Errorf("under way: %v", got)
	}
	asked := kmsg.ListPartitionReassignmentsRequestTopic{Topic: "t", Partitions: []int32{0, 1, 2}}
	if got := list(asked, kmsg.ListPartitionReassignmentsRequestTopic{Topic: "none", Partitions: []int32{0}}); len(got) != 1 {
		t.Errorf("under way: %v", got)
	}
	m.inSync("t", 0, 1, 3)
	if p := m.topics.byName("t").Partitions[0]; p.Leader != 3 || !slices.Equal(p.Replicas, []int32{3}) || len(list()) != 0 {
		t.Errorf("moved: %+v", p)
	}
	if p := m.Replica("t", 0); p != nil {
		t.Error("the replica is still here")
	}
	if got := move(0, true, 1, 2, 3, 4); got != 0 || len(list()) != 1 {
		t.Errorf("grow: %d", got)
	}
	if got := move(0, true, 1, nil...); got != 0 || len(list()) != 0 {
		t.Errorf("cancel: %d", got)
	}
}

func TestBrokersAreUnregistered(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{1, 4})
	forget := func(id int32) *kmsg.UnregisterBrokerResponse {
		ask := kmsg.NewPtrUnregisterBrokerRequest()
		ask.BrokerID = id
		return m.ask(64, 0, ask).(*kmsg.UnregisterBrokerResponse)
	}
	for id, want := range map[int32]*kerr.Error{9: kerr.BrokerIDNotRegistered, 2: kerr.InvalidRequest, 4: kerr.InvalidRequest} {
		if r := forget(id); r.ErrorCode != want.Code || r.ErrorMessage == nil {
			t.Errorf("node %d: %+v", id, r)
		}
	}
	m.become(2, meta.BrokerFenced)
	if r := forget(2); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
}

func TestTopicPartitionsAreDescribedInPages(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("b", []int32{1}, []int32{2, 4}, []int32{3, 2})
	m.create("a", []int32{2})
	m.create("c", []int32{1})
	m.become(3, meta.BrokerFenced)
	var got []string
	ask := kmsg.NewPtrDescribeTopicPartitionsRequest()
	ask.ResponsePartitionLimit = 2
	pages := 0
	for ; pages == 0 || ask.Cursor != nil; pages++ {
		r := m.ask(75, 0, ask).(*kmsg.DescribeTopicPartitionsResponse)
		for _, topic := range r.Topics {
			if topic.ErrorCode != 0 {
				t.Errorf("%s: %d", *topic.Topic, topic.ErrorCode)
			}
			for _, p := range topic.Partitions {
				got = append(got, fmt.Sprint(*topic.Topic, p.Partition, p.LeaderID, p.LeaderEpoch, p.Replicas, p.ISR, p.OfflineReplicas))
			}
		}
		ask.Cursor = nil
		if r.NextCursor != nil {
			ask.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: r.NextCursor.Topic, Partition: r.NextCursor.Partition}
		}
	}
	want := []string{"a0 2 0 [2] [2] []", "b0 1 0 [1] [1] []", "b1 2 0 [2 4] [2] [4]", "b2 2 1 [3 2] [2] [3]", "c0 1 0 [1] [1] []"}
	if !slices.Equal(got, want) || pages != 3 {
		t.Errorf("%d pages: %q, want %q", pages, got, want)
	}
	ask.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "none"}, {Topic: "c"}, {Topic: "c"}}
	ask.ResponsePartitionLimit = 0
	r := m.ask(75, 0, ask).(*kmsg.DescribeTopicPartitionsResponse)
	if len(r.Topics) != 2 || r.Topics[0].ErrorCode != 0 || r.Topics[1].ErrorCode != kerr.UnknownTopicOrPartition.Code || r.NextCursor != nil {
		t.Errorf("%+v", r)
	}
}

// TestTheQuorumIsDescribedByAnyNode asks each of three nodes, of which one leads.
func TestTheQuorumIsDescribedByAnyNode(t *testing.T) {
	c := startLive(t)
	ctx := wait(t)
	ask := kmsg.NewPtrDescribeQuorumRequest()
	ask.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: meta.TopicName, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	var leader int32
	for _, id := range []int32{1, 2, 3} {
		r, err := ask.RequestWith(ctx, client(t, c.nodes[id]).Broker(int(id)))
		if err != nil {
			t.Fatalf("node %d: %v", id, err)
		}
		q := r.Topics[0].Partitions[0]
		if leader == 0 {
			leader = q.LeaderID
		}
		if q.ErrorCode != 0 || q.LeaderID != leader || leader == 0 || q.LeaderEpoch < 0 || q.HighWatermark == 0 || len(q.CurrentVoters) != 3 || len(q.Observers) != 0 || len(r.Nodes) != 3 {
			t.Errorf("node %d says %+v", id, r)
		}
		for _, v := range q.CurrentVoters {
			if v.LogEndOffset == 0 || time.Since(time.UnixMilli(v.LastFetchTimestamp)) > time.Minute {
				t.Errorf("voter %+v of high watermark %d", v, q.HighWatermark)
			}
		}
	}
	ask.Topics[0].Topic = "t"
	m := imagined{running: c.nodes[1], t: t}
	if r := m.ask(55, 2, ask).(*kmsg.DescribeQuorumResponse); r.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("another topic: %+v", r)
	}
}

func TestLogDirsAreDescribed(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{1}, []int32{2}, []int32{2, 1})
	m.create("u", []int32{1})
	m.ask(0, 9, produceRequest("t", 1, batch("x")))
	ask := kmsg.NewPtrDescribeLogDirsRequest()
	all := m.ask(35, 4, ask).(*kmsg.DescribeLogDirsResponse)
	if d := all.Dirs[0]; len(all.Dirs) != 1 || d.Dir != m.cfg.Dir || len(d.Topics) != 2 || len(d.Topics[0].Partitions) != 2 || d.Topics[0].Partitions[0].Size == 0 || d.Topics[0].Partitions[1].Partition != 2 {
		t.Errorf("%+v", all)
	}
	ask.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "t", Partitions: []int32{1, 2, 7}}, {Topic: "none", Partitions: []int32{0}}}
	some := m.ask(35, 1, ask).(*kmsg.DescribeLogDirsResponse)
	if d := some.Dirs[0]; len(d.Topics) != 1 || len(d.Topics[0].Partitions) != 1 || d.Topics[0].Partitions[0].Partition != 2 {
		t.Errorf("%+v", some)
	}
}

// TestThrottlesMayBeDeleted: kafka-reassign-partitions does so at its end.
func TestThrottlesMayBeDeleted(t *testing.T) {
	m := imagine(t, testConfig(t))
	alter := func(name string, op kmsg.IncrementalAlterConfigOp) int16 {
		ask := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: kmsg.StringPtr("1")}}
		ask.Resources = append(ask.Resources, r)
		return m.ask(44, 1, ask).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	}
	if got := alter("leader.replication.throttled.rate", kmsg.IncrementalAlterConfigOpDelete); got != 0 {
		t.Errorf("delete a throttle: %d", got)
	}
	if got := alter("leader.replication.throttled.rate", kmsg.IncrementalAlterConfigOpSet); got != kerr.InvalidRequest.Code {
		t.Errorf("set a throttle: %d", got)
	}
	if got := alter("log.retention.ms", kmsg.IncrementalAlterConfigOpDelete); got != kerr.InvalidRequest.Code {
		t.Errorf("delete another config: %d", got)
	}
}

// TestANodeThatCannotServeSendsClientsAway: its disk hangs, so that it knows neither who leads now nor what is acknowledged.
func TestANodeThatCannotServeSendsClientsAway(t *testing.T) {
	c := newCluster(t, nil, 1, 2, 3)
	c.until("three active nodes", c.areActive(1, 2, 3))
	c.newTopic("t", 1, 2, 3)
	n := c.nodes[1]
	n.hangDisk()
	ask := produceRequest("t", 1, batch("x"))
	ask.SetVersion(10)
	n.meta.Propose(meta.Command{AllocateProducerIDs: &meta.AllocateProducerIDs{Broker: 1, Count: 1}}, c.now, func(meta.Result, error) {}) // something to sync
	c.until("silence", n.isSilent.Load)
	p := c.ask(1, ask).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID == 1 {
		t.Errorf("produce: %+v", p)
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.SetVersion(8)
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: tsLatest}}}}
	if p := c.ask(1, list).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("list offsets: %+v", p)
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.SetVersion(12)
	if r := c.ask(1, metadata).(*kmsg.MetadataResponse); r.ControllerID == 1 || r.ControllerID < 0 {
		t.Errorf("controller %d", r.ControllerID)
	}
	groups := kmsg.NewPtrListGroupsRequest()
	groups.SetVersion(5)
	if r := c.ask(1, groups).(*kmsg.ListGroupsResponse); r.ErrorCode != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("list groups: %+v", r)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.SetVersion(4)
	if r := c.ask(1, beat).(*kmsg.HeartbeatResponse); r.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("heartbeat: %+v", r)
	}
	for what, code := range unknownTopicCodes(c, 1) {
		if code == kerr.UnknownTopicOrPartition.Code || code == 0 {
			t.Errorf("%s of a topic that it may not have heard of: %d", what, code)
		}
	}
	c.until("others to take over", func() bool { return c.nodes[2].leads("t") == 2 })
	n.goesOn()
	c.until("three active nodes", c.areActive(1, 2, 3))
	p = c.ask(1, ask).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 1 {
		t.Errorf("when it is back: %+v", p)
	}
}

// unknownTopicCodes asks a node about a topic that isn't there, by each request that names one, and gives the error codes.
func unknownTopicCodes(c *cluster, id int32) map[string]int16 {
	codes := make(map[string]int16)
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.SetVersion(4)
	configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "news"}}
	codes["configs"] = c.ask(id, configs).(*kmsg.DescribeConfigsResponse).Resources[0].ErrorCode
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.SetVersion(1)
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "news"}}
	codes["a change of configs"] = c.ask(id, alter).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.ResponsePartitionLimit = 10
	pages.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "news"}}
	codes["pages"] = c.ask(id, pages).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].ErrorCode
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.SetVersion(3)
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "news", Count: 2}}
	codes["growth"] = c.ask(id, grow).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.SetVersion(2)
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "news", Partitions: []int32{0}}}
	codes["elections"] = c.ask(id, elect).(*kmsg.ElectLeadersResponse).Topics[0].Partitions[0].ErrorCode
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "news", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}}}}
	codes["moves"] = c.ask(id, move).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0].ErrorCode
	named := kmsg.NewPtrMetadataRequest()
	named.SetVersion(12)
	name := "news"
	named.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	codes["metadata"] = c.ask(id, named).(*kmsg.MetadataResponse).Topics[0].ErrorCode
	return codes
}
