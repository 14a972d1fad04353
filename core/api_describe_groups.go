package core

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
)

// DescribeGroups, key 15, versions 0-6.
//
// A group that isn't there is Dead, from version 6 GROUP_ID_NOT_FOUND.
// Deviations: authorized operations are never computed.
func handleDescribeGroups(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DescribeGroupsRequest)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.SetVersion(req.Version)
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(r.Groups))
	one := gather(len(r.Groups), func() { done(resp) })
	for i, group := range r.Groups {
		b.groups.of(group).ask(func(c *coord.Coordinator) {
			resp.Groups[i] = c.Describe(group, req.Version)
			one()
		})
	}
}
