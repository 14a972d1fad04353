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
// Fetch sessions are in fetch_session.go. A fetch of a follower, which must be a node of the cluster, is in replica_fetch.go.
// Deviations: consumers are served by leaders only, and not told where logs part (they ask by OffsetForLeaderEpoch). Min bytes is counted exactly
// for recent batches; older ones count as enough. A fetch for whose wait there is no memory is answered at once (weight.go).
func handleFetch(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.FetchRequest)
	if id := replicaID(r); id >= 0 {
		if req.Peer > 0 && id == req.Peer && r.Version >= 15 {
			handleFollowerFetch(b, req, done)
		} else {
			refuseFollower(req, done)
		}
		return
	}
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

// replicaID is the node that a fetch says it comes from, negative for a consumer's.
func replicaID(r *kmsg.FetchRequest) int32 {
	if r.Version >= 15 {
		return r.ReplicaState.ID
	}
	return r.ReplicaID
}

// refuseFollower answers one that says it is a node of the cluster and hasn't proved it.
func refuseFollower(req *Request, done Done) {
	if req.Version < 7 { // there is no error of the whole
		done(hangUp{})
		return
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(req.Version)
	resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
	done(resp)
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

	follower *followerSession // of a follower's fetch; then session is not used
	number   int64            // in that

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

	diverging *replica.Diverging // to a follower
	leader    *partLeader        // to a client that has come to the wrong node
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
	refused := f.b.refusal()
	for i := range parts {
		p := &parts[i]
		part, err := f.find(&p.fetchKey)
		switch {
		case err != nil:
		case refused != nil:
			err = refused
		default:
			err = checkFetch(part, p.next, p.epoch)
		}
		if err == nil && p.next >= part.HighWatermark() { // it would wait for records that others get
			err = f.b.outOfTouch(part)
		}
		p.part, p.hw, p.start = part, -1, -1
		if f.fail(p, err); err != nil {
			urgent = true
			continue
		}
		f.parts = append(f.parts, p)
	}
	return urgent
}

// partLeader is who leads a partition, as far as this node knows.
type partLeader struct{ id, epoch int32 }

// fail notes a partition's error, and where to go instead (KIP-951).
func (f *fetch) fail(p *fetchPart, err error) {
	p.errorCode = code(err)
	if f.Version < 16 || p.errorCode != kerr.NotLeaderForPartition.Code && p.errorCode != kerr.FencedLeaderEpoch.Code {
		return
	}
	if id, epoch := f.b.topics.byID(meta.ID(p.id)).leaderHint(p.index, p.errorCode); epoch >= 0 {
		p.leader = &partLeader{id, epoch}
	}
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
