package core

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
	"github.com/weirlog/weir/core/meta"
)

// imagined is a broker that runs, whose image has others that don't: 2 and 3 are active, 4 is fenced.
type imagined struct {
	*running
	t   *testing.T
	gen map[int32]int64
}

func imagine(t *testing.T, cfg Config) *imagined {
	m := &imagined{running: start(t, cfg), t: t, gen: make(map[int32]int64)}
	for id := int32(2); id <= 4; id++ {
		r := m.change(meta.Command{RegisterBroker: &meta.RegisterBroker{ID: id, Host: fmt.Sprintf("n%d", id), Port: 9092, Rack: fmt.Sprintf("r%d", id%2)}})
		m.gen[id] = r.Generation
	}
	m.become(2, meta.BrokerActive)
	m.become(3, meta.BrokerActive)
	return m
}

func (m *imagined) change(c meta.Command) meta.Result {
	m.t.Helper()
	type fate struct {
		meta.Result
		error
	}
	done := make(chan fate, 1)
	m.meta.Propose(c, time.Now(), func(r meta.Result, err error) { done <- fate{r, err} })
	got := <-done
	if err := errors.Join(append(got.Refused, got.error)...); err != nil {
		m.t.Fatal(err)
	}
	return got.Result
}

func (m *imagined) become(id int32, to meta.BrokerState) {
	m.t.Helper()
	m.change(meta.Command{ChangeBroker: &meta.ChangeBroker{ID: id, Generation: m.gen[id], To: to}})
}

// lead has a partition led by the first of these replicas, if it is in sync.
func (m *imagined) lead(topic string, index int32, replicas ...int32) {
	m.t.Helper()
	id := m.topics.byName(topic).ID
	m.change(meta.Command{AssignReplicas: &meta.AssignReplicas{Changes: []meta.Assignment{{ID: id, Partition: index, Replicas: replicas}}}})
	if leader, _ := m.topics.byName(topic).currentLeader(index); leader != replicas[0] {
		m.change(meta.Command{ElectLeaders: &meta.ElectLeaders{How: meta.ElectPreferred, Partitions: []meta.PartitionRef{{ID: id, Partition: index}}}})
	}
}

func (m *imagined) create(topic string, replicas ...[]int32) {
	m.t.Helper()
	id, err := randomID(m.cfg.Rand)
	if err != nil {
		m.t.Fatal(err)
	}
	m.change(meta.Command{CreateTopic: &meta.CreateTopic{ID: id, Name: topic, Replicas: replicas}})
}

// inSync makes the in-sync set of a partition that this node leads.
func (m *imagined) inSync(topic string, index int32, ids ...int32) {
	m.t.Helper()
	p := m.topics.byName(topic).Partitions[index]
	change := meta.ISRChange{ID: m.topics.byName(topic).ID, Partition: index, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: ids}
	for _, id := range ids {
		change.Generations = append(change.Generations, max(1, m.gen[id]))
	}
	m.change(meta.Command{AlterPartitions: &meta.AlterPartitions{Broker: 1, Generation: 1, Changes: []meta.ISRChange{change}}})
}

func (m *imagined) find(group string) kmsg.FindCoordinatorResponseCoordinator {
	m.t.Helper()
	ask := kmsg.NewPtrFindCoordinatorRequest()
	ask.CoordinatorKeys = []string{group}
	return m.ask(10, 6, ask).(*kmsg.FindCoordinatorResponse).Coordinators[0]
}

// commit commits an offset of partition 0.
func (m *imagined) commit(group, topic string, offset int64) (errorCode int16) {
	m.t.Helper()
	ask := kmsg.NewPtrOffsetCommitRequest()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	ask.Group, ask.Generation = group, -1
	ask.Topics = append(ask.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}})
	return m.ask(8, 9, ask).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// committed is what was committed of partition 0, -1 for nothing.
func (m *imagined) committed(group, topic string) (offset int64, errorCode int16) {
	m.t.Helper()
	ask := kmsg.NewPtrOffsetFetchRequest()
	ask.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}}}
	g := m.ask(9, 9, ask).(*kmsg.OffsetFetchResponse).Groups[0]
	if g.ErrorCode != 0 {
		return -1, g.ErrorCode
	}
	return g.Topics[0].Partitions[0].Offset, 0
}

// ask gives the broker a request and waits for the answer, encoded and decoded.
func (m *imagined) ask(key, version int16, body kmsg.Request) kmsg.Response {
	m.t.Helper()
	body.SetVersion(version)
	answers := make(chan kmsg.Response, 1)
	m.Handle(&Request{Key: key, Version: version, Body: body, Now: time.Now()}, func(r kmsg.Response) { answers <- r })
	got := <-answers
	resp := body.ResponseKind()
	resp.SetVersion(version)
	if err := resp.ReadFrom(got.AppendTo(nil)); err != nil {
		m.t.Fatal(err)
	}
	return resp
}

func TestMetadataTellsOfAllNodes(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{2, 4, 1}, []int32{1})
	r := m.ask(3, 13, kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
	var ids []int32
	for _, n := range r.Brokers {
		ids = append(ids, n.NodeID)
	}
	if !slices.Equal(ids, []int32{1, 2, 3}) || r.ControllerID != 1 || r.Brokers[1].Host != "n2" || r.Brokers[1].Port != 9092 || *r.Brokers[1].Rack != "r0" {
		t.Errorf("brokers %+v, controller %d", r.Brokers, r.ControllerID)
	}
	if host, port := m.address(); r.Brokers[0].Host != host || r.Brokers[0].Port != port {
		t.Errorf("this node is at %s:%d, not at %+v", host, port, r.Brokers[0])
	}
	p := r.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.Leader != 2 || !slices.Equal(p.Replicas, []int32{2, 4, 1}) || !slices.Equal(p.ISR, []int32{2, 1}) || !slices.Equal(p.OfflineReplicas, []int32{4}) {
		t.Errorf("partition %+v", p)
	}
	m.become(2, meta.BrokerFenced)
	p = m.ask(3, 13, kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.Leader != 1 || p.LeaderEpoch != 1 || !slices.Equal(p.ISR, []int32{1}) || !slices.Equal(p.OfflineReplicas, []int32{2, 4}) {
		t.Errorf("when its leader is fenced: %+v", p)
	}
	m.create("u", []int32{3})
	m.become(3, meta.BrokerFenced)
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = append(ask.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("u")})
	p = m.ask(3, 12, ask).(*kmsg.MetadataResponse).Topics[0].Partitions[0]
	if p.ErrorCode != kerr.LeaderNotAvailable.Code || p.Leader != -1 || p.LeaderEpoch != 1 || !slices.Equal(p.OfflineReplicas, []int32{3}) {
		t.Errorf("without leader: %+v", p)
	}
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.IncludeFencedBrokers = true
	d := m.ask(60, 2, cluster).(*kmsg.DescribeClusterResponse)
	fenced := make([]bool, 0, 4)
	for _, n := range d.Brokers {
		fenced = append(fenced, n.IsFenced)
	}
	if !slices.Equal(fenced, []bool{false, true, true, true}) || d.ControllerID != 1 {
		t.Errorf("cluster %+v", d)
	}
}

func TestProducersAreToldWhoLeads(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{2, 1})
	ask := produceRequest("t", -1, batch("x"))
	for version, told := range map[int16]bool{9: false, 10: true, 12: true} {
		r := m.ask(0, version, ask).(*kmsg.ProduceResponse)
		p := r.Topics[0].Partitions[0]
		if p.ErrorCode != kerr.NotLeaderForPartition.Code || p.BaseOffset != -1 {
			t.Errorf("version %d: %+v", version, p)
		}
		if !told && (len(r.Brokers) > 0 || p.CurrentLeader.LeaderID != -1) {
			t.Errorf("version %d tells of %+v", version, r)
		}
		if told && (p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 0 || len(r.Brokers) != 1 || r.Brokers[0].NodeID != 2 || r.Brokers[0].Host != "n2" || r.Brokers[0].Port != 9092) {
			t.Errorf("version %d: %+v", version, r)
		}
	}
}

// TestProducersWaitForFollowersForAWhile has a follower that never fetches: acks=1 is served, acks=all times out, and what was appended is there when
// the follower has gone.
func TestProducersWaitForFollowersForAWhile(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{1, 2})
	ask := produceRequest("t", 1, batch("x"))
	if p := m.ask(0, 9, ask).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("acks=1: %+v", p)
	}
	ask.Acks, ask.TimeoutMillis = -1, 1
	if p := m.ask(0, 9, ask).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != kerr.RequestTimedOut.Code || p.BaseOffset != -1 {
		t.Errorf("acks=all: %+v", p)
	}
	if hw := m.Replica("t", 0).HighWatermark(); hw != 0 {
		t.Errorf("high watermark is %d", hw)
	}
	m.become(2, meta.BrokerFenced)
	if p := m.ask(0, 9, ask).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 2 {
		t.Errorf("when it is alone: %+v", p)
	}
}

// TestANewLeaderDoesNotTellOfItsEnd: until its followers have what there was before its epoch, what was acknowledged before may lie beyond its high
// watermark (KIP-207).
func TestANewLeaderDoesNotTellOfItsEnd(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{1, 2})
	m.ask(0, 9, produceRequest("t", 1, batch("x")))
	list := func(version int16, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
		ask := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = timestamp, -1
		ask.Topics = append(ask.Topics, kmsg.ListOffsetsRequestTopic{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
		return m.ask(2, version, ask).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	}
	if p := list(8, tsLatest); p.ErrorCode != 0 || p.Offset != 0 {
		t.Errorf("the first leader: %+v", p)
	}
	m.lead("t", 0, 2, 1)
	for _, ts := range []int64{tsLatest, tsEarliest, 0} {
		if p := list(8, ts); p.ErrorCode != kerr.NotLeaderForPartition.Code {
			t.Errorf("a follower tells %+v of %d", p, ts)
		}
	}
	m.lead("t", 0, 1, 2)
	for _, ts := range []int64{tsLatest, tsMaxTimestamp, 0} {
		if p := list(8, ts); p.ErrorCode != kerr.OffsetNotAvailable.Code || p.Offset != -1 {
			t.Errorf("a new leader tells %+v of %d", p, ts)
		}
	}
	if p := list(4, tsLatest); p.ErrorCode != kerr.LeaderNotAvailable.Code {
		t.Errorf("version 4: %+v", p)
	}
	if p := list(8, tsEarliest); p.ErrorCode != 0 || p.Offset != 0 {
		t.Errorf("earliest: %+v", p)
	}
	m.become(2, meta.BrokerFenced)
	for _, ts := range []int64{tsLatest, 0} {
		if p := list(8, ts); p.ErrorCode != 0 || p.LeaderEpoch != 0 || p.Offset != -ts {
			t.Errorf("a settled leader tells %+v of %d", p, ts)
		}
	}
}

// TestGroupsMoveWithTheirPartition follows a group's commit through its partition's leaders.
func TestGroupsMoveWithTheirPartition(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("t", []int32{2}) // of which this node has nothing
	const index = 3
	replicas := make([][]int32, 8)
	for i := range replicas {
		replicas[i] = []int32{2, 3}
	}
	replicas[index] = []int32{1}
	m.create(offsetsTopic, replicas...)
	var group string
	for i := 0; ; i++ {
		if group = fmt.Sprint("g", i); coord.Partition(group, 8) == index {
			break
		}
	}
	if c := m.find(group); c.ErrorCode != 0 || c.NodeID != 1 {
		t.Errorf("coordinator %+v", c)
	}
	if errorCode := m.commit(group, "t", 7); errorCode != 0 {
		t.Fatalf("commit: %d", errorCode)
	}
	m.lead(offsetsTopic, index, 1, 2)
	m.inSync(offsetsTopic, index, 1, 2)
	committing := make(chan int16, 1)
	go func() { committing <- m.commit(group, "t", 8) }() // waits for 2
	waitFor(t, "an append", func() bool { return m.Replica(offsetsTopic, index).Log().EndOffset() == 2 })
	m.lead(offsetsTopic, index, 2, 1)
	if errorCode := <-committing; errorCode != kerr.NotCoordinator.Code {
		t.Errorf("a commit whose coordinator has gone: %d", errorCode)
	}
	if c := m.find(group); c.ErrorCode != 0 || c.NodeID != 2 || c.Host != "n2" {
		t.Errorf("coordinator %+v", c)
	}
	if _, errorCode := m.committed(group, "t"); errorCode != kerr.NotCoordinator.Code {
		t.Errorf("asked another node: %d", errorCode)
	}
	m.lead(offsetsTopic, index, 1, 2)
	if _, errorCode := m.committed(group, "t"); errorCode != kerr.CoordinatorLoadInProgress.Code {
		t.Errorf("before its follower has what there was: %d", errorCode)
	}
	m.become(2, meta.BrokerFenced)
	waitFor(t, "loading", func() bool {
		_, errorCode := m.committed(group, "t")
		return errorCode != kerr.CoordinatorLoadInProgress.Code
	})
	if offset, errorCode := m.committed(group, "t"); offset != 8 || errorCode != 0 {
		t.Errorf("committed %d, error %d", offset, errorCode)
	}
	m.become(3, meta.BrokerFenced)
	nobodys := "g0"
	for i := 0; coord.Partition(nobodys, 8) == index; i++ {
		nobodys = fmt.Sprint("h", i)
	}
	if c := m.find(nobodys); c.ErrorCode != kerr.CoordinatorNotAvailable.Code || c.NodeID != -1 {
		t.Errorf("coordinator of a partition without leader: %+v", c)
	}
}

// TestOffsetsOfATopicThatIsDeletedElsewhereAreForgotten: nobody may have told the coordinator.
func TestOffsetsOfATopicThatIsDeletedElsewhereAreForgotten(t *testing.T) {
	m := imagine(t, testConfig(t))
	m.create("stays", []int32{1})
	m.create("goes", []int32{1})
	m.create(offsetsTopic, []int32{1, 2})
	m.become(2, meta.BrokerFenced)
	for _, topic := range []string{"stays", "goes"} {
		if errorCode := m.commit("g", topic, 5); errorCode != 0 {
			t.Fatalf("commit: %d", errorCode)
		}
	}
	m.become(2, meta.BrokerActive)
	m.inSync(offsetsTopic, 0, 1, 2)
	m.lead(offsetsTopic, 0, 2, 1)
	m.change(meta.Command{DeleteTopic: &meta.DeleteTopic{ID: m.topics.byName("goes").ID}})
	m.lead(offsetsTopic, 0, 1, 2)
	m.become(2, meta.BrokerFenced)
	waitFor(t, "loading", func() bool {
		_, errorCode := m.committed("g", "stays")
		return errorCode != kerr.CoordinatorLoadInProgress.Code
	})
	waitFor(t, "forgetting", func() bool { offset, errorCode := m.committed("g", "goes"); return offset == -1 && errorCode == 0 })
	if offset, errorCode := m.committed("g", "stays"); offset != 5 || errorCode != 0 {
		t.Errorf("what stays: %d, error %d", offset, errorCode)
	}
}

func TestFiguresOfTheCluster(t *testing.T) {
	cfg := testConfig(t)
	cfg.Topic = TopicDefaults{"min.insync.replicas": "2"}
	m := imagine(t, cfg)
	m.create("t", []int32{1, 2}, []int32{1, 4}, []int32{1}, []int32{2, 1}, []int32{3})
	if got, want := m.Stats().Cluster, (ClusterStats{IsMetadataLeader: true, Nodes: 4, ActiveNodes: 3, Led: 3, UnderReplicated: 1, UnderMinISR: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	m.become(3, meta.BrokerFenced)
	m.become(2, meta.BrokerFenced)
	if got, want := m.Stats().Cluster, (ClusterStats{IsMetadataLeader: true, Nodes: 4, ActiveNodes: 1, Leaderless: 1, Led: 4, UnderReplicated: 3, UnderMinISR: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
