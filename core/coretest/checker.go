package coretest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/core/replica"
)

// checker knows what was acknowledged, read and committed, and looks for what contradicts it.
type checker struct {
	c       *Cluster
	order   []place
	parts   map[place]*truth
	terms   map[int64]int32 // who leads the metadata
	ids     map[int64]bool  // producers'
	created map[string][16]byte
}

// truth is what is known of a partition.
type truth struct {
	values  []string         // by offset; "": unknown
	where   map[string]int64 // of a value that may be there once only
	acked   map[int64]string
	leaders map[int32]holder // by leader epoch
	asked   int64            // what lies below may be deleted
	isr     int              // members at the newest partition epoch seen
	epoch   int32            // that one
}

// holder is one life of a node that leads, and its high watermark.
type holder struct {
	node int32
	life int
	hw   int64
}

// seen is what was last seen of a replica in one life.
type seen struct {
	hw, end int64
	epoch   int32 // of the partition
}

func newChecker(c *Cluster) *checker {
	return &checker{c: c, parts: make(map[place]*truth), terms: make(map[int64]int32), ids: make(map[int64]bool), created: make(map[string][16]byte)}
}

// add has a partition watched.
func (k *checker) add(at place) {
	k.order = append(k.order, at)
	k.parts[at] = &truth{where: make(map[string]int64), acked: make(map[int64]string), leaders: make(map[int32]holder)}
}

// places is every partition that is watched.
func (k *checker) places() []place { return k.order }

func (k *checker) topicCreated(name string, id [16]byte) { k.created[name] = id }

func (k *checker) producerID(id int64) {
	if k.ids[id] {
		k.c.failf("producer id %d is given twice", id)
	}
	k.ids[id] = true
}

// writer is the producer of a value.
func (k *checker) writer(value string) (p *producer, number int) {
	id, rest, _ := strings.Cut(value, "/")
	text, _, _ := strings.Cut(rest, "/")
	i, err := strconv.Atoi(id)
	number, err2 := strconv.Atoi(text)
	if err != nil || err2 != nil || i < 1 || i > len(k.c.clients) {
		return nil, 0
	}
	p, _ = k.c.clients[i-1].(*producer)
	return p, number
}

// read takes what is at an offset below a high watermark, as by saw it.
func (k *checker) read(at place, offset int64, value string, by fmt.Stringer) {
	t := k.parts[at]
	for int64(len(t.values)) <= offset {
		t.values = append(t.values, "")
	}
	p, _ := k.writer(value)
	switch old := t.values[offset]; {
	case old == value:
		return
	case old != "":
		k.c.failf("%v: at %d of %v is %.30q, it was %.30q", by, offset, at, value, old)
	case p == nil || p.at != at:
		k.c.failf("%v: at %d of %v is %.30q, which nobody has written there", by, offset, at, value)
	case p.isIdempotent:
		if was, ok := t.where[value]; ok {
			k.c.failf("%v: %.30q of an idempotent producer is at %d and at %d of %v", by, value, was, offset, at)
		}
		t.where[value] = offset
	}
	t.values[offset] = value
	if want, ok := t.acked[offset]; ok && want != value {
		k.c.failf("%v: at %d of %v is %.30q, %.30q was acknowledged", by, offset, at, value, want)
	}
}

// acknowledged takes an acknowledgement of acks=all.
func (k *checker) acknowledged(p *producer, base int64, values []string) {
	t := k.parts[p.at]
	for i, value := range values {
		offset := base + int64(i)
		if old, ok := t.acked[offset]; ok && old != value || offset < 0 {
			k.c.failf("%v: %.30q is acknowledged at %d, as %.30q was", p, value, offset, old)
		}
		if offset < int64(len(t.values)) && t.values[offset] != "" && t.values[offset] != value {
			k.c.failf("%v: %.30q is acknowledged at %d, where %.30q was read", p, value, offset, t.values[offset])
		}
		t.acked[offset] = value
		k.c.Stats.Acknowledged++
	}
}

// replicaName is a replica as a reader.
type replicaName struct {
	node int32
}

func (r replicaName) String() string { return fmt.Sprintf("node %d", r.node) }

// look sees what has changed on every node.
func (k *checker) look() {
	for _, n := range k.c.nodes {
		if n.b == nil || n.hang != nil && n.hang.hasBegun {
			continue
		}
		k.lookAtTerm(n)
		for _, at := range k.order {
			if p := n.b.Replica(at.topic, at.index); p != nil && p.Err() == nil {
				k.lookAt(n, at, p)
			}
		}
	}
}

func (k *checker) lookAtTerm(n *node) {
	id, term := n.b.Quorum().Leader()
	if id != n.id {
		return
	}
	if other, ok := k.terms[term]; !ok {
		k.terms[term] = n.id
		k.c.Stats.MetaElections++
	} else if other != n.id {
		k.c.failf("nodes %d and %d lead the metadata in term %d", other, n.id, term)
	}
}

func (k *checker) lookAt(n *node, at place, p *replica.Partition) {
	t := k.parts[at]
	s := n.seen[at]
	if s == nil {
		s = &seen{end: p.Log().EndOffset(), epoch: -1}
		n.seen[at] = s
	}
	a, ok := p.Assigned()
	hw, end := p.HighWatermark(), p.Log().EndOffset()
	if a.PartitionEpoch != s.epoch || end < s.end {
		k.c.note("node %d: %v is %+v, log [%d, %d) of epochs up to %d, high watermark %d", n.id, at, a, p.Log().StartOffset(), end, p.Log().LeaderEpoch(), hw)
		s.epoch = a.PartitionEpoch
	}
	if end < s.end {
		k.c.Stats.Truncations++
	}
	s.end = end
	if ok && a.PartitionEpoch > t.epoch {
		switch {
		case len(a.ISR) < t.isr:
			k.c.Stats.Shrinks++
		case len(a.ISR) > t.isr && t.isr > 0:
			k.c.Stats.Expands++
		}
		t.isr, t.epoch = len(a.ISR), a.PartitionEpoch
	}
	if hw > end {
		k.c.failf("node %d: the high watermark of %v is %d, the log ends at %d", n.id, at, hw, end)
		return
	}
	if ok && a.Leader == n.id {
		h, ok := t.leaders[a.LeaderEpoch]
		switch {
		case !ok:
			k.c.Stats.Elections++
		case h.node != n.id:
			k.c.failf("nodes %d and %d lead %v in epoch %d", h.node, n.id, at, a.LeaderEpoch)
		case h.life == n.life && hw < h.hw:
			k.c.failf("node %d: the high watermark of %v in epoch %d is %d after %d", n.id, at, a.LeaderEpoch, hw, h.hw)
		}
		t.leaders[a.LeaderEpoch] = holder{n.id, n.life, hw}
	}
	if hw > s.hw {
		k.scan(n, at, p, max(s.hw, p.Log().StartOffset()), hw)
		s.hw = hw
	}
}

// scan reads what has come below a replica's high watermark.
func (k *checker) scan(n *node, at place, p *replica.Partition, next, end int64) {
	err := record.Scan(p.Log().Read, next, end, func(offset int64, _, value []byte) error {
		k.read(at, offset, string(value), replicaName{n.id})
		return nil
	})
	if err != nil && !n.mem.Crashed() && n.b.Store().Err() == nil {
		k.c.failf("node %d reads %v from %d to %d: %v", n.id, at, next, end, err)
	}
}

// end is the end of what can be read of a partition: the newest leader's high watermark.
func (k *checker) end(at place) int64 {
	if l := k.leader(at); l != nil {
		return l.HighWatermark()
	}
	return 1 << 60
}

// leader is the replica that leads in the newest epoch, nil if there is none.
func (k *checker) leader(at place) (leading *replica.Partition) {
	newest := int32(-1)
	for _, n := range k.c.nodes {
		if n.b == nil {
			continue
		}
		p := n.b.Replica(at.topic, at.index)
		if p == nil {
			continue
		}
		if a, ok := p.Assigned(); ok && a.LeaderEpoch > newest {
			newest, leading = a.LeaderEpoch, nil
			if a.Leader == n.id {
				leading = p
			}
		} else if ok && a.LeaderEpoch == newest && a.Leader == n.id {
			leading = p
		}
	}
	return leading
}

// areActive says that every node knows every node to be active.
func (k *checker) areActive() bool {
	for _, n := range k.c.nodes {
		if n.b == nil {
			return false
		}
		active := 0
		n.b.Quorum().View(func(img *meta.Image) {
			for _, b := range img.Brokers() {
				if b.State == meta.BrokerActive {
					active++
				}
			}
		})
		if active != len(k.c.nodes) {
			return false
		}
	}
	return true
}

// unsettled is why not all nodes agree yet, "" if they do.
func (k *checker) unsettled() string {
	if !k.areActive() {
		return "not all brokers are active"
	}
	leader, term := k.c.nodes[0].b.Quorum().Leader()
	for _, n := range k.c.nodes {
		if l, in := n.b.Quorum().Leader(); l != leader || in != term || l == 0 {
			return fmt.Sprintf("node %d follows node %d in term %d, node 1 node %d in term %d", n.id, l, in, leader, term)
		}
	}
	why := ""
	k.c.nodes[0].b.Quorum().View(func(img *meta.Image) {
		for _, t := range img.Topics() {
			for i := range t.Partitions {
				if why == "" {
					why = k.unsettledPartition(place{t.Name, int32(i)}, &t.Partitions[i])
				}
			}
		}
	})
	return why
}

// unsettledPartition is why the replicas of a partition aren't what the metadata says, in sync and equally long.
func (k *checker) unsettledPartition(at place, want *meta.Partition) string {
	l := k.leader(at)
	if l == nil {
		return fmt.Sprintf("nobody leads %v", at)
	}
	if end := l.Log().EndOffset(); len(want.ISR) != len(want.Replicas) || len(want.Adding)+len(want.Removing) > 0 || l.HighWatermark() != end {
		return fmt.Sprintf("%v: %+v, high watermark %d of %d", at, *want, l.HighWatermark(), end)
	}
	for _, n := range k.c.nodes {
		p := n.b.Replica(at.topic, at.index)
		if (p != nil) != slices.Contains(want.Replicas, n.id) {
			return fmt.Sprintf("node %d: %v is %+v, there is a replica: %v", n.id, at, *want, p != nil)
		}
		if p == nil {
			continue
		}
		if a, _ := p.Assigned(); a.PartitionEpoch != want.PartitionEpoch || p.Log().DurableEnd() != l.HighWatermark() {
			return fmt.Sprintf("node %d: %v is %+v, [%d, %d) durable, the leader's %+v [%d, %d)", n.id, at, a, p.Log().StartOffset(), p.Log().DurableEnd(), *want, l.Log().StartOffset(), l.HighWatermark())
		}
	}
	return ""
}

// all is every partition that a node knows of.
func (k *checker) all(n *node) (all []place) {
	n.b.Quorum().View(func(img *meta.Image) {
		for _, t := range img.Topics() {
			for i := range t.Partitions {
				all = append(all, place{t.Name, int32(i)})
			}
		}
	})
	return all
}

// compareAll compares everything that is there with everything that is known.
func (k *checker) compareAll() {
	for _, at := range k.order {
		k.compare(at)
		k.complete(at)
	}
	for _, n := range k.c.nodes {
		n.b.Quorum().View(func(img *meta.Image) {
			for _, name := range k.c.admin.deleted {
				if img.Topic(name) != nil {
					k.c.failf("node %d has topic %s, whose deletion was acknowledged", n.id, name)
				}
			}
			for _, name := range k.c.admin.names {
				t := img.Topic(name)
				if t == nil {
					k.c.failf("node %d has no topic %s, whose creation was acknowledged", n.id, name)
				} else if id, ok := k.created[name]; ok && id != t.ID {
					k.c.failf("node %d has another topic %s than was created", n.id, name)
				}
			}
		})
	}
}

// compare has all replicas equal, byte by byte.
func (k *checker) compare(at place) {
	l := k.leader(at)
	start := int64(0) // of all: a new leader may not know yet that the one before deleted records
	for _, n := range k.c.nodes {
		if p := n.b.Replica(at.topic, at.index); p != nil {
			start = max(start, p.Log().StartOffset())
		}
	}
	want := k.bytes(at, l, start)
	for _, n := range k.c.nodes {
		p := n.b.Replica(at.topic, at.index)
		if p == nil {
			continue
		}
		k.scan(n, at, p, p.Log().StartOffset(), p.HighWatermark())
		if got := k.bytes(at, p, start); !bytes.Equal(got, want) {
			k.c.failf("%v: node %d has %d bytes, the leader %d, and they differ", at, n.id, len(got), len(want))
		}
	}
}

// bytes is a replica's batches from the one that has an offset.
func (k *checker) bytes(at place, p *replica.Partition, next int64) []byte {
	var all []byte
	for end := p.Log().EndOffset(); next < end; {
		pieces, err := p.Log().Read(next, end, 1<<20, nil)
		if err != nil || len(pieces) == 0 {
			k.c.failf("%v: reading at %d of %d gives %d pieces, %v", at, next, end, len(pieces), err)
			return nil
		}
		for _, piece := range pieces {
			all = append(all, piece...)
		}
		if err := record.Scan(func(int64, int64, int, [][]byte) ([][]byte, error) {
			p := pieces
			pieces = nil
			return p, nil
		}, next, end, func(offset int64, _, _ []byte) error {
			next = offset + 1
			return nil
		}); err != nil {
			k.c.failf("%v: %v", at, err)
			return nil
		}
	}
	return all
}

// complete has everything that was acknowledged there, and what idempotent producers wrote in its order.
func (k *checker) complete(at place) {
	t := k.parts[at]
	end := k.end(at)
	offsets := make([]int64, 0, len(t.acked))
	for offset := range t.acked {
		offsets = append(offsets, offset)
	}
	slices.Sort(offsets)
	for _, offset := range offsets {
		if offset < t.asked && t.values[offset] == "" { // deleted before anyone read it
			continue
		}
		if offset >= end || t.values[offset] != t.acked[offset] {
			k.c.failf("%.30q was acknowledged at %d of %v, which ends at %d", t.acked[offset], offset, at, end)
			return
		}
	}
	if int64(len(t.values)) > end {
		k.c.failf("%v was read up to %d, it ends at %d", at, len(t.values), end)
		return
	}
	type seen struct{ number, gaps int }
	last, gaps := make(map[*producer]seen), 0
	for offset, value := range t.values {
		if value == "" {
			gaps++
		}
		p, number := k.writer(value)
		if p == nil || !p.isIdempotent {
			continue
		}
		if l := last[p]; number <= l.number || number > l.number+1 && gaps == l.gaps {
			k.c.failf("at %d of %v is record %d of %v, after %d", offset, at, number, p, l.number)
			return
		}
		last[p] = seen{number, gaps}
	}
	if int64(len(t.values)) < end {
		k.c.failf("%v ends at %d, but only %d were seen", at, end, len(t.values))
	}
}
