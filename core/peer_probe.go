package core

import (
	"encoding/json"

	"github.com/weirlog/weir/core/meta"
)

// Probe (32002): who a node is. Version 0. It is asked by those that form or join a cluster, and those that look for their own.

// nodeState is what a node says of itself in Probe.
type nodeState string

const (
	stateFresh   nodeState = "fresh"   // no identity
	stateFounded nodeState = "founded" // a voter of a cluster, of which no node has started yet, as far as it knows
	stateStarted nodeState = "started" // it has started, and nothing has been agreed on yet
	stateMember  nodeState = "member"  // of a cluster that has agreed on something
)

// probeRequest asks a node who it is: private key 32002.
type probeRequest struct{}

// probeAnswer is who it is.
type probeAnswer struct {
	State     nodeState        `json:"state"`
	Node      int32            `json:"node,omitempty"`       // not of a fresh one
	Want      int32            `json:"want,omitempty"`       // fresh or founded: the node.id that it is configured to have
	ClusterID string           `json:"cluster_id,omitempty"` // not of a fresh one
	Join      []string         `json:"join,omitempty"`       // fresh or founded: the list that it was started with
	Nonce     string           `json:"nonce,omitempty"`      // fresh or founded: of this answer's state
	Token     string           `json:"token,omitempty"`      // of its process
	Nodes     map[int32]string `json:"nodes,omitempty"`      // started or member: addresses of its cluster's nodes, as far as it knows
	Members   []int32          `json:"members,omitempty"`    // likewise: of the metadata's group
}

// claimed is the id that a node has or insists on, 0 if neither.
func (a *probeAnswer) claimed() int32 {
	if a.State == stateFresh || a.State == stateFounded {
		return a.Want
	}
	return a.Node
}

func handleProbe(b *Broker, _ *Request, done Done) {
	a, err := b.probe()
	if err != nil {
		done(refusal(keyProbe, err))
		return
	}
	done(privateAnswer(keyProbe, a))
}

// probe is who this node is, now that it has started.
func (b *Broker) probe() (*probeAnswer, error) {
	identity, ok, err := meta.ReadIdentity(b.store)
	if err != nil {
		return nil, err
	}
	a := &probeAnswer{State: stateMember, Node: b.cfg.NodeID, ClusterID: b.ClusterID(), Nodes: b.addresses()}
	if !ok || identity.IsFounded() || len(identity.Voters) == 0 {
		a.State = stateStarted
	}
	if b.tcp != nil {
		a.Token = b.tcp.start
	}
	for _, m := range b.meta.Status().Members {
		a.Members = append(a.Members, m.Node)
	}
	return a, nil
}

// privateAnswer is an answer to a private key as JSON.
func privateAnswer(key int16, answer any) *privateResponse {
	body, err := json.Marshal(answer)
	if err != nil {
		return refusal(key, err)
	}
	return &privateResponse{key: key, body: body}
}
