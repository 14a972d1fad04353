package coord

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// State is where a group is in its life; its text is what DescribeGroups shows.
type State string

// The states of a group; doc.go draws how they follow each other.
const (
	Empty               State = "Empty"
	PreparingRebalance  State = "PreparingRebalance"
	CompletingRebalance State = "CompletingRebalance"
	Stable              State = "Stable"
	Dead                State = "Dead"
)

// maxProtocols bounds the protocols of one member; clients name fewer than ten.
const maxProtocols = 256

// group is one consumer group.
type group struct {
	id           string
	state        State
	since        time.Time // when the state began; expiry of an Empty group counts from it
	protocolType string    // "" until the first member joins
	generation   int32
	protocol     string // chosen by the members' votes; "" while there is none
	leader       string // member id
	members      []*member
	byID         map[string]*member
	byInstance   map[string]*member
	knowing      map[string]int    // how many members know a protocol
	joined       int               // members with a join that waits
	joining      map[string]*timer // ids given out by the first step of a join, not yet used
	fresh        bool              // a member was added while the initial delay ran

	rebalance *timer // ends PreparingRebalance
	syncing   *timer // ends CompletingRebalance
	assigning int32  // the generation whose assignment is on its way to the log; -1 = none

	stored  bool // a group record is in the log, or on its way
	storing int  // group records on their way

	offsets        map[partition]offset
	pendingOffsets map[partition]int // batches on their way, by partition
}

// partition is a key of committed offsets.
type partition struct {
	topic string
	index int32
}

// offset is what was committed for a partition.
type offset struct {
	next        int64 // the next offset to read
	leaderEpoch int32
	metadata    string
	committedMs int64
	expiresMs   int64 // -1 = by the group's retention
}

// member is one member of a group.
type member struct {
	id               string
	instance         *string // static members
	clientID         string
	clientHost       string
	session          time.Duration
	rebalanceTimeout time.Duration
	protocols        []kmsg.JoinGroupRequestProtocol
	assignment       []byte
	isNew            bool      // has not been in a generation yet
	seen             time.Time // last sign of life, or when we last answered it
	sessionTimer     *timer
	join, sync       *waiting // requests that wait for the group
	unsynced         bool     // has joined this generation and not asked for its assignment
}

// waiting is a request that is answered later.
type waiting struct {
	id      uint64
	version int16
}

func newGroup(id string, now time.Time) *group {
	return &group{
		id: id, state: Empty, since: now, assigning: -1,
		byID:           make(map[string]*member),
		byInstance:     make(map[string]*member),
		knowing:        make(map[string]int),
		joining:        make(map[string]*timer),
		offsets:        make(map[partition]offset),
		pendingOffsets: make(map[partition]int),
	}
}

func (g *group) become(s State, now time.Time) {
	g.state, g.since = s, now
}

func (g *group) member(id string) *member { return g.byID[id] }

// static returns the member with the group.instance.id.
func (g *group) static(instance *string) *member {
	if instance == nil {
		return nil
	}
	return g.byInstance[*instance]
}

// add takes a new member in; the maps and counts above are kept by add, remove, rename,
// setProtocols and setJoin alone.
func (g *group) add(m *member) {
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != nil {
		g.byInstance[*m.instance] = m
	}
	g.count(m, 1)
}

func (g *group) remove(m *member) {
	g.setJoin(m, nil)
	g.count(m, -1)
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	delete(g.byID, m.id)
	if m.instance != nil {
		delete(g.byInstance, *m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

func (g *group) rename(m *member, id string) {
	if g.leader == m.id {
		g.leader = id
	}
	delete(g.byID, m.id)
	m.id = id
	g.byID[id] = m
}

func (g *group) setProtocols(m *member, protocols []kmsg.JoinGroupRequestProtocol) {
	g.count(m, -1)
	m.protocols = protocols
	g.count(m, 1)
}

func (g *group) setJoin(m *member, w *waiting) {
	if m.join != nil {
		g.joined--
	}
	if w != nil {
		g.joined++
	}
	m.join = w
}

// count adds n for each protocol that the member knows, once however often it names it.
func (g *group) count(m *member, n int) {
	for i, p := range m.protocols {
		named := slices.ContainsFunc(m.protocols[:i], func(q kmsg.JoinGroupRequestProtocol) bool { return q.Name == p.Name })
		if named {
			continue
		}
		if g.knowing[p.Name] += n; g.knowing[p.Name] == 0 {
			delete(g.knowing, p.Name)
		}
	}
}

// current finds the member that a request names, or says why it is none.
func (g *group) current(id string, instance *string) (*member, int16) {
	if instance != nil {
		switch m := g.static(instance); {
		case m == nil:
			return nil, kerr.UnknownMemberID.Code
		case m.id != id:
			return nil, kerr.FencedInstanceID.Code
		default:
			return m, 0
		}
	}
	if m := g.member(id); m != nil {
		return m, 0
	}
	return nil, kerr.UnknownMemberID.Code
}

// admits reports whether a member with these protocols could be in the group: the same
// type, and a protocol that everybody else knows.
func (g *group) admits(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if protocolType == "" || len(protocols) == 0 || len(protocols) > maxProtocols {
		return false
	}
	if len(g.members) == 0 {
		return true
	}
	if protocolType != g.protocolType {
		return false
	}
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.allKnow(p.Name)
	})
}

func (g *group) allKnow(protocol string) bool { return g.knowing[protocol] == len(g.members) }

// vote returns the protocol that most members prefer among those that all of them know.
// Of equals the one that the earliest member prefers wins, so that it doesn't waver.
func (g *group) vote() string {
	votes := make(map[string]int)
	var order []string
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.allKnow(p.Name) {
				if votes[p.Name] == 0 {
					order = append(order, p.Name)
				}
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, name := range order {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// allJoined reports whether nobody is left to wait for.
func (g *group) allJoined() bool { return g.joined == len(g.members) && len(g.joining) == 0 }

// longestRebalance is how long the slowest member may take to join again.
func (g *group) longestRebalance() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// metadata is what the member sent with the protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// same reports whether the member joined with just these protocols.
func (m *member) same(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}
