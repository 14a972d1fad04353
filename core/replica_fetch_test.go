package core

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// copier is node 2 as node 1 sees it: what it asks is the test's.
type copier struct {
	*node
	t         *testing.T
	id, epoch int32
	topic     [16]byte
}

// reply is an answer, perhaps to come. Its records are read when the test does.
type reply struct {
	t      *testing.T
	isDone bool
	resp   kmsg.Response
}

// newCopier makes a topic of some partitions that node 1 leads and node 2 copies. No clock runs.
func newCopier(t *testing.T, partitions int) *copier {
	t.Helper()
	c := newCluster(t, func(cfg *Config) { cfg.ReplicaFetchBytes = 1 << 20 }, 1)
	n := c.nodes[1]
	c.until("it is active", c.areActive(1))
	f := &copier{node: n, t: t, topic: [16]byte{9}}
	create := &meta.CreateTopic{ID: f.topic, Name: "t"}
	for range partitions {
		create.Replicas = append(create.Replicas, []int32{1, 2})
	}
	for _, command := range []meta.Command{
		{RegisterBroker: &meta.RegisterBroker{ID: 2, Host: "n2", Port: 9092}},
		{ChangeBroker: &meta.ChangeBroker{ID: 2, Generation: 1, To: meta.BrokerActive}},
		{CreateTopic: create},
	} {
		isDone := false
		n.meta.Propose(command, c.now, func(_ meta.Result, err error) {
			if isDone = true; err != nil {
				t.Fatal(err)
			}
		})
		for range 5 {
			n.sync()
		}
		if !isDone {
			t.Fatal("the image isn't changed")
		}
	}
	return f
}

// ask is what is asked of a partition: its log's end, that of what is durable, and its newest epoch.
func ask(index int32, next, durableEnd int64, lastEpoch int32) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.LastFetchedEpoch, p.CurrentLeaderEpoch, p.PartitionMaxBytes = index, next, lastEpoch, 0, 1<<20
	p.UnknownTags.Set(replica.DurableEndTag, binary.BigEndian.AppendUint64(nil, uint64(durableEnd)))
	return p
}

func (f *copier) request(asks ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxBytes, r.MaxWaitMillis, r.MinBytes = 18, 1<<20, 500, 1
	r.ReplicaState.ID, r.ReplicaState.Epoch = 2, 1
	r.SessionID, r.SessionEpoch = f.id, f.epoch
	if len(asks) > 0 {
		r.Topics = []kmsg.FetchRequestTopic{{TopicID: f.topic, Partitions: asks}}
	}
	return r
}

func (f *copier) send(r *kmsg.FetchRequest) *reply {
	a := &reply{t: f.t}
	f.Handle(&Request{Key: keyFetch, Version: r.Version, Body: r, Now: f.c.now, Peer: 2}, func(resp kmsg.Response) {
		if a.isDone {
			f.t.Fatal("answered twice")
		}
		a.isDone, a.resp = true, resp
	})
	return a
}

// fetch asks in the session.
func (f *copier) fetch(asks ...kmsg.FetchRequestTopicPartition) *reply {
	a := f.send(f.request(asks...))
	if f.epoch > 0 {
		f.epoch++
	}
	return a
}

// begin begins a session.
func (f *copier) begin(asks ...kmsg.FetchRequestTopicPartition) *kmsg.FetchResponse {
	f.t.Helper()
	f.id, f.epoch = 0, 0
	resp := f.fetch(asks...).read()
	f.id, f.epoch = resp.SessionID, 1
	return resp
}

func (a *reply) read() *kmsg.FetchResponse {
	a.t.Helper()
	if !a.isDone {
		a.t.Fatal("there is no answer yet")
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 18
	if err := resp.ReadFrom(a.resp.AppendTo(nil)); err != nil {
		a.t.Fatal(err)
	}
	return resp
}

// records is what an answer brings: PARTITION:OFFSET for each batch.
func records(resp *kmsg.FetchResponse) string {
	var all []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for rest := storage.Batch(p.RecordBatches); len(rest) > 0; {
				b, err := storage.ParseBatch(rest)
				if err != nil {
					return err.Error()
				}
				all = append(all, fmt.Sprintf("%d:%d", p.Partition, b.BaseOffset()))
				rest = rest[len(b):]
			}
		}
	}
	return strings.Join(all, " ")
}

func (f *copier) append(index int32, sizeBytes int) {
	f.t.Helper()
	b := record.AppendBatch(nil, []record.Record{{Value: make([]byte, sizeBytes)}}, f.c.now)
	if err := f.Replica("t", index).Append(b, replica.AcksNone, 1, f.c.now, func(storage.Appended, error) {}); err != nil {
		f.t.Fatal(err)
	}
	f.sync()
}

// only is the one partition of an answer.
func only(t *testing.T, resp *kmsg.FetchResponse) *kmsg.FetchResponseTopicPartition {
	t.Helper()
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("want one partition: %+v", resp)
	}
	return &resp.Topics[0].Partitions[0]
}

// Two fetches are under way: the newer answers the older, and no records are sent twice, whenever the answers are read.
func TestFollowersFetchesTakeTurns(t *testing.T) {
	f := newCopier(t, 1)
	if resp := f.begin(ask(0, 0, 0, -1)); resp.ErrorCode != 0 || f.id == 0 {
		t.Fatalf("%+v", resp)
	}
	first := f.fetch()
	if first.isDone {
		t.Fatal("answered with nothing")
	}
	second := f.fetch()
	if !first.isDone || second.isDone || records(first.read()) != "" {
		t.Fatal("the newer fetch must answer the older")
	}
	f.append(0, 10)
	if !second.isDone {
		t.Fatal("records don't answer")
	}
	third := f.fetch() // it left before the answer to the second came
	f.append(0, 10)
	if third.isDone {
		t.Error("answered before it is known what the second answer brings")
	}
	if got := records(second.read()); got != "0:0 0:1" {
		t.Errorf("second answer: %q", got)
	}
	if third.isDone {
		t.Error("answered with what is on its way")
	}
	fourth := f.fetch(ask(0, 2, 0, 0))
	if !third.isDone || records(third.read()) != "" || fourth.isDone {
		t.Error("the third has nothing to tell")
	}
	if hw := f.Replica("t", 0).HighWatermark(); hw != 0 {
		t.Errorf("high watermark %d", hw)
	}
	fifth := f.fetch(ask(0, 2, 2, 0))
	if hw := f.Replica("t", 0).HighWatermark(); hw != 2 {
		t.Errorf("high watermark %d", hw)
	}
	if p := only(t, fourth.read()); p.HighWatermark != 2 || len(p.RecordBatches) != 0 {
		t.Errorf("fourth answer: %+v", p)
	}
	f.append(0, 10)
	if got := records(fifth.read()); got != "0:2" {
		t.Errorf("fifth answer: %q", got)
	}
}

// What a follower was sent and didn't take is sent again, two fetches later at the latest.
func TestFollowersLostRecords(t *testing.T) {
	f := newCopier(t, 1)
	f.append(0, 10)
	if got := records(f.begin(ask(0, 0, 0, -1))); got != "0:0" {
		t.Fatalf("first answer: %q", got)
	}
	first := f.fetch()
	if first.isDone {
		t.Fatal("sent twice")
	}
	second := f.fetch()
	if got := records(first.read()); got != "0:0" || second.isDone {
		t.Errorf("then: %q", got)
	}
	r := f.request(ask(0, 0, 0, -1))
	r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: f.topic, Partitions: []int32{0}}}
	third := f.send(r)
	f.epoch++
	if got := records(second.read()) + records(third.read()); got != "0:0" {
		t.Errorf("forgotten and named: %q", got)
	}
	f.id, f.epoch = 0, 0
	if got := records(f.begin(ask(0, 0, 0, -1))); got != "0:0" {
		t.Errorf("in a new session: %q", got)
	}
}

// Each partition has its turn, whatever the limits, and there is always one batch.
func TestFollowersPartitionsTakeTurns(t *testing.T) {
	f := newCopier(t, 3)
	var asks []kmsg.FetchRequestTopicPartition
	for i := range int32(3) {
		f.append(i, 700<<10)
		f.append(i, 700<<10)
		asks = append(asks, ask(i, 0, 0, -1))
	}
	for i := range asks {
		asks[i].PartitionMaxBytes = 1
	}
	resp := f.begin(asks...)
	var got []string
	next := make(map[int32]int64)
	for range 6 {
		came := records(resp)
		got = append(got, came)
		var index int32
		if _, err := fmt.Sscanf(came, "%d:", &index); err != nil {
			t.Fatalf("%q: %v", came, err)
		}
		next[index]++
		a := ask(index, next[index], next[index], 0)
		a.PartitionMaxBytes = 1
		reply := f.fetch(a)
		if !reply.isDone {
			break
		}
		resp = reply.read()
	}
	if want := "0:0 1:0 2:0 0:1 1:1 2:1"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A fetch of no bytes waits though there are records, and hears what is wrong.
func TestFollowerWantsNoRecords(t *testing.T) {
	f := newCopier(t, 2)
	f.begin(ask(0, 0, 0, -1), ask(1, 0, 0, -1))
	dry := f.request()
	dry.MaxBytes, dry.MaxWaitMillis = 0, 10
	reply := f.send(dry)
	f.epoch++
	f.append(0, 10)
	if reply.isDone {
		t.Fatal("answered with records that aren't wanted")
	}
	f.c.run(20 * time.Millisecond)
	if got := records(reply.read()); got != "" {
		t.Errorf("got %q", got)
	}
	dry = f.request(ask(1, 0, 0, 7)) // an epoch that the leader doesn't have
	dry.MaxBytes = 0
	reply = f.send(dry)
	f.epoch++
	if p := only(t, reply.read()); p.Partition != 1 || p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset == -1 {
		t.Errorf("diverging: %+v", p.DivergingEpoch)
	}
	if got := records(f.fetch().read()); got != "0:0" {
		t.Errorf("with room again: %q", got)
	}
}

func TestFollowersFetchErrors(t *testing.T) {
	f := newCopier(t, 1)
	for range 3 {
		f.append(0, 10)
	}
	if _, err := f.Replica("t", 0).Log().AdvanceStart(1); err != nil {
		t.Fatal(err)
	}
	with := func(change func(p *kmsg.FetchRequestTopicPartition)) kmsg.FetchRequestTopicPartition {
		p := ask(0, 3, 3, 0)
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		ask  kmsg.FetchRequestTopicPartition
		want *kerr.Error
	}{
		"an older leader epoch": {with(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = -1 }), nil}, // none is any
		"a newer leader epoch":  {with(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 1 }), kerr.UnknownLeaderEpoch},
		"no durable end":        {with(func(p *kmsg.FetchRequestTopicPartition) { p.UnknownTags = kmsg.Tags{} }), kerr.InvalidRequest},
		"below the start":       {ask(0, 0, 0, -1), kerr.OffsetOutOfRange},
		"no such partition":     {ask(1, 0, 0, -1), kerr.UnknownTopicOrPartition},
	} {
		resp := f.begin(c.ask)
		switch {
		case c.want == nil:
			if resp.ErrorCode != 0 || len(resp.Topics) == 1 && resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Errorf("%s: %+v", name, resp)
			}
		case only(t, resp).ErrorCode != c.want.Code:
			t.Errorf("%s: %+v, want %v", name, resp, c.want)
		case c.want == kerr.OffsetOutOfRange && only(t, resp).LogStartOffset != 1:
			t.Errorf("%s: the start isn't told: %+v", name, resp)
		}
		if again := f.fetch(); again.isDone { // it was told
			t.Errorf("%s: answered again: %+v", name, again.read())
		}
	}
	resp := f.begin(ask(0, 5, 5, 0)) // longer than the leader's
	if p := only(t, resp); p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 3 || p.ErrorCode != 0 {
		t.Errorf("diverging: %+v", p)
	}
	if hw := f.Replica("t", 0).HighWatermark(); hw != 3 {
		t.Errorf("high watermark %d: what parts doesn't count", hw)
	}

	id, epoch := f.id, f.epoch
	f.id++
	if resp := f.fetch().read(); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("another session: %+v", resp)
	}
	f.id, f.epoch = id, epoch+1
	if resp := f.fetch().read(); resp.ErrorCode != kerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("a session epoch left out: %+v", resp)
	}
	f.epoch = epoch
	if reply := f.fetch(); reply.isDone {
		t.Errorf("the session is spoiled: %+v", reply.read())
	}
	r := f.request()
	r.ReplicaState.ID = 3
	if resp := f.send(r).read(); resp.ErrorCode != kerr.ClusterAuthorizationFailed.Code {
		t.Errorf("node 2 says it is node 3: %+v", resp)
	}
}

// A leader that stops leading says so, and serves again when it leads again.
func TestFollowerIsToldOfTheEndOfALeadership(t *testing.T) {
	f := newCopier(t, 1)
	f.begin(ask(0, 0, 0, -1))
	reply := f.fetch()
	p := f.Replica("t", 0)
	a, _ := p.Assigned()
	a.Leader, a.LeaderEpoch, a.PartitionEpoch = 2, 1, a.PartitionEpoch+1
	p.Assign(a, f.c.now)
	if got := only(t, reply.read()).ErrorCode; got != kerr.NotLeaderForPartition.Code {
		t.Errorf("error %d", got)
	}
	a.Leader, a.LeaderEpoch, a.PartitionEpoch = 1, 2, a.PartitionEpoch+1
	p.Assign(a, f.c.now)
	again := ask(0, 0, 0, -1)
	again.CurrentLeaderEpoch = 2
	reply = f.fetch(again)
	if reply.isDone {
		t.Fatalf("%+v", reply.read())
	}
	f.append(0, 10)
	if got := records(reply.read()); got != "0:0" {
		t.Errorf("got %q", got)
	}
	// In another epoch of the same leader the follower must be asked anew before it gets what that one took.
	a.LeaderEpoch, a.PartitionEpoch = 3, a.PartitionEpoch+1
	p.Assign(a, f.c.now)
	again.FetchOffset, again.LastFetchedEpoch = 1, 2
	if got := only(t, f.fetch(again).read()).ErrorCode; got != kerr.FencedLeaderEpoch.Code {
		t.Errorf("error %d", got)
	}
}

// A follower that has registered again without an end of its session is known in its new generation, whatever it names.
func TestFollowerRegistersAgain(t *testing.T) {
	f := newCopier(t, 1)
	p := f.Replica("t", 0)
	a, _ := p.Assigned()
	a.ISR, a.PartitionEpoch = []int32{1}, a.PartitionEpoch+1
	p.Assign(a, f.c.now)
	f.begin(ask(0, 0, 0, -1))
	f.fetch()
	r := f.request()
	r.ReplicaState.Epoch = 2
	f.send(r)
	f.epoch++
	w, ok := p.Review(f.c.now, time.Second, func(_ int32, generation int64) bool { return generation == 2 })
	if !ok || !slices.Equal(w.ISR, []int32{1, 2}) || !slices.Equal(w.Generations, []int64{0, 2}) {
		t.Errorf("wish %+v, %t", w, ok)
	}
}

// A session of a follower that says nothing for long is given up.
func TestSilentFollowersSessionEnds(t *testing.T) {
	f := newCopier(t, 1)
	f.begin(ask(0, 0, 0, -1))
	f.followers.sweep(f.c.now.Add(longestSilence))
	first := f.fetch()
	if first.isDone {
		t.Fatalf("%+v", first.read())
	}
	f.followers.sweep(f.c.now.Add(longestSilence + time.Second))
	if !first.isDone {
		t.Error("what waited isn't answered")
	}
	if resp := f.fetch().read(); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("%+v", resp)
	}
}

// What only nodes of a cluster say is encoded as kmsg does it.
func TestFetchEncodingInACluster(t *testing.T) {
	b := newCopier(t, 1).Broker
	for v := int16(12); v <= 18; v++ {
		f := &fetch{FetchResponse: kmsg.NewPtrFetchResponse(), b: b}
		f.SetVersion(v)
		f.all = []fetchPart{
			{fetchAsk: fetchAsk{fetchKey: fetchKey{"a", [16]byte{1}, 0}}, hw: 7, diverging: &replica.Diverging{Epoch: 3, End: 5}},
			{fetchAsk: fetchAsk{fetchKey: fetchKey{"a", [16]byte{1}, 1}}, errorCode: 6, leader: &partLeader{2, 9}},
			{fetchAsk: fetchAsk{fetchKey: fetchKey{"a", [16]byte{1}, 2}}, errorCode: 6, leader: &partLeader{2, 8}},
			{fetchAsk: fetchAsk{fetchKey: fetchKey{"a", [16]byte{1}, 3}}, errorCode: 6, leader: &partLeader{meta.NoLeader, 4}},
		}
		want := kmsg.NewPtrFetchResponse()
		want.SetVersion(v)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = "a", [16]byte{1}
		for _, p := range f.all {
			part := kmsg.NewFetchResponseTopicPartition()
			part.Partition, part.ErrorCode, part.HighWatermark, part.LastStableOffset, part.LogStartOffset, part.RecordBatches = p.index, p.errorCode, p.hw, p.hw, 0, []byte{}
			if p.diverging != nil {
				part.DivergingEpoch.Epoch, part.DivergingEpoch.EndOffset = 3, 5
			}
			if p.leader != nil {
				part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = p.leader.id, p.leader.epoch
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		want.Topics = append(want.Topics, topic)
		node := kmsg.NewFetchResponseBroker()
		node.NodeID, node.Host, node.Port = 2, "n2", 9092
		want.Brokers = append(want.Brokers, node)
		if v < 16 {
			want.Brokers = nil
			for i := range f.all {
				f.all[i].leader = nil
				want.Topics[0].Partitions[i].CurrentLeader.Default()
			}
		}
		if got, want := f.AppendTo(nil), want.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("version %d: got\n%x, want\n%x", v, got, want)
		}
	}
}
