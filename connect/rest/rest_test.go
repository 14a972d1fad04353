package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/rest"
	"github.com/weirlog/weir/connect/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitLimit bounds every wait for something that must happen.
const waitLimit = 30 * time.Second

type idleSource struct{}

func (idleSource) Poll(ctx context.Context) (connect.Batch, error) {
	<-ctx.Done()
	return connect.Batch{}, nil
}
func (idleSource) Commit(context.Context, connect.Acked) error  { return nil }
func (idleSource) Signal(context.Context, connect.Signal) error { return nil }
func (idleSource) Stats() connect.Stats                         { return connect.Stats{} }
func (idleSource) Close(context.Context) error                  { return nil }

func connectors() []connect.Connector {
	return []connect.Connector{{
		Name: "idle", Aliases: []string{"com.example.IdleSourceConnector"}, Version: "1.2",
		Fields: []connect.Field{
			{Name: "path", Type: connect.TypeString, Required: true, Importance: connect.High, Group: "Idle", Doc: "Where."},
			{Name: "password", Type: connect.TypePassword, NoDefault: true, Importance: connect.Low},
			{Name: "count", Type: connect.TypeInt, Default: "3", Importance: connect.Low},
		},
		Source: func(_ context.Context, t connect.Task) (connect.SourceTask, error) {
			if t.Config["path"] == "/bad" {
				return nil, connect.BadConfig("path", fmt.Errorf("%q is no good", "/bad"))
			}
			return idleSource{}, nil
		},
	}}
}

// server is a REST API over a real worker over an in-process Kafka.
type server struct {
	t   *testing.T
	url string
	w   *worker.Worker
}

func start(t *testing.T) *server {
	t.Helper()
	return startWith(t, connectors())
}

func startWith(t *testing.T, list []connect.Connector) *server {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("cluster-1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	const str = "org.apache.kafka.connect.storage.StringConverter"
	cfg, _, err := worker.ParseConfig(map[string]string{"bootstrap.servers": fake.ListenAddrs()[0], "group.id": "g",
		"config.storage.topic": "cfg", "offset.storage.topic": "off", "status.storage.topic": "sta",
		"offset.storage.partitions": "1", "status.storage.partitions": "1", "key.converter": str, "value.converter": str,
		"connect.task.restart.backoff.ms": "10", "listeners": "http://127.0.0.1:8083"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.Open(cfg, worker.Deps{Connectors: list, Version: "9.9", Commit: "abc", LogLevel: &slog.LevelVar{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	srv := httptest.NewServer(rest.New(w, rest.Config{MaxBodyBytes: 10000}, nil))
	t.Cleanup(func() {
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s := &server{t: t, url: srv.URL, w: w}
	s.eventually("GET", "/health", "", 200, `{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}`)
	return s
}

func (s *server) do(method, path, body string, header ...string) (int, string, http.Header) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(b) > 0 && resp.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s %s: content type %q", method, path, resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode, string(b), resp.Header
}

// same compares JSON texts by meaning; "" is no body.
func same(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

func (s *server) want(method, path, body string, status int, answer string) http.Header {
	s.t.Helper()
	got, b, h := s.do(method, path, body)
	if got != status || !same(b, answer) {
		s.t.Errorf("%s %s %s:\n got %d %s\nwant %d %s", method, path, body, got, b, status, answer)
	}
	return h
}

func (s *server) eventually(method, path, body string, status int, answer string) {
	s.t.Helper()
	deadline := time.Now().Add(waitLimit)
	for {
		got, b, _ := s.do(method, path, body)
		if got == status && same(b, answer) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s %s:\n got %d %s\nwant %d %s", method, path, got, b, status, answer)
		}
		time.Sleep(2 * time.Millisecond) // polls a condition; nothing depends on how long
	}
}

func TestConnectorsLifeThroughTheAPI(t *testing.T) {
	s := start(t)
	s.want("GET", "/", "", 200, `{"version":"9.9","commit":"abc","kafka_cluster_id":"cluster-1"}`)
	s.want("GET", "/connectors", "", 200, `[]`)
	s.want("GET", "/connectors/a", "", 404, `{"error_code":404,"message":"Connector a not found"}`)
	s.want("GET", "/connectors/a/status", "", 404, `{"error_code":404,"message":"No status found for connector a"}`)

	h := s.want("POST", "/connectors", `{"name":"a b","config":{"connector.class":"idle","path":"/x","password":"pw","count":7}}`, 201,
		`{"name":"a b","config":{"connector.class":"idle","path":"/x","password":"${inline:password}","count":"7","name":"a b"},"tasks":[],"type":"source"}`)
	if h.Get("Location") != "/connectors/a%20b" {
		t.Errorf("location %q", h.Get("Location"))
	}
	s.want("POST", "/connectors", `{"name":"a b","config":{"connector.class":"idle","path":"/x"}}`, 409,
		`{"error_code":409,"message":"Connector a b already exists"}`)
	status := `{"name":"a b","connector":{"state":"RUNNING","worker_id":"127.0.0.1:8083","version":"1.2"},"tasks":[{"id":0,"state":"RUNNING","worker_id":"127.0.0.1:8083","version":"1.2"}],"type":"source"}`
	s.eventually("GET", "/connectors/a%20b/status", "", 200, status)
	info := `{"name":"a b","config":{"connector.class":"idle","path":"/x","password":"${inline:password}","count":"7","name":"a b"},"tasks":[{"connector":"a b","task":0}],"type":"source"}`
	s.want("GET", "/connectors/a%20b", "", 200, info)
	s.want("GET", "/connectors?expand=status&expand=info&expand=nonsense", "", 200, `{"a b":{"status":`+status+`,"info":`+info+`}}`)
	s.want("GET", "/connectors/a%20b/tasks", "", 200, `[{"id":{"connector":"a b","task":0},"config":{"connector.class":"idle","path":"/x","password":"${inline:password}","count":"7","name":"a b","task.class":"idle"}}]`)
	s.want("GET", "/connectors/a%20b/tasks/0/status", "", 200, `{"id":0,"state":"RUNNING","worker_id":"127.0.0.1:8083","version":"1.2"}`)
	s.want("GET", "/connectors/a%20b/tasks/1/status", "", 404, `{"error_code":404,"message":"No status found for task a b-1"}`)
	s.want("GET", "/connectors/a%20b/topics", "", 200, `{"a b":{"topics":[]}}`)
	s.want("PUT", "/connectors/a%20b/topics/reset", "", 202, ``)
	s.want("GET", "/connectors/a%20b/offsets", "", 200, `{"offsets":[]}`)

	s.want("PUT", "/connectors/a%20b/config", `{"connector.class":"idle","path":"/y","password":"${inline:password}"}`, 200,
		`{"name":"a b","config":{"connector.class":"idle","path":"/y","password":"${inline:password}","name":"a b"},"tasks":[{"connector":"a b","task":0}],"type":"source"}`)
	s.want("PATCH", "/connectors/a%20b/config", `{"password":null,"count":4}`, 200,
		`{"name":"a b","config":{"connector.class":"idle","path":"/y","count":"4","name":"a b"},"tasks":[{"connector":"a b","task":0}],"type":"source"}`)
	s.want("GET", "/connectors/a%20b/config", "", 200, `{"connector.class":"idle","path":"/y","count":"4","name":"a b"}`)
	h = s.want("PUT", "/connectors/c/config", `{"connector.class":"com.example.IdleSourceConnector","path":"/z"}`, 201,
		`{"name":"c","config":{"connector.class":"com.example.IdleSourceConnector","path":"/z","name":"c"},"tasks":[],"type":"source"}`)
	if h.Get("Location") != "/connectors/c" {
		t.Errorf("location %q", h.Get("Location"))
	}
	s.eventually("GET", "/connectors/c/status", "", 200, strings.ReplaceAll(status, "a b", "c"))
	s.want("POST", "/connectors/c/restart", "", 204, ``)
	s.eventually("GET", "/connectors/c/status", "", 200, strings.ReplaceAll(status, "a b", "c"))
	s.want("POST", "/connectors/c/restart?includeTasks=true", "", 202, `{"name":"c","connector":{"state":"RESTARTING","worker_id":"127.0.0.1:8083","version":"1.2"},"tasks":[{"id":0,"state":"RESTARTING","worker_id":"127.0.0.1:8083","version":"1.2"}],"type":"source"}`)
	s.eventually("GET", "/connectors/c/status", "", 200, strings.ReplaceAll(status, "a b", "c"))
	s.want("POST", "/connectors/c/tasks/0/restart", "", 204, ``)
	s.want("POST", "/connectors/c/tasks/5/restart", "", 404, `{"error_code":404,"message":"Unknown task: c-5"}`)
	s.want("PUT", "/connectors/c/pause", "", 202, ``)
	s.eventually("GET", "/connectors/c/status", "", 200, strings.ReplaceAll(strings.ReplaceAll(status, "a b", "c"), "RUNNING", "PAUSED"))
	s.want("PATCH", "/connectors/c/offsets", `{"offsets":[{"partition":{"f":"x"},"offset":{"p":1}}]}`, 400,
		`{"error_code":400,"message":"Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by issuing a 'PUT' request to the '/connectors/c/stop' endpoint"}`)
	s.want("PUT", "/connectors/c/stop", "", 204, ``)
	s.eventually("GET", "/connectors/c/status", "", 200, `{"name":"c","connector":{"state":"STOPPED","worker_id":"127.0.0.1:8083","version":"1.2"},"tasks":[],"type":"source"}`)
	s.want("PATCH", "/connectors/c/offsets", `{"offsets":[]}`, 400, `{"error_code":400,"message":"Partitions / offsets need to be provided for an alter offsets request"}`)
	by := `The Connect framework-managed offsets for this connector have been %[1]s successfully. However, if this connector manages offsets externally, they will need to be manually %[1]s in the system that the connector uses.`
	s.want("PATCH", "/connectors/c/offsets", `{"offsets":[{"partition":{"f":"x"},"offset":{"p":1}}]}`, 200, fmt.Sprintf(`{"message":"`+by+`"}`, "altered"))
	s.want("GET", "/connectors/c/offsets", "", 200, `{"offsets":[{"partition":{"f":"x"},"offset":{"p":1}}]}`)
	s.want("DELETE", "/connectors/c/offsets", "", 200, fmt.Sprintf(`{"message":"`+by+`"}`, "reset"))
	s.want("GET", "/connectors/c/offsets", "", 200, `{"offsets":[]}`)
	s.want("PUT", "/connectors/c/resume", "", 202, ``)
	s.eventually("GET", "/connectors/c/status", "", 200, strings.ReplaceAll(status, "a b", "c"))
	s.want("DELETE", "/connectors/c", "", 204, ``)
	s.want("DELETE", "/connectors/c", "", 404, `{"error_code":404,"message":"Connector c not found"}`)
	for _, path := range []string{"/pause", "/resume"} {
		s.want("PUT", "/connectors/c"+path, "", 404, `{"error_code":404,"message":"Unknown connector c"}`)
	}
	s.want("PUT", "/connectors/c/stop", "", 404, `{"error_code":404,"message":"Unknown connector c"}`)
	s.want("POST", "/connectors/c/restart", "", 404, `{"error_code":404,"message":"Unknown connector: c"}`)
	s.want("GET", "/connectors", "", 200, `["a b"]`)
}

func TestInitialStateAndFailure(t *testing.T) {
	s := start(t)
	s.want("POST", "/connectors", `{"name":"p","initial_state":"stopped","config":{"connector.class":"idle","path":"/x"}}`, 201,
		`{"name":"p","config":{"connector.class":"idle","path":"/x","name":"p"},"tasks":[],"type":"source"}`)
	s.eventually("GET", "/connectors/p/status", "", 200, `{"name":"p","connector":{"state":"STOPPED","worker_id":"127.0.0.1:8083","version":"1.2"},"tasks":[],"type":"source"}`)
	s.want("PUT", "/connectors/f/config", `{"connector.class":"idle","path":"/bad"}`, 201, `{"name":"f","config":{"connector.class":"idle","path":"/bad","name":"f"},"tasks":[],"type":"source"}`)
	s.eventually("GET", "/connectors/f/tasks/0/status", "", 200, `{"id":0,"state":"FAILED","worker_id":"127.0.0.1:8083","version":"1.2","trace":"open source: path: \"/bad\" is no good"}`)
}

func TestRefusals(t *testing.T) {
	s := start(t)
	invalid := "Connector configuration is invalid and contains the following 2 error(s):\\nMissing required configuration \\\"path\\\" which has no default value.\\nInvalid value many for configuration count: Not a number of type INT\\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"POST", "/connectors", `{"name":"x","config":{"connector.class":"idle","count":"many"}}`, 400, `{"error_code":400,"message":"` + invalid + `"}`},
		{"PUT", "/connectors/x/config", `{"name":"y","connector.class":"idle","path":"p"}`, 400, `{"error_code":400,"message":"Connector name configuration (y) doesn't match connector name in the URL (x)"}`},
		{"POST", "/connectors", `{"name":"x","config":{"path":"p"}}`, 400, `{"error_code":400,"message":"Connector config {name=x, path=p} contains no connector type"}`},
		{"POST", "/connectors", `{"name":"  ","config":{}}`, 400, `{"error_code":400,"message":"Invalid connector name: must not be empty"}`},
		{"PUT", "/connector-plugins/other/config/validate", `{"connector.class":"idle"}`, 400, `{"error_code":400,"message":"Included connector type idle does not match request type other"}`},
		{"GET", "/connector-plugins/other/config", "", 404, `{"error_code":404,"message":"Unknown plugin other."}`},
		{"PATCH", "/connectors/x/config", `{}`, 404, `{"error_code":404,"message":"Connector x not found"}`},
		{"GET", "/nothing", "", 404, `{"error_code":404,"message":"HTTP 404 Not Found"}`},
		{"PUT", "/connectors", "{}", 405, `{"error_code":405,"message":"HTTP 405 Method Not Allowed"}`},
		{"PUT", "/admin/loggers/root", `{"level":"LOUD"}`, 404, `{"error_code":404,"message":"invalid log level 'LOUD'."}`},
		{"PUT", "/admin/loggers/root", `{}`, 400, `{"error_code":400,"message":"Desired 'level' parameter was not specified in request."}`},
		{"PUT", "/admin/loggers/root", `{"level":"debug"}`, 200, `["root"]`},
	} {
		s.want(c.method, c.path, c.body, c.status, c.answer)
	}
	for _, c := range []struct {
		body   string
		header []string
		status int
	}{
		{`{"name":`, nil, 400}, {``, nil, 400}, {`[]`, nil, 400}, {`{} {}`, nil, 400}, {`{"name":"x","config":{"a":{}}}`, nil, 400},
		{`{"name":"x"}`, []string{"Content-Type", "text/plain"}, 415},
		{`{"name":"` + strings.Repeat("x", 20000) + `"}`, nil, 413},
		{strings.Repeat("[", 5000), nil, 400},
	} {
		status, b, _ := s.do("POST", "/connectors", c.body, c.header...)
		var e struct {
			Code int `json:"error_code"`
		}
		if json.Unmarshal([]byte(b), &e) != nil || status != c.status || e.Code != status {
			t.Errorf("POST %.40s: %d %s, want %d", c.body, status, b, c.status)
		}
	}
	if status, b, h := s.do("DELETE", "/connectors", ""); status != 405 || h.Get("Allow") != "GET,HEAD,OPTIONS,POST" {
		t.Errorf("%d %s, Allow %q", status, b, h.Get("Allow"))
	}
	status, b, _ := s.do("POST", "/connectors", `{"name":"x","config":{"connector.class":"nonsense"}}`)
	if status != 400 || !strings.Contains(b, "Failed to find any class that implements Connector and which name matches nonsense, available connectors are: idle = com.example.IdleSourceConnector") {
		t.Errorf("an unknown class: %d %s", status, b)
	}
}

func TestPluginsAndValidate(t *testing.T) {
	s := start(t)
	s.want("GET", "/connector-plugins", "", 200, `[{"class":"com.example.IdleSourceConnector","type":"source","version":"1.2"},{"class":"idle","type":"source","version":"1.2"}]`)
	_, b, _ := s.do("GET", "/connector-plugins?connectorsOnly=false", "")
	for _, want := range []string{`"type":"converter"`, `"type":"header_converter"`, `"type":"transformation"`, `"type":"predicate"`} {
		if !strings.Contains(b, want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
	status, b, _ := s.do("PUT", "/connector-plugins/IdleSource/config/validate", `{"name":"n","connector.class":"idle","password":"canary","count":"x","whatever":"1"}`)
	var v worker.Validation
	if status != 200 || json.Unmarshal([]byte(b), &v) != nil {
		t.Fatalf("%d %s", status, b)
	}
	if v.Name != "idle" || v.ErrorCount != 2 || strings.Contains(b, "canary") {
		t.Errorf("%s", b)
	}
	configs := map[string]worker.ConfigInfo{}
	for _, c := range v.Configs {
		configs[c.Value.Name] = c
	}
	path, _ := json.Marshal(configs["path"])
	if !same(string(path), `{"definition":{"name":"path","type":"STRING","required":true,"default_value":null,"importance":"HIGH","documentation":"Where.","group":"Idle","width":"NONE","display_name":"path","dependents":[],"order":`+fmt.Sprint(configs["path"].Definition.Order)+`,"order_in_group":`+fmt.Sprint(configs["path"].Definition.Order)+`},"value":{"name":"path","value":null,"recommended_values":[],"errors":["Missing required configuration \"path\" which has no default value."],"visible":true}}`) {
		t.Errorf("path: %s", path)
	}
	if c := configs["tasks.max"]; c.Definition == nil || *c.Definition.DefaultValue != "1" || c.Definition.Type != "INT" {
		t.Errorf("tasks.max: %+v", c)
	}
	if c, ok := configs["whatever"]; !ok || c.Definition != nil || *c.Value.Value != "1" {
		t.Errorf("whatever: %+v", c)
	}
	_, b, _ = s.do("GET", "/connector-plugins/idle/config", "")
	if !strings.Contains(b, `"name":"path"`) || !strings.Contains(b, `"name":"connector.class"`) {
		t.Errorf("config of idle: %s", b)
	}
}
