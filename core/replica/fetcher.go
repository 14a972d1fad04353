package replica

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirlog/weir/storage"
)

// How a fetcher waits.
const (
	longPoll     = 500 * time.Millisecond // at the leader, for records
	firstPause   = 50 * time.Millisecond  // after a request that failed; doubles
	longestPause = time.Second
	epochPause   = 100 * time.Millisecond // of a partition that its leader refused: the image will tell
	newsPause    = 10 * time.Millisecond  // of one whose leader hasn't heard yet that it leads
	storagePause = 250 * time.Millisecond // of a partition whose log takes nothing now
	mostInFlight = 2                      // one waits at the leader, the next takes its place
)

// Fetcher decides what a node asks one leader for, about all partitions that it follows there. It is a state machine: no clock, no
// socket, no goroutine. It asks when there is something to tell (a log's end or durable end that the leader doesn't know) or nothing under way:
// the newer of two requests has the leader answer the older one. Its methods may overlap.
//
// Lock order: mu, then a Partition's.
type Fetcher struct {
	leader int32
	rng    *rand.Rand

	mu        sync.Mutex
	parts     map[*Partition]*followed
	queue     []*followed // whose asks may have changed, in the order in which that was noted
	unsynced  []*followed // with a ticket
	forgotten []*Partition
	session   int32 // 0: none
	epoch     int32 // of the next request
	number    int64 // of the newest request
	inFlight  []*FetchRequest
	pause     time.Duration
	resume    time.Time // of asking at all
}

// followed is one partition of a fetcher.
type followed struct {
	p       *Partition
	isNoted bool     // in queue
	isKnown bool     // the session has asked
	since   int64    // in which request first, 0: in none yet
	asked   FetchAsk // newest,
	askedIn int64    // in which request,
	before  FetchAsk // and what was asked before that one
	resume  time.Time
	ticket  storage.Ticket // of what was put last and isn't known to be durable, 0: none
}

// FetchRequest is one fetch: with Session 0 one that begins a session. The leader answers partitions that it knows of the session too.
type FetchRequest struct {
	Session, Epoch int32
	MaxWait        time.Duration
	Partitions     []*Partition // whose asks changed since the session heard of them
	Asks           []FetchAsk   // theirs
	Forgotten      []*Partition

	number int64
}

// PartitionAnswer is a leader's answer about one partition. Its Ask is filled in by the fetcher.
type PartitionAnswer struct {
	Partition *Partition
	FetchAnswer
}

// Kafka's error codes that are not just refusals.
const (
	codeNone               = 0
	codeOffsetOutOfRange   = 1
	codeUnknownLeaderEpoch = 75
)

// NewFetcher makes the fetcher from one leader, with nothing to fetch. rng spreads pauses.
func NewFetcher(leader int32, rng *rand.Rand) *Fetcher {
	return &Fetcher{leader: leader, rng: rng, parts: make(map[*Partition]*followed)}
}

// Leader is the node that is asked.
func (f *Fetcher) Leader() int32 { return f.leader }

// Add says that a partition is followed there, or that it was assigned anew: its ask may have changed. The ticket is that of what the log has and isn't durable,
// whoever it came from: when it is, call Synced. 0: there is nothing.
func (f *Fetcher) Add(p *Partition) storage.Ticket {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.parts[p]
	if o == nil {
		o = &followed{p: p}
		f.parts[p] = o
	}
	o.resume = time.Time{}
	f.note(o)
	ticket := p.unsynced()
	f.await(o, ticket)
	return ticket
}

// await notes that more of a partition will be durable with the ticket.
func (f *Fetcher) await(o *followed, ticket storage.Ticket) {
	if ticket > 0 && o.ticket == 0 {
		f.unsynced = append(f.unsynced, o)
	}
	o.ticket = max(o.ticket, ticket)
}

// Remove says that a partition is followed there no more.
func (f *Fetcher) Remove(p *Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.parts[p]; o != nil {
		f.forget(o)
		delete(f.parts, p) // fill passes over it
	}
}

func byName(a, b *Partition) int {
	switch {
	case a.Topic != b.Topic && a.Topic < b.Topic, a.Topic == b.Topic && a.Index < b.Index:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// Synced says that what Answered put under the ticket is durable, and all before it.
func (f *Fetcher) Synced(ticket storage.Ticket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsynced = slices.DeleteFunc(f.unsynced, func(o *followed) bool {
		if o.ticket > ticket {
			return false
		}
		o.ticket = 0
		if f.parts[o.p] == o {
			f.note(o)
		}
		return true
	})
}

// sorted is all that is followed, in an order that doesn't depend on the map.
func (f *Fetcher) sorted() []*followed {
	all := make([]*followed, 0, len(f.parts))
	for _, o := range f.parts {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *followed) int { return byName(a.p, b.p) })
	return all
}

func (f *Fetcher) note(o *followed) {
	if !o.isNoted {
		o.isNoted = true
		f.queue = append(f.queue, o)
	}
}

// Next is what to ask now, nil if nothing is to be; then it wants to be called again at the time returned (zero: not before something changes).
func (f *Fetcher) Next(now time.Time) (*FetchRequest, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.parts) == 0 && len(f.forgotten) == 0, len(f.inFlight) >= mostInFlight, len(f.inFlight) > 0 && f.session == 0:
		return nil, time.Time{}
	case now.Before(f.resume):
		return nil, f.resume
	}
	r := &FetchRequest{Session: f.session, Epoch: f.epoch, MaxWait: longPoll, number: f.number + 1}
	if f.session == 0 {
		for _, o := range f.sorted() {
			o.isKnown = false
			f.note(o)
		}
		f.forgotten = nil
	}
	wake := f.fill(r, now)
	isNews := len(r.Partitions)+len(f.forgotten) > 0
	if !isNews && (len(f.inFlight) > 0 || !f.hasKnown()) {
		return nil, wake
	}
	r.Forgotten, f.forgotten = f.forgotten, nil
	if f.session != 0 {
		f.epoch = nextEpoch(f.epoch)
	}
	f.number++
	f.inFlight = append(f.inFlight, r)
	return r, time.Time{}
}

// hasKnown says that the session has asked for something.
func (f *Fetcher) hasKnown() bool {
	for _, o := range f.parts {
		if o.isKnown {
			return true
		}
	}
	return false
}

// fill takes what has changed from the queue. What pauses stays there; the time is that of the first that may go on.
func (f *Fetcher) fill(r *FetchRequest, now time.Time) (wake time.Time) {
	rest := f.queue[:0]
	for _, o := range f.queue {
		if f.parts[o.p] != o { // removed
			o.isNoted = false
			continue
		}
		if now.Before(o.resume) {
			if rest = append(rest, o); wake.IsZero() || o.resume.Before(wake) {
				wake = o.resume
			}
			continue
		}
		o.isNoted = false
		ask, ok := o.p.Ask()
		switch {
		case !ok: // it is led here, or by nobody
			f.forget(o)
		case !o.isKnown || ask != o.asked:
			if o.since == 0 {
				o.since = r.number
			}
			o.isKnown, o.before, o.asked, o.askedIn = true, o.asked, ask, r.number
			r.Partitions, r.Asks = append(r.Partitions, o.p), append(r.Asks, ask)
		}
	}
	clear(f.queue[len(rest):])
	f.queue = rest
	return wake
}

// forget takes a partition out of the session, so that its leader doesn't answer at once, again and again, what can't be helped now.
func (f *Fetcher) forget(o *followed) {
	if o.isKnown {
		o.isKnown = false
		f.forgotten = append(f.forgotten, o.p)
	}
}

// nextEpoch is the session epoch after one; it never is 0 again, which begins a session.
func nextEpoch(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// Answered takes the answer to a request: with an error code that of the whole (the session is unknown: another begins), else each partition's. Partitions take
// what came for them. The ticket is the newest of what was put; when it is durable, call Synced. 0: nothing was put. The first error of a log comes too; its
// partition is asked for again after a while.
func (f *Fetcher) Answered(r *FetchRequest, code int16, session int32, answers []PartitionAnswer, now time.Time) (storage.Ticket, error) {
	taken, ok := f.expect(r, code, session, answers, now)
	if !ok {
		return 0, nil
	}
	var newest storage.Ticket
	var failed error
	for i := range taken { // under no lock of the fetcher: whoever is told of a sync doesn't wait for it
		t := &taken[i]
		if c := t.answer.ErrorCode; c == codeNone || c == codeOffsetOutOfRange { // the log may have to begin where the leader's does
			t.ticket, t.err = t.p.Take(t.answer.FetchAnswer, now)
		}
		newest = max(newest, t.ticket)
		if failed == nil {
			failed = t.err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finish(r)
	for i := range taken {
		f.took(&taken[i], now)
	}
	return newest, failed
}

// taking is a partition with its answer, and what came of it.
type taking struct {
	*followed
	answer *PartitionAnswer
	ticket storage.Ticket
	err    error
}

// expect finds out what the answers are about. The request stays under way, so that no other takes its place yet. false: it is nothing to be taken.
func (f *Fetcher) expect(r *FetchRequest, code int16, session int32, answers []PartitionAnswer, now time.Time) ([]taking, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.inFlight, r) {
		return nil, false
	}
	if code != codeNone {
		f.begin()
		f.back(now)
		return nil, false
	}
	f.pause = 0
	if r.Session == 0 {
		f.session, f.epoch = session, 1
	}
	taken := make([]taking, 0, len(answers))
	for i := range answers {
		a := &answers[i]
		o := f.parts[a.Partition]
		if o == nil || o.since == 0 || o.since > r.number {
			continue
		}
		a.Ask = askOf(r, o)
		taken = append(taken, taking{followed: o, answer: a})
	}
	return taken, true
}

// askOf is what an answer is about: what the session knew of the partition when the request came.
func askOf(r *FetchRequest, o *followed) FetchAsk {
	if o.askedIn > r.number { // by the other one that is under way
		return o.before
	}
	return o.asked
}

// took says what a partition asks for next, and when.
func (f *Fetcher) took(t *taking, now time.Time) {
	o := t.followed
	if f.parts[o.p] != o {
		return
	}
	o.resume = time.Time{}
	switch {
	case t.err != nil:
		o.resume = now.Add(storagePause)
	case t.answer.ErrorCode == codeNone || t.ticket != 0:
	case t.answer.ErrorCode == codeUnknownLeaderEpoch:
		o.resume = now.Add(newsPause)
	default:
		o.resume = now.Add(epochPause)
	}
	if !o.resume.IsZero() {
		f.forget(o)
	}
	f.await(o, t.ticket)
	f.note(o)
}

// Failed says that a request has no answer: the connection is gone. All that was under way is lost with it.
func (f *Fetcher) Failed(r *FetchRequest, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finish(r) {
		f.begin()
		f.back(now)
	}
}

// finish takes a request from those under way; false: it belonged to a session that is over.
func (f *Fetcher) finish(r *FetchRequest) bool {
	i := slices.Index(f.inFlight, r)
	if i < 0 {
		return false
	}
	f.inFlight = slices.Delete(f.inFlight, i, i+1)
	return true
}

// begin has the next request begin a session.
func (f *Fetcher) begin() {
	f.session, f.epoch, f.inFlight = 0, 0, nil
}

// back makes the next request wait, longer each time, and not for as long as others.
func (f *Fetcher) back(now time.Time) {
	f.pause = min(longestPause, max(firstPause, 2*f.pause))
	f.resume = now.Add(f.pause/2 + time.Duration(f.rng.Int64N(int64(f.pause))))
}
