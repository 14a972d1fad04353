package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
	"github.com/weirlog/weir/storage/vfs"
)

// seed makes a topic with partitions and n records, numbered in their values.
func seed(t testing.TB, b *running, topic string, partitions int32, n int) *kadm.Client {
	t.Helper()
	cl := client(t, b, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return adm
}

// member consumes in a group until it is closed.
func member(t testing.TB, b *running, group, topic string, opts ...kgo.Opt) *kgo.Client {
	return client(t, b, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.HeartbeatInterval(100 * time.Millisecond), kgo.RebalanceTimeout(10 * time.Second)}, opts...)...)
}

func wait(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestGroupsShareTopic runs three members of each kind of protocol: when the group is at rest each has two of the six
// partitions, and together they read every record once.
func TestGroupsShareTopic(t *testing.T) {
	b := start(t, testConfig(t))
	adm := seed(t, b, "t", 6, 3000)
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "sticky": kgo.StickyBalancer(), "cooperative": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(wait(t))
			defer cancel()
			var members []*kgo.Client
			for range 3 {
				members = append(members, member(t, b, "g-"+name, "t", kgo.Balancers(balancer)))
			}
			atRest(ctx, t, adm, "g-"+name, 3, 2)
			var total atomic.Int64
			var seen sync.Map
			var readers sync.WaitGroup
			for _, cl := range members {
				readers.Go(func() {
					for ctx.Err() == nil {
						fs := cl.PollRecords(ctx, 50)
						fs.EachRecord(func(r *kgo.Record) { seen.Store(string(r.Value), true) })
						if total.Add(int64(fs.NumRecords())) >= 3000 {
							cancel()
						}
					}
				})
			}
			readers.Wait()
			distinct := 0
			seen.Range(func(any, any) bool { distinct++; return true })
			if distinct != 3000 || total.Load() != 3000 {
				t.Errorf("read %d records, %d of them different, of 3000", total.Load(), distinct)
			}
		})
	}
	groups, err := adm.ListGroups(wait(t))
	if err != nil || len(groups.Groups()) != 3 {
		t.Errorf("groups %v, %v", groups.Groups(), err)
	}
}

// atRest waits until a group is Stable with so many members, each with so many partitions.
func atRest(ctx context.Context, t *testing.T, adm *kadm.Client, group string, members, partitions int) {
	t.Helper()
	for {
		described, err := adm.DescribeGroups(ctx, group)
		if err != nil {
			t.Fatalf("group %s doesn't come to rest: %v", group, err)
		}
		g := described[group]
		good := g.State == "Stable" && len(g.Members) == members
		for _, m := range g.Members {
			assigned, ok := m.Assigned.AsConsumer()
			n := 0
			if ok {
				for _, topic := range assigned.Topics {
					n += len(topic.Partitions)
				}
			}
			good = good && n == partitions
		}
		if good {
			return
		}
	}
}

// TestGroupsChurn lets 20 members come and go while records are read, each committing what it has read: in the end
// every partition is committed to its end, and what was committed never went beyond what was read.
func TestGroupsChurn(t *testing.T) {
	const partitions, records = 12, 6000
	b := start(t, testConfig(t))
	adm := seed(t, b, "t", partitions, records)
	ctx, cancel := context.WithCancel(wait(t))
	defer cancel()
	rng := rand.New(rand.NewPCG(1, 2))
	var read atomic.Int64
	var members sync.WaitGroup
	for i := range 20 {
		rounds, batch := 1+rng.IntN(3), 20+rng.IntN(100)
		if i == 0 {
			rounds = 1 << 30 // one stays, so that the work ends
		}
		members.Go(func() {
			for range rounds {
				cl := member(t, b, "churn", "t", kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
				for range 10 {
					fs := cl.PollRecords(ctx, batch)
					if ctx.Err() != nil {
						break
					}
					read.Add(int64(fs.NumRecords()))
					if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
						t.Logf("commit: %v", err)
					}
					cl.AllowRebalance()
				}
				cl.CloseAllowingRebalance()
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	var last int64
	for ctx.Err() == nil {
		offsets, err := adm.FetchOffsets(ctx, "churn")
		if err != nil {
			break
		}
		last = 0
		offsets.Each(func(o kadm.OffsetResponse) { last += o.At })
		if last == records {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	members.Wait()
	if last != records || read.Load() < records {
		t.Errorf("committed %d, read %d of %d records", last, read.Load(), records)
	}
}

// TestOffsetsSurvive stops the broker and starts it again on its folder.
func TestOffsetsSurvive(t *testing.T) {
	cfg := testConfig(t)
	b := start(t, cfg)
	adm := seed(t, b, "t", 2, 10)
	ctx := wait(t)
	for i := range 30 {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: "t", Partition: int32(i % 2), At: int64(i), LeaderEpoch: 1, Metadata: fmt.Sprint("m", i)})
		if err := adm.CommitAllOffsets(ctx, fmt.Sprint("g", i%5), offsets); err != nil {
			t.Fatal(err)
		}
	}
	before, err := adm.FetchOffsets(ctx, "g1")
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = start(t, cfg)
	adm = kadm.NewClient(client(t, b))
	after, err := adm.FetchOffsets(ctx, "g1")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []int32{0, 1} {
		was, _ := before.Lookup("t", p)
		is, ok := after.Lookup("t", p)
		if !ok || was.Offset != is.Offset {
			t.Errorf("partition %d: was %+v, is %+v", p, was.Offset, is.Offset)
		}
	}
}

// TestCommitsSurvivePowerLoss cuts the power at random moments while offsets are committed: what was acknowledged is
// there, what was never sent is not.
func TestCommitsSurvivePowerLoss(t *testing.T) {
	disk := vfs.NewMem()
	cfg := testConfig(t)
	cfg.FS, cfg.Dir, cfg.Logger = disk, "data", nil
	b := start(t, cfg)
	b.groups.snapshotRecords = 10 // the log is cut off at its start all the while
	adm := seed(t, b, "t", 1, 1)
	ctx := wait(t)
	var sent, acked atomic.Int64
	commit := func() error {
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, sent.Add(1), -1)
		if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
			return err
		}
		acked.Store(sent.Load())
		return nil
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	const crashes = 20
	stop := make(chan struct{})
	var committer sync.WaitGroup
	committer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := commit(); err != nil {
				t.Errorf("commit: %v", err)
				return
			}
		}
	})
	rng := rand.New(rand.NewPCG(3, 4))
	for range crashes {
		least := acked.Load()
		cfg.FS = disk.CrashClone(rng)
		most := sent.Load()
		if got := committedOf(t, cfg); got < least || got > most {
			t.Errorf("after a crash %d is committed, acknowledged was %d, sent %d", got, least, most)
		}
	}
	close(stop)
	committer.Wait()
}

// committedOf opens a folder and looks at what group g has committed of t-0.
func committedOf(t *testing.T, cfg Config) int64 {
	t.Helper()
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	var got coord.Committed
	b.groups.of("g").ask(func(c *coord.Coordinator) { got, _ = c.Offset("g", "t", 0) })
	return got.Next
}

// TestOffsetsLogIsTrimmed commits so often that the log is written anew, and restarts.
func TestOffsetsLogIsTrimmed(t *testing.T) {
	cfg := testConfig(t)
	b := start(t, cfg)
	b.groups.snapshotRecords = 100
	seed(t, b, "t", 1, 1)
	ensured(t, b)
	s := b.groups.of("g")
	adm := kadm.NewClient(client(t, b))
	ctx := wait(t)
	const commits = 1000
	for i := range commits {
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, int64(i), -1)
		if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
			t.Fatal(err)
		}
	}
	if held := s.part.HighWatermark() - s.part.Log().StartOffset(); held > 110 {
		t.Errorf("the log holds %d records of %d", held, commits)
	}
	b.stop()
	if got := committedOf(t, cfg); got != commits-1 {
		t.Errorf("committed %d, want %d", got, commits-1)
	}
}

// TestGroupAdmin walks through what administrators do to groups.
func TestGroupAdmin(t *testing.T) {
	b := start(t, testConfig(t))
	adm := seed(t, b, "t", 2, 10)
	ctx := wait(t)
	cl := member(t, b, "busy", "t", kgo.InstanceID("one"))
	consume(t, cl, 10)
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	described, err := adm.DescribeGroups(ctx, "busy", "none")
	if err != nil {
		t.Fatal(err)
	}
	busy := described["busy"]
	if busy.State != "Stable" || busy.ProtocolType != "consumer" || len(busy.Members) != 1 || *busy.Members[0].InstanceID != "one" ||
		!busy.AssignedPartitions().Lookup("t", 1) || busy.Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("described %+v", busy)
	}
	if lag, err := adm.Lag(ctx, "busy"); err != nil || lag["busy"].Lag.Total() != 0 {
		t.Errorf("lag %v, %v", lag["busy"].Lag.Total(), err)
	}
	if _, err := adm.DeleteGroup(ctx, "busy"); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Errorf("delete of a group with members: %v", err)
	}
	left, err := adm.LeaveGroup(ctx, kadm.LeaveGroup("busy").InstanceIDs("one"))
	if err != nil || left.Error() != nil {
		t.Errorf("leave: %v, %v", err, left.Error())
	}
	cl.Close()
	deleted, err := adm.DeleteOffsets(ctx, "busy", kadm.TopicsSet{"t": {0: {}}})
	if err != nil || deleted.Error() != nil {
		t.Errorf("delete offsets: %v, %v", err, deleted.Error())
	}
	offsets, err := adm.FetchOffsets(ctx, "busy")
	if _, ok := offsets.Lookup("t", 0); err != nil || ok {
		t.Errorf("after the deletion: %v, %v", offsets, err)
	}
	wrong := kadm.Offsets{}
	wrong.AddOffset("t", 9, 1, -1)
	wrong.AddOffset("t", 1, 4, -1)
	committed, err := adm.CommitOffsets(ctx, "busy", wrong)
	if err != nil {
		t.Fatal(err)
	}
	if bad, _ := committed.Lookup("t", 9); !errors.Is(bad.Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("commit of a partition that isn't there: %v", bad.Err)
	}
	if good, _ := committed.Lookup("t", 1); good.Err != nil {
		t.Errorf("commit beside it: %v", good.Err)
	}
	if listed, err := adm.ListGroups(ctx, "Empty"); err != nil || !slices.Equal(listed.Groups(), []string{"busy"}) {
		t.Errorf("listed %v, %v", listed.Groups(), err)
	}
	if _, err := adm.DeleteGroup(ctx, "busy"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if listed, err := adm.ListGroups(ctx); err != nil || len(listed) != 0 {
		t.Errorf("listed %v, %v", listed.Groups(), err)
	}
}

// TestTopicDeletionForgetsOffsets deletes a topic and makes it again: its groups start anew.
func TestTopicDeletionForgetsOffsets(t *testing.T) {
	b := start(t, testConfig(t))
	adm := seed(t, b, "t", 1, 1)
	ctx := wait(t)
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, 1, -1)
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := adm.FetchOffsets(ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		if _, there := got.Lookup("t", 0); !there {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// ensured makes the group offsets topic, as the first FindCoordinator does.
func ensured(t *testing.T, b *running) {
	t.Helper()
	made := make(chan error, 1)
	b.ensureGroups(time.Now(), func(err error) { made <- err })
	if err := <-made; err != nil {
		t.Fatal(err)
	}
}

// TestGroupVersions asks with every version that is advertised; the answers must decode.
func TestGroupVersions(t *testing.T) {
	b := start(t, testConfig(t))
	seed(t, b, "t", 1, 1)
	ctx := wait(t)
	ensured(t, b)
	id := b.topics.byName("t").ID
	bodies := func(v int16) []kmsg.Request {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation = "g", -1
		ct := kmsg.NewOffsetCommitRequestTopic()
		ct.Topic, ct.TopicID = "t", id
		cp := kmsg.NewOffsetCommitRequestTopicPartition()
		cp.Offset = int64(v)
		ct.Partitions = append(ct.Partitions, cp)
		commit.Topics = append(commit.Topics, ct)
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group = "g"
		ft := kmsg.NewOffsetFetchRequestTopic()
		ft.Topic, ft.Partitions = "t", []int32{0}
		fetch.Topics = append(fetch.Topics, ft)
		fg := kmsg.NewOffsetFetchRequestGroup()
		fg.Group = "g"
		fgt := kmsg.NewOffsetFetchRequestGroupTopic()
		fgt.Topic, fgt.TopicID, fgt.Partitions = "t", id, []int32{0}
		fg.Topics = append(fg.Topics, fgt)
		fetch.Groups = append(fetch.Groups, fg)
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Groups = []string{"g"}
		remove := kmsg.NewPtrDeleteGroupsRequest()
		remove.Groups = []string{"other"}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group = "g"
		heartbeat, sync, join := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrSyncGroupRequest(), kmsg.NewPtrJoinGroupRequest()
		heartbeat.Group, sync.Group, join.Group = "g", "g", "g"
		return []kmsg.Request{find, commit, fetch, describe, remove, leave, heartbeat, sync, join, kmsg.NewPtrListGroupsRequest()}
	}
	for _, row := range groupAPIs() {
		for v := row.min; v <= row.max; v++ {
			for _, body := range bodies(v) {
				if body.Key() != row.key {
					continue
				}
				body.SetVersion(v)
				answered := make(chan kmsg.Response, 1)
				b.Handle(&Request{Key: row.key, Version: v, ClientID: "c", Body: body, Now: time.Now()}, func(r kmsg.Response) { answered <- r })
				var resp kmsg.Response
				select {
				case resp = <-answered:
				case <-ctx.Done():
					t.Fatalf("key %d version %d is not answered", row.key, v)
				}
				again := body.ResponseKind()
				if resp.GetVersion() != v {
					t.Errorf("key %d version %d: answered version %d", row.key, v, resp.GetVersion())
				}
				again.SetVersion(v)
				if err := again.ReadFrom(resp.AppendTo(nil)); err != nil {
					t.Errorf("key %d version %d: %v", row.key, v, err)
				}
				checkGroupAnswer(t, v, again)
			}
		}
	}
}

// checkGroupAnswer looks at what TestGroupVersions' offsets became.
func checkGroupAnswer(t *testing.T, v int16, resp kmsg.Response) {
	t.Helper()
	switch r := resp.(type) {
	case *kmsg.FindCoordinatorResponse:
		if v < 4 && (r.ErrorCode != 0 || r.Port == 0) || v >= 4 && (len(r.Coordinators) != 1 || r.Coordinators[0].ErrorCode != 0) {
			t.Errorf("find coordinator %d: %+v", v, r)
		}
	case *kmsg.OffsetCommitResponse:
		if p := r.Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("commit %d: %+v", v, r)
		}
	case *kmsg.OffsetFetchResponse:
		var got int64
		if v < 8 {
			got = r.Topics[0].Partitions[0].Offset
		} else {
			got = r.Groups[0].Topics[0].Partitions[0].Offset
		}
		if got != 10 { // the last commit's version
			t.Errorf("fetch %d: %+v", v, r)
		}
	case *kmsg.DescribeGroupsResponse:
		if r.Groups[0].State != "Empty" {
			t.Errorf("describe %d: %+v", v, r)
		}
	case *kmsg.ListGroupsResponse:
		if len(r.Groups) != 1 || r.Groups[0].Group != "g" {
			t.Errorf("list %d: %+v", v, r)
		}
	}
}

// TestGroupsLoading shows a shard that has begun and isn't loaded yet.
func TestGroupsLoading(t *testing.T) {
	b := start(t, testConfig(t))
	adm := seed(t, b, "t", 1, 1)
	ctx := wait(t)
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, 1, -1)
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	part := int(coord.Partition("g", b.cfg.OffsetsTopicPartitions))
	before := b.groups.at(part)
	next := b.newShard(before.part, before.epoch)
	b.groups.mu.Lock()
	b.groups.shards[part] = next
	b.groups.mu.Unlock()
	fetch := func() kmsg.OffsetFetchResponseGroup {
		ask := kmsg.NewOffsetFetchRequestGroup()
		ask.Group = "g"
		got := make(chan kmsg.OffsetFetchResponseGroup, 1)
		b.fetchOffsets(8, &ask, func(g kmsg.OffsetFetchResponseGroup) { got <- g })
		return <-got
	}
	if got := fetch(); got.ErrorCode != kerr.CoordinatorLoadInProgress.Code {
		t.Errorf("before loading: %+v", got)
	}
	next.load(ctx.Err)
	if got := fetch(); got.ErrorCode != 0 || len(got.Topics) != 1 || got.Topics[0].Partitions[0].Offset != 1 {
		t.Errorf("after loading: %+v", got)
	}
}

// TestGroupsClosing stops the broker while a member waits for the others to join.
func TestGroupsClosing(t *testing.T) {
	b := start(t, testConfig(t))
	ensured(t, b)
	answers := make(chan kmsg.Response, 2)
	for i := range 2 {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.ProtocolType = 3, "g", "consumer"
		join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 10_000, 600_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "range"
		join.Protocols = append(join.Protocols, p)
		b.Handle(&Request{Key: 11, Version: 3, ClientID: fmt.Sprint(i), Body: join, Now: time.Now()}, func(r kmsg.Response) { answers <- r })
	}
	if first := (<-answers).(*kmsg.JoinGroupResponse); first.ErrorCode != 0 {
		t.Errorf("first: %+v", first)
	}
	b.stop()
	select {
	case r := <-answers:
		if r.(*kmsg.JoinGroupResponse).ErrorCode != kerr.NotCoordinator.Code {
			t.Errorf("second: %+v", r)
		}
	default:
		t.Error("the second join was never answered")
	}
}
