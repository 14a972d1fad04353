package core

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/core/meta"
)

// maxNameBytes is Kafka's bound of a topic's name.
const maxNameBytes = 249

// checkTopicName reports a name that Kafka doesn't allow.
func checkTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a topic's name can't be empty: %w", kerr.InvalidTopicException)
	case name == "." || name == "..":
		return fmt.Errorf("topic name %q: %w", name, kerr.InvalidTopicException)
	case len(name) > maxNameBytes:
		return fmt.Errorf("topic name is %d bytes long, allowed are %d: %w", len(name), maxNameBytes, kerr.InvalidTopicException)
	}
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
	})
	if bad >= 0 {
		return fmt.Errorf("topic name %q: only letters, digits, '.', '_' and '-' are allowed: %w", name, kerr.InvalidTopicException)
	}
	return nil
}

// isInternal says that a topic is written by brokers only.
func isInternal(name string) bool {
	return name == offsetsTopic || name == "__transaction_state" || name == meta.TopicName
}

// offsetsTopic holds the groups' offsets and states.
const offsetsTopic = "__consumer_offsets"

// createTopic creates a topic with so many replicas of each partition (defaultFactor: the broker's default). done is called once, when this
// node's image has the topic or it has failed; with meta.ErrTopicExists when it was there already.
func (b *Broker) createTopic(name string, partitions int32, factor int16, configs map[string]string, now time.Time, done func(error)) {
	if b.topics.byName(name) != nil {
		done(fmt.Errorf("topic %q: %w", name, meta.ErrTopicExists))
		return
	}
	replicas, err := b.placed(name, int(partitions), factor)
	if err != nil {
		done(err)
		return
	}
	id, err := randomID(b.cfg.Rand)
	if err != nil {
		done(err)
		return
	}
	c := meta.CreateTopic{ID: id, Name: name, Replicas: replicas, Configs: configs}
	b.propose(meta.Command{CreateTopic: &c}, now, func(_ meta.Result, err error) { done(err) })
}

// forAll starts one call per name, gives each result to each, one at a time, and calls done after the last.
func forAll(names []string, start func(string, func(error)), each func(string, error), done func()) {
	var mu sync.Mutex
	left := newCountdown(done)
	for _, name := range names {
		left.add()
		start(name, func(err error) {
			mu.Lock()
			each(name, err)
			mu.Unlock()
			left.done()
		})
	}
	left.done()
}

// countdown calls a function when everything that was added is done, and its maker's own part.
type countdown struct {
	left atomic.Int64
	last func()
}

func newCountdown(last func()) *countdown {
	c := &countdown{last: last}
	c.left.Store(1) // the maker's own: it calls done when it has added all
	return c
}

func (c *countdown) add() { c.left.Add(1) }

func (c *countdown) done() {
	if c.left.Add(-1) == 0 {
		c.last()
	}
}

// clusterID writes 16 bytes as Kafka does: base64url without padding.
func clusterID(id meta.ID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
