package coretest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admin creates topics, first those that others use, then now and then another, and deletes some of these.
type admin struct {
	user
	isReady   bool // those that others use are there,
	readyAt   time.Time
	wanted    []topic
	isWaiting bool
	count     int
	names     []string // of what was created,
	single    []string // those whose creation was asked for once, so that nothing that is late makes them again
	doomed    string   // topic whose deletion is under way
	deleted   []string // acknowledged
}

// topic is a topic to create.
type topic struct {
	name       string
	partitions int32
	configs    map[string]string
	attempts   int
}

func (a *admin) String() string {
	return fmt.Sprintf("admin: %d topics created, %d to create, waiting %v", len(a.names), len(a.wanted), a.isWaiting)
}

func (a *admin) isIdle() bool { return len(a.wanted) == 0 && a.doomed == "" && !a.isWaiting }

func (a *admin) step() {
	if a.isWaiting || !a.mayTry() {
		return
	}
	if !a.isReady {
		if !a.c.check.areActive() {
			return
		}
		if a.isReady = len(a.wanted) == 0; a.isReady {
			a.readyAt = a.c.now
			return
		}
	}
	if len(a.wanted) == 0 && !a.c.isLast && a.c.rng.IntN(300) == 0 {
		a.count++
		a.wanted = append(a.wanted, topic{name: fmt.Sprintf("more-%d", a.count), partitions: int32(1 + a.c.rng.IntN(2))})
	}
	if n := len(a.single); n > 0 && a.doomed == "" && !a.c.isLast && a.c.rng.IntN(600) == 0 {
		a.doomed = a.single[a.c.rng.IntN(n)]
		isDoomed := func(name string) bool { return name == a.doomed }
		a.single, a.names = slices.DeleteFunc(a.single, isDoomed), slices.DeleteFunc(a.names, isDoomed)
	}
	switch {
	case a.doomed != "":
		a.remove()
	case len(a.wanted) > 0:
		a.create(&a.wanted[0])
	}
}

func (a *admin) create(what *topic) {
	what.attempts++
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 1500
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = what.name, what.partitions, int16(min(3, len(a.c.nodes)))
	for _, k := range []string{"min.insync.replicas", "segment.bytes"} {
		if v, ok := what.configs[k]; ok {
			conf := kmsg.NewCreateTopicsRequestTopicConfig()
			conf.Name, conf.Value = k, kmsg.StringPtr(v)
			t.Configs = append(t.Configs, conf)
		}
	}
	req.Topics = append(req.Topics, t)
	a.isWaiting = true
	a.ask(a.anyone(), req, func(resp kmsg.Response, err error) {
		a.isWaiting = false
		a.pause()
		if err != nil {
			return
		}
		r := resp.(*kmsg.CreateTopicsResponse).Topics[0]
		switch name := errorName(r.ErrorCode); {
		case r.ErrorCode == 0:
			a.c.check.topicCreated(r.Topic, r.TopicID)
			a.c.Stats.Topics++
			fallthrough
		case strings.HasPrefix(name, "TOPIC_ALREADY_EXISTS"):
			if a.names = append(a.names, what.name); what.attempts == 1 && strings.HasPrefix(what.name, "more") {
				a.single = append(a.single, what.name)
			}
			a.wanted = a.wanted[1:]
		case !isPassing(r.ErrorCode):
			a.c.failf("%v: create topic %s: %s: %s", a, what.name, name, *r.ErrorMessage)
		}
	})
}

// remove deletes the doomed topic.
func (a *admin) remove() {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 1500, []string{a.doomed}
	a.isWaiting = true
	a.ask(a.anyone(), req, func(resp kmsg.Response, err error) {
		a.isWaiting = false
		a.pause()
		if err != nil {
			return
		}
		switch code := resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; {
		case code == 0:
			a.deleted = append(a.deleted, a.doomed)
			a.doomed = ""
		case code == kerr.UnknownTopicOrPartition.Code: // by an earlier try, or the node doesn't know of the topic yet
			a.doomed = ""
		case !isPassing(code):
			a.c.failf("%v: delete topic %s: %s", a, a.doomed, errorName(code))
		}
	})
}

// trimmer deletes records from the beginning of a partition.
type trimmer struct {
	user
	at        place
	isWaiting bool
}

func (m *trimmer) String() string { return fmt.Sprintf("trimmer %d of %v", m.id, m.at) }

func (m *trimmer) isIdle() bool { return true }

func (m *trimmer) step() {
	t := m.c.check.parts[m.at]
	if m.isWaiting || m.c.isLast || !m.mayTry() || m.c.rng.IntN(150) != 0 || int64(len(t.values)) <= t.asked {
		return
	}
	l := m.leader(m.at)
	if l.node == 0 {
		return
	}
	to := t.asked + m.c.rng.Int64N(int64(len(t.values))-t.asked)
	t.asked = max(t.asked, to)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 1500
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = m.at.topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = m.at.index, to
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	m.isWaiting = true
	m.ask(l.node, req, func(resp kmsg.Response, err error) {
		m.isWaiting = false
		if err != nil {
			m.forget(m.at)
			return
		}
		r := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		switch {
		case r.ErrorCode == 0 && r.LowWatermark < to:
			m.c.failf("%v: begins at %d, not at %d", m, r.LowWatermark, to)
		case r.ErrorCode == 0:
			m.c.Stats.Trims++
		case r.ErrorCode != kerr.OffsetOutOfRange.Code && !isPassing(r.ErrorCode): // a new leader may not know its high watermark yet
			m.c.failf("%v: %s", m, errorName(r.ErrorCode))
		default:
			m.forget(m.at)
		}
	})
}

// mover moves a partition to other replicas.
type mover struct {
	user
	at        place
	isWaiting bool
}

func (m *mover) String() string { return fmt.Sprintf("mover %d of %v", m.id, m.at) }

func (m *mover) isIdle() bool { return !m.isWaiting }

func (m *mover) step() {
	if m.isWaiting || m.c.isLast || !m.mayTry() || !m.c.admin.isReady || m.c.rng.IntN(250) != 0 {
		return
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = 0, 1500
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = m.at.topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition = m.at.index
	if m.c.chance(85) { // else what is under way ends where it began
		ids := m.c.rng.Perm(len(m.c.nodes))
		for _, i := range ids[:1+m.c.rng.IntN(min(3, len(ids)))] {
			p.Replicas = append(p.Replicas, int32(i)+1)
		}
	}
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	m.isWaiting = true
	m.ask(m.anyone(), req, func(resp kmsg.Response, err error) {
		m.isWaiting = false
		m.pause()
		if err != nil {
			return
		}
		r := resp.(*kmsg.AlterPartitionAssignmentsResponse)
		code := r.ErrorCode
		if code == 0 && len(r.Topics) > 0 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
		switch {
		case code == 0:
			m.c.Stats.Moves++
		case code != kerr.NoReassignmentInProgress.Code && code != kerr.InvalidReplicaAssignment.Code && !isPassing(code):
			m.c.failf("%v to %v: %s", m, p.Replicas, errorName(code))
		}
	})
}
