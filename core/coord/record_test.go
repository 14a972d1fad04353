package coord

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// raw builds bytes by hand, so that the formats are checked against their drawing and not
// against the codec that writes them.
type raw []byte

func (r raw) i16(v int16) raw { return binary.BigEndian.AppendUint16(r, uint16(v)) }
func (r raw) i32(v int32) raw { return binary.BigEndian.AppendUint32(r, uint32(v)) }
func (r raw) i64(v int64) raw { return binary.BigEndian.AppendUint64(r, uint64(v)) }
func (r raw) str(s string) raw {
	return append(r.i16(int16(len(s))), s...)
}
func (r raw) bytes(s string) raw {
	return append(r.i32(int32(len(s))), s...)
}

func TestRecordBytes(t *testing.T) {
	instance := "i1"
	g := newGroup("grp", time.UnixMilli(0))
	g.protocolType, g.protocol, g.leader, g.generation = "consumer", "range", "m1", 7
	g.members = []*member{{
		id: "m1", instance: &instance, clientID: "c", clientHost: "/h", session: 10 * time.Second, rebalanceTimeout: time.Minute,
		protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("sub")}},
	}}
	at := partition{topic: "t", index: 5}
	group := groupRecord(g, map[string][]byte{"m1": []byte("asg")}, time.UnixMilli(99))
	commit := offsetRecord("grp", at, &offset{next: 42, leaderEpoch: 3, metadata: "md", committedMs: 77, expiresMs: -1})
	expiring := offsetRecord("grp", at, &offset{next: 42, leaderEpoch: 3, metadata: "md", committedMs: 77, expiresMs: 88})
	empty := newGroup("e", time.UnixMilli(0))
	empty.protocolType, empty.generation = "connect", 2
	for _, c := range []struct {
		name      string
		got, want []byte
	}{
		{"offset key", commit.Key, raw(nil).i16(1).str("grp").str("t").i32(5)},
		{"offset value", commit.Value, raw(nil).i16(3).i64(42).i32(3).str("md").i64(77)},
		{"expiring offset value", expiring.Value, raw(nil).i16(1).i64(42).str("md").i64(77).i64(88)},
		{"group key", group.Key, raw(nil).i16(2).str("grp")},
		{"group value", group.Value, raw(nil).i16(3).str("consumer").i32(7).str("range").str("m1").i64(99).
			i32(1).str("m1").str("i1").str("c").str("/h").i32(60000).i32(10000).bytes("sub").bytes("asg")},
		{"empty group value", groupRecord(empty, nil, time.UnixMilli(5)).Value,
			raw(nil).i16(3).str("connect").i32(2).i16(-1).i16(-1).i64(5).i32(0)},
		{"tombstones", append(offsetRecord("grp", at, nil).Value, groupTombstone("grp").Value...), nil},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s\n got %x\nwant %x", c.name, c.got, c.want)
		}
	}
}

// TestReplayVersions reads every version that Kafka has written.
func TestReplayVersions(t *testing.T) {
	offsetKey := func(v int16) raw { return raw(nil).i16(v).str("g").str("t").i32(1) }
	tags := raw{0}
	for _, c := range []struct {
		name       string
		key, value raw
		epoch      int32
		expires    int64
	}{
		{"0", offsetKey(0), raw(nil).i16(0).i64(9).str("m").i64(5), -1, -1},
		{"1", offsetKey(1), raw(nil).i16(1).i64(9).str("m").i64(5).i64(6), -1, 6},
		{"2", offsetKey(1), raw(nil).i16(2).i64(9).str("m").i64(5), -1, -1},
		{"3", offsetKey(1), raw(nil).i16(3).i64(9).i32(4).str("m").i64(5), 4, -1},
		{"4", offsetKey(1), append(append(raw(nil).i16(4).i64(9).i32(4), 2, 'm').i64(5), tags...), 4, -1},
	} {
		co := New(Config{})
		if err := co.Replay(c.key, c.value); err != nil {
			t.Errorf("version %s: %v", c.name, err)
			continue
		}
		want := offset{next: 9, leaderEpoch: c.epoch, metadata: "m", committedMs: 5, expiresMs: c.expires}
		if got := co.groups["g"].offsets[partition{"t", 1}]; got != want {
			t.Errorf("version %s: got %+v, want %+v", c.name, got, want)
		}
	}
	member0 := raw(nil).str("m").str("c").str("h").i32(6000).bytes("s").bytes("a")
	value0 := append(raw(nil).i16(0).str("consumer").i32(3).str("range").str("m").i32(1), member0...)
	co := New(Config{})
	if err := co.Replay(raw(nil).i16(2).str("g"), value0); err != nil {
		t.Fatal(err)
	}
	if m := co.groups["g"].members[0]; m.rebalanceTimeout != 6*time.Second || string(m.assignment) != "a" || co.groups["g"].generation != 3 {
		t.Errorf("group of version 0: %+v", m)
	}
}

func TestReplayRefusesDamage(t *testing.T) {
	key := raw(nil).i16(1).str("g").str("t").i32(1)
	for name, kv := range map[string][2][]byte{
		"no key":           {nil, nil},
		"short key":        {{0}, nil},
		"cut key":          {key[:6], nil},
		"empty value":      {key, {}},
		"cut value":        {key, raw(nil).i16(3).i64(9)},
		"unknown version":  {key, raw(nil).i16(9).i64(9).i32(4).str("m").i64(5)},
		"negative version": {key, raw(nil).i16(-1).i64(9).i32(4).str("m").i64(5)},
		"huge array":       {raw(nil).i16(2).str("g"), raw(nil).i16(3).str("c").i32(1).i16(-1).i16(-1).i64(0).i32(1 << 30)},
	} {
		c := New(Config{})
		if err := c.Replay(kv[0], kv[1]); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: got %v", name, err)
		}
		if len(c.groups) != 0 {
			t.Errorf("%s: left %d groups", name, len(c.groups))
		}
	}
	if err := New(Config{}).Replay(raw(nil).i16(3).str("newer"), raw(nil).i16(0)); err != nil {
		t.Errorf("a newer kind of record must be skipped: %v", err)
	}
}

// TestPartition compares with String.hashCode, whose extreme is Integer.MIN_VALUE.
func TestPartition(t *testing.T) {
	for group, want := range map[string]int32{
		"": 0, "hello": 99162322 % 50, "polygenelubricants": 0, "connect-sink": javaHash("connect-sink") % 50, "é😀": 1996812 % 50,
	} {
		if got := Partition(group, 50); got != want {
			t.Errorf("%q: got %d, want %d", group, got, want)
		}
	}
}

// javaHash is the definition, s[0]*31^(n-1) + … + s[n-1], summed from the end.
func javaHash(s string) int32 {
	var sum, power int32 = 0, 1
	for i := len(s) - 1; i >= 0; i-- {
		sum += int32(s[i]) * power
		power *= 31
	}
	if sum < 0 {
		return -sum
	}
	return sum
}

func FuzzReplay(f *testing.F) {
	at := partition{topic: "t", index: 5}
	r := offsetRecord("g", at, &offset{next: 1, expiresMs: -1})
	f.Add(r.Key, r.Value)
	g := newGroup("g", time.UnixMilli(0))
	g.members = []*member{{id: "m", protocols: []kmsg.JoinGroupRequestProtocol{{Name: "p"}}}}
	r = groupRecord(g, nil, time.UnixMilli(1))
	f.Add(r.Key, r.Value)
	f.Add(r.Key, []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c := New(Config{OffsetRetention: time.Hour})
		_ = c.Replay(key, value)
		now := time.UnixMilli(1e12)
		c.Loaded(now)
		eff := c.Tick(now.Add(time.Hour))
		for _, b := range eff.Batches {
			for _, r := range b.Records {
				if err := New(Config{}).Replay(r.Key, r.Value); err != nil {
					t.Fatalf("wrote a record that can't be read: %v", err)
				}
			}
			c.Appended(b.ID, 0, now)
		}
		groups, _ := c.List(nil, nil)
		for _, g := range groups {
			c.Describe(g.Group, 6)
			c.Offsets(g.Group)
		}
		c.Close(16)
	})
}
