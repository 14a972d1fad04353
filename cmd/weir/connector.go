package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirlog/weir/core/kafka"
)

func newConnector(c *cli) *cobra.Command {
	return group("connector", "Connectors, on weir or Java Connect: apply, list, status, describe, validate, pause, resume, stop, restart, delete, offsets",
		newConnectorApply(c), newConnectorList(c), newConnectorStatus(c), newConnectorDescribe(c), newConnectorValidate(c),
		c.connectorAction("pause", "Stop reading and writing, keep the tasks", http.MethodPut, "/pause"),
		c.connectorAction("resume", "Go on after pause or stop", http.MethodPut, "/resume"),
		c.connectorAction("stop", "End the tasks, keep configuration and offsets", http.MethodPut, "/stop"),
		c.connectorAction("restart", "Restart the connector and its tasks", http.MethodPost, "/restart?includeTasks=true"),
		c.connectorAction("delete", "Delete connectors", http.MethodDelete, ""),
		newConnectorOffsets(c))
}

const (
	maxAnswerBytes = 64 << 20
	restTimeout    = 100 * time.Second // Java's herder answers within 90 s
)

// restError is an answer of a Connect worker that is not 2xx.
type restError struct {
	status  int
	message string
}

func (e *restError) Error() string { return fmt.Sprintf("%s (HTTP %d)", e.message, e.status) }

// rest calls a Connect worker; in is sent as JSON unless nil, the answer is read into out unless nil.
func (c *cli) rest(ctx context.Context, method, path string, in, out any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.url, "/")+path, body)
	if err != nil {
		return 0, fmt.Errorf("%w: --url %s: %w", errUsage, c.url, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("no Connect worker answers at %s (--url names another): %w", c.url, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return resp.StatusCode, fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		var e struct{ Message string }
		if json.Unmarshal(b, &e) != nil || e.Message == "" {
			e.Message = strings.TrimSpace(string(b))
		}
		return resp.StatusCode, &restError{resp.StatusCode, e.Message}
	}
	if out != nil && len(b) > 0 {
		if err := json.Unmarshal(b, out); err != nil {
			return resp.StatusCode, fmt.Errorf("read answer: %w", err)
		}
	}
	return resp.StatusCode, nil
}

func connectorPath(name string) string { return "/connectors/" + url.PathEscape(name) }

// connectorFile is a connector as people keep it: {"name", "config"}, a flat map with a name in it, or properties.
type connectorFile struct {
	Name   string
	Config map[string]string
}

// readConnectorFiles reads files, and the *.json files of folders, in the order of their names.
func readConnectorFiles(paths []string) ([]connectorFile, error) {
	var files []connectorFile
	for _, path := range paths {
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if names, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil || len(names) == 0 {
				return nil, fmt.Errorf("%s holds no *.json files", path)
			}
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("read connector: %w", err)
			}
			parse := parseConnectorFile
			if filepath.Ext(name) == ".properties" {
				parse = parseConnectorProperties
			}
			f, err := parse(b)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func parseConnectorFile(b []byte) (connectorFile, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return connectorFile{}, fmt.Errorf("not a JSON object: %w", err)
	}
	f := connectorFile{Config: map[string]string{}}
	config := top
	if nested, ok := top["config"]; ok && bytes.HasPrefix(bytes.TrimSpace(nested), []byte("{")) {
		config = nil
		if err := json.Unmarshal(nested, &config); err != nil {
			return f, fmt.Errorf("config: %w", err)
		}
		if err := json.Unmarshal(top["name"], &f.Name); err != nil {
			return f, fmt.Errorf("name: %w", err)
		}
	}
	for k, raw := range config {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(bytes.TrimSpace(raw)) // numbers and booleans as they stand
		}
		f.Config[k] = text
	}
	if f.Name == "" {
		f.Name = f.Config["name"]
	}
	if f.Name == "" {
		return f, errors.New("the connector has no name")
	}
	f.Config["name"] = f.Name
	return f, nil
}

// parseConnectorProperties reads a connector as Java's standalone worker takes it.
func parseConnectorProperties(b []byte) (connectorFile, error) {
	config, err := kafka.ParseProperties(bytes.NewReader(b))
	if err != nil {
		return connectorFile{}, err
	}
	if config["name"] == "" {
		return connectorFile{}, errors.New("the connector has no name")
	}
	return connectorFile{Name: config["name"], Config: config}, nil
}

func newConnectorApply(c *cli) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{Use: "apply FILE|FOLDER…", Short: "Create connectors or change them to what the files say", Args: someArgs("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
		files, err := readConnectorFiles(args)
		if err != nil {
			return err
		}
		for _, f := range files {
			what, err := c.apply(cmd.Context(), f)
			if err != nil {
				return fmt.Errorf("apply %s: %w", f.Name, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", f.Name, what)
		}
		if wait == 0 {
			return nil
		}
		return c.waitRunning(cmd, files, wait)
	}}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait so long for all their tasks to run; 0: don't")
	return cmd
}

// apply brings one connector to f and says what it did.
func (c *cli) apply(ctx context.Context, f connectorFile) (string, error) {
	var old map[string]string
	_, err := c.rest(ctx, http.MethodGet, connectorPath(f.Name)+"/config", nil, &old)
	var re *restError
	if err != nil && !(errors.As(err, &re) && re.status == http.StatusNotFound) {
		return "", err
	}
	if err == nil && maps.Equal(old, f.Config) {
		return "unchanged", nil
	}
	status, err := c.rest(ctx, http.MethodPut, connectorPath(f.Name)+"/config", f.Config, nil)
	if err != nil {
		return "", err
	}
	if status == http.StatusCreated {
		return "created", nil
	}
	return "changed: " + strings.Join(changedKeys(old, f.Config), ", "), nil
}

func changedKeys(a, b map[string]string) []string {
	keys := map[string]bool{}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			keys[k] = true
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys[k] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// statusAnswer is Kafka Connect's status of a connector.
type statusAnswer struct {
	Name      string       `json:"name"`
	Connector stateAnswer  `json:"connector"`
	Tasks     []taskAnswer `json:"tasks"`
	Type      string       `json:"type"`
}

type stateAnswer struct {
	State  string `json:"state"`
	Worker string `json:"worker_id"`
	Trace  string `json:"trace,omitempty"`
}

type taskAnswer struct {
	ID int `json:"id"`
	stateAnswer
}

func (c *cli) waitRunning(cmd *cobra.Command, files []connectorFile, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	p := newProgress(cmd)
	for {
		waiting := ""
		for _, f := range files {
			var s statusAnswer
			_, err := c.rest(ctx, http.MethodGet, connectorPath(f.Name)+"/status", nil, &s)
			if text := notRunning(s); err != nil || text != "" {
				waiting = f.Name + " " + text
				break
			}
		}
		if waiting == "" {
			p.done("%d connectors run", len(files))
			return nil
		}
		p.step("waiting for %s", waiting)
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %s", limit, waiting)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// notRunning says what of a connector does not run, or "".
func notRunning(s statusAnswer) string {
	if s.Connector.State != "RUNNING" {
		return strings.TrimSpace(s.Connector.State + " " + firstLine(s.Connector.Trace))
	}
	if len(s.Tasks) == 0 {
		return "has no tasks"
	}
	for _, t := range s.Tasks {
		if t.State != "RUNNING" {
			return strings.TrimSpace(fmt.Sprintf("task %d %s %s", t.ID, t.State, firstLine(t.Trace)))
		}
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func newConnectorList(c *cli) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List connectors with their states", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		var all map[string]struct{ Status statusAnswer }
		if _, err := c.rest(cmd.Context(), http.MethodGet, "/connectors?expand=status", nil, &all); err != nil {
			return fmt.Errorf("list connectors: %w", err)
		}
		l := listing{columns: []string{"NAME", "TYPE", "STATE", "TASKS", "REASON"}, cells: func(v any) []string {
			s := v.(statusAnswer)
			running, reason := 0, firstLine(s.Connector.Trace)
			for _, t := range s.Tasks {
				if t.State == "RUNNING" {
					running++
				} else if reason == "" {
					reason = firstLine(t.Trace)
				}
			}
			return []string{s.Name, s.Type, s.Connector.State, fmt.Sprintf("%d/%d", running, len(s.Tasks)), reason}
		}}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			l.rows = append(l.rows, all[name].Status)
		}
		return c.print(cmd, l)
	}}
}

func newConnectorStatus(c *cli) *cobra.Command {
	return &cobra.Command{Use: "status NAME", Short: "Show the states of a connector and its tasks", Args: exactArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		var s statusAnswer
		if _, err := c.rest(cmd.Context(), http.MethodGet, connectorPath(args[0])+"/status", nil, &s); err != nil {
			return fmt.Errorf("status of %s: %w", args[0], err)
		}
		if c.output != "table" {
			return c.encode(cmd.OutOrStdout(), s)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s (%s)  %s on %s  %s\n", s.Name, s.Type, s.Connector.State, s.Connector.Worker, s.Connector.Trace)
		for _, t := range s.Tasks {
			fmt.Fprintf(cmd.OutOrStdout(), "  task %d  %s on %s  %s\n", t.ID, t.State, t.Worker, t.Trace)
		}
		return nil
	}}
}

// describeConnector is all that the REST interface tells of one connector.
type describeConnector struct {
	Name    string            `json:"name"`
	Config  map[string]string `json:"config"`
	Status  statusAnswer      `json:"status"`
	Offsets json.RawMessage   `json:"offsets"`
	Topics  json.RawMessage   `json:"topics"`
}

func newConnectorDescribe(c *cli) *cobra.Command {
	return &cobra.Command{Use: "describe NAME", Short: "Show a connector's configuration, states, offsets and topics", Args: exactArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		d := describeConnector{Name: args[0]}
		if _, err := c.rest(cmd.Context(), http.MethodGet, connectorPath(args[0])+"/config", nil, &d.Config); err != nil {
			return fmt.Errorf("describe %s: %w", args[0], err)
		}
		for path, out := range map[string]any{"/status": &d.Status, "/offsets": &d.Offsets, "/topics": &d.Topics} {
			_, err := c.rest(cmd.Context(), http.MethodGet, connectorPath(args[0])+path, nil, out)
			var re *restError
			if err != nil && !errors.As(err, &re) { // an older worker has no offsets, a young connector no status
				return fmt.Errorf("describe %s: %w", args[0], err)
			}
		}
		if c.output == "table" {
			yaml := *c
			yaml.output = "yaml"
			return yaml.encode(cmd.OutOrStdout(), d)
		}
		return c.encode(cmd.OutOrStdout(), d)
	}}
}

// validateAnswer is Kafka Connect's validate answer, as far as it is shown.
type validateAnswer struct {
	Name    string `json:"name"`
	Errors  int    `json:"error_count"`
	Configs []struct {
		Value struct {
			Name   string   `json:"name"`
			Value  *string  `json:"value"`
			Errors []string `json:"errors"`
			Near   []string `json:"recommended_values"` // of a key that the connector does not know
		} `json:"value"`
		Definition *struct{} `json:"definition"`
	} `json:"configs"`
}

func newConnectorValidate(c *cli) *cobra.Command {
	return &cobra.Command{Use: "validate FILE|FOLDER…", Short: "Check connectors without creating them", Args: someArgs("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
		files, err := readConnectorFiles(args)
		if err != nil {
			return err
		}
		faults := 0
		for _, f := range files {
			var v validateAnswer
			if _, err := c.rest(cmd.Context(), http.MethodPut, "/connector-plugins/"+url.PathEscape(f.Config["connector.class"])+"/config/validate", f.Config, &v); err != nil {
				return fmt.Errorf("validate %s: %w", f.Name, err)
			}
			for _, k := range v.Configs {
				if k.Definition == nil && len(k.Value.Errors) == 0 {
					warning := fmt.Sprintf("%s: warning: %s is not known and not used", f.Name, k.Value.Name)
					if len(k.Value.Near) > 0 {
						warning += "; did you mean " + k.Value.Near[0] + "?"
					}
					fmt.Fprintln(cmd.OutOrStdout(), warning)
				}
				for _, e := range k.Value.Errors {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s: %s\n", f.Name, k.Value.Name, e)
				}
			}
			faults += v.Errors
		}
		if faults > 0 {
			return fmt.Errorf("%d errors", faults)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "valid")
		return nil
	}}
}

func newConnectorOffsets(c *cli) *cobra.Command {
	return &cobra.Command{Use: "offsets NAME", Short: "Show a connector's stored offsets", Args: exactArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		var answer struct {
			Offsets []struct {
				Partition json.RawMessage `json:"partition"`
				Offset    json.RawMessage `json:"offset"`
			} `json:"offsets"`
		}
		if _, err := c.rest(cmd.Context(), http.MethodGet, connectorPath(args[0])+"/offsets", nil, &answer); err != nil {
			return fmt.Errorf("offsets of %s: %w", args[0], err)
		}
		if c.output != "table" {
			return c.encode(cmd.OutOrStdout(), answer.Offsets)
		}
		for _, o := range answer.Offsets {
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", o.Partition, o.Offset)
		}
		return nil
	}}
}

// connectorAction makes a command that sends one request per connector.
func (c *cli) connectorAction(use, short, method, path string) *cobra.Command {
	return &cobra.Command{Use: use + " NAME…", Short: short, Args: someArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if _, err := c.rest(cmd.Context(), method, connectorPath(name)+path, nil, nil); err != nil {
				return fmt.Errorf("%s %s: %w", use, name, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, use)
		}
		return nil
	}}
}
