//go:build record

package mysql

// Records what the real Debezium makes of testdata/debezium-3.6.1 on a real server. It
// needs RECORD_KAFKA (host:port,…), RECORD_CONNECT (the address of a Java Connect with
// Debezium) and the servers of the other tests; e2e/golden brings them.

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connectors/mysql/binlog"
)

func TestRecordDebezium(t *testing.T) {
	for name := range goldenCases {
		t.Run(name, func(t *testing.T) {
			eachServer(t, func(t *testing.T, d *db) {
				java := newJava(t, d, goldenConfig(name, d.name))
				runFile(d, "setup.sql")
				java.start()
				java.until("the snapshot is there", func(g *javaEvents) bool {
					return g.count("plain") > 2 && (g.count("engine_myisam") > 0 || name == "captured") || name == "captured" && strings.Contains(g.text, "CREATE TABLE `plain`")
				})
				runFile(d, "stream.sql")
				g := java.until("the end", func(g *javaEvents) bool { return strings.Contains(g.text, "the end") })
				g.save(t, d.server.dialect, name)
			})
		})
	}
}

// javaEvents are a Java connector's records, and their texts.
type javaEvents struct {
	recordedEvents
	text string
}

func (g *javaEvents) count(table string) (n int) {
	for _, e := range g.Events {
		if strings.HasSuffix(e.Topic, "."+table) {
			n++
		}
	}
	return n
}

func (g *javaEvents) save(t *testing.T, d binlog.Dialect, name string) {
	encoded, err := json.MarshalIndent(&g.recordedEvents, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write(encoded)
	_ = zip.Close()
	if err := os.WriteFile(goldenFile(d, name), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// java is a connector in Java Connect.
type java struct {
	t      *testing.T
	d      *db
	prefix string
	config map[string]string
}

func newJava(t *testing.T, d *db, more map[string]string) *java {
	host, port, err := net.SplitHostPort(d.server.address)
	if err != nil {
		t.Fatal(err)
	}
	j := &java{t: t, d: d, prefix: fmt.Sprintf("srv%d", time.Now().UnixNano())}
	class := "io.debezium.connector.mysql.MySqlConnector"
	if d.server.dialect == binlog.MariaDB {
		class = "io.debezium.connector.mariadb.MariaDbConnector"
	}
	j.config = map[string]string{
		"connector.class": class, "tasks.max": "1", "database.hostname": host, "database.port": port, "database.user": "weir",
		"database.password": "weir", "database.server.id": fmt.Sprint(time.Now().UnixNano() % 1000000), "topic.prefix": j.prefix,
		"database.include.list": d.name, "schema.history.internal.kafka.bootstrap.servers": os.Getenv("RECORD_KAFKA"),
		"schema.history.internal.kafka.topic": "history." + j.prefix, "schema.history.internal.store.only.captured.databases.ddl": "true",
		"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
		"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
		"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true",
	}
	for k, v := range more {
		j.config[k] = v
	}
	return j
}

func (j *java) call(method, path string, body any) {
	j.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		j.t.Fatal(err)
	}
	request, err := http.NewRequest(method, os.Getenv("RECORD_CONNECT")+"/connectors/"+j.prefix+path, bytes.NewReader(encoded))
	if err != nil {
		j.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		j.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode > 299 {
		j.t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
}

func (j *java) start() {
	j.call("PUT", "/config", j.config)
	j.t.Cleanup(func() { j.call("DELETE", "", nil) })
}

// until reads all topics again and again until the condition holds and nothing new has
// come for three seconds: topics overtake one another.
func (j *java) until(what string, ok func(*javaEvents) bool) *javaEvents {
	j.t.Helper()
	seen, since := -1, time.Now()
	for start := time.Now(); ; time.Sleep(time.Second) {
		g := j.read()
		if len(g.Events) != seen {
			seen, since = len(g.Events), time.Now()
		} else if ok(g) && time.Since(since) > 3*time.Second {
			return g
		}
		if time.Since(start) > 3*time.Minute {
			j.t.Fatalf("waited too long until %s: %d events", what, len(g.Events))
		}
	}
}

func (j *java) read() *javaEvents {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("RECORD_KAFKA")))
	if err != nil {
		j.t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx)
	if err != nil {
		j.t.Fatal(err)
	}
	g := &javaEvents{recordedEvents: recordedEvents{Schemas: map[string]json.RawMessage{}}}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Topic == j.prefix || strings.HasPrefix(o.Topic, j.prefix+".") || o.Topic == "history."+j.prefix {
			left += o.Offset
			cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{o.Topic: {0: kgo.NewOffset().AtStart()}})
		}
	})
	rename := strings.NewReplacer(j.prefix, "srv", j.d.name, "DB")
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			j.t.Fatalf("read the topics: %v", ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			left--
			e := recordedEvent{Topic: rename.Replace(r.Topic), Key: g.add(rename.Replace(string(r.Key))), Value: g.add(rename.Replace(string(r.Value)))}
			for _, h := range r.Headers {
				e.Headers = append(e.Headers, [2]string{h.Key, rename.Replace(string(h.Value))})
			}
			g.Events = append(g.Events, e)
			g.text += string(r.Value)
		})
	}
	return g
}
