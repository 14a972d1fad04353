package worker

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// groupFrame is what a Java worker has sent: of "join" its metadata under one protocol, of "sync" the assignment that a
// leader gave to one member.
type groupFrame struct {
	Step     string `json:"step"`
	Kind     string `json:"kind"`
	Member   string `json:"member"`
	Protocol string `json:"protocol"`
	Bytes    string `json:"bytes"`
}

// groupFrames are the recorded ones.
func groupFrames(t *testing.T) (frames []groupFrame) {
	t.Helper()
	b, err := os.ReadFile("testdata/group.json")
	if err == nil {
		err = json.Unmarshal(b, &frames)
	}
	if err != nil || len(frames) < 20 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	return frames
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGroupBytes compares with bytes worked out by hand from the format.
func TestGroupBytes(t *testing.T) {
	const url = "http://w1:8083/"
	const urlBytes = "000f687474703a2f2f77313a383038332f"
	const offset = "0000000000000007"
	work := []connectorWork{{"c", []int32{connectorTask, 0}}}
	const workBytes = "00000001" + "000163" + "00000002" + "ffffffff" + "00000000"
	a := &assignment{version: wireSessioned, leader: "m", leaderURL: url, configOffset: 7, assigned: work}
	const aBytes = "0002" + "0000" + "00016d" + urlBytes + offset + workBytes + "ffffffff" + "00000000"
	for _, c := range []struct {
		state *memberState
		want  string
	}{
		{&memberState{version: wireEager, url: url, configOffset: 7}, "0000" + urlBytes + offset},
		{&memberState{version: wireCompatible, url: url, configOffset: 7}, "0001" + urlBytes + offset + "ffffffff"},
		{&memberState{version: wireSessioned, url: url, configOffset: 7}, "0002" + urlBytes + offset + "ffffffff"},
		{&memberState{version: wireSessioned, url: url, configOffset: 7, current: a}, "0002" + urlBytes + offset + "0000003b" + aBytes},
	} {
		if got := hex.EncodeToString(c.state.encode()); got != c.want {
			t.Errorf("metadata\n got %s\nwant %s", got, c.want)
		}
		if back, err := decodeMemberState(unhex(t, c.want)); err != nil || !reflect.DeepEqual(back, c.state) {
			t.Errorf("%s was read as %+v, %v", c.want, back, err)
		}
	}
	for _, c := range []struct {
		assignment *assignment
		want       string
	}{
		{a, aBytes},
		{&assignment{version: wireCompatible, err: errMismatch, leader: "m", leaderURL: url, configOffset: 7, revoked: work, delayMillis: 300000},
			"0001" + "0001" + "00016d" + urlBytes + offset + "ffffffff" + workBytes + "000493e0"},
		{&assignment{version: wireEager, leader: "m", leaderURL: url, configOffset: 7, assigned: []connectorWork{}},
			"0000" + "0000" + "00016d" + urlBytes + offset + "00000000"},
	} {
		if got := hex.EncodeToString(c.assignment.encode()); got != c.want {
			t.Errorf("assignment\n got %s\nwant %s", got, c.want)
		}
		if back, err := decodeAssignment(unhex(t, c.want)); err != nil || !reflect.DeepEqual(back, c.assignment) {
			t.Errorf("%s was read as %+v, %v", c.want, back, err)
		}
	}
	short := unhex(t, aBytes)
	for n := range short[:len(short)-8] { // after the assigned ones what is missing is its default
		if _, err := decodeAssignment(short[:n]); err == nil {
			t.Errorf("%d bytes were taken for an assignment", n)
		}
	}
}

// TestGroupFramesOfJava reads what Java's workers have sent, and writes the same bytes again.
func TestGroupFramesOfJava(t *testing.T) {
	kinds := map[string]int{}
	for _, f := range groupFrames(t) {
		b := unhex(t, f.Bytes)
		var again []byte
		switch f.Kind {
		case "join":
			s, err := decodeMemberState(b)
			if err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			if v, ok := groupVersion(f.Protocol); !ok || v != s.version {
				t.Errorf("%s has version %d", f.Protocol, s.version)
			}
			if s.current != nil {
				kinds["join with work"]++
			}
			again = s.encode()
		case "sync":
			a, err := decodeAssignment(b)
			if err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			if len(a.revoked) > 0 {
				kinds["sync that revokes"]++
			}
			if a.delayMillis > 0 {
				kinds["sync with a delay"]++
			}
			again = a.encode()
		}
		kinds[f.Kind]++
		if got := hex.EncodeToString(again); got != f.Bytes {
			t.Errorf("%s of %s\n got %s\nwant %s", f.Kind, f.Step, got, f.Bytes)
		}
	}
	for _, want := range []string{"join", "sync", "join with work", "sync that revokes", "sync with a delay"} {
		if kinds[want] == 0 {
			t.Errorf("no frame is a %s", want)
		}
	}
}

// FuzzGroupBytes: bytes of others are read or refused, and what was read is written as it can be read again.
func FuzzGroupBytes(f *testing.F) {
	a := &assignment{version: wireSessioned, leader: "m", leaderURL: "u", assigned: []connectorWork{{"c", []int32{-1, 3}}}}
	f.Add(a.encode())
	f.Add((&memberState{version: wireSessioned, url: "u", current: a}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeMemberState(b); err == nil {
			if back, err := decodeMemberState(s.encode()); err != nil || !reflect.DeepEqual(back, s) {
				t.Errorf("%+v became %+v, %v", s, back, err)
			}
		}
		if a, err := decodeAssignment(b); err == nil {
			if back, err := decodeAssignment(a.encode()); err != nil || !reflect.DeepEqual(back, a) {
				t.Errorf("%+v became %+v, %v", a, back, err)
			}
		}
	})
}
