package coord

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe returns the group as DescribeGroups of the given version shows it. A group that
// isn't there is Dead. It changes nothing.
func (c *Coordinator) Describe(group string, version int16) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.AuthorizedOperations = group, math.MinInt32
	out.ErrorCode = c.groupCode(c.status(), group)
	g := c.groups[group]
	switch {
	case out.ErrorCode != 0:
		return out
	case g == nil || g.state == Dead:
		out.State = string(Dead)
		if version >= 6 {
			out.ErrorCode = kerr.GroupIDNotFound.Code
			out.ErrorMessage = kmsg.StringPtr("group " + group + " not found")
		}
		return out
	}
	out.State, out.ProtocolType = string(g.state), g.protocolType
	if g.state == Stable {
		out.Protocol = g.protocol
	}
	for _, m := range g.members {
		om := kmsg.NewDescribeGroupsResponseGroupMember()
		om.MemberID, om.InstanceID, om.ClientID, om.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		if g.state == Stable {
			om.ProtocolMetadata, om.MemberAssignment = m.metadata(g.protocol), m.assignment
		}
		out.Members = append(out.Members, om)
	}
	return out
}

// List returns the groups whose state and type are among those asked for (none = all);
// case doesn't matter. It changes nothing.
func (c *Coordinator) List(states, types []string) ([]kmsg.ListGroupsResponseGroup, int16) {
	if code := c.status(); code != 0 {
		return nil, code
	}
	const classic = "classic"
	var out []kmsg.ListGroupsResponseGroup
	for _, g := range c.sortedGroups() {
		if !matches(states, string(g.state)) || !matches(types, classic) {
			continue
		}
		og := kmsg.NewListGroupsResponseGroup()
		og.Group, og.ProtocolType, og.GroupState, og.GroupType = g.id, g.protocolType, string(g.state), classic
		out = append(out, og)
	}
	return out, 0
}

func matches(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

// Delete deletes a group without members, with its offsets. The Answer with the given id
// carries a DeleteGroupsResponse of version 0 with this one group.
func (c *Coordinator) Delete(id uint64, group string, now time.Time) Effects {
	answer := func(code int16) {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		rg := kmsg.NewDeleteGroupsResponseGroup()
		rg.Group, rg.ErrorCode = group, code
		resp.Groups = append(resp.Groups, rg)
		c.answer(id, resp)
	}
	g := c.groups[group]
	switch code := c.status(); {
	case code != 0:
		answer(code)
	case g == nil || g.state == Dead:
		answer(kerr.GroupIDNotFound.Code)
	case g.state != Empty:
		answer(kerr.NonEmptyGroup.Code)
	default:
		c.deleteGroup(g, now, answer)
	}
	return c.effects()
}

// deleteGroup makes the group Dead and appends tombstones of all that is in the log or on
// its way there; when they are durable the group is gone, else it is Empty again.
func (c *Coordinator) deleteGroup(g *group, now time.Time, then func(code int16)) {
	for id, tm := range g.joining {
		c.timers.stop(tm)
		delete(g.joining, id)
	}
	since := g.since
	g.become(Dead, now)
	var records []Record
	for _, at := range g.knownPartitions() {
		records = append(records, offsetRecord(g.id, at, nil))
	}
	records = append(records, groupTombstone(g.id))
	c.append(records, func(code int16, _ time.Time) {
		if code != 0 {
			g.become(Empty, since)
		} else if c.groups[g.id] == g {
			delete(c.groups, g.id)
		}
		then(code)
	})
}
