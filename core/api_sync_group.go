package core

import "github.com/twmb/franz-go/pkg/kmsg"

// SyncGroup, key 14, versions 0-5.
//
// The leader's call stores the assignment; everybody is answered when it is durable. Assignments are bytes.
// Deviations: none.
func handleSyncGroup(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.SyncGroupRequest)
	b.groups.of(r.Group).handle(req, r, "", done)
}
