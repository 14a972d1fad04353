package elasticsearch

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

// server plays a search engine: documents with external versions, and the answers of the real one as they were recorded.
type server struct {
	t       testing.TB
	answers map[string]exchange
	address string
	http    *http.Server

	mu       sync.Mutex
	docs     map[string]document // by index/id
	applied  map[string][]string // by index/id: the bodies that were taken, in order
	requests int
	maxBytes int
	// disturb is asked before each operation (and with "" before a request): 0 to go on, or a status to answer.
	disturb func(target string) int
}

type document struct {
	version int64
	source  string // "" when deleted
}

func newServer(t testing.TB) *server {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var all []exchange
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, answers: map[string]exchange{}, docs: map[string]document{}, applied: map[string][]string{}, maxBytes: 1 << 30}
	for _, e := range all {
		s.answers[e.Name] = e
	}
	s.address = "127.0.0.1:0"
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	listener, err := net.Listen("tcp", s.address)
	for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
		listener, err = net.Listen("tcp", s.address)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.http = &http.Server{Handler: s}
	go func(h *http.Server) { _ = h.Serve(listener) }(s.http)
}

func (s *server) stop() { _ = s.http.Close() }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := strings.Trim(r.URL.Path, "/")
	_, there := s.docs[index+"/"]
	switch {
	case r.URL.Path == "/":
		s.answer(w, "info")
	case r.URL.Path == "/_bulk":
		s.bulk(w, r)
	case r.Method == http.MethodHead && there:
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPut && there:
		s.answer(w, "create again")
	case r.Method == http.MethodPut:
		s.docs[index+"/"] = document{}
		s.answer(w, "create")
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *server) answer(w http.ResponseWriter, name string) {
	e := s.answers[name]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(e.Answer)
}

// item gives the recorded answer of one operation.
func (s *server) item(name, op string) string {
	var a struct{ Items []map[string]json.RawMessage }
	if err := json.Unmarshal(s.answers[name].Answer, &a); err != nil {
		s.t.Error(err)
	}
	for _, inner := range a.Items[0] {
		return fmt.Sprintf(`{%q:%s}`, op, inner)
	}
	return ""
}

func (s *server) bulk(w http.ResponseWriter, r *http.Request) {
	s.requests++
	if s.disturb != nil {
		if status := s.disturb(""); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			s.t.Error(err)
			return
		}
		in = z
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return
	}
	if len(body) > s.maxBytes {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	var items []string
	for n := 0; n < len(lines); n++ {
		var action map[string]struct {
			Index       string `json:"_index"`
			ID          string `json:"_id"`
			Version     *int64
			VersionType string `json:"version_type"`
		}
		if err := json.Unmarshal(lines[n], &action); err != nil || len(action) != 1 {
			s.answer(w, "nonsense")
			return
		}
		for op, a := range action {
			source := ""
			if op != "delete" {
				n++
				source = string(lines[n])
			}
			items = append(items, s.apply(op, a.Index+"/"+a.ID, source, a.Version))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"errors":true,"items":[%s]}`, strings.Join(items, ","))
}

func (s *server) apply(op, target, source string, version *int64) string {
	if s.disturb != nil {
		if status := s.disturb(target); status != 0 {
			return strings.Replace(s.item("disk full", op), `"status": 429`, fmt.Sprintf(`"status": %d`, status), 1)
		}
	}
	if source != "" && !json.Valid([]byte(source)) {
		return s.item("not JSON", op)
	}
	if strings.Contains(source, `"poison"`) {
		return s.item("wrong type", op)
	}
	old, there := s.docs[target]
	if version != nil && there && old.version >= *version {
		return s.item("same version", op)
	}
	d := document{source: source}
	if version != nil {
		d.version = *version
	}
	if op == "update" {
		d.source = strings.TrimSuffix(strings.TrimPrefix(source, `{"doc":`), `,"doc_as_upsert":true}`)
	}
	s.docs[target] = d
	s.applied[target] = append(s.applied[target], d.source)
	if op == "delete" && !there {
		return s.item("delete of nothing", op)
	}
	return s.item("first version", op)
}

func (s *server) world() connecttest.SinkWorld {
	return connecttest.SinkWorld{
		Config: connect.Config{"connection.url": "http://" + s.address, "linger.ms": "0", "retry.backoff.ms": "5", "max.retries": "1", "behavior.on.null.values": "delete"},
		Read: func() (out []string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for target, d := range s.docs {
				if d.source != "" {
					out = append(out, target+" "+d.source)
				}
			}
			return out
		},
		Want:   want,
		Poison: func() connect.Data { return connecttest.JSON([]byte(`{"poison":1}`)) },
		Stop:   s.stop,
		Start:  s.start,
	}
}

// want gives the documents that records make: the last of each key.
func want(records []connect.Record) (out []string) {
	last := map[string]connect.Record{}
	for _, r := range records {
		key, _, _ := r.Key.Encoded()
		target := strings.ToLower(r.Topic) + "/" + strings.Trim(string(key), `"`)
		if old, ok := last[target]; !ok || old.Origin.Offset < r.Origin.Offset {
			last[target] = r
		}
	}
	for target, r := range last {
		if b, _, ok := r.Value.Encoded(); ok {
			out = append(out, target+" "+string(b))
		}
	}
	return out
}

func TestContract(t *testing.T) {
	for name, c := range map[string]connect.Connector{"confluent": Connector(), "aiven": OpenSearch()} {
		t.Run(name, func(t *testing.T) {
			connecttest.Run(t, connecttest.Suite{
				Connector: c,
				BadConfigs: map[string]connect.Config{
					"no address":      {"connection.url": "127.0.0.1:9200"},
					"empty":           {},
					"user alone":      {"connection.url": "http://x", "connection.username": "u"},
					"small buffer":    {"connection.url": "http://x", "max.buffered.records": "10"},
					"colliding names": {"connection.url": "http://x", "topics": "Orders,orders"},
					"data stream":     {"connection.url": "http://x", "data.stream.type": "LOGS", "data.stream.enabled": "true"},
					"no server":       {"connection.url": notSearch(t)},
				},
				NewSink: func(t testing.TB) connecttest.SinkWorld { return newServer(t).world() },
			})
		})
	}
}

// notSearch is an HTTP server that is no search engine.
func notSearch(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { s.Close() })
	return "http://" + listener.Addr().String()
}

// TestDisturbed: the server puts off three of ten operations and whole requests too. Nothing is lost, what it took is not
// sent again, and operations on one id keep their order, with versions and without.
func TestDisturbed(t *testing.T) {
	for _, method := range []string{"INSERT", "UPSERT"} {
		t.Run(method, func(t *testing.T) {
			seed := time.Now().UnixNano()
			random := rand.New(rand.NewSource(seed))
			s := newServer(t)
			s.maxBytes = 4000
			s.disturb = func(string) int { // s.mu is held
				if random.Intn(10) < 3 {
					return []int{429, 503}[random.Intn(2)]
				}
				return 0
			}
			w := s.world()
			w.Config["write.method"] = method
			w.Config["connection.compression"] = "true"
			w.Config["retry.backoff.ms"] = "2"
			w.Config["max.retries"] = "1000"
			w.Record = func(i int) (key, value connect.Data) {
				key = connecttest.JSON(fmt.Appendf(nil, `"id-%d"`, i*7%50))
				if method == "INSERT" && i%11 == 3 {
					return key, connect.Data{}
				}
				return key, connecttest.JSON(fmt.Appendf(nil, `{"n":%d}`, i))
			}
			d := connecttest.NewDriver(t, Connector(), w)
			tp := connect.TopicPartition{Topic: "T", Partition: 0}
			d.Feed(tp, 1500)
			d.Open()
			d.Assign(tp)
			for d.Put(100) > 0 {
			}
			d.Drain()
			d.Close()
			d.CheckContent()
			for target, bodies := range s.applied {
				if method == "INSERT" {
					break // versions drop what is old: the content says it all
				}
				if !slices.IsSortedFunc(bodies, func(a, b string) int { return number(a) - number(b) }) || len(slices.Compact(slices.Clone(bodies))) != len(bodies) {
					t.Errorf("seed %d: %s was written out of order or twice: %v", seed, target, bodies)
				}
			}
			if len(d.Bad) > 0 {
				t.Errorf("seed %d: refused: %v", seed, d.Bad)
			}
		})
	}
}

// TestOneStuck: an index that takes nothing holds up its own partition, not another.
func TestOneStuck(t *testing.T) {
	s := newServer(t)
	stuck := true
	s.disturb = func(target string) int { // s.mu is held
		if stuck && strings.HasPrefix(target, "stuck/") {
			return 503
		}
		return 0
	}
	d := connecttest.NewDriver(t, Connector(), s.world())
	bad, good := connect.TopicPartition{Topic: "stuck"}, connect.TopicPartition{Topic: "good"}
	d.Feed(bad, 30)
	d.Feed(good, 30)
	d.Open()
	d.Assign(bad, good)
	for d.Put(10) > 0 {
	}
	end := d.Log[good][29].Origin.Offset + 1
	for deadline := time.Now().Add(connecttest.Patience); d.Committed[good].Offset < end; d.Flush(true) {
		if time.Now().After(deadline) {
			t.Fatal("the good partition is held up")
		}
	}
	if c, ok := d.Committed[bad]; ok {
		t.Errorf("the stuck partition was committed to %v", c)
	}
	d.Feed(good, 10) // nor does it hold up what comes later
	d.Put(100)
	if f := d.Flush(true); len(f.Durable) != 1 {
		t.Errorf("a later flush answers %v", f)
	}
	s.mu.Lock()
	stuck = false
	s.mu.Unlock()
	d.Drain()
	d.CheckContent()
	d.Close()
}

// TestFullBuffer: the target is away and the buffer small, so a Put is taken in part, refused and repeated. Without
// versions every record must still be written once, in order.
func TestFullBuffer(t *testing.T) {
	s := newServer(t)
	w := s.world()
	for key, value := range map[string]string{"write.method": "UPSERT", "batch.size": "5", "max.in.flight.requests": "2", "max.buffered.records": "10"} {
		w.Config[key] = value
	}
	w.Record = func(i int) (key, value connect.Data) {
		return connecttest.JSON(fmt.Appendf(nil, `"id-%d"`, i%4)), connecttest.JSON(fmt.Appendf(nil, `{"n":%d}`, i))
	}
	d := connecttest.NewDriver(t, Connector(), w)
	tp := connect.TopicPartition{Topic: "t"}
	d.Feed(tp, 1)
	d.Open()
	d.Assign(tp)
	d.Drain() // the index is there
	d.Feed(tp, 100)
	s.stop()
	await := time.Now().Add(connecttest.Patience)
	for {
		err := d.Task().Put(t.Context(), d.Log[tp][1:])
		if isRetry(err) {
			break
		}
		if err != nil || time.Now().After(await) {
			t.Fatalf("a full buffer before a dead target answers %v", err)
		}
	}
	s.start()
	d.Drain()
	d.CheckContent()
	d.Close()
	for target, bodies := range s.applied {
		if !slices.IsSortedFunc(bodies, func(a, b string) int { return number(a) - number(b) }) || len(slices.Compact(slices.Clone(bodies))) != len(bodies) {
			t.Errorf("%s was written out of order or twice: %v", target, bodies)
		}
	}
}

func number(body string) int {
	var doc struct{ N int }
	_ = json.Unmarshal([]byte(body), &doc)
	return doc.N
}

// TestLive runs the contract on a real server, named by WEIR_TEST_OPENSEARCH.
func TestLive(t *testing.T) {
	url := os.Getenv("WEIR_TEST_OPENSEARCH")
	if url == "" {
		t.Skip("NOT RUN: no real search engine; start one (e2e/services/opensearch.sh) and name it in WEIR_TEST_OPENSEARCH")
	}
	connecttest.Run(t, connecttest.Suite{
		Connector:  Connector(),
		BadConfigs: map[string]connect.Config{"empty": {}},
		NewSink:    func(t testing.TB) connecttest.SinkWorld { return live(t, url) },
	})
}

// live is a real server from which the suite's indices are removed.
func live(t testing.TB, url string) connecttest.SinkWorld {
	call := func(method, path, body string) []byte {
		request, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		out, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	call(http.MethodDelete, "/suite-a,suite-b?ignore_unavailable=true", "")
	return connecttest.SinkWorld{
		Config: connect.Config{"connection.url": url, "behavior.on.null.values": "delete"},
		Want:   want,
		Poison: func() connect.Data { return connecttest.JSON([]byte(`{"id":{"an":"object"}}`)) },
		Read: func() (out []string) {
			call(http.MethodPost, "/suite-*/_refresh", "")
			var found struct {
				Hits struct {
					Hits []struct {
						Index  string          `json:"_index"`
						ID     string          `json:"_id"`
						Source json.RawMessage `json:"_source"`
					}
				}
			}
			if err := json.Unmarshal(call(http.MethodGet, "/suite-*/_search?size=10000", ""), &found); err != nil {
				t.Fatal(err)
			}
			for _, h := range found.Hits.Hits {
				out = append(out, h.Index+"/"+h.ID+" "+string(h.Source))
			}
			return out
		},
	}
}
