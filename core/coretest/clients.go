package coretest

import "fmt"

// addClients makes all clients.
func (c *Cluster) addClients() {
	segment := map[string]string{"segment.bytes": "16384"}
	safe := map[string]string{"segment.bytes": "16384", "min.insync.replicas": "2"}
	c.admin = &admin{user: c.newUser(), wanted: []topic{{"a", 3, segment, 0}, {"b", 2, safe, 0}, {"m", 1, segment, 0}}}
	c.clients = append(c.clients, c.admin)
	places := []place{{"a", 0}, {"a", 1}, {"a", 2}, {"b", 0}, {"b", 1}, {"m", 0}}
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
	c.clients = append(c.clients, &trimmer{user: c.newUser(), at: places[2]})
	c.clients = append(c.clients, &mover{user: c.newUser(), at: places[5]})
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
