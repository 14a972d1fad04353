package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadDefaults(t *testing.T) {
	n, err := (&startFlags{}).load()
	if err != nil {
		t.Fatal(err)
	}
	if n.kafkaAddr != "127.0.0.1:9092" || n.connectAddr != "127.0.0.1:8083" || n.consoleAddr != "127.0.0.1:8080" || n.dir != "weir-data" {
		t.Errorf("addresses %s %s %s, data %s", n.kafkaAddr, n.connectAddr, n.consoleAddr, n.dir)
	}
	if n.connect["value.converter.schemas.enable"] != "false" || n.connect["group.id"] != "weir" {
		t.Errorf("worker %v", n.connect)
	}
}

func TestLoadFileFlagsAndSet(t *testing.T) {
	path := write(t, `
node: {data: /tmp/x, memory: 256M, log.level: debug}
broker:
  listeners: 127.0.0.1:7000
  num.partitions: 4
  log: {retention.hours: 2}
connect:
  group.id: other
  value.converter: org.apache.kafka.connect.storage.StringConverter
`)
	n, err := (&startFlags{config: path, set: []string{"broker.num.partitions=5", "connect.offset.flush.interval.ms=7"}, console: "127.0.0.1:7003"}).load()
	if err != nil {
		t.Fatal(err)
	}
	if n.kafkaAddr != "127.0.0.1:7000" || n.consoleAddr != "127.0.0.1:7003" || n.dir != "/tmp/x" || n.memoryBytes != 256<<20 {
		t.Errorf("read %+v", n)
	}
	if n.broker.NumPartitions != 5 || n.broker.Topic["retention.ms"] != "7200000" || n.broker.TailBytes != 32<<20 {
		t.Errorf("broker %+v", n.broker)
	}
	if n.connect["group.id"] != "other" || n.connect["offset.flush.interval.ms"] != "7" || n.connect["value.converter.schemas.enable"] != "" {
		t.Errorf("worker %v", n.connect)
	}
	if n, err = (&startFlags{config: path, portBase: 30000, kafka: "127.0.0.1:1234"}).load(); err != nil || n.kafkaAddr != "127.0.0.1:1234" || n.connectAddr != "127.0.0.1:30001" || n.consoleAddr != "127.0.0.1:30003" {
		t.Errorf("with a port base: %+v, %v", n, err)
	}
}

// TestLoadCluster: where the secret of a cluster may be, and that it is told by nobody.
func TestLoadCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(secretVariable, "from the environment")
	for want, secret := range map[string]string{
		"from the environment": "",
		"from weir.yaml":       "cluster.secret: from weir.yaml",
		"from a file":          "cluster.secret: ${directory:" + filepath.Dir(file) + ":secret}",
	} {
		n, err := (&startFlags{config: write(t, "node:\n  join: ['PLAINTEXT://A:9092', ' b:9092']\nbroker:\n  num.partitions: 2\n  "+secret+"\n")}).load()
		if err != nil {
			t.Fatal(err)
		}
		if n.broker.ClusterSecret != want || !slices.Equal(n.broker.Join, []string{"a:9092", "b:9092"}) {
			t.Errorf("secret %q, to join %v; want %q", n.broker.ClusterSecret, n.broker.Join, want)
		}
		if n.connect["session.timeout.ms"] != "" {
			t.Errorf("others wait for a worker that is gone for %s ms", n.connect["session.timeout.ms"])
		}
		if !slices.Equal(n.broker.GrowingTopics, []string{"weir-configs", "weir-offsets", "weir-status"}) {
			t.Errorf("topics that grow: %v", n.broker.GrowingTopics)
		}
	}
	if n, err := (&startFlags{join: "c:1,d:1"}).load(); err != nil || !slices.Equal(n.broker.Join, []string{"c:1", "d:1"}) {
		t.Errorf("--join: %v, %v", n, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		file  string
		flags startFlags
		want  []string
	}{
		{"unknown keys, all at once", "node: {dat: x}\nbroker: {num.partition: 3}\nconsole: {listener: x}", startFlags{}, []string{"node.dat; did you mean data?", "num.partition; did you mean num.partitions?", "console.listener; did you mean listeners?"}},
		{"unknown section", "brokr: {}", startFlags{}, []string{"brokr; did you mean broker?"}},
		{"a section of the plan", "mirror: {}", startFlags{}, []string{"no mirror"}},
		{"not a map", "node: 3", startFlags{}, []string{"section node"}},
		{"not YAML", "node: [", startFlags{}, []string{"read configuration"}},
		{"reachable address", "", startFlags{kafka: "0.0.0.0:9092"}, []string{"--insecure", "127.0.0.1"}},
		{"no port", "", startFlags{connect: "localhost"}, []string{"HOST:PORT"}},
		{"negative port base", "", startFlags{portBase: -1}, []string{"--port-base -1"}},
		{"bad set", "", startFlags{set: []string{"x=1"}}, []string{"section.key=value"}},
		{"bad set section", "", startFlags{set: []string{"nod.x=1"}}, []string{"did you mean node?"}},
		{"too little memory", "", startFlags{set: []string{"node.memory=1M"}}, []string{"96 MiB"}},
		{"bad memory", "", startFlags{set: []string{"node.memory=lots"}}, []string{"512M"}},
		{"others can't reach it", "", startFlags{kafka: "0.0.0.0:9092", insecure: true, set: []string{"broker.cluster.secret=long enough"}}, []string{"broker.advertised.listeners", "0.0.0.0:9092"}},
		{"a short secret", "", startFlags{set: []string{"broker.cluster.secret=short"}}, []string{"cluster.secret"}},
		{"a secret that isn't there", "broker: {cluster.secret: '${file:/no/such/file:key}'}", startFlags{}, []string{"${file:/no/such/file:key}"}},
		{"bad level", "", startFlags{set: []string{"node.log.level=loud"}}, []string{"DEBUG"}},
	} {
		f := c.flags
		f.config = write(t, c.file)
		_, err := f.load()
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q: %v", c.name, want, err)
			}
		}
	}
	if _, err := (&startFlags{kafka: "0.0.0.0:9092", insecure: true}).load(); err != nil {
		t.Errorf("--insecure: %v", err)
	}
}

// TestShippedConfigLoads keeps configs/weir.yaml true: it loads, and it says the defaults.
func TestShippedConfigLoads(t *testing.T) {
	shipped, err := (&startFlags{config: "../../configs/weir.yaml"}).load()
	if err != nil {
		t.Fatal(err)
	}
	standard, err := (&startFlags{}).load()
	if err != nil {
		t.Fatal(err)
	}
	if shipped.kafkaAddr != standard.kafkaAddr || shipped.connectAddr != standard.connectAddr || shipped.consoleAddr != standard.consoleAddr {
		t.Error("configs/weir.yaml listens elsewhere than the default")
	}
	if shipped.broker.Flush != standard.broker.Flush || shipped.broker.NumPartitions != standard.broker.NumPartitions {
		t.Error("configs/weir.yaml has another broker than the default")
	}
}

func TestShippedConnectorsParse(t *testing.T) {
	files, err := readConnectorFiles([]string{"../../configs/connectors"})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Errorf("only %d connectors in configs/connectors", len(files))
	}
}

func TestParseConnectorFile(t *testing.T) {
	want := map[string]string{"name": "a", "tasks.max": "1", "on": "true", "s": "x"}
	for _, text := range []string{
		`{"name": "a", "config": {"tasks.max": 1, "on": true, "s": "x"}}`,
		`{"name": "a", "tasks.max": "1", "on": "true", "s": "x"}`,
	} {
		f, err := parseConnectorFile([]byte(text))
		if err != nil || f.Name != "a" || !maps.Equal(f.Config, want) {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
	for _, bad := range []string{`[]`, `{"config": {}}`, `{}`, `x`} {
		if _, err := parseConnectorFile([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"topic", "create", "t", "--partition", "3"}, "did you mean --partitions?"},
		{[]string{"topics"}, "did you mean topic?"},
		{[]string{"topic", "lst"}, "did you mean list?"},
		{[]string{"start", "extra"}, "takes no argument"},
		{[]string{"topic", "describe"}, "wants at least one NAME"},
		{[]string{"version", "-o", "xml"}, "table, json or yaml"},
		{[]string{"topic", "alter", "t"}, "nothing to alter"},
		{[]string{"topic", "consume", "t", "--offset", "middle"}, "--offset middle"},
	} {
		root := newRoot()
		root.SetArgs(c.args)
		err := root.ExecuteContext(t.Context())
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("weir %s: %v, want %q", strings.Join(c.args, " "), err, c.want)
		}
	}
}

// TestShippedClusterConfigLoads keeps configs/cluster/weir.yaml true. Its secret is where systemd puts it, so not here.
func TestShippedClusterConfigLoads(t *testing.T) {
	f := startFlags{config: "../../configs/cluster/weir.yaml", kafka: "10.0.0.2:9092", connect: "10.0.0.2:8083", insecure: true}
	if _, err := f.load(); err == nil || !strings.Contains(err.Error(), "/run/credentials/weir.service") {
		t.Errorf("without its secret: %v", err)
	}
	f.set = []string{"broker.cluster.secret=a secret of all"}
	n, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	if len(n.broker.Join) != 3 || n.broker.Join[1] != n.kafkaAddr || n.broker.ReplicationFactor != 3 || n.connect["listeners"] != "http://10.0.0.2:8083" {
		t.Errorf("broker %+v, worker %v", n.broker, n.connect)
	}
}
