package core

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

// Config says what a broker is. SetDefaults fills what is zero; Validate reports every fault at once.
type Config struct {
	NodeID    int32  // node.id; 0: the data folder's, 1 if it has none
	Rack      string // broker.rack
	Dir       string // log.dirs: the data folder
	Advertise string // advertised.listeners: HOST:PORT that clients are told; set by Serve from its listener when empty

	Flush            storage.SyncMode // log.flush: group (default) or os
	WALFileBytes     int64            // size of one write-ahead log file; 0 = storage's default
	AutoCreateTopics bool             // auto.create.topics.enable
	NumPartitions    int32            // num.partitions: of an auto-created topic, and of one created with -1
	Topic            TopicDefaults    // log.*: what topics that don't say otherwise get

	MaxRequestBytes    int32         // socket.request.max.bytes
	MaxFetchBytes      int32         // fetch.max.bytes: cap of one fetch answer
	MaxIdle            time.Duration // connections.max.idle.ms
	MaxInFlight        int           // requests of one connection that may wait for their answers
	MemoryBytes        int64         // bound of all requests' bytes together
	TailBytes          int64         // storage's tail memory; 0 = storage's default
	CompactionMapBytes int64         // log.cleaner.dedupe.buffer.size: memory for the keys of a compaction
	CompactionRate     int64         // log.cleaner.io.max.bytes.per.second
	CompactionInterval time.Duration // log.cleaner.backoff.ms: how often it is looked for a log to compact
	MaxConnections     int           // max.connections
	MaxPartitions      int           // bound of partitions on this node
	MetadataLogBytes   int           // bound of one metadata command
	ProducerIDBlock    int64         // producer ids taken from the metadata at a time
	RequestTimeoutMax  time.Duration // longest wait that a client's timeout or max wait is granted

	OffsetsTopicPartitions     int32         // offsets.topic.num.partitions
	GroupInitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	GroupMinSession            time.Duration // group.min.session.timeout.ms
	GroupMaxSession            time.Duration // group.max.session.timeout.ms
	GroupMaxSize               int           // group.max.size: members of one group
	OffsetMetadataMaxBytes     int           // offset.metadata.max.bytes
	OffsetsRetention           time.Duration // offsets.retention.minutes, counted from a group's becoming empty

	Join                     []string      // addresses of nodes to form a cluster with, or to join; empty: this node is its own cluster, or knows others already
	ClusterSecret            string        // cluster.secret: proves nodes to each other; empty: there are no others
	Peers                    Peers         // how others are reached; nil: over TCP, if there is a secret
	ElectionTimeout          time.Duration // controller.quorum.election.timeout.ms: after so much silence of the metadata's leader others try to lead
	Session                  time.Duration // broker.session.timeout.ms: after so much silence a broker is fenced
	ReplicaLag               time.Duration // replica.lag.time.max.ms: a follower that was behind for longer leaves the in-sync set
	ReplicaFetchBytes        int32         // replica.fetch.response.max.bytes
	ShutdownWait             time.Duration // controlled.shutdown.max.wait.ms: how long others are given to take over
	BalanceInterval          time.Duration // leader.imbalance.check.interval.seconds: how often preferred replicas are made leaders again
	KeepLeaders              bool          // auto.leader.rebalance.enable=false
	ReplicationFactor        int16         // default.replication.factor; 0: as many as there are brokers, 3 at most
	OffsetsReplicationFactor int16         // offsets.topic.replication.factor
	GrowingTopics            []string      // get the replicas of a new topic when there are the brokers for it, as internal topics do

	SnapshotEvery int    // commands between two snapshots of the metadata; 0 = meta's default
	Faults        Faults // for tests of tests

	FS     vfs.FS           // nil = the operating system's
	Logger *slog.Logger     // nil = discard
	Now    func() time.Time // nil = time.Now
	Rand   io.Reader        // nil = crypto/rand; cluster id, topic ids, member ids
}

// Default is the configuration of one embedded node with its data in dir.
func Default(dir string) Config {
	c := Config{Dir: dir, AutoCreateTopics: true}
	c.SetDefaults()
	return c
}

// SetDefaults fills the fields that are zero and have a default. AutoCreateTopics has none: its zero is false.
func (c *Config) SetDefaults() {
	def(&c.NumPartitions, 1)
	c.Topic.setDefaults()
	def(&c.MaxRequestBytes, 100<<20)
	def(&c.MaxFetchBytes, 55<<20)
	def(&c.MaxIdle, 10*time.Minute)
	def(&c.MaxInFlight, 64)
	def(&c.MemoryBytes, 256<<20)
	def(&c.CompactionMapBytes, 64<<20)
	def(&c.CompactionRate, 64<<20)
	def(&c.CompactionInterval, 15*time.Second)
	def(&c.MaxConnections, 20_000)
	def(&c.MaxPartitions, 200_000)
	def(&c.MetadataLogBytes, 8<<20)
	def(&c.ProducerIDBlock, 1000)
	def(&c.RequestTimeoutMax, 10*time.Minute)
	def(&c.OffsetsTopicPartitions, 50)
	def(&c.GroupMinSession, 6*time.Second)
	def(&c.GroupMaxSession, 30*time.Minute)
	def(&c.GroupMaxSize, 10_000)
	def(&c.OffsetMetadataMaxBytes, 4096)
	def(&c.OffsetsRetention, 7*24*time.Hour)
	def(&c.ElectionTimeout, time.Second)
	def(&c.Session, time.Second)
	def(&c.ReplicaLag, 10*time.Second)
	def(&c.ReplicaFetchBytes, 10<<20)
	def(&c.ShutdownWait, 5*time.Second)
	def(&c.BalanceInterval, 5*time.Minute)
	def(&c.OffsetsReplicationFactor, 3)
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong with c.
func (c *Config) Validate() error {
	var faults []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	bad(c.Dir != "", "log.dirs: a data folder is needed")
	bad(c.NodeID >= 0, "node.id %d: must not be negative", c.NodeID)
	bad(c.NumPartitions >= 1, "num.partitions %d: must be at least 1", c.NumPartitions)
	bad(c.MaxRequestBytes >= 1024, "socket.request.max.bytes %d: must be at least 1024", c.MaxRequestBytes)
	bad(c.MaxFetchBytes >= 1024, "fetch.max.bytes %d: must be at least 1024", c.MaxFetchBytes)
	bad(c.MaxInFlight >= 1, "in-flight requests of a connection %d: must be at least 1", c.MaxInFlight)
	bad(c.MemoryBytes >= 1<<20, "memory %d bytes: must be at least 1 MiB", c.MemoryBytes)
	bad(c.MaxConnections >= 1, "max.connections %d: must be at least 1", c.MaxConnections)
	bad(c.OffsetsTopicPartitions >= 1, "offsets.topic.num.partitions %d: must be at least 1", c.OffsetsTopicPartitions)
	bad(c.ProducerIDBlock >= 1, "producer id block %d: must be at least 1", c.ProducerIDBlock)
	if c.Advertise != "" {
		_, _, err := splitHostPort(c.Advertise)
		bad(err == nil, "advertised.listeners %q: want HOST:PORT", c.Advertise)
	}
	faults = append(faults, c.Topic.validate()...)
	return errors.Join(faults...)
}

func splitHostPort(addr string) (string, int32, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", addr, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port of %q: %w", addr, err)
	}
	return host, int32(n), nil
}
