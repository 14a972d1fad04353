package core

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/storage"
)

func TestSet(t *testing.T) {
	c := Default(t.TempDir())
	err := c.Set(map[string]string{
		"node.id": "7", "log.flush": "os", "num.partitions": "3", "auto.create.topics.enable": "false",
		"advertised.listeners": "PLAINTEXT://broker.example:9092", "log.retention.hours": "2", "log.segment.bytes": "1048576",
		"connections.max.idle.ms": "1000", "offsets.retention.minutes": "60",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeID != 7 || c.Flush != storage.SyncOS || c.NumPartitions != 3 || c.AutoCreateTopics || c.Advertise != "broker.example:9092" ||
		c.MaxIdle != time.Second || c.OffsetsRetention != time.Hour {
		t.Errorf("set to %+v", c)
	}
	if c.Topic["retention.ms"] != "7200000" || c.Topic["segment.bytes"] != "1048576" {
		t.Errorf("topic defaults %v", c.Topic)
	}
	if err := c.Set(map[string]string{"log.retention.hours": "2", "log.retention.ms": "5"}); err != nil || c.Topic["retention.ms"] != "5" {
		t.Errorf("log.retention.ms does not win over hours: %v, %v", c.Topic, err)
	}
}

func TestSetReportsAllFaultsAtOnce(t *testing.T) {
	c := Default(t.TempDir())
	err := c.Set(map[string]string{"num.partition": "3", "node.id": "x", "log.flush": "never", "log.cleanup.policy": "shred"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"num.partition; did you mean num.partitions?", "node.id", "log.flush", "log.cleanup.policy"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

// TestEverySettingIsReadBack: what can be set is what DescribeConfigs shows, and no key is shown twice.
func TestEverySettingIsReadBack(t *testing.T) {
	shown := map[string]setting{}
	for _, s := range shownSettings() {
		if _, twice := shown[s.name]; twice {
			t.Errorf("%s is shown twice", s.name)
		}
		shown[s.name] = s
	}
	values := map[configKind]string{kindBoolean: "false", kindString: "x", kindInt: "77", kindLong: "7777777", kindDouble: "0.25", kindList: "compact", kindPassword: "a secret of weir's"}
	for _, name := range Keys() {
		s, ok := shown[name]
		if !ok {
			if name != "log.retention.minutes" && name != "log.retention.hours" && name != "log.roll.hours" {
				t.Errorf("%s can be set and isn't shown", name)
			}
			continue
		}
		value := values[s.kind]
		if len(s.choices) > 0 {
			value = s.choices[len(s.choices)-1]
		}
		if s.check(value) != nil {
			value = strconv.Itoa(int(max(s.min, 9)))
		}
		c := Default(t.TempDir())
		if err := c.Set(map[string]string{name: value}); err != nil {
			t.Errorf("set: %v", err)
		}
		if s.kind == kindPassword {
			if c.ClusterSecret == "" || s.read(&c) == c.ClusterSecret {
				t.Errorf("%s: set to %q, shown as %q", name, c.ClusterSecret, s.read(&c))
			}
			continue
		}
		got := strings.TrimPrefix(s.read(&c), "PLAINTEXT://")
		if isClamped := strings.HasSuffix(name, ".replication.factor"); got != value && !isClamped {
			t.Errorf("%s: set to %s, shown as %s", name, value, got)
		}
	}
}

// TestSecretsAreNotShown: neither in what is described, nor in what is wrong with them.
func TestSecretsAreNotShown(t *testing.T) {
	cfg := testConfig(t)
	if err := cfg.Set(map[string]string{"cluster.secret": "hush"}); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a short secret: %v", err)
	}
	if err := cfg.Set(map[string]string{"cluster.secret": "hush, little one"}); err != nil {
		t.Fatal(err)
	}
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	found := false
	for _, c := range b.describeBroker(true) {
		if c.Name == "cluster.secret" {
			found = c.Value == nil && c.IsSensitive && c.Source == kmsg.ConfigSourceStaticBrokerConfig && len(c.ConfigSynonyms) == 1
		}
		for _, v := range append([]*string{c.Value}, c.ConfigSynonyms[0].Value) {
			if v != nil && strings.Contains(*v, "hush") {
				t.Errorf("%s shows the secret", c.Name)
			}
		}
	}
	if !found {
		t.Error("cluster.secret isn't described as a secret that is set")
	}
}
