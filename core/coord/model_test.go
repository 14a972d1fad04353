package coord

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestReload drives a coordinator with random requests, time, and reports that come late
// and in any order. After every durable batch it is killed in thought: a coordinator that
// replays the log so far must know the same committed offsets and, where a group is at
// rest, the same group. WEIR_SEEDS says how many seeds are tried.
func TestReload(t *testing.T) {
	seeds := 150
	if n, err := strconv.Atoi(os.Getenv("WEIR_SEEDS")); err == nil {
		seeds = n
	}
	trims := 0
	for seed := range seeds {
		m := newModel(uint64(seed))
		for range 300 {
			m.step()
			if m.fault != "" {
				t.Fatalf("seed %d: %s", seed, m.fault)
			}
		}
		m.finish()
		if m.fault != "" {
			t.Fatalf("seed %d: %s", seed, m.fault)
		}
		trims += m.trims
	}
	if trims < seeds/10 {
		t.Errorf("only %d snapshots in %d runs: they are not tested", trims, seeds)
	}
}

// TestReloadFindsMutants shows that the check above can fail.
func TestReloadFindsMutants(t *testing.T) {
	for name, mutate := range map[string]func(*model, *Effects){
		"a commit is answered and applied before it is durable": func(m *model, eff *Effects) {
			for _, b := range eff.Batches {
				m.take(m.c.Appended(b.ID, 0, m.now))
			}
		},
		"a tombstone is lost": func(_ *model, eff *Effects) {
			for i := range eff.Batches {
				var kept []Record
				for _, r := range eff.Batches[i].Records {
					if r.Value != nil {
						kept = append(kept, r)
					}
				}
				eff.Batches[i].Records = kept
			}
		},
		"a snapshot lacks a record": func(_ *model, eff *Effects) {
			for i := range eff.Batches {
				if b := &eff.Batches[i]; b.Snapshot {
					b.Records = b.Records[1:]
				}
			}
		},
		"an answer is lost": func(_ *model, eff *Effects) {
			if len(eff.Answers) > 1 {
				eff.Answers = eff.Answers[1:]
			}
		},
	} {
		found := false
		for seed := uint64(0); seed < 50 && !found; seed++ {
			m := newModel(seed)
			m.mutate = mutate
			for range 300 {
				m.step()
			}
			m.finish()
			found = m.fault != ""
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
}

type model struct {
	rng     *rand.Rand
	c       *Coordinator
	now     time.Time
	log     []Batch // durable
	trims   int
	pending []Batch // appended, in order, not durable
	durable []Batch // durable, not reported
	waiting map[uint64]bool
	members map[string][]string // ids seen, by group
	next    uint64
	mutate  func(*model, *Effects)
	fault   string
}

func newModel(seed uint64) *model {
	m := &model{
		rng: rand.New(rand.NewPCG(seed, 7)), now: time.UnixMilli(1e9), waiting: make(map[uint64]bool), members: make(map[string][]string),
		c: New(Config{OffsetRetention: 2 * time.Hour, RetentionCheck: 10 * time.Minute, SnapshotRecords: 20}),
	}
	m.take(m.c.Loaded(m.now))
	return m
}

func (m *model) failf(format string, args ...any) {
	if m.fault == "" {
		m.fault = fmt.Sprintf(format, args...)
	}
}

func (m *model) take(eff Effects) {
	if m.mutate != nil {
		m.mutate(m, &eff)
	}
	for _, a := range eff.Answers {
		if !m.waiting[a.ID] {
			m.failf("request %d answered twice or never asked", a.ID)
		}
		delete(m.waiting, a.ID)
		if join, ok := a.Body.(*kmsg.JoinGroupResponse); ok && join.MemberID != "" {
			g := fmt.Sprint("g", a.ID%3)
			m.members[g] = append(m.members[g], join.MemberID)
		}
	}
	m.pending = append(m.pending, eff.Batches...)
	if eff.Trim != 0 {
		if i := slices.IndexFunc(m.log, func(b Batch) bool { return b.ID == eff.Trim && b.Snapshot }); i >= 0 {
			m.log = m.log[i:]
			m.trims++
		} else {
			m.failf("trim at batch %d, which is no durable snapshot", eff.Trim)
		}
	}
}

func (m *model) step() {
	switch n := m.rng.IntN(20); {
	case n < 5 && len(m.pending) > 0:
		m.sync(1 + m.rng.IntN(len(m.pending)))
	case n < 10 && len(m.durable) > 0:
		m.report(m.rng.IntN(len(m.durable)))
	case n == 10:
		m.now = m.now.Add(time.Duration(m.rng.Int64N(int64(10 * time.Second))))
		m.take(m.c.Tick(m.now))
	case n == 11 && m.rng.IntN(10) == 0:
		m.now = m.now.Add(time.Hour)
		m.take(m.c.Tick(m.now))
	case n == 12 && m.rng.IntN(10) == 0:
		m.take(m.c.TopicDeleted("t1", m.now))
	default:
		m.request()
	}
}

// sync makes the oldest n batches durable, as one round of the store does.
func (m *model) sync(n int) {
	m.log = append(m.log, m.pending[:n]...)
	m.durable = append(m.durable, m.pending[:n]...)
	m.pending = m.pending[n:]
	m.compare()
}

func (m *model) report(i int) {
	b := m.durable[i]
	m.durable = append(m.durable[:i], m.durable[i+1:]...)
	m.take(m.c.Appended(b.ID, 0, m.now))
	m.compare()
}

// compare reloads once everything durable has been reported.
func (m *model) compare() {
	if len(m.durable) > 0 {
		return
	}
	again := New(m.c.cfg)
	for _, b := range m.log {
		for _, r := range b.Records {
			if err := again.Replay(r.Key, r.Value); err != nil {
				m.failf("replay: %v", err)
				return
			}
		}
	}
	again.Loaded(m.now)
	for i := range 3 {
		g := fmt.Sprint("g", i)
		live, _ := m.c.Offsets(g)
		loaded, _ := again.Offsets(g)
		if len(live)+len(loaded) > 0 && !reflect.DeepEqual(live, loaded) {
			m.failf("offsets of %s: live %v, loaded %v", g, live, loaded)
		}
		a := m.c.groups[g]
		if a == nil || a.storing > 0 || !a.stored || (a.state != Stable && a.state != Empty) || len(m.pending) > 0 {
			continue
		}
		b := again.groups[g]
		if b == nil {
			m.failf("group %s is live (%s, generation %d) and not loaded", g, a.state, a.generation)
			return
		}
		if a.generation != b.generation || a.protocolType != b.protocolType ||
			!reflect.DeepEqual(m.c.Describe(g, 5), again.Describe(g, 5)) {
			m.failf("group %s: live %+v, loaded %+v", g, m.c.Describe(g, 5), again.Describe(g, 5))
		}
	}
}

func (m *model) finish() {
	m.sync(len(m.pending))
	for len(m.durable) > 0 {
		m.report(m.rng.IntN(len(m.durable)))
		m.sync(len(m.pending))
	}
	m.take(m.c.Close(16))
	if len(m.waiting) > 0 {
		m.failf("%d requests were never answered", len(m.waiting))
	}
}

func (m *model) request() {
	m.next++
	gi := int(m.next % 3)
	g := fmt.Sprint("g", gi)
	id := m.next
	m.waiting[id] = true
	if m.rng.IntN(40) == 0 {
		m.take(m.c.Delete(id, g, m.now))
		return
	}
	req := Request{ID: id, ClientID: "c", ClientHost: "h", Random: fmt.Sprint(id), Body: m.body(g)}
	m.take(m.c.Handle(req, m.now))
}

// member gives an id that was seen lately, or none.
func (m *model) member(g string) string {
	ids := m.members[g]
	if live := m.c.groups[g]; live != nil && len(live.members) > 0 && m.rng.IntN(4) > 0 {
		return live.members[m.rng.IntN(len(live.members))].id
	}
	if len(ids) == 0 || m.rng.IntN(3) == 0 {
		return ""
	}
	return ids[max(0, len(ids)-1-m.rng.IntN(4))]
}

func (m *model) body(g string) kmsg.Request {
	member, generation, leader := m.member(g), int32(-1), ""
	var instance *string
	if live := m.c.groups[g]; live != nil {
		generation, leader = live.generation-int32(m.rng.IntN(20)/19), live.leader
		if lm := live.member(member); lm != nil {
			instance = lm.instance
		}
	}
	switch n := m.rng.IntN(12); {
	case n < 4:
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.MemberID, r.ProtocolType = int16(3+m.rng.IntN(7)), g, member, "consumer"
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, int32(5000+m.rng.IntN(20_000))
		r.InstanceID = instance
		if m.rng.IntN(4) == 0 {
			r.InstanceID, r.Version = kmsg.StringPtr(fmt.Sprint("i", m.rng.IntN(3))), 9
			if m.rng.IntN(2) == 0 {
				r.MemberID = ""
			}
		}
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{byte(m.rng.IntN(2))}}}
		return r
	case n < 7:
		r := kmsg.NewPtrSyncGroupRequest()
		if m.rng.IntN(3) > 0 {
			member = leader
			if live := m.c.groups[g]; live != nil && live.member(leader) != nil {
				instance = live.member(leader).instance
			}
		}
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 3, g, member, instance, generation
		if live := m.c.groups[g]; live != nil {
			for _, lm := range live.members {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = lm.id, []byte(fmt.Sprint(m.next))
				r.GroupAssignment = append(r.GroupAssignment, a)
			}
		}
		return r
	case n == 7:
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, g, member, instance, generation
		return r
	case n == 8:
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group = 3, g
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.MemberID, rm.InstanceID = member, instance
		r.Members = append(r.Members, rm)
		return r
	case n == 9 && m.rng.IntN(3) == 0:
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = g
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic = fmt.Sprint("t", m.rng.IntN(2))
		topic.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: int32(m.rng.IntN(3))}}
		r.Topics = append(r.Topics, topic)
		return r
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation, r.RetentionTimeMillis = 8, g, member, instance, generation, -1
	if m.rng.IntN(3) == 0 {
		r.MemberID, r.InstanceID, r.Generation = "", nil, -1
	}
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = fmt.Sprint("t", m.rng.IntN(2))
	for range 1 + m.rng.IntN(3) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = int32(m.rng.IntN(3)), int64(m.next), int32(m.rng.IntN(3))
		topic.Partitions = append(topic.Partitions, p)
	}
	r.Topics = append(r.Topics, topic)
	return r
}
