package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestConsole(t *testing.T) {
	ready := errors.New("the worker is reading its topics")
	h, err := New(Config{
		Snapshot: func() Snapshot {
			return Snapshot{Version: "1", Started: time.Now(), Connectors: []Connector{{Name: "<b>pg</b>", State: "FAILED", Reason: "wrong password", Tasks: []Task{{ID: 0, State: "RUNNING", In: 7, LagText: "12"}}}},
				Topics: []Topic{{Name: "t", Partitions: 3, Bytes: 5 << 20}}}
		},
		Alive:   func() error { return nil },
		Ready:   func() error { return ready },
		Metrics: http.NotFoundHandler(),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	get := func(path string) (int, string) {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	status, page := get("/")
	for _, want := range []string{"&lt;b&gt;pg&lt;/b&gt;", "wrong password", "5.0 MiB", "not ready"} {
		if status != 200 || !strings.Contains(page, want) {
			t.Errorf("the page (%d) lacks %q", status, want)
		}
	}
	if status, text := get("/readyz"); status != 503 || !strings.Contains(text, "reading its topics") {
		t.Errorf("/readyz while not ready: %d %q", status, text)
	}
	ready = nil
	if status, _ := get("/readyz"); status != 200 {
		t.Errorf("/readyz when ready: %d", status)
	}
	if status, _ := get("/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	if status, _ := get("/nothing"); status != 404 {
		t.Errorf("an unknown path: %d", status)
	}
	var s Snapshot
	if _, text := get("/status.json"); json.Unmarshal([]byte(text), &s) != nil || len(s.Connectors) != 1 {
		t.Errorf("/status.json reads %+v", s)
	}
}
