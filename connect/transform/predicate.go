package transform

import (
	"github.com/weirlog/weir/connect"
)

// hasHeaderKey matches records that have a header.
func hasHeaderKey(s *connect.Settings) (testFunc, error) {
	name := s.String("name")
	return func(r *connect.Record) (bool, error) {
		for i := range r.Headers {
			if r.Headers[i].Key == name {
				return true, nil
			}
		}
		return false, nil
	}, nil
}

// recordIsTombstone matches records whose value is null.
func recordIsTombstone(*connect.Settings) (testFunc, error) {
	return func(r *connect.Record) (bool, error) {
		if err := r.Value.Decode(); err != nil {
			return false, err
		}
		return r.Value.IsNull(), nil
	}, nil
}

// topicNameMatches matches records whose topic matches an expression as a whole.
func topicNameMatches(s *connect.Settings) (testFunc, error) {
	whole, _, err := javaRegex(s.String("pattern"))
	if err != nil {
		return nil, badKey("pattern", "%w", err)
	}
	lastTopic, lastAnswer := "", whole.MatchString("")
	return func(r *connect.Record) (bool, error) {
		if r.Topic != lastTopic {
			lastTopic, lastAnswer = r.Topic, whole.MatchString(r.Topic)
		}
		return lastAnswer, nil
	}, nil
}
