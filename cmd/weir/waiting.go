package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const waitingFor = "the node is new and waits for the others of its cluster (its log says for which)"

// waiting answers on a node's web addresses while there is no node yet: that the process is alive, and not ready.
type waiting struct {
	servers []*http.Server
	lns     []*lent
	serving sync.WaitGroup
	mu      sync.Mutex
	fault   error
}

// lent is a listener that outlives the server which it is lent to: Close only makes Accept return.
type lent struct{ net.Listener }

func (l *lent) Close() error { return l.setDeadline(time.Unix(1, 0)) }

func (l *lent) setDeadline(t time.Time) error {
	ln, ok := l.Listener.(interface{ SetDeadline(t time.Time) error })
	if !ok {
		return fmt.Errorf("lend a listener: %T has no deadline", l.Listener)
	}
	return ln.SetDeadline(t)
}

func beginWaiting(rest, page net.Listener) *waiting {
	w := &waiting{lns: []*lent{{rest}, {page}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(out, "ok") })
	mux.HandleFunc("/", func(out http.ResponseWriter, _ *http.Request) {
		http.Error(out, waitingFor, http.StatusServiceUnavailable)
	})
	refuse := func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(out).Encode(map[string]any{"error_code": http.StatusServiceUnavailable, "message": waitingFor}) // who doesn't read it has gone
	}
	for i, h := range []http.Handler{http.HandlerFunc(refuse), mux} {
		s := webServer(h)
		w.servers = append(w.servers, s)
		w.serving.Go(func() {
			if err := s.Serve(w.lns[i]); !errors.Is(err, http.ErrServerClosed) {
				w.mu.Lock()
				w.fault = errors.Join(w.fault, err)
				w.mu.Unlock()
			}
		})
	}
	return w
}

// end stops answering, and gives the listeners back as they were.
func (w *waiting) end() error {
	for _, s := range w.servers {
		_ = s.Close() // what is under way is asked again
	}
	w.serving.Wait()
	for _, ln := range w.lns {
		w.fault = errors.Join(w.fault, ln.setDeadline(time.Time{}))
	}
	return w.fault
}
