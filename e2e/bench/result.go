package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The sets of scenarios: weir alone beside the machine's limits, and beside its peers.
const (
	setLimits = "limits"
	setPeers  = "peers"
)

// result is what is kept of one scenario, in one file; a later run of the same scenario takes its place.
type result struct {
	Set      string            `json:"set"`
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Settings []string          `json:"settings"`
	Sides    []side            `json:"sides"`
	Pairs    []pair            `json:"pairs"`
	Limits   []figure          `json:"limits,omitempty"`
	Samples  []sample          `json:"samples,omitempty"`
	NotRun   map[string]string `json:"notRun,omitempty"` // by side: why
	Lines    []string          `json:"lines,omitempty"`  // of a measurement
	Profile  []string          `json:"profile,omitempty"`
	Seconds  int               `json:"seconds"`
	Rounds   int               `json:"rounds"`
	Complete bool              `json:"complete"`
	Machine  machine           `json:"machine"`
}

// machine is where and with what a scenario ran.
type machine struct {
	At       time.Time `json:"at"`
	Kernel   string    `json:"kernel"`
	CPU      string    `json:"cpu"`
	Cores    int       `json:"cores"`
	MemoryGB float64   `json:"memoryGB"`
	Load     string    `json:"load"` // 1, 5 and 15 minutes, before the scenario
	Versions []string  `json:"versions"`
	Weir     string    `json:"weir"` // hash of its binary and ours: what tells one run from another
}

func (b *bench) path(set, name string) string {
	return filepath.Join(b.store, "results", set+"-"+name+".json")
}

// resultOf is the stored result if the run that made it was cut short and asked the same of the same binary, else a new
// one. With -resume one that is complete is left as it is too.
func (b *bench) resultOf(set string, sc scenario) *result {
	fresh := &result{
		Set: set, Name: sc.name, Title: sc.title, Settings: sc.settings, Sides: sc.sides, Pairs: sc.pairs,
		NotRun: map[string]string{}, Seconds: b.seconds, Rounds: b.rounds, Machine: b.machine(),
	}
	old, err := readResult(b.path(set, sc.name))
	if err != nil || old.Seconds != fresh.Seconds || old.Rounds != fresh.Rounds || old.Machine.Weir != fresh.Machine.Weir ||
		(old.Complete && !b.resume) || !slices.EqualFunc(old.Sides, fresh.Sides, sameSide) {
		return fresh
	}
	old.NotRun, old.Title, old.Settings, old.Pairs = map[string]string{}, fresh.Title, fresh.Settings, fresh.Pairs
	return old
}

func sameSide(a, b side) bool {
	return a.Name == b.Name && a.Kind == b.Kind && slices.Equal(a.Settings, b.Settings)
}

func (r *result) has(side string, round int) bool {
	return slices.ContainsFunc(r.Samples, func(s sample) bool { return s.Side == side && s.Round == round })
}

// save writes the result so that it is there whole or not at all.
func (b *bench) save(r *result) error {
	path := b.path(r.Set, r.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readResult(path string) (*result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// machine tells the machine and the versions of what is compared.
func (b *bench) machine() machine {
	m := machine{At: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), Weir: b.binary}
	m.MemoryGB = procFields("/proc/meminfo")["MemTotal"] / (1 << 20)
	m.Kernel = firstWords("/proc/version", 3)
	m.Load = firstWords("/proc/loadavg", 3)
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpu)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	m.Versions = b.versions
	return m
}

func firstWords(path string, n int) string {
	text, _ := os.ReadFile(path)
	f := strings.Fields(string(text))
	return strings.Join(f[:min(n, len(f))], " ")
}

// identify finds out what is compared: asked once, as it does not change while we run.
func (b *bench) identify(ctx context.Context) {
	ask := func(what, pipeline string, args ...string) string {
		out, err := shell(ctx, pipeline, args...)
		if err != nil || out == "" {
			return ""
		}
		b.versions = append(b.versions, what+" "+strings.Split(out, "\n")[0])
		return out
	}
	ask("weir", `"$1" version | tail -n 1 | tr -s ' '`, b.weir)
	ask("commit", `git -C "$(dirname "$1")" log -1 --format='%h of %cs'`, b.weir)
	self, _ := os.Executable() // the figures depend on how they are taken, too
	b.binary, _ = shell(ctx, `cat "$1" "$2" | sha256sum | cut -c-16`, b.weir, self)
	libs := filepath.Join(b.peers, "..", "..", ".run", "peers")
	ask("Apache Kafka", `ls "$1"/lib-kafka | sed -n 's/^kafka_2.13-\(.*\)\.jar/\1/p'`, libs)
	ask("Debezium", `ls "$1"/lib-debezium | sed -n 's/^debezium-connector-postgres-\(.*\)\.jar/\1/p'`, libs)
	ask("Java", `java -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p'`)
	ask("", `psql --version`)
	ask("", `go version | cut -d' ' -f3`)
}

// results reads every stored one, limits first, in the catalog's order.
func (b *bench) results(order []string) ([]*result, error) {
	paths, err := filepath.Glob(filepath.Join(b.store, "results", "*.json"))
	if err != nil {
		return nil, err
	}
	var found []*result
	for _, p := range paths {
		r, err := readResult(p)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	slices.SortStableFunc(found, func(x, y *result) int {
		if x.Set != y.Set {
			return -strings.Compare(x.Set, y.Set) // peers first
		}
		return slices.Index(order, x.Name) - slices.Index(order, y.Name)
	})
	return found, nil
}

// values are a side's figures of one key, sorted.
func (r *result) values(side, key string) []float64 {
	var v []float64
	for _, s := range r.Samples {
		if s.Side != side {
			continue
		}
		for _, f := range s.Figures {
			if f.Key == key {
				v = append(v, f.Value)
			}
		}
	}
	slices.Sort(v)
	return v
}

func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// figures lists each figure that any sample has, once.
func (r *result) figures() []figure {
	var all []figure
	for _, s := range r.Samples {
		for _, f := range s.Figures {
			if !slices.ContainsFunc(all, func(g figure) bool { return g.Key == f.Key }) {
				all = append(all, f)
			}
		}
	}
	return all
}

// ratio says how many times better A is than B by medians: above 1 is a win for A. False where there is nothing to divide.
func (r *result) ratio(p pair, f figure) (float64, bool) {
	a, b := median(r.values(p.A, f.Key)), median(r.values(p.B, f.Key))
	if a <= 0 || b <= 0 {
		return 0, false
	}
	if f.Higher {
		return a / b, true
	}
	return b / a, true
}

// kindOf is the kind of a side's server.
func (r *result) kindOf(name string) string {
	for _, sd := range r.Sides {
		if sd.Name == name {
			return sd.Kind
		}
	}
	return ""
}

// control says whether a pair is the A/A control: the same server again, which its name says.
func (r *result) control(p pair) bool {
	return r.kindOf(p.A) == r.kindOf(p.B) && strings.HasSuffix(p.B, " again")
}

// noise is a figure's A/A ratio; 0 where the scenario has no control.
func (r *result) noise(f figure) float64 {
	for _, p := range r.Pairs {
		if ratio, ok := r.ratio(p, f); ok && r.control(p) {
			return ratio
		}
	}
	return 0
}
