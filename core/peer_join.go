package core

import (
	"encoding/json"
	"fmt"

	"github.com/weirlog/weir/core/meta"
)

// Join (32004): a node gets an id, or, with the id that it has, is made a member of the metadata's group by the one that leads it. Version 0.

// joinRequest asks a member for an id (private key 32004), or, with the id that the node got so, to make it a member of the metadata's group.
type joinRequest struct {
	Want    int32  `json:"want,omitempty"`    // node.id; 0: any that is free
	Node    int32  `json:"node,omitempty"`    // the id that it has
	Address string `json:"address,omitempty"` // advertised
}

// joinAnswer is what it got.
type joinAnswer struct {
	Node      int32  `json:"node"`
	ClusterID string `json:"cluster_id"`
}

func handleJoin(b *Broker, req *Request, done Done) {
	var r joinRequest
	if err := json.Unmarshal(req.Body.(*privateRequest).body, &r); err != nil || r.Want < 0 || r.Node < 0 {
		done(refusal(keyJoin, fmt.Errorf("%w: Join", errPrivateBody)))
		return
	}
	answer := func(id int32, err error) {
		if err != nil {
			done(refusal(keyJoin, err))
			return
		}
		done(privateAnswer(keyJoin, joinAnswer{Node: id, ClusterID: b.ClusterID()}))
	}
	if r.Node != 0 {
		b.introduced(r.Node, r.Address)
		b.admit(r.Node, req.Now, func(err error) { answer(r.Node, err) })
		return
	}
	b.propose(meta.Command{AllocateNodeID: &meta.AllocateNodeID{Want: r.Want}}, req.Now, func(res meta.Result, err error) {
		if err == nil {
			b.log.Info("a node joins", "node", res.NodeID, "address", r.Address)
		}
		answer(res.NodeID, err)
	})
}
