package s3

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

// The partitioners besides the default one.
const (
	fieldPartition  = "io.confluent.connect.storage.partitioner.FieldPartitioner"
	timePartition   = "io.confluent.connect.storage.partitioner.TimeBasedPartitioner"
	dailyPartition  = "io.confluent.connect.storage.partitioner.DailyPartitioner"
	hourlyPartition = "io.confluent.connect.storage.partitioner.HourlyPartitioner"
)

// partitioner decides in which folder below its topic's a record is stored, and by which time it rotates. Both follow from
// the record alone.
type partitioner struct {
	fields    []string // of a FieldPartitioner
	delim     string
	layout    []layoutPart // of a time-based one; nil for none
	zone      *time.Location
	duration  time.Duration
	timeField string // "" for the record's own time

	spanStart int64 // of the last time folder, with its name: most records share it
	spanName  string
}

func newPartitioner(s *connect.Settings) (*partitioner, error) {
	p := &partitioner{delim: s.String("directory.delim"), zone: time.UTC}
	class := s.String("partitioner.class")
	if strings.EqualFold(s.String("timestamp.extractor"), "RecordField") {
		p.timeField = s.String("timestamp.field")
	}
	switch {
	case isClass(class, fieldPartition):
		if p.fields = s.List("partition.field.name"); len(p.fields) == 0 {
			return nil, connect.BadConfig("partition.field.name", fmt.Errorf("FieldPartitioner needs the names of fields"))
		}
		return p, nil
	case !isTimeBased(class):
		return p, nil
	}
	if e := s.String("timestamp.extractor"); !strings.EqualFold(e, "Record") && !strings.EqualFold(e, "RecordField") {
		return nil, connect.BadConfig("timestamp.extractor", fmt.Errorf(
			"%s would put a record that is read again into another folder: set Record or RecordField", e))
	}
	format, duration := s.String("path.format"), s.Millis("partition.duration.ms")
	switch {
	case isClass(class, dailyPartition):
		format, duration = orDefault(format, "'year'=YYYY/'month'=MM/'day'=dd"), 24*time.Hour
	case isClass(class, hourlyPartition):
		format, duration = orDefault(format, "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"), time.Hour
	}
	if duration <= 0 {
		return nil, connect.BadConfig("partition.duration.ms", fmt.Errorf("TimeBasedPartitioner needs a duration above 0"))
	}
	if s.String("timezone") == "" {
		return nil, connect.BadConfig("timezone", fmt.Errorf("a time-based partitioner needs a timezone, such as UTC"))
	}
	var err error
	if p.zone, err = time.LoadLocation(s.String("timezone")); err != nil {
		return nil, connect.BadConfig("timezone", err)
	}
	p.duration = duration
	if p.layout, err = parseLayout(format, p.delim); err != nil {
		return nil, connect.BadConfig("path.format", err)
	}
	return p, nil
}

func isTimeBased(class string) bool {
	return isClass(class, timePartition) || isClass(class, dailyPartition) || isClass(class, hourlyPartition)
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// place gives a record's folder and the time by which it rotates, in milliseconds.
func (p *partitioner) place(r *connect.Record) (encoded string, millis int64, err error) {
	millis = r.Timestamp
	if p.timeField != "" {
		if millis, err = fieldMillis(&r.Value, p.timeField); err != nil {
			return "", 0, fmt.Errorf("timestamp.field: %w", err)
		}
	}
	switch {
	case p.fields != nil:
		parts := make([]string, len(p.fields))
		for i, name := range p.fields {
			_, v, err := lookup(&r.Value, name)
			if err != nil {
				return "", 0, fmt.Errorf("partition.field.name: %w", err)
			}
			text, err := folderText(v)
			if err != nil {
				return "", 0, fmt.Errorf("partition.field.name: field %s: %w", name, err)
			}
			parts[i] = name + "=" + text
		}
		return strings.Join(parts, p.delim), millis, nil
	case p.layout != nil:
		return p.format(millis), millis, nil
	}
	return "partition=" + strconv.Itoa(int(r.Origin.Partition)), millis, nil
}

// format writes the beginning of the span of time that millis lies in.
func (p *partitioner) format(millis int64) string {
	t := time.UnixMilli(millis).In(p.zone)
	_, offset := t.Zone()
	shift := int64(offset) * 1000
	span := p.duration.Milliseconds()
	local := millis + shift
	start := local - ((local%span)+span)%span - shift
	if start == p.spanStart && p.spanName != "" {
		return p.spanName
	}
	t = time.UnixMilli(start).In(p.zone)
	var b strings.Builder
	for _, part := range p.layout {
		if part.token == 0 {
			b.WriteString(part.text)
			continue
		}
		n := map[byte]int{'y': t.Year(), 'M': int(t.Month()), 'd': t.Day(), 'H': t.Hour(), 'm': t.Minute(), 's': t.Second()}[part.token]
		fmt.Fprintf(&b, "%0*d", part.width, n)
	}
	p.spanStart, p.spanName = start, b.String()
	return p.spanName
}

// layoutPart is a text or one number of a date.
type layoutPart struct {
	text  string
	token byte // y M d H m s; 0 for text
	width int
}

// parseLayout reads the part of Joda's patterns that names folders: quoted text, and numbers of years to seconds.
func parseLayout(format, delim string) ([]layoutPart, error) {
	var out []layoutPart
	for i := 0; i < len(format); {
		c := format[i]
		n := 1
		for i+n < len(format) && format[i+n] == c {
			n++
		}
		switch {
		case c == '\'':
			end := strings.IndexByte(format[i+1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("a quote is not closed in %q", format)
			}
			out = append(out, layoutPart{text: format[i+1 : i+1+end]})
			i += end + 2
			continue
		case c == 'Y' || c == 'y' || c == 'd' || c == 'H' || c == 'm' || c == 's' || c == 'M' && n <= 2:
			if c == 'Y' {
				c = 'y'
			}
			out = append(out, layoutPart{token: c, width: n})
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			return nil, fmt.Errorf("%q is not supported in %q: use YYYY, MM, dd, HH, mm, ss and quoted text", strings.Repeat(string(c), n), format)
		case c == '/':
			out = append(out, layoutPart{text: strings.Repeat(delim, n)})
		default:
			out = append(out, layoutPart{text: strings.Repeat(string(c), n)})
		}
		i += n
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the format is empty")
	}
	return out, nil
}

// lookup gives a field of a value, nested by dots.
func lookup(d *connect.Data, path string) (*connect.Schema, connect.Value, error) {
	if err := d.Decode(); err != nil {
		return nil, connect.Value{}, err
	}
	s, v := d.Schema(), d.Value()
	for name := range strings.SplitSeq(path, ".") {
		var ok bool
		switch v.Kind() {
		case connect.Struct:
			i := s.Field(name)
			if ok = i >= 0 && i < len(v.Items()); ok {
				s, v = s.Fields[i].Schema, v.Items()[i]
			}
		case connect.Map:
			v, ok = v.Lookup(name)
			s = nil
		}
		if !ok {
			return nil, connect.Value{}, fmt.Errorf("there is no field %s", path)
		}
	}
	return s, v, nil
}

func fieldMillis(d *connect.Data, path string) (int64, error) {
	s, v, err := lookup(d, path)
	if err != nil {
		return 0, err
	}
	switch v.Kind() {
	case connect.Int32, connect.Int64:
		if s != nil && s.Name == connect.DateName {
			return v.Int() * 24 * 3600 * 1000, nil
		}
		return v.Int(), nil
	case connect.String:
		t, err := time.Parse(time.RFC3339, v.Str())
		return t.UnixMilli(), err
	}
	return 0, fmt.Errorf("field %s holds no time", path)
}

func folderText(v connect.Value) (string, error) {
	switch v.Kind() {
	case connect.String:
		return v.Str(), nil
	case connect.Bool, connect.Int8, connect.Int16, connect.Int32, connect.Int64:
		return v.String(), nil
	}
	return "", fmt.Errorf("a %s names no folder", v.Kind())
}
