package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topicRule is one group of topic.creation rules: what a topic that it matches is made like.
type topicRule struct {
	include, exclude []*regexp.Regexp // include of the default group is empty: it matches all
	partitions       int32            // -1: the broker's default
	replicas         int16            // -1: the broker's default
	settings         map[string]*string
}

// parseTopicRules reads topic.creation.*; the default group comes last. No key of the kind gives no rules.
func parseTopicRules(config map[string]string) ([]topicRule, error) {
	const prefix = "topic.creation."
	any := false
	for k := range config {
		if strings.HasPrefix(k, prefix) {
			any = true
		}
	}
	if !any {
		return nil, nil
	}
	var rules []topicRule
	names := append(splitList(config[prefix+"groups"]), "default")
	for _, name := range names {
		rule := topicRule{partitions: -1, replicas: -1, settings: map[string]*string{}}
		group := prefix + name + "."
		for k, v := range config {
			key, ok := strings.CutPrefix(k, group)
			if !ok {
				continue
			}
			if err := rule.set(key, v); err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
		}
		if name == "default" {
			for _, need := range []string{"replication.factor", "partitions"} {
				if _, ok := config[group+need]; !ok {
					return nil, fmt.Errorf("%s%s: missing; it is required once any topic.creation key is set (-1: the broker's default)", group, need)
				}
			}
			rule.include = nil
		} else if len(rule.include) == 0 {
			return nil, fmt.Errorf("%sinclude: missing; the group would match no topic", group)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func splitList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func (r *topicRule) set(key, value string) error {
	number := func() (int64, error) {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 16)
		if err == nil && n != -1 && n < 1 {
			err = errors.New("must be -1 or at least 1")
		}
		return n, err
	}
	patterns := func() (out []*regexp.Regexp, err error) {
		for _, item := range splitList(value) {
			re, err := wholeRegexp(item)
			if err != nil {
				return nil, err
			}
			out = append(out, re)
		}
		return out, nil
	}
	var err error
	var n int64
	switch key {
	case "partitions":
		n, err = number()
		r.partitions = int32(n)
	case "replication.factor":
		n, err = number()
		r.replicas = int16(n)
	case "include":
		r.include, err = patterns()
	case "exclude":
		r.exclude, err = patterns()
	default:
		r.settings[key] = &value
	}
	return err
}

func (r *topicRule) matches(topic string) bool {
	for _, re := range r.exclude {
		if re.MatchString(topic) {
			return false
		}
	}
	for _, re := range r.include {
		if re.MatchString(topic) {
			return true
		}
	}
	return len(r.include) == 0
}

// ensureTopic makes a topic by the first rule that matches, or with the broker's defaults, if it isn't there. It repeats
// what fails for the moment until ctx ends.
func ensureTopic(ctx context.Context, admin *kadm.Client, topic string, rules []topicRule, log *slog.Logger) error {
	rule := topicRule{partitions: -1, replicas: -1}
	for i := range rules {
		if rules[i].matches(topic) {
			rule = rules[i]
			break
		}
	}
	back := backoff{min: 100 * time.Millisecond, max: 5 * time.Second}
	for {
		err := tryTopic(ctx, admin, topic, rule, log)
		if err == nil {
			return nil
		}
		retry := kerr.IsRetriable(err) || !errors.As(err, new(*kerr.Error))
		if !retry || ctx.Err() != nil || !back.sleep(ctx) {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
		log.Warn("topic can't be created yet, trying again", "topic", topic, "error", err)
	}
}

func tryTopic(ctx context.Context, admin *kadm.Client, topic string, rule topicRule, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	meta, err := admin.Metadata(ctx, topic)
	if err != nil {
		return err
	}
	t := meta.Topics[topic]
	if t.Err == nil || !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
		return t.Err
	}
	if n := len(meta.Brokers); rule.replicas > int16(n) {
		log.Warn("fewer brokers than replicas asked for, using what there is", "topic", topic, "asked", rule.replicas, "brokers", n)
		rule.replicas = int16(n)
	}
	r, err := admin.CreateTopic(ctx, rule.partitions, rule.replicas, rule.settings, topic)
	if err == nil {
		err = r.Err
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}
