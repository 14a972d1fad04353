package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
)

// IncrementalAlterConfigs, key 44, versions 0-1.
//
// Topic configs are set, deleted, and, where they are lists, appended to and subtracted from. A change is durable and
// in force when it is answered; all of a resource's changes are made, or none.
// Deviations: a broker's configs can't be changed while it runs (replication is never throttled, so that deleting its throttles changes nothing
// and is taken); what append and subtract come to is computed from the configs when the request comes in.
func handleIncrementalAlterConfigs(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.SetVersion(req.Version)
	alters := make([]alteration, len(r.Resources))
	for i := range r.Resources {
		ask := &r.Resources[i]
		to := kmsg.NewIncrementalAlterConfigsResponseResource()
		to.ResourceType, to.ResourceName = ask.ResourceType, ask.ResourceName
		resp.Resources = append(resp.Resources, to)
		if isUnthrottling(ask) {
			continue
		}
		alters[i] = b.alteration(ask.ResourceType, ask.ResourceName, len(ask.Configs), func(t *topic, a *meta.AlterTopicConfigs, i int) error {
			return alter(t.configs, a, &ask.Configs[i])
		})
	}
	b.alterAll(req, alters, r.ValidateOnly, func(i int, err error) {
		resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = code(err), message(err)
	}, func() { done(resp) })
}

// isUnthrottling says that a broker is asked for no more than to replicate as fast as it can: kafka-reassign-partitions does so when it has moved
// something.
func isUnthrottling(ask *kmsg.IncrementalAlterConfigsRequestResource) bool {
	return ask.ResourceType == kmsg.ConfigResourceTypeBroker && !slices.ContainsFunc(ask.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
		switch c.Name {
		case "leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second":
			return c.Op != kmsg.IncrementalAlterConfigOpDelete
		}
		return true
	})
}

// alter adds one change to a.
func alter(configs topicConfigs, a *meta.AlterTopicConfigs, ask *kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	if ask.Op == kmsg.IncrementalAlterConfigOpDelete {
		if _, err := topicKey(ask.Name); err != nil {
			return err
		}
		a.Remove = append(a.Remove, ask.Name)
		return nil
	}
	if ask.Value == nil {
		return fmt.Errorf("%w %s: null", errConfigValue, ask.Name)
	}
	value := *ask.Value
	switch ask.Op {
	case kmsg.IncrementalAlterConfigOpSet:
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		key, err := topicKey(ask.Name)
		if err != nil {
			return err
		}
		if key.kind != kindList {
			return fmt.Errorf("%w %s: it is no list to append to or subtract from", errConfigValue, ask.Name)
		}
		value = changeList(configs.value(key), value, ask.Op == kmsg.IncrementalAlterConfigOpAppend)
	default:
		return fmt.Errorf("%s: operation %d: %w", ask.Name, ask.Op, kerr.InvalidRequest)
	}
	return setConfig(a, ask.Name, value)
}

func setConfig(a *meta.AlterTopicConfigs, name, value string) error {
	if err := checkTopicConfig(name, value); err != nil {
		return err
	}
	a.Set[name] = value
	return nil
}

// changeList adds the elements of change to a comma-separated list, or takes them away.
func changeList(list, change string, add bool) string {
	var elements []string
	for e := range strings.SplitSeq(list, ",") {
		if e = strings.TrimSpace(e); e != "" {
			elements = append(elements, e)
		}
	}
	for e := range strings.SplitSeq(change, ",") {
		e = strings.TrimSpace(e)
		i := slices.Index(elements, e)
		switch {
		case add && i < 0 && e != "":
			elements = append(elements, e)
		case !add && i >= 0:
			elements = slices.Delete(elements, i, i+1)
		}
	}
	return strings.Join(elements, ",")
}

// alteration is what one resource of an alter request comes to: a command, or an error; nothing if it changes nothing.
type alteration struct {
	command *meta.AlterTopicConfigs
	err     error
}

// alteration collects a resource's changes by calling each for every one of them.
func (b *Broker) alteration(kind kmsg.ConfigResourceType, name string, changes int, each func(*topic, *meta.AlterTopicConfigs, int) error) alteration {
	if kind != kmsg.ConfigResourceTypeTopic {
		return alteration{err: fmt.Errorf("configs of resource type %d can't be changed while the broker runs: %w", kind, kerr.InvalidRequest)}
	}
	if err := checkTopicName(name); err != nil {
		return alteration{err: err}
	}
	t := b.topics.byName(name)
	if t == nil {
		return alteration{err: b.unknown(errUnknownTopic)}
	}
	a := &meta.AlterTopicConfigs{ID: t.ID, Set: make(map[string]string)}
	var faults []error
	for i := range changes {
		if err := each(t, a, i); err != nil {
			faults = append(faults, err)
		}
	}
	return alteration{command: a, err: errors.Join(faults...)}
}

// alterAll proposes what has no error, gives each resource's result, and calls done after the last.
func (b *Broker) alterAll(req *Request, alters []alteration, validateOnly bool, each func(int, error), done func()) {
	var names []string
	index := make(map[string]int)
	for i, a := range alters {
		if a.err != nil || a.command == nil || validateOnly {
			each(i, a.err)
			continue
		}
		name := fmt.Sprint(i)
		names, index[name] = append(names, name), i
	}
	start := func(name string, answer func(error)) {
		c := meta.Command{AlterTopicConfigs: alters[index[name]].command}
		b.propose(c, req.Now, func(_ meta.Result, err error) { answer(err) })
	}
	forAll(names, start, func(name string, err error) { each(index[name], err) }, done)
}
