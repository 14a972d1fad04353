package core

import "github.com/twmb/franz-go/pkg/kmsg"

// Heartbeat, key 12, versions 0-4.
//
// Deviations: none.
func handleHeartbeat(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.HeartbeatRequest)
	b.groups.of(r.Group).handle(req, r, "", done)
}
