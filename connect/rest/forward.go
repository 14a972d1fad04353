package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// otherWorkers makes the client by which requests are handed on, directly: it uses no proxy, and keeps no connection that is not
// in use.
func otherWorkers() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxAnswerBytes bounds what is taken of another worker's answer, caughtUpLimit how long the change that it made may take to be
// seen here before the caller is answered.
const (
	maxAnswerBytes = 64 << 20
	caughtUpLimit  = 2 * time.Second
)

// handOn sends a request to the worker that serves it and gives its answer. It goes on as Kafka Connect's does: with
// forward=true first, with forward=false from who was asked so; who was asked so serves it or refuses.
func (a *api) handOn(r *http.Request, body []byte, to string) (reply, error) {
	query := r.URL.Query()
	switch strings.ToLower(query.Get("forward")) {
	case "":
		query.Set("forward", "true")
	case "true":
		query.Set("forward", "false")
	default:
		return reply{}, &fault{http.StatusConflict, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"}
	}
	target := strings.TrimSuffix(to, "/") + r.URL.EscapedPath() + "?" + query.Encode()
	req, err := http.NewRequestWithContext(r.Context(), r.Method, target, bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("hand the request on to %s: %w", to, err)
	}
	for _, name := range []string{"Content-Type", "Authorization", "X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm", "X-Weir-Revision"} {
		if v := r.Header.Values(name); len(v) > 0 {
			req.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	resp, err := a.others.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("IO Error trying to forward REST request: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return reply{}, fmt.Errorf("IO Error trying to forward REST request: %w", err)
	}
	out := reply{status: resp.StatusCode, location: resp.Header.Get("Location")}
	if answer = bytes.TrimSpace(answer); len(answer) > 0 {
		if !json.Valid(answer) {
			return reply{}, fmt.Errorf("%s has answered %s and no JSON", to, resp.Status)
		}
		out.body = json.RawMessage(answer)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		ctx, cancel := context.WithTimeout(r.Context(), caughtUpLimit)
		defer cancel()
		if err := a.herder.CatchUp(ctx); err != nil { // only so that the caller sees here what it did there
			a.log.Debug("the change of another worker is not seen here yet", "error", err)
		}
	}
	return out, nil
}

// putTasks takes the plan of another worker's connector.
func putTasks(a *api, r *http.Request, vars []string) (reply, error) {
	body, err := io.ReadAll(r.Body) // as signed
	if err != nil {
		return reply{}, err
	}
	return empty(http.StatusNoContent, a.herder.PutTasks(r.Context(), vars[0], body, r.Header))
}
