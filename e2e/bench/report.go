package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const worstShown = 6

// report writes Markdown and a page with plots beside the results; page names one more place for the Markdown.
func (b *bench) report(order []string, page string) error {
	found, err := b.results(order)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no results in %s yet: run make bench or make bench-peers", b.store)
	}
	var text bytes.Buffer
	writeReport(&text, found)
	var html bytes.Buffer
	writeHTML(&html, found)
	files := map[string][]byte{filepath.Join(b.store, "report.md"): text.Bytes(), filepath.Join(b.store, "report.html"): html.Bytes()}
	if page != "" {
		files[page] = text.Bytes()
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

func writeReport(w io.Writer, found []*result) {
	m := found[0].Machine
	fmt.Fprintf(w, "# Results\n\nMade by `make bench-report` from the stored runs; nothing here is written by hand. How to read it: the median of the\nrounds, the range in brackets; a ratio above 1 means that weir is that many times better, below 1 that it is worse;\nthe A/A column is weir against itself, that is, the noise.\n\n")
	fmt.Fprintf(w, "- Machine: %s, %d cores, %.0f GB, %s\n- Versions: %s\n- Method: each round runs every side once, in turn; a run counts only when a foreign tool (kcat, psql, sha256sum, jq) found the right answer.\n",
		m.CPU, m.Cores, m.MemoryGB, m.Kernel, strings.Join(trimAll(m.Versions), ", "))
	if note := shortNote(found); note != "" {
		fmt.Fprintf(w, "- **%s**\n", note)
	}
	writeSummary(w, found)
	for _, r := range found {
		writeScenario(w, r)
	}
}

func trimAll(words []string) []string {
	out := make([]string, len(words))
	for i, s := range words {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

// shortNote warns of runs that were shorter than they should be or on a machine with other work.
func shortNote(found []*result) string {
	var why []string
	for _, r := range found {
		var load float64
		_, _ = fmt.Sscan(r.Machine.Load, &load) // 0 when it can't be read
		if r.Set == setPeers && len(r.Samples) > 0 && (r.Seconds < wantSeconds || r.Rounds < wantRounds) {
			why = append(why, fmt.Sprintf("%s ran %d × %d s", r.Name, r.Rounds, r.Seconds))
		}
		if load > float64(r.Machine.Cores)/2 && len(r.Samples)+len(r.Lines) > 0 {
			why = append(why, fmt.Sprintf("load %s before %s", strings.Fields(r.Machine.Load)[0], r.Name))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return fmt.Sprintf("Short runs or a busy machine, so take these as a first sight only (%d × %d s on a quiet machine are wanted): %s", wantRounds, wantSeconds, strings.Join(why, "; "))
}

// standing is one ratio with its place.
type standing struct {
	scenario string
	pair     pair
	figure   figure
	ratio    float64
	noise    float64 // the same figure's A/A ratio; 0 where there is none
}

func standings(found []*result) []standing {
	var all []standing
	for _, r := range found {
		for _, p := range r.Pairs {
			for _, f := range r.figures() {
				// Told by bytes already, or not a merit.
				if strings.HasSuffix(f.Key, "_records") || f.Key == "dirtied" {
					continue
				}
				if ratio, ok := r.ratio(p, f); ok && r.Set == setPeers && !r.control(p) {
					all = append(all, standing{r.Name, p, f, ratio, r.noise(f)})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(x, y standing) int { return cmp.Compare(x.ratio, y.ratio) })
	return all
}

func writeSummary(w io.Writer, found []*result) {
	all := standings(found)
	if len(all) > 0 {
		wins := 0
		for _, s := range all {
			if s.ratio > 1 {
				wins++
			}
		}
		fmt.Fprintf(w, "\n## At a glance\n\nOf %d figures beside peers weir is better in %d and worse or equal in %d.\n\n", len(all), wins, len(all)-wins)
		fmt.Fprintf(w, "| the worst | figure | weir against | ratio | A/A |\n|---|---|---|---|---|\n")
		for _, s := range all[:min(worstShown, len(all))] {
			fmt.Fprintf(w, "| %s | %s, %s | %s | %s | %s |\n", s.scenario, s.figure.Label, s.figure.Unit, s.pair.B, number(s.ratio), number(s.noise))
		}
	}
	for _, r := range found {
		for _, sd := range r.Sides {
			if why := r.NotRun[sd.Name]; why != "" {
				fmt.Fprintf(w, "\nNot run: %s, %s: %s\n", r.Name, sd.Name, strings.TrimPrefix(why, "not run: "))
			}
		}
	}
}

// writeScenario writes one scenario's table.
func writeScenario(w io.Writer, r *result) {
	fmt.Fprintf(w, "\n## %s (%s): %s\n\n", r.Name, r.Set, r.Title)
	for _, line := range r.Lines {
		fmt.Fprintf(w, "- %s\n", line)
	}
	for _, line := range r.Settings {
		fmt.Fprintf(w, "- %s\n", line)
	}
	for _, sd := range r.Sides {
		if why := r.NotRun[sd.Name]; why != "" {
			fmt.Fprintf(w, "- **%s: not run: %s**\n", sd.Name, strings.TrimPrefix(why, "not run: "))
		} else if len(sd.Settings) > 0 {
			fmt.Fprintf(w, "- %s: `%s`\n", sd.Name, strings.Join(sd.Settings, "`, `"))
		}
	}
	if len(r.Samples) == 0 {
		return
	}
	fmt.Fprintf(w, "- %d rounds of %d s, %s, load before it %s\n", r.Rounds, r.Seconds, r.Machine.At.Format("2006-01-02 15:04"), r.Machine.Load)
	if !r.Complete && len(r.NotRun) == 0 {
		fmt.Fprintf(w, "- **cut short: not all rounds were run**\n")
	}
	for _, f := range r.Limits {
		fmt.Fprintf(w, "- the machine: %s %s %s\n", f.Label, number(f.Value), f.Unit)
	}
	writeTable(w, r)
	for _, sd := range r.Sides {
		if i := slices.IndexFunc(r.Samples, func(s sample) bool { return s.Side == sd.Name }); i >= 0 {
			fmt.Fprintf(w, "- verified, %s: %s\n", sd.Name, r.Samples[i].Verified)
		}
	}
	if len(r.Profile) > 0 {
		fmt.Fprintf(w, "\n```\n%s\n```\n", strings.Join(r.Profile, "\n"))
	}
}

func writeTable(w io.Writer, r *result) {
	fmt.Fprint(w, "\n| figure | unit |")
	for _, sd := range r.Sides {
		fmt.Fprintf(w, " %s |", sd.Name)
	}
	for _, p := range r.Pairs {
		if r.control(p) {
			fmt.Fprint(w, " A/A |")
		} else {
			fmt.Fprintf(w, " %s ÷ %s |", p.A, p.B)
		}
	}
	fmt.Fprintf(w, "\n|---|---|%s\n", strings.Repeat("---|", len(r.Sides)+len(r.Pairs)))
	for _, f := range r.figures() {
		better := "lower is better"
		if f.Higher {
			better = "higher is better"
		}
		fmt.Fprintf(w, "| %s (%s) | %s |", f.Label, better, f.Unit)
		for _, sd := range r.Sides {
			fmt.Fprintf(w, " %s |", spread(r.values(sd.Name, f.Key)))
		}
		for _, p := range r.Pairs {
			if ratio, ok := r.ratio(p, f); ok {
				fmt.Fprintf(w, " %s |", number(ratio))
			} else {
				fmt.Fprint(w, " – |")
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// spread is the median and, of several values, the range.
func spread(sorted []float64) string {
	switch len(sorted) {
	case 0:
		return "–"
	case 1:
		return number(sorted[0])
	}
	return fmt.Sprintf("%s [%s–%s]", number(median(sorted)), number(sorted[0]), number(sorted[len(sorted)-1]))
}

// number prints three figures' worth.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return thousands(fmt.Sprintf("%.0f", v))
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.01:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func thousands(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
