package core

import (
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

// setting is one broker key: how to check its value and, unless nil, where it goes.
type setting struct {
	configKey
	apply func(c *Config, value string, n int64)
}

// settings are the broker keys that are no topic defaults. Names and meanings are Kafka's; log.flush is weir's own.
func settings() []setting {
	whole := func(name string, least, most float64, apply func(c *Config, n int64)) setting {
		return setting{configKey{name: name, kind: kindLong, min: least, max: most}, func(c *Config, _ string, n int64) { apply(c, n) }}
	}
	text := func(name string, apply func(c *Config, v string), choices ...string) setting {
		return setting{configKey{name: name, kind: kindString, choices: choices}, func(c *Config, v string, _ int64) { apply(c, v) }}
	}
	millis := func(name string, least float64, field func(c *Config) *time.Duration) setting {
		return whole(name, least, math.MaxInt32, func(c *Config, n int64) { *field(c) = time.Duration(n) * time.Millisecond })
	}
	return []setting{
		whole("node.id", 0, math.MaxInt32, func(c *Config, n int64) { c.NodeID = int32(n) }),
		text("broker.rack", func(c *Config, v string) { c.Rack = v }),
		text("log.dirs", func(c *Config, v string) { c.Dir = v }),
		text("advertised.listeners", func(c *Config, v string) { c.Advertise = trimScheme(v) }),
		text("log.flush", func(c *Config, v string) {
			c.Flush = storage.SyncGroup
			if v == "os" {
				c.Flush = storage.SyncOS
			}
		}, "group", "os"),
		{configKey{name: "auto.create.topics.enable", kind: kindBoolean}, func(c *Config, v string, _ int64) { c.AutoCreateTopics = v == "true" }},
		whole("num.partitions", 1, math.MaxInt32, func(c *Config, n int64) { c.NumPartitions = int32(n) }),
		whole("default.replication.factor", -1, math.MaxInt16, func(*Config, int64) {}),       // clamped to the nodes there are
		whole("offsets.topic.replication.factor", -1, math.MaxInt16, func(*Config, int64) {}), // likewise
		whole("socket.request.max.bytes", 1024, math.MaxInt32, func(c *Config, n int64) { c.MaxRequestBytes = int32(n) }),
		whole("fetch.max.bytes", 1024, math.MaxInt32, func(c *Config, n int64) { c.MaxFetchBytes = int32(n) }),
		millis("connections.max.idle.ms", 1, func(c *Config) *time.Duration { return &c.MaxIdle }),
		whole("max.connections", 1, math.MaxInt32, func(c *Config, n int64) { c.MaxConnections = int(n) }),
		whole("offsets.topic.num.partitions", 1, math.MaxInt32, func(c *Config, n int64) { c.OffsetsTopicPartitions = int32(n) }),
		millis("group.initial.rebalance.delay.ms", 0, func(c *Config) *time.Duration { return &c.GroupInitialRebalanceDelay }),
		millis("group.min.session.timeout.ms", 1, func(c *Config) *time.Duration { return &c.GroupMinSession }),
		millis("group.max.session.timeout.ms", 1, func(c *Config) *time.Duration { return &c.GroupMaxSession }),
		whole("group.max.size", 1, math.MaxInt32, func(c *Config, n int64) { c.GroupMaxSize = int(n) }),
		whole("offset.metadata.max.bytes", 0, math.MaxInt32, func(c *Config, n int64) { c.OffsetMetadataMaxBytes = int(n) }),
		whole("offsets.retention.minutes", 1, math.MaxInt32, func(c *Config, n int64) { c.OffsetsRetention = time.Duration(n) * time.Minute }),
		whole("queued.max.request.bytes", 1<<20, math.MaxInt64, func(c *Config, n int64) { c.MemoryBytes = n }),
		whole("log.tail.bytes", 1<<20, math.MaxInt64, func(c *Config, n int64) { c.TailBytes = n }),
	}
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
		known[s.name] = s
	}
	for _, k := range topicKeys() {
		if k.broker == "" {
			continue
		}
		topic := k.name
		s := setting{configKey: k, apply: func(c *Config, v string, _ int64) { c.Topic[topic] = v }}
		s.name = k.broker
		known[k.broker] = s
	}
	for name, unit := range map[string]time.Duration{"log.retention.minutes": time.Minute, "log.retention.hours": time.Hour, "log.roll.hours": time.Hour} {
		topic := map[bool]string{true: "segment.ms", false: "retention.ms"}[name == "log.roll.hours"]
		known[name] = setting{configKey{name: name, kind: kindLong, min: -1, max: math.MaxInt32}, func(c *Config, _ string, n int64) {
			if _, finer := props["log."+strings.Replace(topic, "segment", "roll", 1)]; !finer {
				c.Topic[topic] = strconv.FormatInt(max(-1, n*unit.Milliseconds()), 10)
			}
		}}
	}
	return known
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
