package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/core/kafka"
	"github.com/weirlog/weir/storage"
)

// setting is one broker key: how its value is checked, where it goes, and how it is read back for those who ask.
type setting struct {
	configKey                                        // def is Kafka's default
	apply     func(c *Config, value string, n int64) // nil: it can't be set
	read      func(c *Config) string                 // nil: it isn't shown
}

// settings are the broker keys that are no topic defaults. Names and meanings are Kafka's; cluster.secret, log.flush and log.tail.bytes are weir's own.
func settings() []setting {
	return slices.Concat(nodeSettings(), limitSettings(), groupSettings(), clusterSettings())
}

func clusterSettings() []setting {
	return []setting{
		{configKey{name: "auto.leader.rebalance.enable", kind: kindBoolean, def: "true"},
			func(c *Config, v string, _ int64) { c.KeepLeaders = v == "false" },
			func(c *Config) string { return strconv.FormatBool(!c.KeepLeaders) }},
		secretSetting("cluster.secret", 8, func(c *Config) *string { return &c.ClusterSecret }),
		timeSetting("broker.session.timeout.ms", kindInt, "9000", 100, time.Millisecond, func(c *Config) *time.Duration { return &c.Session }),
		timeSetting("controlled.shutdown.max.wait.ms", kindInt, "5000", 1, time.Millisecond, func(c *Config) *time.Duration { return &c.ShutdownWait }),
		timeSetting("controller.quorum.election.timeout.ms", kindInt, "1000", 50, time.Millisecond, func(c *Config) *time.Duration { return &c.ElectionTimeout }),
		timeSetting("leader.imbalance.check.interval.seconds", kindLong, "300", 1, time.Second, func(c *Config) *time.Duration { return &c.BalanceInterval }),
		intSetting("replica.fetch.response.max.bytes", kindInt, "10485760", 1024, func(c *Config) *int32 { return &c.ReplicaFetchBytes }),
		timeSetting("replica.lag.time.max.ms", kindLong, "30000", 1, time.Millisecond, func(c *Config) *time.Duration { return &c.ReplicaLag }),
	}
}

func nodeSettings() []setting {
	return []setting{
		textSetting("advertised.listeners", "", func(c *Config, v string) { c.Advertise = trimScheme(v) }, func(c *Config) string { return "PLAINTEXT://" + c.Advertise }),
		{configKey{name: "auto.create.topics.enable", kind: kindBoolean, def: "true"},
			func(c *Config, v string, _ int64) { c.AutoCreateTopics = v == "true" },
			func(c *Config) string { return strconv.FormatBool(c.AutoCreateTopics) }},
		fixedSetting("broker.id", kindInt, "-1", func(c *Config) string { return strconv.Itoa(int(c.NodeID)) }),
		textSetting("broker.rack", "", func(c *Config, v string) { c.Rack = v }, func(c *Config) string { return c.Rack }),
		factorSetting("default.replication.factor", "1", func(c *Config) *int16 { return &c.ReplicationFactor }),
		fixedSetting("delete.topic.enable", kindBoolean, "true", func(*Config) string { return "true" }),
		fixedSetting("inter.broker.protocol.version", kindString, "4.0", func(*Config) string { return "4.0" }),
		textSetting("log.dirs", "", func(c *Config, v string) { c.Dir = v }, func(c *Config) string { return c.Dir }),
		textSetting("log.flush", flushNames()[storage.SyncGroup], func(c *Config, v string) {
			c.Flush = storage.SyncMode(slices.Index(flushNames(), v))
		}, func(c *Config) string { return flushNames()[c.Flush] }, flushNames()...),
		fixedSetting("log.retention.check.interval.ms", kindLong, "300000", func(*Config) string { return "30000" }),
		intSetting("node.id", kindInt, "-1", 0, func(c *Config) *int32 { return &c.NodeID }),
		intSetting("num.partitions", kindInt, "1", 1, func(c *Config) *int32 { return &c.NumPartitions }),
	}
}

func limitSettings() []setting {
	return []setting{
		timeSetting("connections.max.idle.ms", kindLong, "600000", 1, time.Millisecond, func(c *Config) *time.Duration { return &c.MaxIdle }),
		intSetting("fetch.max.bytes", kindInt, "57671680", 1024, func(c *Config) *int32 { return &c.MaxFetchBytes }),
		timeSetting("log.cleaner.backoff.ms", kindLong, "15000", 1, time.Millisecond, func(c *Config) *time.Duration { return &c.CompactionInterval }),
		intSetting("log.cleaner.dedupe.buffer.size", kindLong, "134217728", 1<<20, func(c *Config) *int64 { return &c.CompactionMapBytes }),
		intSetting("log.cleaner.io.max.bytes.per.second", kindLong, "9223372036854775807", 1, func(c *Config) *int64 { return &c.CompactionRate }),
		intSetting("log.tail.bytes", kindLong, "0", 1<<20, func(c *Config) *int64 { return &c.TailBytes }),
		intSetting("max.connections", kindInt, "2147483647", 1, func(c *Config) *int { return &c.MaxConnections }),
		intSetting("queued.max.request.bytes", kindLong, "-1", 1<<20, func(c *Config) *int64 { return &c.MemoryBytes }),
		intSetting("socket.request.max.bytes", kindInt, "104857600", 1024, func(c *Config) *int32 { return &c.MaxRequestBytes }),
	}
}

func groupSettings() []setting {
	return []setting{
		timeSetting("group.initial.rebalance.delay.ms", kindInt, "3000", 0, time.Millisecond, func(c *Config) *time.Duration { return &c.GroupInitialRebalanceDelay }),
		timeSetting("group.max.session.timeout.ms", kindInt, "1800000", 1, time.Millisecond, func(c *Config) *time.Duration { return &c.GroupMaxSession }),
		intSetting("group.max.size", kindInt, "2147483647", 1, func(c *Config) *int { return &c.GroupMaxSize }),
		timeSetting("group.min.session.timeout.ms", kindInt, "6000", 1, time.Millisecond, func(c *Config) *time.Duration { return &c.GroupMinSession }),
		intSetting("offset.metadata.max.bytes", kindInt, "4096", 0, func(c *Config) *int { return &c.OffsetMetadataMaxBytes }),
		timeSetting("offsets.retention.minutes", kindInt, "10080", 1, time.Minute, func(c *Config) *time.Duration { return &c.OffsetsRetention }),
		intSetting("offsets.topic.num.partitions", kindInt, "50", 1, func(c *Config) *int32 { return &c.OffsetsTopicPartitions }),
		factorSetting("offsets.topic.replication.factor", "3", func(c *Config) *int16 { return &c.OffsetsReplicationFactor }),
	}
}

// flushNames are the values of log.flush, by storage's mode.
func flushNames() []string { return []string{storage.SyncGroup: "group", storage.SyncOS: "os"} }

// intSetting is a whole number from least on, as far as kind and field go.
func intSetting[T int | int32 | int64](name string, kind configKind, kafkaDefault string, least float64, field func(*Config) *T) setting {
	most := float64(math.MaxInt32)
	if kind == kindLong {
		most = math.MaxInt64
	}
	return setting{configKey{name: name, kind: kind, def: kafkaDefault, min: least, max: most},
		func(c *Config, _ string, n int64) { *field(c) = T(n) },
		func(c *Config) string { return strconv.FormatInt(int64(*field(c)), 10) }}
}

func timeSetting(name string, kind configKind, kafkaDefault string, least float64, unit time.Duration, field func(*Config) *time.Duration) setting {
	return setting{configKey{name: name, kind: kind, def: kafkaDefault, min: least, max: math.MaxInt32},
		func(c *Config, _ string, n int64) { *field(c) = time.Duration(n) * unit },
		func(c *Config) string { return strconv.FormatInt(int64(*field(c)/unit), 10) }}
}

func textSetting(name, kafkaDefault string, set func(*Config, string), read func(*Config) string, choices ...string) setting {
	return setting{configKey{name: name, kind: kindString, def: kafkaDefault, choices: choices},
		func(c *Config, v string, _ int64) { set(c, v) }, read}
}

// secretSetting is what nobody is shown: reading it says only whether it is there.
func secretSetting(name string, leastChars float64, field func(*Config) *string) setting {
	return setting{configKey{name: name, kind: kindPassword, min: leastChars},
		func(c *Config, v string, _ int64) { *field(c) = v },
		func(c *Config) string {
			if *field(c) == "" {
				return ""
			}
			return "[hidden]"
		}}
}

// factorSetting is a replication factor: any is taken, and clamped to the nodes there are. -1 is the default, which is what there is, but 3 at
// most.
func factorSetting(name, kafkaDefault string, field func(*Config) *int16) setting {
	return setting{configKey{name: name, kind: kindInt, def: kafkaDefault, min: -1, max: math.MaxInt16},
		func(c *Config, _ string, n int64) { *field(c) = int16(max(0, n)) },
		func(c *Config) string { return strconv.Itoa(int(cmp.Or(*field(c), 3))) }}
}

// fixedSetting is shown and can't be set.
func fixedSetting(name string, kind configKind, kafkaDefault string, read func(*Config) string) setting {
	return setting{configKey{name: name, kind: kind, def: kafkaDefault}, nil, read}
}

// trimScheme makes HOST:PORT of a listener such as PLAINTEXT://HOST:PORT.
func trimScheme(listener string) string {
	if _, rest, ok := strings.Cut(listener, "://"); ok {
		return rest
	}
	return listener
}

// Keys are the names of all broker properties, sorted.
func Keys() []string { return slices.Sorted(maps.Keys(knownSettings(nil))) }

// knownSettings are all broker properties: the broker's own and the defaults of topics. props tells which finer units of
// time are given beside coarser ones.
func knownSettings(props map[string]string) map[string]setting {
	known := make(map[string]setting)
	for _, s := range settings() {
		if s.apply != nil {
			known[s.name] = s
		}
	}
	for _, k := range topicKeys() {
		if k.broker == "" {
			continue
		}
		topic := k.name
		s := setting{k, func(c *Config, v string, _ int64) { c.Topic[topic] = v }, func(c *Config) string { return c.Topic.with(nil).value(k) }}
		s.name = k.broker
		known[k.broker] = s
	}
	for name, unit := range map[string]time.Duration{"log.retention.minutes": time.Minute, "log.retention.hours": time.Hour, "log.roll.hours": time.Hour} {
		topic := map[bool]string{true: "segment.ms", false: "retention.ms"}[name == "log.roll.hours"]
		known[name] = setting{configKey: configKey{name: name, kind: kindLong, min: -1, max: math.MaxInt32}, apply: func(c *Config, _ string, n int64) {
			if _, finer := props["log."+strings.Replace(topic, "segment", "roll", 1)]; !finer {
				c.Topic[topic] = strconv.FormatInt(max(-1, n*unit.Milliseconds()), 10)
			}
		}}
	}
	return known
}

// shownSettings are the broker properties that DescribeConfigs answers, sorted.
func shownSettings() []setting {
	known := knownSettings(nil)
	for _, s := range settings() {
		known[s.name] = s
	}
	maps.DeleteFunc(known, func(_ string, s setting) bool { return s.read == nil })
	return slices.SortedFunc(maps.Values(known), func(a, b setting) int { return strings.Compare(a.name, b.name) })
}

// Set applies broker properties, named as Kafka names them, to c. All faults are reported at once: values that are wrong,
// and keys that are unknown, each with the nearest known key. c is changed only by the properties that are right.
func (c *Config) Set(props map[string]string) error {
	known := knownSettings(props)
	c.Topic.setDefaults()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(props)) {
		value := strings.TrimSpace(props[name])
		s, ok := known[name]
		if !ok {
			fault := fmt.Errorf("unknown broker key %s", name)
			if near := kafka.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
				fault = fmt.Errorf("%w; did you mean %s?", fault, near)
			}
			faults = append(faults, fault)
			continue
		}
		if err := s.check(value); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		n, _ := strconv.ParseInt(value, 10, 64) // text keys leave it alone
		s.apply(c, value, n)
	}
	return errors.Join(faults...)
}
