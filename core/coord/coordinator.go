package coord

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config holds the settings of a coordinator, named as Kafka's broker settings.
type Config struct {
	MinSession       time.Duration // group.min.session.timeout.ms
	MaxSession       time.Duration // group.max.session.timeout.ms
	InitialDelay     time.Duration // group.initial.rebalance.delay.ms; 0 = none
	MaxSize          int           // group.max.size: members, joining ones included
	MaxMetadataBytes int           // offset.metadata.max.bytes
	OffsetRetention  time.Duration // offsets.retention.minutes; 0 = offsets never expire
	RetentionCheck   time.Duration // offsets.retention.check.interval.ms
	// SnapshotRecords is how many records the log holds at least before it is written anew.
	SnapshotRecords int
	// Keep names groups whose offsets never expire; nil = none.
	Keep func(group string) bool
}

// SetDefaults fills in what is zero. They are Kafka's, but for InitialDelay (0, Kafka's
// 3 s make every short-lived program wait) and MaxSize (bounded).
func (c *Config) SetDefaults() {
	c.MinSession = cmp.Or(c.MinSession, 6*time.Second)
	c.MaxSession = cmp.Or(c.MaxSession, 30*time.Minute)
	c.MaxSize = cmp.Or(c.MaxSize, 100_000)
	c.MaxMetadataBytes = cmp.Or(c.MaxMetadataBytes, 4096)
	c.SnapshotRecords = cmp.Or(c.SnapshotRecords, 50_000)
	c.RetentionCheck = cmp.Or(c.RetentionCheck, 10*time.Minute)
}

// newMemberTimeout bounds how long a member that has never been in a generation may wait
// for its first: it may have gone away without knowing its id.
const newMemberTimeout = 5 * time.Minute

// Request is one decoded request of one group.
type Request struct {
	ID         uint64 // the caller's, returned in the Answer
	ClientID   string
	ClientHost string
	Random     string // unique for each request; ends the ids of members that it creates
	Body       kmsg.Request
}

// Answer is the response to the request with the same ID.
type Answer struct {
	ID   uint64
	Body kmsg.Response
}

// Record is one record of __consumer_offsets; a nil Value is a tombstone.
type Record struct{ Key, Value []byte }

// Batch is what must be appended as one record batch, in the order of the IDs.
// The caller reports its fate by Appended, once.
type Batch struct {
	ID       uint64 // 1, 2, 3 … for each coordinator
	Records  []Record
	Snapshot bool // begins a snapshot: Effects.Trim may name it later
}

// Effects is what a step wants done. Answers may be sent before Batches are appended: none
// of them depends on those. The slices are the caller's.
type Effects struct {
	Answers  []Answer
	Batches  []Batch
	Deadline time.Time // when Tick has something to do; zero = never
	// Trim, unless 0, is a batch with all of whose predecessors the log may part: what
	// follows from it on says the same. It is durable.
	Trim uint64
}

// Coordinator holds the groups of one partition of __consumer_offsets. Its methods must
// not overlap. It owns what it is given in requests and records.
type Coordinator struct {
	cfg    Config
	groups map[string]*group
	loaded bool
	closed int16 // error code of Close; 0 = open
	lastID uint64
	// appending holds what follows once a batch is durable (code 0) or has failed; applied
	// is the last batch of which it has followed, reports the fate of later ones.
	appending map[uint64]func(code int16, now time.Time)
	applied   uint64
	reports   map[uint64]int16
	// logged counts the records in the log since the last snapshot; below snapshotAt there is
	// no use in another.
	logged, snapshotAt int
	timers             timers
	out                Effects
}

// New returns a coordinator that is loading: Replay its partition's records, then call
// Loaded. Until then every request is answered COORDINATOR_LOAD_IN_PROGRESS.
func New(cfg Config) *Coordinator {
	cfg.SetDefaults()
	return &Coordinator{
		cfg:       cfg,
		groups:    make(map[string]*group),
		appending: make(map[uint64]func(int16, time.Time)),
		reports:   make(map[uint64]int16),
	}
}

// Loaded ends loading: sessions of the members that were found begin now.
func (c *Coordinator) Loaded(now time.Time) Effects {
	c.loaded = true
	for _, g := range c.sortedGroups() {
		for _, m := range g.members {
			c.startSession(g, m, now)
		}
		c.dropIfUnused(g)
	}
	c.timers.at(now.Add(c.cfg.RetentionCheck), c.expireOffsets)
	return c.effects()
}

// Close answers everything that waits, and all that still comes, with code (that the
// coordinator is elsewhere, or shutting down). Batches under way need not be reported.
func (c *Coordinator) Close(code int16) Effects {
	c.closed = code
	for _, g := range c.sortedGroups() {
		for _, m := range g.members {
			c.failWaiting(g, m, code)
		}
	}
	ids := make([]uint64, 0, len(c.appending))
	for id := range c.appending {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		then := c.appending[id]
		delete(c.appending, id)
		then(code, time.Time{})
	}
	clear(c.reports)
	c.out.Batches, c.timers = nil, timers{}
	return c.effects()
}

// Handle takes one JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit or
// OffsetDelete request. Topics are named (ids are resolved by the caller). now must not
// go back between calls.
func (c *Coordinator) Handle(req Request, now time.Time) Effects {
	code := c.status()
	switch body := req.Body.(type) {
	case *kmsg.JoinGroupRequest:
		c.handleJoin(req, body, c.groupCode(code, body.Group), now)
	case *kmsg.SyncGroupRequest:
		c.handleSync(req, body, c.groupCode(code, body.Group), now)
	case *kmsg.HeartbeatRequest:
		c.handleHeartbeat(req, body, c.groupCode(code, body.Group), now)
	case *kmsg.LeaveGroupRequest:
		c.handleLeave(req, body, c.groupCode(code, body.Group), now)
	case *kmsg.OffsetCommitRequest:
		c.handleCommit(req, body, code, now)
	case *kmsg.OffsetDeleteRequest:
		c.handleOffsetDelete(req, body, code, now)
	default: // the caller's table sends no other
		c.answer(req.ID, nil)
	}
	return c.effects()
}

// Appended reports that a batch is durable (code 0) or will never be: a Kafka error code fit
// for the client, or MESSAGE_TOO_LARGE. Reports may come in any order, once for each batch; one takes effect
// when those of all earlier batches are there (invariant 3).
func (c *Coordinator) Appended(batch uint64, code int16, now time.Time) Effects {
	if c.appending[batch] != nil {
		c.reports[batch] = code
	}
	for {
		code, ok := c.reports[c.applied+1]
		if !ok {
			c.maybeSnapshot()
			return c.effects()
		}
		c.applied++
		then := c.appending[c.applied]
		delete(c.appending, c.applied)
		delete(c.reports, c.applied)
		then(code, now)
	}
}

// Tick does what is due at now.
func (c *Coordinator) Tick(now time.Time) Effects {
	if c.closed == 0 {
		c.timers.fire(now)
	}
	return c.effects()
}

// status is the code that answers every request, or 0.
func (c *Coordinator) status() int16 {
	if c.closed != 0 {
		return c.closed
	}
	if !c.loaded {
		return kerr.CoordinatorLoadInProgress.Code
	}
	return 0
}

// groupCode adds the check of a group's name for those APIs that need one.
func (c *Coordinator) groupCode(code int16, group string) int16 {
	if code == 0 && group == "" {
		return kerr.InvalidGroupID.Code
	}
	return code
}

func (c *Coordinator) answer(id uint64, body kmsg.Response) {
	c.out.Answers = append(c.out.Answers, Answer{ID: id, Body: body})
}

// append asks for records to be appended; then runs in the step that learns their fate.
func (c *Coordinator) append(records []Record, then func(code int16, now time.Time)) {
	c.lastID++
	c.logged += len(records)
	c.appending[c.lastID] = then
	c.out.Batches = append(c.out.Batches, Batch{ID: c.lastID, Records: records})
}

func (c *Coordinator) effects() Effects {
	out := c.out
	out.Deadline = c.timers.next()
	c.out = Effects{}
	return out
}

// sortedGroups gives the groups in the order of their names: what is done to all of them
// is done in the same order on every run.
func (c *Coordinator) sortedGroups() []*group {
	all := make([]*group, 0, len(c.groups))
	for _, g := range c.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Compare(a.id, b.id) })
	return all
}

// groupOf returns the group, made Empty if it isn't there.
func (c *Coordinator) groupOf(id string, now time.Time) *group {
	g := c.groups[id]
	if g == nil {
		g = newGroup(id, now)
		c.groups[id] = g
	}
	return g
}

// dropIfUnused forgets a group of which nothing is in the log and nobody is in.
func (c *Coordinator) dropIfUnused(g *group) {
	if g.state == Empty && !g.stored && len(g.offsets) == 0 && len(g.pendingOffsets) == 0 && len(g.joining) == 0 && g.storing == 0 {
		if c.groups[g.id] == g {
			delete(c.groups, g.id)
		}
	}
}

// Partition returns the partition of __consumer_offsets that holds the group: Java's
// String.hashCode of its name, made positive as Kafka does, modulo partitions.
func Partition(group string, partitions int32) int32 {
	var h int32
	for _, unit := range utf16Of(group) {
		h = 31*h + int32(unit)
	}
	if h == -1<<31 { // its absolute value has no int32; Kafka takes 0
		h = 0
	}
	return max(h, -h) % partitions
}
