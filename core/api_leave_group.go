package core

import "github.com/twmb/franz-go/pkg/kmsg"

// LeaveGroup, key 13, versions 0-5.
//
// One member until version 2, many from version 3, where a static member may be named by its instance id alone.
// Deviations: the reason (version 5) is not kept.
func handleLeaveGroup(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.LeaveGroupRequest)
	b.groups.of(r.Group).handle(req, r, "", done)
}
