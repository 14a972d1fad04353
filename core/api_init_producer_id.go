package core

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// InitProducerId, key 22, versions 0-5.
//
// Without a transactional id: a new producer id with epoch 0, or, when the producer names the id and epoch it has
// (version 3), the same id with the next epoch, as long as there is one. Any node answers; without a leader of the metadata, or before this
// node is one of the cluster, COORDINATOR_LOAD_IN_PROGRESS.
// Deviations: with a transactional id the answer is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients don't
// retry: there are no transactions yet.
func handleInitProducerID(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.InitProducerIDRequest)
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.SetVersion(req.Version)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if r.TransactionalID != nil {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		if *r.TransactionalID == "" {
			resp.ErrorCode = kerr.InvalidRequest.Code
		}
		done(resp)
		return
	}
	if r.Version >= 3 && r.ProducerID >= 0 && r.ProducerEpoch >= 0 && r.ProducerEpoch < math.MaxInt16-1 {
		resp.ProducerID, resp.ProducerEpoch = r.ProducerID, r.ProducerEpoch+1
		done(resp)
		return
	}
	b.ids.next(b, req, func(id int64, err error) {
		if errors.Is(err, meta.ErrNoLeader) || err != nil && b.refusal() != nil {
			err = fmt.Errorf("%w: %w", kerr.CoordinatorLoadInProgress, err) // as in Kafka: clients try again
		}
		resp.ErrorCode = code(err)
		if err == nil {
			resp.ProducerID, resp.ProducerEpoch = id, 0
		}
		done(resp)
	})
}

// producerIDs hands out producer ids from a block that the metadata has given to this node. A restart wastes what is
// left of the block.
type producerIDs struct {
	mu        sync.Mutex
	free, end int64 // [free, end) is ours
	asking    bool
	waiting   []func(int64, error)
}

// next calls done with an id that nobody had before, asking for a block when there is none left.
func (ids *producerIDs) next(b *Broker, req *Request, done func(int64, error)) {
	ids.mu.Lock()
	if ids.free < ids.end && len(ids.waiting) == 0 {
		id := ids.free
		ids.free++
		ids.mu.Unlock()
		done(id, nil)
		return
	}
	ids.waiting = append(ids.waiting, done)
	ask := !ids.asking
	ids.asking = true
	ids.mu.Unlock()
	if ask {
		ids.ask(b, req)
	}
}

func (ids *producerIDs) ask(b *Broker, req *Request) {
	count := b.cfg.ProducerIDBlock
	c := meta.Command{AllocateProducerIDs: &meta.AllocateProducerIDs{Broker: b.cfg.NodeID, Count: count}}
	b.propose(c, req.Now, func(r meta.Result, err error) {
		ids.mu.Lock()
		var ready []func(int64, error)
		if err != nil {
			ready, ids.waiting = ids.waiting, nil
		} else {
			ids.free, ids.end = r.FirstProducerID, r.FirstProducerID+count
			n := min(int64(len(ids.waiting)), count)
			ready, ids.waiting = ids.waiting[:n:n], ids.waiting[n:]
		}
		first := ids.free
		if err == nil {
			ids.free += int64(len(ready))
		}
		ids.asking = len(ids.waiting) > 0
		again := ids.asking
		ids.mu.Unlock()
		for i, done := range ready {
			done(first+int64(i), err)
		}
		if again {
			ids.ask(b, req)
		}
	})
}
