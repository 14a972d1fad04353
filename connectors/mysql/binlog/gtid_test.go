package binlog

import (
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	sourceA = "00000000-0000-0000-0000-00000000000a"
	sourceB = "00000000-0000-0000-0000-00000000000b"
)

func parse(t testing.TB, d Dialect, text string) GTIDSet {
	t.Helper()
	s, err := ParseSet(d, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSetsAsText(t *testing.T) {
	for _, c := range []struct {
		dialect    Dialect
		text, want string
	}{
		{MySQL, "", ""},
		{MySQL, sourceA + ":1-5", sourceA + ":1-5"},
		{MySQL, sourceA + ":7:1-3:4-5:9", sourceA + ":1-5:7:9"},
		{MySQL, strings.ToUpper(sourceB) + ":1,\n" + sourceA + ":3-4", sourceA + ":3-4," + sourceB + ":1"},
		{MySQL, sourceA + ":1-3:Blue:1-2:5:_x:9", sourceA + ":1-3:_x:9:blue:1-2:5"},
		{MySQL, sourceA + ":blue:1," + sourceA + ":2", sourceA + ":2:blue:1"},
		{MySQL, sourceA + ": 1 - 5 : 7", sourceA + ":1-5:7"},
		{MariaDB, "0-1-270", "0-1-270"},
		{MariaDB, "10-2-5,0-1-9", "0-1-9,10-2-5"},
		{MariaDB, "0-1-9,0-2-11,0-3-10", "0-2-11"},
	} {
		if got := parse(t, c.dialect, c.text).String(); got != c.want {
			t.Errorf("%q reads as %q, want %q", c.text, got, c.want)
		}
	}
	for _, bad := range []string{sourceA, sourceA + ":", sourceA + ":0", sourceA + ":5-3", "x:1", sourceA + ":blue", sourceA + ":blue:red:1", sourceA + ":1-2-3"} {
		if s, err := ParseSet(MySQL, bad); err == nil {
			t.Errorf("%q reads as %q, want an error", bad, s)
		}
	}
	for _, bad := range []string{"0-1", "a-1-1", "0-1-1-1", "-1-1-1", "99999999999-1-1"} {
		if s, err := ParseSet(MariaDB, bad); err == nil {
			t.Errorf("%q reads as %q, want an error", bad, s)
		}
	}
}

// TestSetAlgebra compares sets with plain sets of numbers, under random additions.
func TestSetAlgebra(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	id := parse(t, MySQL, sourceA+":1").sources[0].id
	make := func() (GTIDSet, [64]bool) {
		var s GTIDSet
		var plain [64]bool
		for range random.IntN(12) {
			first := 1 + random.IntN(60)
			last := first + random.IntN(min(4, 64-first))
			s.add(id, "", span{uint64(first), uint64(last)})
			for i := first; i <= last; i++ {
				plain[i] = true
			}
		}
		return s, plain
	}
	same := func(s GTIDSet, want func(i int) bool) bool {
		var got [64]bool
		for _, src := range s.sources {
			for i, sp := range src.spans {
				if i > 0 && src.spans[i-1].last+1 >= sp.first {
					return false // not apart
				}
				for n := sp.first; n <= sp.last; n++ {
					got[n] = true
				}
			}
		}
		for i := range got {
			if got[i] != want(i) {
				return false
			}
		}
		return true
	}
	for range 3000 {
		a, plainA := make()
		b, plainB := make()
		contains := true
		for i := range plainA {
			contains = contains && (plainA[i] || !plainB[i])
		}
		switch {
		case !same(a, func(i int) bool { return plainA[i] }):
			t.Fatalf("%s isn't what was added", a)
		case !same(a.Union(b), func(i int) bool { return plainA[i] || plainB[i] }):
			t.Fatalf("union of %s and %s is %s", a, b, a.Union(b))
		case !same(a.Subtract(b), func(i int) bool { return plainA[i] && !plainB[i] }):
			t.Fatalf("%s without %s is %s", a, b, a.Subtract(b))
		case a.Contains(b) != contains:
			t.Fatalf("%s contains %s: %v", a, b, !contains)
		}
		again, err := parsePreviousGTIDs(a.encode())
		if err != nil || !again.Equal(a) {
			t.Fatalf("%s comes back as %s, %v", a, again, err)
		}
	}
}

func TestTaggedSetsOnTheWire(t *testing.T) {
	s := parse(t, MySQL, sourceA+":1-3:blue:1-2:5,"+sourceB+":red:7")
	again, err := parsePreviousGTIDs(s.encode())
	if err != nil || again.String() != s.String() {
		t.Errorf("%s comes back as %s, %v", s, again, err)
	}
	if _, err := parsePreviousGTIDs(s.encode()[:50]); err == nil {
		t.Error("a set that is cut off reads without an error")
	}
}

func TestMariaDBSetsCompareByDomain(t *testing.T) {
	old := parse(t, MariaDB, "0-1-100,1-1-7")
	promoted := parse(t, MariaDB, "0-2-101,1-1-7")
	if !promoted.Contains(old) || old.Contains(promoted) {
		t.Error("after a failover the new server's number must not matter")
	}
	if got := promoted.Subtract(old).String(); got != "0-2-101" {
		t.Errorf("ahead by %s", got)
	}
	contains := SetContains(MariaDB)
	if !contains("0-2-101", "0-1-100") || contains("0-1-100", "0-2-101") || contains("junk", "0-1-1") {
		t.Error("SetContains differs")
	}
}

func TestResumeSet(t *testing.T) {
	stored := parse(t, MySQL, sourceA+":1-100")
	for _, c := range []struct {
		name, purged, want string
		keep               func(string) bool
	}{
		{"nothing purged", "", sourceA + ":1-100", nil},
		{"a source never seen is read from its oldest kept transaction", sourceB + ":1-50", sourceA + ":1-100," + sourceB + ":1-50", nil},
		{"of a known source nothing is added", sourceA + ":1-150", sourceA + ":1-100", nil},
		{"sources that don't count are left out", "", "", func(s string) bool { return s == sourceB }},
	} {
		if got := resumeSet(stored, parse(t, MySQL, c.purged), c.keep).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if stored.String() != sourceA+":1-100" {
		t.Error("the stored set was changed")
	}
}

func BenchmarkSetGrowsAndPrints(b *testing.B) {
	s := parse(b, MySQL, sourceA+":1-5:7-9,"+sourceB+":1-100")
	id := s.sources[1].id
	n := uint64(100)
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		n++
		s.add(id, "", span{n, n})
		text = s.Append(text[:0])
	}
}
