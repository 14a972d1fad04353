package core

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

// latencyBounds are the upper bounds of the latency buckets; one more bucket holds the rest.
func latencyBounds() []time.Duration {
	return []time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
		500 * time.Millisecond, time.Second, 5 * time.Second,
	}
}

// stats counts what the broker does. Everything is atomic; it is read by Stats.
type stats struct {
	bytesIn, bytesOut            atomic.Int64
	accepted, refused, malformed atomic.Int64
	producedBytes, produced      atomic.Int64 // batches' bytes and records taken, duplicates apart
	fetchedBytes                 atomic.Int64
	errors                       atomic.Int64 // partitions answered with an error in a produce
	bounds                       []time.Duration
	byKey                        map[int16]*latency
}

// latency is one API key's requests: from decoding to the answer's completion (a fetch's wait included).
type latency struct {
	count, nanos atomic.Int64
	buckets      []atomic.Int64
}

func (s *stats) init(t *table) {
	s.bounds = latencyBounds()
	s.byKey = make(map[int16]*latency, len(t.rows))
	for _, row := range t.rows {
		s.byKey[row.key] = &latency{buckets: make([]atomic.Int64, len(s.bounds)+1)}
	}
}

// request counts a request when its done is called.
func (s *stats) request(req *Request, now func() time.Time, done Done) Done {
	l, began := s.byKey[req.Key], req.Now
	if l == nil { // a private key
		return done
	}
	return func(resp kmsg.Response) {
		took := now().Sub(began)
		i := 0
		for i < len(s.bounds) && took > s.bounds[i] {
			i++
		}
		l.buckets[i].Add(1)
		l.count.Add(1)
		l.nanos.Add(int64(took))
		done(resp)
	}
}

// Stats is a snapshot of what a broker has done since Open, and holds now. Plain counts only grow.
type Stats struct {
	BytesIn, BytesOut                       int64 // on the wire, frames whole
	ProducedRecords, ProducedBytes          int64 // appended by clients
	FetchedBytes                            int64 // record bytes answered
	ProduceErrors                           int64 // partitions of produce requests answered with an error
	MalformedFrames                         int64
	ConnectionsAccepted, ConnectionsRefused int64
	Connections                             int // now
	RequestBytesInUse, RequestBytesLimit    int64
	Topics, Partitions                      int // of the cluster
	Cluster                                 ClusterStats
	FetchSessions, FetchSessionPartitions   int   // now
	FetchSessionsEvicted                    int64 // to make room for others
	LogBytes                                int64
	LatencyBounds                           []time.Duration // of Requests' buckets
	Requests                                []RequestStats  // by API key, of every key served
	Store                                   storage.Stats
}

// ClusterStats is what this node's image says of the cluster, and of what this node leads.
type ClusterStats struct {
	IsMetadataLeader   bool // this node leads the metadata's group
	Nodes, ActiveNodes int  // registered, and those of them that may lead
	Leaderless         int  // partitions that nobody leads
	Led                int  // partitions that this node leads; of them:
	UnderReplicated    int  // some replica isn't in sync
	UnderMinISR        int  // fewer are in sync than min.insync.replicas, so that acks=all is refused
}

// RequestStats is the requests of one API key.
type RequestStats struct {
	Key     int16
	Name    string // Kafka's name of the key
	Count   int64
	Sum     time.Duration
	Buckets []int64 // Buckets[i] took at most LatencyBounds[i]; the last, longer. Not cumulative
}

// PartitionStats is one partition, for listings and metrics per partition.
type PartitionStats struct {
	Topic                                 string
	Partition                             int32
	StartOffset, HighWatermark, EndOffset int64
	SizeBytes                             int64
}

// Stats is a snapshot. It takes no lock for long and may be called at any time.
func (b *Broker) Stats() Stats {
	s := Stats{
		BytesIn: b.stats.bytesIn.Load(), BytesOut: b.stats.bytesOut.Load(),
		ProducedRecords: b.stats.produced.Load(), ProducedBytes: b.stats.producedBytes.Load(),
		FetchedBytes: b.stats.fetchedBytes.Load(), ProduceErrors: b.stats.errors.Load(),
		MalformedFrames:     b.stats.malformed.Load(),
		ConnectionsAccepted: b.stats.accepted.Load(), ConnectionsRefused: b.stats.refused.Load(),
		RequestBytesInUse: b.budget.inUse(), RequestBytesLimit: b.budget.limit,
		LatencyBounds: b.stats.bounds,
		Store:         b.store.Stats(),
	}
	b.mu.Lock()
	s.Connections = len(b.conns)
	b.mu.Unlock()
	s.FetchSessions, s.FetchSessionPartitions, s.FetchSessionsEvicted = b.sessions.counts()
	b.meta.View(func(img *meta.Image) { s.Partitions = img.PartitionCount() })
	s.Cluster = ClusterStats{IsMetadataLeader: b.leader.Load() == b.cfg.NodeID, ActiveNodes: len(b.activeNodes()), Nodes: len(b.nodes())}
	for _, t := range b.topics.all() {
		s.Topics++
		for _, p := range t.local() {
			s.LogBytes += p.Log().SizeBytes()
		}
		s.Cluster.count(t)
	}
	for _, row := range b.table.rows {
		l := b.stats.byKey[row.key]
		r := RequestStats{Key: row.key, Name: kmsg.NameForKey(row.key), Count: l.count.Load(), Sum: time.Duration(l.nanos.Load())}
		for i := range l.buckets {
			r.Buckets = append(r.Buckets, l.buckets[i].Load())
		}
		s.Requests = append(s.Requests, r)
	}
	return s
}

func (s *ClusterStats) count(t *topic) {
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Leader == meta.NoLeader {
			s.Leaderless++
		}
		if p.Leader != t.node {
			continue
		}
		s.Led++
		if len(p.ISR) < len(p.Replicas) {
			s.UnderReplicated++
		}
		if len(p.ISR) < min(t.configs.minISR, len(p.Replicas)) {
			s.UnderMinISR++
		}
	}
}

// Partitions is every partition, by topic and index.
func (b *Broker) Partitions() []PartitionStats {
	var list []PartitionStats
	for _, t := range b.topics.all() {
		for _, p := range t.local() {
			l := p.Log()
			list = append(list, PartitionStats{
				Topic: t.Name, Partition: p.Index, StartOffset: l.StartOffset(), HighWatermark: p.HighWatermark(),
				EndOffset: l.EndOffset(), SizeBytes: l.SizeBytes(),
			})
		}
	}
	return list
}
