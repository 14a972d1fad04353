package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// endpointBrokers is the endpoint type of broker listeners (version 1).
const endpointBrokers = 1

// DescribeCluster, key 60, versions 0-2.
//
// Every broker that clients may use; fenced ones too if they are asked for (version 2).
// Deviations: controllers have no listener of their own, so asking for their endpoints is refused as a broker does;
// authorized operations are never computed.
func handleDescribeCluster(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.SetVersion(req.Version)
	if r.Version >= 1 && r.EndpointType != endpointBrokers {
		resp.ErrorCode = kerr.MismatchedEndpointType.Code
		done(resp)
		return
	}
	resp.EndpointType = endpointBrokers
	resp.ClusterID = b.ClusterID()
	resp.ControllerID = b.controller(b.alive())
	for _, n := range b.nodes() {
		isFenced := n.State == meta.BrokerFenced
		if isFenced && !r.IncludeFencedBrokers {
			continue
		}
		to := kmsg.NewDescribeClusterResponseBroker()
		to.NodeID, to.Host, to.Port, to.Rack, to.IsFenced = n.ID, n.Host, n.Port, optional(n.Rack), isFenced
		resp.Brokers = append(resp.Brokers, to)
	}
	done(resp)
}
