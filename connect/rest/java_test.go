package rest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/file"
)

// exchange is one request to a Java worker with its answer, recorded by make golden.
type exchange struct {
	Method, Path string
	Body         json.RawMessage // a string is sent as it is
	Until        string          // repeated until the answer has it in it
	Status       int
	Location     string
	Answer       any
	Text         string
}

// differs lists where we answer otherwise than Java, and why; the key is a request.
var differs = map[string]string{
	`POST /connectors "{"`:           "a fault of the client's is 400, not 500",
	`POST /connectors "[]"`:          "a fault of the client's is 400, not 500",
	`POST /connectors {"name": "a"}`: "a fault of the client's is 400, not 500",
	`POST /connectors {"name": "a", "nonsense": 1, "config": {"connector.class": "FileStreamSource"}}`:                                                 "an unknown word is passed over",
	`POST /connectors {"name": "a", "initial_state": "DANCING", "config": {"connector.class": "FileStreamSource", "topic": "t", "file": "/dev/null"}}`: "a fault of the client's is 400, not 500",
	`POST /connectors {"name": "a", "config": {"connector.class": "FileStreamSource", "tasks.max": "0", "topic": "t"}}`:                                noStdin,
	`POST /connectors {"name": "a", "config": {"connector.class": "FileStreamSource", "tasks.max": "1"}}`:                                              noStdin,
	`PUT /connectors/a/config {"connector.class": "FileStreamSource", "tasks.max": "many", "topic": "t"}`:                                              noStdin,
	`PATCH /connectors/a/config {"tasks.max": "2", "file": null}`:                                                                                      noStdin,
	`PATCH /connectors/a/offsets {"offsets": [{"partition": {"filename": "/dev/null"}, "offset": {"position": -5}}]}`:                                  "our file source has no say in its offsets",
	`DELETE /connectors/a/offsets `: "our file source has no say in its offsets",
	`GET /connectors/a/tasks `:      "task.class is our connector's name",
	`PUT /connector-plugins/FileStreamSource/config/validate {"connector.class": "FileStreamSource"}`:                "keys, their order and their documentation are ours",
	`PATCH /connectors/a/offsets {"offsets": [{"partition": {"filename": "/dev/null"}, "offset": {"position": 5}}]}`: "our file source has no say in its offsets",
}

const noStdin = "our file source needs a file: it does not read the worker's standard input"

// javas are words by which a message tells of Java's own classes; what it says besides is ours to word.
var javas = regexp.MustCompile(`PluginDesc|REDACTED|Cannot invoke|java\.|Unrecognized field|Cannot construct`)

// TestAsJava sends what a Java worker was sent, in the same order, and compares status, location and body.
func TestAsJava(t *testing.T) {
	text, err := os.ReadFile("testdata/java.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []exchange
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	s := startWith(t, []connect.Connector{file.Source(), file.Sink()})
	different := map[string]bool{}
	for _, want := range recorded {
		status, body, location := s.answer(want)
		name := fmt.Sprintf("%s %s %s", want.Method, want.Path, want.Body)
		if differs[name] != "" {
			different[name] = different[name] || status != want.Status || !reflect.DeepEqual(answered(t, body, want.Answer), own(want.Answer))
			continue
		}
		if status != want.Status {
			t.Errorf("%s: status %d, Java's is %d: %s", name, status, want.Status, body)
			continue
		}
		if got := strings.TrimPrefix(location, s.url); got != want.Location {
			t.Errorf("%s: location %q, Java's is %q", name, got, want.Location)
		}
		if g, w := answered(t, body, want.Answer), own(want.Answer); !reflect.DeepEqual(g, w) {
			gj, _ := json.Marshal(g)
			wj, _ := json.Marshal(w)
			t.Errorf("%s:\n we   %s\n Java %s", name, gj, wj)
		}
	}
	for name, why := range differs {
		if !different[name] {
			t.Errorf("%s: no longer different (%s), or no longer asked", name, why)
		}
	}
}

// answered is our body, to be compared with Java's.
func answered(t *testing.T, body string, java any) any {
	t.Helper()
	var got any
	if body != "" {
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%v: %s", err, body)
		}
	}
	got = own(got)
	if ours, ok := got.(map[string]any); ok {
		if theirs, _ := own(java).(map[string]any); theirs["message"] == wordedByJava {
			ours["message"] = wordedByJava
		}
	}
	return got
}

// wordedByJava takes the place of a message that tells of Java's classes.
const wordedByJava = "worded by Java"

// answer sends one request, again and again where it was recorded so.
func (s *server) answer(e exchange) (status int, body, location string) {
	s.t.Helper()
	sent := string(e.Body)
	if err := json.Unmarshal(e.Body, &sent); err != nil {
		sent = string(e.Body) // not a string, as most
	}
	for end := time.Now().Add(waitLimit); ; time.Sleep(10 * time.Millisecond) {
		status, body, header := s.do(e.Method, e.Path, sent)
		if strings.Contains(body, e.Until) || time.Now().After(end) {
			return status, body, header.Get("Location")
		}
	}
}

// own is an answer without what names a worker or a version, and without what a message says of Java's classes.
func own(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, one := range v {
			switch text, isText := one.(string); {
			case key == "worker_id" || key == "version":
				out[key] = "any"
			case key == "message" && isText && javas.MatchString(text):
				out[key] = wordedByJava
			default:
				out[key] = own(one)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = own(one)
		}
		return out
	}
	return v
}
