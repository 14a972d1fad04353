package transform

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// datePattern is a pattern of Java's SimpleDateFormat, for UTC and English names.
type datePattern struct {
	parts []patternPart
	text  string
}

// patternPart is a letter that stands n times, or (letter 0) a text that stands for itself.
type patternPart struct {
	letter byte
	n      int
	text   string
}

// patternLetters are the letters we know. The others of Java's, those that count weeks, depend on its locale and are
// refused.
const patternLetters = "yMLdDHhkKmsSaEuzZXG"

// parseDatePattern reads a pattern: letters, 'quoted text', anything else as it stands.
func parseDatePattern(text string) (*datePattern, error) {
	p := &datePattern{text: text}
	literal := func(s string) { p.parts = append(p.parts, patternPart{text: s}) }
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("the date pattern %q has a quote without an end", text)
			}
			if end == 0 {
				literal("'")
			} else {
				literal(text[i+1 : i+1+end])
			}
			i += end + 2
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			if strings.IndexByte(patternLetters, c) < 0 {
				return nil, fmt.Errorf("the date pattern %q has the letter %q, which is not supported", text, c)
			}
			n := 1
			for i+n < len(text) && text[i+n] == c {
				n++
			}
			p.parts = append(p.parts, patternPart{letter: c, n: n})
			i += n
		default:
			literal(string(c))
			i++
		}
	}
	return p, nil
}

// format writes a time in UTC.
func (p *datePattern) format(t time.Time) string {
	var out strings.Builder
	for _, part := range p.parts {
		if part.letter == 0 {
			out.WriteString(part.text)
		} else {
			out.WriteString(part.format(t))
		}
	}
	return out.String()
}

func (p patternPart) format(t time.Time) string {
	pad := func(v int) string { return fmt.Sprintf("%0*d", p.n, v) }
	name := func(s string) string {
		if p.n < 4 {
			return s[:3]
		}
		return s
	}
	switch p.letter {
	case 'y':
		if p.n == 2 {
			return fmt.Sprintf("%02d", t.Year()%100)
		}
		return pad(t.Year())
	case 'M', 'L':
		if p.n >= 3 {
			return name(t.Month().String())
		}
		return pad(int(t.Month()))
	case 'd':
		return pad(t.Day())
	case 'D':
		return pad(t.YearDay())
	case 'H':
		return pad(t.Hour())
	case 'k':
		return pad((t.Hour()+23)%24 + 1)
	case 'K':
		return pad(t.Hour() % 12)
	case 'h':
		return pad((t.Hour()+11)%12 + 1)
	case 'm':
		return pad(t.Minute())
	case 's':
		return pad(t.Second())
	case 'S':
		return pad(t.Nanosecond() / 1e6)
	case 'a':
		return t.Format("PM")
	case 'E':
		return name(t.Weekday().String())
	case 'u':
		return pad((int(t.Weekday())+6)%7 + 1)
	case 'G':
		return "AD"
	case 'z':
		if p.n >= 4 {
			return "Coordinated Universal Time"
		}
		return "UTC"
	case 'Z':
		return "+0000"
	}
	return "Z" // X
}

// parse reads a time, leniently as Java: numbers of any length where no number follows, values beyond their range carried
// over, and what follows the pattern ignored.
func (p *datePattern) parse(text string) (time.Time, error) {
	fail := fmt.Errorf("the time %q does not match the pattern %q", text, p.text)
	f := dateFields{year: 1970, month: 1, day: 1}
	for i, part := range p.parts {
		if part.letter == 0 {
			rest, ok := strings.CutPrefix(text, part.text)
			if !ok {
				return time.Time{}, fail
			}
			text = rest
			continue
		}
		abutting := i+1 < len(p.parts) && p.parts[i+1].letter != 0
		rest, ok := f.read(part, text, abutting)
		if !ok {
			return time.Time{}, fail
		}
		text = rest
	}
	if f.pm && f.hour < 12 {
		f.hour += 12
	}
	t := time.Date(f.year, time.Month(f.month), f.day, f.hour, f.minute, f.second, f.milli*1e6, time.UTC)
	return t.Add(-time.Duration(f.offsetMinutes) * time.Minute), nil
}

// dateFields are the parts of a time as they are read.
type dateFields struct {
	year, month, day, hour, minute, second, milli int
	offsetMinutes                                 int
	pm                                            bool
}

func (f *dateFields) read(p patternPart, text string, abutting bool) (rest string, ok bool) {
	text = strings.TrimLeft(text, " \t")
	switch p.letter {
	case 'M', 'L':
		if p.n >= 3 {
			return f.readMonth(text)
		}
	case 'E':
		for d := time.Sunday; d <= time.Saturday; d++ {
			if rest, ok := cutName(text, d.String()); ok {
				return rest, true
			}
		}
		return "", false
	case 'a':
		if len(text) < 2 {
			return "", false
		}
		f.pm = strings.EqualFold(text[:2], "PM")
		return text[2:], f.pm || strings.EqualFold(text[:2], "AM")
	case 'z', 'Z', 'X':
		return f.readZone(text)
	case 'G':
		return strings.CutPrefix(text, "AD")
	}
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' && (!abutting || n < p.n) {
		n++
	}
	v, err := strconv.Atoi(text[:n])
	if err != nil {
		return "", false
	}
	f.set(p, v, n)
	return text[n:], true
}

func (f *dateFields) set(p patternPart, v, digits int) {
	switch p.letter {
	case 'y':
		if p.n <= 2 && digits == 2 {
			// Java's window: 80 years back to 20 years on; the century's turn is far from both for some time.
			if v += 2000; v >= 2047 {
				v -= 100
			}
		}
		f.year = v
	case 'M', 'L':
		f.month = v
	case 'd':
		f.day = v
	case 'D':
		f.month, f.day = 1, v
	case 'H', 'K':
		f.hour = v
	case 'h':
		f.hour = v % 12
	case 'k':
		f.hour = v % 24
	case 'm':
		f.minute = v
	case 's':
		f.second = v
	case 'S':
		f.milli = v
	}
}

func (f *dateFields) readMonth(text string) (string, bool) {
	for m := time.January; m <= time.December; m++ {
		if rest, ok := cutName(text, m.String()); ok {
			f.month = int(m)
			return rest, true
		}
	}
	return "", false
}

// cutName cuts a name or its first three letters, in any case.
func cutName(text, name string) (string, bool) {
	for _, n := range []string{name, name[:3]} {
		if len(text) >= len(n) && strings.EqualFold(text[:len(n)], n) {
			return text[len(n):], true
		}
	}
	return "", false
}

// readZone reads Z, UTC, GMT, +01, +0100 or +01:00.
func (f *dateFields) readZone(text string) (string, bool) {
	for _, zero := range []string{"Z", "UTC", "GMT"} {
		if rest, ok := strings.CutPrefix(text, zero); ok {
			return rest, true
		}
	}
	if len(text) < 3 || text[0] != '+' && text[0] != '-' {
		return "", false
	}
	hours, err := strconv.ParseUint(text[1:3], 10, 8)
	if err != nil {
		return "", false
	}
	rest, minutes := text[3:], uint64(0)
	if after := strings.TrimPrefix(rest, ":"); len(after) >= 2 {
		if m, err := strconv.ParseUint(after[:2], 10, 8); err == nil {
			minutes, rest = m, after[2:]
		}
	}
	f.offsetMinutes = int(hours*60 + minutes)
	if text[0] == '-' {
		f.offsetMinutes = -f.offsetMinutes
	}
	return rest, true
}
