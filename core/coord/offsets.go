package coord

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *Coordinator) handleCommit(req Request, body *kmsg.OffsetCommitRequest, code int16, now time.Time) {
	if code == 0 {
		code = c.checkCommit(body, now)
	}
	resp := commitResponse(body)
	if code != 0 {
		setCommitCodes(resp, code)
		c.answer(req.ID, resp)
		return
	}
	g := c.groupOf(body.Group, now)
	commits, records := c.commits(g, body, resp, now)
	if len(records) == 0 {
		c.answer(req.ID, resp)
		c.dropIfUnused(g)
		return
	}
	for _, cm := range commits {
		g.pendingOffsets[cm.at]++
	}
	c.append(records, func(code int16, _ time.Time) {
		for _, cm := range commits {
			g.donePending(cm.at)
			if code == kerr.MessageTooLarge.Code {
				cm.answer.ErrorCode = kerr.InvalidCommitOffsetSize.Code
			} else if code != 0 {
				cm.answer.ErrorCode = code
			} else {
				g.offsets[cm.at] = cm.offset
			}
		}
		c.answer(req.ID, resp)
		c.dropIfUnused(g)
	})
}

// checkCommit decides whether the committer may: a member of the current generation, or
// (generation below zero) anybody while the group has no members.
func (c *Coordinator) checkCommit(body *kmsg.OffsetCommitRequest, now time.Time) int16 {
	g := c.groups[body.Group]
	if g == nil {
		if body.Generation >= 0 {
			return kerr.IllegalGeneration.Code
		}
		return 0
	}
	if g.state == Dead {
		return kerr.CoordinatorNotAvailable.Code
	}
	if body.Generation < 0 && g.state == Empty {
		return 0
	}
	m, code := g.current(body.MemberID, body.InstanceID)
	if code != 0 {
		return code
	}
	if body.Generation != g.generation {
		return kerr.IllegalGeneration.Code
	}
	if g.state == CompletingRebalance {
		return kerr.RebalanceInProgress.Code
	}
	m.seen = now
	return 0
}

// commit is one partition of an OffsetCommit under way.
type commit struct {
	at     partition
	offset offset
	answer *kmsg.OffsetCommitResponseTopicPartition
}

// commits makes the records of what can be committed and marks in resp what can't.
func (c *Coordinator) commits(g *group, body *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, now time.Time) ([]commit, []Record) {
	var commits []commit
	var records []Record
	for i, t := range body.Topics {
		for j, p := range t.Partitions {
			answer := &resp.Topics[i].Partitions[j]
			o := offset{next: p.Offset, leaderEpoch: p.LeaderEpoch, committedMs: now.UnixMilli(), expiresMs: -1}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			if len(o.metadata) > c.cfg.MaxMetadataBytes {
				answer.ErrorCode = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			if body.Version < 6 {
				o.leaderEpoch = -1
			}
			if body.Version >= 2 && body.Version <= 4 && body.RetentionTimeMillis >= 0 {
				o.expiresMs = o.committedMs + body.RetentionTimeMillis
			}
			at := partition{topic: t.Topic, index: p.Partition}
			commits = append(commits, commit{at: at, offset: o, answer: answer})
			records = append(records, offsetRecord(g.id, at, &o))
		}
	}
	return commits, records
}

func (g *group) donePending(at partition) {
	if g.pendingOffsets[at]--; g.pendingOffsets[at] <= 0 {
		delete(g.pendingOffsets, at)
	}
}

func commitResponse(body *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = body.Version
	for _, t := range body.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func setCommitCodes(resp *kmsg.OffsetCommitResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			resp.Topics[i].Partitions[j].ErrorCode = code
		}
	}
}

// Committed is one committed offset, as FetchOffsets gives it.
type Committed struct {
	Topic       string
	Partition   int32
	Next        int64 // the next offset to read; -1 = nothing committed
	LeaderEpoch int32 // -1 = unknown
	Metadata    string
}

// Offset returns what the group has durably committed for a partition; without a commit
// Next is -1. code is not 0 while loading or after Close. It changes nothing.
func (c *Coordinator) Offset(group, topic string, index int32) (o Committed, code int16) {
	none := Committed{Topic: topic, Partition: index, Next: -1, LeaderEpoch: -1}
	if code := c.status(); code != 0 {
		return none, code
	}
	g := c.groups[group]
	if g == nil {
		return none, 0
	}
	at := partition{topic: topic, index: index}
	if o, ok := g.offsets[at]; ok {
		return o.committed(at), 0
	}
	return none, 0
}

// Offsets returns everything the group has durably committed, by topic and partition.
func (c *Coordinator) Offsets(group string) ([]Committed, int16) {
	if code := c.status(); code != 0 {
		return nil, code
	}
	g := c.groups[group]
	if g == nil {
		return nil, 0
	}
	all := make([]Committed, 0, len(g.offsets))
	for _, at := range g.sortedOffsets() {
		all = append(all, g.offsets[at].committed(at))
	}
	return all, 0
}

func (o offset) committed(at partition) Committed {
	return Committed{Topic: at.topic, Partition: at.index, Next: o.next, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata}
}

// sortedOffsets lists the partitions with an offset, on its way or there.
func (g *group) sortedOffsets() []partition {
	all := make([]partition, 0, len(g.offsets))
	for at := range g.offsets {
		all = append(all, at)
	}
	sortPartitions(all)
	return all
}

func sortPartitions(all []partition) {
	slices.SortFunc(all, func(a, b partition) int {
		if d := strings.Compare(a.topic, b.topic); d != 0 {
			return d
		}
		return int(a.index) - int(b.index)
	})
}

// TopicDeleted forgets all offsets of a topic that is gone.
func (c *Coordinator) TopicDeleted(topic string, now time.Time) Effects {
	if c.status() != 0 {
		return c.effects()
	}
	for _, g := range c.sortedGroups() {
		var gone []partition
		for _, at := range g.knownPartitions() {
			if at.topic == topic {
				gone = append(gone, at)
			}
		}
		if len(gone) > 0 && g.state != Dead {
			c.forget(g, gone, func(int16, time.Time) {})
		}
	}
	return c.effects()
}

// Topics is every topic of which a group has an offset, by name. It changes nothing.
func (c *Coordinator) Topics() []string {
	seen := make(map[string]struct{})
	for _, g := range c.groups {
		for at := range g.offsets {
			seen[at.topic] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// knownPartitions lists the partitions with an offset in the log or on its way there.
func (g *group) knownPartitions() []partition {
	all := g.sortedOffsets()
	for at := range g.pendingOffsets {
		if _, ok := g.offsets[at]; !ok {
			all = append(all, at)
		}
	}
	sortPartitions(all)
	return all
}

// forget appends tombstones for offsets and, when they are durable, drops them.
func (c *Coordinator) forget(g *group, gone []partition, then func(code int16, now time.Time)) {
	records := make([]Record, 0, len(gone))
	for _, at := range gone {
		g.pendingOffsets[at]++
		records = append(records, offsetRecord(g.id, at, nil))
	}
	c.append(records, func(code int16, now time.Time) {
		for _, at := range gone {
			g.donePending(at)
			if code == 0 {
				delete(g.offsets, at)
			}
		}
		then(code, now)
		c.dropIfUnused(g)
	})
}

func (c *Coordinator) handleOffsetDelete(req Request, body *kmsg.OffsetDeleteRequest, code int16, now time.Time) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version, resp.ErrorCode = body.Version, code
	g := c.groups[body.Group]
	if code == 0 {
		resp.ErrorCode = checkOffsetDelete(g)
	}
	if resp.ErrorCode != 0 {
		c.answer(req.ID, resp)
		return
	}
	subscribed := g.subscriptions()
	var gone []partition
	for _, t := range body.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			if subscribed[t.Topic] {
				rp.ErrorCode = kerr.GroupSubscribedToTopic.Code
			} else {
				gone = append(gone, partition{topic: t.Topic, index: p.Partition})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(gone) == 0 {
		c.answer(req.ID, resp)
		return
	}
	c.forget(g, gone, func(code int16, _ time.Time) {
		resp.ErrorCode = code
		c.answer(req.ID, resp)
	})
}

func checkOffsetDelete(g *group) int16 {
	switch {
	case g == nil || g.state == Dead:
		return kerr.GroupIDNotFound.Code
	case g.state != Empty && g.protocolType != "consumer":
		return kerr.NonEmptyGroup.Code
	}
	return 0
}

// subscriptions are the topics that the members of a "consumer" group read. A member whose
// metadata can't be read is ignored, as it can't be asked.
func (g *group) subscriptions() map[string]bool {
	topics := make(map[string]bool)
	for _, m := range g.members {
		for _, p := range m.protocols {
			var meta kmsg.ConsumerMemberMetadata
			if meta.ReadFrom(p.Metadata) != nil {
				continue
			}
			for _, t := range meta.Topics {
				topics[t] = true
			}
		}
	}
	return topics
}

// expireOffsets forgets offsets that nobody has used for the retention time, and groups
// that have none left.
func (c *Coordinator) expireOffsets(now time.Time) {
	c.timers.at(now.Add(c.cfg.RetentionCheck), c.expireOffsets)
	for _, g := range c.sortedGroups() {
		if g.state != Empty || len(g.pendingOffsets) > 0 || g.storing > 0 || len(g.joining) > 0 {
			continue
		}
		if c.cfg.Keep != nil && c.cfg.Keep(g.id) {
			continue
		}
		var gone []partition
		for _, at := range g.sortedOffsets() {
			if o := g.offsets[at]; c.expired(g, o, now) {
				gone = append(gone, at)
			}
		}
		switch {
		case len(gone) == len(g.offsets) && c.idle(g, now):
			c.deleteGroup(g, now, func(int16) {})
		case len(gone) > 0:
			c.forget(g, gone, func(int16, time.Time) {})
		}
	}
}

// expired counts from the time the group became Empty, or from the commit where there
// never were members; an old client's own retention counts from its commit.
func (c *Coordinator) expired(g *group, o offset, now time.Time) bool {
	if o.expiresMs >= 0 {
		return now.UnixMilli() >= o.expiresMs
	}
	if c.cfg.OffsetRetention <= 0 {
		return false
	}
	from := time.UnixMilli(o.committedMs)
	if g.protocolType != "" && g.since.After(from) {
		from = g.since
	}
	return !now.Before(from.Add(c.cfg.OffsetRetention))
}

// idle reports whether a group without offsets may go: it has been Empty for the retention
// time, so that its generation isn't forgotten while somebody may come back.
func (c *Coordinator) idle(g *group, now time.Time) bool {
	return c.cfg.OffsetRetention > 0 && !now.Before(g.since.Add(c.cfg.OffsetRetention))
}
