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
	epochPause   = 100 * time.Millisecond // of a partition that its leader refused: the image will tell, or the leader hear of it
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
	codeNone             = 0
	codeOffsetOutOfRange = 1
)

// NewFetcher makes the fetcher from one leader, with nothing to fetch. rng spreads pauses.
func NewFetcher(leader int32, rng *rand.Rand) *Fetcher {
	return &Fetcher{leader: leader, rng: rng, parts: make(map[*Partition]*followed)}
}

// Leader is the node that is asked.
func (f *Fetcher) Leader() int32 { return f.leader }

// Set says which partitions are followed there: exactly these.
func (f *Fetcher) Set(parts []*Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := make(map[*Partition]bool, len(parts))
	for _, p := range parts {
		wanted[p] = true
		if f.parts[p] == nil {
			f.parts[p] = &followed{p: p}
		}
		f.note(f.parts[p])
	}
	var gone []*Partition
	for p, o := range f.parts {
		if !wanted[p] {
			if o.isKnown {
				gone = append(gone, p)
			}
			delete(f.parts, p)
		}
	}
	slices.SortFunc(gone, byName)
	f.forgotten = append(f.forgotten, gone...)
	f.queue = slices.DeleteFunc(f.queue, func(o *followed) bool { return f.parts[o.p] != o })
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

// Changed says that a partition's ask may have changed: it was assigned anew.
func (f *Fetcher) Changed(p *Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.parts[p]; o != nil {
		o.resume = time.Time{}
		f.note(o)
	}
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
			f.forgotten = slices.DeleteFunc(f.forgotten, func(p *Partition) bool { return p == o.p })
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
// what came for them. The ticket is the newest of what was put; when it is durable, call Synced. 0: nothing was put.
func (f *Fetcher) Answered(r *FetchRequest, code int16, session int32, answers []PartitionAnswer, now time.Time) storage.Ticket {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.finish(r) {
		return 0
	}
	if code != codeNone {
		f.begin()
		f.back(now)
		return 0
	}
	f.pause = 0
	if r.Session == 0 {
		f.session, f.epoch = session, 1
	}
	var newest storage.Ticket
	for i := range answers {
		a := &answers[i]
		o := f.parts[a.Partition]
		if o == nil {
			continue
		}
		a.Ask = askOf(r, o)
		ticket := f.take(o, a, now)
		newest = max(newest, ticket)
	}
	return newest
}

// askOf is what an answer is about: what the session knew of the partition when the request came.
func askOf(r *FetchRequest, o *followed) FetchAsk {
	if o.askedIn > r.number { // by the other one that is under way
		return o.before
	}
	return o.asked
}

// take gives a partition its answer, and says what it asks for next, and when.
func (f *Fetcher) take(o *followed, a *PartitionAnswer, now time.Time) storage.Ticket {
	var ticket storage.Ticket
	var err error
	if a.ErrorCode == codeNone || a.ErrorCode == codeOffsetOutOfRange { // the log may have to begin where the leader's does
		ticket, err = o.p.Take(a.FetchAnswer, now)
	}
	o.resume = time.Time{}
	switch {
	case err != nil:
		o.resume = now.Add(storagePause)
	case a.ErrorCode != codeNone && ticket == 0:
		o.resume = now.Add(epochPause)
	}
	if !o.resume.IsZero() {
		f.forget(o)
	}
	if ticket > 0 && o.ticket == 0 {
		f.unsynced = append(f.unsynced, o)
	}
	o.ticket = max(o.ticket, ticket)
	f.note(o)
	return ticket
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
