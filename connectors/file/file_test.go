package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

func TestSourceContract(t *testing.T) {
	connecttest.Run(t, connecttest.Suite{
		Connector: Source(),
		BadConfigs: map[string]connect.Config{
			"no topic": {"file": "x"},
			"a folder": {"file": t.TempDir(), "topic": "t"},
			"batch":    {"file": "x", "topic": "t", "batch.size": "0"},
		},
		NewSource: func(t testing.TB) connecttest.SourceWorld {
			path, n := filepath.Join(t.TempDir(), "lines"), 0
			return connecttest.SourceWorld{
				Config: connect.Config{"file": path, "topic": "t", "batch.size": "7"},
				Add: func(count int) {
					for range count {
						write(t, path, fmt.Sprintf("line %d\n", n))
						n++
					}
				},
			}
		},
	})
}

func TestSinkContract(t *testing.T) {
	connecttest.Run(t, connecttest.Suite{
		Connector: Sink(),
		BadConfigs: map[string]connect.Config{
			"no file":   {},
			"a folder":  {"file": t.TempDir()},
			"no folder": {"file": filepath.Join(t.TempDir(), "missing", "f")},
		},
		NewSink: func(t testing.TB) connecttest.SinkWorld {
			path := filepath.Join(t.TempDir(), "out")
			return connecttest.SinkWorld{
				Config:  connect.Config{"file": path},
				Appends: true,
				Read: func() []string {
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
				},
				Want: func(records []connect.Record) (lines []string) {
					for _, r := range records {
						b, _, _ := r.Value.Encoded()
						lines = append(lines, string(b))
					}
					return lines
				},
			}
		},
	})
}

// TestFollows plays what happens to a file while it is followed: steps of writing, and the lines that must have come.
func TestFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var task connect.SourceTask
	var position connect.OffsetMap
	open := func() {
		in := connect.Task{Config: connect.Config{"file": path, "topic": "t"}, MemoryBytes: 1}
		in.Offsets = []connect.SourceOffset{{Partition: connect.OffsetMap{{Name: "filename", Value: connect.StringValue(path)}}, Offset: position}}
		var err error
		if task, err = openSource(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	open()
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"no file yet", func() {}, nil},
		{"a line and a half", func() { write(t, path, "one\r\ntw") }, []string{"one"}},
		{"the other half", func() { write(t, path, "o\n\n") }, []string{"two", ""}},
		{"restart", func() { _ = task.Close(t.Context()); open(); write(t, path, "three\nheld") }, []string{"three"}},
		{"rotated", func() {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			write(t, path, "new\n")
		}, []string{"held", "new"}},
		{"cut short", func() {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			write(t, path, "a\n")
		}, []string{"a"}},
		{"too long", func() { write(t, path, strings.Repeat("x", 700<<10)+"\nafter\n") }, []string{"fault", "after"}},
	} {
		step.do()
		var got []string
		for len(got) < max(len(step.want), 1) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if len(step.want) == 0 {
				cancel()
			}
			b, err := task.Poll(ctx)
			cancel()
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if len(b.Records) == 0 {
				break
			}
			for _, r := range b.Records {
				if r.Fault != nil {
					got = append(got, "fault")
					continue
				}
				got = append(got, r.Value.Value().Str())
			}
			position = b.Marks[len(b.Marks)-1].Offset
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: read %q, want %q", step.name, got, step.want)
		}
	}
	if info, _ := os.Stat(path); position.Get("position").Int() != info.Size() {
		t.Errorf("ends at %v, the file has %d bytes", position, info.Size())
	}
	if err := task.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
