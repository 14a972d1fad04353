package worker

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"sort"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/convert"
	"github.com/weirlog/weir/connect/transform"
	"github.com/weirlog/weir/core/kafka"
)

// prepared is a connector configuration made ready for running: references resolved, class found, common keys read.
// It holds secrets: it is never stored or logged.
type prepared struct {
	name      string
	connector *connect.Connector
	raw       map[string]string // as stored
	config    map[string]string // references resolved
	refs      map[string]bool   // keys that had references
	common    *connect.Settings
}

// prepare makes a stored configuration ready. Its errors are BadConfig: only another configuration helps.
func (w *Worker) prepare(name string, raw map[string]string) (*prepared, error) {
	c := w.connector(raw["connector.class"])
	if c == nil {
		return nil, connect.BadConfig("connector.class", errors.New(w.unknownClass(raw["connector.class"])))
	}
	config, refs, err := w.resolver.Resolve(raw)
	if err != nil {
		return nil, fmt.Errorf("resolve references: %w", err) // a file may come back: not a BadConfig
	}
	config["name"] = name
	p := &prepared{name: name, connector: c, raw: raw, config: config, refs: refs}
	var results, own []connect.FieldResult
	p.common, results = connect.ParseConfig(connectorFields(c.Sink != nil), config)
	_, own = connect.ParseConfig(c.Fields, config)
	for _, r := range append(results, own...) {
		if len(r.Errors) > 0 {
			return nil, connect.BadConfig(r.Name, errors.New(p.scrub(r.Name, r.Errors[0])))
		}
	}
	if faults := p.crossFaults(); len(faults) > 0 {
		return nil, connect.BadConfig(faults[0].Name, errors.New(faults[0].Errors[0]))
	}
	return p, nil
}

func (w *Worker) unknownClass(class string) string {
	var names []string
	for i := range w.deps.Connectors {
		c := &w.deps.Connectors[i]
		names = append(names, strings.Join(append([]string{c.Name}, c.Aliases...), " = "))
	}
	sort.Strings(names)
	return fmt.Sprintf("Failed to find any class that implements Connector and which name matches %s, available connectors are: %s",
		class, strings.Join(names, ", "))
}

// scrub takes the value of a secret or resolved key out of a message.
func (p *prepared) scrub(key, msg string) string {
	if v := p.config[key]; len(v) > 0 && (p.refs[key] || p.secretField(key)) {
		msg = strings.ReplaceAll(msg, v, "[hidden]")
	}
	return msg
}

func (p *prepared) secretField(key string) bool {
	for i := range p.connector.Fields {
		if f := &p.connector.Fields[i]; f.Name == key {
			return f.Secret || f.Type == connect.TypePassword
		}
	}
	return false
}

// crossFaults checks what concerns several common keys.
func (p *prepared) crossFaults() []connect.FieldResult {
	var out []connect.FieldResult
	fault := func(key, msg string) {
		out = append(out, connect.FieldResult{Name: key, Errors: []string{msg}, Visible: true})
	}
	if p.connector.Sink == nil {
		if _, err := parseTopicRules(p.config); err != nil {
			fault("topic.creation.groups", err.Error())
		}
		return out
	}
	topics, regex := p.common.List("topics"), p.common.String("topics.regex")
	dlq := p.common.String("errors.deadletterqueue.topic.name")
	switch {
	case len(topics) > 0 && regex != "":
		fault("topics.regex", "topics and topics.regex are mutually exclusive options, but both are set.")
	case len(topics) == 0 && regex == "":
		fault("topics", "Must configure one of topics or topics.regex")
	}
	for _, t := range topics {
		if t == dlq {
			fault("topics", fmt.Sprintf("The DLQ topic '%s' may not be included in the list of topics (\"topics=%s\") consumed by the connector", dlq, strings.Join(topics, ",")))
		}
	}
	if regex != "" {
		re, err := wholeRegexp(regex)
		if err != nil {
			fault("topics.regex", fmt.Sprintf("Invalid value %s for configuration topics.regex: %v", regex, err))
		} else if dlq != "" && re.MatchString(dlq) {
			fault("topics.regex", fmt.Sprintf("The DLQ topic '%s' may not be matched by the regex '%s' that names the topics consumed by the connector", dlq, regex))
		}
	}
	return out
}

// wholeRegexp compiles an expression that must match a whole name, as Java's matches does.
func wholeRegexp(s string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + s + ")$") }

// converterConfig gives class and properties of one converter of a connector: its own or the worker's. Setting one resets all its keys.
func converterConfig(worker, config map[string]string, role string) (class string, props map[string]string) {
	from := config
	if strings.TrimSpace(config[role]) == "" {
		from = worker
	}
	props = map[string]string{}
	for k, v := range from {
		if rest, ok := strings.CutPrefix(k, role+"."); ok {
			props[rest] = v
		}
	}
	class = strings.TrimSpace(from[role])
	if class == "" && role == "header.converter" {
		class = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
	}
	return class, props
}

// pipeline is what stands between a connector and the log. One task's, not for concurrent use.
type pipeline struct {
	key, value convert.Converter
	header     convert.HeaderConverter
	chain      *transform.Chain
}

// pipeline makes the converters and transforms of a task.
func (w *Worker) pipeline(config map[string]string) (*pipeline, error) {
	resolved, _, err := w.resolver.Resolve(w.cfg.Props)
	if err != nil {
		return nil, fmt.Errorf("resolve references of the worker: %w", err)
	}
	p := &pipeline{}
	for _, role := range []string{"key.converter", "value.converter", "header.converter"} {
		class, props := converterConfig(resolved, config, role)
		switch role {
		case "key.converter":
			p.key, err = convert.New(class, props, true)
		case "value.converter":
			p.value, err = convert.New(class, props, false)
		default:
			p.header, err = convert.NewHeader(class, props)
		}
		if err != nil {
			return nil, connect.BadConfig(role, err)
		}
	}
	chain, results := transform.New(config)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	p.chain = chain
	return p, nil
}

// clientProps are the properties of a client of a connector: the worker's with its prefix, overridden by the
// connector's.
func (w *Worker) clientProps(config map[string]string, role kafka.Role) (map[string]string, error) {
	resolved, _, err := w.resolver.Resolve(w.cfg.Props)
	if err != nil {
		return nil, fmt.Errorf("resolve references of the worker: %w", err)
	}
	props := kafka.Overlay(resolved, role.String()+".")
	prefix := role.String() + ".override."
	for k, v := range config {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			if err := w.cfg.Overrides.check(prefix, rest); err != nil {
				return nil, err
			}
			props[rest] = v
		}
	}
	return props, nil
}

// instance makes what a connector's functions are given.
func (w *Worker) instance(p *prepared) (connect.Instance, error) {
	resolved, _, err := w.resolver.Resolve(w.cfg.Props)
	if err != nil {
		return connect.Instance{}, fmt.Errorf("resolve references of the worker: %w", err)
	}
	in := connect.Instance{Name: p.name, Config: maps.Clone(p.config), Kafka: kafka.Overlay(resolved, ""),
		Log: w.deps.Log.With("component", "connector", "connector", p.name)}
	if p.connector.Source != nil {
		in.Offsets = w.offsets.of(p.name)
	}
	return in, nil
}

// stored turns the configuration of a task, as planned with secrets resolved, into what may be stored: a value that came
// from a reference is the reference again, whatever its key.
func (p *prepared) stored(task map[string]string) map[string]string {
	byValue := map[string]string{}
	for key := range p.refs {
		if v := p.config[key]; len(v) >= 4 {
			byValue[v] = p.raw[key]
		}
	}
	out := make(map[string]string, len(task)+1)
	for k, v := range task {
		switch raw, found := byValue[v]; {
		case p.refs[k] && v == p.config[k]:
			out[k] = p.raw[k]
		case found:
			out[k] = raw
		default:
			out[k] = v
		}
	}
	out["task.class"] = taskClass(p.raw["connector.class"], p.connector.Name)
	return out
}

// taskClass names the task's class as a Java worker of the same topics would, where the connector's class is Java's: it
// then runs the tasks as they are, while a class that it can't find makes them FAILED until it has planned them anew.
// Here nothing reads it.
func taskClass(class, name string) string {
	stem, ok := strings.CutSuffix(class, "Connector")
	switch {
	case !ok || !strings.Contains(class, "."):
		return name
	case strings.HasPrefix(class, "io.debezium."):
		return class + "Task"
	case strings.HasSuffix(stem, "Source"), strings.HasSuffix(stem, "Sink"):
		return stem + "Task"
	}
	return name
}
