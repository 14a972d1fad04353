package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// UnregisterBroker, key 64, version 0.
//
// A broker that has gone for good is forgotten; its id is never given again.
// Deviations: one that is active, or has replicas still, is refused (INVALID_REQUEST), with the reason.
func handleUnregisterBroker(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.UnregisterBrokerRequest)
	c := meta.Command{UnregisterBroker: &meta.UnregisterBroker{ID: r.BrokerID}}
	b.propose(c, req.Now, func(_ meta.Result, err error) {
		resp := kmsg.NewPtrUnregisterBrokerResponse()
		resp.SetVersion(req.Version)
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		done(resp)
	})
}
