package debezium

import (
	"math"
	"strconv"
)

// DayMicros is a day in microseconds.
const DayMicros = 86400 * 1000000

// InUnit converts microseconds to units of that many microseconds, rounding down; a negative unit is nanoseconds, and what
// they can't hold is cut to the largest.
func InUnit(micros, unit int64) int64 {
	if unit > 0 {
		return FloorDiv(micros, unit)
	}
	switch {
	case micros > math.MaxInt64/1000:
		return math.MaxInt64
	case micros < math.MinInt64/1000:
		return math.MinInt64
	}
	return micros * 1000
}

// FloorDiv divides and rounds down.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Days gives the days since 1970-01-01 of a date in the proleptic Gregorian calendar; the year 0 is 1 BC.
func Days(year int64, month, day int) int64 {
	y := year
	if month <= 2 {
		y--
	}
	era := FloorDiv(y, 400)
	yearOfEra := y - era*400
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1)
	dayOfEra := yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return era*146097 + dayOfEra - 719468
}

// Civil is the inverse of Days.
func Civil(days int64) (year int64, month, day int) {
	days += 719468
	era := FloorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	p := (5*dayOfYear + 2) / 153
	day = int(dayOfYear - (153*p+2)/5 + 1)
	month = int((p+2)%12 + 1)
	year = yearOfEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

// AppendDate appends the date as java.time does: years above 9999 with a plus sign, those before 0 with a minus.
func AppendDate(out []byte, year int64, month, day int) []byte {
	switch {
	case year > 9999:
		out = append(out, '+')
	case year < 0:
		out, year = append(out, '-'), -year
	}
	out = AppendPadded(out, year, 4)
	out = AppendPadded(append(out, '-'), int64(month), 2)
	return AppendPadded(append(out, '-'), int64(day), 2)
}

// AppendPadded appends a number that is not negative with zeros before it up to a width.
func AppendPadded(out []byte, n int64, width int) []byte {
	have := 1
	for m := n; m >= 10; m /= 10 {
		have++
	}
	for ; have < width; have++ {
		out = append(out, '0')
	}
	return strconv.AppendInt(out, n, 10)
}

// AppendClock appends HH:MM:SS and the fraction: as many digits as given, or, if negative, as needed.
func AppendClock(out []byte, micros int64, fractionDigits int) []byte {
	seconds, fraction := micros/1000000, micros%1000000
	out = AppendPadded(out, seconds/3600, 2)
	out = AppendPadded(append(out, ':'), seconds/60%60, 2)
	out = AppendPadded(append(out, ':'), seconds%60, 2)
	if fractionDigits == 0 || fractionDigits < 0 && fraction == 0 {
		return out
	}
	out = AppendPadded(append(out, '.'), fraction, 6)
	if fractionDigits > 0 && fractionDigits < 6 {
		return out[:len(out)-6+fractionDigits]
	}
	for fractionDigits < 0 && out[len(out)-1] == '0' {
		out = out[:len(out)-1]
	}
	return out
}
