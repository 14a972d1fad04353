package binlog

import (
	"testing"

	"github.com/weirlog/weir/connect"
)

func TestOffsetAsDebeziumStoresIt(t *testing.T) {
	for _, text := range []string{
		`{"ts_sec":1700000000,"file":"bin.000003","pos":154,"gtids":"00000000-0000-0000-0000-00000000000a:1-5","row":1,"server_id":1,"event":2}`,
		`{"file":"bin.000003","pos":4}`,
		`{"ts_sec":1,"file":"b.1","pos":8589934592,"gtids":"0-1-5","server_id":4294967295}`,
	} {
		var m connect.OffsetMap
		if err := m.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		o, err := ReadOffset(m)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if again, _ := o.Append(nil).MarshalJSON(); string(again) != text {
			t.Errorf("%s comes back as %s", text, again)
		}
	}
}

func TestOffsetsThatCantBeRead(t *testing.T) {
	for _, text := range []string{`{}`, `{"pos":4}`, `{"file":"b.1","pos":"x"}`, `{"file":"b.1","pos":4,"event":true}`} {
		var m connect.OffsetMap
		if err := m.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if o, err := ReadOffset(m); err == nil {
			t.Errorf("%s reads as %+v, want an error", text, o)
		}
	}
	m := connect.OffsetMap{{Name: keyGTIDs, Value: connect.StringValue(sourceA + ":1,\n" + sourceB + ":2")}, {Name: keyPos, Value: connect.Int64Value(-112)}}
	if o, err := ReadOffset(m); err != nil || o.GTIDs != sourceA+":1,"+sourceB+":2" || o.Pos != 0 {
		t.Errorf("Debezium's offset in a compressed transaction reads as %+v, %v", o, err)
	}
}

func TestPositionsCompare(t *testing.T) {
	for _, c := range []struct {
		a, b  Position
		order int
		ok    bool
	}{
		{Position{"b.000009", 10}, Position{"b.000009", 4}, 1, true},
		{Position{"b.000009", 10}, Position{"b.000010", 4}, -1, true},
		{Position{"b.999999", 10}, Position{"b.1000000", 4}, -1, true},
		{Position{"a.000001", 10}, Position{"b.000001", 10}, 0, false},
		{Position{"odd", 1}, Position{"odd", 2}, -1, true},
	} {
		if order, ok := c.a.Compare(c.b); order != c.order || ok != c.ok {
			t.Errorf("%s and %s: %d, %v", c.a, c.b, order, ok)
		}
	}
}
