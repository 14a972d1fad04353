package core

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// coordinatorOfGroup is the key type of groups (version 1).
const coordinatorOfGroup = 0

// FindCoordinator, key 10, versions 0-6.
//
// One key until version 3, many from version 4. The first call creates __consumer_offsets. A group is coordinated by the leader of its
// partition of that topic.
// Deviations: transactions (key type 1) are answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients don't retry,
// and share groups (2) INVALID_REQUEST: there are none yet.
func handleFindCoordinator(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.FindCoordinatorRequest)
	keys := r.CoordinatorKeys
	if r.Version < 4 {
		keys = []string{r.CoordinatorKey}
	}
	if err := checkCoordinatorType(r.CoordinatorType); err != nil {
		done(b.coordinators(r.Version, keys, err))
		return
	}
	b.ensureGroups(req.Now, func(err error) {
		if err != nil {
			err = fmt.Errorf("create %s: %w: %w", offsetsTopic, kerr.CoordinatorNotAvailable, err)
			b.log.Warn("groups can't be coordinated", "error", err)
		}
		done(b.coordinators(r.Version, keys, err))
	})
}

func checkCoordinatorType(kind int8) error {
	switch kind {
	case coordinatorOfGroup:
		return nil
	case 1:
		return fmt.Errorf("transactions are not supported yet: %w", kerr.TransactionalIDAuthorizationFailed)
	default:
		return fmt.Errorf("coordinator type %d is not supported: %w", kind, kerr.InvalidRequest)
	}
}

func (b *Broker) coordinators(version int16, keys []string, err error) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.SetVersion(version)
	for _, key := range keys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Port = key, -1, -1
		failed := err
		if failed == nil {
			var n meta.Broker
			if n, failed = b.coordinator(key); failed == nil {
				c.NodeID, c.Host, c.Port = n.ID, n.Host, n.Port
			}
		}
		c.ErrorCode, c.ErrorMessage = code(failed), message(failed)
		if version < 4 {
			resp.NodeID, resp.Host, resp.Port, resp.ErrorCode, resp.ErrorMessage = c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage
			return resp
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp
}
