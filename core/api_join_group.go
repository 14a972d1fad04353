package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup, key 11, versions 0-9.
//
// The answer comes when the rebalance is over. Version 0 has no rebalance timeout; until version 3 a new member gets
// its id with the answer, from version 4 first its id alone (MEMBER_ID_REQUIRED); static members from version 5.
// Deviations: the first rebalance of a group isn't delayed (group.initial.rebalance.delay.ms is 0 unless set); the
// reason (version 8) is not kept.
func handleJoinGroup(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.JoinGroupRequest)
	random, err := b.memberSuffix()
	if err != nil {
		b.log.Error("no random numbers for a member's id", "error", err)
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.SetVersion(req.Version)
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		done(resp)
		return
	}
	b.groups.of(r.Group).handle(req, r, random, done)
}
