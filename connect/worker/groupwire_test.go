package worker

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
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

// TestMemberSpeaksJavas: where a worker of ours stands as Java's did, it sends the same bytes. Java lists what was assigned first
// first, so frames with several connectors may differ in their order and are left out.
func TestMemberSpeaksJavas(t *testing.T) {
	compared := 0
	for _, f := range groupFrames(t) {
		if f.Kind != "join" || f.Protocol == "default" {
			continue
		}
		s, err := decodeMemberState(unhex(t, f.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		m := newMember(memberConfig{group: "g", url: s.url, protocols: groupProtocols()}, 0)
		m.configured(s.configOffset, s.configOffset, nil)
		if m.current = s.current; s.current != nil {
			if m.owned = setOf(s.current.assigned); !reflect.DeepEqual(m.owned.wire(), s.current.assigned) {
				continue
			}
		}
		req, ok := m.joinRequest().(*kmsg.JoinGroupRequest)
		if !ok || req.ProtocolType != groupProtocolType {
			t.Fatalf("%+v", req)
		}
		for _, p := range req.Protocols {
			if p.Name == f.Protocol {
				compared++
				if got := hex.EncodeToString(p.Metadata); got != f.Bytes {
					t.Errorf("%s, %s\n got %s\nwant %s", f.Step, p.Name, got, f.Bytes)
				}
			}
		}
	}
	if compared < 30 {
		t.Errorf("only %d joins were compared", compared)
	}
}

// TestLeaderSpeaksJavas: a leader of ours that is alone assigns with the bytes of Java's.
func TestLeaderSpeaksJavas(t *testing.T) {
	var join groupFrame
	compared := 0
	for _, f := range groupFrames(t) {
		if f.Protocol != "sessioned" || f.Step != "one worker" && f.Step != "a connector with five tasks" {
			continue
		}
		if f.Kind == "join" {
			join = f
			continue
		}
		state, err := decodeMemberState(unhex(t, join.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		given, err := decodeAssignment(unhex(t, f.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		work := setOf(given.assigned)
		if state.current != nil {
			maps.Copy(work, setOf(state.current.assigned))
		}
		m := newMember(memberConfig{group: "g", url: state.url, protocols: groupProtocols(), sync: time.Second}, 0)
		m.memberID, m.version = f.Member, wireSessioned
		m.configured(state.configOffset, state.configOffset, work)
		resp := kmsg.NewPtrJoinGroupResponse()
		jm := kmsg.NewJoinGroupResponseMember()
		jm.MemberID, jm.ProtocolMetadata = f.Member, unhex(t, join.Bytes)
		resp.Members = append(resp.Members, jm)
		now := time.Unix(1e9, 0)
		m.lead(now, resp)
		m.decide(now)
		req, ok := m.syncRequest().(*kmsg.SyncGroupRequest)
		if !ok || len(req.GroupAssignment) != 1 {
			t.Fatalf("%+v", req)
		}
		compared++
		if got := hex.EncodeToString(req.GroupAssignment[0].MemberAssignment); got != f.Bytes {
			t.Errorf("%s\n got %s\nwant %s", f.Step, got, f.Bytes)
		}
	}
	if compared != 3 {
		t.Errorf("%d assignments were compared, want 3", compared)
	}
}

// TestLeaderThatIsBehind: a leader that has not read what a member has read waits for it, and then says so to all.
func TestLeaderThatIsBehind(t *testing.T) {
	now := time.Unix(1e9, 0)
	start := func() *member {
		m := newMember(memberConfig{group: "g", url: "u", protocols: groupProtocols(), sync: 3 * time.Second}, 0)
		m.memberID, m.version = "me", wireSessioned
		m.configured(5, 5, workSet{{"c", connectorTask}: true})
		resp := kmsg.NewPtrJoinGroupResponse()
		for id, offset := range map[string]int64{"me": 5, "other": 9} {
			jm := kmsg.NewJoinGroupResponseMember()
			jm.MemberID, jm.ProtocolMetadata = id, (&memberState{version: wireSessioned, url: id, configOffset: offset}).encode()
			resp.Members = append(resp.Members, jm)
		}
		m.lead(now, resp)
		return &m
	}
	m := start()
	if m.decide(now.Add(2 * time.Second)); m.phase != memberLeading {
		t.Fatal("it did not wait")
	}
	m.configured(10, 10, workSet{{"c", connectorTask}: true, {"d", connectorTask}: true})
	if m.decide(now.Add(2 * time.Second)); m.phase != memberSyncing || m.gives[0].configOffset != 10 || len(m.owners) != 2 {
		t.Errorf("when it has caught up it gives %+v", m.gives[0])
	}
	m = start()
	m.decide(now.Add(3 * time.Second))
	for _, a := range m.gives {
		if a.err != errMismatch || a.configOffset != 9 || len(a.assigned)+len(a.revoked) > 0 {
			t.Errorf("when it can't catch up it gives %+v", a)
		}
	}
	beside := start()
	beside.joined = append(beside.joined, joinedMember{id: "strange", strange: true})
	beside.configured(9, 9, workSet{{"c", connectorTask}: true, {"c", 0}: true, {"c", 1}: true})
	beside.decide(now)
	for i, want := range []int{2, 1, 0} { // a connector and a task, a task
		if n := len(setOf(beside.gives[i].assigned)); n != want {
			t.Errorf("%s gets %d, want %d", beside.joined[i].id, n, want)
		}
	}
	other := newMember(memberConfig{session: time.Minute, rebalance: time.Minute, heartbeat: time.Second, sync: time.Second}, 0)
	other.owned = workSet{{"c", 0}: true}
	other.joinRequest()
	other.configured(9, 9, nil)
	other.take(now, now, m.gives[0])
	if !other.owned[TaskID{"c", 0}] || !other.joinsAgain(now) {
		t.Error("a member that is told so does not keep what it has and join again")
	}
}

// FuzzGroupBytes: bytes of others are read or refused, and what was read is written as it can be read again.
func FuzzGroupBytes(f *testing.F) {
	a := &assignment{version: wireSessioned, leader: "m", leaderURL: "u", assigned: []connectorWork{{"c", []int32{-1, 3}}}}
	f.Add(a.encode())
	f.Add((&memberState{version: wireSessioned, url: "u", current: a}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeMemberState(b); err == nil {
			if back, err := decodeMemberState(s.encode()); err != nil || !bytes.Equal(back.encode(), s.encode()) {
				t.Errorf("%+v became %+v, %v", s, back, err)
			}
		}
		if a, err := decodeAssignment(b); err == nil {
			if back, err := decodeAssignment(a.encode()); err != nil || !bytes.Equal(back.encode(), a.encode()) {
				t.Errorf("%+v became %+v, %v", a, back, err)
			}
		}
	})
}
