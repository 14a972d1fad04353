package schema

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// step is one statement of testdata/ddl and what the real server and the real Debezium
// made of it, as record_test.go has written it down.
type step struct {
	SQL        string                 `json:"sql"`
	Error      string                 `json:"error,omitempty"` // the server's
	AnsiQuotes bool                   `json:"ansi,omitempty"`
	File       string                 `json:"file"`
	From       int                    `json:"from"`
	To         int                    `json:"to"`
	Queries    []queryEvent           `json:"queries,omitempty"` // in the binlog
	Tables     map[string]*tableFacts `json:"tables,omitempty"`  // that it changed; null for those that are gone
	Records    []json.RawMessage      `json:"records,omitempty"` // of Debezium's schema history
	Beyond     bool                   `json:"beyond,omitempty"`  // Debezium was not asked
}

type queryEvent struct {
	Database string `json:"database"`
	Text     string `json:"text"`
}

// tableFacts is what the server tells of a table. Columns are rows of
// information_schema.columns: name, type, nullable, charset, key, extra, default.
type tableFacts struct {
	Create  string     `json:"create"`
	Columns [][]string `json:"columns"`
}

// recorded reads what was recorded of a server.
func recorded(t testing.TB, dialect string) []step {
	file, err := os.Open("testdata/ddl/" + dialect + ".json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var steps []step
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
