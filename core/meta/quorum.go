package meta

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/weirlog/weir/storage"
)

// TopicName is the log that holds the metadata.
const TopicName = "__cluster_metadata"

// LogID is the id of the metadata's log: Kafka's reserved metadata topic id.
func LogID() storage.LogID { return storage.LogID{Topic: [16]byte{15: 1}} }

// Errors of proposals.
var (
	ErrTooLarge = errors.New("metadata command is too large")
	ErrNoLeader = errors.New("the metadata has no leader now, or has changed it: whether the command will be applied is unknown")
	ErrFailed   = errors.New("metadata log failed")
)

// Quorum is one member of the group that agrees on commands. It is stepped: Tick gives it time, Step what peers sent, and the store's
// completions tell it what is durable; it starts no goroutine. All methods may overlap.
//
// Lock order: mu, then view, then the log's own. Options.Applied and Options.Send are called under mu.
type Quorum struct {
	store         *storage.Store
	id            int32
	maxBytes      int
	snapshotEvery int
	perPart       int    // partitions in one part of a snapshot
	messageBytes  uint64 // of entries in one message, but for one that is larger alone
	applied       func(*Image, Command, Result)
	send          func(to int32, messages []byte)
	logger        *slog.Logger
	tick          time.Duration
	session       time.Duration
	name          string                                      // of this start, in its proposals
	stalled       func(now time.Time) time.Duration           // the store's, but in tests
	admits        func(sizeBytes int, usesReserve bool) error // likewise
	faults        Faults
	onApply       func(e *raftpb.Entry)

	mu         sync.Mutex
	now        time.Time // newest that was told
	ticked     time.Time
	sinceStart int // ticks, while they are few
	node       *raft.RawNode
	log        raftLog
	writes     []write // what raft wants put and there was no room for, in order
	writeErr   error   // why
	acks       []ack   // what is to be said when tickets are durable, in order
	newest     storage.Ticket
	notified   storage.Ticket // the newest that the store will tell of
	durable    storage.Ticket
	outbox     map[int32][]byte
	effects    effects
	failed     error
	isSilent   bool // the disk hangs

	members      members
	appliedIndex uint64
	isBehind     bool   // a snapshot has come of which not all parts are applied
	wantedBase   base   // of the newest snapshot that was applied
	snapshotEnd  uint64 // index of its last part
	proposedEnd  uint64 // likewise of the newest that this leader has proposed
	leader       leader
	lastLeader   int32 // the newest known that isn't this node
	heard        map[int32]time.Time
	proposals    map[string]proposal
	proposed     uint64

	view  sync.RWMutex // image
	image *Image
}

// leader is who leads in a term.
type leader struct {
	id   int32 // 0: unknown
	term uint64
}

// proposal is one that waits for its entry.
type proposal struct {
	done    func(Result, error)
	expires time.Time // zero: when the leader changes
}

// Options of Open.
type Options struct {
	Store           *storage.Store
	MaxCommandBytes int
	SnapshotEvery   int       // after so many commands (or a tenth of the partitions) the log begins anew with a snapshot; 0: 1000
	Now             time.Time // of Open

	// Applied is called for every command that has changed the image after Open, in the order of the log, and before
	// the command's own done. The image may be read during the call. It must not call the Quorum.
	Applied func(*Image, Command, Result)

	Node   int32   // this node's id, 1 if 0. A folder that has an identity must be this node's
	Voters []int32 // of a group that begins with a folder without identity; none: this node alone
	// Send sends messages to a peer, whose Step takes them. It must neither block nor call the Quorum; what is lost is sent again, in time.
	// nil: there are no peers.
	Send            func(to int32, messages []byte)
	ElectionTimeout time.Duration // after so much silence of the leader others try to lead; a tick is a tenth of it. 0: 1 s
	Session         time.Duration // after so much silence a broker is to be fenced; a disk that hangs half as long makes this node silent. 0: 1 s
	Rand            io.Reader     // of this start's name; nil: crypto/rand. (raft draws its timeouts from crypto/rand.)
	Logger          *slog.Logger  // nil: none

	Faults       Faults // for tests of tests
	messageBytes uint64 // for tests
	onApply      func(e *raftpb.Entry)
}

// segmentBytes bounds the log's segments, so that what lies before a snapshot is removed.
const segmentBytes = 4 << 20

// forwardTimeouts is how many election timeouts a proposal that went to another node is waited for.
const forwardTimeouts = 5

func (o *Options) setDefaults() {
	o.SnapshotEvery = cmp.Or(o.SnapshotEvery, 1000)
	o.Node = cmp.Or(o.Node, 1)
	o.ElectionTimeout = cmp.Or(o.ElectionTimeout, time.Second)
	o.Session = cmp.Or(o.Session, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if len(o.Voters) == 0 {
		o.Voters = []int32{o.Node}
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Now.IsZero() {
		o.Now = time.UnixMilli(0)
	}
}

// Open reads the log and rebuilds the image as of what is known to be committed. It blocks on the disk. A sole voter leads, in
// a new term, when it returns, unless its disk is full: then the next Propose tries again. Others follow, or have their first election after
// a timeout.
func Open(o Options) (*Quorum, error) {
	o.setDefaults()
	q, err := newQuorum(&o)
	if err != nil {
		return nil, err
	}
	if err := q.open(&o); err != nil {
		return nil, err
	}
	q.applied = o.Applied
	return q, nil
}

func newQuorum(o *Options) (*Quorum, error) {
	var salt [8]byte
	if _, err := io.ReadFull(o.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("name this start: %w", err)
	}
	image := NewImage()
	image.faults = o.Faults
	return &Quorum{
		store: o.Store, id: o.Node, maxBytes: o.MaxCommandBytes, snapshotEvery: o.SnapshotEvery, perPart: defaultPerPart, messageBytes: cmp.Or(o.messageBytes, maxMessageBytes),
		faults: o.Faults, onApply: o.onApply, send: o.Send, logger: o.Logger, tick: o.ElectionTimeout / electionTicks, session: o.Session,
		name:    fmt.Sprintf("%d-%x", o.Node, binary.BigEndian.Uint64(salt[:])),
		stalled: o.Store.Stalled, admits: o.Store.Admits,
		now: o.Now, ticked: o.Now, outbox: make(map[int32][]byte), heard: make(map[int32]time.Time), proposals: make(map[string]proposal),
		image: image,
	}, nil
}

// open reads what the store has, starts raft with it, and has a sole voter elected.
func (q *Quorum) open(o *Options) error {
	st, hasState, err := readState(q.store)
	switch {
	case err != nil:
		return err
	case !hasState:
		st = hardState{V: stateVersion, Node: q.id, Base: base{members: members{Voters: o.Voters}}}
	case st.Node != q.id:
		return fmt.Errorf("node %d: %w: node %d's", q.id, ErrIdentity, st.Node)
	}
	log, err := q.store.OpenLog(LogID(), TopicName+"-0", storage.LogConfig{
		MaxMessageBytes: q.maxBytes + 4096, SegmentBytes: segmentBytes, UsesReserve: true,
	})
	if err != nil {
		return fmt.Errorf("open metadata log: %w", err)
	}
	q.log = raftLog{store: q.store, log: log, state: st}
	if err := q.log.load(hasState); err != nil {
		return fmt.Errorf("open metadata log: %w", err)
	}
	b := q.log.base()
	q.members, q.appliedIndex, q.snapshotEnd, q.isBehind = b.members, b.Index, b.Index, b.Index > 1 && hasState
	q.replay()
	if q.failed == nil && q.members.isSole(q.id) {
		q.elect()
	}
	return q.failed
}

// View calls read with the image, which must not be kept; topics of it may be. Reads overlap; read must not propose.
func (q *Quorum) View(read func(*Image)) {
	q.view.RLock()
	defer q.view.RUnlock()
	read(q.image)
}

// Hold calls f with the image while nothing is applied, as Options.Applied is called: it must not call the Quorum, but for View. isCurrent is IsCurrent.
func (q *Quorum) Hold(f func(image *Image, isCurrent bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.view.RLock()
	defer q.view.RUnlock()
	f(q.image, q.isCurrent())
}

// Propose has the group agree on c and apply it, on whatever node. done is called once, perhaps before Propose returns, with no lock held:
// with the command's result when it is applied here, or with the reason why it was not applied; after ErrNoLeader it still may be.
func (q *Quorum) Propose(c Command, now time.Time, done func(Result, error)) {
	q.do(now, func() {
		if err := q.propose(c, done); err != nil {
			q.answer(done, Result{}, err)
		}
	})
}

func (q *Quorum) propose(c Command, done func(Result, error)) error {
	q.proposed++
	by := fmt.Sprintf("%s-%d", q.name, q.proposed)
	b, err := c.encodeBy(by)
	if err != nil {
		return err
	}
	if len(b) > q.maxBytes {
		return fmt.Errorf("%w: %d bytes, allowed are %d", ErrTooLarge, len(b), q.maxBytes)
	}
	if err := q.admit(len(b)); err != nil {
		return fmt.Errorf("append metadata command: %w", err)
	}
	p := proposal{done: done}
	if q.leader.id != q.id {
		p.expires = q.now.Add(forwardTimeouts * electionTicks * q.tick)
	}
	q.proposals[by] = p
	if err := q.node.Propose(b); err != nil {
		delete(q.proposals, by)
		return fmt.Errorf("%w (%w)", ErrNoLeader, err)
	}
	if q.faults.AckEarly {
		delete(q.proposals, by)
		q.answer(done, Result{}, nil)
	}
	return nil
}

// admit refuses what raft could take, but this node's disk couldn't.
func (q *Quorum) admit(sizeBytes int) error {
	if q.failed != nil {
		return q.failed
	}
	q.write() // what waits for room goes first
	switch {
	case q.failed != nil:
		return q.failed
	case q.writeErr != nil:
		return q.writeErr
	case q.leader.id == q.id:
		return q.admits(sizeBytes+batchBytes, true)
	case q.members.isSole(q.id) && q.node.BasicStatus().RaftState == raft.StateFollower:
		q.campaign() // a full disk kept Open from it
	}
	return nil
}

// batchBytes is what a record batch has besides the command, and more.
const batchBytes = 128

// effects is what follows of a change and must be done under no lock.
type effects struct {
	answers []func()
	notify  storage.Ticket // of which the store is to tell, 0: none
}

// answer calls done later, with no lock held.
func (q *Quorum) answer(done func(Result, error), r Result, err error) {
	q.effects.answers = append(q.effects.answers, func() { done(r, err) })
}

// do makes a change under the lock, takes all of raft's consequences, and runs their effects. A zero now is one that isn't known.
func (q *Quorum) do(now time.Time, change func()) {
	q.mu.Lock()
	if now.After(q.now) {
		q.now = now
	}
	change()
	q.advance()
	e := q.effects
	q.effects = effects{}
	q.mu.Unlock()
	for _, answer := range e.answers {
		answer()
	}
	if e.notify != 0 {
		q.store.Notify(e.notify, func(err error) { q.written(e.notify, err) })
	}
}

// fail ends this member: it says nothing any more, and answers everyone who waits.
func (q *Quorum) fail(reason error) {
	if q.failed != nil {
		return
	}
	q.failed = fmt.Errorf("%w: %w", ErrFailed, reason)
	q.logger.Error("this node leaves the metadata's group until it is started again", "error", reason)
	q.writes, q.acks, q.leader = nil, nil, leader{}
	clear(q.outbox)
	q.answerAll(q.failed)
}

// answerAll gives everyone who waits the same answer, in the order of their proposals.
func (q *Quorum) answerAll(err error) {
	for _, by := range q.proposalNames() {
		q.answer(q.proposals[by].done, Result{}, err)
	}
	clear(q.proposals)
}

// proposalNames is the names of what is proposed and not answered, in the order of the proposals.
func (q *Quorum) proposalNames() []string {
	names := make([]string, 0, len(q.proposals))
	for by := range q.proposals {
		names = append(names, by)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names
}
