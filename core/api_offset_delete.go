package core

import "github.com/twmb/franz-go/pkg/kmsg"

// OffsetDelete, key 47, version 0.
//
// Answered when the deletion is durable. A group with members keeps the offsets of the topics that they read.
// Deviations: none.
func handleOffsetDelete(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.OffsetDeleteRequest)
	b.groups.of(r.Group).handle(req, r, "", done)
}
