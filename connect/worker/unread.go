package worker

import (
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	unreadPause = 100 * time.Millisecond // after a poll that gave errors only
	unreadTold  = 5 * time.Second        // least time between two messages
	goneAfter   = 2 * time.Second        // how long a topic's id is unknown until its topic counts as deleted: brokers learn of new topics one after the other
	goneForget  = 10 * time.Second       // how long after the last error it is known again
)

// unread is what one client's polls have failed to read. The zero value is ready.
type unread struct {
	told    time.Time             // when something was logged last
	unsaid  int                   // errors since
	unknown map[string]unknownRun // by topic
}

// unknownRun is when a topic's id was unknown first and last.
type unknownRun struct{ first, last time.Time }

// isGone says that a topic has been unknown by its id for so long that it was deleted. The client never takes to a topic
// of the same name by itself; only a new client reads it.
func (u *unread) isGone(topic string, err error, now time.Time) bool {
	if !errors.Is(err, kerr.UnknownTopicID) {
		return false
	}
	if u.unknown == nil {
		u.unknown = map[string]unknownRun{}
	}
	run, known := u.unknown[topic]
	if !known || now.Sub(run.last) > goneForget {
		run.first = now
	}
	run.last = now
	u.unknown[topic] = run
	return now.Sub(run.first) >= goneAfter
}

// say logs an error that the client tries again, seldom: it may come at any rate.
func (u *unread) say(log *slog.Logger, now time.Time, partition int32, err error) {
	if now.Sub(u.told) < unreadTold {
		u.unsaid++
		return
	}
	log.Warn("reading from a partition", "partition", partition, "error", err, "unsaid", u.unsaid)
	u.told, u.unsaid = now, 0
}
