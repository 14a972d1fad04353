package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const patience = 5 * time.Minute

func httpOK(url string) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// call speaks Connect's REST, ours and Java's alike; any 2xx is right. A worker that rebalances (409) is asked again.
func call(ctx context.Context, method, url string, body, answer any) error {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		status, text, err := callOnce(ctx, method, url, body)
		switch {
		case err != nil:
			return err
		case status/100 == 2 && answer == nil:
			return nil
		case status/100 == 2:
			return json.Unmarshal(text, answer)
		case status != http.StatusConflict || time.Since(began) > time.Minute:
			return fmt.Errorf("%s %s: status %d: %s", method, url, status, text)
		}
	}
}

func callOnce(ctx context.Context, method, url string, body any) (int, []byte, error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, &sent)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// put makes or changes a connector.
func put(ctx context.Context, s *server, name string, config map[string]string) error {
	return call(ctx, http.MethodPut, s.connect+"/connectors/"+name+"/config", config, nil)
}

// running says whether a connector's task runs; a failed one is an error.
func running(ctx context.Context, s *server, name string) (bool, error) {
	var status struct {
		Connector struct{ State, Trace string }
		Tasks     []struct{ State, Trace string }
	}
	code, text, err := callOnce(ctx, http.MethodGet, s.connect+"/connectors/"+name+"/status", nil)
	if err != nil || code != http.StatusOK {
		return false, err // not there yet
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return false, err
	}
	if status.Connector.State == "FAILED" {
		return false, fmt.Errorf("connector %s failed: %s", name, status.Connector.Trace)
	}
	for _, t := range status.Tasks {
		if t.State == "FAILED" {
			return false, fmt.Errorf("connector %s: task failed: %s", name, t.Trace)
		}
	}
	return len(status.Tasks) > 0 && status.Tasks[0].State == "RUNNING", nil
}

// until asks again each 10 ms until the answer is yes.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	for began := time.Now(); time.Since(began) < patience && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s: not after %s", what, patience)
}

// progress is how a count rose: from the first step seen to the last, so that starting up is told apart from moving.
type progress struct {
	total float64
	wait  time.Duration // until the first step
	took  time.Duration // from the first step to the end
	first float64       // the count at the first step
}

func (p progress) perSecond() float64 { return (p.total - p.first) / max(p.took.Seconds(), 1e-3) }

// watch follows a count from its base until it has risen by total.
func watch(ctx context.Context, what string, base, total float64, count func() (float64, error)) (progress, error) {
	p, began := progress{total: total}, time.Now()
	started := time.Time{}
	err := until(ctx, what, func() (bool, error) {
		n, err := count()
		if err != nil {
			return false, err
		}
		n -= base
		if n > 0 && started.IsZero() {
			started, p.first, p.wait = time.Now(), n, time.Since(began)
		}
		return n >= total, nil
	})
	p.took = time.Since(started)
	if p.first >= total { // seen only when it was over: all of the time counts
		p.first, p.took = 0, time.Since(began)
	}
	return p, err
}
