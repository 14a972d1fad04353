package worker

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/core/kafka"
)

// ErrConfig is wrapped by every fault of a worker's configuration.
var ErrConfig = errors.New("worker configuration")

// Config is a worker's configuration. Make it with [ParseConfig].
type Config struct {
	// Props are the worker's properties as given: source of client settings, converters and providers.
	Props map[string]string

	GroupID     string
	WorkerID    string // host:port of the advertised REST address: what statuses name
	Listener    string // host:port that REST is to listen on
	ConfigTopic TopicConfig
	OffsetTopic TopicConfig
	StatusTopic TopicConfig

	Standalone bool   // no group and no internal topics: connectors are given anew at each start
	OffsetFile string // of a standalone worker: offset.storage.file.filename

	Session   time.Duration // session.timeout.ms
	Heartbeat time.Duration // heartbeat.interval.ms
	Rebalance time.Duration // rebalance.timeout.ms
	Protocols []string      // offered to the group, by connect.protocol
	// RebalanceDelay is scheduled.rebalance.max.delay.ms, WorkerSync worker.sync.timeout.ms, KeyTTL inter.worker.key.ttl.ms.
	RebalanceDelay time.Duration
	WorkerSync     time.Duration
	KeyTTL         time.Duration
	GroupWait      time.Duration // connect.group.wait.ms; negative: for ever

	FlushInterval   time.Duration // offset.flush.interval.ms
	FlushTimeout    time.Duration // offset.flush.timeout.ms
	ShutdownTimeout time.Duration // task.shutdown.graceful.timeout.ms
	AbandonAfter    time.Duration // how long after that tasks that don't end are waited for
	TopicCreation   bool
	TopicTracking   bool
	TopicReset      bool
	UnknownIsError  bool // config.unknown=error
	Overrides       overridePolicy
	Notes           []string // one line for each key that Java knows, that is set, and that has no effect here

	TaskMemoryBytes int64
	RestartMax      int           // automatic restarts without progress before a task stays FAILED; 0: none at all
	RestartMin      time.Duration // first back-off
	RestartCap      time.Duration // longest back-off
	ScratchDir      string
	ScratchMaxBytes int64
}

// TopicConfig is how one of the three internal topics is named and made.
type TopicConfig struct {
	Name       string
	Partitions int32
	Replicas   int16 // -1: the broker's default
	Settings   map[string]string
	Create     bool
}

func ptr[T any](v T) *T { return &v }

// workerFields are the worker's own keys. Client settings and prefixes are listed where they are read.
func workerFields() []connect.Field {
	str := func(name, def, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeString, Default: def, Importance: connect.Medium, Doc: doc}
	}
	num := func(name string, def, least int64, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeLong, Default: strconv.FormatInt(def, 10), Min: &least, Importance: connect.Low, Doc: doc}
	}
	boolean := func(name, def, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeBool, Default: def, Importance: connect.Low, Doc: doc}
	}
	required := func(name, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeString, Required: true, Importance: connect.High, Doc: doc}
	}
	prefix := func(name string) connect.Field { return connect.Field{Name: name, Prefix: true} }
	eos := boolean("exactly.once.source.support", "disabled", "Exactly-once delivery of sources.")
	eos.Type, eos.Refused = connect.TypeString, "exactly-once sources are not supported yet; remove the key or set it to disabled"
	seal := str("connect.secrets", "plain", "How inline secrets are kept in the config topic.")
	seal.Refused = "sealing is not supported yet; use a config provider for secrets"
	return []connect.Field{
		required("bootstrap.servers", "Brokers to start from."),
		required("group.id", "The group of workers."),
		required("config.storage.topic", "Topic of connector configurations."),
		required("offset.storage.topic", "Topic of source offsets."),
		required("status.storage.topic", "Topic of statuses."),
		num("config.storage.replication.factor", 3, -1, "Replicas of the config topic; more than there are brokers are cut."),
		num("offset.storage.replication.factor", 3, -1, "Replicas of the offsets topic."),
		num("status.storage.replication.factor", 3, -1, "Replicas of the status topic."),
		num("offset.storage.partitions", 25, 1, "Partitions of the offsets topic."),
		num("status.storage.partitions", 5, 1, "Partitions of the status topic."),
		boolean("internal.topics.automatic.creation.enable", "true", "Create the internal topics when they are missing."),
		str("key.converter", "", "Converter of keys."), str("value.converter", "", "Converter of values."),
		str("header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter", "Converter of headers."),
		num("offset.flush.interval.ms", 1000, 1, "How often offsets are committed."),
		num("offset.flush.timeout.ms", 5000, 1, "How long one commit may take before it counts as failed."),
		num("task.shutdown.graceful.timeout.ms", 5000, 0, "How long all tasks together may take to end."),
		boolean("topic.creation.enable", "true", "Create topics by the rules of topic.creation.*."),
		boolean("topic.tracking.enable", "true", "Keep the list of topics a connector uses."),
		boolean("topic.tracking.allow.reset", "true", "Let that list be reset."),
		str("listeners", "", "Address of the REST API."),
		str("rest.advertised.host.name", "", "Host by which other workers reach this one."),
		str("rest.advertised.port", "", "Port by which other workers reach this one."),
		str("config.unknown", "keep", "What to do with keys that nothing knows: keep or error."),
		num("session.timeout.ms", 6000, 1, "After how long without a heartbeat the group takes a worker for dead."),
		num("heartbeat.interval.ms", 2000, 1, "How often a worker says that it lives; at most a third of session.timeout.ms."),
		num("rebalance.timeout.ms", 60000, 1, "How long the group waits for a member to join again."),
		str("connect.protocol", "sessioned", "How the group's work is divided: sessioned, or compatible for a group with Java workers of that setting."),
		num("scheduled.rebalance.max.delay.ms", 0, 0, "How long the work of a worker that is gone waits for it to come back."),
		num("worker.sync.timeout.ms", 3000, 1, "How long the config topic may take to be read before the group is told so."),
		num("inter.worker.key.ttl.ms", 3600000, 1, "How often the key changes by which workers know each other's requests."),
		num("connect.group.wait.ms", 11000, -1, "How long a worker that starts waits for members with which its group can't be shared to go before it gives up; -1: for ever."),
		num("connect.task.memory", 64<<20, 1<<20, "Bytes that one task may hold."),
		num("connect.task.restart.max", 10, 0, "Automatic restarts without progress before a task stays FAILED."),
		num("connect.task.restart.backoff.ms", 1000, 1, "First delay before an automatic restart."),
		num("connect.task.restart.backoff.max.ms", 300000, 1, "Longest delay before an automatic restart."),
		str("connect.scratch.dir", "", "Folder in which tasks get scratch folders."),
		num("connect.scratch.max.bytes", 1<<30, 0, "Bytes that one task's scratch folder may hold."),
		str("connector.client.config.override.policy", "All", "Which client settings connectors may set: All, None, Principal or Allowlist."),
		str("connector.client.config.override.allowlist", "", "Those that Allowlist lets them set."),
		eos, seal,
		prefix("key.converter."), prefix("value.converter."), prefix("header.converter."), prefix("config.providers"),
		prefix("producer."), prefix("consumer."), prefix("admin."), prefix("config.storage."), prefix("offset.storage."),
		prefix("status.storage."), prefix("ssl."), prefix("sasl."), prefix("listeners.https."),
	}
}

// standaloneFields are those of a standalone worker, which has neither a group nor topics of its own.
func standaloneFields() []connect.Field {
	fields := workerFields()
	for i := range fields {
		switch fields[i].Name {
		case "group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic":
			fields[i].Required = false
		}
	}
	return append(fields, connect.Field{Name: "offset.storage.file.filename", Type: connect.TypeString, Required: true,
		Importance: connect.High, Doc: "File of source offsets, in Java's format."})
}

// ParseStandaloneConfig is [ParseConfig] for a worker that keeps offsets in a file and nothing else.
func ParseStandaloneConfig(props map[string]string) (Config, []string, error) {
	fields := standaloneFields()
	c, warnings, err := parseConfig(fields, props)
	s, _ := connect.ParseConfig(fields, props)
	c.Standalone, c.OffsetFile = true, s.String("offset.storage.file.filename")
	return c, warnings, err
}

// ParseConfig reads a worker's properties with weir's defaults. All faults are reported at once, joined and wrapping
// [ErrConfig]. Warnings name keys that nothing knows, each with the nearest known one.
func ParseConfig(props map[string]string) (Config, []string, error) {
	c, warnings, err := parseConfig(workerFields(), props)
	if props["offset.storage.file.filename"] != "" {
		c.Notes = append(c.Notes, "offset.storage.file.filename: has no effect: offsets are kept in offset.storage.topic")
	}
	return c, warnings, err
}

func parseConfig(fields []connect.Field, props map[string]string) (Config, []string, error) {
	s, results := connect.ParseConfig(fields, props)
	var faults []error
	for _, r := range results {
		for _, msg := range r.Errors {
			faults = append(faults, errors.New(msg))
		}
	}
	for _, key := range []string{"key.converter", "value.converter"} {
		if strings.TrimSpace(props[key]) == "" {
			faults = append(faults, fmt.Errorf("%s: missing required configuration, which has no default value", key))
		}
	}
	notes, refused := javaKeys(props)
	faults = append(faults, refused...)
	overrides, err := parseOverridePolicy(props)
	if err != nil {
		faults = append(faults, err)
	}
	warnings := unknownWorkerKeys(fields, props)
	if s.String("config.unknown") == "error" {
		for _, w := range warnings {
			faults = append(faults, errors.New(w))
		}
	}
	c := Config{
		Props: props, GroupID: s.String("group.id"), Notes: notes, Overrides: overrides,
		Session: s.Millis("session.timeout.ms"), Rebalance: s.Millis("rebalance.timeout.ms"), GroupWait: s.Millis("connect.group.wait.ms"),
		FlushInterval: s.Millis("offset.flush.interval.ms"), FlushTimeout: s.Millis("offset.flush.timeout.ms"),
		ShutdownTimeout: s.Millis("task.shutdown.graceful.timeout.ms"), AbandonAfter: leaveLimit + closeLimit + time.Second,
		TopicCreation: s.Bool("topic.creation.enable"), TopicTracking: s.Bool("topic.tracking.enable"),
		TopicReset: s.Bool("topic.tracking.allow.reset"), UnknownIsError: s.String("config.unknown") == "error",
		TaskMemoryBytes: s.Int("connect.task.memory"), RestartMax: int(s.Int("connect.task.restart.max")),
		RestartMin: s.Millis("connect.task.restart.backoff.ms"), RestartCap: s.Millis("connect.task.restart.backoff.max.ms"),
		ScratchDir: s.String("connect.scratch.dir"), ScratchMaxBytes: s.Int("connect.scratch.max.bytes"),
	}
	c.RebalanceDelay, c.WorkerSync, c.KeyTTL = s.Millis("scheduled.rebalance.max.delay.ms"), s.Millis("worker.sync.timeout.ms"), s.Millis("inter.worker.key.ttl.ms")
	switch protocol := strings.ToLower(s.String("connect.protocol")); protocol {
	case "sessioned":
		c.Protocols = groupProtocols()
	case "compatible":
		c.Protocols = groupProtocols()[1:]
	default:
		faults = append(faults, fmt.Errorf("connect.protocol: %q is not supported, sessioned and compatible are: an eager group stops all its work whenever a worker comes or goes", protocol))
	}
	// A heartbeat every third of the session, unless the interval is set: two may be lost.
	c.Heartbeat = min(s.Millis("heartbeat.interval.ms"), max(c.Session/3, time.Millisecond))
	create := s.Bool("internal.topics.automatic.creation.enable")
	topic := func(prefix string, partitions int64) TopicConfig {
		return TopicConfig{Name: s.String(prefix + "topic"), Partitions: int32(partitions),
			Replicas: int16(s.Int(prefix + "replication.factor")), Settings: topicSettings(props, prefix), Create: create}
	}
	c.ConfigTopic = topic("config.storage.", 1)
	c.OffsetTopic = topic("offset.storage.", s.Int("offset.storage.partitions"))
	c.StatusTopic = topic("status.storage.", s.Int("status.storage.partitions"))
	faults = append(faults, c.addresses(s)...)
	for _, role := range []kafka.Role{kafka.Producer, kafka.Consumer, kafka.Admin} {
		if _, _, err := kafka.Options(kafka.Overlay(props, role.String()+"."), role); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return c, warnings, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, warnings, nil
}

func unknownWorkerKeys(fields []connect.Field, props map[string]string) []string {
	var names []string
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	client := map[string]bool{}
	for _, k := range javaWorkerKeys() {
		client[k.name] = true
		names = append(names, k.name)
	}
	for _, role := range []kafka.Role{kafka.Producer, kafka.Consumer, kafka.Admin} {
		for _, k := range kafka.Known(role) {
			client[k] = true
		}
	}
	var out []string
	for _, k := range connect.Unknown(fields, props) {
		if !client[k] {
			out = append(out, (kafka.Warning{Key: k, Nearest: kafka.Nearest(k, names), Reason: "unknown key, kept and not used"}).String())
		}
	}
	sort.Strings(out)
	return out
}

// topicSettings are the extra settings of an internal topic: config.storage.<x> and so on, but not the cleanup policy.
func topicSettings(props map[string]string, prefix string) map[string]string {
	out := map[string]string{}
	for k, v := range props {
		rest, ok := strings.CutPrefix(k, prefix)
		switch {
		case !ok, rest == "topic", rest == "replication.factor", rest == "partitions", rest == "cleanup.policy",
			rest == "file.filename":
		default:
			out[rest] = v
		}
	}
	return out
}

// addresses derives the address to listen on and the one to advertise.
func (c *Config) addresses(s *connect.Settings) []error {
	c.Listener = "127.0.0.1:8083"
	if l := s.List("listeners"); len(l) > 0 {
		u, err := url.Parse(l[0])
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" {
			return []error{fmt.Errorf("listeners: %q is no address like http://127.0.0.1:8083", l[0])}
		}
		if u.Scheme == "https" {
			return []error{errors.New("listeners: https is not supported yet; put a TLS proxy in front of an http listener")}
		}
		c.Listener = u.Host
		if len(l) > 1 {
			c.Notes = append(c.Notes, "listeners: only the first is used, "+u.Host)
		}
	}
	host, port, err := net.SplitHostPort(c.Listener)
	if err != nil {
		return []error{fmt.Errorf("listeners: %w", err)}
	}
	if v := s.String("rest.advertised.host.name"); v != "" {
		host = v
	}
	if v := s.String("rest.advertised.port"); v != "" {
		port = v
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	c.WorkerID = net.JoinHostPort(host, port)
	return nil
}
