package core

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
)

const keyFetch = 1

// maxFetchWait is the longest that a long poll is held, whatever the client asks.
const maxFetchWait = time.Minute

// Fetch, key 1, versions 4-18.
//
// Whole batches from the one that holds the offset asked, below the high watermark; at least one batch in the first
// partition that has any, whatever the limits say. A fetch that finds fewer than its min bytes waits, at most its max
// wait, on the partitions it names; it is answered at once when one of them has an error.
// The records are read when the answer is encoded (fetch_answer.go): by the connection's writer, at this answer's turn.
// Fetch sessions are in fetch_session.go.
// Deviations: no diverging epochs and no preferred replicas, as there are no followers yet. Min bytes is counted exactly
// for recent batches; older ones count as enough. A fetch for whose wait there is no memory is answered at once (weight.go).
func handleFetch(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.FetchRequest)
	f := &fetch{FetchResponse: kmsg.NewPtrFetchResponse(), b: b, maxBytes: min(r.MaxBytes, b.cfg.MaxFetchBytes), done: done}
	f.SetVersion(req.Version)
	asks, err := f.begin(r, req.Now)
	if err != nil {
		f.ErrorCode = code(err)
		done(f)
		return
	}
	urgent := f.resolve(asks)
	wait := min(time.Duration(r.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	if urgent || wait <= 0 || r.MinBytes <= 0 || len(f.parts) == 0 {
		done(f)
		return
	}
	f.wait(req, int64(r.MinBytes), wait)
}

// fetch is one fetch and its answer, which reads the records when it is encoded. Of the embedded response only the
// version, the error code and the session id are used.
type fetch struct {
	*kmsg.FetchResponse
	b        *Broker
	all      []fetchPart  // in the order asked
	parts    []*fetchPart // of all, those that have no error so far
	maxBytes int32
	done     Done

	session      *fetchSession // of an incremental fetch
	sessionEpoch int32         // that the fetch has left it with
	isInitial    bool          // the answer begins a session

	watcher *replica.Watcher
	mu      sync.Mutex // timer and ended, while the handler still registers
	timer   *timer
	ended   bool
}

// fetchPart is one partition: what is asked, and what is answered.
type fetchPart struct {
	fetchAsk
	cached    *sessionPart // of an incremental fetch
	part      *replica.Partition
	errorCode int16
	hw, start int64
	pieces    [][]byte
	size      int
	isKnown   bool // the session's client has been told all this: it is left out
}

// begin finds out what is asked: all that the request says, or what its session remembers with what the request changes.
func (f *fetch) begin(r *kmsg.FetchRequest, now time.Time) ([]fetchPart, error) {
	sessions := f.b.sessions
	if r.SessionEpoch == sessionInitial || r.SessionEpoch == sessionFinal {
		sessions.remove(r.SessionID)
		f.isInitial = r.Version >= 7 && r.SessionEpoch == sessionInitial
		parts := make([]fetchPart, 0, fetchPartitions(r))
		for a := range asksOf(r) {
			parts = append(parts, fetchPart{fetchAsk: a})
		}
		return parts, nil
	}
	s := sessions.get(r.SessionID)
	if s == nil {
		return nil, kerr.FetchSessionIDNotFound
	}
	parts, bytes, err := s.next(r)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 || !sessions.touch(s, len(parts), bytes, now) {
		sessions.remove(s.id)
		if len(parts) > 0 {
			return nil, kerr.FetchSessionIDNotFound
		}
		return nil, nil // the client wants nothing any more
	}
	f.session, f.sessionEpoch = s, nextSessionEpoch(r.SessionEpoch)
	return parts, nil
}

// resolve finds the partitions asked. It reports true when one has an error.
func (f *fetch) resolve(parts []fetchPart) bool {
	urgent := false
	f.all = parts
	f.parts = make([]*fetchPart, 0, len(parts))
	for i := range parts {
		p := &parts[i]
		part, err := f.find(&p.fetchKey)
		if err == nil {
			err = checkFetch(part, p.next, p.epoch)
		}
		p.part, p.errorCode, p.hw, p.start = part, code(err), -1, -1
		if err != nil {
			urgent = true
			continue
		}
		f.parts = append(f.parts, p)
	}
	return urgent
}

func (f *fetch) find(key *fetchKey) (*replica.Partition, error) {
	if f.Version >= 13 {
		_, part, err := f.b.partitionByID(meta.ID(key.id), key.index)
		return part, err
	}
	_, part, err := f.b.partition(key.name, key.index)
	return part, err
}

// checkFetch reports an offset that the log doesn't have, or a leader epoch that isn't the present one.
func checkFetch(p *replica.Partition, next int64, epoch int32) error {
	if err := p.CheckEpoch(epoch); err != nil {
		return err
	}
	if log := p.Log(); next < log.StartOffset() || next > log.EndOffset() {
		return kerr.OffsetOutOfRange
	}
	return nil
}

// wait registers the fetch with its partitions and the clock; whichever has enough first answers.
func (f *fetch) wait(req *Request, minBytes int64, wait time.Duration) {
	f.watcher = replica.NewWatcher(minBytes, f.answer)
	if req.mayWait != nil && !req.mayWait(func() { f.watcher.Fire() }) {
		f.done(f)
		return
	}
	for _, p := range f.parts {
		if err := p.part.Watch(f.watcher, p.next); err != nil {
			f.watcher.Fire()
			break
		}
	}
	if f.watcher.Missing() <= 0 {
		f.watcher.Fire()
	}
	f.mu.Lock()
	if !f.ended {
		f.timer = f.b.after(req.Now, wait, func(time.Time) { f.watcher.Fire() })
	}
	ended := f.ended
	f.mu.Unlock()
	if ended {
		f.unwatch() // it was answered while it registered
	}
}

// answer is called once, by the watcher.
func (f *fetch) answer() {
	f.mu.Lock()
	f.ended = true
	timer := f.timer
	f.mu.Unlock()
	if timer != nil {
		f.b.timers.stop(timer)
	}
	f.unwatch()
	f.done(f)
}

func (f *fetch) unwatch() {
	for _, p := range f.parts {
		p.part.Unwatch(f.watcher)
	}
}
