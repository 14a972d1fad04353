package postgres

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

// settings are a task's configuration, read and checked.
type settings struct {
	prefix    string
	delimiter string
	version   string // source.version of events

	host     string
	port     int
	user     string
	password string
	database string
	tls      map[string]string // libpq's keys

	connectTimeout time.Duration

	filter   filter
	keyRules []keyRule

	snapshotMode   string
	snapshotTables *patterns

	slot          string
	dropSlot      bool
	failover      bool
	publication   string
	autocreate    string
	viaRoot       bool
	trustSlot     bool
	maxRecords    int
	statusEvery   time.Duration
	reconnectWait time.Duration

	heartbeatEvery  time.Duration
	heartbeatTopic  string
	heartbeatAction string

	types           typeModes
	tombstones      bool
	skip            [256]bool // by operation letter
	extendedHeaders bool
	adjustSchema    string
	adjustField     string

	notes []string // for the log: what was given and means something else here, or nothing
}

// typeModes say how types are mapped.
type typeModes struct {
	decimal     string
	time        string
	binary      string
	hstore      string
	interval    string
	moneyScale  int
	placeholder []byte
}

var (
	prefixRule = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	slotRule   = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
)

// parseSettings reads a configuration. The error is a BadConfig.
func parseSettings(config connect.Config) (*settings, error) {
	got, results := connect.ParseConfig(fields(), config)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	s, results := readSettings(got, config)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	return s, nil
}

// validate is the connector's Validate: what the fields alone can't say.
func validate(config connect.Config) []connect.FieldResult {
	got, _ := connect.ParseConfig(fields(), config)
	_, results := readSettings(got, config)
	return results
}

type faults struct{ results []connect.FieldResult }

func (f *faults) add(field string, err error) {
	if err != nil {
		f.results = append(f.results, connect.FieldResult{Name: field, Visible: true, Errors: []string{err.Error()}})
	}
}

func readSettings(got *connect.Settings, config connect.Config) (*settings, []connect.FieldResult) {
	var bad faults
	s := &settings{
		prefix: got.String("topic.prefix"), delimiter: got.String("topic.delimiter"), version: got.String("compat.debezium.version"),
		host: got.String("database.hostname"), port: int(got.Int("database.port")), user: got.String("database.user"),
		password: got.String("database.password"), database: got.String("database.dbname"),
		connectTimeout: got.Millis("connection.validation.timeout.ms"),
		slot:           got.String("slot.name"), dropSlot: got.Bool("slot.drop.on.stop"), failover: got.Bool("slot.failover"),
		publication: got.String("publication.name"), autocreate: strings.ToLower(got.String("publication.autocreate.mode")),
		viaRoot:    got.Bool("publish.via.partition.root"),
		maxRecords: int(got.Int("max.batch.size")), statusEvery: got.Millis("status.update.interval.ms"), reconnectWait: got.Millis("retriable.restart.connector.wait.ms"),
		heartbeatEvery: got.Millis("heartbeat.interval.ms"), heartbeatAction: got.String("heartbeat.action.query"),
		tombstones: got.Bool("tombstones.on.delete"), extendedHeaders: got.Bool("extended.headers.enabled"),
		adjustSchema: strings.ToLower(got.String("schema.name.adjustment.mode")), adjustField: strings.ToLower(got.String("field.name.adjustment.mode")),
		snapshotMode: strings.ToLower(got.String("snapshot.mode")),
	}
	if s.prefix != "" && !prefixRule.MatchString(s.prefix) {
		bad.add("topic.prefix", fmt.Errorf("%q has characters other than letters, digits, '.', '_' and '-'", s.prefix))
	}
	if !slotRule.MatchString(s.slot) {
		bad.add("slot.name", fmt.Errorf("%q is not a slot name: up to 63 of a-z, 0-9 and '_'", s.slot))
	}
	s.tls = map[string]string{"sslmode": strings.ToLower(got.String("database.sslmode"))}
	for _, k := range []string{"sslcert", "sslkey", "sslpassword", "sslrootcert"} {
		if v := got.String("database." + k); v != "" {
			s.tls[k] = v
		}
	}
	switch strategy := strings.ToLower(got.String("offset.mismatch.strategy")); strategy {
	case "trust_slot", "trust_greater_lsn":
		s.trustSlot = true
	}
	s.heartbeatTopic = sanitizeTopic(got.String("topic.heartbeat.prefix") + s.delimiter + s.prefix)
	s.readFilters(got, &bad)
	s.readTypes(got, &bad)
	for _, op := range got.List("skipped.operations") {
		switch op = strings.ToLower(op); op {
		case "c", "u", "d", "t":
			s.skip[op[0]] = true
		case "none":
		default:
			bad.add("skipped.operations", fmt.Errorf("%q is none of c, u, d, t and none", op))
		}
	}
	s.refusePrefixes(config, &bad)
	s.note(got, config)
	return s, bad.results
}

func (s *settings) readFilters(got *connect.Settings, bad *faults) {
	var err error
	if s.filter.schemas, err = parseChoice(got.String, "schema"); err != nil {
		bad.add("schema.include.list", err)
	}
	if s.filter.tables, err = parseChoice(got.String, "table"); err != nil {
		bad.add("table.include.list", err)
	}
	if s.filter.columns, err = parseChoice(got.String, "column"); err != nil {
		bad.add("column.include.list", err)
	}
	s.filter.builtin = !got.Bool("table.ignore.builtin")
	if s.snapshotTables, err = parsePatterns("snapshot.include.collection.list", got.String("snapshot.include.collection.list")); err != nil {
		bad.add("snapshot.include.collection.list", err)
	}
	if s.keyRules, err = parseKeyRules(got.String("message.key.columns")); err != nil {
		bad.add("message.key.columns", err)
	}
}

func (s *settings) readTypes(got *connect.Settings, bad *faults) {
	lower := func(name string) string { return strings.ToLower(got.String(name)) }
	s.types = typeModes{
		decimal: lower("decimal.handling.mode"), time: lower("time.precision.mode"), binary: lower("binary.handling.mode"),
		hstore: lower("hstore.handling.mode"), interval: lower("interval.handling.mode"), moneyScale: int(got.Int("money.fraction.digits")),
	}
	placeholder := got.String("unavailable.value.placeholder")
	if digits, ok := strings.CutPrefix(placeholder, "hex:"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			bad.add("unavailable.value.placeholder", fmt.Errorf("after hex: there must be hexadecimal digits: %w", err))
		}
		s.types.placeholder = b
		return
	}
	s.types.placeholder = []byte(placeholder)
}

// refusePrefixes finds keys under refused prefixes, which field checks don't see.
func (s *settings) refusePrefixes(config connect.Config, bad *faults) {
	for _, f := range refusedFields() {
		if !f.Prefix {
			continue
		}
		for key := range config {
			if strings.HasPrefix(key, f.Name) {
				bad.add(key, fmt.Errorf("%s is %s", key, f.Refused))
			}
		}
	}
	for key := range config {
		if strings.HasPrefix(key, "snapshot.select.statement.overrides.") || strings.HasPrefix(key, "snapshot.mode.configuration.based.") {
			bad.add(key, fmt.Errorf("%s is not supported by this connector, and leaving it out would change the data; remove the key", key))
		}
	}
}

func (s *settings) note(got *connect.Settings, config connect.Config) {
	if s.snapshotMode == "never" {
		s.snapshotMode = "no_data"
		s.notes = append(s.notes, "snapshot.mode=never is now called no_data")
	}
	for _, f := range ignoredFields() {
		if v, ok := config[f.Name]; ok && strings.TrimSpace(v) != f.Default {
			s.notes = append(s.notes, f.Name+" has no effect in this connector")
		}
	}
	if s.dropSlot {
		s.notes = append(s.notes, "slot.drop.on.stop=true: changes made while the connector is stopped will be missing")
	}
	if got.Has("database.tcpKeepAlive") && !got.Bool("database.tcpKeepAlive") {
		s.notes = append(s.notes, "database.tcpKeepAlive=false has no effect: connections are kept alive")
	}
}

// captures tells whether the snapshot reads a captured table.
func (s *settings) snapshots(t tableName) bool {
	return s.snapshotTables == nil || s.snapshotTables.match(t.String())
}
