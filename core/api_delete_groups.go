package core

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
)

// DeleteGroups, key 42, versions 0-3.
//
// Groups without members, with their offsets; each is answered when its deletion is durable.
// Deviations: none.
func handleDeleteGroups(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DeleteGroupsRequest)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.SetVersion(req.Version)
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(r.Groups))
	one := gather(len(r.Groups), func() { done(resp) })
	for i, group := range r.Groups {
		s := b.groups.of(group)
		finish := func(answer kmsg.Response) {
			resp.Groups[i] = answer.(*kmsg.DeleteGroupsResponse).Groups[0]
			if err := kerr.ErrorForCode(resp.Groups[i].ErrorCode); err != nil {
				resp.Groups[i].ErrorMessage = message(err)
			}
			one()
		}
		s.post(func(c *coord.Coordinator) coord.Effects { return c.Delete(s.wait(finish), group, req.Now) })
	}
}
