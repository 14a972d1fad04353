package postgres

import (
	"fmt"
	"math"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// What stands for infinite dates and times in the number forms, in microseconds as the PostgreSQL JDBC driver has them.
const (
	plusInfinityMicros  = 9223372036825200000
	minusInfinityMicros = -9223372036832400000
)

// moment is a date and time of day as the server prints it; a year BC is the astronomical one (1 BC is 0).
type moment struct {
	year        int64
	month, day  int
	micros      int64 // of the day
	zoneSeconds int   // east of UTC
	infinite    int   // -1, 1: the word, and nothing else
}

func (c *codec) temporal(text []byte, a *debezium.Arena) (connect.Value, error) {
	switch c.kind {
	case codecInterval, codecIntervalText:
		return c.interval(text, a)
	case codecTime, codecTimeText, codecTimeTZ:
		return c.timeOfDay(text, a)
	}
	m, err := parseMoment(text)
	if err != nil {
		return connect.Value{}, err
	}
	switch c.kind {
	case codecDate:
		switch {
		case m.infinite > 0:
			return connect.Int32Value(math.MaxInt32), nil
		case m.infinite < 0:
			return connect.Int32Value(math.MinInt32), nil
		}
		return connect.Int32Value(int32(m.days())), nil
	case codecTimestamp:
		return connect.Int64Value(debezium.InUnit(m.epochMicros(), c.unit)), nil
	case codecDateText, codecTimestampText, codecTimestampTZ:
		if m.infinite != 0 {
			return connect.StringValue(debezium.AsString(text)), nil
		}
		out := debezium.AppendDate(a.Scratch(48), m.year, m.month, m.day)
		if c.kind != codecDateText {
			out = debezium.AppendClock(append(out, 'T'), m.micros, c.digits)
		}
		return connect.StringValue(a.KeepString(append(out, 'Z'))), nil
	}
	return connect.Value{}, fmt.Errorf("no decoder for codec %d", c.kind)
}

// parseMoment reads YYYY-MM-DD[ HH:MM:SS[.ffffff][±zone]][ BC], infinity or -infinity.
func parseMoment(text []byte) (moment, error) {
	switch debezium.AsString(text) {
	case "infinity":
		return moment{infinite: 1}, nil
	case "-infinity":
		return moment{infinite: -1}, nil
	}
	var m moment
	rest := text
	bc := false
	if n := len(rest); n > 3 && string(rest[n-3:]) == " BC" {
		bc, rest = true, rest[:n-3]
	}
	bad := func() (moment, error) { return m, fmt.Errorf("%q is not a date or timestamp", text) }
	year, rest, ok := digits(rest, 4, 7)
	if !ok || len(rest) < 6 || rest[0] != '-' || rest[3] != '-' {
		return bad()
	}
	month, _, okMonth := digits(rest[1:3], 2, 2)
	day, _, okDay := digits(rest[4:6], 2, 2)
	if !okMonth || !okDay || month < 1 || month > 12 || day < 1 || day > 31 {
		return bad()
	}
	m.year, m.month, m.day = year, int(month), int(day)
	if bc {
		m.year = 1 - year
	}
	if rest = rest[6:]; len(rest) == 0 {
		return m, nil
	}
	if rest[0] != ' ' {
		return bad()
	}
	micros, rest, ok := parseClock(rest[1:])
	if !ok {
		return bad()
	}
	m.micros = micros
	if len(rest) > 0 {
		if m.zoneSeconds, ok = parseZone(rest); !ok {
			return bad()
		}
		if m.zoneSeconds != 0 {
			m.shift()
		}
	}
	return m, nil
}

// shift moves a moment to UTC.
func (m *moment) shift() {
	total := m.days()*debezium.DayMicros + m.micros - int64(m.zoneSeconds)*1000000
	day := debezium.FloorDiv(total, debezium.DayMicros)
	m.micros, m.zoneSeconds = total-day*debezium.DayMicros, 0
	m.year, m.month, m.day = debezium.Civil(day)
}

// digits reads between low and high decimal digits.
func digits(b []byte, low, high int) (int64, []byte, bool) {
	n, i := int64(0), 0
	for i < len(b) && i < high && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	return n, b[i:], i >= low
}

// parseClock reads HH:MM:SS[.ffffff] as microseconds.
func parseClock(b []byte) (int64, []byte, bool) {
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, b, false
	}
	h, _, ok1 := digits(b[0:2], 2, 2)
	m, _, ok2 := digits(b[3:5], 2, 2)
	s, _, ok3 := digits(b[6:8], 2, 2)
	if !ok1 || !ok2 || !ok3 {
		return 0, b, false
	}
	micros := ((h*60+m)*60 + s) * 1000000
	b = b[8:]
	if len(b) > 1 && b[0] == '.' {
		unit := int64(100000)
		b = b[1:]
		for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
			micros += int64(b[0]-'0') * unit
			unit /= 10
			b = b[1:]
		}
	}
	return micros, b, true
}

// parseZone reads ±HH[:MM[:SS]] as seconds east of UTC.
func parseZone(b []byte) (int, bool) {
	if len(b) < 3 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	negative := b[0] == '-'
	seconds, unit := 0, 3600
	b = b[1:]
	for {
		n, rest, ok := digits(b, 2, 2)
		if !ok || unit == 0 {
			return 0, false
		}
		seconds += int(n) * unit
		unit /= 60
		if len(rest) == 0 {
			break
		}
		if rest[0] != ':' {
			return 0, false
		}
		b = rest[1:]
	}
	if negative {
		seconds = -seconds
	}
	return seconds, true
}

// days gives the days since 1970-01-01.
func (m *moment) days() int64 { return debezium.Days(m.year, m.month, m.day) }

// epochMicros gives the microseconds since 1970-01-01; what int64 can't hold is cut.
func (m *moment) epochMicros() int64 {
	switch {
	case m.infinite > 0:
		return plusInfinityMicros
	case m.infinite < 0:
		return minusInfinityMicros
	}
	days := m.days()
	switch limit := int64(math.MaxInt64 / debezium.DayMicros); {
	case days >= limit:
		return math.MaxInt64
	case days < -limit:
		return math.MinInt64
	}
	return days*debezium.DayMicros + m.micros
}

func (c *codec) timeOfDay(text []byte, a *debezium.Arena) (connect.Value, error) {
	micros, rest, ok := parseClock(text)
	if !ok || c.kind != codecTimeTZ && len(rest) > 0 {
		return connect.Value{}, fmt.Errorf("%q is not a time", text)
	}
	switch c.kind {
	case codecTime:
		return connect.IntValue(c.number, debezium.InUnit(micros, c.unit)), nil
	case codecTimeTZ:
		zone, ok := parseZone(rest)
		if !ok {
			return connect.Value{}, fmt.Errorf("%q is not a time with time zone", text)
		}
		if zone != 0 {
			micros -= int64(zone) * 1000000
			micros -= debezium.FloorDiv(micros, debezium.DayMicros) * debezium.DayMicros
		}
	}
	out := append(debezium.AppendClock(a.Scratch(24), micros, -1), 'Z')
	return connect.StringValue(a.KeepString(out)), nil
}
