package worker

import (
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/core/kafka"
)

// Groups of the common keys, as Kafka Connect names them.
const (
	groupCommon     = "Common"
	groupTransforms = "Transforms"
	groupPredicates = "Predicates"
	groupErrors     = "Error Handling"
	groupTopics     = "Topic Creation"
	groupExactly    = "Exactly Once Support"
	groupOffsets    = "offsets.topic"
)

// connectorFields are the keys that every connector of a kind has; the transforms' own are listed by transform.Fields.
func connectorFields(sink bool) []connect.Field {
	zero, one := int64(0), int64(1)
	field := func(name string, t connect.FieldType, def string, imp connect.Importance, group, doc string) connect.Field {
		return connect.Field{Name: name, Type: t, Default: def, Importance: imp, Group: group, Doc: doc}
	}
	null := func(f connect.Field) connect.Field { f.NoDefault = true; return f }
	least := func(f connect.Field, n *int64) connect.Field { f.Min = n; return f }
	valid := func(f connect.Field, v ...string) connect.Field { f.Valid = v; return f }
	name := field("name", connect.TypeString, "", connect.High, groupCommon, "Globally unique name to use for this connector.")
	name.Required = true
	class := field("connector.class", connect.TypeString, "", connect.High, groupCommon,
		"Name or alias of the class for this connector: a short name or the Java class that it stands in for.")
	class.Required = true
	out := []connect.Field{
		name, class,
		least(field("tasks.max", connect.TypeInt, "1", connect.High, groupCommon, "Maximum number of tasks to use for this connector."), &one),
		field("tasks.max.enforce", connect.TypeBool, "true", connect.Low, groupCommon, "Whether to refuse more tasks than tasks.max."),
		null(field("key.converter", connect.TypeClass, "", connect.Low, groupCommon, "Converter of keys; the worker's if unset.")),
		null(field("value.converter", connect.TypeClass, "", connect.Low, groupCommon, "Converter of values; the worker's if unset.")),
		null(field("header.converter", connect.TypeClass, "", connect.Low, groupCommon, "Converter of headers; the worker's if unset.")),
		field("transforms", connect.TypeList, "", connect.Low, groupTransforms, "Aliases for the transformations to be applied to records."),
		field("predicates", connect.TypeList, "", connect.Low, groupPredicates, "Aliases for the predicates used by transformations."),
		valid(field("config.action.reload", connect.TypeString, "restart", connect.Low, groupCommon,
			"What to do when a provider's value changes."), "none", "restart"),
		field("errors.retry.timeout", connect.TypeLong, "0", connect.Medium, groupErrors,
			"How long a failed operation is repeated, in milliseconds; -1 for ever."),
		least(field("errors.retry.delay.max.ms", connect.TypeLong, "60000", connect.Medium, groupErrors,
			"Longest delay between repetitions in milliseconds."), &zero),
		valid(field("errors.tolerance", connect.TypeString, "none", connect.Medium, groupErrors,
			"none: a bad record fails the task; all: it is left out, or goes to the dead-letter topic if there is one."), "none", "all"),
		field("errors.log.enable", connect.TypeBool, "false", connect.Medium, groupErrors, "Log each failed operation."),
		field("errors.log.include.messages", connect.TypeBool, "false", connect.Medium, groupErrors,
			"Say in that log which record failed."),
		field("errors.deadletterqueue.topic.name", connect.TypeString, "", connect.Medium, groupErrors,
			"Topic for records that could not be processed; empty for none."),
		field("errors.deadletterqueue.topic.replication.factor", connect.TypeShort, "3", connect.Medium, groupErrors,
			"Replicas of the dead-letter topic if it is created; more than there are brokers are cut."),
		field("errors.deadletterqueue.context.headers.enable", connect.TypeBool, "false", connect.Medium, groupErrors,
			"Add headers that tell what went wrong."),
		{Name: "producer.override.", Prefix: true}, {Name: "consumer.override.", Prefix: true}, {Name: "admin.override.", Prefix: true},
		{Name: "key.converter.", Prefix: true}, {Name: "value.converter.", Prefix: true}, {Name: "header.converter.", Prefix: true},
		{Name: "transforms.", Prefix: true}, {Name: "predicates.", Prefix: true},
		{Name: "connector.plugin.version", Prefix: true},
	}
	if sink {
		return append(out,
			field("topics", connect.TypeList, "", connect.High, groupCommon, "List of topics to consume, separated by commas."),
			field("topics.regex", connect.TypeString, "", connect.High, groupCommon, "Regular expression giving topics to consume."))
	}
	eos := valid(field("exactly.once.support", connect.TypeString, "requested", connect.Medium, groupExactly,
		"Whether exactly-once delivery is required."), "requested", "required")
	eos.Refused = "exactly-once sources are not supported yet"
	boundary := field("transaction.boundary", connect.TypeString, "poll", connect.Medium, groupExactly, "Where transactions end.")
	offsets := null(field("offsets.storage.topic", connect.TypeString, "", connect.Low, groupOffsets, "An offsets topic of the connector's own."))
	offsets.Refused = "offsets are kept in the worker's offsets topic"
	return append(out, eos, boundary, offsets,
		connect.Field{Name: "transaction.boundary.", Prefix: true},
		null(field("topic.creation.groups", connect.TypeList, "", connect.Low, groupTopics, "Groups of rules for creating topics.")),
		connect.Field{Name: "topic.creation.", Prefix: true})
}

// classAnswers reports whether a connector is meant by class: its short name, a Java class, a simple class, or a simple
// class without the suffix Connector.
func classAnswers(c *connect.Connector, class string) bool {
	for _, name := range append([]string{c.Name}, c.Aliases...) {
		simple := name[strings.LastIndexByte(name, '.')+1:]
		if class == name || class == simple || class == strings.TrimSuffix(simple, "Connector") {
			return true
		}
	}
	return false
}

// connector finds a connector by class, nil if there is none.
func (w *Worker) connector(class string) *connect.Connector {
	class = strings.TrimSpace(class)
	for i := range w.deps.Connectors {
		if c := &w.deps.Connectors[i]; class != "" && classAnswers(c, class) {
			return c
		}
	}
	return nil
}

func connectorType(c *connect.Connector) string {
	switch {
	case c == nil:
		return "unknown"
	case c.Sink != nil:
		return "sink"
	}
	return "source"
}

// inlineText is what is shown in place of a secret that stands in a configuration.
func inlineText(key string) string { return "${inline:" + key + "}" }

// secretWords make the value of a key that nothing describes a secret.
var secretWords = [...]string{"password", "secret", "credential", "token", "private.key", "sasl.jaas.config", "passphrase", "api.key", "apikey"}

// secretKeys tells which keys of a configuration hold secrets.
func (w *Worker) secretKeys(config map[string]string) func(key string) bool {
	described := map[string]bool{}
	if c := w.connector(config["connector.class"]); c != nil {
		for i := range c.Fields {
			f := &c.Fields[i]
			secret := f.Secret || f.Type == connect.TypePassword
			for _, n := range append(slices.Clone(f.Aliases), f.Name) {
				described[n] = secret
			}
		}
	}
	return func(key string) bool {
		if secret, ok := described[key]; ok {
			return secret
		}
		for _, p := range []string{"producer.override.", "consumer.override.", "admin.override."} {
			if rest, ok := strings.CutPrefix(key, p); ok && kafka.Secret(rest) {
				return true
			}
		}
		lower := strings.ToLower(key)
		for _, word := range secretWords {
			if strings.Contains(lower, word) {
				return true
			}
		}
		return false
	}
}

// masked copies a configuration for showing: inline secrets are replaced, references stay.
func (w *Worker) masked(shape, config map[string]string) map[string]string {
	secret := w.secretKeys(shape)
	out := make(map[string]string, len(config))
	for k, v := range config {
		if v != "" && secret(k) && !strings.Contains(v, "${") {
			v = inlineText(k)
		}
		out[k] = v
	}
	return out
}

// unmasked copies a configuration that came in: where it says ${inline:key}, the stored value is meant.
func unmasked(config, stored map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(config))
	for k, v := range config {
		if v == inlineText(k) {
			old, ok := stored[k]
			if !ok {
				return nil, badRequest("%s is %s, which stands for a stored value, but none is stored", k, v)
			}
			v = old
		}
		out[k] = v
	}
	return out, nil
}
