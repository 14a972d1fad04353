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
// Deviations: no fetch sessions (session id 0 in every answer, which every client takes as "send it all again");
// no diverging epochs and no preferred replicas, as there are no followers yet. Min bytes is counted exactly for
// recent batches; older ones count as enough.
func handleFetch(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.FetchRequest)
	f := &fetch{FetchResponse: kmsg.NewPtrFetchResponse(), b: b, maxBytes: min(r.MaxBytes, b.cfg.MaxFetchBytes), done: done}
	f.SetVersion(req.Version)
	if r.SessionID != 0 {
		f.ErrorCode = kerr.FetchSessionIDNotFound.Code
		done(f)
		return
	}
	urgent := f.resolve(r)
	wait := min(time.Duration(r.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	if urgent || wait <= 0 || r.MinBytes <= 0 || len(f.parts) == 0 {
		done(f)
		return
	}
	f.wait(req, int64(r.MinBytes), wait)
}

// fetch is one fetch and its answer, which reads the records when it is encoded. Of the embedded response only the
// version and the error code are used.
type fetch struct {
	*kmsg.FetchResponse
	b        *Broker
	topics   []fetchTopic
	parts    []*fetchPart // of topics, those that have no error so far
	maxBytes int32
	done     Done

	watcher *replica.Watcher
	mu      sync.Mutex // timer and ended, while the handler still registers
	timer   *timer
	ended   bool
}

type fetchTopic struct {
	name  string
	id    [16]byte
	parts []fetchPart
}

// fetchPart is one partition: what is asked, and what is answered.
type fetchPart struct {
	index     int32
	part      *replica.Partition
	next      int64
	maxBytes  int32
	errorCode int16
	hw, start int64
	pieces    [][]byte
	size      int
}

// resolve finds the partitions asked. It reports true when one has an error.
func (f *fetch) resolve(r *kmsg.FetchRequest) bool {
	urgent := false
	f.topics = make([]fetchTopic, len(r.Topics))
	for i := range r.Topics {
		from, to := &r.Topics[i], &f.topics[i]
		to.name, to.id = from.Topic, from.TopicID
		to.parts = make([]fetchPart, len(from.Partitions))
		for j := range from.Partitions {
			ask, p := &from.Partitions[j], &to.parts[j]
			part, err := f.find(r.Version, from, ask.Partition)
			if err == nil {
				err = checkFetch(part, ask.FetchOffset, ask.CurrentLeaderEpoch)
			}
			*p = fetchPart{
				index: ask.Partition, part: part, next: ask.FetchOffset, maxBytes: ask.PartitionMaxBytes,
				errorCode: code(err), hw: -1, start: -1,
			}
			if err != nil {
				urgent = true
				continue
			}
			f.parts = append(f.parts, p)
		}
	}
	return urgent
}

func (f *fetch) find(version int16, t *kmsg.FetchRequestTopic, index int32) (*replica.Partition, error) {
	if version >= 13 {
		_, part, err := f.b.partitionByID(meta.ID(t.TopicID), index)
		return part, err
	}
	_, part, err := f.b.partition(t.Topic, index)
	return part, err
}

// checkFetch reports an offset that the log doesn't have, or a leader epoch that isn't the present one.
func checkFetch(p *replica.Partition, next int64, epoch int32) error {
	if err := checkEpoch(p, epoch); err != nil {
		return err
	}
	if log := p.Log(); next < log.StartOffset() || next > log.EndOffset() {
		return kerr.OffsetOutOfRange
	}
	return p.Err()
}

// checkEpoch compares the leader epoch that a client believes in with the partition's; negative means that it has none.
func checkEpoch(p *replica.Partition, epoch int32) error {
	switch current := p.LeaderEpoch(); {
	case epoch < 0 || epoch == current:
		return nil
	case epoch < current:
		return kerr.FencedLeaderEpoch
	default:
		return kerr.UnknownLeaderEpoch
	}
}

// wait registers the fetch with its partitions and the clock; whichever has enough first answers.
func (f *fetch) wait(req *Request, minBytes int64, wait time.Duration) {
	f.watcher = replica.NewWatcher(minBytes, f.answer)
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
