package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/rest"
	"github.com/weirlog/weir/connect/worker"
)

// group is several workers of one group over an in-process Kafka.
type group struct {
	t     *testing.T
	fake  *kfake.Cluster
	nodes []*node

	mu    sync.Mutex
	open  map[string]*node // task -> where it is open
	opens int
}

// node is one of them, with its REST. Its tasks say where they are opened.
type node struct {
	*server
	g      *group
	worker string // its id
	end    func()

	mu    sync.Mutex
	cut   bool
	ended bool
	wire  []net.Conn
}

func newGroup(t *testing.T, n int) *group {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	g := &group{t: t, fake: fake, open: map[string]*node{}}
	for range n {
		g.add()
	}
	return g
}

// add starts a worker.
func (g *group) add() *node {
	g.t.Helper()
	n := &node{g: g}
	var handler http.Handler
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
	n.worker = srv.Listener.Addr().String()
	const str = "org.apache.kafka.connect.storage.StringConverter"
	cfg, _, err := worker.ParseConfig(map[string]string{"bootstrap.servers": g.fake.ListenAddrs()[0], "group.id": "g",
		"config.storage.topic": "cfg", "offset.storage.topic": "off", "status.storage.topic": "sta",
		"offset.storage.partitions": "1", "status.storage.partitions": "1", "key.converter": str, "value.converter": str,
		"listeners": "http://" + n.worker, "session.timeout.ms": "2000", "heartbeat.interval.ms": "300", "connect.task.restart.backoff.ms": "10"})
	if err != nil {
		g.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("WEIR_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", n.worker)
	}
	w, err := worker.Open(cfg, worker.Deps{Connectors: []connect.Connector{n.connector()}, Log: log, KafkaOpts: []kgo.Opt{kgo.Dialer(n.dial)}})
	if err != nil {
		g.t.Fatal(err)
	}
	handler = rest.New(w, rest.Config{}, log)
	srv.Start()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	n.end = sync.OnceFunc(func() {
		n.mu.Lock()
		n.ended = true
		n.mu.Unlock()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			g.t.Error(err)
		}
	})
	g.t.Cleanup(n.end)
	n.server = &server{t: g.t, url: srv.URL, w: w}
	n.eventually("GET", "/health", "", 200, `{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}`)
	g.nodes = append(g.nodes, n)
	return n
}

// dial reaches Kafka while the node isn't cut off.
func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		c.Close()
		return nil, errors.New("cut off")
	}
	n.wire = append(n.wire, c)
	return c, nil
}

// cutOff is what others see when the process is killed: it says no more.
func (n *node) cutOff() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for _, c := range n.wire {
		c.Close()
	}
}

func (n *node) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

// connector plans as many tasks as it may. A task that is open at two workers that can both write is a fault.
func (n *node) connector() connect.Connector {
	return connect.Connector{Name: "spread", Version: "1", Fields: []connect.Field{{Name: "x", Type: connect.TypeString}},
		Plan: func(_ context.Context, in connect.Instance, most int) ([]connect.Config, error) {
			configs := make([]connect.Config, most)
			for i := range configs {
				configs[i] = connect.Config{"x": in.Config["x"]}
			}
			return configs, nil
		},
		Source: func(_ context.Context, task connect.Task) (connect.SourceTask, error) {
			id := fmt.Sprintf("%s-%d", task.Instance.Name, task.ID)
			n.g.mu.Lock()
			defer n.g.mu.Unlock()
			if other := n.g.open[id]; other != nil && !other.isCut() {
				n.g.t.Errorf("%s is opened at %s while it is open at %s", id, n.worker, other.worker)
			}
			n.g.open[id] = n
			n.g.opens++
			return &openTask{n: n, id: id}, nil
		},
	}
}

type openTask struct {
	idleSource
	n  *node
	id string
}

func (o *openTask) Close(context.Context) error {
	o.n.g.mu.Lock()
	defer o.n.g.mu.Unlock()
	if o.n.g.open[o.id] == o.n {
		delete(o.n.g.open, o.id)
	}
	return nil
}

func (g *group) opened() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opens
}

// until waits for something to become true.
func (g *group) until(what string, f func() bool) {
	g.t.Helper()
	for limit := time.Now().Add(waitLimit); !f(); time.Sleep(5 * time.Millisecond) { // polls a condition
		if time.Now().After(limit) {
			var all []string
			for _, n := range g.nodes {
				if n.mu.Lock(); n.ended {
					n.mu.Unlock()
					continue
				}
				n.mu.Unlock()
				_, body, _ := n.do("GET", "/connectors?expand=status", "")
				all = append(all, n.worker+" "+body)
			}
			g.t.Fatalf("waited in vain for %s\n%s", what, strings.Join(all, "\n"))
		}
	}
}

// spread says how many tasks of a connector each worker runs, by what one of them tells; nil while not all of it runs.
func (n *node) spread(name string, tasks int) map[string]int {
	code, body, _ := n.do("GET", "/connectors/"+name+"/status", "")
	var s worker.Status
	if code != 200 || json.Unmarshal([]byte(body), &s) != nil || s.Connector.State != worker.Running || len(s.Tasks) != tasks {
		return nil
	}
	at := map[string]int{}
	for _, task := range s.Tasks {
		if task.State != worker.Running {
			return nil
		}
		at[task.WorkerID]++
	}
	return at
}

// settled waits until each of the nodes tells that the tasks run at so many of each.
func (g *group) settled(name string, tasks int, nodes ...*node) {
	g.t.Helper()
	g.until(fmt.Sprintf("%d tasks of %s at %d workers", tasks, name, len(nodes)), func() bool {
		for _, asked := range nodes {
			at := asked.spread(name, tasks)
			for _, n := range nodes {
				if at[n.worker] < tasks/len(nodes) || at[n.worker] > (tasks+len(nodes)-1)/len(nodes) {
					return false
				}
			}
		}
		return true
	})
}

func (n *node) must(method, path, body string, want int) string {
	n.t.Helper()
	code, got, _ := n.do(method, path, body)
	if code != want {
		n.t.Fatalf("%s %s at %s: %d %s, want %d", method, path, n.worker, code, got, want)
	}
	return got
}

// TestGroupOfWorkers: three workers share what any of them is asked to run; each serves each request; who comes, goes or is cut
// off moves no more than must be, and nothing is ever open twice.
func TestGroupOfWorkers(t *testing.T) {
	g := newGroup(t, 3)
	a, b, c := g.nodes[0], g.nodes[1], g.nodes[2]
	for i, n := range g.nodes {
		n.must("PUT", fmt.Sprintf("/connectors/c%d/config", i), `{"connector.class":"spread","tasks.max":"6"}`, 201)
		n.must("GET", fmt.Sprintf("/connectors/c%d", i), "", 200) // seen where it was made
	}
	for i := range 3 {
		g.settled(fmt.Sprintf("c%d", i), 6, a, b, c)
	}
	if n := g.opened(); n != 18 {
		t.Errorf("18 tasks were opened %d times", n)
	}

	c.must("PUT", "/connectors/c0/config", `{"connector.class":"spread","tasks.max":"6","x":"1"}`, 200)
	g.until("all tasks of the new configuration", func() bool { return g.opened() == 24 })
	g.settled("c0", 6, a, b, c)
	for task := range 6 {
		b.must("POST", fmt.Sprintf("/connectors/c0/tasks/%d/restart", task), "", 204) // wherever it runs
	}
	g.until("all tasks to be restarted", func() bool { return g.opened() == 30 })
	b.must("PUT", "/connectors/c1/stop", "", 204)
	g.until("no task of c1", func() bool { return c.spread("c1", 6) == nil && slices.Equal(g.taskIDs("c1"), nil) })
	g.until("its offsets to be changed", func() bool {
		code, _, _ := a.do("DELETE", "/connectors/c1/offsets", "")
		return code == 200
	})
	c.must("PUT", "/connectors/c1/resume", "", 202)
	g.settled("c1", 6, a, b, c)
	c.must("DELETE", "/connectors/c2", "", 204)
	for _, n := range g.nodes {
		n.eventually("GET", "/connectors/c2/status", "", 404, `{"error_code":404,"message":"No status found for connector c2"}`)
	}

	opened := g.opened()
	a.end()
	g.settled("c0", 6, b, c)
	g.settled("c1", 6, b, c)
	if n := g.opened() - opened; n > 4+2 {
		t.Errorf("%d tasks were opened when one of three with 4 tasks has left", n)
	}
	b.cutOff()
	began := time.Now()
	g.settled("c0", 6, c)
	g.settled("c1", 6, c)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("what a worker that was cut off had runs elsewhere after %v; its session is 2s", took)
	}
	opened = g.opened()
	d := g.add()
	g.settled("c0", 6, c, d)
	g.settled("c1", 6, c, d)
	if n := g.opened() - opened; n != 6 {
		t.Errorf("%d tasks were opened when a second has come to 12 tasks, want 6", n)
	}
	d.must("DELETE", "/connectors/c0", "", 204)
	d.must("PUT", "/connectors/c0/config", `{"connector.class":"spread","tasks.max":"2"}`, 201)
	g.settled("c0", 2, c, d)
}

// taskIDs is what of a connector is open, sorted.
func (g *group) taskIDs(name string) (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.open {
		if strings.HasPrefix(id, name+"-") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestTasksAreTakenOnlySigned: only who has read the group's key from the config topic may hand in a plan.
func TestTasksAreTakenOnlySigned(t *testing.T) {
	g := newGroup(t, 2)
	for _, n := range g.nodes {
		const path, body = "/connectors/x/tasks", `[]`
		g.until("a key", func() bool { code, _, _ := n.do("POST", path, body, signed...); return code != 503 })
		for _, c := range []struct {
			header []string
			want   int
		}{
			{nil, 400},
			{[]string{"X-Connect-Authorization", "AAAA"}, 400},
			{[]string{"X-Connect-Authorization", "%", "X-Connect-Request-Signature-Algorithm", "HmacSHA256"}, 400},
			{[]string{"X-Connect-Authorization", "AAAA", "X-Connect-Request-Signature-Algorithm", "HmacMD5"}, 400},
			{signed, 403},
		} {
			if code, got, _ := n.do("POST", path, body, c.header...); code != c.want {
				t.Errorf("with %v: %d %s, want %d", c.header, code, got, c.want)
			}
		}
	}
}

var signed = []string{"X-Connect-Authorization", "AAAA", "X-Connect-Request-Signature-Algorithm", "HmacSHA256"}
