package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// TestOptions looks at what a client made from properties says of its own settings.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		role  Role
		props map[string]string
		opt   any
		want  any
	}{
		{"servers", Admin, map[string]string{"bootstrap.servers": " a:1, PLAINTEXT://b:2 ,[::1]:3"}, kgo.SeedBrokers, []string{"a:1", "b:2", "[::1]:3"}},
		{"client id", Admin, map[string]string{"client.id": "me"}, kgo.ClientID, "me"},
		{"acks all", Producer, map[string]string{"acks": "all"}, kgo.DisableIdempotentWrite, false},
		{"acks 1 ends idempotence", Producer, map[string]string{"acks": "1"}, kgo.DisableIdempotentWrite, true},
		{"acks 1", Producer, map[string]string{"acks": "1"}, kgo.RequiredAcks, kgo.LeaderAck()},
		{"idempotence off", Producer, map[string]string{"enable.idempotence": "false"}, kgo.DisableIdempotentWrite, true},
		{"in flight", Producer, map[string]string{"acks": "0", "max.in.flight.requests.per.connection": "2"}, kgo.MaxProduceRequestsInflightPerBroker, 2},
		{"in flight, idempotent", Producer, map[string]string{"max.in.flight.requests.per.connection": "5"}, kgo.MaxProduceRequestsInflightPerBroker, 1},
		{"codec", Producer, map[string]string{"compression.type": "zstd", "compression.zstd.level": "7"}, kgo.ProducerBatchCompression, []kgo.CompressionCodec{kgo.ZstdCompression().WithLevel(7)}},
		{"linger", Producer, map[string]string{"linger.ms": "0"}, kgo.ProducerLinger, time.Duration(0)},
		{"max request", Producer, map[string]string{"max.request.size": "200000000"}, kgo.BrokerMaxWriteBytes, int32(200000000)},
		{"buffer", Producer, map[string]string{"buffer.memory": "1024"}, kgo.MaxBufferedBytes, int64(1024)},
		{"delivery", Producer, map[string]string{"delivery.timeout.ms": "120000"}, kgo.RecordDeliveryTimeout, 2 * time.Minute},
		{"delivery for ever", Producer, map[string]string{"delivery.timeout.ms": "2147483647"}, kgo.RecordDeliveryTimeout, time.Duration(0)},
		{"request timeout", Producer, map[string]string{"request.timeout.ms": "30000"}, kgo.ProduceRequestTimeout, 30 * time.Second},
		{"transactional id", Producer, map[string]string{"transactional.id": "x"}, kgo.TransactionalID, "x"},
		{"producer's keys are not a consumer's", Consumer, map[string]string{"linger.ms": "9"}, kgo.ProducerLinger, 10 * time.Millisecond},
		{"isolation", Consumer, map[string]string{"isolation.level": "read_committed"}, kgo.FetchIsolationLevel, int8(1)},
		{"earliest", Consumer, map[string]string{"auto.offset.reset": "earliest"}, kgo.ConsumeResetOffset, kgo.NewOffset().AtStart()},
		{"latest", Consumer, map[string]string{"auto.offset.reset": "latest"}, kgo.ConsumeStartOffset, kgo.NewOffset().AtEnd()},
		{"by duration", Consumer, map[string]string{"auto.offset.reset": "by_duration:P1DT1H"}, kgo.ConsumeResetOffset, kgo.LookbackOffset(25 * time.Hour)},
		{"fetch bytes", Consumer, map[string]string{"fetch.max.bytes": "200000000"}, kgo.BrokerMaxReadBytes, int32(200000000)},
		{"group", Consumer, map[string]string{"group.id": "g"}, kgo.ConsumerGroup, "g"},
		{"session", Consumer, map[string]string{"group.id": "g", "session.timeout.ms": "6000"}, kgo.HeartbeatInterval, 2 * time.Second},
		{"auto commit", Consumer, map[string]string{"group.id": "g", "enable.auto.commit": "false"}, kgo.DisableAutoCommit, true},
		{"metadata age", Admin, map[string]string{"metadata.max.age.ms": "1000"}, kgo.MetadataMinAge, time.Second},
		{"idle for ever is clamped", Admin, map[string]string{"connections.max.idle.ms": "-1"}, kgo.ConnIdleTimeout, 15 * time.Minute},
	} {
		props := map[string]string{"bootstrap.servers": "localhost:9092"}
		for k, v := range c.props {
			props[k] = v
		}
		client, _, err := NewClient(props, c.role)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := client.OptValue(c.opt); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.name, got, c.want)
		}
		client.Close()
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		role    Role
		props   map[string]string
		want    string
		refused bool
	}{
		{"no servers", Admin, map[string]string{"bootstrap.servers": ""}, "bootstrap.servers", false},
		{"no port", Admin, map[string]string{"bootstrap.servers": "host"}, "HOST:PORT", false},
		{"acks", Producer, map[string]string{"acks": "2"}, "acks", false},
		{"acks with idempotence", Producer, map[string]string{"acks": "1", "enable.idempotence": "true"}, "acks=all", false},
		{"transaction without acks", Producer, map[string]string{"acks": "1", "transactional.id": "x"}, "transactional.id", false},
		{"in flight", Producer, map[string]string{"enable.idempotence": "true", "max.in.flight.requests.per.connection": "6"}, "at most 5", false},
		{"codec", Producer, map[string]string{"compression.type": "brotli"}, "brotli", false},
		{"number", Producer, map[string]string{"linger.ms": "soon"}, "linger.ms", false},
		{"boolean", Consumer, map[string]string{"check.crcs": "yes"}, "check.crcs", false},
		{"reset", Consumer, map[string]string{"auto.offset.reset": "middle"}, "middle", false},
		{"duration", Consumer, map[string]string{"auto.offset.reset": "by_duration:1h"}, "1h", false},
		{"heartbeat", Consumer, map[string]string{"group.id": "g", "heartbeat.interval.ms": "50000"}, "session.timeout.ms", false},
		{"partitioner", Producer, map[string]string{"partitioner.class": "com.example.Mine"}, "partitioner.class", true},
		{"interceptors", Consumer, map[string]string{"interceptor.classes": "com.example.Mine"}, "", false},
		{"producer interceptors", Producer, map[string]string{"interceptor.classes": "com.example.Mine"}, "interceptor.classes", true},
		{"serializer", Producer, map[string]string{"value.serializer": "org.apache.kafka.common.serialization.StringSerializer"}, "value.serializer", true},
		{"assignor", Consumer, map[string]string{"group.id": "g", "partition.assignment.strategy": "com.example.Mine"}, "partition.assignment.strategy", true},
		{"new protocol", Consumer, map[string]string{"group.id": "g", "group.protocol": "consumer"}, "group.protocol", true},
		{"kerberos", Admin, map[string]string{"security.protocol": "SASL_SSL"}, "GSSAPI", true},
		{"login module", Admin, map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
			"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"}, "Krb5LoginModule", true},
		{"protocol", Admin, map[string]string{"security.protocol": "TLS"}, "TLS", false},
	} {
		props := map[string]string{"bootstrap.servers": "localhost:9092"}
		for k, v := range c.props {
			props[k] = v
		}
		_, _, err := Options(props, c.role)
		if c.want == "" {
			if !errors.Is(err, ErrRefused) {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrRefused) != c.refused {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	_, _, err := Options(map[string]string{"acks": "7", "linger.ms": "x"}, Producer)
	for _, want := range []string{"acks", "linger.ms", "bootstrap.servers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not all faults at once, %s is missing: %v", want, err)
		}
	}
}

func TestWarnings(t *testing.T) {
	_, warnings, err := Options(map[string]string{
		"bootstrap.servers": "h:1", "compresion.type": "zstd", "linger.ms": "5", "fetch.min.bytes": "1", "send.buffer.bytes": "9", "wholly.different": "1",
	}, Producer)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(warnings))
	for _, w := range warnings {
		got = append(got, w.Key+">"+w.Nearest)
	}
	want := []string{"compresion.type>compression.type", "fetch.min.bytes>", "send.buffer.bytes>", "wholly.different>"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOverlay(t *testing.T) {
	worker := map[string]string{
		"bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.key.password": "p", "group.id": "workers", "client.id": "w",
		"offset.storage.topic": "o", "producer.linger.ms": "5", "producer.security.protocol": "PLAINTEXT", "consumer.max.poll.records": "9", "producer.": "x",
	}
	want := map[string]string{"bootstrap.servers": "h:1", "security.protocol": "PLAINTEXT", "ssl.key.password": "p", "linger.ms": "5"}
	if got := Overlay(worker, "producer."); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Overlay(worker, ""); got["group.id"] != "" || got["linger.ms"] != "" {
		t.Errorf("without a prefix: %v", got)
	}
}

func TestKnown(t *testing.T) {
	for role, want := range map[Role][2]string{Producer: {"acks", "group.id"}, Consumer: {"group.id", "acks"}, Admin: {"bootstrap.servers", "acks"}} {
		names := Known(role)
		if !slices.Contains(names, want[0]) || slices.Contains(names, want[1]) || !slices.IsSorted(names) {
			t.Errorf("%s: %v", role, names)
		}
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s: a key is listed twice", role)
		}
	}
	if !Secret("sasl.jaas.config") || Secret("acks") || Secret("unknown") {
		t.Error("secrets")
	}
}

// TestProduceConsume moves a record with clients made from properties.
func TestProduceConsume(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	props := map[string]string{"bootstrap.servers": strings.Join(cluster.ListenAddrs(), ","), "acks": "all", "compression.type": "gzip"}
	producer, _, err := NewClient(props, Producer)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	consumer, _, err := NewClient(map[string]string{"bootstrap.servers": props["bootstrap.servers"], "group.id": "g", "auto.offset.reset": "earliest"}, Consumer, kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if err := fetches.Err(); err != nil || fetches.NumRecords() != 1 || string(fetches.Records()[0].Value) != "v" {
		t.Errorf("got %v, %v", fetches.Records(), err)
	}
}

func mechanismOf(t *testing.T, props map[string]string) sasl.Mechanism {
	t.Helper()
	b := &builder{props: props}
	m := b.sasl()
	if m == nil {
		t.Fatal(errors.Join(b.faults...))
	}
	return m
}

func TestSASL(t *testing.T) {
	for mechanism, module := range map[string]string{
		"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule",
	} {
		m := mechanismOf(t, map[string]string{"sasl.mechanism": mechanism,
			"sasl.jaas.config": "org.apache.kafka.common.security." + module + " required\n username=\"u\" password='p\\'=;w' ;"})
		if m.Name() != mechanism {
			t.Errorf("%s: got %s", mechanism, m.Name())
		}
		if _, first, err := m.Authenticate(t.Context(), "h"); err != nil || mechanism == "PLAIN" && string(first) != "\x00u\x00p'=;w" {
			t.Errorf("%s: %q, %v", mechanism, first, err)
		}
	}
}

func TestOAuth(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		id, secret, _ := r.BasicAuth()
		if id != "app" || secret != "s" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"tok","expires_in":3600}`))
	}))
	defer server.Close()
	jaas := "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=app clientSecret=s scope=kafka extension_a=b;"
	m := mechanismOf(t, map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": server.URL, "sasl.jaas.config": jaas})
	for range 2 {
		if _, first, err := m.Authenticate(t.Context(), "h"); err != nil || !strings.Contains(string(first), "Bearer tok") || !strings.Contains(string(first), "a=b") {
			t.Fatalf("got %q, %v", first, err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls for one token", calls)
	}
	wrong := mechanismOf(t, map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": server.URL,
		"sasl.jaas.config": strings.Replace(jaas, "clientSecret=s", "clientSecret=hidden", 1)})
	if _, _, err := wrong.Authenticate(t.Context(), "h"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("wrong secret: %v", err)
	}
	unsecured := mechanismOf(t, map[string]string{"sasl.mechanism": "OAUTHBEARER",
		"sasl.jaas.config": "OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"me\";"})
	_, first, err := unsecured.Authenticate(t.Context(), "h")
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(string(first), "Bearer ")
	parts := strings.Split(strings.TrimRight(token, "\x01"), ".")
	if claims, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || !strings.Contains(string(claims), `"sub":"me"`) {
		t.Errorf("claims %s, %v", claims, err)
	}
}

func TestJAAS(t *testing.T) {
	for text, ok := range map[string]bool{
		"a.B required;":                       true,
		"a.B required x=y z=\"1 2\"; ":        true,
		"/* c */ a.B optional // note\n x=y;": true,
		"a.B required x=y":                    false,
		"a.B x=y;":                            false,
		"a.B required x=\"y;":                 false,
		"a.B required x;":                     false,
		"a.B required x=y; c.D required;":     false,
		"":                                    false,
		";":                                   false,
		"a.B required =;":                     false,
		"a.B required x=" + strings.Repeat("=", 99): false,
	} {
		if _, err := parseJAAS(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzJAAS(f *testing.F) {
	f.Add("a.B required x=y z=\"1 2\";")
	f.Add("/* c */ a.B optional // note\n x=y;")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseJAAS(text) })
}
