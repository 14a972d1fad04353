package kafka

import (
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func (b *builder) autoOffsetReset(name, value string) {
	var at kgo.Offset
	switch {
	case value == "":
		return
	case strings.EqualFold(value, "earliest"):
		at = kgo.NewOffset().AtStart()
	case strings.EqualFold(value, "latest"):
		at = kgo.NewOffset().AtEnd()
	case strings.EqualFold(value, "none"):
		b.add(kgo.ConsumeStartOffset(kgo.NewOffset().AtCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
		return
	case strings.HasPrefix(strings.ToLower(value), "by_duration:"):
		d, err := isoDuration(value[len("by_duration:"):])
		if err != nil {
			b.fault(name, "%w", err)
			return
		}
		at = kgo.LookbackOffset(d)
	default:
		b.fault(name, "%q is none of earliest, latest, none and by_duration:PnDTnHnMnS", value)
		return
	}
	b.add(kgo.ConsumeStartOffset(at), kgo.ConsumeResetOffset(at))
}

func (b *builder) isolationLevel(name, value string) {
	switch strings.ToLower(value) {
	case "":
	case "read_uncommitted":
		b.add(kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	case "read_committed":
		b.add(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	default:
		b.fault(name, "%q is neither read_committed nor read_uncommitted", value)
	}
}

func (b *builder) fetchMinBytes(name, value string) {
	if n, ok := b.integer(name, value, 0, math.MaxInt32); ok {
		b.add(kgo.FetchMinBytes(int32(n)))
	}
}

func (b *builder) fetchMaxBytes(name, value string) {
	n, ok := b.integer(name, value, 0, math.MaxInt32)
	if !ok {
		return
	}
	size := int32(min(max(n, 1), 1<<30))
	b.add(kgo.FetchMaxBytes(size))
	if size > 100<<20 {
		b.add(kgo.BrokerMaxReadBytes(size))
	}
}

func (b *builder) fetchMaxWait(name, value string) {
	if d, ok := b.millis(name, value, 10*time.Millisecond, math.MaxInt32*time.Millisecond); ok {
		b.add(kgo.FetchMaxWait(d))
	}
}

func (b *builder) maxPartitionFetchBytes(name, value string) {
	if n, ok := b.integer(name, value, 0, math.MaxInt32); ok {
		b.add(kgo.FetchMaxPartitionBytes(int32(max(n, 1))))
	}
}

func (b *builder) checkCRCs(name, value string) {
	if on, ok := b.boolean(name, value, true); ok && !on {
		b.add(kgo.DisableFetchCRCValidation())
	}
}

func (b *builder) rack(_, value string) {
	if value != "" && b.role == Consumer {
		b.add(kgo.Rack(value))
	}
}

// autoCreateTopics is off in kgo and on in Java when unset; only an explicit true is
// taken, since a reader that creates topics by a misspelt name helps nobody.
func (b *builder) autoCreateTopics(name, value string) {
	if on, ok := b.boolean(name, value, false); ok && on {
		b.add(kgo.AllowAutoTopicCreation())
	}
}

// finishGroup adds the group options, which kgo takes only together with a group.
func (b *builder) finishGroup() {
	group := b.get("group.id")
	if group == "" {
		return
	}
	b.add(kgo.ConsumerGroup(group))
	if id := b.get("group.instance.id"); id != "" {
		b.add(kgo.InstanceID(id))
	}
	switch p := strings.ToLower(b.get("group.protocol")); p {
	case "", "classic":
	case "consumer":
		b.refused("group.protocol", "use classic")
	default:
		b.fault("group.protocol", "%q is neither classic nor consumer", p)
	}
	b.groupTimeouts()
	on, _ := b.boolean("enable.auto.commit", b.get("enable.auto.commit"), true)
	if !on {
		b.add(kgo.DisableAutoCommit())
	} else if d, ok := b.millis("auto.commit.interval.ms", b.get("auto.commit.interval.ms"), 100*time.Millisecond, math.MaxInt32*time.Millisecond); ok {
		b.add(kgo.AutoCommitInterval(d))
	}
	b.assignors()
}

func (b *builder) groupTimeouts() {
	const most = math.MaxInt32 * time.Millisecond
	session := 45 * time.Second
	if d, ok := b.millis("session.timeout.ms", b.get("session.timeout.ms"), 100*time.Millisecond, most); ok {
		session = d
		b.add(kgo.SessionTimeout(d))
	}
	heartbeat := min(3*time.Second, session/3)
	if d, ok := b.millis("heartbeat.interval.ms", b.get("heartbeat.interval.ms"), time.Millisecond, most); ok {
		heartbeat = d
		if d >= session {
			b.fault("heartbeat.interval.ms", "must be less than session.timeout.ms (%d)", session.Milliseconds())
		}
	}
	b.add(kgo.HeartbeatInterval(heartbeat))
	if d, ok := b.millis("max.poll.interval.ms", b.get("max.poll.interval.ms"), 100*time.Millisecond, most); ok {
		b.add(kgo.RebalanceTimeout(d))
	}
}

// assignors maps Java's assignor classes; unset is Java's own default pair.
func (b *builder) assignors() {
	balancers := []kgo.GroupBalancer{}
	for _, class := range strings.Split(b.get("partition.assignment.strategy"), ",") {
		class = strings.TrimSpace(class)
		switch class[strings.LastIndexByte(class, '.')+1:] {
		case "":
		case "RangeAssignor", "range":
			balancers = append(balancers, kgo.RangeBalancer())
		case "RoundRobinAssignor", "roundrobin":
			balancers = append(balancers, kgo.RoundRobinBalancer())
		case "StickyAssignor", "sticky":
			balancers = append(balancers, kgo.StickyBalancer())
		case "CooperativeStickyAssignor", "cooperative-sticky":
			balancers = append(balancers, kgo.CooperativeStickyBalancer())
		default:
			b.refused("partition.assignment.strategy", "use RangeAssignor, RoundRobinAssignor, StickyAssignor or CooperativeStickyAssignor")
		}
	}
	if len(balancers) == 0 {
		balancers = append(balancers, kgo.RangeBalancer(), kgo.CooperativeStickyBalancer())
	}
	b.add(kgo.Balancers(balancers...))
}
