package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// settings are a task's configuration, read and checked.
type settings struct {
	debezium.Common

	host     string
	port     int
	user     string
	password string
	database string
	tls      map[string]string // libpq's keys

	connectTimeout time.Duration

	schemas debezium.Choice
	builtin bool // the server's own schemas too

	slot        string
	dropSlot    bool
	failover    bool
	publication string
	autocreate  string
	viaRoot     bool
	trustSlot   bool
	statusEvery time.Duration

	types typeModes
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

var slotRule = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

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

func readSettings(got *connect.Settings, config connect.Config) (*settings, []connect.FieldResult) {
	var bad debezium.Faults
	s := &settings{
		Common: debezium.ReadCommon(got, &bad),
		host:   got.String("database.hostname"), port: int(got.Int("database.port")), user: got.String("database.user"),
		password: got.String("database.password"), database: got.String("database.dbname"),
		connectTimeout: got.Millis("connection.validation.timeout.ms"),
		builtin:        !got.Bool("table.ignore.builtin"),
		slot:           got.String("slot.name"), dropSlot: got.Bool("slot.drop.on.stop"), failover: got.Bool("slot.failover"),
		publication: got.String("publication.name"), autocreate: strings.ToLower(got.String("publication.autocreate.mode")),
		viaRoot: got.Bool("publish.via.partition.root"), statusEvery: got.Millis("status.update.interval.ms"),
	}
	if !slotRule.MatchString(s.slot) {
		bad.Add("slot.name", fmt.Errorf("%q is not a slot name: up to 63 of a-z, 0-9 and '_'", s.slot))
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
	var err error
	s.schemas, err = debezium.ParseChoice(got.String, "schema")
	bad.Add("schema.include.list", err)
	s.types = typeModes{
		decimal: s.Decimal, time: s.Time, binary: s.Binary, placeholder: s.Placeholder,
		hstore: strings.ToLower(got.String("hstore.handling.mode")), interval: strings.ToLower(got.String("interval.handling.mode")),
		moneyScale: int(got.Int("money.fraction.digits")),
	}
	s.RefuseUnsupported(config, refusedFields(), ignoredFields(), &bad)
	s.note(got)
	return s, bad.Results
}

func (s *settings) note(got *connect.Settings) {
	if s.dropSlot {
		s.Notes = append(s.Notes, "slot.drop.on.stop=true: changes made while the connector is stopped will be missing")
	}
	if got.Has("database.tcpKeepAlive") && !got.Bool("database.tcpKeepAlive") {
		s.Notes = append(s.Notes, "database.tcpKeepAlive=false has no effect: connections are kept alive")
	}
}
