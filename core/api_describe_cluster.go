package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endpointBrokers is the endpoint type of broker listeners (version 1).
const endpointBrokers = 1

// DescribeCluster, key 60, versions 0-2.
//
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
	resp.ControllerID = b.cfg.NodeID
	me := kmsg.NewDescribeClusterResponseBroker()
	me.NodeID = b.cfg.NodeID
	me.Host, me.Port = b.address()
	if b.cfg.Rack != "" {
		me.Rack = &b.cfg.Rack
	}
	resp.Brokers = append(resp.Brokers, me)
	done(resp)
}
