package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionRow() versionInfo {
	return versionInfo{version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// listing is what a command shows: rows that are printed as a table by cells, or whole as JSON or YAML.
type listing struct {
	columns []string
	rows    []any
	cells   func(row any) []string
}

// print writes a listing in the format asked for.
func (c *cli) print(cmd *cobra.Command, l listing) error {
	out := cmd.OutOrStdout()
	if c.output != "table" {
		rows := l.rows
		if rows == nil {
			rows = []any{}
		}
		return c.encode(out, rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(l.columns, "\t"))
	for _, row := range l.rows {
		fmt.Fprintln(w, strings.Join(l.cells(row), "\t"))
	}
	return w.Flush()
}

// encode writes v as JSON, or as YAML with the same field names.
func (c *cli) encode(out io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if c.output == "yaml" {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		_, err = out.Write(b)
		return err
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

// progress shows a long action: one line that is redrawn on a terminal, plain lines elsewhere. The zero value is silent.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
}

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{out: cmd.ErrOrStderr(), last: time.Now()}
	if f, ok := p.out.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

// step shows where the action is; on a terminal at most ten times a second, elsewhere at most every two seconds.
func (p *progress) step(format string, args ...any) {
	every := 2 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	if p.out == nil || time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	p.line(fmt.Sprintf(format, args...), false)
}

// done shows the last word.
func (p *progress) done(format string, args ...any) { p.line(fmt.Sprintf(format, args...), true) }

func (p *progress) line(text string, last bool) {
	switch {
	case p.out == nil:
	case p.terminal && last:
		fmt.Fprintf(p.out, "\r\x1b[K%s\n", text)
	case p.terminal:
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	default:
		fmt.Fprintln(p.out, text)
	}
}
