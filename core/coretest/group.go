package coretest

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core"
)

// committer commits ever higher offsets of one group, and asks what is committed.
type committer struct {
	user
	group     string
	at        place
	tried     int64
	acked     int64 // -1: nothing
	ackedBy   int32 // node,
	ackedIn   int   // in that life; 0: something was tried since
	isWaiting bool
	isSeen    bool // what is committed, since nothing is committed any more
}

func (g *committer) String() string {
	return fmt.Sprintf("group %s: tried %d, acknowledged %d, coordinator %d, waiting %v, seen %v", g.group, g.tried, g.acked, g.coordinator, g.isWaiting, g.isSeen)
}

func (g *committer) isIdle() bool { return g.isSeen }

// renew has the group work on.
func (g *committer) renew() { g.isSeen = false }

func (g *committer) step() {
	if g.isWaiting || !g.mayTry() || !g.c.admin.isReady {
		return
	}
	switch {
	case g.coordinator == 0:
		g.isWaiting = true
		g.find(g.group, g, func() { g.isWaiting = false })
	case g.c.isLast && !g.isSeen, !g.c.isLast && g.c.chance(2):
		g.look()
	case !g.c.isLast && g.c.chance(15):
		g.commit()
	}
}

// once asks what must not be done after its sender has given it up: a commit that comes late takes the group back, as it may in Kafka.
func (g *committer) once(req kmsg.Request, done func(kmsg.Response, error)) {
	g.isWaiting = true
	g.c.net.send(lane{g.id, g.coordinator, core.LaneData}, 0, &call{req: req, isOnce: true, done: func(resp kmsg.Response, err error) {
		g.isWaiting = false
		if err != nil {
			g.coordinator = 0
			g.pause()
		} else {
			g.c.Stats.Operations++
		}
		done(resp, err)
	}})
}

func (g *committer) commit() {
	g.tried++
	offset, to := g.tried, g.coordinator
	life := g.c.node(to).life
	g.ackedIn = 0
	g.once(offsetCommit(g.group, g.at, offset), func(resp kmsg.Response, err error) {
		if err != nil {
			return
		}
		if code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			g.refused("commit", code)
			return
		}
		g.acked, g.ackedBy, g.ackedIn = offset, to, life
		g.c.Stats.Commits++
	})
}

// look asks what is committed. Who coordinated until others took over may not know it yet, so only at the end, or of the node that has acknowledged
// the newest, is it certain what must be there.
func (g *committer) look() {
	to, life := g.coordinator, g.c.node(g.coordinator).life
	least := int64(-1)
	if g.c.isLast || g.ackedBy == to && g.ackedIn == life {
		least = g.acked
	}
	isLast := g.c.isLast
	g.once(offsetFetch(g.group, g.at), func(resp kmsg.Response, err error) {
		if err != nil {
			return
		}
		code, offset := fetchedOffset(resp.(*kmsg.OffsetFetchResponse))
		switch {
		case code != 0:
			g.refused("look", code)
		case offset > g.tried || offset < least:
			g.c.failf("%v: node %d says that %d is committed", g, to, offset)
		default:
			g.isSeen = isLast
		}
	})
}

func (g *committer) refused(what string, code int16) {
	if !isPassing(code) {
		g.c.failf("%v: %s: %s", g, what, errorName(code))
	}
	g.coordinator = 0
	g.pause()
}

// offsetCommit commits one offset, of no member.
func offsetCommit(group string, at place, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = at.topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = at.index, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// offsetFetch asks for one offset.
func offsetFetch(group string, at place) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = at.topic, []int32{at.index}
	req.Topics = append(req.Topics, t)
	return req
}

func fetchedOffset(r *kmsg.OffsetFetchResponse) (code int16, offset int64) {
	if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return r.ErrorCode, -1
	}
	return r.Topics[0].Partitions[0].ErrorCode, r.Topics[0].Partitions[0].Offset
}

// admin creates topics: first those that others use, then now and then another.
type admin struct {
	user
	isReady   bool // those that others use are there
	wanted    []topic
	isWaiting bool
	count     int
	names     []string // of what was created
}

// topic is a topic to create.
type topic struct {
	name       string
	partitions int32
	configs    map[string]string
}

func (a *admin) String() string {
	return fmt.Sprintf("admin: %d topics created, %d to create, waiting %v", len(a.names), len(a.wanted), a.isWaiting)
}

func (a *admin) isIdle() bool { return len(a.wanted) == 0 && !a.isWaiting }

func (a *admin) step() {
	if a.isWaiting || !a.mayTry() {
		return
	}
	if !a.isReady {
		if !a.c.check.areActive() {
			return
		}
		if a.isReady = len(a.wanted) == 0; a.isReady {
			return
		}
	}
	if len(a.wanted) == 0 && !a.c.isLast && a.c.rng.IntN(300) == 0 {
		a.count++
		a.wanted = append(a.wanted, topic{name: fmt.Sprintf("more-%d", a.count), partitions: int32(1 + a.c.rng.IntN(2))})
	}
	if len(a.wanted) > 0 {
		a.create(a.wanted[0])
	}
}

func (a *admin) create(what topic) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 1500
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = what.name, what.partitions, int16(len(a.c.nodes))
	for _, k := range []string{"min.insync.replicas", "segment.bytes"} {
		if v, ok := what.configs[k]; ok {
			conf := kmsg.NewCreateTopicsRequestTopicConfig()
			conf.Name, conf.Value = k, kmsg.StringPtr(v)
			t.Configs = append(t.Configs, conf)
		}
	}
	req.Topics = append(req.Topics, t)
	a.isWaiting = true
	a.ask(a.anyone(), req, func(resp kmsg.Response, err error) {
		a.isWaiting = false
		a.pause()
		if err != nil {
			return
		}
		r := resp.(*kmsg.CreateTopicsResponse).Topics[0]
		switch name := errorName(r.ErrorCode); {
		case r.ErrorCode == 0:
			a.c.check.topicCreated(r.Topic, r.TopicID)
			a.c.Stats.Topics++
			fallthrough
		case strings.HasPrefix(name, "TOPIC_ALREADY_EXISTS"):
			a.names = append(a.names, what.name)
			a.wanted = a.wanted[1:]
		case !isPassing(r.ErrorCode):
			a.c.failf("%v: create topic %s: %s: %s", a, what.name, name, *r.ErrorMessage)
		}
	})
}

// addClients makes all clients.
func (c *Cluster) addClients() {
	segment := map[string]string{"segment.bytes": "16384"}
	safe := map[string]string{"segment.bytes": "16384", "min.insync.replicas": "2"}
	c.admin = &admin{user: c.newUser(), wanted: []topic{{"a", 3, segment}, {"b", 2, safe}}}
	c.clients = append(c.clients, c.admin)
	places := []place{{"a", 0}, {"a", 1}, {"a", 2}, {"b", 0}, {"b", 1}}
	for i, at := range places {
		c.check.add(at)
		c.addProducer(at, -1, true)
		switch i {
		case 0:
			c.addProducer(at, -1, true)
		case 1:
			c.addProducer(at, 1, false)
			c.addProducer(at, 0, false)
		case 3:
			c.addProducer(at, -1, false)
		}
	}
	for _, at := range places {
		k := &consumer{user: c.newUser(), at: at}
		c.consumers = append(c.consumers, k)
		c.clients = append(c.clients, k)
	}
	for i, at := range places[:3] {
		g := &committer{user: c.newUser(), group: fmt.Sprintf("group-%d", i), at: at, acked: -1}
		c.groups = append(c.groups, g)
		c.clients = append(c.clients, g)
	}
	t := &team{name: "team", topic: "a", partitions: 3, tried: make([]int64, 3), acked: []int64{-1, -1, -1}, owners: make(map[int32]map[int32]string)}
	for range 2 {
		m := &member{user: c.newUser(), team: t}
		c.members = append(c.members, m)
		c.clients = append(c.clients, m)
	}
}

func (c *Cluster) addProducer(at place, acks int16, isIdempotent bool) {
	p := &producer{user: c.newUser(), at: at, acks: acks, isIdempotent: isIdempotent, pid: -1}
	c.producers = append(c.producers, p)
	c.clients = append(c.clients, p)
}
