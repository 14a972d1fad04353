package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/worker"
	"github.com/weirlog/weir/connectors"
	"github.com/weirlog/weir/core"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew, after reading what changes")

// golden compares what the program offers with what it has promised. Both directions fail: a line that goes breaks users,
// a line that comes is to be promised by adding it (-rewrite), in a commit that says so.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	slices.Sort(lines)
	lines = slices.Compact(lines)
	path := filepath.Join("testdata", "surface", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	promised := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, l := range promised {
		if !slices.Contains(lines, l) {
			t.Errorf("%s: promised and gone or changed: %s", name, l)
		}
	}
	for _, l := range lines {
		if !slices.Contains(promised, l) {
			t.Errorf("%s: offered and not in the golden file: %s", name, l)
		}
	}
}

func TestFlagsAreAppendOnly(t *testing.T) {
	var lines []string
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		lines = append(lines, cmd.CommandPath())
		add := func(f *pflag.Flag) {
			short := ""
			if f.Shorthand != "" {
				short = " -" + f.Shorthand
			}
			lines = append(lines, fmt.Sprintf("%s --%s%s %s default %q", cmd.CommandPath(), f.Name, short, f.Value.Type(), f.DefValue))
		}
		cmd.LocalNonPersistentFlags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
	golden(t, "flags", lines)
}

func TestKeysAreAppendOnly(t *testing.T) {
	golden(t, "broker-keys", core.Keys())
	golden(t, "node-keys", nodeKeys())
	var lines []string
	for _, c := range connectors.All() {
		lines = append(lines, c.Name+" answers to "+strings.Join(c.Aliases, " "))
		for _, f := range c.Fields {
			def := fmt.Sprintf("default %q", f.Default)
			if f.Required || f.NoDefault {
				def = "no default"
			}
			lines = append(lines, fmt.Sprintf("%s %s %s %s", c.Name, f.Name, f.Type, def))
		}
	}
	golden(t, "connector-keys", lines)
}

func TestMetricsAreAppendOnly(t *testing.T) {
	broker := &brokerMetrics{
		stats: func() core.Stats {
			return core.Stats{LatencyBounds: []time.Duration{time.Second}, Requests: []core.RequestStats{{Name: "Produce", Count: 1, Buckets: []int64{1, 0}}}}
		},
		partitions: func() []core.PartitionStats { return []core.PartitionStats{{Topic: "t"}} },
	}
	tasks := &workerMetrics{func() worker.Stats {
		return worker.Stats{Connectors: []worker.ConnectorStats{{Name: "c"}}, Tasks: []worker.TaskStats{{
			ID: worker.TaskID{Connector: "c"}, CommitLastAt: time.Now(), Lag: []worker.PartitionLag{{Topic: "t"}}, Gauges: []connect.Gauge{{Name: "a_gauge_of_the_connector"}},
		}}}
	}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(broker, tasks)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		lines = append(lines, fmt.Sprintf("%s %s {%s}", f.GetName(), f.GetType(), strings.Join(labels, ",")))
	}
	golden(t, "metrics", lines)
}
