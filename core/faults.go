package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
)

// Faults are ways to break a broker, for tests that have to find what is broken (core/coretest). The zero value breaks nothing.
type Faults struct {
	Replica replica.Faults
	Meta    meta.Faults

	ServeUnstable bool // consumers are served above the high watermark
}

// What follows is for those who step a broker themselves, and look at what it is.

// Quorum is the broker's member of the metadata's group.
func (b *Broker) Quorum() *meta.Quorum { return b.meta }

// Replica is this node's replica of a partition, nil if it has none.
func (b *Broker) Replica(topic string, index int32) *replica.Partition {
	t := b.topics.byName(topic)
	if t == nil || index < 0 || int(index) >= len(t.parts) {
		return nil
	}
	return t.parts[index]
}

// IsWoken says that Step is wanted before the time that it returned last: something has come up since. Run hears it otherwise.
func (b *Broker) IsWoken() bool {
	select {
	case <-b.timers.wake:
		return true
	default:
		return false
	}
}

// HangsUp says that what a Done was given ends the connection.
func HangsUp(answer kmsg.Response) bool {
	_, ok := answer.(hangUp)
	return ok
}
