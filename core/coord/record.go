package coord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrRecord marks a record of __consumer_offsets that can't be read.
var ErrRecord = errors.New("malformed record of __consumer_offsets")

// Keys (big endian; string = length i16 | bytes):
//
//	version i16 = 0, 1 | group string | topic string | partition i32     offset commit
//	version i16 = 2    | group string                                     group
//	version i16 > 2                                                       newer kinds, skipped
//
// Values (no value = tombstone); versions from 4 are flexible:
//
//	offset commit 0-4: version i16 | offset i64 | leaderEpoch i32 (3+) | metadata string |
//	                   commitTimestamp i64 | expireTimestamp i64 (1 only) | tags (4)
//	group 0-4:         version i16 | protocolType string | generation i32 | protocol nullable |
//	                   leader nullable | stateTimestamp i64 (2+) | members array | tags (4)
//	member:            id | instance nullable (3+) | clientId | clientHost | rebalanceTimeout i32 (1+) |
//	                   sessionTimeout i32 | subscription bytes | assignment bytes | tags (4)
//
// We write keys 1 and 2, offset commits 3 (1 if the client set an expiry), groups 3: what every
// Kafka since 2.3 reads.
const (
	offsetKeyVersion     = 1
	groupKeyVersion      = 2
	offsetValueVersion   = 3
	expiringValueVersion = 1
	groupValueVersion    = 3
	newestValueVersion   = 4
)

// offsetRecord is the record of a committed offset, or its tombstone.
func offsetRecord(group string, at partition, o *offset) Record {
	key := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: at.topic, Partition: at.index}
	r := Record{Key: key.AppendTo(nil)}
	if o == nil {
		return r
	}
	value := kmsg.NewOffsetCommitValue()
	value.Version = offsetValueVersion
	value.Offset, value.LeaderEpoch, value.Metadata, value.CommitTimestamp = o.next, o.leaderEpoch, o.metadata, o.committedMs
	if o.expiresMs >= 0 {
		value.Version, value.ExpireTimestamp = expiringValueVersion, o.expiresMs
	}
	r.Value = value.AppendTo(nil)
	return r
}

// groupRecord is the record of a group as it is, with the given assignments.
func groupRecord(g *group, assignments map[string][]byte, now time.Time) Record {
	value := kmsg.NewGroupMetadataValue()
	value.Version, value.ProtocolType, value.Generation = groupValueVersion, g.protocolType, g.generation
	value.CurrentStateTimestamp = now.UnixMilli()
	if len(g.members) > 0 {
		value.Protocol, value.Leader = kmsg.StringPtr(g.protocol), kmsg.StringPtr(g.leader)
	}
	for _, m := range g.members {
		vm := kmsg.NewGroupMetadataValueMember()
		vm.MemberID, vm.InstanceID, vm.ClientID, vm.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		vm.RebalanceTimeoutMillis = int32(m.rebalanceTimeout.Milliseconds())
		vm.SessionTimeoutMillis = int32(m.session.Milliseconds())
		vm.Subscription, vm.Assignment = m.metadata(g.protocol), assignments[m.id]
		value.Members = append(value.Members, vm)
	}
	r := groupTombstone(g.id)
	r.Value = value.AppendTo(nil)
	return r
}

func groupTombstone(group string) Record {
	key := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return Record{Key: key.AppendTo(nil)}
}

// Replay applies one record of the coordinator's partition, in the order of the log, before
// Loaded. Records of kinds that aren't ours (newer group types) are skipped. An error wraps
// ErrRecord and leaves the state as it was; the caller may go on with the next record.
func (c *Coordinator) Replay(key, value []byte) error {
	c.logged++
	if len(key) < 2 {
		return fmt.Errorf("%w: key of %d bytes", ErrRecord, len(key))
	}
	switch version := int16(binary.BigEndian.Uint16(key)); version {
	case 0, 1:
		return c.replayOffset(key, value)
	case 2:
		return c.replayGroup(key, value)
	default:
		return nil
	}
}

func (c *Coordinator) replayOffset(key, value []byte) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("%w: offset key: %w", ErrRecord, err)
	}
	at := partition{topic: k.Topic, index: k.Partition}
	if value == nil {
		if g := c.groups[k.Group]; g != nil {
			delete(g.offsets, at)
			c.dropIfUnused(g)
		}
		return nil
	}
	v := kmsg.NewOffsetCommitValue()
	if err := readValue(value, &v); err != nil {
		return fmt.Errorf("%w: offset of group %q: %w", ErrRecord, k.Group, err)
	}
	o := offset{next: v.Offset, leaderEpoch: -1, metadata: v.Metadata, committedMs: v.CommitTimestamp, expiresMs: -1}
	if v.Version >= 3 {
		o.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == 1 {
		o.expiresMs = v.ExpireTimestamp
	}
	c.groupOf(k.Group, time.UnixMilli(v.CommitTimestamp)).offsets[at] = o
	return nil
}

func (c *Coordinator) replayGroup(key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("%w: group key: %w", ErrRecord, err)
	}
	if value == nil {
		if g := c.groups[k.Group]; g != nil {
			fresh := newGroup(g.id, g.since)
			fresh.offsets = g.offsets
			c.groups[k.Group] = fresh
			c.dropIfUnused(fresh)
		}
		return nil
	}
	v := kmsg.NewGroupMetadataValue()
	if err := readValue(value, &v); err != nil {
		return fmt.Errorf("%w: group %q: %w", ErrRecord, k.Group, err)
	}
	since := time.UnixMilli(0)
	if v.Version >= 2 && v.CurrentStateTimestamp > 0 {
		since = time.UnixMilli(v.CurrentStateTimestamp)
	}
	g := newGroup(k.Group, since)
	if old := c.groups[k.Group]; old != nil {
		g.offsets = old.offsets
	}
	g.stored, g.protocolType, g.generation = true, v.ProtocolType, v.Generation
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	for i := range v.Members {
		if m := replayedMember(&v.Members[i], v.Version, g.protocol); g.byID[m.id] == nil && g.static(m.instance) == nil {
			g.add(m)
		}
	}
	if len(g.members) > 0 {
		g.state = Stable
	}
	c.groups[k.Group] = g
	return nil
}

func replayedMember(vm *kmsg.GroupMetadataValueMember, version int16, protocol string) *member {
	m := &member{
		id: vm.MemberID, instance: vm.InstanceID, clientID: vm.ClientID, clientHost: vm.ClientHost,
		session: millis(vm.SessionTimeoutMillis), rebalanceTimeout: millis(vm.RebalanceTimeoutMillis),
		assignment: append([]byte(nil), vm.Assignment...),
	}
	if version < 1 {
		m.rebalanceTimeout = m.session
	}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = protocol, append([]byte(nil), vm.Subscription...)
	m.protocols = append(m.protocols, p)
	return m
}

// readValue decodes a value whose first two bytes say its version.
func readValue(value []byte, into interface{ ReadFrom([]byte) error }) error {
	if len(value) < 2 {
		return fmt.Errorf("value of %d bytes", len(value))
	}
	if version := int16(binary.BigEndian.Uint16(value)); version < 0 || version > newestValueVersion {
		return fmt.Errorf("value of version %d, newest known is %d", version, newestValueVersion)
	}
	return into.ReadFrom(value)
}

func utf16Of(s string) []uint16 { return utf16.Encode([]rune(s)) }
