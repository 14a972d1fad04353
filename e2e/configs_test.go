package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors"
)

// workerKeys are the keys of a connector's configuration that the worker reads; one
// that ends in a dot stands for all below it.
var workerKeys = []string{
	"name", "connector.class", "tasks.max", "topics", "topics.regex", "config.unknown",
	"key.converter", "key.converter.", "value.converter", "value.converter.", "header.converter", "header.converter.",
	"transforms", "transforms.", "predicates", "predicates.", "errors.", "topic.creation.",
	"producer.override.", "consumer.override.", "admin.override.",
}

// TestEveryConnectorFileIsKnown loads what a new user copies: its class is built in,
// it knows each key, and its own validation finds nothing wrong.
func TestEveryConnectorFileIsKnown(t *testing.T) {
	files, err := filepath.Glob("../configs/connectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no connector files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkConnectorFile(t, file) })
	}
}

func checkConnectorFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Name   string            `json:"name"`
		Config map[string]string `json:"config"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.Name == "" {
		t.Error("no name")
	}
	class := parsed.Config["connector.class"]
	all := connectors.All()
	at := slices.IndexFunc(all, func(c connect.Connector) bool {
		return c.Name == class || slices.Contains(c.Aliases, class)
	})
	if at < 0 {
		t.Fatalf("connector.class %q is not built in", class)
	}
	for key := range parsed.Config {
		if !knownKey(all[at].Fields, key) {
			t.Errorf("key %q is not known to %s", key, all[at].Name)
		}
	}
	if all[at].Validate == nil {
		return
	}
	for _, result := range all[at].Validate(t.Context(), connect.Config(parsed.Config)) {
		if len(result.Errors) > 0 {
			t.Errorf("key %q: %s", result.Name, strings.Join(result.Errors, "; "))
		}
	}
}

func knownKey(fields []connect.Field, key string) bool {
	if slices.ContainsFunc(workerKeys, func(known string) bool {
		return key == known || strings.HasSuffix(known, ".") && strings.HasPrefix(key, known)
	}) {
		return true
	}
	return slices.ContainsFunc(fields, func(f connect.Field) bool {
		return f.Name == key || slices.Contains(f.Aliases, key) || f.Prefix && strings.HasPrefix(key, f.Name)
	})
}

// TestTheSampleConfigurationStarts runs weir on configs/weir.yaml.
func TestTheSampleConfigurationStarts(t *testing.T) {
	s := shared(t)
	sample, err := filepath.Abs("../configs/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, s, "--config", sample)
	n.kcat("hello\n", "-P", "-t", "greetings")
	if got := n.kcat("", "-q", "-C", "-t", "greetings", "-o", "beginning", "-e"); got != "hello\n" {
		t.Errorf("consumed %q", got)
	}
}
