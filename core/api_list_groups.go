package core

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
)

// ListGroups, key 16, versions 0-5.
//
// Filters by state (version 4) and type (version 5); all groups are of type classic. While a part of the groups is
// loading, the answer holds the others and COORDINATOR_LOAD_IN_PROGRESS. Each node lists those that it coordinates.
// Deviations: none.
func handleListGroups(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.ListGroupsRequest)
	resp := kmsg.NewPtrListGroupsResponse()
	resp.SetVersion(req.Version)
	if b.refusal() != nil {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		done(resp)
		return
	}
	var mu sync.Mutex
	shards := b.groups.all()
	one := gather(len(shards), func() { done(resp) })
	for _, s := range shards {
		s.ask(func(c *coord.Coordinator) {
			groups, errorCode := c.List(r.StatesFilter, r.TypesFilter)
			mu.Lock()
			resp.Groups = append(resp.Groups, groups...)
			if errorCode != 0 {
				resp.ErrorCode = errorCode
			}
			mu.Unlock()
			one()
		})
	}
}
