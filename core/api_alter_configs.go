package core

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// AlterConfigs, key 33, versions 0-2: what kafkajs and old tools send.
//
// A topic's configs are replaced by those given; what isn't given falls back to its default.
// Deviations: as for key 44.
func handleAlterConfigs(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.AlterConfigsRequest)
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.SetVersion(req.Version)
	alters := make([]alteration, len(r.Resources))
	for i := range r.Resources {
		ask := &r.Resources[i]
		to := kmsg.NewAlterConfigsResponseResource()
		to.ResourceType, to.ResourceName = ask.ResourceType, ask.ResourceName
		resp.Resources = append(resp.Resources, to)
		alters[i] = b.alteration(ask.ResourceType, ask.ResourceName, len(ask.Configs), func(_ *topic, a *meta.AlterTopicConfigs, i int) error {
			c := &ask.Configs[i]
			if c.Value == nil {
				return fmt.Errorf("%w %s: null", errConfigValue, c.Name)
			}
			return setConfig(a, c.Name, *c.Value)
		})
		if alters[i].command != nil {
			alters[i].command.Clear = true
		}
	}
	b.alterAll(req, alters, r.ValidateOnly, func(i int, err error) {
		resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = code(err), message(err)
	}, func() { done(resp) })
}
