package elasticsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/weirlog/weir/connect"
)

// errTooLarge: the server refuses the body as a whole, and might take less of it.
var errTooLarge = errors.New("the server refuses the request's body")

func isTooLarge(err error) bool { return errors.Is(err, errTooLarge) }

func isRetry(err error) bool {
	var e *connect.Error
	return errors.As(err, &e) && e.Kind == connect.KindRetry
}

const (
	maxAnswerBytes = 256 << 20
	maxReasonBytes = 1 << 10
)

// answer is what is asked for of a bulk request's answer.
type answer struct {
	Errors bool                       `json:"errors"`
	Items  []map[string]itemOfAnswers `json:"items"`
}

type itemOfAnswers struct {
	Status int             `json:"status"`
	Error  json.RawMessage `json:"error"`
}

// fault is an error of the server: its type, reason and the innermost cause.
type fault struct {
	Type     string `json:"type"`
	Reason   string `json:"reason"`
	CausedBy *fault `json:"caused_by"`
}

func parseFault(raw json.RawMessage) fault {
	var f fault
	if json.Unmarshal(raw, &f) != nil {
		f = fault{Reason: string(raw)} // very old and proxied answers hold a text
	}
	return f
}

func (f *fault) String() string {
	text := f.Type + ": " + f.Reason
	for c, depth := f.CausedBy, 0; c != nil && depth < 8; c, depth = c.CausedBy, depth+1 {
		text += ": " + c.Reason
	}
	return text[:min(len(text), maxReasonBytes)]
}

// bulk sends items in one request.
func (s *sink) bulk(ctx context.Context, items []*item) ([]outcome, error) {
	readers := make([]io.Reader, len(items))
	for n, i := range items {
		readers[n] = bytes.NewReader(i.body)
	}
	request := esapi.BulkRequest{
		Body:       io.MultiReader(readers...),
		FilterPath: []string{"errors", "items.*.status", "items.*.error"},
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	response, err := request.Do(ctx, s.transport)
	if err != nil {
		return nil, connect.Retry(0, fmt.Errorf("bulk request: %w", err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, connect.Retry(0, fmt.Errorf("read bulk answer: %w", err))
	}
	if response.IsError() {
		return nil, whole("bulk request", response.StatusCode, body)
	}
	return s.outcomes(body, len(items))
}

// whole tells what a request's error status means for all of it.
func whole(what string, status int, body []byte) error {
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	text := strings.TrimSpace(string(body[:min(len(body), maxReasonBytes)]))
	if json.Unmarshal(body, &envelope) == nil && len(envelope.Error) > 0 {
		f := parseFault(envelope.Error)
		text = f.String()
	}
	err := fmt.Errorf("%s: status %d: %s", what, status, text)
	switch {
	case status == http.StatusUnauthorized:
		return connect.BadConfig("connection.username", fmt.Errorf("the server refuses the credentials: check connection.username and connection.password, or connection.api.key (%w)", err))
	case status == http.StatusForbidden:
		return connect.BadConfig("connection.username", fmt.Errorf("the user may not do this: grant create_index, index and delete on the indices (%w)", err))
	case status == http.StatusRequestEntityTooLarge, status == http.StatusBadRequest:
		return fmt.Errorf("%w: %w", errTooLarge, err)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return connect.Retry(0, err)
	}
	return err
}

// outcomes reads a bulk answer.
func (s *sink) outcomes(body []byte, items int) ([]outcome, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, connect.Retry(0, fmt.Errorf("a bulk answer is not JSON: %w", err))
	}
	if len(a.Items) != items {
		return nil, connect.Retry(0, fmt.Errorf("a bulk answer tells of %d operations, %d were sent", len(a.Items), items))
	}
	out := make([]outcome, items)
	for n, item := range a.Items {
		for action, result := range item {
			out[n] = s.outcome(action, result)
		}
	}
	return out, nil
}

// outcome is the one place that decides what an operation's answer means.
func (s *sink) outcome(action string, r itemOfAnswers) outcome {
	if r.Status >= 200 && r.Status < 300 || action == "delete" && r.Status == http.StatusNotFound && len(r.Error) == 0 {
		return outcome{verdict: written}
	}
	f := parseFault(r.Error)
	reason := fmt.Sprintf("status %d: %s", r.Status, f.String())
	switch {
	case r.Status == http.StatusConflict && action == "update":
		return outcome{again, reason} // somebody else's write came between, more often than retry_on_conflict allows
	case r.Status == http.StatusConflict:
		return outcome{conflict, reason}
	case f.Type == "index_not_found_exception", f.Type == "index_closed_exception", f.Type == "cluster_block_exception":
		return outcome{again, reason} // deleted, closed or read-only: an operator's affair
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusRequestTimeout, r.Status >= 500:
		return outcome{again, reason}
	case r.Status == 0:
		return outcome{again, "no status was answered"}
	}
	return outcome{rejected, reason}
}
