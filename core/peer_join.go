package core

// joinRequest asks a member for an id (private key 32004), or, with the id that the node got so, to make it a member of the metadata's group.
type joinRequest struct {
	Want    int32  `json:"want,omitempty"`    // node.id; 0: any that is free
	Node    int32  `json:"node,omitempty"`    // the id that it has
	Address string `json:"address,omitempty"` // advertised
}

// joinAnswer is what it got.
type joinAnswer struct {
	Node      int32            `json:"node"`
	ClusterID string           `json:"cluster_id"`
	Nodes     map[int32]string `json:"nodes,omitempty"` // addresses of the cluster's nodes
}
