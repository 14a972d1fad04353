package core

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
)

// clusterAPIs lists the keys that speak of the cluster's nodes and of where partitions live.
func clusterAPIs() []api {
	return []api{
		{key: 35, min: 0, max: 5, oldest: 0, handle: handleDescribeLogDirs},
		{key: 43, min: 0, max: 2, oldest: 0, handle: handleElectLeaders},
		{key: 45, min: 0, max: 1, oldest: 0, handle: handleAlterPartitionReassignments},
		{key: 46, min: 0, max: 0, oldest: 0, handle: handleListPartitionReassignments},
		{key: keyDescribeQuorum, min: 0, max: 2, oldest: 0, handle: handleDescribeQuorum},
		{key: 60, min: 0, max: 2, oldest: 0, handle: handleDescribeCluster},
		{key: 64, min: 0, max: 0, oldest: 0, handle: handleUnregisterBroker},
		{key: 75, min: 0, max: 0, oldest: 0, handle: handleDescribeTopicPartitions},
	}
}

// What follows is what the image says of brokers, as clients may know it. All of it may be asked from anywhere, under meta's lock too.

// nodes is every broker that has registered, by id. A node that nobody knows yet knows at least itself.
func (b *Broker) nodes() []meta.Broker {
	var all []meta.Broker
	b.meta.View(func(img *meta.Image) { all = img.Brokers() })
	if len(all) == 0 {
		all = append(all, meta.Broker{ID: b.cfg.NodeID, Rack: b.cfg.Rack})
	}
	for i := range all {
		b.locate(&all[i])
	}
	return all
}

// locate gives this node the address that it serves: what it registered with may be older, or none.
func (b *Broker) locate(n *meta.Broker) {
	if n.ID != b.cfg.NodeID {
		return
	}
	if host, port := b.address(); host != "" {
		n.Host, n.Port = host, port
	}
}

// alive is the brokers that clients are told of: those that may serve something.
func (b *Broker) alive() []meta.Broker {
	return slices.DeleteFunc(b.nodes(), func(n meta.Broker) bool {
		return n.State == meta.BrokerFenced || n.Host == "" && n.ID != b.cfg.NodeID
	})
}

// active says that a broker may lead and be in sync.
func (b *Broker) active(id int32) bool {
	var is bool
	b.meta.View(func(img *meta.Image) {
		n, ok := img.Broker(id)
		is = ok && n.State == meta.BrokerActive
	})
	return is
}

// endpoint is where clients reach a broker; false for one that is unknown or not alive.
func (b *Broker) endpoint(id int32) (meta.Broker, bool) {
	var n meta.Broker
	var ok bool
	b.meta.View(func(img *meta.Image) { n, ok = img.Broker(id) })
	if !ok || n.State == meta.BrokerFenced {
		return meta.Broker{}, false
	}
	b.locate(&n)
	return n, n.Host != "" || id == b.cfg.NodeID
}

// has reports a partition that doesn't exist, wherever it lives; missing is the error where there is no topic.
func (t *topic) has(index int32, missing error) error {
	switch {
	case t == nil:
		return missing
	case index < 0 || int(index) >= len(t.Partitions):
		return errUnknownTopic
	}
	return nil
}

// currentLeader is who leads a partition, and in which epoch, as far as this node knows; -1 for both if it doesn't know.
func (t *topic) currentLeader(index int32) (id, epoch int32) {
	if t.has(index, errUnknownTopic) != nil {
		return meta.NoLeader, -1
	}
	p := &t.Partitions[index]
	return p.Leader, p.LeaderEpoch
}

// leaderHint is currentLeader, for a client that was refused with this code. A node that leads and can't serve doesn't know who will.
func (t *topic) leaderHint(index int32, errorCode int16) (id, epoch int32) {
	id, epoch = t.currentLeader(index)
	if t != nil && id == t.node && errorCode == kerr.NotLeaderForPartition.Code {
		return meta.NoLeader, -1
	}
	return id, epoch
}

// controller is the broker that clients send changes of the metadata to. Each can propose them, so it is this one, if clients know it and it
// knows of a leader of the metadata.
func (b *Broker) controller(alive []meta.Broker) int32 {
	isSelf := func(n meta.Broker) bool { return n.ID == b.cfg.NodeID }
	switch {
	case slices.ContainsFunc(alive, isSelf) && b.refusal() == nil && b.leader.Load() != 0:
		return b.cfg.NodeID
	case len(alive) == 0:
		return meta.NoLeader
	}
	for _, n := range alive {
		if !isSelf(n) {
			return n.ID
		}
	}
	return alive[0].ID
}

// refusal is why nothing is served to clients now, nil if it is.
func (b *Broker) refusal() error {
	if b.isServing() {
		return nil
	}
	return replica.ErrNotLeader
}

// appendRefusal is why nothing is appended now, nil if it is.
func (b *Broker) appendRefusal() error {
	if err := b.refusal(); err != nil {
		return err
	}
	if !b.registered.Load() {
		return b.unregistered()
	}
	return nil
}

// unregistered is why the metadata isn't changed by a node that has not registered: clients of a cluster look for another that has.
func (b *Broker) unregistered() error {
	if b.startsAlone {
		return errNotRegistered
	}
	return errNotMember
}

// optional is s, nil if it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
