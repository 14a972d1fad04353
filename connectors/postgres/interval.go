package postgres

import (
	"fmt"
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// interval reads the style iso_8601: P1Y2M3DT4H5M6.78S, each number with its own sign.
func (c *codec) interval(text []byte, a *debezium.Arena) (connect.Value, error) {
	bad := fmt.Errorf("%q is not an interval in ISO 8601", text)
	if len(text) < 2 || text[0] != 'P' {
		return connect.Value{}, bad
	}
	var part [6]int64 // years, months, days, hours, minutes, microseconds
	clock := false
	for b := text[1:]; len(b) > 0; {
		if b[0] == 'T' {
			clock, b = true, b[1:]
			continue
		}
		i := 0
		for i < len(b) && (b[i] == '-' || b[i] == '.' || b[i] >= '0' && b[i] <= '9') {
			i++
		}
		if i == 0 || i == len(b) {
			return connect.Value{}, bad
		}
		slot := intervalSlot(b[i], clock)
		if slot < 0 {
			return connect.Value{}, bad
		}
		n, err := intervalNumber(b[:i], slot == 5)
		if err != nil {
			return connect.Value{}, bad
		}
		part[slot], b = n, b[i+1:]
	}
	if c.kind == codecIntervalText {
		return connect.StringValue(a.KeepString(appendInterval(a.Scratch(64), part))), nil
	}
	months := float64(part[0]*12 + part[1])
	micros := int64(months*365.25/12*debezium.DayMicros) + part[2]*debezium.DayMicros + part[3]*3600*1000000 + part[4]*60*1000000 + part[5]
	return connect.Int64Value(micros), nil
}

func intervalSlot(unit byte, clock bool) int {
	switch {
	case unit == 'Y' && !clock:
		return 0
	case unit == 'M' && !clock:
		return 1
	case unit == 'D' && !clock:
		return 2
	case unit == 'H' && clock:
		return 3
	case unit == 'M':
		return 4
	case unit == 'S' && clock:
		return 5
	}
	return -1
}

// intervalNumber reads a whole number, or seconds with a fraction as microseconds.
func intervalNumber(b []byte, seconds bool) (int64, error) {
	if !seconds {
		return strconv.ParseInt(debezium.AsString(b), 10, 64)
	}
	point := len(b)
	for i := range b {
		if b[i] == '.' {
			point = i
			break
		}
	}
	whole, err := strconv.ParseInt(debezium.AsString(b[:point]), 10, 64)
	if err != nil {
		return 0, err
	}
	fraction, unit := int64(0), int64(100000)
	for _, d := range b[min(point+1, len(b)):] {
		if d < '0' || d > '9' {
			return 0, strconv.ErrSyntax
		}
		fraction += int64(d-'0') * unit
		unit /= 10
	}
	if b[0] == '-' {
		fraction = -fraction
	}
	return whole*1000000 + fraction, nil
}

// appendInterval appends all parts, zero or not, as Debezium does.
func appendInterval(out []byte, part [6]int64) []byte {
	out = append(out, 'P')
	for i, unit := range []byte("YMDHM") {
		if i == 3 {
			out = append(out, 'T')
		}
		out = append(strconv.AppendInt(out, part[i], 10), unit)
	}
	micros := part[5]
	if micros < 0 {
		out, micros = append(out, '-'), -micros
	}
	out = strconv.AppendInt(out, micros/1000000, 10)
	if f := micros % 1000000; f != 0 {
		out = debezium.AppendPadded(append(out, '.'), f, 6)
		for out[len(out)-1] == '0' {
			out = out[:len(out)-1]
		}
	}
	return append(out, 'S')
}
