package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// The bytes that Kafka Connect's workers exchange through their group's coordinator. Big-endian; a string has an int16
// length before it, an array or nullable bytes an int32 one, -1 for null.
//
//	metadata    int16 version │ string url │ int64 configOffset │ (from version 1) nullable bytes current
//	assignment  int16 version │ int16 error │ string leader │ string leaderUrl │ int64 configOffset
//	            │ nullable array assigned │ nullable array revoked │ int32 delayMs      (of version 0: assigned, not null, is the last)
//	assigned, revoked: an array of string connector │ array of int32 task, where task -1 is the connector itself
//
// The version is that of the protocol under which they are sent: 0 eager ("default"), 1 "compatible", 2 "sessioned". current
// is an assignment with its own head. What is missing at the end is taken for its default; what follows is not looked at.

// groupProtocolType is what a group of Connect workers is, in the words of JoinGroup and DescribeGroups.
const groupProtocolType = "connect"

// Versions of the protocol by the names under which members offer them.
const (
	wireEager      = 0
	wireCompatible = 1
	wireSessioned  = 2
)

// groupProtocols are the protocols that a member can offer, the one that it likes best first.
func groupProtocols() []string { return []string{"sessioned", "compatible"} }

// groupVersion gives the version of a protocol, false for one that is none of Connect's.
func groupVersion(protocol string) (version int16, ok bool) {
	switch protocol {
	case "sessioned":
		return wireSessioned, true
	case "compatible":
		return wireCompatible, true
	case "default":
		return wireEager, true
	}
	return 0, false
}

// errMismatch is an assignment's error that says that the leader could not read what its members have read.
const errMismatch = 1

var errGroupWire = errors.New("not the bytes of a Connect worker")

// connectorWork is what of one connector is assigned: tasks by number, connectorTask for the connector itself.
type connectorWork struct {
	name  string
	tasks []int32
}

// connectorTask stands for a connector itself among its tasks.
const connectorTask = -1

// memberState is a member's metadata: where its REST is, how far it has read the config topic, what it has.
type memberState struct {
	version      int16
	url          string
	configOffset int64
	current      *assignment // nil: nothing
}

// assignment is what the leader gives one member.
type assignment struct {
	version      int16
	err          int16
	leader       string // its member id
	leaderURL    string
	configOffset int64
	assigned     []connectorWork // since version 1 what comes on top of what the member has
	revoked      []connectorWork
	delayMillis  int32 // after which members should join again
}

func (s *memberState) encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(s.version))
	b = appendGroupString(b, s.url)
	b = binary.BigEndian.AppendUint64(b, uint64(s.configOffset))
	switch {
	case s.version == wireEager:
		return b
	case s.current == nil:
		return appendGroupLength(b, -1)
	}
	current := s.current.encode()
	return append(appendGroupLength(b, len(current)), current...)
}

func (a *assignment) encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(a.version))
	b = binary.BigEndian.AppendUint16(b, uint16(a.err))
	b = appendGroupString(b, a.leader)
	b = appendGroupString(b, a.leaderURL)
	b = binary.BigEndian.AppendUint64(b, uint64(a.configOffset))
	b = appendWork(b, a.assigned, a.version != wireEager)
	if a.version == wireEager {
		return b
	}
	b = appendWork(b, a.revoked, true)
	return binary.BigEndian.AppendUint32(b, uint32(a.delayMillis))
}

// appendWork writes nil as null where that is allowed.
func appendWork(b []byte, work []connectorWork, nullable bool) []byte {
	if work == nil && nullable {
		return appendGroupLength(b, -1)
	}
	b = appendGroupLength(b, len(work))
	for _, w := range work {
		b = appendGroupString(b, w.name)
		b = appendGroupLength(b, len(w.tasks))
		for _, t := range w.tasks {
			b = binary.BigEndian.AppendUint32(b, uint32(t))
		}
	}
	return b
}

func appendGroupLength(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(int32(n)))
}

func appendGroupString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func decodeMemberState(b []byte) (*memberState, error) {
	r := groupReader{b: b}
	s := &memberState{version: r.int16(), url: r.string(), configOffset: r.int64()}
	if current := []byte(nil); s.version != wireEager && len(r.b) > 0 {
		if n := r.length(1); n >= 0 {
			current = r.take(n)
		}
		if r.err == nil && len(current) > 0 {
			var err error
			if s.current, err = decodeAssignment(current); err != nil {
				return nil, err
			}
		}
	}
	if r.err != nil || s.version < 0 {
		return nil, fmt.Errorf("read a member's metadata: %w", errGroupWire)
	}
	return s, nil
}

func decodeAssignment(b []byte) (*assignment, error) {
	r := groupReader{b: b}
	a := &assignment{version: r.int16(), err: r.int16(), leader: r.string(), leaderURL: r.string(), configOffset: r.int64(), assigned: r.work()}
	if a.version != wireEager && len(r.b) > 0 {
		a.revoked = r.work()
	}
	if a.version != wireEager && len(r.b) > 0 {
		a.delayMillis = r.int32()
	}
	if r.err != nil || a.version < 0 {
		return nil, fmt.Errorf("read an assignment: %w", errGroupWire)
	}
	return a, nil
}

// groupReader reads the bytes; after the first fault it gives zeros.
type groupReader struct {
	b   []byte
	err error
}

func (r *groupReader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errGroupWire
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *groupReader) number(size int) (n uint64) {
	for _, c := range r.take(size) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (r *groupReader) int16() int16 { return int16(r.number(2)) }
func (r *groupReader) int32() int32 { return int32(r.number(4)) }
func (r *groupReader) int64() int64 { return int64(r.number(8)) }

func (r *groupReader) string() string { return string(r.take(int(r.int16()))) }

// length reads how many items of at least so many bytes follow, -1 for null; more than there can be is a fault.
func (r *groupReader) length(itemBytes int) int {
	n := int(r.int32())
	if n < -1 || n*itemBytes > len(r.b) {
		r.err = errGroupWire
	}
	if r.err != nil {
		return -1
	}
	return n
}

func (r *groupReader) work() []connectorWork {
	n := r.length(6)
	if n < 0 {
		return nil
	}
	out := make([]connectorWork, n)
	for i := range out {
		out[i].name = r.string()
		out[i].tasks = make([]int32, max(r.length(4), 0))
		for j := range out[i].tasks {
			out[i].tasks[j] = r.int32()
		}
	}
	return out
}

// workSet is a set of connectors themselves (task -1) and tasks.
type workSet map[TaskID]bool

// setOf gives what lists of the wire hold.
func setOf(lists ...[]connectorWork) workSet {
	s := workSet{}
	for _, list := range lists {
		for _, w := range list {
			for _, t := range w.tasks {
				s[TaskID{w.name, int(t)}] = true
			}
		}
	}
	return s
}

// sorted lists a set by name and number.
func (s workSet) sorted() []TaskID {
	ids := make([]TaskID, 0, len(s))
	for id := range s {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i].before(ids[j]) })
	return ids
}

func (id TaskID) before(other TaskID) bool {
	if id.Connector != other.Connector {
		return id.Connector < other.Connector
	}
	return id.Task < other.Task
}

// wire gives a set as the wire has it, never nil.
func (s workSet) wire() []connectorWork {
	out := []connectorWork{}
	for _, id := range s.sorted() {
		if n := len(out); n == 0 || out[n-1].name != id.Connector {
			out = append(out, connectorWork{name: id.Connector})
		}
		last := &out[len(out)-1]
		last.tasks = append(last.tasks, int32(id.Task))
	}
	return out
}
