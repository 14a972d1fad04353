package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const keyAPIVersions = 18

// ApiVersions, key 18, versions 0-5.
//
// A version that isn't known is answered with a version 0 body, error 35 and the whole table (KIP-511), so that the
// client can try again; the connection stays. The response header is always version 0.
// Deviations: no features are finalized (there are no transactions yet); v5's cluster id and node id are checked as
// KIP-1242 says, when given.
func handleAPIVersions(b *Broker, req *Request, done Done) {
	resp := kmsg.NewPtrApiVersionsResponse()
	for _, row := range b.table.rows {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = row.key, row.min, row.max
		resp.ApiKeys = append(resp.ApiKeys, key)
	}
	r, ok := req.Body.(*kmsg.ApiVersionsRequest)
	if !ok {
		resp.SetVersion(0)
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		done(resp)
		return
	}
	resp.SetVersion(req.Version)
	if r.Version >= 5 && !b.isMe(r.ClusterID, r.NodeID) {
		resp.ErrorCode = kerr.RebootstrapRequired.Code
		resp.ApiKeys = nil
	}
	done(resp)
}

// isMe reports whether a client that names the cluster or node it expects has found it.
func (b *Broker) isMe(cluster *string, node int32) bool {
	if cluster != nil && *cluster != b.ClusterID() {
		return false
	}
	return node < 0 || node == b.cfg.NodeID
}
