package elasticsearch

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

// exchange is one request to a real server with its answer. testdata/opensearch.json holds them as recorded by
//
//	WEIR_RECORD_OPENSEARCH=http://127.0.0.1:9200 go test -run TestAnswers ./connectors/elasticsearch
type exchange struct {
	Name, Method, Path, Body string
	Status                   int
	Answer                   json.RawMessage `json:",omitempty"`
}

const recorded = "testdata/opensearch.json"

func bulkOf(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// exchanges are made in this order: some prepare the next. For bulk requests want tells the verdict on their one
// operation; wantKind what an error of the whole request asks of the worker.
func exchanges() []struct {
	exchange
	want     verdict
	wantKind connect.ErrorKind
	whole    bool
} {
	const bulk = "/_bulk?filter_path=errors,items.*.status,items.*.error"
	type row = struct {
		exchange
		want     verdict
		wantKind connect.ErrorKind
		whole    bool
	}
	item := func(name string, want verdict, lines ...string) row {
		return row{exchange{Name: name, Method: "POST", Path: bulk, Body: bulkOf(lines...)}, want, 0, false}
	}
	do := func(name, method, path, body string) row {
		return row{exchange{Name: name, Method: method, Path: path, Body: body}, 0, 0, false}
	}
	fails := func(name, body string) row {
		return row{exchange{Name: name, Method: "POST", Path: bulk, Body: body}, 0, connect.KindOther, true}
	}
	const index5 = `{"index":{"_index":"weir-rec","_id":"a","version":5,"version_type":"external"}}`
	const delete6 = `{"delete":{"_index":"weir-rec","_id":"a","version":6,"version_type":"external"}}`
	const plain = `{"index":{"_index":"weir-rec","_id":"p"}}`
	return []row{
		do("info", "GET", "/", ""),
		do("create", "PUT", "/weir-rec", `{"mappings":{"properties":{"n":{"type":"long"}}}}`),
		do("create again", "PUT", "/weir-rec", ""),
		item("first version", written, index5, `{"n":1}`),
		item("same version", conflict, index5, `{"n":1}`),
		item("delete", written, delete6),
		item("same delete", conflict, delete6),
		item("delete of nothing", written, `{"delete":{"_index":"weir-rec","_id":"none","version":1,"version_type":"external"}}`),
		item("wrong type", rejected, plain, `{"n":"text"}`),
		item("not JSON", rejected, plain, `{"n":}`),
		item("upsert", written, `{"update":{"_index":"weir-rec","_id":"u","retry_on_conflict":5}}`, `{"doc":{"n":1},"doc_as_upsert":true}`),
		fails("nonsense", "nonsense\n"),
		fails("id too long", bulkOf(`{"index":{"_index":"weir-rec","_id":"`+strings.Repeat("x", 513)+`"}}`, `{"n":1}`)),
		do("strict index", "PUT", "/weir-rec-strict", `{"mappings":{"dynamic":"strict"}}`),
		item("strict", rejected, `{"index":{"_index":"weir-rec-strict","_id":"a"}}`, `{"n":1}`),
		do("narrow index", "PUT", "/weir-rec-narrow", `{"settings":{"index.mapping.total_fields.limit":1}}`),
		item("too many fields", rejected, `{"index":{"_index":"weir-rec-narrow","_id":"a"}}`, `{"a":1,"b":2,"c":3}`),
		do("block writes", "PUT", "/weir-rec/_settings", `{"index.blocks.write":true}`),
		item("writes blocked", again, plain, `{"n":1}`),
		do("free writes", "PUT", "/weir-rec/_settings", `{"index.blocks.write":false,"index.blocks.read_only_allow_delete":true}`),
		item("disk full", again, plain, `{"n":1}`),
		do("free all", "PUT", "/weir-rec/_settings", `{"index.blocks.read_only_allow_delete":null}`),
		do("close", "POST", "/weir-rec/_close", ""),
		item("closed", again, plain, `{"n":1}`),
		do("no auto-create", "PUT", "/_cluster/settings", `{"transient":{"action.auto_create_index":"false"}}`),
		item("no index", again, `{"index":{"_index":"weir-rec-none","_id":"a"}}`, `{"n":1}`),
		do("auto-create", "PUT", "/_cluster/settings", `{"transient":{"action.auto_create_index":null}}`),
		do("remove", "DELETE", "/weir-rec,weir-rec-strict,weir-rec-narrow", ""),
	}
}

// TestAnswers reads a real server's answers.
func TestAnswers(t *testing.T) {
	if url := os.Getenv("WEIR_RECORD_OPENSEARCH"); url != "" {
		record(t, url)
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var got []exchange
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	rows := exchanges()
	if len(got) != len(rows) {
		t.Fatalf("%d answers are recorded for %d requests: record them anew", len(got), len(rows))
	}
	s := &sink{}
	for n, row := range rows {
		if got[n].Name != row.Name {
			t.Fatalf("answer %d is that of %q, not %q: record them anew", n, got[n].Name, row.Name)
		}
		if !strings.HasPrefix(row.Path, "/_bulk") {
			continue
		}
		if row.whole {
			err := whole("bulk", got[n].Status, got[n].Answer)
			if got[n].Status < 400 || !isTooLarge(err) || connect.KindOf(t.Context(), err) != row.wantKind {
				t.Errorf("%s: status %d gives %v", row.Name, got[n].Status, err)
			}
			continue
		}
		out, err := s.outcomes(got[n].Answer, 1)
		if err != nil {
			t.Errorf("%s: %v: %s", row.Name, err, got[n].Answer)
			continue
		}
		if out[0].verdict != row.want {
			t.Errorf("%s: verdict %d, want %d: %s", row.Name, out[0].verdict, row.want, got[n].Answer)
		}
		if row.want != written && len(out[0].reason) < 20 {
			t.Errorf("%s: the reason is only %q", row.Name, out[0].reason)
		}
	}
}

func record(t *testing.T, url string) {
	var out []exchange
	for _, row := range exchanges() {
		e := row.exchange
		request, err := http.NewRequestWithContext(t.Context(), e.Method, url+e.Path, strings.NewReader(e.Body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-ndjson")
		if !strings.HasPrefix(e.Path, "/_bulk") {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		e.Status, e.Answer = response.StatusCode, body
		if len(e.Body) > 400 {
			e.Body = e.Body[:200] + "…"
		}
		out = append(out, e)
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err == nil {
		err = os.WriteFile(recorded, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhole: what a status asks of the worker.
func TestWhole(t *testing.T) {
	for status, want := range map[int]connect.ErrorKind{
		401: connect.KindBadConfig, 403: connect.KindBadConfig, 429: connect.KindRetry, 500: connect.KindRetry,
		502: connect.KindRetry, 503: connect.KindRetry, 400: connect.KindOther, 413: connect.KindOther, 404: connect.KindOther,
	} {
		for _, body := range []string{"", "<html>", `{"error":"text"}`, `{"error":{"type":"t","reason":"r","caused_by":{"reason":"deep"}}}`} {
			if err := whole("x", status, []byte(body)); connect.KindOf(t.Context(), err) != want || err.Error() == "" {
				t.Errorf("%d %s: %v", status, body, err)
			}
		}
	}
}

func FuzzOutcomes(f *testing.F) {
	f.Add([]byte(`{"errors":true,"items":[{"index":{"status":400,"error":{"type":"a","reason":"b","caused_by":{"reason":"c"}}}}]}`))
	f.Add([]byte(`{"items":[{}]}`))
	f.Add([]byte(`{"items":[{"index":{"status":503,"error":"busy"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &sink{}
		if out, err := s.outcomes(body, 1); err == nil && len(out) != 1 {
			t.Fatal("an answer without an outcome")
		}
		_ = whole("x", 400, body)
	})
}
