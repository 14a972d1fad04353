package core

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
	Token     string           `json:"token,omitempty"`      // fresh or founded: of its process
	Nodes     map[int32]string `json:"nodes,omitempty"`      // started or member: addresses of its cluster's nodes, as far as it knows
}

// claimed is the id that a node has or insists on, 0 if neither.
func (a *probeAnswer) claimed() int32 {
	if a.State == stateFresh || a.State == stateFounded {
		return a.Want
	}
	return a.Node
}
