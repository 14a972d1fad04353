package core

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

func nodesOn(racks ...string) []meta.Broker {
	var nodes []meta.Broker
	for i, rack := range racks {
		nodes = append(nodes, meta.Broker{ID: int32(i + 1), Rack: rack})
	}
	return nodes
}

func TestPlacementIsEven(t *testing.T) {
	for _, c := range []struct {
		racks  []string
		factor int
	}{
		{[]string{""}, 1},
		{[]string{"", "", ""}, 1},
		{[]string{"", "", ""}, 2},
		{[]string{"", "", ""}, 3},
		{[]string{"", "", "", "", ""}, 3},
		{[]string{"a", "a", "b", "b", "c", "c"}, 3},
		{[]string{"a", "a", "b", "b"}, 3},
		{[]string{"a", "a", "a", "b", "b", "b"}, 2},
	} {
		n := len(c.racks)
		for first := range uint64(3) {
			t.Run(fmt.Sprint(c.racks, c.factor, first), func(t *testing.T) {
				count := n * max(1, n-1) * 4
				leads, holds := make(map[int32]int), make(map[int32]int)
				follows := make(map[[2]int32]int)
				racks := make(map[string]bool)
				for _, r := range c.racks {
					racks[r] = true
				}
				for _, replicas := range spread(nodesOn(c.racks...), count, c.factor, first) {
					leads[replicas[0]]++
					used := make(map[string]bool)
					for i, id := range replicas {
						holds[id]++
						if slices.Contains(replicas[:i], id) {
							t.Fatalf("replicas %v", replicas)
						}
						if rack := c.racks[id-1]; rack != "" {
							used[rack] = true
						}
						if i > 0 {
							follows[[2]int32{replicas[0], id}]++
						}
					}
					if !racks[""] && len(used) != min(c.factor, len(racks)) {
						t.Errorf("replicas %v are on %d racks", replicas, len(used))
					}
				}
				for id := int32(1); int(id) <= n; id++ {
					if leads[id] != count/n || holds[id] != count*c.factor/n {
						t.Errorf("node %d leads %d of %d partitions and has %d replicas", id, leads[id], count, holds[id])
					}
				}
				if c.factor > 1 && racks[""] && len(follows) != n*(n-1) {
					t.Errorf("%d of %d pairs of leader and follower", len(follows), n*(n-1))
				}
			})
		}
	}
}

func TestTopicsArePlaced(t *testing.T) {
	cfg := testConfig(t)
	m := imagine(t, cfg)
	create := func(name string, partitions int32, factor int16, asked ...[]int32) kmsg.CreateTopicsResponseTopic {
		t.Helper()
		ask := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, factor
		for i, replicas := range asked {
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: replicas})
		}
		ask.Topics = append(ask.Topics, rt)
		return m.ask(19, 7, ask).(*kmsg.CreateTopicsResponse).Topics[0]
	}
	if r := create("a", 6, 2); r.ErrorCode != 0 || r.NumPartitions != 6 || r.ReplicationFactor != 2 {
		t.Errorf("%+v", r)
	}
	leads := make(map[int32]int)
	for _, p := range m.topics.byName("a").Partitions {
		leads[p.Leader]++
		if len(p.Replicas) != 2 || slices.Contains(p.Replicas, 4) || !slices.Equal(p.Replicas, p.ISR) {
			t.Errorf("partition %+v", p)
		}
	}
	if leads[1] != 2 || leads[2] != 2 || leads[3] != 2 {
		t.Errorf("leaders %v", leads)
	}
	if r := create("b", 2, 5); r.ErrorCode != 0 || r.ReplicationFactor != 4 {
		t.Errorf("a factor of 5 where there are 4 nodes: %+v", r)
	}
	for _, p := range m.topics.byName("b").Partitions {
		if p.Replicas[3] != 4 || len(p.ISR) != 3 || slices.Contains(p.ISR, 4) {
			t.Errorf("with a fenced broker: %+v", p)
		}
	}
	if r := create("d", 1, -1); r.ErrorCode != 0 || r.ReplicationFactor != 3 || slices.Contains(m.topics.byName("d").Partitions[0].Replicas, 4) {
		t.Errorf("the default: %+v", r)
	}
	if r := create("c", -1, -1, []int32{4, 3}, []int32{1, 2}); r.ErrorCode != 0 || r.ReplicationFactor != 2 {
		t.Errorf("asked: %+v", r)
	}
	if p := m.topics.byName("c").Partitions[0]; p.Leader != 3 || !slices.Equal(p.ISR, []int32{3}) {
		t.Errorf("on a fenced broker: %+v", p)
	}
	for name, asked := range map[string][][]int32{
		"unknown": {{1, 9}}, "twice": {{1, 1}}, "uneven": {{1, 2}, {1}}, "none": {{}}, "fenced": {{4}},
	} {
		if r := create(name, -1, -1, asked...); !errors.Is(kerr.ErrorForCode(r.ErrorCode), kerr.InvalidReplicaAssignment) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	grow := func(count int32, asked ...[]int32) int16 {
		ask := kmsg.NewPtrCreatePartitionsRequest()
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = "c", count
		for _, replicas := range asked {
			rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		ask.Topics = append(ask.Topics, rt)
		return m.ask(37, 3, ask).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	}
	if e := grow(3, []int32{1}); e != kerr.InvalidReplicaAssignment.Code {
		t.Errorf("grown with another number of replicas: %d", e)
	}
	if e := grow(3, []int32{2, 1}, []int32{2, 1}); e != kerr.InvalidReplicaAssignment.Code {
		t.Errorf("grown by one, assigned two: %d", e)
	}
	if e := grow(3, []int32{2, 1}); e != 0 || m.topics.byName("c").Partitions[2].Leader != 2 {
		t.Errorf("grown: %d", e)
	}
	if e := grow(7); e != 0 || len(m.topics.byName("c").Partitions[6].Replicas) != 2 {
		t.Errorf("grown: %d", e)
	}
}
