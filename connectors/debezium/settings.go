package debezium

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

// Common are the settings that mean the same in every connector.
type Common struct {
	Prefix    string // the logical server name
	Delimiter string
	Version   string // source.version of events

	Tables, Columns Choice
	KeyRules        KeyRules
	Snapshot        *Patterns // tables that a snapshot reads; nil: all
	SnapshotMode    string

	MaxRecords    int
	ReconnectWait time.Duration

	HeartbeatEvery  time.Duration // 0: never
	HeartbeatTopic  string
	HeartbeatAction string // SQL

	Decimal, Time, Binary string // handling modes, in lower case
	Placeholder           []byte // of values that were not sent

	Tombstones   bool
	Skip         Operations
	Extended     bool // headers with the connector's name, task and run
	AdjustSchema string
	AdjustField  string

	Notes []string // for the log: what was given and means something else here, or nothing
}

// Faults collects what is wrong with a configuration, for all keys at once.
type Faults struct{ Results []connect.FieldResult }

// Add notes a fault of a field; a nil error is none.
func (f *Faults) Add(field string, err error) {
	if err != nil {
		f.Results = append(f.Results, connect.FieldResult{Name: field, Visible: true, Errors: []string{err.Error()}})
	}
}

var prefixRule = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// ReadCommon reads the common settings and puts what is wrong with them into bad.
func ReadCommon(got *connect.Settings, bad *Faults) Common {
	lower := func(name string) string { return strings.ToLower(got.String(name)) }
	s := Common{
		Prefix: got.String("topic.prefix"), Delimiter: got.String("topic.delimiter"), Version: got.String("compat.debezium.version"),
		SnapshotMode: lower("snapshot.mode"),
		MaxRecords:   int(got.Int("max.batch.size")), ReconnectWait: got.Millis("retriable.restart.connector.wait.ms"),
		HeartbeatEvery: got.Millis("heartbeat.interval.ms"), HeartbeatAction: got.String("heartbeat.action.query"),
		Decimal: lower("decimal.handling.mode"), Time: lower("time.precision.mode"), Binary: lower("binary.handling.mode"),
		Tombstones: got.Bool("tombstones.on.delete"), Extended: got.Bool("extended.headers.enabled"),
		AdjustSchema: lower("schema.name.adjustment.mode"), AdjustField: lower("field.name.adjustment.mode"),
	}
	if s.Prefix != "" && !prefixRule.MatchString(s.Prefix) {
		bad.Add("topic.prefix", fmt.Errorf("%q has characters other than letters, digits, '.', '_' and '-'", s.Prefix))
	}
	s.HeartbeatTopic = SanitizeTopic(got.String("topic.heartbeat.prefix") + s.Delimiter + s.Prefix)
	s.readFilters(got, bad)
	s.readPlaceholder(got.String("unavailable.value.placeholder"), bad)
	for _, op := range got.List("skipped.operations") {
		switch op = strings.ToLower(op); op {
		case "c", "u", "d", "t":
			s.Skip[op[0]] = true
		case "none":
		default:
			bad.Add("skipped.operations", fmt.Errorf("%q is none of c, u, d, t and none", op))
		}
	}
	if s.SnapshotMode == "never" {
		s.SnapshotMode = "no_data"
		s.Notes = append(s.Notes, "snapshot.mode=never is now called no_data")
	}
	return s
}

func (s *Common) readFilters(got *connect.Settings, bad *Faults) {
	var err error
	s.Tables, err = ParseChoice(got.String, "table")
	bad.Add("table.include.list", err)
	s.Columns, err = ParseChoice(got.String, "column")
	bad.Add("column.include.list", err)
	s.Snapshot, err = ParsePatterns("snapshot.include.collection.list", got.String("snapshot.include.collection.list"))
	bad.Add("snapshot.include.collection.list", err)
	s.KeyRules, err = ParseKeyRules(got.String("message.key.columns"))
	bad.Add("message.key.columns", err)
}

func (s *Common) readPlaceholder(text string, bad *Faults) {
	digits, ok := strings.CutPrefix(text, "hex:")
	if !ok {
		s.Placeholder = []byte(text)
		return
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		bad.Add("unavailable.value.placeholder", fmt.Errorf("after hex: there must be hexadecimal digits: %w", err))
	}
	s.Placeholder = b
}

// AtLeast reports whether events are to look like those of that version of Debezium, or a newer one.
func (s *Common) AtLeast(major, minor int) bool {
	parts := strings.SplitN(s.Version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	have, err := strconv.Atoi(parts[0])
	if err != nil || have != major {
		return err == nil && have > major
	}
	have, err = strconv.Atoi(parts[1])
	return err == nil && have >= minor
}

// Snapshots tells whether a snapshot reads a captured table.
func (s *Common) Snapshots(table string) bool {
	return s.Snapshot == nil || s.Snapshot.Match(table)
}

// RefuseUnsupported finds keys under prefixes that field checks don't see, and notes those known keys that were given and
// have no effect.
func (s *Common) RefuseUnsupported(config connect.Config, refused, ignored []connect.Field, bad *Faults) {
	for key := range config {
		for _, f := range refused {
			if f.Prefix && strings.HasPrefix(key, f.Name) {
				bad.Add(key, fmt.Errorf("%s is %s", key, f.Refused))
			}
		}
		if strings.HasPrefix(key, "snapshot.select.statement.overrides.") || strings.HasPrefix(key, "snapshot.mode.configuration.based.") {
			bad.Add(key, fmt.Errorf("%s is %s", key, refusedText))
		}
	}
	for _, f := range ignored {
		if v, ok := config[f.Name]; ok && strings.TrimSpace(v) != f.Default {
			s.Notes = append(s.Notes, f.Name+" has no effect in this connector")
		}
	}
}

// NewBatch makes the batch of a task: of the partition that Debezium's offsets have, with the context headers of a
// connector of that name.
func (s *Common) NewBatch(connector string, task int) Batch {
	b := Batch{Tombstones: s.Tombstones, Skip: s.Skip, Partition: Partition(s.Prefix)}
	if s.Extended {
		b.Headers = contextHeaders(s.Prefix, connector, task)
	}
	b.Headers = b.Headers[:len(b.Headers):len(b.Headers)]
	return b
}

// Partition gives the source partition of a connector with a topic.prefix.
func Partition(prefix string) connect.OffsetMap {
	return connect.OffsetMap{{Name: "server", Value: connect.StringValue(prefix)}}
}
