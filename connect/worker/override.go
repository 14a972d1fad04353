package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
)

// overridePolicy says which client settings a connector may set for itself, by producer.override., consumer.override.
// and admin.override. keys. It is the gate between who runs the worker and who writes connectors.
type overridePolicy struct {
	name  string
	any   bool
	allow []string
}

// parseOverridePolicy reads connector.client.config.override.policy: a short name or the class of one of Java's own.
func parseOverridePolicy(props map[string]string) (overridePolicy, error) {
	const key, class = "connector.client.config.override.policy", "org.apache.kafka.connect.connector.policy."
	name := strings.TrimSpace(props[key])
	if rest, ok := strings.CutPrefix(name, class); ok {
		name = strings.TrimSuffix(rest, "ConnectorClientConfigOverridePolicy")
	}
	switch strings.ToLower(name) {
	case "", "all":
		return overridePolicy{name: "All", any: true}, nil
	case "none":
		return overridePolicy{name: "None"}, nil
	case "principal":
		return overridePolicy{name: "Principal", allow: []string{"security.protocol", "sasl.jaas.config", "sasl.mechanism"}}, nil
	case "allowlist":
		return overridePolicy{name: "Allowlist", allow: splitList(props["connector.client.config.override.allowlist"])}, nil
	}
	return overridePolicy{}, fmt.Errorf("%s: %q is none of All, None, Principal and Allowlist; a policy of one's own can't be loaded", key, props[key])
}

// check refuses a key, given without its prefix, that a connector may not set.
func (p *overridePolicy) check(prefix, key string) error {
	if p.any || slices.Contains(p.allow, key) {
		return nil
	}
	return connect.BadConfig(prefix+key, fmt.Errorf("%s: this worker's connector.client.config.override.policy, %s, does not let a connector set %s", prefix+key, p.name, key))
}
