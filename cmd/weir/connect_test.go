package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect/worker"
)

func writeNamed(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// javaFile is a worker's file with the keys that Kafka ships in its own.
const javaFile = `
# as people have it
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=25
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
status.storage.partitions=5
offset.flush.interval.ms=10000
rest.advertised.host.name=w1
rest.advertised.port=8084
rest.advertised.listener=http
plugin.path=/usr/local/share/java,\
  /usr/local/share/kafka/plugins
`

// TestConnectTakesJavaFiles: files of Java workers as they are found give a configuration without a warning.
func TestConnectTakesJavaFiles(t *testing.T) {
	shipped, err := os.ReadFile("../../configs/connect-distributed.properties")
	if err != nil {
		t.Fatal(err)
	}
	secured := "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" password=\"p\";\n"
	var prefixed strings.Builder
	for _, prefix := range []string{"", "producer.", "consumer.", "admin."} {
		for line := range strings.Lines(secured) {
			prefixed.WriteString(prefix + line)
		}
	}
	for name, text := range map[string]string{
		"Kafka's keys": javaFile, "configs/connect-distributed.properties": string(shipped), "secured": javaFile + prefixed.String(),
		"a container's": javaFile + "listeners=http://127.0.0.1:8083\ninternal.key.converter=org.apache.kafka.connect.json.JsonConverter\n" +
			"plugin.discovery=hybrid_warn\nconnector.client.config.override.policy=All\nconfig.providers=file,env\n" +
			"config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n" +
			"config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\nexactly.once.source.support=disabled\n" +
			"offset.storage.segment.bytes=1048576\nproducer.compression.type=lz4\nconsumer.max.poll.records=100\nclient.rack=a\ntopic.creation.enable=true\n",
	} {
		n, err := (&connectFlags{config: writeNamed(t, "connect-distributed.properties", text)}).load()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n.connectAddr != "127.0.0.1:8083" || n.broker != nil || !n.javaFile {
			t.Errorf("%s: %+v", name, n)
		}
		cfg, warnings, err := worker.ParseConfig(n.connect)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, err, warnings)
		}
		if name == "Kafka's keys" && (cfg.WorkerID != "w1:8084" || cfg.OffsetTopic.Partitions != 25 || cfg.ConfigTopic.Partitions != 1) {
			t.Errorf("read %+v", cfg)
		}
	}
}

func TestConnectRefuses(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		flags            connectFlags
		want             string
	}{
		{"reachable", "c.properties", javaFile + "listeners=HTTP://:8083\n", connectFlags{}, "--insecure"},
		{"reachable, the second is not", "c.properties", javaFile + "listeners=http://0.0.0.0:1,http://127.0.0.1:2\n", connectFlags{}, "--insecure"},
		{"not there", "", "", connectFlags{config: "/nowhere/c.properties"}, "no such file"},
		{"not properties", "c.properties", `a=\u12`, connectFlags{}, "line 1"},
		{"a broker", "c.yaml", "broker: {num.partitions: 3}", connectFlags{}, "weir start"},
		{"data", "c.yaml", "node: {data: /x}", connectFlags{}, "connect.scratch.dir"},
		{"unknown section", "c.yaml", "conect: {}", connectFlags{}, "did you mean connect?"},
		{"bad set", "c.properties", javaFile, connectFlags{set: []string{"x=1"}}, "section.key=value"},
	} {
		f := c.flags
		if c.file != "" {
			f.config = writeNamed(t, c.file, c.text)
		}
		if _, err := f.load(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := (&connectFlags{}).load(); !errors.Is(err, errUsage) {
		t.Errorf("without a file: %v", err)
	}
	open := &connectFlags{config: writeNamed(t, "c.properties", javaFile+"listeners=http://:8083\n"), insecure: true}
	if n, err := open.load(); err != nil || n.connectAddr != ":8083" {
		t.Errorf("--insecure: %v", err)
	}
}

// TestConnectFlagsLieOverTheFile, in both forms of it.
func TestConnectFlagsLieOverTheFile(t *testing.T) {
	yaml := "connect:\n  bootstrap.servers: [a:1, b:2]\n  listeners: https://127.0.0.1:1\nconsole: {listeners: 127.0.0.1:7}\nnode: {log.level: debug}\n"
	for name, text := range map[string]string{"c.yaml": yaml, "c.properties": "bootstrap.servers=a:1,b:2\n"} {
		f := &connectFlags{config: writeNamed(t, name, text), connect: "127.0.0.1:5", console: "127.0.0.1:6", set: []string{"connect.group.id=x"}}
		n, err := f.load()
		if err != nil {
			t.Fatal(err)
		}
		if n.connect["bootstrap.servers"] != "a:1,b:2" || n.connect["listeners"] != "http://127.0.0.1:5" || n.consoleAddr != "127.0.0.1:6" || n.connect["group.id"] != "x" {
			t.Errorf("%s: %+v", name, n)
		}
	}
	n, err := (&connectFlags{config: writeNamed(t, "c.yaml", yaml)}).load()
	if err != nil || n.connect["listeners"] != "https://127.0.0.1:1" || n.consoleAddr != "127.0.0.1:7" {
		t.Errorf("the file alone: %+v, %v", n, err)
	}
}

// TestProcessIdentity: it is of the address, and the same for who binds it next.
func TestProcessIdentity(t *testing.T) {
	bound := func(addr string) (net.Addr, func()) {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return ln.Addr(), func() { ln.Close() }
	}
	first, closeFirst := bound("127.0.0.1:0")
	second, closeSecond := bound("127.0.0.1:0")
	defer closeSecond()
	before := processIdentity(first)
	if before == "" || before == processIdentity(second) {
		t.Errorf("two addresses: %q and %q", before, processIdentity(second))
	}
	closeFirst()
	again, closeAgain := bound(first.String())
	defer closeAgain()
	if processIdentity(again) != before {
		t.Error("another identity after the address was bound again")
	}
}

// TestScratchFolder: the default is made for this user alone, and somebody else's is refused.
func TestScratchFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := scratchFolder("x")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if again, err := scratchFolder("x"); err != nil || again != dir {
		t.Errorf("a second time: %s, %v", again, err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(os.TempDir(), "weir-connect-y")); err != nil {
		t.Fatal(err)
	}
	if _, err := scratchFolder("y"); err == nil {
		t.Error("a link was taken for a folder")
	}
}

// TestRunTakesJavaFiles: a standalone worker's file, or none at all, and connectors in Java's properties.
func TestRunTakesJavaFiles(t *testing.T) {
	file := "bootstrap.servers=localhost:9092\nkey.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter=org.apache.kafka.connect.json.JsonConverter\n" +
		"key.converter.schemas.enable=true\nvalue.converter.schemas.enable=true\noffset.storage.file.filename=/tmp/connect.offsets\noffset.flush.interval.ms=10000\nplugin.path=/usr/share/java\n"
	for name, f := range map[string]*connectFlags{"a file": {config: writeNamed(t, "connect-standalone.properties", file)}, "none": {}} {
		n, err := f.loadStandalone("other:9092")
		if err != nil {
			t.Fatal(err)
		}
		cfg, warnings, err := worker.ParseStandaloneConfig(n.connect)
		if err != nil || len(warnings) > 0 || !cfg.Standalone {
			t.Errorf("%s: %v %v", name, err, warnings)
		}
		if want := map[string]string{"a file": "/tmp/connect.offsets", "none": "weir-run.offsets"}[name]; cfg.OffsetFile != want {
			t.Errorf("%s: offsets in %s", name, cfg.OffsetFile)
		}
		if want := map[string]string{"a file": "localhost:9092", "none": "other:9092"}[name]; n.connect["bootstrap.servers"] != want {
			t.Errorf("%s: Kafka at %s", name, n.connect["bootstrap.servers"])
		}
	}
	files, err := readConnectorFiles([]string{writeNamed(t, "connect-file-source.properties", "name=local-file-source\nconnector.class=FileStreamSource\ntasks.max=1\nfile=test.txt\ntopic=connect-test\n")})
	if err != nil || files[0].Name != "local-file-source" || files[0].Config["topic"] != "connect-test" {
		t.Errorf("%+v, %v", files, err)
	}
	if _, err := readConnectorFiles([]string{writeNamed(t, "x.properties", "topic=a\n")}); err == nil {
		t.Error("a connector without a name was taken")
	}
}
