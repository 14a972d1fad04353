package core

import "fmt"

// Found (32003): a fresh or founded node becomes one of a cluster's founders. Version 0. One that has started never does.

// foundRequest makes a fresh or founded node one of a cluster's founders: private key 32003. It is answered when its identity is durable.
type foundRequest struct {
	ClusterID string      `json:"cluster_id"`
	Nodes     []foundNode `json:"nodes"`   // all founders, the asking one first
	Address   string      `json:"address"` // the asked one's
	Nonce     string      `json:"nonce"`   // of its answer to Probe
}

// foundNode is one founder.
type foundNode struct {
	ID      int32  `json:"id"`
	Address string `json:"address"`
}

func handleFound(b *Broker, _ *Request, done Done) {
	done(refusal(keyFound, fmt.Errorf("%w: node %d of cluster %s has started", errFound, b.cfg.NodeID, b.ClusterID())))
}
