package meta

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/storage"
)

// TopicName is the log that holds the metadata.
const TopicName = "__cluster_metadata"

// LogID is the id of the metadata's log: Kafka's reserved metadata topic id.
func LogID() storage.LogID { return storage.LogID{Topic: [16]byte{15: 1}} }

// ErrTooLarge is a command bigger than the log takes.
var ErrTooLarge = errors.New("metadata command is too large")

// ErrFailed is what proposals are answered with when the log has failed.
var ErrFailed = errors.New("metadata log failed")

// Quorum is the group that agrees on commands. Here it is one voter, this node, whose agreement is its disk.
// All methods may overlap.
//
// Lock order: mu, then the log's own. applied is called under mu.
type Quorum struct {
	store    *storage.Store
	log      *storage.Log
	maxBytes int
	applied  func(*Image, Command, Result)

	mu      sync.Mutex // proposals: their order in pending is their order in the log
	term    int32
	pending []proposal
	failed  error
	now     time.Time // of the newest proposal
	start   int64     // where the newest durable snapshot begins
	covered int64     // end of the newest snapshot, durable or not; of the log's start if there is none

	snapshotEvery int
	perPart       int // partitions in one part of a snapshot

	view  sync.RWMutex // image
	image *Image
}

type proposal struct {
	index   int64
	command Command
	done    func(Result, error)
}

// Options of Open.
type Options struct {
	Store           *storage.Store
	MaxCommandBytes int
	SnapshotEvery   int // after so many commands (or a tenth of the partitions) the log begins anew with a snapshot; 0: 1000
	// Applied is called for every command that has changed the image after Open, in the order of the log, and before
	// the command's own done. The image may be read during the call. It must not call the Quorum.
	Applied func(*Image, Command, Result)
}

// segmentBytes bounds the log's segments, so that what lies before a snapshot is removed.
const segmentBytes = 4 << 20

// Open reads the log from its start and rebuilds the image. It blocks on the disk. Proposals begin a new term.
func Open(o Options) (*Quorum, error) {
	log, err := o.Store.OpenLog(LogID(), TopicName+"-0", storage.LogConfig{
		MaxMessageBytes: o.MaxCommandBytes + 4096, SegmentBytes: segmentBytes, UsesReserve: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	q := &Quorum{store: o.Store, log: log, maxBytes: o.MaxCommandBytes, applied: o.Applied, image: NewImage(), snapshotEvery: o.SnapshotEvery,
		perPart: defaultPerPart}
	if q.snapshotEvery == 0 {
		q.snapshotEvery = 1000
	}
	if err := q.replay(); err != nil {
		return nil, err
	}
	q.term = log.LeaderEpoch() + 1
	return q, nil
}

// replay applies what the log holds. A command that failed when it was proposed fails again, alike.
func (q *Quorum) replay() error {
	q.start = q.log.StartOffset()
	q.covered = q.start
	return record.Scan(q.log.Read, q.log.StartOffset(), q.log.DurableEnd(), func(offset int64, _, value []byte) error {
		c, err := Decode(value)
		if err != nil {
			return fmt.Errorf("metadata entry %d: %w", offset, err)
		}
		r, _ := q.image.Apply(c) // its error was the proposer's answer
		if r.Snapshot {
			q.begin(offset, c.Snapshot.Of)
		}
		return nil
	})
}

// View calls read with the image, which must not be kept; topics of it may be. Reads overlap; read must not propose.
func (q *Quorum) View(read func(*Image)) {
	q.view.RLock()
	defer q.view.RUnlock()
	read(q.image)
}

// Propose makes c durable and applies it. done is called once, perhaps before Propose returns, with no lock held:
// with the command's result, or with the reason why it was not applied.
func (q *Quorum) Propose(c Command, now time.Time, done func(Result, error)) {
	ticket, err := q.append(c, now, done)
	if err != nil {
		done(Result{}, err)
		return
	}
	q.store.Notify(ticket, q.durable)
}

func (q *Quorum) append(c Command, now time.Time, done func(Result, error)) (storage.Ticket, error) {
	b, err := c.Encode()
	if err != nil {
		return 0, err
	}
	if len(b) > q.maxBytes {
		return 0, fmt.Errorf("%w: %d bytes, allowed are %d", ErrTooLarge, len(b), q.maxBytes)
	}
	batch := record.AppendBatch(nil, []record.Record{{Value: b}}, now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return 0, q.failed
	}
	app, err := q.log.Append(batch, q.term, now)
	if err != nil {
		return 0, fmt.Errorf("append metadata command: %w", err)
	}
	q.now = now
	q.pending = append(q.pending, proposal{index: app.BaseOffset, command: c, done: done})
	return app.Ticket, nil
}

// durable applies every proposal that the log's durable end has passed, in order, and sees that there is a snapshot now and then.
func (q *Quorum) durable(failed error) {
	type answer struct {
		done   func(Result, error)
		result Result
		err    error
	}
	var answers []answer
	q.mu.Lock()
	if failed != nil {
		q.failed = fmt.Errorf("%w: %w", ErrFailed, failed)
	}
	end := q.log.DurableEnd()
	for len(q.pending) > 0 && (q.failed != nil || q.pending[0].index < end) {
		p := q.pending[0]
		q.pending[0] = proposal{}
		q.pending = q.pending[1:]
		a := answer{done: p.done, err: q.failed}
		if q.failed == nil {
			a.result, a.err = q.apply(p.command)
		}
		if a.result.Snapshot {
			q.begin(p.index, p.command.Snapshot.Of)
		}
		answers = append(answers, a)
	}
	q.trim()
	var ticket storage.Ticket
	if q.isDue() {
		ticket = q.putSnapshot(q.now)
	}
	q.mu.Unlock()
	for _, a := range answers {
		a.done(a.result, a.err)
	}
	if ticket != 0 {
		q.store.Notify(ticket, q.durable)
	}
}

func (q *Quorum) apply(c Command) (Result, error) {
	q.view.Lock()
	result, err := q.image.Apply(c)
	q.view.Unlock()
	if err == nil && q.applied != nil {
		q.view.RLock()
		q.applied(q.image, c, result)
		q.view.RUnlock()
	}
	return result, err
}
