package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func change(id int32, generation int64, to BrokerState) Command {
	return Command{ChangeBroker: &ChangeBroker{ID: id, Generation: generation, To: to}}
}

// state is a partition as a short text: leader@epoch replicas/in-sync, and what a move under way adds and removes.
func state(m *Image, i int) string {
	p := m.Topic("x").Partitions[i]
	s := fmt.Sprintf("%d@%d %v/%v", p.Leader, p.LeaderEpoch, p.Replicas, p.ISR)
	if len(p.Adding)+len(p.Removing) > 0 {
		s += fmt.Sprintf(" +%v-%v", p.Adding, p.Removing)
	}
	return s
}

func TestWhoLeads(t *testing.T) {
	isr := func(leader int32, generation int64, epochs [2]int32, members ...int32) Command {
		c := ISRChange{ID: ID{1}, LeaderEpoch: epochs[0], PartitionEpoch: epochs[1], ISR: members}
		for range members {
			c.Generations = append(c.Generations, 1)
		}
		c.Generations[0] = generation
		return Command{AlterPartitions: &AlterPartitions{Broker: leader, Generation: generation, Changes: []ISRChange{c}}}
	}
	move := func(to ...int32) Command {
		return Command{AssignReplicas: &AssignReplicas{Changes: []Assignment{{ID: ID{1}, Replicas: to}}}}
	}
	elect := func(how Election) Command { return Command{ElectLeaders: &ElectLeaders{How: how}} }
	type step struct {
		c    Command
		want string
	}
	for name, tc := range map[string]struct {
		configs map[string]string
		steps   []step
	}{
		"fenced one by one": {nil, []step{
			{change(1, 1, BrokerFenced), "2@1 [1 2 3]/[2 3]"},
			{change(3, 1, BrokerFenced), "2@1 [1 2 3]/[2]"},
			{change(2, 1, BrokerFenced), "-1@2 [1 2 3]/[2]"},
			{change(1, 1, BrokerActive), "-1@2 [1 2 3]/[2]"},
			{change(2, 1, BrokerActive), "2@3 [1 2 3]/[2]"},
			{elect(ElectPreferred), "2@3 [1 2 3]/[2]"},
			{isr(2, 1, [2]int32{3, 4}, 2, 1), "2@3 [1 2 3]/[2 1]"},
			{elect(ElectPreferred), "1@4 [1 2 3]/[2 1]"},
		}},
		"unclean where allowed": {map[string]string{"unclean.leader.election.enable": "true"}, []step{
			{change(2, 1, BrokerFenced), "1@0 [1 2 3]/[1 3]"},
			{change(3, 1, BrokerFenced), "1@0 [1 2 3]/[1]"},
			{change(3, 1, BrokerActive), "1@0 [1 2 3]/[1]"},
			{change(1, 1, BrokerFenced), "3@1 [1 2 3]/[3]"},
		}},
		"unclean when asked": {nil, []step{
			{change(2, 1, BrokerFenced), "1@0 [1 2 3]/[1 3]"},
			{change(3, 1, BrokerFenced), "1@0 [1 2 3]/[1]"},
			{change(1, 1, BrokerFenced), "-1@1 [1 2 3]/[1]"},
			{elect(ElectUnclean), "-1@1 [1 2 3]/[1]"},
			{change(2, 1, BrokerActive), "-1@1 [1 2 3]/[1]"},
			{elect(ElectUnclean), "2@2 [1 2 3]/[2]"},
		}},
		"leaving leads on alone": {nil, []step{
			{change(1, 1, BrokerLeaving), "2@1 [1 2 3]/[2 3]"},
			{change(3, 1, BrokerLeaving), "2@1 [1 2 3]/[2]"},
			{change(2, 1, BrokerLeaving), "2@1 [1 2 3]/[2]"},
			{change(2, 1, BrokerFenced), "-1@2 [1 2 3]/[2]"},
		}},
		"starts that keep what they have outlast one that doesn't come back": {nil, []step{
			{Command{RegisterBroker: &RegisterBroker{ID: 1, Keeps: 1}}, "2@1 [1 2 3]/[1 2 3]"},
			{Command{RegisterBroker: &RegisterBroker{ID: 2, Keeps: 1}}, "3@2 [1 2 3]/[1 2 3]"}, // 3 is believed to be there
			{change(2, 2, BrokerActive), "3@2 [1 2 3]/[1 2 3]"},
			{change(3, 1, BrokerFenced), "2@3 [1 2 3]/[1 2]"},
			{change(1, 2, BrokerActive), "2@3 [1 2 3]/[1 2]"},
			{Command{RegisterBroker: &RegisterBroker{ID: 1, Keeps: 1}}, "2@3 [1 2 3]/[2]"}, // its folder is older than its last start
			{Command{RegisterBroker: &RegisterBroker{ID: 2, Keeps: 2}}, "-1@4 [1 2 3]/[2]"},
			{change(2, 3, BrokerActive), "2@5 [1 2 3]/[2]"},
		}},
		"a move ends when who stays comes in": {nil, []step{
			{Command{RegisterBroker: &RegisterBroker{ID: 3, Keeps: 1}}, "1@0 [1 2 3]/[1 2 3]"},
			{move(3), "1@0 [3 1 2]/[1 2 3] +[]-[1 2]"},
			{change(3, 2, BrokerActive), "3@1 [3]/[3]"},
		}},
		"a start goes out, then comes in": {nil, []step{
			{Command{RegisterBroker: &RegisterBroker{ID: 1}}, "2@1 [1 2 3]/[2 3]"},
			{isr(2, 1, [2]int32{1, 1}, 2, 3, 1), "2@1 [1 2 3]/[2 3]"}, // 1 is fenced
			{change(1, 2, BrokerActive), "2@1 [1 2 3]/[2 3]"},
			{isr(2, 1, [2]int32{1, 1}, 2, 3, 1), "2@1 [1 2 3]/[2 3]"}, // 1's start before
			{isr(2, 1, [2]int32{1, 0}, 2), "2@1 [1 2 3]/[2 3]"},
			{isr(2, 1, [2]int32{0, 1}, 2), "2@1 [1 2 3]/[2 3]"},
			{isr(3, 1, [2]int32{1, 1}, 3), "2@1 [1 2 3]/[2 3]"},
			{isr(2, 1, [2]int32{1, 1}, 3), "2@1 [1 2 3]/[2 3]"},
			{isr(2, 1, [2]int32{1, 1}, 2, 4), "2@1 [1 2 3]/[2 3]"},
			{isr(2, 1, [2]int32{1, 1}, 2), "2@1 [1 2 3]/[2]"},
		}},
		"moved": {nil, []step{
			{move(4, 2), "1@0 [4 2 1 3]/[1 2 3] +[4]-[1 3]"},
			{isr(1, 1, [2]int32{0, 1}, 1, 2, 3, 4), "4@1 [4 2]/[2 4]"},
		}},
		"moved back": {nil, []step{
			{move(4), "1@0 [4 1 2 3]/[1 2 3] +[4]-[1 2 3]"},
			{move(), "1@1 [1 2 3]/[1 2 3]"},
			{move(), "1@1 [1 2 3]/[1 2 3]"},
			{move(9), "1@1 [1 2 3]/[1 2 3]"},
			{move(3, 3), "1@1 [1 2 3]/[1 2 3]"},
		}},
		"fewer, without the leader": {nil, []step{{move(3, 2), "3@1 [3 2]/[2 3]"}}},
		"fewer, with the leader":    {nil, []step{{move(1, 2), "1@1 [1 2]/[1 2]"}}}, // of another epoch: 3 may come again with an empty log
		"in another order":          {nil, []step{{move(3, 2, 1), "1@0 [3 2 1]/[1 2 3]"}}},
	} {
		m := started(t, 1, 2, 3, 4)
		apply(t, m, Command{CreateTopic: &CreateTopic{ID: ID{1}, Name: "x", Replicas: [][]int32{{1, 2, 3}}, Configs: tc.configs}})
		for i, s := range tc.steps {
			apply(t, m, s.c)
			if got := state(m, 0); got != s.want {
				t.Errorf("%s, step %d: %s, want %s", name, i, got, s.want)
			}
		}
	}
}

func TestChangesAreRefusedEachForItself(t *testing.T) {
	m := started(t, 1, 2)
	apply(t, m, Command{CreateTopic: &CreateTopic{ID: ID{1}, Name: "x", Replicas: [][]int32{{1, 2}, {2, 1}, {1, 2}}}})
	before := m.Topic("x")
	r := apply(t, m, Command{AlterPartitions: &AlterPartitions{Broker: 1, Generation: 1, Changes: []ISRChange{
		{ID: ID{1}, Partition: 0, ISR: []int32{1}, Generations: []int64{1}},
		{ID: ID{1}, Partition: 1, ISR: []int32{1}, Generations: []int64{1}},
		{ID: ID{1}, Partition: 2, ISR: []int32{1}, Generations: []int64{1}},
		{ID: ID{1}, Partition: 3, ISR: []int32{1}, Generations: []int64{1}},
		{ID: ID{2}, Partition: 0, ISR: []int32{1}, Generations: []int64{1}},
	}}})
	for i, want := range []error{nil, ErrNotLeader, nil, ErrUnknownTopic, ErrUnknownTopic} {
		if !errors.Is(r.Refused[i], want) {
			t.Errorf("change %d: %v", i, r.Refused[i])
		}
	}
	if len(r.Changed) != 1 || r.Changed[0] != m.Topic("x") || len(before.Partitions[0].ISR) != 2 || len(before.Partitions[2].ISR) != 2 {
		t.Errorf("changed %v; as it was seen before %+v", r.Changed, before.Partitions)
	}
	if state(m, 0) != "1@0 [1 2]/[1]" || state(m, 1) != "2@0 [2 1]/[2 1]" || state(m, 2) != "1@0 [1 2]/[1]" {
		t.Errorf("%s, %s, %s", state(m, 0), state(m, 1), state(m, 2))
	}
}

func TestNodeIDsAreNeverGivenTwice(t *testing.T) {
	m := started(t, 1, 5)
	for i, want := range []int32{6, 9, 10} {
		c := Command{AllocateNodeID: &AllocateNodeID{}}
		if want == 9 {
			c.AllocateNodeID.Want = 9
		}
		if r := apply(t, m, c); r.NodeID != want {
			t.Errorf("%d: id %d", i, r.NodeID)
		}
	}
	apply(t, m, change(5, 1, BrokerFenced))
	apply(t, m, Command{UnregisterBroker: &UnregisterBroker{ID: 5}})
	other := NewImage()
	for _, c := range m.snapshot(defaultPerPart) {
		apply(t, other, c)
	}
	if r := apply(t, other, Command{AllocateNodeID: &AllocateNodeID{}}); r.NodeID != 11 {
		t.Errorf("after a snapshot: id %d", r.NodeID)
	}
}

// TestPartitionsStaySound: whatever the commands, whoever leads is in sync and allowed to, and no epoch falls or has two leaders.
func TestPartitionsStaySound(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := started(t, 1, 2, 3, 4)
		for i := range 3 {
			c := &CreateTopic{ID: ID{byte(i)}, Name: fmt.Sprint(i), Replicas: [][]int32{{1, 2, 3}, {2, 3, 4}, {4, 1}}}
			if i == 2 {
				c.Configs = map[string]string{"unclean.leader.election.enable": "true"}
			}
			apply(t, m, Command{CreateTopic: c})
		}
		for range 200 {
			before := m.clone()
			c := randomClusterCommand(rng, m)
			r, err := m.Apply(c)
			for _, topic := range before.Topics() {
				next := m.TopicByID(topic.ID)
				isNamed := slices.Contains(r.Changed, next)
				if isNamed != (next != topic) || err != nil && isNamed {
					t.Fatalf("seed %d: %+v: topic %s changed, named %v", seed, c, topic.Name, isNamed)
				}
				for i := range topic.Partitions {
					if fault := unsound(m, &topic.Partitions[i], &next.Partitions[i]); fault != "" {
						b, _ := c.Encode()
						t.Fatalf("seed %d: %s: %s: was %+v, is %+v", seed, b, fault, topic.Partitions[i], next.Partitions[i])
					}
				}
			}
		}
	}
}

func randomClusterCommand(rng *rand.Rand, m *Image) Command {
	id := 1 + rng.Int32N(4)
	b, _ := m.Broker(id)
	ref := PartitionRef{ID: ID{byte(rng.IntN(3))}, Partition: rng.Int32N(3)}
	p := m.TopicByID(ref.ID).Partitions[ref.Partition]
	some := func() (ids []int32) {
		for _, n := range rng.Perm(4)[:1+rng.IntN(3)] {
			ids = append(ids, int32(n)+1)
		}
		return ids
	}
	switch rng.IntN(8) {
	case 0:
		return Command{RegisterBroker: &RegisterBroker{ID: id}}
	case 1:
		return change(id, b.Generation, BrokerFenced)
	case 2:
		return change(id, b.Generation, BrokerLeaving)
	case 3, 4:
		return change(id, b.Generation, BrokerActive)
	case 5:
		a := &AlterPartitions{Broker: p.Leader, Generation: m.brokers[p.Leader].Generation}
		for range 1 + rng.IntN(2) {
			c := ISRChange{ID: ref.ID, Partition: ref.Partition, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: some()}
			for _, id := range c.ISR {
				c.Generations = append(c.Generations, m.brokers[id].Generation)
			}
			a.Changes = append(a.Changes, c)
		}
		return Command{AlterPartitions: a}
	case 6:
		how := ElectPreferred
		if rng.IntN(4) == 0 {
			how = ElectUnclean
		}
		return Command{ElectLeaders: &ElectLeaders{How: how, Partitions: []PartitionRef{ref}}}
	default:
		a := Assignment{ID: ref.ID, Partition: ref.Partition}
		if rng.IntN(3) > 0 {
			a.Replicas = some()
		}
		return Command{AssignReplicas: &AssignReplicas{Changes: []Assignment{a}}}
	}
}

// unsound says what is wrong with a partition, or with how it has changed.
func unsound(m *Image, was, is *Partition) string {
	has := func(set []int32, ids ...int32) bool {
		for _, id := range ids {
			if !slices.Contains(set, id) {
				return false
			}
		}
		return true
	}
	leader, known := m.Broker(is.Leader)
	switch {
	case len(is.ISR) == 0 || !has(is.Replicas, is.ISR...):
		return "in-sync set"
	case !has(is.Replicas, is.Adding...) || !has(is.Replicas, is.Removing...):
		return "move"
	case is.Leader != NoLeader && (!known || leader.State == BrokerFenced || !has(is.ISR, is.Leader)):
		return "leader that may not lead"
	case len(is.ISR) > 1 && slices.ContainsFunc(is.ISR, func(id int32) bool { return !m.isActive(id) && m.brokers[id].State != BrokerLeaving }):
		return "in-sync set with one that is out"
	case is.LeaderEpoch < was.LeaderEpoch || is.PartitionEpoch < was.PartitionEpoch:
		return "epoch fell"
	case is.Leader != was.Leader && is.LeaderEpoch == was.LeaderEpoch:
		return "two leaders in an epoch"
	case !reflect.DeepEqual(is, was) && is.PartitionEpoch == was.PartitionEpoch:
		return "change without epoch"
	}
	return ""
}
