package core

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConfigs, key 32, versions 1-4.
//
// Topics: every topic config that Kafka knows, with where its value comes from and, if asked, the values that it hides.
// Brokers: this node's, or with an empty name the cluster's dynamic ones, of which there are none.
// Deviations: documentation is left out; broker loggers and other kinds are answered with INVALID_REQUEST.
func handleDescribeConfigs(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.SetVersion(req.Version)
	for i := range r.Resources {
		ask := &r.Resources[i]
		to := kmsg.NewDescribeConfigsResponseResource()
		to.ResourceType, to.ResourceName = ask.ResourceType, ask.ResourceName
		configs, err := b.describe(ask, r.IncludeSynonyms)
		to.ErrorCode, to.ErrorMessage = code(err), message(err)
		for _, c := range configs {
			if ask.ConfigNames == nil || slices.Contains(ask.ConfigNames, c.Name) {
				to.Configs = append(to.Configs, c)
			}
		}
		resp.Resources = append(resp.Resources, to)
	}
	done(resp)
}

func (b *Broker) describe(ask *kmsg.DescribeConfigsRequestResource, synonyms bool) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	switch ask.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := checkTopicName(ask.ResourceName); err != nil {
			return nil, err
		}
		t := b.topics.byName(ask.ResourceName)
		if t == nil {
			return nil, b.unknown(errUnknownTopic)
		}
		return describeTopic(t.configs, synonyms), nil
	case kmsg.ConfigResourceTypeBroker:
		if ask.ResourceName == "" {
			return nil, nil
		}
		if id, err := strconv.Atoi(ask.ResourceName); err != nil || int64(id) != int64(b.cfg.NodeID) {
			return nil, fmt.Errorf("broker %q: this is broker %d: %w", ask.ResourceName, b.cfg.NodeID, kerr.InvalidRequest)
		}
		return b.describeBroker(synonyms), nil
	}
	return nil, fmt.Errorf("configs of resource type %d can't be described: %w", ask.ResourceType, kerr.InvalidRequest)
}

func describeTopic(configs topicConfigs, synonyms bool) []kmsg.DescribeConfigsResponseResourceConfig {
	var list []kmsg.DescribeConfigsResponseResourceConfig
	for _, key := range topicKeys() {
		value := configs.value(key)
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.ConfigType = key.name, &value, kmsg.ConfigType(key.kind)
		c.Source = configs.source(key)
		c.IsDefault = c.Source != kmsg.ConfigSourceDynamicTopicConfig
		if synonyms {
			c.ConfigSynonyms = configs.synonyms(key)
		}
		list = append(list, c)
	}
	return list
}

// source says where a config's value comes from.
func (c topicConfigs) source(key configKey) kmsg.ConfigSource {
	if _, ok := c.own[key.name]; ok {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	if _, ok := c.defaults[key.name]; ok {
		return kmsg.ConfigSourceStaticBrokerConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}

// synonyms lists a config's values, the one that counts first.
func (c topicConfigs) synonyms(key configKey) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var list []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	add := func(name, value string, source kmsg.ConfigSource) {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = name, &value, source
		list = append(list, s)
	}
	if v, ok := c.own[key.name]; ok {
		add(key.name, v, kmsg.ConfigSourceDynamicTopicConfig)
	}
	if key.broker == "" {
		return list
	}
	if v, ok := c.defaults[key.name]; ok {
		add(key.broker, v, kmsg.ConfigSourceStaticBrokerConfig)
	}
	add(key.broker, key.def, kmsg.ConfigSourceDefaultConfig)
	return list
}

// describeBroker lists the broker's own configs, which can't be changed while it runs.
func (b *Broker) describeBroker(synonyms bool) []kmsg.DescribeConfigsResponseResourceConfig {
	var list []kmsg.DescribeConfigsResponseResourceConfig
	cfg := b.cfg
	cfg.Advertise = b.Advertised()
	for _, s := range shownSettings() {
		value := s.read(&cfg)
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.ReadOnly, c.ConfigType = s.name, &value, true, kmsg.ConfigType(s.kind)
		c.Source = kmsg.ConfigSourceDefaultConfig
		if value != s.def {
			c.Source = kmsg.ConfigSourceStaticBrokerConfig
		}
		c.IsDefault = value == s.def
		if s.kind == kindPassword {
			c.Value, c.IsSensitive = nil, true
		}
		if synonyms {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			syn.Name, syn.Value, syn.Source = s.name, c.Value, c.Source
			c.ConfigSynonyms = append(c.ConfigSynonyms, syn)
		}
		list = append(list, c)
	}
	return list
}
