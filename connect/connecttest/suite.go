package connecttest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
)

// Patience is how long a check waits for what must come, however slow the machine is.
const Patience = 90 * time.Second

// Suite is a connector with what the checks need to know of it. Exactly one of NewSource and NewSink is set.
type Suite struct {
	Connector connect.Connector
	// BadConfigs can't work, each for a reason that validation or opening the task must tell.
	BadConfigs map[string]connect.Config
	// NewSource and NewSink make a fresh foreign system for one check and remove it when the check ends.
	NewSource func(testing.TB) SourceWorld
	NewSink   func(testing.TB) SinkWorld
}

// SourceWorld is a foreign system that a source reads.
type SourceWorld struct {
	Config connect.Config
	// Add makes n more records appear, each different from all before.
	Add func(n int)
}

// SinkWorld is a foreign system that a sink writes.
type SinkWorld struct {
	Config connect.Config
	// Record makes the key and value of record i of a topic, as they are read from the log. Nil: a JSON object with
	// "id" and "text" under a string key of its own.
	Record func(i int) (key, value connect.Data)
	// Read gives what the system holds, one text per record or document in any order; Want gives the same for records
	// which were put, each at least once. A sink that can only append sets Appends: replays may leave more than Want.
	Read    func() []string
	Want    func([]connect.Record) []string
	Appends bool
	// Poison makes the value of a record that can't be written; nil if there is none.
	Poison func() connect.Data
	// Stop makes the system unreachable and Start brings it back; nil if that can't happen.
	Stop, Start func()
}

// Run runs every check that applies.
func Run(t *testing.T, s Suite) {
	t.Run("description", s.testDescription)
	t.Run("bad config", s.testBadConfig)
	for name, pass := range transports() {
		t.Run(name, func(t *testing.T) {
			if s.NewSource != nil {
				s.runSource(t, pass)
			}
			if s.NewSink != nil {
				s.runSink(t, pass)
			}
		})
	}
}

// transport is the way that records take between worker and connector.
type transport struct {
	records func(testing.TB, []connect.Record) []connect.Record
	batch   func(testing.TB, connect.Batch) connect.Batch
}

func transports() map[string]transport {
	direct := transport{
		records: func(_ testing.TB, r []connect.Record) []connect.Record { return r },
		batch:   func(_ testing.TB, b connect.Batch) connect.Batch { return b },
	}
	packed := transport{
		records: func(t testing.TB, r []connect.Record) []connect.Record {
			u := connect.Unpacker{Codec: codecOf}
			out, err := u.Records(connect.AppendRecords(nil, r))
			if err != nil {
				t.Fatalf("records do not survive the packed form: %v", err)
			}
			return out
		},
		batch: func(t testing.TB, b connect.Batch) connect.Batch {
			var u connect.Unpacker
			out, err := u.Batch(connect.AppendBatch(nil, &b))
			if err != nil {
				t.Fatalf("a batch does not survive the packed form: %v", err)
			}
			return out
		},
	}
	return map[string]transport{"direct": direct, "packed": packed}
}

func (s Suite) testDescription(t *testing.T) {
	c := s.Connector
	if c.Name == "" || c.Version == "" || c.Doc == "" {
		t.Errorf("name %q, version %q and doc %q must be set", c.Name, c.Version, c.Doc)
	}
	if (c.Source == nil) == (c.Sink == nil) {
		t.Error("exactly one of Source and Sink must be set")
	}
	if (c.Source == nil) != (s.NewSource == nil) || (c.Sink == nil) != (s.NewSink == nil) {
		t.Fatal("the suite describes the wrong side")
	}
	seen := map[string]bool{}
	for _, f := range c.Fields {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if seen[name] {
				t.Errorf("key %s is described twice", name)
			}
			seen[name] = true
		}
		if f.Name == "" || f.Doc == "" || f.Type == "" || f.Importance == "" {
			t.Errorf("key %q lacks a doc, type or importance", f.Name)
		}
		if f.Required && f.Default != "" {
			t.Errorf("key %s is required and has a default", f.Name)
		}
		if f.Type == connect.TypePassword && f.Default != "" {
			t.Errorf("key %s is a secret with a default", f.Name)
		}
		if f.Required || f.NoDefault || f.Prefix {
			continue
		}
		_, results := connect.ParseConfig([]connect.Field{f}, connect.Config{f.Name: f.Default})
		if err := connect.FirstError(results); err != nil && f.Default != "" {
			t.Errorf("the default of %s is refused: %v", f.Name, err)
		}
	}
	config := s.config(t)
	_, results := connect.ParseConfig(c.Fields, config)
	if c.Validate != nil {
		results = append(results, c.Validate(t.Context(), config)...)
	}
	if err := connect.FirstError(results); err != nil {
		t.Errorf("the suite's own configuration is refused: %v", err)
	}
	if unknown := connect.Unknown(c.Fields, config); len(unknown) > 0 {
		t.Errorf("the suite's own configuration has unknown keys: %v", unknown)
	}
}

func (s Suite) config(t testing.TB) connect.Config {
	if s.NewSource != nil {
		return s.NewSource(t).Config
	}
	return s.NewSink(t).Config
}

func (s Suite) testBadConfig(t *testing.T) {
	if len(s.BadConfigs) == 0 {
		t.Error("the suite names no bad configuration")
	}
	for name, config := range s.BadConfigs {
		t.Run(name, func(t *testing.T) {
			_, results := connect.ParseConfig(s.Connector.Fields, config)
			if s.Connector.Validate != nil {
				results = append(results, s.Connector.Validate(t.Context(), config)...)
			}
			err := connect.FirstError(results)
			if err == nil {
				err = s.tryOpen(t, config)
			}
			if kind := connect.KindOf(t.Context(), err); kind != connect.KindBadConfig {
				t.Errorf("answered with kind %d, not BadConfig: %v", kind, err)
			}
		})
	}
}

func (s Suite) tryOpen(t *testing.T, config connect.Config) error {
	task := newTask(t, config)
	if s.Connector.Sink != nil {
		sink, err := s.Connector.Sink(t.Context(), task)
		if err == nil {
			_ = sink.Close(t.Context())
		}
		return err
	}
	source, err := s.Connector.Source(t.Context(), task)
	if err == nil {
		_ = source.Close(t.Context())
	}
	return err
}

func newTask(t testing.TB, config connect.Config) connect.Task {
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return connect.Task{
		Instance:    connect.Instance{Name: "suite", Config: config, Log: log},
		Config:      config,
		ScratchDir:  t.TempDir(),
		ScratchMax:  1 << 30,
		MemoryBytes: 16 << 20,
	}
}

// testWriter sends a task's log to its test.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// await calls ready until it answers true, and fails after [Patience].
func await(t testing.TB, what string, ready func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v for %s", Patience, what)
		}
	}
}

// retryAfter gives how long a Retry asks to wait, shortened for a test, and false for other errors.
func retryAfter(err error) (time.Duration, bool) {
	var e *connect.Error
	if !errors.As(err, &e) || e.Kind != connect.KindRetry {
		return 0, false
	}
	return min(max(e.After, 10*time.Millisecond), 200*time.Millisecond), true
}

// difference tells the first lines that only one of two unordered lists has, or "".
func difference(got, want []string) string {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	var out []string
	for len(got) > 0 || len(want) > 0 {
		switch {
		case len(want) == 0 || len(got) > 0 && got[0] < want[0]:
			out, got = append(out, "+ "+got[0]), got[1:]
		case len(got) == 0 || want[0] < got[0]:
			out, want = append(out, "- "+want[0]), want[1:]
		default:
			got, want = got[1:], want[1:]
		}
	}
	if len(out) > 12 {
		out = append(out[:12], "…")
	}
	return strings.Join(out, "\n")
}
