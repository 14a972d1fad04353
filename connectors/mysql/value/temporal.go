package value

import (
	"encoding/binary"
	"fmt"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// moment is a date and a time of day as the server holds them. A date with a zero month or day is no date.
type moment struct {
	year       int64
	month, day int
	micros     int64 // of the day
}

func (m *moment) isDate() bool { return m.month >= 1 && m.month <= 12 && m.day >= 1 && m.day <= 31 }

// adjusted gives years of two digits their century, as Debezium's enable.time.adjuster does.
func (c *Codec) adjusted(m moment) moment {
	if c.adjust && m.year < 100 {
		m.year += 1900
		if m.year < 1970 {
			m.year += 100
		}
	}
	return m
}

// dateValue gives a DATE.
func (c *Codec) dateValue(m moment, a *debezium.Arena) connect.Value {
	if !m.isDate() {
		return c.missing
	}
	m = c.adjusted(m)
	if c.Schema.Type == connect.String {
		return connect.StringValue(a.KeepString(append(debezium.AppendDate(a.Scratch(16), m.year, m.month, m.day), 'Z')))
	}
	return connect.Int32Value(int32(debezium.Days(m.year, m.month, m.day)))
}

// dateTimeValue gives a DATETIME, or a TIMESTAMP in UTC.
func (c *Codec) dateTimeValue(m moment, a *debezium.Arena) connect.Value {
	if !m.isDate() {
		return c.missing
	}
	m = c.adjusted(m)
	if c.Schema.Type == connect.String {
		out := debezium.AppendDate(a.Scratch(40), m.year, m.month, m.day)
		out = debezium.AppendClock(append(out, 'T'), m.micros, c.shownDigits)
		return connect.StringValue(a.KeepString(append(out, 'Z')))
	}
	micros := debezium.Days(m.year, m.month, m.day)*debezium.DayMicros + m.micros
	if c.unit < 0 && (micros > maxNanosMicros || micros < -maxNanosMicros) {
		return c.missing
	}
	return connect.Int64Value(debezium.InUnit(micros, c.unit))
}

// maxNanosMicros is what nanoseconds can hold, in microseconds.
const maxNanosMicros = 9223372036854775

// timeValue gives a TIME; only the plain numbers can hold one that is not a time of day.
func (c *Codec) timeValue(micros int64, a *debezium.Arena) connect.Value {
	ofDay := micros >= 0 && micros < debezium.DayMicros
	switch {
	case c.Schema.Type == connect.String:
		if !ofDay {
			return c.missing
		}
		return connect.StringValue(a.KeepString(append(debezium.AppendClock(a.Scratch(24), micros, -1), 'Z')))
	case c.number == connect.Int32 && !ofDay:
		return c.missing
	}
	return connect.IntValue(c.number, debezium.InUnit(micros, c.unit))
}

// bigEndian reads an unsigned number of up to eight bytes.
func bigEndian(b []byte) uint64 {
	n := uint64(0)
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}

// fraction gives the microseconds of a fraction's one, two or three bytes: hundredths, ten-thousandths, millionths.
func fraction(b []byte) int64 {
	n := int64(bigEndian(b))
	switch len(b) {
	case 1:
		return n * 10000
	case 2:
		return n * 100
	}
	return n
}

// date reads the three bytes of a DATE: 15 bits of year, four of month, five of day.
func date(raw []byte) moment {
	n := int(raw[0]) | int(raw[1])<<8 | int(raw[2])<<16
	return moment{year: int64(n >> 9), month: n >> 5 & 15, day: n & 31}
}

// clock is hours, minutes and seconds as microseconds.
func clock(h, m, s int64) int64 { return ((h*60+m)*60 + s) * 1000000 }

// dateTime reads DATETIME's five bytes and fraction, or the eight bytes of the old form, decimal YYYYMMDDhhmmss.
func dateTime(raw []byte, old bool) moment {
	if old {
		n := int64(binary.LittleEndian.Uint64(raw))
		d, t := n/1000000, n%1000000
		return moment{year: d / 10000, month: int(d / 100 % 100), day: int(d % 100), micros: clock(t/10000, t/100%100, t%100)}
	}
	n := int64(bigEndian(raw[:5])) - 1<<39
	months := n >> 22 & 0x1FFFF
	return moment{year: months / 13, month: int(months % 13), day: int(n >> 17 & 31), micros: clock(n>>12&31, n>>6&63, n&63) + fraction(raw[5:])}
}

// timestamp reads TIMESTAMP's seconds, big-endian with a fraction or, in the old form, little-endian. Zero is no date.
func timestamp(raw []byte, old bool) moment {
	var seconds, micros int64
	if old {
		seconds = int64(binary.LittleEndian.Uint32(raw))
	} else {
		seconds, micros = int64(binary.BigEndian.Uint32(raw)), fraction(raw[4:])
	}
	if seconds == 0 && micros == 0 {
		return moment{}
	}
	days := seconds / 86400
	m := moment{micros: seconds%86400*1000000 + micros}
	m.year, m.month, m.day = debezium.Civil(days)
	return m
}

// timeOfDay reads TIME's three bytes and fraction, together one number whose zero is in the middle, or the old form,
// decimal hhmmss.
func timeOfDay(raw []byte, old bool) int64 {
	if old {
		n := int64(int32(uint32(raw[0])<<8|uint32(raw[1])<<16|uint32(raw[2])<<24) >> 8)
		if n < 0 {
			return -clock(-n/10000, -n/100%100, -n%100)
		}
		return clock(n/10000, n/100%100, n%100)
	}
	part := len(raw) - 3
	n := int64(bigEndian(raw)) - 1<<(8*len(raw)-1)
	negative := n < 0
	if negative {
		n = -n
	}
	var fractionBytes [3]byte
	for i := range part {
		fractionBytes[i] = byte(n >> (8 * (part - 1 - i)))
	}
	h := n >> (8 * part)
	micros := clock(h>>12&0x3FF, h>>6&63, h&63) + fraction(fractionBytes[:part])
	if negative {
		return -micros
	}
	return micros
}

// parseDate reads YYYY-MM-DD.
func parseDate(text []byte) (m moment, rest []byte, err error) {
	if len(text) < 10 || text[4] != '-' || text[7] != '-' {
		return m, nil, fmt.Errorf("%q is not a date", text)
	}
	year, ok1 := number(text[:4])
	month, ok2 := number(text[5:7])
	day, ok3 := number(text[8:10])
	if !ok1 || !ok2 || !ok3 {
		return m, nil, fmt.Errorf("%q is not a date", text)
	}
	return moment{year: year, month: int(month), day: int(day)}, text[10:], nil
}

// parseDateTime reads YYYY-MM-DD hh:mm:ss[.ffffff].
func parseDateTime(text []byte) (moment, error) {
	m, rest, err := parseDate(text)
	if err != nil || len(rest) == 0 {
		return m, err
	}
	if rest[0] != ' ' {
		return m, fmt.Errorf("%q is not a date and time", text)
	}
	m.micros, err = parseTime(rest[1:])
	return m, err
}

// parseTime reads [-]h…hh:mm:ss[.ffffff] as microseconds.
func parseTime(text []byte) (int64, error) {
	rest, negative := text, false
	if len(rest) > 0 && rest[0] == '-' {
		rest, negative = rest[1:], true
	}
	hours := 0
	for hours < len(rest) && rest[hours] != ':' {
		hours++
	}
	bad := func() (int64, error) { return 0, fmt.Errorf("%q is not a time", text) }
	if hours == 0 || hours > 4 || len(rest) < hours+6 || rest[hours+3] != ':' {
		return bad()
	}
	h, ok1 := number(rest[:hours])
	m, ok2 := number(rest[hours+1 : hours+3])
	s, ok3 := number(rest[hours+4 : hours+6])
	if !ok1 || !ok2 || !ok3 {
		return bad()
	}
	micros := clock(h, m, s)
	if rest = rest[hours+6:]; len(rest) > 1 && rest[0] == '.' {
		unit := int64(100000)
		for _, d := range rest[1:] {
			if d < '0' || d > '9' {
				return bad()
			}
			micros += int64(d-'0') * unit
			unit /= 10
		}
	} else if len(rest) > 0 {
		return bad()
	}
	if negative {
		micros = -micros
	}
	return micros, nil
}

// number reads decimal digits.
func number(b []byte) (int64, bool) {
	n := int64(0)
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, len(b) > 0
}
