package convert

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

// maxLiteralExponent bounds what a decimal literal may be written out to; beyond it the text stays a string.
const maxLiteralExponent = 1000

// numberLiteral reads what java.math.BigDecimal reads, in the narrowest type that Java chooses; nil for no number.
func numberLiteral(token string) *typed {
	negative, digits, scale, ok := splitDecimal(token)
	if !ok {
		return nil
	}
	if t := wholeLiteral(negative, digits, scale); t != nil {
		return t
	}
	f32, _ := strconv.ParseFloat(token, 32)
	f64, _ := strconv.ParseFloat(token, 64)
	switch {
	case !math.IsInf(f32, 0) && scale != 0:
		return &typed{&connect.Schema{Type: connect.Float32}, connect.Float32Value(float32(f32))}
	case !math.IsInf(f64, 0) && scale != 0:
		return &typed{&connect.Schema{Type: connect.Float64}, connect.Float64Value(f64)}
	case scale < -maxLiteralExponent || scale > maxLiteralExponent || len(digits) > maxNumberLen:
		return nil
	}
	s := &connect.Schema{Type: connect.Bytes, Name: connect.DecimalName, Version: 1,
		Params: []connect.Param{{Name: "scale", Value: strconv.Itoa(scale)}}}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		digits = "0"
	}
	if negative {
		digits = "-" + digits
	}
	// A scale other than 0 has become a float above, unless the number is beyond float64: then it is negative, and the
	// schema of scale 0 holds the number written out.
	if scale < 0 {
		s.Params[0].Value = "0"
		digits += strings.Repeat("0", -scale)
	}
	return &typed{s, connect.DecimalText(digits)}
}

// splitDecimal takes a decimal literal apart: its digits without the point, and how many of them are fraction.
func splitDecimal(s string) (negative bool, digits string, scale int, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		negative, s = s[0] == '-', s[1:]
	}
	exp := 0
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		n, err := strconv.ParseInt(s[e+1:], 10, 32)
		if err != nil {
			return false, "", 0, false
		}
		exp, s = int(n), s[:e]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits = whole + fraction
	if digits == "" {
		return false, "", 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false, "", 0, false
		}
	}
	return negative, digits, len(fraction) - exp, true
}

// wholeLiteral gives a whole number within int64 in its narrowest type, nil for any other.
func wholeLiteral(negative bool, digits string, scale int) *typed {
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return &typed{&connect.Schema{Type: connect.Int8}, connect.Int8Value(0)}
	}
	for scale > 0 && digits[len(digits)-1] == '0' {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	if scale > 0 || len(digits)-scale > 19 {
		return nil
	}
	digits += strings.Repeat("0", -scale)
	if negative {
		digits = "-" + digits
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return nil
	}
	k := connect.Int64
	switch {
	case n == int64(int8(n)):
		k = connect.Int8
	case n == int64(int16(n)):
		k = connect.Int16
	case n == int64(int32(n)):
		k = connect.Int32
	}
	return &typed{&connect.Schema{Type: k}, connect.IntValue(k, n)}
}

// temporalLiteral reads a date, time or timestamp by the length of its text, leniently as Java's SimpleDateFormat: the
// 45th of a 13th month is a day of the next year. It gives nil for anything else.
func temporalLiteral(token string) *typed {
	token = strings.ReplaceAll(token, `\:`, ":")
	millis, ok := int64(0), false
	s := &connect.Schema{Version: 1}
	switch len(token) {
	case len(timeLayout):
		millis, ok = parseLenient(token, "H:m:s.fZ")
		s.Type, s.Name = connect.Int32, connect.TimeName
		if ok && (millis < 0 || millis >= millisPerDay) {
			return nil
		}
	case len(timestampLayout):
		millis, ok = parseLenient(token, "Y-M-DTH:m:s.fZ")
		s.Type, s.Name = connect.Int64, connect.TimestampName
	case len(dateLayout):
		millis, ok = parseLenient(token, "Y-M-D")
		s.Type, s.Name = connect.Int32, connect.DateName
		millis = floorDiv(millis, millisPerDay)
	}
	if !ok {
		return nil
	}
	return &typed{s, connect.IntValue(s.Type, millis)}
}

// parseLenient reads numbers in the places that letters of layout have, any other character as it stands. What follows
// the layout is ignored.
func parseLenient(text, layout string) (millis int64, ok bool) {
	year, month, day, hour, minute, second, milli := 1970, 1, 1, 0, 0, 0, 0
	places := map[byte]*int{'Y': &year, 'M': &month, 'D': &day, 'H': &hour, 'm': &minute, 's': &second, 'f': &milli}
	for i := range len(layout) {
		place := places[layout[i]]
		if place == nil {
			if text == "" || text[0] != layout[i] {
				return 0, false
			}
			text = text[1:]
			continue
		}
		text = strings.TrimLeft(text, " \t")
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		v, err := strconv.Atoi(text[:n])
		if err != nil {
			return 0, false
		}
		*place, text = v, text[n:]
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, milli*1e6, time.UTC)
	return t.UnixMilli(), true
}
