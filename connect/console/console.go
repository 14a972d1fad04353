package console

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

//go:embed page.html
var pageText string

// Snapshot is the state of a node as people are shown it.
type Snapshot struct {
	Version    string      `json:"version"`
	ClusterID  string      `json:"cluster_id"`
	NodeID     int32       `json:"node_id"` // -1: a worker without a log of its own
	Started    time.Time   `json:"started"`
	Ready      bool        `json:"ready"`
	NotReady   string      `json:"not_ready,omitempty"` // why not
	Addresses  []Address   `json:"addresses"`
	Connectors []Connector `json:"connectors"`
	Topics     []Topic     `json:"topics"`
	Figures    []Figure    `json:"figures"`
}

// Address is where something listens.
type Address struct {
	What string `json:"what"`
	Addr string `json:"addr"`
}

// Figure is one number of the node with its name, as text.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Connector is one connector with its tasks.
type Connector struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Class  string `json:"class"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Tasks  []Task `json:"tasks"`
}

// Task is one task. Lag is in records for a sink, -1 where it is not known.
type Task struct {
	ID           int    `json:"id"`
	State        string `json:"state"`
	Reason       string `json:"reason,omitempty"`
	In           uint64 `json:"records_in"`
	Out          uint64 `json:"records_out"`
	Filtered     uint64 `json:"filtered"`
	DeadLettered uint64 `json:"dead_lettered"`
	Skipped      uint64 `json:"skipped"`
	Lag          int64  `json:"lag"`
	LagText      string `json:"lag_text"`
	Restarts     uint64 `json:"restarts"`
}

// Topic is one topic of the node.
type Topic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
	Records    int64  `json:"offsets"` // end minus start, over all partitions
	Bytes      int64  `json:"bytes"`
	Internal   bool   `json:"internal"`
}

// Config is what a console serves. All functions may be called at any time and return at once.
type Config struct {
	Snapshot func() Snapshot
	Alive    func() error // /healthz: nil while the process does its work
	Ready    func() error // /readyz: nil when it serves
	Metrics  http.Handler
}

// New makes the handler.
func New(cfg Config) (http.Handler, error) {
	page, err := template.New("page").Funcs(template.FuncMap{"bytes": bytesText, "ago": func(t time.Time) string { return time.Since(t).Round(time.Second).String() }}).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("Cache-Control", "no-store")
		_ = page.Execute(w, cfg.Snapshot()) // the reader has gone
	})
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(cfg.Snapshot())
	})
	mux.Handle("GET /healthz", probe(cfg.Alive))
	mux.Handle("GET /readyz", probe(cfg.Ready))
	mux.Handle("GET /metrics", cfg.Metrics)
	return mux, nil
}

func probe(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, suffix := float64(n)/unit, "KMGTP"
	for f >= unit && len(suffix) > 1 {
		f, suffix = f/unit, suffix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, suffix[0])
}
