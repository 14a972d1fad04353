package core

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/core/kafka"
	"github.com/weirlog/weir/storage"
)

// configKind is how a config's value is read, and DescribeConfigs' type of it.
type configKind int8

// Kafka's numbers of config types.
const (
	kindBoolean  configKind = 1
	kindString   configKind = 2
	kindInt      configKind = 3
	kindLong     configKind = 5
	kindDouble   configKind = 6
	kindList     configKind = 7
	kindPassword configKind = 9 // never shown, and never part of an error
)

// configKey is one topic config: how to check it, and which broker key holds its default.
type configKey struct {
	name    string
	broker  string // the broker's key for the default, empty if there is none
	kind    configKind
	def     string // Kafka's default
	min     float64
	max     float64
	choices []string // of a string or of each element of a list
}

// topicKeys is every topic config that Kafka 4 knows. Those that weir doesn't act on are checked and stored, so that
// configs move between clusters unchanged.
func topicKeys() []configKey {
	return []configKey{
		{name: "cleanup.policy", broker: "log.cleanup.policy", kind: kindList, def: "delete", choices: []string{"delete", "compact"}},
		{name: "compression.gzip.level", broker: "compression.gzip.level", kind: kindInt, def: "-1", min: -1, max: 9},
		{name: "compression.lz4.level", broker: "compression.lz4.level", kind: kindInt, def: "9", min: 1, max: 17},
		{name: "compression.type", broker: "compression.type", kind: kindString, def: "producer", choices: []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}},
		{name: "compression.zstd.level", broker: "compression.zstd.level", kind: kindInt, def: "3", min: -131072, max: 22},
		{name: "delete.retention.ms", broker: "log.cleaner.delete.retention.ms", kind: kindLong, def: "86400000", max: math.MaxInt64},
		{name: "file.delete.delay.ms", broker: "log.segment.delete.delay.ms", kind: kindLong, def: "60000", max: math.MaxInt64},
		{name: "flush.messages", broker: "log.flush.interval.messages", kind: kindLong, def: "9223372036854775807", min: 1, max: math.MaxInt64},
		{name: "flush.ms", broker: "log.flush.interval.ms", kind: kindLong, def: "9223372036854775807", max: math.MaxInt64},
		{name: "follower.replication.throttled.replicas", kind: kindList},
		{name: "index.interval.bytes", broker: "log.index.interval.bytes", kind: kindInt, def: "4096", max: math.MaxInt32},
		{name: "leader.replication.throttled.replicas", kind: kindList},
		{name: "local.retention.bytes", broker: "log.local.retention.bytes", kind: kindLong, def: "-2", min: -2, max: math.MaxInt64},
		{name: "local.retention.ms", broker: "log.local.retention.ms", kind: kindLong, def: "-2", min: -2, max: math.MaxInt64},
		{name: "max.compaction.lag.ms", broker: "log.cleaner.max.compaction.lag.ms", kind: kindLong, def: "9223372036854775807", min: 1, max: math.MaxInt64},
		{name: "max.message.bytes", broker: "message.max.bytes", kind: kindInt, def: "1048588", max: math.MaxInt32},
		{name: "message.timestamp.after.max.ms", broker: "log.message.timestamp.after.max.ms", kind: kindLong, def: "3600000", max: math.MaxInt64},
		{name: "message.timestamp.before.max.ms", broker: "log.message.timestamp.before.max.ms", kind: kindLong, def: "9223372036854775807", max: math.MaxInt64},
		{name: "message.timestamp.type", broker: "log.message.timestamp.type", kind: kindString, def: "CreateTime", choices: []string{"CreateTime", "LogAppendTime"}},
		{name: "min.cleanable.dirty.ratio", broker: "log.cleaner.min.cleanable.ratio", kind: kindDouble, def: "0.5", max: 1},
		{name: "min.compaction.lag.ms", broker: "log.cleaner.min.compaction.lag.ms", kind: kindLong, def: "0", max: math.MaxInt64},
		{name: "min.insync.replicas", broker: "min.insync.replicas", kind: kindInt, def: "1", min: 1, max: math.MaxInt32},
		{name: "preallocate", broker: "log.preallocate", kind: kindBoolean, def: "false"},
		{name: "remote.log.copy.disable", kind: kindBoolean, def: "false"},
		{name: "remote.log.delete.on.disable", kind: kindBoolean, def: "false"},
		{name: "remote.storage.enable", kind: kindBoolean, def: "false"},
		{name: "retention.bytes", broker: "log.retention.bytes", kind: kindLong, def: "-1", min: math.MinInt64, max: math.MaxInt64},
		{name: "retention.ms", broker: "log.retention.ms", kind: kindLong, def: "604800000", min: -1, max: math.MaxInt64},
		{name: "segment.bytes", broker: "log.segment.bytes", kind: kindInt, def: "1073741824", min: 14, max: math.MaxInt32},
		{name: "segment.index.bytes", broker: "log.index.size.max.bytes", kind: kindInt, def: "10485760", min: 4, max: math.MaxInt32},
		{name: "segment.jitter.ms", broker: "log.roll.jitter.ms", kind: kindLong, def: "0", max: math.MaxInt64},
		{name: "segment.ms", broker: "log.roll.ms", kind: kindLong, def: "604800000", min: 1, max: math.MaxInt64},
		{name: "unclean.leader.election.enable", broker: "unclean.leader.election.enable", kind: kindBoolean, def: "false"},
	}
}

// Errors of topic configs; kafka's code for both is INVALID_CONFIG.
var (
	errUnknownConfig = errors.New("unknown topic config")
	errConfigValue   = errors.New("invalid value of topic config")
)

// topicKey finds a topic config, or says which one may have been meant.
func topicKey(name string) (configKey, error) {
	keys := topicKeys()
	i := slices.IndexFunc(keys, func(k configKey) bool { return k.name == name })
	if i < 0 {
		return configKey{}, fmt.Errorf("%w %s%s", errUnknownConfig, name, didYouMean(name, keys))
	}
	return keys[i], nil
}

// didYouMean names the known key that name was probably meant to be.
func didYouMean(name string, keys []configKey) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if near := kafka.Nearest(name, names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// checkTopicConfig reports what is wrong with one setting.
func checkTopicConfig(name, value string) error {
	key, err := topicKey(name)
	if err != nil {
		return err
	}
	if err := key.check(value); err != nil {
		return fmt.Errorf("%w %s: %w", errConfigValue, name, err)
	}
	return nil
}

func (k configKey) check(value string) error {
	switch k.kind {
	case kindBoolean:
		if value != "true" && value != "false" {
			return fmt.Errorf("%q is neither true nor false", value)
		}
	case kindInt, kindLong:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", value)
		}
		if f := float64(n); f < k.min || f > k.max {
			return fmt.Errorf("%d is out of range (%.0f to %.0f)", n, k.min, k.max)
		}
	case kindDouble:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f >= k.min && f <= k.max) {
			return fmt.Errorf("%q is not a number from %g to %g", value, k.min, k.max)
		}
	case kindPassword:
		if value != "" && float64(len(value)) < k.min {
			return fmt.Errorf("it is shorter than %.0f characters", k.min)
		}
	case kindString:
		return k.choose(value)
	case kindList:
		if value == "" {
			return nil
		}
		for element := range strings.SplitSeq(value, ",") {
			if err := k.choose(strings.TrimSpace(element)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k configKey) choose(value string) error {
	if len(k.choices) == 0 || slices.Contains(k.choices, value) {
		return nil
	}
	return fmt.Errorf("%q is none of %s", value, strings.Join(k.choices, ", "))
}

// TopicDefaults are the broker's own values for topic configs, by the topic's key; what is absent is Kafka's default.
type TopicDefaults map[string]string

func (d *TopicDefaults) setDefaults() {
	if *d == nil {
		*d = TopicDefaults{}
	}
}

func (d TopicDefaults) validate() []error {
	var faults []error
	for name, value := range d {
		if err := checkTopicConfig(name, value); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// with is the configs of a topic that sets own.
func (d TopicDefaults) with(own map[string]string) topicConfigs {
	c := topicConfigs{own: own, defaults: d}
	c.minISR = int(c.number("min.insync.replicas"))
	return c
}

// topicConfigs answers what a topic's configs are: its own, else the broker's, else Kafka's.
type topicConfigs struct {
	own      map[string]string
	defaults TopicDefaults
	minISR   int // min.insync.replicas, which every produce wants
}

func (c topicConfigs) value(key configKey) string {
	if v, ok := c.own[key.name]; ok {
		return v
	}
	if v, ok := c.defaults[key.name]; ok {
		return v
	}
	return key.def
}

// get reads a config that topicKeys has.
func (c topicConfigs) get(name string) string {
	keys := topicKeys()
	return c.value(keys[slices.IndexFunc(keys, func(k configKey) bool { return k.name == name })])
}

// number reads an int or long. Values were checked when they were set.
func (c topicConfigs) number(name string) int64 {
	n, _ := strconv.ParseInt(c.get(name), 10, 64)
	return n
}

// milliseconds reads a duration; one that doesn't fit a time.Duration is the longest, -1 stays negative.
func (c topicConfigs) milliseconds(name string) time.Duration {
	n := c.number(name)
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// log is what storage has to know of them.
func (c topicConfigs) log() storage.LogConfig {
	l := storage.LogConfig{
		SegmentBytes:       c.number("segment.bytes"),
		Segment:            c.milliseconds("segment.ms"),
		RetentionBytes:     c.number("retention.bytes"),
		Retention:          c.milliseconds("retention.ms"),
		IndexIntervalBytes: int(c.number("index.interval.bytes")),
		MaxMessageBytes:    int(c.number("max.message.bytes")),
		TimestampBefore:    c.milliseconds("message.timestamp.before.max.ms"),
		TimestampAfter:     c.milliseconds("message.timestamp.after.max.ms"),
		DeleteRetention:    c.milliseconds("delete.retention.ms"),
		MinCompactionLag:   c.milliseconds("min.compaction.lag.ms"),
		MaxCompactionLag:   c.milliseconds("max.compaction.lag.ms"),
	}
	l.MinDirtyRatio, _ = strconv.ParseFloat(c.get("min.cleanable.dirty.ratio"), 64)
	if l.DeleteRetention == 0 {
		l.DeleteRetention = -1 // storage's zero is its default
	}
	if l.MinDirtyRatio == 0 {
		l.MinDirtyRatio = math.SmallestNonzeroFloat64
	}
	for policy := range strings.SplitSeq(c.get("cleanup.policy"), ",") {
		switch strings.TrimSpace(policy) {
		case "delete":
			l.Cleanup |= storage.CleanupDelete
		case "compact":
			l.Cleanup |= storage.CleanupCompact
		}
	}
	if c.get("message.timestamp.type") == "LogAppendTime" {
		l.TimestampType = storage.LogAppendTime
	}
	return l
}
