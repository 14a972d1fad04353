package meta

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func every() []Command {
	return []Command{
		{InitCluster: &InitCluster{ClusterID: "MkU3OEVBNTcwNTJENDM2Qg"}},
		{RegisterBroker: &RegisterBroker{ID: 1, Host: "127.0.0.1", Port: 9092, Rack: "a"}},
		{RegisterBroker: &RegisterBroker{ID: 2}},
		{ChangeBroker: &ChangeBroker{ID: 2, Generation: 1, To: BrokerActive}},
		{CreateTopic: &CreateTopic{ID: ID{1, 2}, Name: "orders", Replicas: [][]int32{{1}, {1, 2}}, Configs: map[string]string{"b": "2", "a": "1"}}},
		{CreateTopic: &CreateTopic{ID: ID{3}, Name: "plain", Replicas: [][]int32{{2}}}},
		{AddPartitions: &AddPartitions{ID: ID{1, 2}, From: 2, Replicas: [][]int32{{2, 1}}}},
		{AlterTopicConfigs: &AlterTopicConfigs{ID: ID{1, 2}, Remove: []string{"a"}, Set: map[string]string{"retention.ms": "5"}}},
		{AlterTopicConfigs: &AlterTopicConfigs{ID: ID{3}, Clear: true, Set: map[string]string{"retention.ms": "5"}}},
		{AllocateProducerIDs: &AllocateProducerIDs{Broker: 1, Count: 1000}},
		{AlterPartitions: &AlterPartitions{Broker: 1, Generation: 1, Changes: []ISRChange{
			{ID: ID{1, 2}, Partition: 1, ISR: []int32{1}, Generations: []int64{1}},
		}}},
		{ElectLeaders: &ElectLeaders{How: ElectPreferred}},
		{ElectLeaders: &ElectLeaders{How: ElectUnclean, Partitions: []PartitionRef{{ID: ID{1, 2}, Partition: 2}}}},
		{AssignReplicas: &AssignReplicas{Changes: []Assignment{{ID: ID{1, 2}, Replicas: []int32{2}}, {ID: ID{1, 2}, Partition: 1}}}},
		{AllocateNodeID: &AllocateNodeID{}},
		{AllocateNodeID: &AllocateNodeID{Want: 7}},
		{RegisterBroker: &RegisterBroker{ID: 8, Keeps: 3}},
		{UnregisterBroker: &UnregisterBroker{ID: 8}},
		{ChangeBroker: &ChangeBroker{ID: 2, Generation: 1, To: BrokerLeaving}},
		{ChangeBroker: &ChangeBroker{ID: 2, Generation: 1, To: BrokerFenced}},
		{DeleteTopic: &DeleteTopic{ID: ID{3}}},
	}
}

// started is an image with active brokers of these ids, each in its first generation.
func started(t testing.TB, ids ...int32) *Image {
	m := NewImage()
	for _, id := range ids {
		for _, c := range []Command{{RegisterBroker: &RegisterBroker{ID: id}}, {ChangeBroker: &ChangeBroker{ID: id, Generation: 1}}} {
			if _, err := m.Apply(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

// written is every command in every form, those of a snapshot too.
func written() []Command {
	image := NewImage()
	for _, c := range every()[:len(every())-1] {
		_, _ = image.Apply(c)
	}
	return append(every(), image.snapshot(defaultPerPart)...)
}

// TestGoldenCommands: what was written once is written alike and read for ever.
func TestGoldenCommands(t *testing.T) {
	var buf bytes.Buffer
	for _, c := range written() {
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&buf, "%s\n", b)
	}
	const file = "testdata/commands.golden"
	if *rewrite {
		if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, buf.Bytes()) {
		t.Errorf("encoding has changed:\n%s\nwas:\n%s", buf.Bytes(), golden)
	}
	lines := bufio.NewScanner(bytes.NewReader(golden))
	for _, want := range written() {
		lines.Scan()
		got, err := Decode(lines.Bytes())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", lines.Text(), got, err)
		}
	}
}

func TestRefusedCommands(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"v":1}`, `[]`, `{"v":1,"delete_topic":{"id":"00"}}`,
		`{"v":2,"init_cluster":{"cluster_id":"x"}}`, `{"init_cluster":{"cluster_id":"x"}}`,
		`{"v":1,"init_cluster":{"cluster_id":"x"},"register_broker":{"id":1}}`,
		`{"v":1,"init_cluster":{"cluster_id":"x","more":1}}`, `{"v":1,"fly":{}}`,
		`{"v":1,"init_cluster":{"cluster_id":"x"}} {}`,
		`{"v":1,"create_topic":{"id":"01000000000000000000000000000000","name":"x","replicas":[]}}`,
		`{"v":1,"create_topic":{"id":"01000000000000000000000000000000","name":"x","replicas":[[]]}}`,
		`{"v":1,"allocate_producer_ids":{"broker":1,"count":0}}`,
		`{"v":1,"change_broker":{"id":1,"generation":1,"to":"asleep"}}`, `{"v":1,"elect_leaders":{"how":"by lot"}}`,
		`{"v":1,"alter_partitions":{"broker":1,"generation":1,"changes":[{"id":"01000000000000000000000000000000","partition":0,"isr":[],"generations":[]}]}}`,
		`{"v":1,"alter_partitions":{"broker":1,"generation":1,"changes":[{"id":"01000000000000000000000000000000","partition":0,"isr":[1],"generations":[]}]}}`,
		`{"v":1,"allocate_node_id":{"want":-1}}`,
		`{"v":1,"snapshot":{"part":2,"of":2}}`, `{"v":1,"snapshot":{"part":-1,"of":2}}`, `{"v":1,"snapshot":{}}`,
	} {
		if c, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s is taken as %+v", text, c)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range written() {
		b, err := c.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			return
		}
		if _, err := c.Encode(); err != nil {
			t.Fatalf("decoded, but not encodable: %v", err)
		}
		_, _ = NewImage().Apply(c)
	})
}

func apply(t *testing.T, m *Image, c Command) Result {
	t.Helper()
	r, err := m.Apply(c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return r
}

func TestImage(t *testing.T) {
	m := NewImage()
	for _, c := range every() {
		apply(t, m, c)
	}
	if m.ClusterID() != "MkU3OEVBNTcwNTJENDM2Qg" || m.PartitionCount() != 3 || m.NextProducerID() != 1000 {
		t.Errorf("%+v", m)
	}
	if len(m.Topics()) != 1 || m.Topic("plain") != nil || m.TopicByID(ID{3}) != nil {
		t.Errorf("topics %v", m.Topics())
	}
	orders := m.Topic("orders")
	if !maps.Equal(orders.Configs, map[string]string{"b": "2", "retention.ms": "5"}) {
		t.Errorf("configs %v", orders.Configs)
	}
	apply(t, m, Command{AlterTopicConfigs: &AlterTopicConfigs{ID: ID{1, 2}, Clear: true, Set: map[string]string{"c": "3"}}})
	if got := m.Topic("orders").Configs; !maps.Equal(got, map[string]string{"c": "3"}) || len(orders.Configs) != 2 {
		t.Errorf("configs %v, of the topic seen before %v", got, orders.Configs)
	}
	apply(t, m, Command{InitCluster: &InitCluster{ClusterID: "another"}})
	if m.ClusterID() != "MkU3OEVBNTcwNTJENDM2Qg" {
		t.Error("a second cluster id wins")
	}
	if r := apply(t, m, Command{AllocateProducerIDs: &AllocateProducerIDs{Count: 5}}); r.FirstProducerID != 1000 {
		t.Errorf("block begins at %d", r.FirstProducerID)
	}
}

func TestRegistrationRaisesEpochsOfTheLeaderOnly(t *testing.T) {
	m := started(t, 1)
	apply(t, m, Command{CreateTopic: &CreateTopic{ID: ID{1}, Name: "x", Replicas: [][]int32{{1}, {2, 1}}}})
	before := m.Topic("x")
	if r := apply(t, m, Command{RegisterBroker: &RegisterBroker{ID: 1}}); len(r.Changed) != 1 || r.Generation != 2 {
		t.Errorf("%+v", r)
	}
	after := m.Topic("x")
	for i, p := range after.Partitions {
		if p.Leader != 1 || p.LeaderEpoch != 1 || p.PartitionEpoch != 1 {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if before.Partitions[0].LeaderEpoch != 0 {
		t.Error("a topic that was seen has changed")
	}
	if m.TopicByID(ID{1}) != after {
		t.Error("the two indexes differ")
	}
	if r := apply(t, m, Command{RegisterBroker: &RegisterBroker{ID: 3}}); len(r.Changed) != 0 || r.Generation != 1 {
		t.Errorf("a broker that leads nothing: %+v", r)
	}
	if b, _ := m.Broker(1); b.Generation != 2 || b.State != BrokerActive {
		t.Errorf("%+v", b)
	}
	if b, _ := m.Broker(3); b.State != BrokerFenced {
		t.Errorf("a second broker is active before it says that it is ready: %+v", b)
	}
}

func TestFailedCommandsChangeNothing(t *testing.T) {
	m := started(t, 1)
	create := Command{CreateTopic: &CreateTopic{ID: ID{1}, Name: "x", Replicas: [][]int32{{1}}}}
	apply(t, m, create)
	for name, tc := range map[string]struct {
		c    Command
		want error
	}{
		"same name":      {Command{CreateTopic: &CreateTopic{ID: ID{2}, Name: "x", Replicas: [][]int32{{1}}}}, ErrTopicExists},
		"same id":        {Command{CreateTopic: &CreateTopic{ID: ID{1}, Name: "y", Replicas: [][]int32{{1}}}}, ErrTopicExists},
		"unknown":        {Command{DeleteTopic: &DeleteTopic{ID: ID{9}}}, ErrUnknownTopic},
		"unknown config": {Command{AlterTopicConfigs: &AlterTopicConfigs{ID: ID{9}}}, ErrUnknownTopic},
		"grown by now":   {Command{AddPartitions: &AddPartitions{ID: ID{1}, From: 2, Replicas: [][]int32{{1}}}}, ErrPartitions},
		"none to grow":   {Command{AddPartitions: &AddPartitions{ID: ID{7}, From: 1, Replicas: [][]int32{{1}}}}, ErrUnknownTopic},
		"nobody there":   {Command{CreateTopic: &CreateTopic{ID: ID{2}, Name: "y", Replicas: [][]int32{{1}, {2, 3}}}}, ErrNoReplica},
		"older start":    {Command{ChangeBroker: &ChangeBroker{ID: 1, Generation: 0, To: BrokerFenced}}, ErrStaleBroker},
		"unknown broker": {Command{ChangeBroker: &ChangeBroker{ID: 2, Generation: 1}}, ErrUnknownNode},
		"active broker":  {Command{UnregisterBroker: &UnregisterBroker{ID: 1}}, ErrInUse},
		"used id":        {Command{AllocateNodeID: &AllocateNodeID{Want: 1}}, ErrNodeID},
		"stale leader":   {Command{AlterPartitions: &AlterPartitions{Broker: 1, Generation: 2}}, ErrStaleBroker},
		"exhausted":      {Command{AllocateProducerIDs: &AllocateProducerIDs{Count: 1<<63 - 1}}, ErrExhausted},
		"empty":          {Command{}, ErrVersion},
	} {
		if _, err := m.Apply(tc.c); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m.PartitionCount() != 1 || len(m.Topics()) != 1 || m.NextProducerID() != 0 {
		t.Errorf("%+v", m)
	}
}

func TestIDText(t *testing.T) {
	var id ID
	for _, bad := range []string{"", "zz", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32)} {
		if id.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
