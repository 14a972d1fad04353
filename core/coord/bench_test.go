package coord

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkReplay reads one commit after another, as a start does.
func BenchmarkReplay(b *testing.B) {
	var records []Record
	for i := range 1000 {
		o := offset{next: int64(i), leaderEpoch: 1, committedMs: 1e12, expiresMs: -1}
		records = append(records, offsetRecord(fmt.Sprint("group-", i%20), partition{topic: "orders", index: int32(i % 50)}, &o))
	}
	b.ReportAllocs()
	c := New(Config{})
	for i := 0; b.Loop(); i++ {
		r := records[i%len(records)]
		if err := c.Replay(r.Key, r.Value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHeartbeat is what a large group costs at rest.
func BenchmarkHeartbeat(b *testing.B) {
	c := New(Config{})
	now := time.UnixMilli(1e12)
	c.Loaded(now)
	g := c.groupOf("g", now)
	g.state, g.generation = Stable, 1
	for i := range 500 {
		m := &member{id: fmt.Sprint("member-", i), session: time.Minute}
		g.add(m)
		c.startSession(g, m, now)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 4, "g", g.members[i%500].id, 1
		if eff := c.Handle(Request{ID: 1, Body: r}, now); len(eff.Answers) != 1 {
			b.Fatal("no answer")
		}
	}
}

// BenchmarkRebalance lets all members of a group of 2,000 join again and fetch their assignments.
func BenchmarkRebalance(b *testing.B) {
	const members = 2000
	now := time.UnixMilli(1e12)
	c := New(Config{})
	c.Loaded(now)
	ids := make([]string, members)
	var generation int32
	join := func(i int) {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.MemberID, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 3, "g", ids[i], "consumer", 30_000, 60_000
		for _, name := range []string{"range", "cooperative-sticky"} {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, []byte("subscription")
			r.Protocols = append(r.Protocols, p)
		}
		eff := c.Handle(Request{ID: uint64(i), ClientID: "c", Random: fmt.Sprint(i), Body: r}, now)
		for _, a := range eff.Answers {
			if resp := a.Body.(*kmsg.JoinGroupResponse); resp.ErrorCode == 0 {
				ids[a.ID], generation = resp.MemberID, resp.Generation
			}
		}
	}
	for i := range ids { // the first is alone, the others wait until it joins again
		join(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range ids {
			join(i)
		}
		for i := range ids {
			r := kmsg.NewPtrSyncGroupRequest()
			r.Version, r.Group, r.MemberID, r.Generation = 3, "g", ids[i], generation
			eff := c.Handle(Request{ID: uint64(i), Body: r}, now)
			for _, batch := range eff.Batches {
				c.Appended(batch.ID, 0, now)
			}
		}
	}
	if g := c.groups["g"]; len(g.members) != members || g.state != Stable {
		b.Fatalf("%d members, %s", len(g.members), g.state)
	}
}
