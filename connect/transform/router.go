package transform

import (
	"regexp"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
)

func regexRouterFields() []connect.Field {
	return []connect.Field{
		{Name: "regex", Type: connect.TypeString, Required: true, Importance: connect.High, Doc: "The expression that a topic must match as a whole."},
		{Name: "replacement", Type: connect.TypeString, NoDefault: true, Importance: connect.High, Doc: "The new topic; $1 is what the first group matched."},
	}
}

// regexRouter renames topics.
func regexRouter(s *connect.Settings) (applyFunc, []string, error) {
	whole, anywhere, err := javaRegex(s.String("regex"))
	if err != nil {
		return nil, nil, badKey("regex", "%w", err)
	}
	if !s.Has("replacement") {
		return nil, nil, badKey("replacement", "Missing required configuration %q which has no default value.", "replacement")
	}
	parts, err := javaReplacement(s.String("replacement"), anywhere)
	if err != nil {
		return nil, nil, badKey("replacement", "%w", err)
	}
	lastFrom, lastTo := "", ""
	return func(r *connect.Record) (bool, error) {
		if r.Topic != lastFrom || lastFrom == "" {
			lastFrom, lastTo = r.Topic, reroute(r.Topic, whole, anywhere, parts)
		}
		r.Topic = lastTo
		return true, nil
	}, nil, nil
}

// reroute gives a topic's new name. As in Java the whole topic must match, and then the first place where the expression
// is found is replaced.
func reroute(topic string, whole, anywhere *regexp.Regexp, parts []replacementPart) string {
	if !whole.MatchString(topic) {
		return topic
	}
	at := anywhere.FindStringSubmatchIndex(topic)
	if at == nil {
		return topic
	}
	var out strings.Builder
	out.WriteString(topic[:at[0]])
	for _, p := range parts {
		out.WriteString(p.text)
		if p.group >= 0 && at[2*p.group] >= 0 {
			out.WriteString(topic[at[2*p.group]:at[2*p.group+1]])
		}
	}
	out.WriteString(topic[at[1]:])
	return out.String()
}

func timestampRouterFields() []connect.Field {
	return []connect.Field{
		{Name: "topic.format", Type: connect.TypeString, Default: "${topic}-${timestamp}", Importance: connect.High, Doc: "The new topic; ${topic} and ${timestamp} stand for the record's."},
		{Name: "timestamp.format", Type: connect.TypeString, Default: "yyyyMMdd", Importance: connect.High, Doc: "The timestamp's pattern, as of Java's SimpleDateFormat, in UTC."},
	}
}

// timestampRouter puts a record's time into its topic.
func timestampRouter(s *connect.Settings) (applyFunc, []string, error) {
	pattern, err := parseDatePattern(s.String("timestamp.format"))
	if err != nil {
		return nil, nil, badKey("timestamp.format", "%w", err)
	}
	format := s.String("topic.format")
	return func(r *connect.Record) (bool, error) {
		if r.Timestamp == connect.NoTimestamp {
			return false, recordErrorf("the record has no timestamp")
		}
		text := pattern.format(time.UnixMilli(r.Timestamp).UTC())
		r.Topic = strings.ReplaceAll(strings.ReplaceAll(format, "${topic}", r.Topic), "${timestamp}", text)
		return true, nil
	}, nil, nil
}
