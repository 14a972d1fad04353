package worker

import (
	"fmt"
	"strings"
)

// javaKey is a key of Java's worker that is no key of this one: it has no effect, or none that it could have without
// changing what is written or who may reach it, and then it is refused.
type javaKey struct {
	name   string
	note   string // why it has no effect; "" if nobody needs to know
	refuse string // what to do instead, of one that is refused
}

// javaWorkerKeys are those that workerFields has not. Client settings are core/kafka's.
func javaWorkerKeys() []javaKey {
	const (
		noteBuiltIn = "has no effect: connectors are built in, no jar is loaded"
		noteMetrics = "has no effect: metrics are served on the console address"
		noteRest    = "has no effect: the REST API has one listener and sets no such header"
	)
	return []javaKey{
		{name: "plugin.path", note: noteBuiltIn}, {name: "plugin.discovery"},
		{name: "key.converter.plugin.version", note: noteBuiltIn}, {name: "value.converter.plugin.version", note: noteBuiltIn},
		{name: "header.converter.plugin.version", note: noteBuiltIn},
		{name: "internal.key.converter"}, {name: "internal.value.converter"},
		{name: "worker.unsync.backoff.ms"},
		{name: "inter.worker.key.generation.algorithm"}, {name: "inter.worker.key.size"},
		{name: "inter.worker.signature.algorithm"}, {name: "inter.worker.verification.algorithms"},
		{name: "rest.advertised.listener"}, {name: "access.control.allow.origin", note: noteRest},
		{name: "access.control.allow.methods", note: noteRest}, {name: "response.http.headers.config", note: noteRest},
		{name: "admin.listeners", refuse: "/admin is served on listeners, remove the key"},
		{name: "rest.extension.classes", refuse: "no extension is loaded, and one may be what keeps others out: " +
			"listen on 127.0.0.1 behind a proxy that authenticates, and remove the key"},
		{name: "metric.reporters", note: noteMetrics}, {name: "metrics.recording.level"}, {name: "metrics.num.samples"},
		{name: "metrics.sample.window.ms"}, {name: "auto.include.jmx.reporter"},
	}
}

// javaKeys gives what is to be said of those that are set, sorted, and the refusals.
func javaKeys(props map[string]string) (notes []string, refused []error) {
	for _, k := range javaWorkerKeys() {
		value := strings.TrimSpace(props[k.name])
		if value == "" {
			continue
		}
		if k.refuse != "" {
			refused = append(refused, fmt.Errorf("%s is not supported: %s", k.name, k.refuse))
		}
		if k.note != "" {
			notes = append(notes, k.name+": "+k.note)
		}
	}
	return notes, refused
}
