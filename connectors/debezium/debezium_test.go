package debezium

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlog/weir/connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNames(t *testing.T) {
	s := &Common{Prefix: "srv", Delimiter: "."}
	for in, want := range map[string]string{"a b": "srv.a_b", "ü": "srv._", "x.y-z_1": "srv.x.y-z_1", "😀": "srv._"} {
		if got := s.Topic(in); got != want {
			t.Errorf("topic of %q is %q, not %q", in, got, want)
		}
	}
	if got := SanitizeTopic(strings.Repeat("a", 300)); len(got) != 249 {
		t.Errorf("a topic of %d bytes", len(got))
	}
	if SanitizeTopic(".") != "_" || SanitizeTopic("..") != "__" {
		t.Error("a topic that is a folder")
	}
	for _, c := range [][3]string{
		{"none", "1a-b", "1a-b"}, {"avro", "1a-b", "_1a_b"}, {"avro", "a.b", "a.b"}, {"avro_unicode", "a-b", "a_u002db"},
		{"avro_unicode", "a_b", "a_u005fb"}, {"avro_unicode", "😀", "_ud83d_ude00"},
	} {
		if got := AdjustName(c[0], c[1]); got != c[2] {
			t.Errorf("%s of %q is %q, not %q", c[0], c[1], got, c[2])
		}
	}
	if got := AdjustFieldName("avro", "a.b"); got != "a_b" {
		t.Errorf("field %q", got)
	}
}

func TestPatterns(t *testing.T) {
	p, err := ParsePatterns("k", `a\.b, c\.(d|e), f\.x{1\,2}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a.b": true, "A.B": true, "axb": false, "a.bb": false, "c.e": true, "f.xx": true, "f.xxx": false} {
		if p.Match(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if got := fmt.Sprint(p.Literals()); got != "[a.b]" {
		t.Errorf("literals %s", got)
	}
	if p, err := ParsePatterns("k", " , "); p != nil || err != nil {
		t.Errorf("an empty list: %v %v", p, err)
	}
	lists := map[string]string{"t.include.list": "a", "t.exclude.list": "b"}
	if _, err := ParseChoice(func(k string) string { return lists[k] }, "t"); err == nil {
		t.Error("both lists are taken")
	}
	delete(lists, "t.include.list")
	if c, err := ParseChoice(func(k string) string { return lists[k] }, "t"); err != nil || c.Takes("b") || !c.Takes("a") {
		t.Errorf("what is excluded: %v", err)
	}
	rules, err := ParseKeyRules(`d\.t:b,a; d\..*:id`)
	if err != nil {
		t.Fatal(err)
	}
	if columns, ok := rules.Columns("d.t"); !ok || fmt.Sprint(columns) != "[b a]" {
		t.Errorf("key %v", columns)
	}
	if _, ok := rules.Columns("e.t"); ok {
		t.Error("a key of a table that no rule names")
	}
	if _, err := ParseKeyRules("d.t"); err == nil {
		t.Error("a rule without columns")
	}
}

func TestCalendar(t *testing.T) {
	for day := int64(-800000); day < 800000; day += 37 {
		y, m, d := Civil(day)
		if got := Days(y, m, d); got != day {
			t.Fatalf("day %d is %d-%d-%d, which is day %d", day, y, m, d, got)
		}
		want := time.Unix(day*86400, 0).UTC()
		if int64(want.Year()) != y || int(want.Month()) != m || want.Day() != d {
			t.Fatalf("day %d is %d-%d-%d, not %s", day, y, m, d, want)
		}
	}
	if got := string(AppendClock(AppendDate(nil, 12345, 6, 7), 3661*1000000+120000, -1)); got != "+12345-06-0701:01:01.12" {
		t.Errorf("date and time %s", got)
	}
	if InUnit(-1, 1000) != -1 || InUnit(1<<62, -1) != 1<<63-1 {
		t.Error("units")
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{"3.6.1.Final": false, "3.7.0.Final": true, "3.10.0": true, "4.0": true, "2.9": false, "": false} {
		if got := (&Common{Version: version}).AtLeast(3, 7); got != want {
			t.Errorf("%q is at least 3.7: %v", version, got)
		}
	}
}

// testBatch gives a batch and a table of one column, which is its key.
func testBatch() (*Batch, *Table) {
	s := &Common{Prefix: "srv", Delimiter: ".", Tombstones: true, Extended: true}
	b := s.NewBatch("test", 0)
	id := []connect.StructField{{Name: "id", Schema: PlainSchema(connect.Int32)}}
	return &b, s.NewTable(NewSchemas("test.Source"), "d.t", s.Topic("d", "t"), id, id, nil)
}

func row(id int32) connect.Value {
	return connect.StructValue([]connect.Value{connect.Int32Value(id)})
}

// TestChangesBecomeRecords: which records each kind of change is, with their headers.
func TestChangesBecomeRecords(t *testing.T) {
	b, tab := testBatch()
	b.Read(tab, &Change{Key: row(1), After: row(1)})
	b.Insert(tab, &Change{Key: row(2), After: row(2)})
	b.Update(tab, &Change{Key: row(2), OldKey: row(2), Before: row(2), After: row(2)})
	b.Update(tab, &Change{Key: row(3), OldKey: row(2), Before: row(2), After: row(3)})
	b.Delete(tab, &Change{Key: row(3), Before: row(3)})
	b.Delete(tab, &Change{Before: row(4)}) // without a key: no tombstone
	b.Truncate(tab, &Change{})
	b.Fault(tab, []byte("raw"), errors.New("why"))
	var got []string
	for _, r := range b.Records() {
		text := "tombstone"
		switch {
		case r.Fault != nil:
			text = "fault " + r.Fault.Reason
		case !r.Value.IsNull():
			v := r.Value.Value().Items()
			text = v[EnvelopeOp].Str() + " " + v[EnvelopeBefore].String() + " " + v[EnvelopeAfter].String()
		}
		if len(r.Headers) == 5 {
			text += " " + r.Headers[0].Key + r.Headers[0].Value.Value().String()
		}
		got = append(got, r.Key.Value().String()+" "+text)
	}
	want := `[1] r null [1]
[2] c null [2]
[2] u [2] [2]
[2] d [2] null __debezium.newkey[3]
[2] tombstone __debezium.newkey[3]
[3] c null [3] __debezium.oldkey[2]
[3] d [3] null
[3] tombstone
null d [4] null
null t null null
null fault d.t: why`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	b.Release()
	b.Skip['c'], b.Skip['u'], b.Skip['d'], b.Skip['t'] = true, true, true, true
	b.Insert(tab, &Change{Key: row(2)})
	b.Update(tab, &Change{Key: row(2)})
	b.Update(tab, &Change{Key: row(3), OldKey: row(2)})
	b.Delete(tab, &Change{Key: row(2)})
	b.Truncate(tab, &Change{})
	if !b.Empty() {
		t.Errorf("%d records of operations that are skipped", b.Len())
	}
}

// TestMarksAreKept: marks and offsets outlive the batch; two at one place are one, and a transaction's end is not forgotten.
func TestMarksAreKept(t *testing.T) {
	b, tab := testBatch()
	mark := func(n int64, ends bool) {
		b.MarkWith(1, func(e []connect.OffsetEntry) []connect.OffsetEntry {
			return append(e, connect.OffsetEntry{Name: "n", Value: connect.Int64Value(n)})
		}, ends)
	}
	mark(1, true)
	mark(2, false)
	b.Insert(tab, &Change{Key: row(1), After: row(1)})
	due := 0
	for range MarkEvery {
		if b.Changed() {
			due++
		}
	}
	mark(3, false)
	first := b.Finish(1)
	b.Release()
	for range 3 * offsetEntryChunk {
		mark(9, false)
	}
	if due != 1 || len(first.Marks) != 2 || !first.Marks[0].EndsTxn || first.Marks[0].Offset.Get("n").Int() != 2 || first.Marks[1].After != 1 || first.Marks[1].Offset.Get("n").Int() != 3 {
		t.Errorf("due %d times, marks %+v", due, first.Marks)
	}
}

// TestArenaIsUsedAgain: what is taken in one batch does not disturb itself, and its memory serves the next.
func TestArenaIsUsedAgain(t *testing.T) {
	a := &Arena{}
	for range 3 {
		var texts []string
		for i := range 5000 {
			texts = append(texts, a.KeepString(append(a.Scratch(40), fmt.Sprintf("%040d", i)...)))
			if v := a.Take(3); len(v) != 3 || !v[0].IsNull() {
				t.Fatalf("taken: %v", v)
			} else {
				v[0] = connect.Int64Value(1)
			}
		}
		for i, s := range texts {
			if s != fmt.Sprintf("%040d", i) {
				t.Fatalf("text %d is %s", i, s)
			}
		}
		if a.HeldBytes() == 0 {
			t.Error("nothing is held")
		}
		a.Release()
	}
	if n := testing.AllocsPerRun(10, func() {
		for range 1000 {
			a.Keep(append(a.Scratch(40), "x"...))
			a.Take(3)
		}
		a.Release()
	}); n > 0 {
		t.Errorf("%v allocations in a batch", n)
	}
}

func TestHeartbeat(t *testing.T) {
	s := &Common{Prefix: "srv", HeartbeatTopic: "beats", HeartbeatEvery: time.Second}
	start := time.Unix(1000, 0)
	h := s.NewHeartbeat(start)
	if h.Due(start.Add(999*time.Millisecond)) || !h.Due(start.Add(time.Second)) || h.Due(start.Add(1500*time.Millisecond)) {
		t.Error("beats are not a second apart")
	}
	b := s.NewBatch("test", 0)
	h.Beat(&b, NewSchemas("test.Source"))
	r := b.Records()[0]
	if r.Topic != "beats" || r.Key.Value().String() != `["srv"]` || r.Value.Value().Items()[0].Int() != 1001000 || len(r.Headers) != 0 {
		t.Errorf("record %+v", r)
	}
	never := (&Common{}).NewHeartbeat(start)
	if never.Due(start.Add(time.Hour)) {
		t.Error("a beat though none is wanted")
	}
}
