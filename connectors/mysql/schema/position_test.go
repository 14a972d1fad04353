package schema

import (
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

func TestAtOrBefore(t *testing.T) {
	// Sets as lists of letters.
	contains := func(set, subset string) bool {
		for _, one := range strings.Split(subset, ",") {
			if !strings.Contains(set, one) {
				return false
			}
		}
		return true
	}
	for _, test := range []struct {
		record, offset string
		want           bool
	}{
		{`{"gtids":"a"}`, `{"gtids":"a,b"}`, true},
		{`{"gtids":"a,b"}`, `{"gtids":"a"}`, false},
		{`{"gtids":"a,c"}`, `{"gtids":"a,b"}`, false},
		{`{"gtids":"a"}`, `{"gtids":"a"}`, true},
		{`{"gtids":"a","event":2}`, `{"gtids":"a","event":1}`, false},
		{`{"gtids":"a","snapshot":"INITIAL"}`, `{"gtids":"a"}`, true},
		{`{"gtids":"a"}`, `{"gtids":"a","snapshot":"INITIAL"}`, false},
		{`{"gtids":"a","file":"b.1","pos":90}`, `{"gtids":"a","file":"b.1","pos":50}`, false},
		{`{"gtids":"a","file":"b.1","pos":50}`, `{"gtids":"a","file":"b.1","pos":50}`, true},
		{`{"gtids":"a","file":"b.2","pos":4}`, `{"gtids":"a","file":"b.1","pos":50}`, false},
		{`{"gtids":"a","file":"b.2","pos":4,"snapshot":"INITIAL"}`, `{"gtids":"a","file":"b.1","pos":50}`, true},
		{`{"file":"b.9","pos":9}`, `{"gtids":"a"}`, true},
		{`{"gtids":"a"}`, `{"file":"b.9","pos":9}`, false},
		{`{"file":"b.000009","pos":9}`, `{"file":"b.000010","pos":4}`, true},
		{`{"file":"b.999999","pos":9}`, `{"file":"b.1000000","pos":4}`, true},
		{`{"file":"b.000002","pos":9}`, `{"file":"b.000002","pos":8}`, false},
		{`{"file":"b.000002","pos":8}`, `{"file":"b.000002","pos":8}`, true},
		{`{"file":"b.000002","pos":8,"event":1}`, `{"file":"b.000002","pos":8}`, false},
		{`{"file":"b.000002","pos":8,"event":1,"row":1}`, `{"file":"b.000002","pos":8,"event":1,"row":2}`, true},
		{`{"file":"b.000002","pos":5000000000}`, `{"file":"b.000002","pos":8}`, false},
		{`{"file":"b.2","pos":8,"server_id":1,"ts_sec":5}`, `{"file":"b.1","pos":8,"server_id":2,"ts_sec":6}`, true},
		{`{"file":"b.1","pos":8,"server_id":1,"ts_sec":7}`, `{"file":"b.2","pos":8,"server_id":2,"ts_sec":6}`, false},
	} {
		record, _ := connect.ParseOffsetMap([]byte(test.record))
		offset, _ := connect.ParseOffsetMap([]byte(test.offset))
		if got := AtOrBefore(record, offset, contains); got != test.want {
			t.Errorf("%s at or before %s: %v", test.record, test.offset, got)
		}
	}
}
