package mysql

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
	"github.com/weirlog/weir/connectors/mysql/value"
	"github.com/weirlog/weir/core/kafka"
)

// settings are a task's configuration, read and checked.
type settings struct {
	debezium.Common
	dialect binlog.Dialect

	host     string
	port     int
	user     string
	password string
	tls      *tls.Config // nil: plain text
	tlsTry   bool        // plain text if the server has no TLS
	initial  []string    // statements of each session

	connectTimeout time.Duration
	heartbeat      time.Duration // how often the server is to say that it is there
	serverID       uint32

	databases debezium.Choice
	builtin   bool // the server's own databases too
	sources   debezium.Choice

	locking       string // minimal, extended or none
	lockTimeout   time.Duration
	schemaChanges bool // records into the schema change topic
	comments      bool // of tables and columns, in schemas and in the history
	includeQuery  bool
	filterDML     bool // leave out the changes of sources that are left out

	unsignedBig  string // long or precise
	timeAdjuster bool
	badSchema    string // inconsistent.schema.handling.mode: fail, warn, skip

	history historySettings
}

// historySettings say where structures' history is kept.
type historySettings struct {
	kind         string            // kafka, file or memory
	topic        string            // of kafka
	file         string            // of file
	kafka        map[string]string // client properties that reach the topic's cluster, before producer. and consumer. ones
	producer     map[string]string
	consumer     map[string]string
	skipBad      bool // statements that can't be parsed are no fault
	onlyTables   bool // store.only.captured.tables.ddl
	onlyDatabase bool // store.only.captured.databases.ddl
	filter       *debezium.Patterns
}

// parseSettings reads a configuration. The error is a BadConfig.
func parseSettings(d binlog.Dialect, config connect.Config, worker map[string]string) (*settings, error) {
	got, results := connect.ParseConfig(fields(d), config)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	s, results := readSettings(d, got, config, worker)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	return s, nil
}

// validate is the connector's Validate: what the fields alone can't say.
func validate(d binlog.Dialect, config connect.Config) []connect.FieldResult {
	got, _ := connect.ParseConfig(fields(d), config)
	_, results := readSettings(d, got, config, nil)
	return results
}

func readSettings(d binlog.Dialect, got *connect.Settings, config connect.Config, worker map[string]string) (*settings, []connect.FieldResult) {
	var bad debezium.Faults
	lower := func(name string) string { return strings.ToLower(got.String(name)) }
	s := &settings{
		Common: debezium.ReadCommon(got, &bad), dialect: d,
		host: got.String("database.hostname"), port: int(got.Int("database.port")), user: got.String("database.user"), password: got.String("database.password"),
		connectTimeout: got.Millis("connect.timeout.ms"), serverID: uint32(got.Int("database.server.id")),
		builtin: !got.Bool("table.ignore.builtin"), locking: lower("snapshot.locking.mode"), lockTimeout: got.Millis("snapshot.lock.timeout.ms"),
		schemaChanges: got.Bool("include.schema.changes"), includeQuery: got.Bool("include.query"),
		filterDML:   got.Bool("gtid.source.filter.dml.events"),
		unsignedBig: lower("bigint.unsigned.handling.mode"), timeAdjuster: got.Bool("enable.time.adjuster"), badSchema: lower("inconsistent.schema.handling.mode"),
	}
	// Debezium's connector for MariaDB reads comments for the sake of schema changes.
	s.comments = got.Bool("include.schema.comments") || d == binlog.MariaDB && s.schemaChanges
	if s.serverID == 0 {
		s.serverID = 1<<24 + rand.Uint32N(1<<30) // far from those that people give
	}
	// Debezium asks for a sign of life in four fifths of the interval in which it looks.
	s.heartbeat = got.Millis("connect.keep.alive.interval.ms") * 4 / 5
	if strings.HasPrefix(s.locking, "minimal") {
		s.locking = "minimal"
	}
	var err error
	s.databases, err = debezium.ParseChoice(got.String, "database")
	bad.Add("database.include.list", err)
	s.sources, err = sourceChoice(got)
	bad.Add("gtid.source.includes", err)
	for _, statement := range strings.Split(strings.ReplaceAll(got.String("database.initial.statements"), ";;", "\x00"), ";") {
		if statement = strings.TrimSpace(strings.ReplaceAll(statement, "\x00", ";")); statement != "" {
			s.initial = append(s.initial, statement)
		}
	}
	s.readTLS(got, &bad)
	s.readHistory(got, config, worker, &bad)
	s.RefuseUnsupported(config, refusedFields(), ignoredFields(), &bad)
	return s, bad.Results
}

// sourceChoice reads gtid.source.includes and gtid.source.excludes.
func sourceChoice(got *connect.Settings) (debezium.Choice, error) {
	names := map[string]string{"gtid.include.list": "gtid.source.includes", "gtid.exclude.list": "gtid.source.excludes"}
	return debezium.ParseChoice(func(name string) string { return got.String(names[name]) }, "gtid")
}

func (s *settings) readTLS(got *connect.Settings, bad *debezium.Faults) {
	mode := strings.ToLower(got.String("database.ssl.mode"))
	if mode == "disabled" || mode == "disable" {
		return
	}
	props := map[string]string{"ssl.endpoint.identification.algorithm": ""}
	if mode == "verify_identity" || mode == "verify-full" {
		delete(props, "ssl.endpoint.identification.algorithm")
	}
	for _, k := range []string{"keystore", "truststore"} {
		if v := got.String("database.ssl." + k); v != "" {
			props["ssl."+k+".location"], props["ssl."+k+".password"] = v, got.String("database.ssl."+k+".password")
		}
	}
	cfg, err := kafka.TLS(props)
	if err != nil {
		bad.Add("database.ssl.mode", err)
		return
	}
	switch mode {
	case "preferred", "required", "trust":
		cfg.InsecureSkipVerify, cfg.VerifyConnection = true, nil // as these modes are defined: encrypted, nobody's identity is checked
	}
	cfg.ServerName = s.host
	s.tls, s.tlsTry = cfg, mode == "preferred"
}

const historyPrefix = "schema.history.internal."

func (s *settings) readHistory(got *connect.Settings, config connect.Config, worker map[string]string, bad *debezium.Faults) {
	h := &s.history
	switch class := got.String("schema.history.internal"); class[strings.LastIndexByte(class, '.')+1:] {
	case "KafkaSchemaHistory":
		h.kind = "kafka"
	case "FileSchemaHistory":
		h.kind, h.file = "file", got.String(historyPrefix+"file.filename")
		if h.file == "" {
			bad.Add(historyPrefix+"file.filename", fmt.Errorf("must name a file for %s", class))
		}
	case "MemorySchemaHistory":
		h.kind = "memory"
	default:
		bad.Add("schema.history.internal", fmt.Errorf("%s is not supported; use io.debezium.storage.kafka.history.KafkaSchemaHistory", class))
	}
	h.topic = got.String(historyPrefix + "kafka.topic")
	if h.topic == "" {
		h.topic = debezium.SanitizeTopic(s.Prefix + ".schema-history")
	}
	h.kafka = make(map[string]string)
	if servers := got.String(historyPrefix + "kafka.bootstrap.servers"); servers != "" {
		h.kafka["bootstrap.servers"] = servers
	} else {
		for k, v := range worker {
			h.kafka[k] = v
		}
	}
	h.producer, h.consumer = below(config, historyPrefix+"producer."), below(config, historyPrefix+"consumer.")
	h.skipBad = got.Bool(historyPrefix + "skip.unparseable.ddl")
	h.onlyTables, h.onlyDatabase = got.Bool(historyPrefix+"store.only.captured.tables.ddl"), got.Bool(historyPrefix+"store.only.captured.databases.ddl")
	var err error
	h.filter, err = debezium.ParsePatterns(historyPrefix+"ddl.filter", got.String(historyPrefix+"ddl.filter"))
	bad.Add(historyPrefix+"ddl.filter", err)
}

func below(config connect.Config, prefix string) map[string]string {
	out := make(map[string]string)
	for k, v := range config {
		if name, ok := strings.CutPrefix(k, prefix); ok {
			out[name] = v
		}
	}
	return out
}

// takesTable decides whether a table is captured.
func (s *settings) takesTable(t schema.TableID) bool {
	if !s.builtin && builtinDatabase(t.Database) {
		return false
	}
	return s.databases.Takes(t.Database) && s.Tables.Takes(t.String())
}

// takesDatabase decides whether a database's tables may be captured.
func (s *settings) takesDatabase(name string) bool {
	return (s.builtin || !builtinDatabase(name)) && s.databases.Takes(name)
}

// takesColumn decides whether a captured table's column is captured.
func (s *settings) takesColumn(t schema.TableID, column string) bool {
	return s.Columns.Takes(t.String() + "." + column)
}

func builtinDatabase(name string) bool {
	switch strings.ToLower(name) {
	case "mysql", "performance_schema", "sys", "information_schema":
		return true
	}
	return false
}

// modes say how values are given.
func (s *settings) modes() value.Modes {
	return value.Modes{Decimal: s.Decimal, Time: s.Time, Binary: s.Binary, BigIntUnsigned: s.unsignedBig, TimeAdjuster: s.timeAdjuster, TinyInt8: s.AtLeast(3, 7)}
}

// schemaDialect is the dialect in which structures are written.
func (s *settings) schemaDialect() schema.Dialect {
	if s.dialect == binlog.MariaDB {
		return schema.MariaDB
	}
	return schema.MySQL
}
